//! The parameters of `io` as values, and what is wrong with them before anything is opened.

use model::values::workload::Parameters;

use super::SECTOR;
use super::data::Data;

/// What a trial was asked to do.
#[expect(clippy::struct_excessive_bools, reason = "each is a parameter of its own")]
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub file: String,
    pub bytes: u64,
    pub engine: IoEngine,
    /// 100: reads alone; 0: writes alone.
    pub reads_percent: u64,
    pub mixed: bool,
    pub spread: Spread,
    /// Bytes of one request.
    pub block: usize,
    pub depth: usize,
    pub direct: bool,
    pub runtime_ns: u64,
    /// Bytes of each thread; 0 when the time bounds it.
    pub amount: u64,
    pub ramp_ns: u64,
    /// Requests a second of each thread; 0: closed loop.
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

/// How requests lie over the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    InTurn,
    Uniform,
    Zipf(f64),
}

/// As many as there are metrics for.
pub(crate) const FILES_MAX: usize = 8;

/// Steeper ones ask for the first place only.
const THETA_MAX: f64 = 10.0;

/// Whether reads and writes are asked for, in whatever shares.
pub(crate) fn mixes(parameters: &Parameters) -> bool {
    parameters.text("rw").ends_with("rw")
}

/// Whether writes are asked for, even if a mix has a share of none.
pub(crate) fn asks_to_write(parameters: &Parameters) -> bool {
    !parameters.text("rw").ends_with("read")
}

impl Options {
    /// What parameters say; what is wrong with them alone, whatever the machine.
    pub(super) fn read(parameters: &Parameters) -> Result<Self, String> {
        let number = |name: &str| parameters.integer(name) as u64;
        let (rw, mixed) = (parameters.text("rw"), mixes(parameters));
        let block = parameters.size("bs");
        if !block.is_multiple_of(SECTOR) {
            return Err(format!("bs is {block} bytes, which are no whole sectors of {SECTOR}"));
        }
        Ok(Self {
            file: parameters.text("file").into(),
            bytes: number("size"),
            engine: IoEngine::of(parameters.text("engine")),
            reads_percent: if mixed { number("mix") } else { 100 * u64::from(!asks_to_write(parameters)) },
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

    /// Whether sectors carry stamps: what is to be all zeros has none.
    pub(super) fn stamped(&self) -> bool {
        self.data != Data::Zero || self.verify
    }

    /// The same for each file that is named, of which each thread has one: the first thread the first, and so on in turn.
    pub(super) fn each_file(&self) -> Result<Vec<Self>, String> {
        let files = list(&self.file);
        let allowed: Vec<String> = list(&self.may_overwrite).into_iter().filter(|path| !path.is_empty()).collect();
        if files.len() > FILES_MAX {
            return Err(format!("file names {} files, and {FILES_MAX} are the most", files.len()));
        }
        if let Some(twice) = files.iter().enumerate().find(|(at, file)| files[..*at].contains(file)) {
            return Err(format!("file names {} twice", twice.1));
        }
        if let Some(other) = allowed.iter().find(|path| files.len() > 1 && !files.contains(path)) {
            return Err(format!("--allow-overwrite {other}, which is none of the files"));
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

    /// What does not go together. Looked at in the trial and not before: a list of engines by a list of depths is a fair
    /// experiment, of which some cells come to nothing.
    pub(super) fn possible(&self) -> Result<(), String> {
        let (engine, depth) = (self.engine.name(), self.depth);
        let queues = matches!(self.engine, IoEngine::IoUring | IoEngine::Libaio);
        if !queues && depth > 1 {
            return Err(format!(
                "{engine} has one request under way, not {depth}; hint: io_uring and libaio have more"
            ));
        }
        if self.engine == IoEngine::Mmap && self.direct {
            return Err("mmap goes by the page cache; hint: direct=false".into());
        }
        if self.sqpoll && self.engine != IoEngine::IoUring {
            return Err(format!("sqpoll is io_uring's, {engine} has none"));
        }
        if self.iopoll && !matches!(self.engine, IoEngine::IoUring | IoEngine::Preadv2) {
            return Err(format!("iopoll is for io_uring and preadv2, {engine} has none"));
        }
        if self.iopoll && !self.direct {
            return Err("iopoll needs direct=true: the page cache cannot be polled".into());
        }
        if self.iopoll && self.engine == IoEngine::IoUring && self.fsync > 0 {
            return Err("an io_uring with iopoll takes no fsync; hint: fsync=0".into());
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

    fn of(word: &str) -> Self {
        let found = Self::NAMES.iter().find(|(name, _)| *name == word);
        found.expect("the description allows no other words").1
    }

    pub(super) fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, engine)| *engine == self);
        found.expect("every engine has a name").0
    }
}

/// The paths of a list with commas between them; a text that is the path of something that is there is one path.
fn list(text: &str) -> Vec<String> {
    if !text.contains(',') || std::path::Path::new(text).exists() {
        return vec![text.into()];
    }
    text.split(',').map(|path| path.trim().to_string()).collect()
}

fn spread(rw: &str, distribution: &str) -> Result<Spread, String> {
    let anywhere = rw.starts_with("rand");
    if distribution == "random" {
        return Ok(if anywhere { Spread::Uniform } else { Spread::InTurn });
    }
    let theta = distribution.strip_prefix("zipf:").and_then(|theta| theta.parse::<f64>().ok());
    let theta = theta.filter(|theta| *theta > 0.0 && *theta <= THETA_MAX);
    let theta = theta.ok_or_else(|| {
        format!(
            "distribution '{distribution}' is neither random nor zipf:THETA with THETA above 0 and up to {THETA_MAX}"
        )
    })?;
    if anywhere { Ok(Spread::Zipf(theta)) } else { Err(format!("rw={rw} goes in order, so it has no distribution")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::io::for_tests::{options, parameters};

    #[test]
    fn kinds_of_requests_are_read() {
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
    fn mistakes_are_named() {
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[("bs", "700")], "no whole sectors"),
            (&[("distribution", "pareto:1")], "neither random nor zipf:THETA"),
            (&[("distribution", "zipf:-1")], "neither random nor zipf:THETA"),
            (&[("distribution", "zipf:1"), ("rw", "read")], "goes in order"),
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
    fn what_does_not_go_together_is_named() {
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[("engine", "psync"), ("iodepth", "2")], "psync has one request under way"),
            (&[("engine", "mmap"), ("direct", "true")], "direct=false"),
            (&[("engine", "libaio"), ("sqpoll", "true")], "sqpoll is io_uring's"),
            (&[("engine", "libaio"), ("iopoll", "true"), ("direct", "true")], "libaio has none"),
            (&[("iopoll", "true"), ("direct", "false")], "needs direct=true"),
            (&[("iopoll", "true"), ("direct", "true"), ("fsync", "2")], "takes no fsync"),
            (&[("engine", "preadv2"), ("iodepth", "9")], "preadv2 has one request"),
        ];
        for (pairs, expected) in cases {
            let error = options(pairs).possible().unwrap_err();
            assert!(error.contains(expected), "{pairs:?}: {error}");
        }
        assert_eq!(options(&[("engine", "preadv2"), ("iopoll", "true"), ("direct", "true")]).possible(), Ok(()));
    }
}
