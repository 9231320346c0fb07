//! sysbench's "memory" test: a small block read or written over and over.
//!
//! Measures: MiB per second and events per second; an event reads or writes one block of `block` bytes once, eight bytes
//! at a time, in turn or at random places. Bytes per event: `block`.
//! Does NOT measure memory at the default block of 1 KiB: the block lies in the first-level cache, and most of the time is
//! sysbench's own bookkeeping of each event (see `events`), which is part of the definition. At random, the drawing of
//! places takes most. For the speed of memory there is `stream`.
//! Definition: sysbench 1.0.20, `sysbench memory` (--memory-block-size, --memory-total-size, --memory-oper,
//! --memory-access-mode, --memory-scope, --time). With `scope=global` all threads use one block, so two that write fight
//! for its lines. Not here: blocks in reserved huge pages (--memory-hugetlb).

mod loops;

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, Parameters, WorkloadSpec};

use super::arena::{self, Arena};
use super::events::{EventLog, Histograms, Totals, Until};
use super::sysbench;
use super::xoroshiro::Xoroshiro;
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, MemoryReport, TrialContext};
use crate::team::{self, TimedSpan, Worker};
use loops::SharedBlock;

/// As large as sysbench's sizes get here; the machine's memory is the real limit.
const SIZE_MAX: Bytes = Bytes(1 << 50);
const WORD: usize = size_of::<u64>();

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "memory".into(),
        summary: "small blocks read or written over and over (sysbench memory); stream is for memory itself".into(),
        about: "MiB/s and events per second; an event is one block, read or written eight bytes at a time. With the \
                default block, mostly sysbench's bookkeeping of events, which is done here too: it compares with sysbench \
                and says little of memory. With oper=none there is no MiB/s. Source: sysbench 1.0.20, sysbench memory."
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
            about: "bytes of a block, a power of two (--memory-block-size)",
            kind: ParameterKind::Size { min: Bytes(WORD as u64), max: SIZE_MAX },
            default: Some("1KiB"),
            smoke: None,
        },
        Parameter {
            name: "total",
            about: "no more than this, all threads together; 0 for any amount (--memory-total-size)",
            kind: ParameterKind::Size { min: Bytes(0), max: SIZE_MAX },
            default: Some("100GiB"),
            smoke: None,
        },
        one_of("oper", "what is done with a block (--memory-oper)", &["read", "write", "none"], "write"),
        one_of("access", "words in turn or at random (--memory-access-mode)", &["seq", "rnd"], "seq"),
        one_of("scope", "one block for all threads, or one each (--memory-scope)", &["global", "local"], "global"),
        sysbench::time(),
        Parameter { default: Some("system"), ..arena::huge_pages_parameter() },
    ])
}

fn all_metrics() -> Vec<MetricSpec> {
    let mut all = metrics([Metric::median("bandwidth", "MiB/s", Better::Higher)]);
    all.extend(sysbench::metrics());
    all
}

/// sysbench refuses other blocks as well.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    let block = parameters.size("block");
    if block.is_power_of_two() {
        return Ok(());
    }
    Err(format!("block is {block} bytes, which is not a power of two; hint: {} is", block.next_power_of_two()))
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
    fn of(job: &TrialContext) -> Self {
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

/// What a thread brings back.
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
    let crew = team::run(job, |member| {
        if let Some(block) = block {
            return one_thread(job, member, block, &histograms);
        }
        let mut own = prepared(job)?;
        let mut ended = one_thread(job, member, SharedBlock::new(own.as_u64()), &histograms)?;
        check_block(Access::of(job), own.as_u64())?;
        ended.found = own.found()?;
        Ok(ended)
    })?;
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    if let Some(mut arena) = shared {
        check_block(Access::of(job), arena.as_u64())?;
        measured.found(arena.found()?);
    }
    let seconds = TimedSpan::seconds_of_all(crew.results.iter().map(|ended| ended.lap));
    let threads: Vec<Totals> = crew.results.iter().map(|ended| ended.totals).collect();
    if job.parameters.text("oper") != "none" {
        let events: u64 = threads.iter().map(|thread| thread.count).sum();
        let mib = events as f64 * job.parameters.size("block") as f64 / f64::from(1 << 20);
        measured.push("bandwidth", mib / seconds)?;
    }
    histograms.report(&threads, seconds, &mut measured)?;
    crew.results.into_iter().for_each(|ended| measured.found(ended.found));
    Ok(measured)
}

/// A block whose words are their own numbers, which reading looks at; all of it is touched here.
fn prepared(job: &TrialContext) -> Result<Arena, Failure> {
    let mut arena = Arena::new(job, job.parameters.size("block"))?;
    arena.as_u64().iter_mut().zip(0..).for_each(|(word, number)| *word = number);
    Ok(arena)
}

