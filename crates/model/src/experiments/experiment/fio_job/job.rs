//! One job of a job file: what its options come to in parameters of workload `io`.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::text::{JobSection, KeyValue, error};
use super::value::{count, exact_time, size, switch, time};
use crate::experiments::experiment::read::check_value;
use crate::experiments::experiment::{ExperimentError, ThreadCount};
use crate::values::suggest::suggestions;
use crate::values::units::{Bytes, Nanos};
use crate::values::workload::{ParameterKind, Value, WorkloadSpec};

/// The options that are understood, and what else fio calls them.
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

/// What is said in another way here: the options' beginnings and the way.
const ELSEWHERE: [(&str, &str); 5] = [
    ("cpus_allowed", "where a job runs is a placement: nearfar run --fio FILE --placement '-C 0-3'"),
    ("cpumask", "where a job runs is a placement: nearfar run --fio FILE --placement '-C 0-3'"),
    ("numa_", "where a job and its memory are is a placement: nearfar run --fio FILE --placement '-N 0 -m 0'"),
    ("include", "put the lines of that file in here"),
    ("rate", "a pace is said in requests: rate_iops=1000"),
];

/// fio's engines that there are here, by the name that they have here.
const ENGINES: [(&str, &str); 5] =
    [("io_uring", "io_uring"), ("psync", "psync"), ("pvsync2", "preadv2"), ("libaio", "libaio"), ("mmap", "mmap")];

/// What of fio's checks are checksums of what was written; here there is one check for all of them.
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

/// fio's own, where a file says nothing.
const MIX: u64 = 50;

type Result<T> = std::result::Result<T, ExperimentError>;

/// A job whose options all have names that are known.
pub(super) struct FioJob<'a> {
    file: &'a str,
    section: &'a JobSection<'a>,
    spec: &'a WorkloadSpec,
    options: BTreeMap<&'static str, KeyValue<'a>>,
}

/// What a job comes to.
#[derive(Debug, Default)]
pub(super) struct FioPlan {
    pub set: Vec<(String, Vec<String>)>,
    /// None for one.
    pub threads: Vec<ThreadCount>,
    /// How long it measures, where it says so.
    pub time: Nanos,
    /// Where it is not what fio would do.
    pub notes: Vec<String>,
}

impl<'a> FioJob<'a> {
    /// Finds out what its options are called.
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

