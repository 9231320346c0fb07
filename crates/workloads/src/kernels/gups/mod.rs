//! GUPS (`RandomAccess`): the rate of random 8-byte updates to a large table.
//!
//! Measures: 10^9 updates per second of `table[r mod size] ^= r` by all threads together, where r are the numbers of a
//! polynomial over GF(2). Each thread has a part of the stream and may update the whole table. An update reads and
//! writes a word that is in no cache and, with small pages, in no TLB. Many updates may be in flight at once.
//! Does NOT measure bandwidth (a whole line is moved for one word) or the latency of one access. A table that fits in a
//! cache measures that cache.
//! Definition: HPC Challenge 1.5, `RandomAccess` (Koester and Lucas): a table of 2^k words with `table[i] = i`, 4
//! updates per word, the stream x^i modulo x^64 + x^2 + x + 1, at most 1024 updates per thread generated in advance,
//! and at most 1 % wrong words at the end, since threads may overwrite each other's updates. Differences: the table may
//! use huge pages, and the number of updates is a parameter.
//! Checked in every trial: all updates are repeated without loss, which undoes them; then the words that differ from
//! their initial values are counted.

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

/// Updates per word of the table, from the definition.
const UPDATES_PER_WORD: u64 = 4;

/// Updates that a thread generates in advance, so that it can prefetch their lines. Far below the 1024 that the rules
/// allow, but more than the loads that a core can have in flight.
const BATCH: usize = 64;

/// Maximum share of wrong words.
const ERRORS_MAX: f64 = 0.01;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "gups".into(),
        summary: "random memory updates (HPC Challenge's RandomAccess)".into(),
        about:
            "10^9 random updates per second of a table of 2^k 8-byte words, by all threads together, each with its own \
             part of the polynomial's stream. At most 1 % of the words may be wrong at the end, which is checked by \
             undoing all updates. A whole line is moved for each word, so this is not bandwidth. Source: HPC Challenge \
             1.5."
                .into(),
        parameters: parameters([
            Parameter {
                name: "size",
                about: "size of the table, rounded down to a power of two; HPCC uses half of the memory",
                kind: ParameterKind::Size { min: Bytes(1 << 12), max: Bytes(1 << 43) },
                default: Some("8xllc"),
                smoke: Some("1MiB"),
            },
            Parameter {
                name: "updates",
                about: "number of updates, all threads together; 0 is four per word, as in HPCC",
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

/// The updates of one thread: `count` numbers of the stream, starting at `first`.
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
    let team = team::run(job, |worker| one_thread(worker, job.threads, table, updates))?;
    let wrong = team.results.iter().map(|(_, wrong)| wrong).sum();
    check(wrong, words as u64)?;

    let rate = updates as f64 / TimedSpan::seconds_of_all(team.results.iter().map(|(lap, _)| *lap)) / 1e9;
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.found(arena.report()?);
    output.push("gups", rate)?;
    output.push("gups-per-thread", rate / job.threads as f64)?;
    // Frequency of conflicts between threads: stored as raw samples, not as a metric.
    output.push("errors-percent", 100.0 * wrong as f64 / words as f64)?;
    Ok(output)
}

/// Number of words of the table: the largest power of two that fits.
fn words(parameters: &Parameters) -> usize {
    1 << (parameters.size("size") / size_of::<u64>()).ilog2()
}

/// Returns the share of `all` that belongs to one of `threads`: adjacent ranges whose lengths differ by at most one.
fn share(all: u64, thread: usize, threads: usize) -> UpdateRange {
    let border = |thread: usize| (u128::from(all) * thread as u128 / threads as u128) as u64;
    UpdateRange { first: border(thread), count: border(thread + 1) - border(thread) }
}

/// Fills its part of the table, makes its updates, undoes them, and counts the wrong words in its part.
fn one_thread(
    worker: &Worker<'_>,
    threads: usize,
    table: &[AtomicU64],
    updates: u64,
) -> Result<(TimedSpan, u64), Failure> {
    let own = share(table.len() as u64, worker.index, threads);
    let own = own.first as usize..(own.first + own.count) as usize;
    for index in own.clone() {
        table[index].store(index as u64, Ordering::Relaxed);
    }
    let share = share(updates, worker.index, threads);
    let mut lanes = Lanes::at(share.first);
    let ((), lap) = worker.timed_lap(|| update(table, &mut lanes, share.count))?;
    worker.barrier()?;
    undo(table, share);
    worker.barrier()?;
    let wrong = own.filter(|index| table[*index].load(Ordering::Relaxed) != *index as u64).count();
    Ok((lap, wrong as u64))
}

/// Makes updates as defined: a read, an exclusive or, and a write. Another thread's write may come in between.
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

/// Repeats the updates one by one without loss, from a stream generated by the simplest method.
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
    Err(Failure::Failed(format!("too many wrong words: {wrong} of the table's {words} words, at most 1 % allowed")))
}

#[cfg(test)]
mod tests {
    use model::values::workload::Value;

    use super::*;
    use crate::kernels::{can_query_pages, job_for_tests};

    fn errors(output: &KernelOutput) -> f64 {
        output.samples.iter().find(|sample| sample.series == "errors-percent").unwrap().value
    }

    #[test]
    fn single_threads_make_no_errors_and_several_make_few() {
        for threads in [1, 2, 5] {
            let output = run(&TrialContext { threads, ..job_for_tests("gups") }).unwrap();
            assert_eq!(output.pages.values().sum::<u64>() > 0, can_query_pages());
            assert!(threads > 1 || errors(&output) <= 0.0, "{}", errors(&output));
            assert!(output.samples.iter().all(|sample| sample.series == "errors-percent" || sample.value > 0.0));
        }
    }

    #[test]
    fn any_number_of_updates_can_be_undone() {
        for updates in [1, 63, 64, 65, 10_007] {
            let mut job = job_for_tests("gups");
            job.parameters.0.insert("updates".into(), Value::Integer(updates));
            assert!(errors(&run(&job).unwrap()) <= 0.0, "{updates}");
        }
    }

    #[test]
    fn updates_follow_the_stream() {
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
    fn lost_updates_return_an_error() {
        assert_eq!(check(10, 1000), Ok(()));
        assert!(check(11, 1000).unwrap_err().to_string().contains("11 of the table's 1000 words"));
        let table: Vec<AtomicU64> = (0..512).map(AtomicU64::new).collect();
        update(&table, &mut Lanes::at(0), 999);
        undo(&table, UpdateRange { first: 0, count: 1000 });
        let wrong = (0..512).filter(|index| table[*index as usize].load(Ordering::Relaxed) != *index).count();
        assert_eq!(wrong, 1, "the update that was not made");
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
