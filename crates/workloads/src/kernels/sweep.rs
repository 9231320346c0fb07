//! Memory sweeps page by page: forward, backward, strided, random, or over several arrays at once.
//!
//! Measures: pages of 4 KiB touched per second. A sweep uses every word of a page; strided and random access use one.
//! Each thread has separate memory. Meant for memory that does not fit in DRAM (placements `expand:` and `swap:`).
//! Does NOT measure peak bandwidth. `stream` does, with optimised loops; this workload measures page faults.

use std::hint::black_box;
use std::time::Instant;

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use super::arena::{self, Arena};
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, MemoryReport, TrialContext};
use crate::random::Random;
use crate::team::{self, Worker};

/// Bytes that count as one page, also on machines with larger pages.
const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;
/// Stride of strided access, in bytes.
const STEP: usize = 128 << 10;
/// Random touches between two readings of the clock.
const TOUCHES: usize = 512;
/// Distance in words between the words that are verified afterwards. A prime, so that they fall on all offsets within
/// pages.
const CHECKED_EVERY: usize = 4093;

const PATTERNS: [&str; 9] = [
    "read",
    "read-modify-write",
    "triad",
    "three-streams",
    "backward",
    "steps",
    "random-read",
    "random-write",
    "first-touch",
];

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "sweep".into(),
        summary: "memory sweeps beyond the size of DRAM: pages touched per second".into(),
        about: "Pages of 4 KiB touched per second: swept forward (read, read-modify-write), backward, as a STREAM \
                triad, over three arrays at once, in strides of 128 KiB (columns of a matrix), at random, or touched \
                for the first time. Every thread has separate memory. Does not measure peak bandwidth; stream does."
            .into(),
        parameters: parameters([
            Parameter {
                name: "pattern",
                about: "access pattern",
                kind: choice(&PATTERNS),
                default: Some("read"),
                smoke: None,
            },
            Parameter {
                name: "size",
                about: "bytes that each thread sweeps",
                kind: ParameterKind::Size { min: Bytes(1 << 20), max: Bytes(1 << 43) },
                default: Some("1GiB"),
                smoke: Some("4MiB"),
            },
            Parameter {
                name: "passes",
                about: "passes of a sweep over all of its memory",
                kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
                default: Some("2"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "duration of strided and random access",
                kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(3_600_000_000_000) },
                default: Some("4s"),
                smoke: Some("50ms"),
            },
            Parameter {
                name: "incompressible",
                about: "percentage of each page that is random; the other words are their numbers",
                kind: ParameterKind::Integer { min: 0, max: 100 },
                default: Some("0"),
                smoke: None,
            },
            Parameter { default: Some("no"), ..arena::huge_pages_parameter() },
        ]),
        metrics: metrics([Metric::median("touched", "pages/s", Better::Higher)]),
        threads_exactly: None,
        trial_time_guess: Nanos(10_000_000_000),
    }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let team = team::run(job, |worker| one_thread(job, worker))?;
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.push("touched", team.results.iter().map(|(rate, _)| rate).sum())?;
    team.results.into_iter().for_each(|(_, found)| output.found(found));
    Ok(output)
}

/// Pages touched per second and the memory report of one thread.
fn one_thread(job: &TrialContext, worker: &Worker<'_>) -> Result<(f64, MemoryReport), Failure> {
    let mut arena = Arena::new(job, job.parameters.size("size"))?;
    let rate = touch(job, worker, arena.as_u64())?;
    Ok((rate, arena.report()?))
}

