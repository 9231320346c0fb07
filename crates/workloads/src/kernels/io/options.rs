//! The parameters of `io` as typed values. Rejects invalid values before any file is opened.

use model::values::workload::Parameters;

use super::SECTOR;
use super::data::Data;

/// The parsed parameters of a trial.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate parameter")]
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub file: String,
    pub bytes: u64,
    pub engine: IoEngine,
    /// 100: only reads; 0: only writes.
    pub reads_percent: u64,
    pub mixed: bool,
    pub spread: Spread,
    /// Size of one request.
    pub block: usize,
    pub depth: usize,
    pub direct: bool,
    pub runtime_ns: u64,
    /// Bytes per thread, or 0 for a run limited by time.
    pub amount: u64,
    pub ramp_ns: u64,
    /// Requests per second and thread; 0: closed loop.
    pub rate: u64,
    pub data: Data,
    pub verify: bool,
    pub fsync: u64,
    pub may_overwrite: String,
    pub registered: bool,
    pub sqpoll: bool,
    pub iopoll: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoEngine {
    IoUring,
    Psync,
    Preadv2,
    Libaio,
    Mmap,
}

/// Distribution of the requests over the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    InTurn,
    Uniform,
    Zipf(f64),
}

/// Maximum number of files; there are metrics for this many.
pub(crate) const FILES_MAX: usize = 8;

/// Maximum skew; steeper distributions request only the first block.
const THETA_MAX: f64 = 10.0;

/// Returns whether both reads and writes are requested, in any proportion.
pub(crate) fn mixes(parameters: &Parameters) -> bool {
    parameters.text("rw").ends_with("rw")
}

/// Returns whether writes are requested, even if their share is zero.
pub(crate) fn has_writes(parameters: &Parameters) -> bool {
    !parameters.text("rw").ends_with("read")
}

impl Options {
    /// Parses the parameters. Rejects those that are invalid on any machine.
    pub(super) fn read(parameters: &Parameters) -> Result<Self, String> {
        let number = |name: &str| parameters.integer(name) as u64;
        let (rw, mixed) = (parameters.text("rw"), mixes(parameters));
        let block = parameters.size("bs");
        if !block.is_multiple_of(SECTOR) {
            return Err(format!("bs is {block} bytes, which is not a multiple of {SECTOR}"));
        }
        Ok(Self {
            file: parameters.text("file").into(),
            bytes: number("size"),
            engine: IoEngine::by_name(parameters.text("engine")),
            reads_percent: if mixed { number("mix") } else { 100 * u64::from(!has_writes(parameters)) },
            mixed,
            spread: spread(rw, parameters.text("distribution"))?,
            block,
            depth: parameters.size("iodepth"),
            direct: parameters.switch("direct"),
            runtime_ns: number("runtime"),
            amount: number("amount"),
            ramp_ns: number("ramp"),
            rate: number("rate"),
            data: Data::parse(parameters.text("data"))?,
            verify: parameters.switch("verify"),
            fsync: number("fsync"),
            may_overwrite: parameters.text("allow-overwrite").into(),
            registered: parameters.switch("registered"),
            sqpoll: parameters.switch("sqpoll"),
            iopoll: parameters.switch("iopoll"),
        })
    }

    pub(super) fn writes(&self) -> bool {
        self.reads_percent < 100
    }

    /// Returns whether sectors carry stamps. All-zero data has none.
    pub(super) fn stamped(&self) -> bool {
        self.data != Data::Zero || self.verify
    }

    /// Returns the options for each of the named files. Threads are assigned to the files in turn.
    pub(super) fn each_file(&self) -> Result<Vec<Self>, String> {
        let files = list(&self.file);
        let allowed: Vec<String> = list(&self.may_overwrite).into_iter().filter(|path| !path.is_empty()).collect();
        if files.len() > FILES_MAX {
            return Err(format!("file names {} files, but at most {FILES_MAX} are supported", files.len()));
        }
        if let Some(twice) = files.iter().enumerate().find(|(at, file)| files[..*at].contains(file)) {
            return Err(format!("file names {} twice", twice.1));
        }
        if let Some(other) = allowed.iter().find(|path| files.len() > 1 && !files.contains(path)) {
            return Err(format!("--allow-overwrite {other} names none of the files"));
        }
        if files.len() < 2 {
            return Ok(vec![self.clone()]);
        }
        let one = |file: &String| {
            let may_overwrite = allowed.iter().find(|path| *path == file).cloned().unwrap_or_default();
            Self { file: file.clone(), may_overwrite, ..self.clone() }
        };
        Ok(files.iter().map(one).collect())
    }

