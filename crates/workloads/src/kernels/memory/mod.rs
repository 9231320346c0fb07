//! sysbench's "memory" test: repeated reads or writes of a small block.
//!
//! Measures: MiB per second and events per second. An event reads or writes one block of `block` bytes once, eight
//! bytes at a time, sequentially or at random offsets. Bytes per event: `block`.
//! Does NOT measure memory with the default block of 1 KiB: the block is in the L1 cache, and most of the time is
//! sysbench's bookkeeping of each event (see `events`), which is part of the definition. With random access, drawing
//! the offsets takes most of the time. Use `stream` for memory bandwidth.
//! Definition: sysbench 1.0.20, `sysbench memory` (--memory-block-size, --memory-total-size, --memory-oper,
//! --memory-access-mode, --memory-scope, --time). With `scope=global` all threads use one block, so two writing threads
//! compete for its lines. Not supported: blocks in reserved huge pages (--memory-hugetlb).

mod loops;

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, Parameters, WorkloadSpec};

use super::arena::{self, Arena};
use super::events::{Deadline, EventLog, Histograms, Totals};
use super::sysbench;
use super::xoroshiro::Xoroshiro;
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, MemoryReport, TrialContext};
use crate::team::{self, TimedSpan, Worker};
use loops::SharedBlock;

/// Upper limit of sizes. The memory of the machine is the real limit.
const SIZE_MAX: Bytes = Bytes(1 << 50);
const WORD: usize = size_of::<u64>();

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "memory".into(),
        summary: "repeated reads or writes of small blocks (sysbench memory); use stream for memory bandwidth".into(),
        about: "MiB/s and events per second. An event reads or writes one block, eight bytes at a time. With the \
                default block, most of the time is sysbench's bookkeeping of events, which this workload repeats: the \
                result compares with sysbench, but shows little about memory. With oper=none there is no MiB/s. \
                Source: sysbench 1.0.20, sysbench memory."
            .into(),
        parameters: all_parameters(),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(3_000_000_000),
    }
}

fn all_parameters() -> Vec<ParameterSpec> {
    let one_of = |name, about, words: &[&str], default| Parameter {
        name,
        about,
        kind: choice(words),
        default: Some(default),
        smoke: None,
    };
    parameters([
        Parameter {
            name: "block",
            about: "size of a block, a power of two (--memory-block-size)",
            kind: ParameterKind::Size { min: Bytes(WORD as u64), max: SIZE_MAX },
            default: Some("1KiB"),
            smoke: None,
        },
        Parameter {
            name: "total",
            about: "maximum number of bytes, all threads together; 0 is unlimited (--memory-total-size)",
            kind: ParameterKind::Size { min: Bytes(0), max: SIZE_MAX },
            default: Some("100GiB"),
            smoke: None,
        },
        one_of("oper", "operation on a block (--memory-oper)", &["read", "write", "none"], "write"),
        one_of("access", "sequential or random access (--memory-access-mode)", &["seq", "rnd"], "seq"),
        one_of(
            "scope",
            "one block for all threads, or one per thread (--memory-scope)",
            &["global", "local"],
            "global",
        ),
        sysbench::time(),
        Parameter { default: Some("system"), ..arena::huge_pages_parameter() },
    ])
}

fn all_metrics() -> Vec<MetricSpec> {
    let mut all = metrics([Metric::median("bandwidth", "MiB/s", Better::Higher)]);
    all.extend(sysbench::metrics());
    all
}

/// Rejects blocks whose size is not a power of two, as sysbench does.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    let block = parameters.size("block");
    if block.is_power_of_two() {
        return Ok(());
    }
    Err(format!("block is {block} bytes, which is not a power of two; hint: block={}B", block.next_power_of_two()))
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Read,
    Write,
    Nothing,
    ReadAtRandom,
    WriteAtRandom,
    NothingAtRandom,
}

