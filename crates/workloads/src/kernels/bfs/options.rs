//! The parsed parameters of workload `bfs`.

use graph::{ArrayPlacement, COLUMNS_MAX, Dram, Isa, Spec, Tuning};
use machine::memory::HugePages;
use model::values::workload::{ParameterKind, Parameters};

use crate::describe::{Parameter, choice};
use crate::job::{Failure, TrialContext};

/// Default number of neighbours per vertex in columns: a seventh of all at scale 22. Each further column finds fewer
/// parents.
const COLUMNS: u32 = 16;
/// The study's "at most 10 edges per vertex in DRAM".
const COLUMNS_STUDY: u32 = 10;

pub(super) struct Options {
    pub(super) spec: Spec,
    pub(super) roots: usize,
    /// The requested number; `None` for the default, or for what fits in `dram`.
    pub(super) columns: Option<u32>,
    /// DRAM limit of a semi-external graph; `None` if the whole graph is in DRAM.
    pub(super) dram: Option<Dram>,
    /// Directory of the far file.
    pub(super) dir: String,
    /// Whether the edge list stays in memory while the graph is searched.
    pub(super) keeps_edges: bool,
    pub(super) tuning: Tuning,
    /// Whether alpha and beta are tuned first.
    pub(super) tune: bool,
    pub(super) isa: Isa,
    huge_pages: HugePages,
}

pub(super) fn parameters() -> [Parameter; 12] {
    let number = |name, about, min, max, default, smoke| Parameter {
        name,
        about,
        kind: ParameterKind::Integer { min, max },
        default: Some(default),
        smoke,
    };
    let word = |name, about, words: &[&'static str]| Parameter {
        name,
        about,
        kind: choice(words),
        default: Some(words[0]),
        smoke: None,
    };
    let text = |name, about, default| Parameter {
        name,
        about,
        kind: ParameterKind::Text,
        default: Some(default),
        smoke: None,
    };
    [
        number("scale", "2^scale vertices; each increment doubles the memory", 1, 31, "20", Some("12")),
        number("edge-factor", "edges per vertex; the Graph500 has 16", 1, 65_536, "16", None),
        number("roots", "number of searches; the Graph500 runs 64", 1, 4096, "64", None),
        word(
            "mode",
            "in-core: the graph is in memory; semi-external: its coded lists are in a file; expanded: in-core for a \
             placement with +expand:SIZE, without the edge list during the searches",
            &["in-core", "semi-external", "expanded"],
        ),
        text(
            "dram",
            "semi-external: DRAM for the first neighbours of the lists, the index and hubs: a size, a percentage of \
             the coded lists, or all, which is in-core",
            "50%",
        ),
        text(
            "directory",
            "semi-external: directory of the file: on a disk, memory:DIR if it is not on one, or auto for \
             $NEARFAR_FAR, else /var/tmp or /tmp",
            "auto",
        ),
        word(
            "preset",
            "values of alpha, beta and k that are 0: defaults of the mode, or 64, 4 and 10 of the far-memory study",
            &["mode", "study"],
        ),
        number(
            "alpha",
            "bottom-up once the frontier has more than 1/alpha of the unexplored edges; 0 uses the preset",
            0,
            1_000_000,
            "0",
            None,
        ),
        number(
            "beta",
            "top-down again once a shrinking frontier has less than 1/beta of the vertices; 0 uses the preset",
            0,
            1_000_000_000,
            "0",
            None,
        ),
        number(
            "k",
            "number of neighbours per vertex in columns, the others are coded; 0 uses the preset, or as many as dram \
             allows",
            0,
            COLUMNS_MAX.into(),
            "0",
            None,
        ),
        Parameter {
            name: "tune",
            about: "tune alpha and beta before the measurement, with a few searches from other roots; given values of \
                    alpha and beta are the start",
            kind: ParameterKind::Switch,
            default: Some("false"),
            smoke: None,
        },
        word(
            "isa",
            "vector instructions; auto uses the best of this CPU",
            &["auto", "avx512", "avx2", "neon", "plain"],
        ),
    ]
}

