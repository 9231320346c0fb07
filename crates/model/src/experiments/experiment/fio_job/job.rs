//! Converts one job of a fio job file to parameters of the workload `io`.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::text::{JobSection, KeyValue, error};
use super::value::{count, exact_time, size, switch, time};
use crate::experiments::experiment::read::check_value;
use crate::experiments::experiment::{ExperimentError, ThreadCount};
use crate::values::suggest::suggestions;
use crate::values::units::{Bytes, Nanos};
use crate::values::workload::{ParameterKind, Value, WorkloadSpec};

/// Supported options, with fio's synonyms.
const OPTIONS: [(&str, Option<&str>); 38] = [
    ("rw", Some("readwrite")),
    ("bs", Some("blocksize")),
    ("size", None),
    ("io_size", Some("io_limit")),
    ("filename", None),
    ("directory", None),
    ("ioengine", None),
    ("iodepth", None),
    ("direct", None),
    ("buffered", None),
    ("runtime", Some("timeout")),
    ("time_based", None),
    ("ramp_time", None),
    ("loops", None),
    ("rwmixread", None),
    ("rwmixwrite", None),
    ("rate_iops", None),
    ("random_distribution", None),
    ("norandommap", None),
    ("randrepeat", None),
    ("fsync", None),
    ("zero_buffers", None),
    ("refill_buffers", None),
    ("buffer_compress_percentage", None),
    ("verify", None),
    ("fixedbufs", None),
    ("registerfiles", None),
    ("sqthread_poll", None),
    ("hipri", None),
    ("numjobs", None),
    ("stonewall", Some("wait_for_previous")),
    ("thread", None),
    ("group_reporting", None),
    ("name", None),
    ("description", None),
    ("kb_base", None),
    ("unit_base", None),
    ("invalidate", None),
];

/// Prefixes of options that have another equivalent in this program, with a hint.
const ELSEWHERE: [(&str, &str); 5] = [
    ("cpus_allowed", "CPUs are selected by a placement: nearfar run --fio FILE --placement '-C 0-3'"),
    ("cpumask", "CPUs are selected by a placement: nearfar run --fio FILE --placement '-C 0-3'"),
    ("numa_", "CPUs and memory nodes are selected by a placement: nearfar run --fio FILE --placement '-N 0 -m 0'"),
    ("include", "copy the lines of that file into this one"),
    ("rate", "only request rates are supported: rate_iops=1000"),
];

/// Supported fio engines and their names in the workload `io`.
const ENGINES: [(&str, &str); 5] =
    [("io_uring", "io_uring"), ("psync", "psync"), ("pvsync2", "preadv2"), ("libaio", "libaio"), ("mmap", "mmap")];

/// fio's checksum methods. The workload `io` has a single check for all of them.
const CHECKSUMS: [&str; 15] = [
    "md5",
    "crc64",
    "crc32",
    "crc32c",
    "crc32c-intel",
    "crc16",
    "crc7",
    "xxhash",
    "sha1",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
];

/// Default of fio.
const MIX: u64 = 50;

type Result<T> = std::result::Result<T, ExperimentError>;

/// A job with only known options.
pub(super) struct FioJob<'a> {
    file: &'a str,
    section: &'a JobSection<'a>,
    spec: &'a WorkloadSpec,
    options: BTreeMap<&'static str, KeyValue<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct FioPlan {
    pub set: Vec<(String, Vec<String>)>,
    /// Number of threads; `None` for one.
    pub threads: Vec<ThreadCount>,
    /// Measurement time; `None` if the job does not set it.
    pub time: Nanos,
    /// Differences from fio.
    pub notes: Vec<String>,
}

impl<'a> FioJob<'a> {
    /// Validates the names of the options.
    pub(super) fn new(file: &'a str, section: &'a JobSection<'a>, spec: &'a WorkloadSpec) -> Result<Self> {
        let mut options = BTreeMap::new();
        for entry in &section.entries {
            let known = |(name, other): &&(&str, Option<&str>)| *name == entry.key || *other == Some(entry.key);
            let (name, _) = OPTIONS.iter().find(known).ok_or_else(|| unknown(file, entry))?;
            options.insert(*name, *entry);
        }
        Ok(Self { file, section, spec, options })
    }