    /// Whether it begins when those before it have ended.
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
            let jobs = within.ok_or_else(|| self.wrong("numjobs", format!("{jobs} is no number of threads")))?;
            read.threads = vec![ThreadCount::Exactly(jobs)];
            if jobs > 1 && self.text("filename").is_none() {
                read.notes.push(format!("its {jobs} threads share one file; fio makes one for each"));
            }
        } else {
            read.threads = vec![ThreadCount::Exactly(1)];
        }
        Ok(read)
    }

    /// What is read or written, how much of it, by which engine.
    fn target(&self, read: &mut FioPlan) -> Result<&'static str> {
        let given = self.text("ioengine").unwrap_or("psync");
        let engine = ENGINES.iter().find(|(name, _)| *name == given).map(|(_, here)| *here).ok_or_else(|| {
            let hint = match given {
                "sync" | "vsync" | "pvsync" => "ioengine=psync is nearest: one request at a time".to_string(),
                _ => format!("there are {}", suggestions(given, ENGINES.map(|(name, _)| name)).join(", ")),
            };
            self.wrong("ioengine", format!("there is no engine '{given}' here")).hinted(hint)
        })?;
        self.put(read, "engine", engine.into(), &["ioengine"])?;
        let named = self.text("filename").map(|name| self.path(name)).transpose()?;
        let size = self.size("size", read)?;
        match (&named, size) {
            (_, Some(bytes)) => self.put(read, "size", exact_size(bytes), &["size"])?,
            // All of a disk is as much as it has.
            (Some(name), None) if name.starts_with("/dev/") => {
                self.put(read, "size", self.largest("size"), &["filename"])?;
            }
            _ => {
                let what = "it has no size, and only a disk has one by itself".to_string();
                return Err(self.whole(what).hinted("size=1g is 1 GiB; filename=/dev/sdX is that disk"));
            }
        }
        let file = named.unwrap_or_else(|| self.within(&format!("{}.0.0", self.name().replace('/', "_"))));
        self.put(read, "file", file, &["filename", "directory"])?;
        Ok(engine)
    }

    /// The one file; fio takes several with colons between them.
    fn path(&self, name: &str) -> Result<String> {
        let plain = name.replace("\\:", "\0");
        if plain.contains(':') {
            let what = format!("'{name}' is several files, and a job here has one");
            return Err(self.wrong("filename", what).hinted("a colon in a name is written \\:"));
        }
        if let Some(variable) = plain.find("${").map(|at| &plain[at..]) {
            let what = format!("'{variable}' would be filled in from the environment, which is not done here");
            return Err(self.wrong("filename", what).hinted("write the name itself"));
        }
        Ok(self.within(&plain.replace('\0', ":")))
    }

    /// A name in the job's folder, which without one is the folder that the program runs in.
    fn within(&self, name: &str) -> String {
        match self.text("directory") {
            Some(folder) if !name.starts_with('/') => format!("{}/{name}", folder.trim_end_matches('/')),
            _ => name.into(),
        }
    }

    /// Which requests, how large, how many at once, how fast.
    fn requests(&self, read: &mut FioPlan, engine: &str) -> Result<()> {
        let rw = match self.text("rw").unwrap_or("read") {
            "readwrite" | "rw" => "rw",
            other => other,
        };
        if !["read", "write", "randread", "randwrite", "rw", "randrw"].contains(&rw) {
            let what = format!("'{rw}' is no way of reading and writing here");
            let known = "there are read, write, randread, randwrite, rw, randrw";
            return Err(self.wrong("rw", what).hinted(known));
        }
        self.put(read, "rw", rw.into(), &["rw"])?;
        let mixed = ["rw", "randrw"].contains(&rw);
        let share = match (self.count("rwmixread")?, self.count("rwmixwrite")?) {
            (Some(reads), _) => reads,
            (None, Some(writes)) => 100_u64
                .checked_sub(writes)
                .ok_or_else(|| self.wrong("rwmixwrite", format!("{writes} is more than all requests")))?,
            (None, None) => MIX,
        };
        if mixed {
            self.put(read, "mix", share.to_string(), &["rwmixread", "rwmixwrite"])?;
        }
        let block = self.size("bs", read)?.unwrap_or(4096);
        self.put(read, "bs", exact_size(block), &["bs"])?;
        let mut depth = self.count("iodepth")?.unwrap_or(1);
        if depth > 1 && !["io_uring", "libaio"].contains(&engine) {
            read.notes.push(format!("iodepth={depth} says nothing of {engine}, which has one request under way"));
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
            read.notes
                .push("latency counts from when a request should have begun; fio's counts from when it did".into());
            self.put(read, "rate", rate.to_string(), &["rate_iops"])?;
        }
        self.distribution(read)
    }

    fn distribution(&self, read: &mut FioPlan) -> Result<()> {
        /// fio's theta where none is given.
        const THETA: &str = "1.1";
        let Some(text) = self.text("random_distribution") else { return Ok(()) };
        let here = match text.split_once(':') {
            None if text == "random" => "random".to_string(),
            None if text == "zipf" => format!("zipf:{THETA}"),
            Some(("zipf", theta)) if theta.parse::<f64>().is_ok_and(|theta| theta > 0.0 && theta.is_finite()) => {
                format!("zipf:{theta}")
            }
            _ => {
                let what = format!("there is no distribution '{text}' here");
                return Err(self.wrong("random_distribution", what).hinted("there are random and zipf:THETA"));
            }
        };
        self.put(read, "distribution", here, &["random_distribution"])
    }

    /// What is written, what is checked of it, how often it is made to last.
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
                read.notes.push(format!("verify={sum} is done by this program's own check"));
                self.put(read, "verify", "true".into(), &["verify"])
            }
            Some(other) => {
                let what = format!("there is no check '{other}' here");
                Err(self.wrong("verify", what).hinted("a checksum, such as verify=crc32c, or 0"))
            }
        }
    }

    /// What only some engines have.
    fn ring(&self, read: &mut FioPlan, engine: &str) -> Result<()> {
        let own = |name: &str| name == "hipri" && engine == "preadv2" || engine == "io_uring";
        for name in ["fixedbufs", "registerfiles", "sqthread_poll", "hipri"] {
            if self.options.contains_key(name) && !own(name) {
                let what = format!("{name} is no option of this engine");
                return Err(self.wrong(name, what).hinted("ioengine=io_uring has it"));
            }
        }
        if engine == "io_uring" {
            let (buffers, files) = (self.switch("fixedbufs")?, self.switch("registerfiles")?);
            if buffers != files {
                let given = if buffers { "fixedbufs" } else { "registerfiles" };
                let what = format!("{given} alone: buffers and files are registered together here, or neither");
                return Err(self.wrong(given, what).hinted("both fixedbufs and registerfiles, or none"));
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
            let missing = || self.wrong("time_based", "it says no runtime").hinted("runtime=30 is 30 seconds");
            return runtime.map(drop).ok_or_else(missing);
        }
        let once = match self.size("io_size", read)? {
            Some(bytes) => Some(bytes),
            None => self.size("size", &mut FioPlan::default())?,
        };
        let loops = self.count("loops")?.unwrap_or(1).max(1);
        let all = once.map(|bytes| bytes.checked_mul(loops).ok_or(loops)).transpose();
        let all = all.map_err(|loops| self.wrong("loops", format!("{loops} are more than can be counted")))?;
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
                let what = "it has no end: how large its disk is is not looked at here".to_string();
                Err(self.whole(what).hinted("size=1g, or time_based with runtime=30"))
            }
        }
    }

    /// Adds a parameter; a value that workload `io` refuses is said at the option's place.
    fn put(&self, read: &mut FioPlan, name: &str, value: String, from: &[&str]) -> Result<()> {
        let place = from.iter().find_map(|option| self.options.get(option));
        let wrong = |what: String| place.map_or_else(|| self.whole(what.clone()), |entry| self.at(entry, what.clone()));
        let parameter = self.spec.parameter(name);
        let parameter = parameter.ok_or_else(|| wrong(format!("workload {} has no {name}", self.spec.name)))?;
        check_value(parameter, &value).map_err(|why| wrong(format!("{name} of workload {}: {why}", self.spec.name)))?;
        read.set.push((name.into(), vec![value]));
        Ok(())
    }

    /// The most that a size can be.
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
            return Err(self.wrong("kb_base", format!("it is 1024 or 1000, not {base}")));
        }
        let Some(size) = self.value(name, |text| size(text, base))? else { return Ok(None) };
        if size.surprises {
            let text = self.text(name).unwrap_or_default();
            read.notes.push(format!("{name}={text} is {} bytes to fio; write it without 'iB'", size.bytes));
        }
        Ok(Some(size.bytes))
    }

    fn switch(&self, name: &str) -> Result<bool> {
        let Some(entry) = self.options.get(name) else { return Ok(false) };
        switch(entry.value).map_err(|why| self.at(entry, format!("{name}: {why}")))
    }

    /// An option's value; one that is there says something.
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

/// So many of the known options are proposed.
const NEAREST_MAX: usize = 5;

fn unknown(file: &str, entry: &KeyValue<'_>) -> ExperimentError {
    let place = (entry.line, entry.column);
    let names = OPTIONS.iter().flat_map(|(name, other)| [Some(*name), *other]).flatten();
    // The key of a line without `=` may be a whole sentence.
    let elsewhere = ELSEWHERE.iter().find(|(beginning, _)| entry.key.starts_with(beginning));
    if let Some((_, hint)) = elsewhere {
        return error(file, place, format!("'{}' is not for a job file here", entry.key), Some((*hint).into()));
    }
    let near = suggestions(entry.key, names);
    let hint = format!("nearest are {}; docs/guides/fio.md has all", near[..NEAREST_MAX].join(", "));
    error(file, place, format!("no option '{}' is known", entry.key), Some(hint))
}

/// A size that reads back to the same bytes.
fn exact_size(bytes: u64) -> String {
    let kind = ParameterKind::Size { min: Bytes(0), max: Bytes(u64::MAX) };
    i64::try_from(bytes).map_or_else(|_| format!("{bytes}B"), |bytes| kind.write(&Value::Integer(bytes)))
}