fn touch(job: &TrialContext, worker: &Worker<'_>, words: &mut [u64]) -> Result<f64, Failure> {
    let pattern = job.parameters.text("pattern");
    let data = PageData::new(job.parameters.integer("incompressible") as usize);
    if pattern == "first-touch" {
        let began = Instant::now();
        worker.timed(|| {
            data.fill(words);
            Ok(())
        })?;
        let rate = (words.len() / WORDS) as f64 / began.elapsed().as_secs_f64();
        return data.check(words, 0).map(|()| rate);
    }
    data.fill(words);
    let passes = job.parameters.integer("passes") as usize;
    let time = job.time("time");
    let mut random = Random::of_thread(job.seed, worker.index);
    let began = Instant::now();
    let (touched, added) = worker.timed(|| {
        Ok(match pattern {
            "read" => (sweep(passes, words, |words| words.iter().fold(0, |sum, word| sum ^ word)), 0),
            "backward" => (sweep(passes, words, |words| words.iter().rev().fold(0, |sum, word| sum ^ word)), 0),
            "read-modify-write" => (modify(passes, words), passes as u64),
            "triad" => (triad(passes, words), 0),
            "three-streams" => (three_streams(passes, words), 0),
            "steps" => (steps(words, began, time), 0),
            "random-read" => (
                at_random(&mut random, words.len() / WORDS, began, time, |page| {
                    black_box(words[page * WORDS]);
                }),
                0,
            ),
            _ => (
                at_random(&mut random, words.len() / WORDS, began, time, |page| {
                    // The value stays the one that the check expects, but the page becomes dirty.
                    let word = &mut words[page * WORDS];
                    *word = black_box(*word);
                }),
                0,
            ),
        })
    })?;
    let rate = touched as f64 / began.elapsed().as_secs_f64();
    if pattern == "triad" { data.check_triad(words) } else { data.check(words, added) }.map(|()| rate)
}

/// Content of the pages. Each word follows from its number, so that misplaced data are found.
#[derive(Clone, Copy)]
struct PageData {
    /// Number of words at the start of each page that cannot be compressed.
    random_words: usize,
}

impl PageData {
    fn new(percent: usize) -> Self {
        Self { random_words: WORDS * percent / 100 }
    }

    fn word(self, at: usize) -> u64 {
        if at % WORDS < self.random_words { Random::of_thread(at as u64, 0).next() } else { at as u64 }
    }

    fn fill(self, words: &mut [u64]) {
        words.iter_mut().enumerate().for_each(|(at, word)| *word = self.word(at));
    }

    fn check(self, words: &[u64], added: u64) -> Result<(), Failure> {
        let expected = |at: usize| self.word(at).wrapping_add(added);
        let wrong = (0..words.len()).step_by(CHECKED_EVERY).find(|at| words[*at] != expected(*at));
        wrong.map_or(Ok(()), |at| {
            Err(Failure::Failed(format!("word {at} was {}, but memory holds {}", expected(at), words[at])))
        })
    }

    fn check_triad(self, words: &[u64]) -> Result<(), Failure> {
        let third = words.len() / 3;
        let expected = |at: usize| {
            let c = self.word(2 * third + at).wrapping_mul(3);
            self.word(third + at).wrapping_add(c)
        };
        let wrong = (0..third).step_by(CHECKED_EVERY).find(|at| words[*at] != expected(*at));
        wrong.map_or(Ok(()), |at| Err(Failure::Failed(format!("wrong triad result at word {at}: {}", words[at]))))
    }
}

/// Returns the number of touched pages. The result of the sweep is used, so that the compiler cannot remove it.
fn sweep(passes: usize, words: &[u64], once: impl Fn(&[u64]) -> u64) -> usize {
    (0..passes).for_each(|_| {
        black_box(once(black_box(words)));
    });
    passes * (words.len() / WORDS)
}

fn modify(passes: usize, words: &mut [u64]) -> usize {
    for _ in 0..passes {
        black_box(&mut *words).iter_mut().for_each(|word| *word = word.wrapping_add(1));
    }
    passes * (words.len() / WORDS)
}

/// Splits the words into thirds and sets the first to the second plus three times the last.
fn triad(passes: usize, words: &mut [u64]) -> usize {
    let third = words.len() / 3;
    let (a, rest) = words.split_at_mut(third);
    let (b, c) = rest.split_at_mut(third);
    for _ in 0..passes {
        for ((a, b), c) in black_box(&mut *a).iter_mut().zip(&*b).zip(&*c) {
            *a = b.wrapping_add(c.wrapping_mul(3));
        }
    }
    passes * (3 * third / WORDS)
}

