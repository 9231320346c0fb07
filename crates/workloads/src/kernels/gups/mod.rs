//! GUPS (`RandomAccess`): how many random 8-byte words of a large table can be updated each second.
//!
//! Measures: 10^9 updates per second of `table[r mod size] ^= r`, r the numbers of a polynomial over two elements, by all
//! threads together; each has a part of the stream and may update all of the table. A read and a write of a word that
//! is in no cache and, with small pages, in no TLB: many of them may be under way at once.
//! Does NOT measure bandwidth (a line is moved for a word) or the latency of one access; a table that fits a cache
//! measures that cache.
//! Definition: HPC Challenge 1.5, `RandomAccess` (Koester and Lucas): a table of 2^k words with `table[i] = i`, 4 updates for
//! each word, the stream x^i modulo x^64 + x^2 + x + 1, at most 1024 updates of a thread looked ahead and held back, and
//! at most 1 % of the words wrong in the end, since threads may overwrite each other's updates. What varies: the
//! table may be in huge pages, and the number of updates can be chosen.
//! Checked in every trial: all updates are made once more without any loss, which undoes them, and the words that are not
//! as in the beginning are counted.

mod stream;

use std::sync::atomic::{AtomicU64, Ordering};

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, Parameters, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::kernels::arena::{self, Arena};
use crate::kernels::prefetch;
use crate::team::{self, TimedSpan, Worker};
use stream::Lanes;

/// Updates for each word of the table, as the definition says.
const UPDATES_PER_WORD: u64 = 4;

/// Updates that a thread generates before it makes them: their lines are asked for meanwhile. Far below the 1024 that the
/// rules allow; more than a core has loads under way at once.
const BATCH: usize = 64;

/// Of all words so many may be wrong.
const ERRORS_MAX: f64 = 0.01;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "gups".into(),
        summary: "random memory updates (HPC Challenge's RandomAccess)".into(),
        about:
            "10^9 random updates per second of a table of 2^k 8-byte words, by all threads together, each with its own \
                part of the polynomial's stream. At most 1 % of the words may be wrong in the end, which is checked by \
                undoing all updates. A line is moved for a word, so this is not bandwidth. Source: HPC Challenge 1.5."
                .into(),
        parameters: parameters([
            Parameter {
                name: "size",
                about: "bytes of the table; rounded down to a power of two; HPCC takes half of the memory",
                kind: ParameterKind::Size { min: Bytes(1 << 12), max: Bytes(1 << 43) },
                default: Some("8xllc"),
                smoke: Some("1MiB"),
            },
            Parameter {
                name: "updates",
                about: "updates of all threads together; 0 for four for each word, as HPCC does",
                kind: ParameterKind::Integer { min: 0, max: 1 << 50 },
                default: Some("0"),
                smoke: None,
            },
            arena::huge_pages_parameter(),
        ]),
        metrics: metrics([
            Metric::median("gups", "GUPS", Better::Higher),
            Metric::median("gups-per-thread", "GUPS", Better::Higher),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(2_000_000_000),
    }
}

/// A thread's updates: the stream's numbers from one place on.
#[derive(Clone, Copy)]
struct UpdateRange {
    first: u64,
    count: u64,
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let words = words(&job.parameters);
    let updates = match job.parameters.integer("updates") as u64 {
        0 => words as u64 * UPDATES_PER_WORD,
        updates => updates,
    };
    let mut arena = Arena::new(job, words * size_of::<u64>())?;
    let table = &arena.as_atomics()[..words];
    let crew = team::run(job, |member| one_thread(member, job.threads, table, updates))?;
    let wrong = crew.results.iter().map(|(_, wrong)| wrong).sum();
    check(wrong, words as u64)?;

    let rate = updates as f64 / TimedSpan::seconds_of_all(crew.results.iter().map(|(lap, _)| *lap)) / 1e9;
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    measured.found(arena.found()?);
    measured.push("gups", rate)?;
    measured.push("gups-per-thread", rate / job.threads as f64)?;
    // No metric: it says how often threads met.
    measured.push("errors-percent", 100.0 * wrong as f64 / words as f64)?;
    Ok(measured)
}

/// The table's words: the largest power of two that fits.
fn words(parameters: &Parameters) -> usize {
    1 << (parameters.size("size") / size_of::<u64>()).ilog2()
}

/// The part of `all` that belongs to one of `threads`: neighbouring pieces, alike to one.
fn share(all: u64, thread: usize, threads: usize) -> UpdateRange {
    let border = |thread: usize| (u128::from(all) * thread as u128 / threads as u128) as u64;
    UpdateRange { first: border(thread), count: border(thread + 1) - border(thread) }
}