impl Access {
    fn new(job: &TrialContext) -> Self {
        match (job.parameters.text("oper"), job.parameters.text("access") == "rnd") {
            ("read", false) => Self::Read,
            ("read", true) => Self::ReadAtRandom,
            ("write", false) => Self::Write,
            ("write", true) => Self::WriteAtRandom,
            (_, false) => Self::Nothing,
            (_, true) => Self::NothingAtRandom,
        }
    }

    fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadAtRandom)
    }
}

/// Result of one thread.
struct ThreadResult {
    totals: Totals,
    lap: TimedSpan,
    found: MemoryReport,
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    check(&job.parameters).map_err(Failure::Failed)?;
    let histograms = Histograms::new();
    let is_global = job.parameters.text("scope") == "global";
    let mut shared = if is_global { Some(prepared(job)?) } else { None };
    let block = shared.as_mut().map(|arena| SharedBlock::new(arena.as_u64()));
    let team = team::run(job, |worker| {
        if let Some(block) = block {
            return one_thread(job, worker, block, &histograms);
        }
        let mut own = prepared(job)?;
        let mut ended = one_thread(job, worker, SharedBlock::new(own.as_u64()), &histograms)?;
        check_block(Access::new(job), own.as_u64())?;
        ended.found = own.report()?;
        Ok(ended)
    })?;
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    if let Some(mut arena) = shared {
        check_block(Access::new(job), arena.as_u64())?;
        output.found(arena.report()?);
    }
    let seconds = TimedSpan::seconds_of_all(team.results.iter().map(|ended| ended.lap));
    let threads: Vec<Totals> = team.results.iter().map(|ended| ended.totals).collect();
    if job.parameters.text("oper") != "none" {
        let events: u64 = threads.iter().map(|thread| thread.count).sum();
        let mib = events as f64 * job.parameters.size("block") as f64 / f64::from(1 << 20);
        output.push("bandwidth", mib / seconds)?;
    }
    histograms.report(&threads, seconds, &mut output)?;
    team.results.into_iter().for_each(|ended| output.found(ended.found));
    Ok(output)
}

/// Allocates a block whose words are their own indices, which reading verifies. Touches all of it.
fn prepared(job: &TrialContext) -> Result<Arena, Failure> {
    let mut arena = Arena::new(job, job.parameters.size("block"))?;
    arena.as_u64().iter_mut().zip(0..).for_each(|(word, number)| *word = number);
    Ok(arena)
}

fn one_thread(
    job: &TrialContext,
    worker: &Worker<'_>,
    block: SharedBlock,
    histograms: &Histograms,
) -> Result<ThreadResult, Failure> {
    let access = Access::new(job);
    let words = job.parameters.size("block") / WORD;
    // sysbench gives every thread the same share and drops the remainder.
    let share = match job.parameters.size("total") / job.parameters.size("block") / job.threads {
        _ if job.parameters.size("total") == 0 => u64::MAX,
        0 => return Err(Failure::Failed("total is less than one block per thread".into())),
        events => events as u64,
    };
    let mut random = Xoroshiro::for_thread(job.seed, worker.index);
    let mut event_log = histograms.event_log(!job.seed, worker.index);
    let (wrong, lap) = worker.timed_lap(|| {
        let deadline = Deadline::now_for(job.time("time"));
        match access {
            Access::Read => events(deadline, share, &mut event_log, || block.read() == words as u64 - 1),
            Access::Write => events(deadline, share, &mut event_log, || {
                block.write();
                true
            }),
            Access::Nothing => events(deadline, share, &mut event_log, || block.none() >= words as u64),
            Access::ReadAtRandom => events(deadline, share, &mut event_log, || block.read_at_random(&mut random)),
            Access::WriteAtRandom => events(deadline, share, &mut event_log, || {
                block.write_at_random(&mut random);
                true
            }),
            Access::NothingAtRandom => {
                events(deadline, share, &mut event_log, || block.none_at_random(&mut random) != 0)
            }
        }
    })?;
    if wrong > 0 && access != Access::NothingAtRandom {
        return Err(Failure::Failed(format!("{wrong} events read a wrong word")));
    }
    Ok(ThreadResult { totals: event_log.totals(), lap, found: MemoryReport::default() })
}