    pub(super) fn name(&self) -> &'a str {
        let given = self.options.get("name").and_then(|entry| entry.value).filter(|name| !name.is_empty());
        given.unwrap_or(self.section.name)
    }

    /// Whether the job starts after the previous ones have ended (`stonewall`).
    pub(super) fn has_think_time(&self) -> Result<bool> {
        self.switch("stonewall")
    }

    pub(super) fn read(&self) -> Result<FioPlan> {
        let mut read = FioPlan::default();
        let engine = self.target(&mut read)?;
        self.requests(&mut read, engine)?;
        self.data(&mut read)?;
        self.ring(&mut read, engine)?;
        self.end(&mut read)?;
        for name in ["norandommap", "randrepeat", "thread", "group_reporting", "refill_buffers", "invalidate"] {
            self.switch(name)?;
        }
        if let Some(jobs) = self.count("numjobs")? {
            let within = usize::try_from(jobs).ok().filter(|jobs| (1..=65_536).contains(jobs));
            let jobs = within.ok_or_else(|| self.wrong("numjobs", format!("{jobs} is not a valid thread count")))?;
            read.threads = vec![ThreadCount::Exactly(jobs)];
            if jobs > 1 && self.text("filename").is_none() {
                read.notes.push(format!("its {jobs} threads share one file; fio creates one per thread"));
            }
        } else {
            read.threads = vec![ThreadCount::Exactly(1)];
        }
        Ok(read)
    }

    /// Converts file, size and engine.
    fn target(&self, read: &mut FioPlan) -> Result<&'static str> {
        let given = self.text("ioengine").unwrap_or("psync");
        let engine = ENGINES.iter().find(|(name, _)| *name == given).map(|(_, here)| *here).ok_or_else(|| {
            let hint = match given {
                "sync" | "vsync" | "pvsync" => "ioengine=psync is the closest: one request at a time".to_string(),
                _ => format!("the engines are {}", suggestions(given, ENGINES.map(|(name, _)| name)).join(", ")),
            };
            self.wrong("ioengine", format!("unsupported engine '{given}'")).hinted(hint)
        })?;
        self.put(read, "engine", engine.into(), &["ioengine"])?;
        let named = self.text("filename").map(|name| self.path(name)).transpose()?;
        let size = self.size("size", read)?;
        match (&named, size) {
            (_, Some(bytes)) => self.put(read, "size", exact_size(bytes), &["size"])?,
            // The size of a whole disk is its capacity.
            (Some(name), None) if name.starts_with("/dev/") => {
                self.put(read, "size", self.largest("size"), &["filename"])?;
            }
            _ => {
                let what = "the job has no size, which only a disk has by default".to_string();
                return Err(self.whole(what).hinted("size=1g is 1 GiB; filename=/dev/sdX is that disk"));
            }
        }
        let file = named.unwrap_or_else(|| self.within(&format!("{}.0.0", self.name().replace('/', "_"))));
        self.put(read, "file", file, &["filename", "directory"])?;
        Ok(engine)
    }

    /// Returns the file. fio accepts several, separated by colons.
    fn path(&self, name: &str) -> Result<String> {
        let plain = name.replace("\\:", "\0");
        if plain.contains(':') {
            let what = format!("'{name}' names several files; only one per job is supported");
            return Err(self.wrong("filename", what).hinted("a colon in a name is written \\:"));
        }
        if let Some(variable) = plain.find("${").map(|at| &plain[at..]) {
            let what = format!("'{variable}': environment variables are not supported");
            return Err(self.wrong("filename", what).hinted("use the literal name"));
        }
        Ok(self.within(&plain.replace('\0', ":")))
    }

    /// Resolves a name in the job's `directory`, by default the working directory.
    fn within(&self, name: &str) -> String {
        match self.text("directory") {
            Some(directory) if !name.starts_with('/') => format!("{}/{name}", directory.trim_end_matches('/')),
            _ => name.into(),
        }
    }

    /// Converts the type, size, depth and rate of requests.
    fn requests(&self, read: &mut FioPlan, engine: &str) -> Result<()> {
        let rw = match self.text("rw").unwrap_or("read") {
            "readwrite" | "rw" => "rw",
            other => other,
        };
        if !["read", "write", "randread", "randwrite", "rw", "randrw"].contains(&rw) {
            let what = format!("unsupported access pattern '{rw}'");
            let known = "the patterns are read, write, randread, randwrite, rw, randrw";
            return Err(self.wrong("rw", what).hinted(known));
        }
        self.put(read, "rw", rw.into(), &["rw"])?;
        let mixed = ["rw", "randrw"].contains(&rw);
        let share = match (self.count("rwmixread")?, self.count("rwmixwrite")?) {
            (Some(reads), _) => reads,
            (None, Some(writes)) => 100_u64
                .checked_sub(writes)
                .ok_or_else(|| self.wrong("rwmixwrite", format!("{writes} is more than 100 percent")))?,
            (None, None) => MIX,
        };
        if mixed {
            self.put(read, "mix", share.to_string(), &["rwmixread", "rwmixwrite"])?;
        }
        let block = self.size("bs", read)?.unwrap_or(4096);
        self.put(read, "bs", exact_size(block), &["bs"])?;
        let mut depth = self.count("iodepth")?.unwrap_or(1);
        if depth > 1 && !["io_uring", "libaio"].contains(&engine) {
            read.notes.push(format!("iodepth={depth} is ignored: {engine} has one request in flight"));
            depth = 1;
        }
        self.put(read, "iodepth", depth.to_string(), &["iodepth"])?;
        let direct = match self.options.get("direct").zip(self.options.get("buffered")) {
            Some((direct, buffered)) if buffered.line > direct.line => !self.switch("buffered")?,
            None if self.options.contains_key("buffered") => !self.switch("buffered")?,
            _ => self.switch("direct")?,
        };
        self.put(read, "direct", direct.to_string(), &["direct", "buffered"])?;
        if let Some(rate) = self.count("rate_iops")? {
            read.notes.push(
                "latency is measured from the scheduled start of a request; fio measures from the actual start".into(),
            );
            self.put(read, "rate", rate.to_string(), &["rate_iops"])?;
        }
        self.distribution(read)
    }

    fn distribution(&self, read: &mut FioPlan) -> Result<()> {
        /// fio's default theta.
        const THETA: &str = "1.1";
        let Some(text) = self.text("random_distribution") else { return Ok(()) };
        let here = match text.split_once(':') {
            None if text == "random" => "random".to_string(),
            None if text == "zipf" => format!("zipf:{THETA}"),
            Some(("zipf", theta)) if theta.parse::<f64>().is_ok_and(|theta| theta > 0.0 && theta.is_finite()) => {
                format!("zipf:{theta}")
            }
            _ => {
                let what = format!("unsupported distribution '{text}'");
                return Err(self
                    .wrong("random_distribution", what)
                    .hinted("the distributions are random and zipf:THETA"));
            }
        };
        self.put(read, "distribution", here, &["random_distribution"])
    }

    /// Converts the written data, its verification and `fsync`.
    fn data(&self, read: &mut FioPlan) -> Result<()> {
        let compress = self.count("buffer_compress_percentage")?.filter(|percent| *percent > 0);
        let data = match compress {
            _ if self.switch("zero_buffers")? => "zero".to_string(),
            Some(percent) => format!("compress:{percent}"),
            None => "random".into(),
        };
        self.put(read, "data", data, &["zero_buffers", "buffer_compress_percentage", "refill_buffers"])?;
        if let Some(writes) = self.count("fsync")? {
            self.put(read, "fsync", writes.to_string(), &["fsync"])?;
        }
        match self.text("verify") {
            None | Some("0") => Ok(()),
            Some(sum) if CHECKSUMS.contains(&sum) => {
                read.notes.push(format!("verify={sum} is replaced by this program's own check"));
                self.put(read, "verify", "true".into(), &["verify"])
            }
            Some(other) => {
                let what = format!("unsupported check '{other}'");
                Err(self.wrong("verify", what).hinted("use a checksum, such as verify=crc32c, or 0"))
            }
        }
    }

    /// Converts options that only some engines have.
    fn ring(&self, read: &mut FioPlan, engine: &str) -> Result<()> {
        let own = |name: &str| name == "hipri" && engine == "preadv2" || engine == "io_uring";
        for name in ["fixedbufs", "registerfiles", "sqthread_poll", "hipri"] {
            if self.options.contains_key(name) && !own(name) {
                let what = format!("{name} is not an option of this engine");
                return Err(self.wrong(name, what).hinted("ioengine=io_uring has it"));
            }
        }
        if engine == "io_uring" {
            let (buffers, files) = (self.switch("fixedbufs")?, self.switch("registerfiles")?);
            if buffers != files {
                let given = if buffers { "fixedbufs" } else { "registerfiles" };
                let what = format!("{given}: buffers and files can only be registered together");
                return Err(self.wrong(given, what).hinted("use both fixedbufs and registerfiles, or neither"));
            }
            self.put(read, "registered", buffers.to_string(), &["fixedbufs", "registerfiles"])?;
            if self.switch("sqthread_poll")? {
                self.put(read, "sqpoll", "true".into(), &["sqthread_poll"])?;
            }
        }
        if self.switch("hipri")? {
            self.put(read, "iopoll", "true".into(), &["hipri"])?;
        }
        Ok(())
    }

    fn end(&self, read: &mut FioPlan) -> Result<()> {
        let runtime = self.time("runtime")?.filter(|time| time.0 > 0);
        let ramp = self.time("ramp_time")?.unwrap_or_default();
        if let Some(runtime) = runtime {
            self.put(read, "runtime", exact_time(runtime), &["runtime"])?;
            read.time = Nanos(runtime.0.saturating_add(ramp.0));
        }
        if ramp.0 > 0 {
            self.put(read, "ramp", exact_time(ramp), &["ramp_time"])?;
        }
        if self.switch("time_based")? {
            let missing = || self.wrong("time_based", "the job has no runtime").hinted("runtime=30 is 30 seconds");
            return runtime.map(drop).ok_or_else(missing);
        }
        let once = match self.size("io_size", read)? {
            Some(bytes) => Some(bytes),
            None => self.size("size", &mut FioPlan::default())?,
        };
        let loops = self.count("loops")?.unwrap_or(1).max(1);
        let all = once.map(|bytes| bytes.checked_mul(loops).ok_or(loops)).transpose();
        let all = all.map_err(|loops| self.wrong("loops", format!("{loops} loops are out of range")))?;
        match (all, runtime) {
            (Some(bytes), Some(runtime)) => {
                let (bytes, runtime) = (exact_size(bytes), exact_time(runtime));
                read.notes.push(format!(
                    "it goes on for its runtime of {runtime}; fio would end it after {bytes} of each thread where that is \
                     sooner: time_based says the same to both"
                ));
                Ok(())
            }
            (Some(bytes), None) => self.put(read, "amount", exact_size(bytes), &["io_size", "size", "loops"]),
            (None, Some(_)) => Ok(()),
            (None, None) => {
                let what = "the job has no end: the size of its disk is not read from the device".to_string();
                Err(self.whole(what).hinted("use size=1g, or time_based with runtime=30"))
            }
        }
    }

    /// Adds a parameter; a value that the workload `io` rejects is an error at the location of the option.
    fn put(&self, read: &mut FioPlan, name: &str, value: String, from: &[&str]) -> Result<()> {
        let place = from.iter().find_map(|option| self.options.get(option));
        let wrong = |what: String| place.map_or_else(|| self.whole(what.clone()), |entry| self.at(entry, what.clone()));
        let parameter = self.spec.parameter(name);
        let parameter = parameter.ok_or_else(|| wrong(format!("workload {} has no {name}", self.spec.name)))?;
        check_value(parameter, &value)
            .map_err(|why| wrong(format!("parameter {name} of workload {}: {why}", self.spec.name)))?;
        read.set.push((name.into(), vec![value]));
        Ok(())
    }

    /// Returns the maximum of a size parameter.
    fn largest(&self, name: &str) -> String {
        match self.spec.parameter(name).map(|parameter| &parameter.kind) {
            Some(ParameterKind::Size { max, .. }) => exact_size(max.0),
            _ => String::new(),
        }
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.options.get(name).and_then(|entry| entry.value).filter(|text| !text.is_empty())
    }

    fn count(&self, name: &str) -> Result<Option<u64>> {
        self.value(name, count)
    }

    fn time(&self, name: &str) -> Result<Option<Nanos>> {
        self.value(name, time)
    }

    fn size(&self, name: &str, read: &mut FioPlan) -> Result<Option<u64>> {
        let base = self.count("kb_base")?.unwrap_or(1024);
        if ![1000, 1024].contains(&base) {
            return Err(self.wrong("kb_base", format!("must be 1024 or 1000, not {base}")));
        }
        let Some(size) = self.value(name, |text| size(text, base))? else { return Ok(None) };
        if size.surprises {
            let text = self.text(name).unwrap_or_default();
            read.notes.push(format!("fio reads {name}={text} as {} bytes; write it without 'iB'", size.bytes));
        }
        Ok(Some(size.bytes))
    }

    fn switch(&self, name: &str) -> Result<bool> {
        let Some(entry) = self.options.get(name) else { return Ok(false) };
        switch(entry.value).map_err(|why| self.at(entry, format!("{name}: {why}")))
    }

    /// Parses the value of an option, which must not be empty.
    fn value<T>(&self, name: &str, read: impl Fn(&str) -> std::result::Result<T, String>) -> Result<Option<T>> {
        let Some(entry) = self.options.get(name) else { return Ok(None) };
        let value = read(entry.value.unwrap_or_default());
        value.map(Some).map_err(|why| self.at(entry, format!("{name}: {why}")))
    }

    fn at(&self, entry: &KeyValue<'_>, what: impl Display) -> ExperimentError {
        error(self.file, (entry.line, entry.column), format!("job {}: {what}", self.name()), None)
    }

    fn wrong(&self, name: &str, what: impl Display) -> ExperimentError {
        match self.options.get(name) {
            Some(entry) => self.at(entry, format!("{name}: {what}")),
            None => self.whole(format!("{name}: {what}")),
        }
    }

    fn whole(&self, what: impl Display) -> ExperimentError {
        error(self.file, (self.section.line, 1), format!("job {}: {what}", self.name()), None)
    }
}

impl ExperimentError {
    fn hinted(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Maximum number of suggested options.
const NEAREST_MAX: usize = 5;

fn unknown(file: &str, entry: &KeyValue<'_>) -> ExperimentError {
    let place = (entry.line, entry.column);
    let names = OPTIONS.iter().flat_map(|(name, other)| [Some(*name), *other]).flatten();
    // The key of a line without `=` can be arbitrarily long.
    let elsewhere = ELSEWHERE.iter().find(|(beginning, _)| entry.key.starts_with(beginning));
    if let Some((_, hint)) = elsewhere {
        return error(file, place, format!("unsupported option '{}'", entry.key), Some((*hint).into()));
    }
    let near = suggestions(entry.key, names);
    let hint = format!("similar options: {}; docs/guides/fio.md lists all", near[..NEAREST_MAX].join(", "));
    error(file, place, format!("unknown option '{}'", entry.key), Some(hint))
}

/// Formats a size without rounding.
fn exact_size(bytes: u64) -> String {
    let kind = ParameterKind::Size { min: Bytes(0), max: Bytes(u64::MAX) };
    i64::try_from(bytes).map_or_else(|_| format!("{bytes}B"), |bytes| kind.write(&Value::Integer(bytes)))
}