fn one_thread(
    job: &TrialContext,
    member: &Worker<'_>,
    block: SharedBlock,
    histograms: &Histograms,
) -> Result<ThreadResult, Failure> {
    let access = Access::of(job);
    let words = job.parameters.size("block") / WORD;
    // sysbench gives every thread the same share, and forgets what is left over.
    let share = match job.parameters.size("total") / job.parameters.size("block") / job.threads {
        _ if job.parameters.size("total") == 0 => u64::MAX,
        0 => return Err(Failure::Failed("total is less than a block for each thread".into())),
        events => events as u64,
    };
    let mut random = Xoroshiro::of_thread(job.seed, member.index);
    let mut book = histograms.book(!job.seed, member.index);
    let (wrong, lap) = member.timed_lap(|| {
        let until = Until::now_for(job.time("time"));
        match access {
            Access::Read => events(until, share, &mut book, || block.read() == words as u64 - 1),
            Access::Write => events(until, share, &mut book, || {
                block.write();
                true
            }),
            Access::Nothing => events(until, share, &mut book, || block.none() >= words as u64),
            Access::ReadAtRandom => events(until, share, &mut book, || block.read_at_random(&mut random)),
            Access::WriteAtRandom => events(until, share, &mut book, || {
                block.write_at_random(&mut random);
                true
            }),
            Access::NothingAtRandom => events(until, share, &mut book, || block.none_at_random(&mut random) != 0),
        }
    })?;
    if wrong > 0 && access != Access::NothingAtRandom {
        return Err(Failure::Failed(format!("{wrong} events read another word than there is")));
    }
    Ok(ThreadResult { totals: book.totals(), lap, found: MemoryReport::default() })
}

/// Events until the time or the share is over; how many of them were not right.
#[inline]
fn events(until: Until, share: u64, book: &mut EventLog<'_>, mut event: impl FnMut() -> bool) -> u64 {
    let mut wrong = 0;
    let mut left = share;
    while until.more() && left > 0 {
        left -= 1;
        book.begin();
        wrong += u64::from(!event());
        book.end();
    }
    wrong
}

/// The block holds what the loop leaves in it.
fn check_block(access: Access, words: &[u64]) -> Result<(), Failure> {
    let count = words.len() as u64;
    let right = match access {
        Access::Write => words.iter().zip((1..=count).rev()).all(|(word, expected)| *word == expected),
        // Which places the last event drew is not known; every word is one that an event may have written, but for places
        // of large blocks that were never drawn, and the last word drawn was written.
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
    let did = if access.reads() { "reading" } else { "writing" };
    Err(Failure::Failed(format!("after {did}, the block holds something else than it should")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    fn value(measured: &KernelOutput, series: &str) -> Option<f64> {
        measured.samples.iter().find(|sample| sample.series == series).map(|sample| sample.value)
    }

    #[test]
    fn smoke_runs_whatever_is_done() {
        for oper in ["read", "write", "none"] {
            for access in ["seq", "rnd"] {
                for scope in ["global", "local"] {
                    let mut job = TrialContext { threads: 2, ..job_for_tests("memory") };
                    set(&mut job, "block", "64KiB");
                    for (name, text) in [("oper", oper), ("access", access), ("scope", scope)] {
                        set(&mut job, name, text);
                    }
                    let measured = run(&job).unwrap();
                    assert_eq!(value(&measured, "bandwidth").is_some(), oper != "none");
                    assert!(value(&measured, "events").unwrap() > 0.0, "{oper} {access} {scope}");
                }
            }
        }
        check_smoke("memory", &run(&job_for_tests("memory")).unwrap());
    }

    #[test]
    fn the_total_is_shared_out_to_the_event() {
        let mut job = TrialContext { threads: 3, ..job_for_tests("memory") };
        set(&mut job, "total", "10KiB");
        set(&mut job, "time", "60s");
        let per_thread = |sample: &&model::values::trial::Sample| sample.series == "events-per-thread";
        let measured = run(&job).unwrap();
        let counts: Vec<f64> = measured.samples.iter().filter(per_thread).map(|sample| sample.value).collect();
        assert_eq!(counts, [3.0; 3], "ten blocks for three threads");
        set(&mut job, "total", "2KiB");
        assert!(run(&job).unwrap_err().to_string().contains("less than a block for each thread"));
    }

    #[test]
    fn a_block_that_was_not_written_is_found() {
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
    fn blocks_are_powers_of_two() {
        let mut job = job_for_tests("memory");
        set(&mut job, "block", "3000B");
        assert!(check(&job.parameters).unwrap_err().contains("4096"));
    }
}