    /// Rejects invalid combinations. Checked in the trial rather than in the plan: a list of engines combined with a
    /// list of depths is a valid experiment, of which some cells fail.
    pub(super) fn check_combination(&self) -> Result<(), String> {
        let (engine, depth) = (self.engine.name(), self.depth);
        let queues = matches!(self.engine, IoEngine::IoUring | IoEngine::Libaio);
        if !queues && depth > 1 {
            return Err(format!(
                "{engine} supports one request in flight, not {depth}; hint: engine=io_uring or engine=libaio"
            ));
        }
        if self.engine == IoEngine::Mmap && self.direct {
            return Err("mmap uses the page cache; hint: direct=false".into());
        }
        if self.sqpoll && self.engine != IoEngine::IoUring {
            return Err(format!("sqpoll is supported by io_uring only, not by {engine}"));
        }
        if self.iopoll && !matches!(self.engine, IoEngine::IoUring | IoEngine::Preadv2) {
            return Err(format!("iopoll is supported by io_uring and preadv2 only, not by {engine}"));
        }
        if self.iopoll && !self.direct {
            return Err("iopoll needs direct=true: the page cache cannot be polled".into());
        }
        if self.iopoll && self.engine == IoEngine::IoUring && self.fsync > 0 {
            return Err("io_uring with iopoll does not support fsync; hint: fsync=0".into());
        }
        Ok(())
    }
}

impl IoEngine {
    const NAMES: [(&'static str, Self); 5] = [
        ("io_uring", Self::IoUring),
        ("psync", Self::Psync),
        ("preadv2", Self::Preadv2),
        ("libaio", Self::Libaio),
        ("mmap", Self::Mmap),
    ];

    fn by_name(word: &str) -> Self {
        let found = Self::NAMES.iter().find(|(name, _)| *name == word);
        found.expect("the description allows no other values").1
    }

    pub(super) fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, engine)| *engine == self);
        found.expect("every engine has a name").0
    }
}

/// Splits a comma-separated list of paths. A text that is the path of an existing file is a single path.
fn list(text: &str) -> Vec<String> {
    if !text.contains(',') || std::path::Path::new(text).exists() {
        return vec![text.into()];
    }
    text.split(',').map(|path| path.trim().to_string()).collect()
}

fn spread(rw: &str, distribution: &str) -> Result<Spread, String> {
    let is_random = rw.starts_with("rand");
    if distribution == "random" {
        return Ok(if is_random { Spread::Uniform } else { Spread::InTurn });
    }
    let theta = distribution.strip_prefix("zipf:").and_then(|theta| theta.parse::<f64>().ok());
    let theta = theta.filter(|theta| *theta > 0.0 && *theta <= THETA_MAX);
    let theta = theta.ok_or_else(|| {
        format!(
            "invalid value '{distribution}' for distribution: must be random or zipf:THETA with 0 < THETA <= {THETA_MAX}"
        )
    })?;
    if is_random { Ok(Spread::Zipf(theta)) } else { Err(format!("rw={rw} is sequential, so it has no distribution")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::io::for_tests::{options, parameters};

    #[test]
    fn request_kinds_are_parsed() {
        let kind = |rw: &str| {
            let options = options(&[("rw", rw)]);
            (options.reads_percent, options.mixed, options.spread)
        };
        assert_eq!(kind("randread"), (100, false, Spread::Uniform));
        assert_eq!(kind("read"), (100, false, Spread::InTurn));
        assert_eq!(kind("randwrite"), (0, false, Spread::Uniform));
        assert_eq!(kind("write"), (0, false, Spread::InTurn));
        assert_eq!(kind("randrw"), (70, true, Spread::Uniform));
        assert_eq!(kind("rw"), (70, true, Spread::InTurn));
        assert_eq!(options(&[("distribution", "zipf:1.2")]).spread, Spread::Zipf(1.2));
    }

    #[test]
    fn invalid_values_are_rejected() {
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[("bs", "700")], "not a multiple of 512"),
            (&[("distribution", "pareto:1")], "must be random or zipf:THETA"),
            (&[("distribution", "zipf:-1")], "must be random or zipf:THETA"),
            (&[("distribution", "zipf:1"), ("rw", "read")], "is sequential"),
            (&[("data", "ones")], "'ones'"),
            (&[("data", "compress:101")], "compress:101"),
            (&[("data", "compress:x")], "compress:x"),
        ];
        for (pairs, expected) in cases {
            let error = Options::read(&parameters(pairs)).unwrap_err();
            assert!(error.contains(expected), "{pairs:?}: {error}");
        }
    }

    #[test]
    fn invalid_combinations_are_rejected() {
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[("engine", "psync"), ("iodepth", "2")], "psync supports one request in flight"),
            (&[("engine", "mmap"), ("direct", "true")], "direct=false"),
            (&[("engine", "libaio"), ("sqpoll", "true")], "sqpoll is supported by io_uring only"),
            (&[("engine", "libaio"), ("iopoll", "true"), ("direct", "true")], "not by libaio"),
            (&[("iopoll", "true"), ("direct", "false")], "needs direct=true"),
            (&[("iopoll", "true"), ("direct", "true"), ("fsync", "2")], "does not support fsync"),
            (&[("engine", "preadv2"), ("iodepth", "9")], "preadv2 supports one request"),
        ];
        for (pairs, expected) in cases {
            let error = options(pairs).check_combination().unwrap_err();
            assert!(error.contains(expected), "{pairs:?}: {error}");
        }
        assert_eq!(
            options(&[("engine", "preadv2"), ("iopoll", "true"), ("direct", "true")]).check_combination(),
            Ok(())
        );
    }
}