impl Options {
    pub(super) fn read(parameters: &Parameters) -> Result<Self, Failure> {
        let mode = parameters.text("mode");
        let dram = if mode == "semi-external" { dram(parameters).map_err(Failure::Failed)? } else { None };
        let far = dram.is_some();
        let (mut tuning, columns) = match (parameters.text("preset"), far) {
            ("study", _) => (Tuning::STUDY, Some(COLUMNS_STUDY)),
            (_, true) => (Tuning::FAR, None),
            (_, false) => (Tuning::DRAM, None),
        };
        let given = |name: &str| Some(parameters.integer(name)).filter(|number| *number > 0);
        tuning.alpha = given("alpha").map_or(tuning.alpha, |alpha| alpha as f64);
        tuning.beta = given("beta").map_or(tuning.beta, |beta| beta as f64);
        let columns = given("k").map(|k| k as u32).or(columns);
        let spec = Spec::graph500(parameters.integer("scale") as u32);
        Ok(Self {
            spec: Spec { edge_factor: parameters.integer("edge-factor") as u64, ..spec },
            roots: parameters.size("roots"),
            columns,
            dram,
            dir: parameters.text("directory").into(),
            keeps_edges: mode != "expanded" && dram.is_none(),
            tuning,
            tune: parameters.switch("tune"),
            isa: isa(parameters.text("isa"))?,
            huge_pages: match parameters.text("huge-pages") {
                "yes" => HugePages::Wanted,
                "no" => HugePages::Never,
                _ => HugePages::System,
            },
        })
    }

    /// Number of columns of a graph that is all in DRAM.
    pub(super) fn columns_or_default(&self) -> u32 {
        self.columns.unwrap_or(COLUMNS)
    }

    pub(super) fn placement(&self, job: &TrialContext) -> ArrayPlacement {
        ArrayPlacement { policy: job.memory.clone(), huge_pages: self.huge_pages }
    }
}

/// Returns the DRAM limit of a semi-external graph; `None` if the whole graph is in DRAM.
pub(super) fn dram(parameters: &Parameters) -> Result<Option<Dram>, String> {
    match parameters.text("dram").trim() {
        "all" => Ok(None),
        text => Dram::parse(text).map(Some),
    }
}

fn isa(name: &str) -> Result<Isa, Failure> {
    match Isa::ALL.into_iter().find(|isa| isa.name() == name) {
        None => Ok(Isa::best()),
        Some(isa) if isa.is_here() => Ok(isa),
        Some(isa) => Err(Failure::Unavailable(format!(
            "this CPU does not support {}; hint: isa=auto, which selects {}",
            isa.name(),
            Isa::best().name()
        ))),
    }
}

/// Width of the vectors in bits, stored as a raw sample.
pub(super) fn vector_bits(isa: Isa) -> f64 {
    match isa {
        Isa::Avx512 => 512.0,
        Isa::Avx2 => 256.0,
        Isa::Neon => 128.0,
        Isa::Plain => 32.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{job_for_tests, set};

    #[test]
    fn presets_apply_unless_overridden() {
        let read = |given: &[(&str, &str)]| {
            let mut job = job_for_tests("bfs");
            given.iter().for_each(|(name, value)| set(&mut job, name, value));
            let options = Options::read(&job.parameters).unwrap();
            (options.tuning.alpha, options.tuning.beta, options.columns_or_default())
        };
        assert_eq!(read(&[]), (Tuning::DRAM.alpha, Tuning::DRAM.beta, 16));
        let far = ("mode", "semi-external");
        assert_eq!(read(&[far]), (Tuning::FAR.alpha, Tuning::FAR.beta, 16));
        assert_eq!(read(&[far, ("dram", "all")]), read(&[]));
        assert_eq!(read(&[far, ("preset", "study")]), (64.0, 4.0, 10));
        assert_eq!(read(&[("preset", "study")]), (64.0, 4.0, 10));
        assert_eq!(read(&[("preset", "study"), ("alpha", "7"), ("k", "3")]), (7.0, 4.0, 3));
    }
}
