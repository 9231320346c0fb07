//! Reads from a file or a disk: how many a second, how many bytes, how long each takes.
//!
//! Measures: whole requests of one size, from being handed to the kernel until their data are there, each thread with so
//! many under way at once, for a span of time. With `direct` the page cache is left out.
//! Does NOT measure writing, opening, or what a file system does for many files; without `direct` it measures the page
//! cache as soon as that holds the file.
//! Definition: as fio's `rw=read` and `rw=randread` with `ioengine`, `bs`, `iodepth`, `direct`, `time_based`.
//! Must never write to what it was given: only a file of its own, which has no name any more while it is read.

mod offsets;
mod psync;
mod ring;
mod target;

use std::time::{Duration, Instant};

use model::units::{Bytes, Nanos};
use model::workload::{Better, ParameterKind, Reduce, WorkloadSpec};

use super::arena::Arena;
use super::latency::Latencies;
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, Job, Measured};
use crate::team::{self, Member};
use offsets::Offsets;
use target::Target;

/// Sectors of direct I/O.
const SECTOR: usize = 512;

pub(crate) fn describe() -> WorkloadSpec {
    let choice = |words: &[&str]| ParameterKind::Choice(words.iter().map(|word| (*word).to_string()).collect());
    let one = |name, unit, better| Metric { name, unit, better, series: name, reduce: Reduce::Median };
    WorkloadSpec {
        name: "io".into(),
        summary: "reads from a file or a disk: requests a second, bandwidth, latency".into(),
        about: "Each thread keeps a number of reads of one size under way for a span of time, from a file, a disk, or a file \
                of its own that it makes where none is given. Latency is from handing a read to the kernel to having its \
                data. Does not write to what it was given. Source: fio's read and randread."
            .into(),
        parameters: parameters([
            Parameter {
                name: "file",
                about: "what is read, such as /dev/sda; empty for a file of its own in the folder of TMPDIR",
                kind: ParameterKind::Text,
                default: Some(""),
                smoke: None,
            },
            Parameter {
                name: "size",
                about: "how much of it, from its beginning",
                kind: ParameterKind::Size { min: Bytes(1 << 12), max: Bytes(1 << 50) },
                default: Some("1GiB"),
                smoke: Some("1MiB"),
            },
            Parameter {
                name: "engine",
                about: "one read after the other (psync), or many at once (io_uring)",
                kind: choice(&["io_uring", "psync"]),
                default: Some("io_uring"),
                smoke: None,
            },
            Parameter {
                name: "rw",
                about: "in order, or anywhere",
                kind: choice(&["randread", "read"]),
                default: Some("randread"),
                smoke: None,
            },
            Parameter {
                name: "bs",
                about: "how much is read at once",
                kind: ParameterKind::Size { min: Bytes(SECTOR as u64), max: Bytes(64 << 20) },
                default: Some("4KiB"),
                smoke: None,
            },
            Parameter {
                name: "iodepth",
                about: "how many reads each thread has under way; psync has one",
                kind: ParameterKind::Integer { min: 1, max: 4096 },
                default: Some("1"),
                smoke: None,
            },
            Parameter {
                name: "direct",
                about: "past the page cache",
                kind: ParameterKind::Switch,
                default: Some("true"),
                // Temporary files are often kept in memory, where there is nothing to go past.
                smoke: Some("false"),
            },
            Parameter {
                name: "runtime",
                about: "how long it reads",
                kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(3_600_000_000_000) },
                default: Some("5s"),
                smoke: Some("50ms"),
            },
        ]),
        metrics: metrics([
            one("iops", "reads/s", Better::Higher),
            one("bandwidth", "MiB/s", Better::Higher),
            one("latency", "us", Better::Lower),
            one("latency-p99", "us", Better::Lower),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(5_000_000_000),
    }
}

/// What the threads read and how.
struct Task {
    target: Target,
    /// Bytes of one read.
    block: usize,
    depth: usize,
    runtime: Duration,
}

/// What one thread did.
struct Done {
    latencies: Latencies,
    began: Instant,
    ended: Instant,
    pages: std::collections::BTreeMap<model::id_set::NodeId, u64>,
}

pub(crate) fn run(job: &Job) -> Result<Measured, Failure> {
    let block = job.parameters.size("bs");
    if !block.is_multiple_of(SECTOR) {
        return Err(Failure::Failed(format!("bs is {block} bytes, which are no whole sectors of {SECTOR}")));
    }
    let depth = job.parameters.size("iodepth");
    let rings = job.parameters.text("engine") == "io_uring";
    if !rings && depth > 1 {
        return Err(Failure::Failed(format!("psync has one read under way, not {depth}; engine=io_uring has more")));
    }
    let task = Task { target: Target::open(job, block)?, block, depth, runtime: job.time("runtime") };
    let crew = team::run(job, |member| one_thread(job, &task, member, rings))?;
    let mut measured = Measured { thread_seats: crew.seats, ..Measured::default() };
    report(&crew.results, block, &mut measured)?;
    Ok(measured)
}

fn one_thread(job: &Job, task: &Task, member: &Member<'_>, rings: bool) -> Result<Done, Failure> {
    let mut arena = Arena::small(job, task.block * task.depth)?;
    // Touched here, so that the first reads do not wait for pages.
    arena.as_u64().fill(0);
    let mut offsets = Offsets::new(job, task.target.bytes, task.block, member.index);
    let mut latencies = Latencies::new();
    let (began, ended) = member.timed(|| {
        member.meet()?;
        let began = Instant::now();
        let read = if rings { ring::read } else { psync::read };
        read(task, &mut offsets, &mut arena, &mut latencies)?;
        Ok((began, Instant::now()))
    })?;
    Ok(Done { latencies, began, ended, pages: arena.pages_by_node()? })
}

fn report(threads: &[Done], block: usize, measured: &mut Measured) -> Result<(), Failure> {
    let mut all = Latencies::new();
    for done in threads {
        all.merge(&done.latencies);
        done.pages.iter().for_each(|(node, pages)| *measured.pages.entry(*node).or_default() += pages);
    }
    let began = threads.iter().map(|done| done.began).min();
    let ended = threads.iter().map(|done| done.ended).max();
    let seconds = began.zip(ended).map_or(0.0, |(began, ended)| ended.duration_since(began).as_secs_f64());
    let rate = all.count() as f64 / seconds;
    measured.push("iops", rate)?;
    measured.push("bandwidth", rate * block as f64 / f64::from(1 << 20))?;
    measured.push("latency", all.quantile_ns(0.5) as f64 / 1e3)?;
    measured.push("latency-p99", all.quantile_ns(0.99) as f64 / 1e3)
}

/// What came of a read, in the words of a failure.
fn short(offset: u64, wanted: usize, got: usize) -> Failure {
    Failure::Failed(format!("a read of {wanted} bytes at {offset} gave {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_with_every_engine_and_order() {
        for (engine, rw, depth, threads) in [
            ("psync", "read", "1", 2),
            ("psync", "randread", "1", 1),
            ("io_uring", "read", "8", 1),
            ("io_uring", "randread", "4", 2),
        ] {
            let mut job = Job { threads, ..job_for_tests("io") };
            for (name, value) in [("engine", engine), ("rw", rw), ("iodepth", depth)] {
                set(&mut job, name, value);
            }
            match run(&job) {
                Ok(measured) => {
                    check_smoke("io", &measured);
                    let of =
                        |series: &str| measured.samples.iter().find(|sample| sample.series == series).unwrap().value;
                    assert!((of("iops") * 4096.0 / 1_048_576.0 - of("bandwidth")).abs() < 1e-6);
                    assert!(of("latency") <= of("latency-p99"));
                }
                Err(Failure::Unavailable(why)) => println!("skipped: io with {engine}: {why}"),
                Err(other) => panic!("{engine} {rw}: {other}"),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let wrong = |pairs: &[(&str, &str)]| {
            let mut job = job_for_tests("io");
            pairs.iter().for_each(|(name, value)| set(&mut job, name, value));
            run(&job).unwrap_err().to_string()
        };
        assert!(wrong(&[("file", "/nowhere/x")]).contains("cannot read /nowhere/x"));
        assert!(wrong(&[("bs", "700")]).contains("no whole sectors"));
        assert!(wrong(&[("engine", "psync"), ("iodepth", "2")]).contains("psync has one read under way"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().to_str().unwrap();
        assert!(wrong(&[("file", name)]).contains("has 0 bytes, less than one read"));
        assert!(wrong(&[("file", "/tmp")]).contains("neither a file nor a disk"));
    }

    #[test]
    fn data_from_elsewhere_are_found() {
        for engine in
            [psync::read as fn(&Task, &mut Offsets, &mut Arena, &mut Latencies) -> Result<(), Failure>, ring::read]
        {
            let job = job_for_tests("io");
            let mut task = Task {
                target: Target::open(&job, 4096).unwrap(),
                block: 4096,
                depth: 1,
                runtime: Duration::from_millis(5),
            };
            let read = |task: &Task| {
                let mut arena = Arena::small(&job, 4096).unwrap();
                engine(task, &mut Offsets::new(&job, task.target.bytes, 4096, 0), &mut arena, &mut Latencies::new())
            };
            match read(&task) {
                Err(Failure::Unavailable(why)) => println!("skipped: io: {why}"),
                other => {
                    other.unwrap();
                    task.target.stamps = Some(job.seed + 1);
                    assert!(read(&task).unwrap_err().to_string().contains("other data than were written"));
                }
            }
        }
    }
}