/// Runs events until the deadline or until the share is used up. Returns the number of events that failed their check.
#[inline]
fn events(deadline: Deadline, share: u64, event_log: &mut EventLog<'_>, mut event: impl FnMut() -> bool) -> u64 {
    let mut wrong = 0;
    let mut left = share;
    while deadline.may_start() && left > 0 {
        left -= 1;
        event_log.begin();
        wrong += u64::from(!event());
        event_log.end();
    }
    wrong
}

/// Verifies that the block holds what the loop leaves in it.
fn check_block(access: Access, words: &[u64]) -> Result<(), Failure> {
    let count = words.len() as u64;
    let right = match access {
        Access::Write => words.iter().zip((1..=count).rev()).all(|(word, expected)| *word == expected),
        // The offsets that the last event drew are unknown. Every word must hold a value that an event may have
        // written, or its initial value, because a large block may have words that were never drawn. The last word
        // drawn was written.
        Access::WriteAtRandom => {
            let written =
                words.iter().zip(0..).all(|(word, own)| (*word % 8 == 0 && *word < 8 * count) || *word == own);
            written && words.contains(&(8 * (count - 1)))
        }
        _ => words.iter().zip(0..).all(|(word, own)| *word == own),
    };
    if right {
        return Ok(());
    }
    let operation = if access.reads() { "reading" } else { "writing" };
    Err(Failure::Failed(format!("wrong content of the block after {operation}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    fn value(output: &KernelOutput, series: &str) -> Option<f64> {
        output.samples.iter().find(|sample| sample.series == series).map(|sample| sample.value)
    }

    #[test]
    fn smoke_runs_with_every_operation() {
        for oper in ["read", "write", "none"] {
            for access in ["seq", "rnd"] {
                for scope in ["global", "local"] {
                    let mut job = TrialContext { threads: 2, ..job_for_tests("memory") };
                    set(&mut job, "block", "64KiB");
                    for (name, text) in [("oper", oper), ("access", access), ("scope", scope)] {
                        set(&mut job, name, text);
                    }
                    let output = run(&job).unwrap();
                    assert_eq!(value(&output, "bandwidth").is_some(), oper != "none");
                    assert!(value(&output, "events").unwrap() > 0.0, "{oper} {access} {scope}");
                }
            }
        }
        check_smoke("memory", &run(&job_for_tests("memory")).unwrap());
    }

    #[test]
    fn total_is_divided_evenly_among_threads() {
        let mut job = TrialContext { threads: 3, ..job_for_tests("memory") };
        set(&mut job, "total", "10KiB");
        set(&mut job, "time", "60s");
        let per_thread = |sample: &&model::values::trial::Sample| sample.series == "events-per-thread";
        let output = run(&job).unwrap();
        let counts: Vec<f64> = output.samples.iter().filter(per_thread).map(|sample| sample.value).collect();
        assert_eq!(counts, [3.0; 3], "ten blocks for three threads");
        set(&mut job, "total", "2KiB");
        assert!(run(&job).unwrap_err().to_string().contains("less than one block per thread"));
    }

    #[test]
    fn unwritten_block_returns_an_error() {
        let right: Vec<u64> = (1..=8).rev().collect();
        assert_eq!(check_block(Access::Write, &right), Ok(()));
        let own: Vec<u64> = (0..8).collect();
        assert_eq!(check_block(Access::Read, &own), Ok(()));
        assert_eq!(check_block(Access::WriteAtRandom, &[0, 56, 24, 3, 4, 48, 6, 7]), Ok(()));
        assert!(check_block(Access::Write, &own).is_err());
        assert!(check_block(Access::Read, &right).is_err());
        assert!(check_block(Access::WriteAtRandom, &own).is_err());
        assert!(check_block(Access::WriteAtRandom, &[0, 56, 24, 5, 4, 48, 6, 7]).is_err());
    }

    #[test]
    fn block_size_must_be_a_power_of_two() {
        let mut job = job_for_tests("memory");
        set(&mut job, "block", "3000B");
        assert!(check(&job.parameters).unwrap_err().contains("4096"));
    }
}