/// Fills its part of the table, makes its updates, undoes them, and counts what is wrong in its part of the table.
fn one_thread(
    member: &Worker<'_>,
    threads: usize,
    table: &[AtomicU64],
    updates: u64,
) -> Result<(TimedSpan, u64), Failure> {
    let own = share(table.len() as u64, member.index, threads);
    let own = own.first as usize..(own.first + own.count) as usize;
    for index in own.clone() {
        table[index].store(index as u64, Ordering::Relaxed);
    }
    let share = share(updates, member.index, threads);
    let mut lanes = Lanes::at(share.first);
    let ((), lap) = member.timed_lap(|| update(table, &mut lanes, share.count))?;
    member.barrier()?;
    undo(table, share);
    member.barrier()?;
    let wrong = own.filter(|index| table[*index].load(Ordering::Relaxed) != *index as u64).count();
    Ok((lap, wrong as u64))
}

/// Updates as the definition has them: a read, an exclusive or and a write, which another thread's write may come between.
#[inline(never)]
fn update(table: &[AtomicU64], lanes: &mut Lanes, count: u64) {
    let mask = table.len() - 1;
    let mut numbers = [0; BATCH];
    for _ in 0..count / BATCH as u64 {
        lanes.fill(&mut numbers);
        for number in numbers {
            prefetch::for_writing(&table[number as usize & mask]);
        }
        make(table, mask, &numbers);
    }
    lanes.fill(&mut numbers);
    make(table, mask, &numbers[..(count % BATCH as u64) as usize]);
}

#[inline]
fn make(table: &[AtomicU64], mask: usize, numbers: &[u64]) {
    for number in numbers {
        let word = &table[*number as usize & mask];
        word.store(word.load(Ordering::Relaxed) ^ number, Ordering::Relaxed);
    }
}

/// The same updates one by one from a stream made in the plainest way, none of which is lost.
fn undo(table: &[AtomicU64], share: UpdateRange) {
    let mut number = stream::nth(share.first);
    for _ in 0..share.count {
        number = stream::after(number);
        table[number as usize & (table.len() - 1)].fetch_xor(number, Ordering::Relaxed);
    }
}

fn check(wrong: u64, words: u64) -> Result<(), Failure> {
    if wrong as f64 <= ERRORS_MAX * words as f64 {
        return Ok(());
    }
    Err(Failure::Failed(format!("{wrong} of the table's {words} words are wrong, more than the 1 % that may be")))
}

#[cfg(test)]
mod tests {
    use model::values::workload::Value;

    use super::*;
    use crate::kernels::{job_for_tests, pages_can_be_asked};

    fn errors(measured: &KernelOutput) -> f64 {
        measured.samples.iter().find(|sample| sample.series == "errors-percent").unwrap().value
    }

    #[test]
    fn one_thread_makes_no_error_and_some_make_few() {
        for threads in [1, 2, 5] {
            let measured = run(&TrialContext { threads, ..job_for_tests("gups") }).unwrap();
            assert_eq!(measured.pages.values().sum::<u64>() > 0, pages_can_be_asked());
            assert!(threads > 1 || errors(&measured) <= 0.0, "{}", errors(&measured));
            assert!(measured.samples.iter().all(|sample| sample.series == "errors-percent" || sample.value > 0.0));
        }
    }

    #[test]
    fn any_number_of_updates_is_made_and_undone() {
        for updates in [1, 63, 64, 65, 10_007] {
            let mut job = job_for_tests("gups");
            job.parameters.0.insert("updates".into(), Value::Integer(updates));
            assert!(errors(&run(&job).unwrap()) <= 0.0, "{updates}");
        }
    }

    #[test]
    fn updates_are_those_of_the_stream() {
        let table: Vec<AtomicU64> = (0..512).map(AtomicU64::new).collect();
        update(&table, &mut Lanes::at(5), 1000);
        let mut expected: Vec<u64> = (0..512).collect();
        let mut number = stream::nth(5);
        for _ in 0..1000 {
            number = stream::after(number);
            expected[number as usize % 512] ^= number;
        }
        assert_eq!(table.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn lost_updates_are_found() {
        assert_eq!(check(10, 1000), Ok(()));
        assert!(check(11, 1000).unwrap_err().to_string().contains("11 of the table's 1000 words"));
        let table: Vec<AtomicU64> = (0..512).map(AtomicU64::new).collect();
        update(&table, &mut Lanes::at(0), 999);
        undo(&table, UpdateRange { first: 0, count: 1000 });
        let wrong = (0..512).filter(|index| table[*index as usize].load(Ordering::Relaxed) != *index).count();
        assert_eq!(wrong, 1, "the one that was not made");
    }

    #[test]
    fn sizes_are_powers_of_two_and_shares_cover_everything() {
        let mut job = job_for_tests("gups");
        for (bytes, expected) in [(1 << 20, 1 << 17), ((1 << 20) - 1, 1 << 16), (4096, 512)] {
            job.parameters.0.insert("size".into(), Value::Integer(bytes));
            assert_eq!(words(&job.parameters), expected);
        }
        for (all, threads) in [(1000, 7), (3, 5), (1 << 40, 64)] {
            let shares: Vec<UpdateRange> = (0..threads).map(|thread| share(all, thread, threads)).collect();
            assert!(shares.windows(2).all(|pair| pair[0].first + pair[0].count == pair[1].first));
            assert_eq!(shares.iter().map(|share| share.count).sum::<u64>(), all);
        }
    }
}