fn three_streams(passes: usize, words: &[u64]) -> usize {
    let third = words.len() / 3;
    let (a, rest) = words.split_at(third);
    let (b, c) = rest.split_at(third);
    for _ in 0..passes {
        let all = black_box(a).iter().zip(b).zip(c);
        black_box(all.fold(0, |sum: u64, ((a, b), c)| sum ^ a.wrapping_mul(*b) ^ c));
    }
    passes * (3 * third / WORDS)
}

/// Reads columns of a matrix with rows of [`STEP`] bytes: one page of each row, then the next page of each row.
fn steps(words: &[u64], began: Instant, time: std::time::Duration) -> usize {
    let mut touched = 0;
    for column in (0..STEP / PAGE).cycle() {
        for at in (column * WORDS..words.len()).step_by(STEP / 8) {
            black_box(words[at]);
            touched += 1;
        }
        if began.elapsed() >= time {
            return touched;
        }
    }
    unreachable!("the iterator of columns is infinite")
}

fn at_random(
    random: &mut Random,
    pages: usize,
    began: Instant,
    time: std::time::Duration,
    mut touch: impl FnMut(usize),
) -> usize {
    let mut touched = 0;
    while began.elapsed() < time {
        (0..TOUCHES).for_each(|_| touch(random.below(pages)));
        touched += TOUCHES;
    }
    touched
}

#[cfg(test)]
mod tests {
    use model::values::workload::Value;

    use super::*;
    use crate::kernels::{check_smoke, job_for_tests};

    fn job(pattern: &str) -> TrialContext {
        let mut job = job_for_tests("sweep");
        job.parameters.0.insert("pattern".into(), Value::Text(pattern.into()));
        job
    }

    #[test]
    fn every_pattern_touches_pages_and_verifies_data() {
        for pattern in PATTERNS {
            for (threads, percent) in [(1, 0), (2, 45)] {
                let mut job = TrialContext { threads, ..job(pattern) };
                job.parameters.0.insert("incompressible".into(), Value::Integer(percent));
                check_smoke("sweep", &run(&job).unwrap());
            }
        }
    }

    #[test]
    fn corrupt_data_returns_an_error() {
        let data = PageData::new(0);
        let mut words: Vec<u64> = (0..10_000).collect();
        data.check(&words, 0).unwrap();
        words[CHECKED_EVERY] ^= 1;
        let error = data.check(&words, 0).unwrap_err().to_string();
        assert!(error.contains("word 4093 was 4093, but memory holds 4092"), "{error}");
        for percent in [0, 45, 100] {
            let data = PageData::new(percent);
            data.fill(&mut words);
            data.check(&words, 0).unwrap();
            assert!(data.check(&words, 1).is_err());
            triad(1, &mut words);
            data.check_triad(&words).unwrap();
            words[0] ^= 1;
            assert!(data.check_triad(&words).is_err());
        }
    }

    #[test]
    fn part_of_each_page_is_random() {
        let mut words = vec![0; 2 * WORDS];
        PageData::new(25).fill(&mut words);
        let are_numbers = |at: std::ops::Range<usize>| at.clone().filter(|at| words[*at] == *at as u64).count();
        assert_eq!((are_numbers(0..128), are_numbers(128..512)), (0, 384));
        assert_eq!((are_numbers(512..640), are_numbers(640..1024)), (0, 384));
    }

    #[test]
    fn pages_are_counted_once_per_pass() {
        let mut words = vec![0; 6 * WORDS];
        assert_eq!(modify(3, &mut words), 18);
        assert!(words.iter().all(|word| *word == 3));
        assert_eq!((triad(2, &mut words), three_streams(1, &words)), (12, 6));
    }
}
