//! N queens: how fast a core decides. Counts all ways to put N queens on an N x N board so that none attacks another.
//!
//! Measures: solutions per second, and the seconds for all of them, by backtracking over bit masks of columns and
//! diagonals. Branches that are hard to predict and integer arithmetic within the L1 cache; no memory traffic.
//! The first two rows make the work items, which the threads draw from one counter; the mirror image of each board is
//! counted and not searched.
//! Does NOT measure memory, floating point or vector units; rates of different N do not compare.
//! Definition: as m-queens (github.com/sudden6/m-queens), whose time for N = 17 is often quoted. The counts are
//! OEIS A000170.

use std::sync::atomic::{AtomicUsize, Ordering};

use model::units::Nanos;
use model::workload::{Better, ParameterKind, Reduce, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, Job, Measured};
use crate::team::{self, Lap, Member};

/// OEIS A000170, from N = 0.
const SOLUTIONS: [u64; 22] = [
    1,
    1,
    0,
    0,
    2,
    10,
    4,
    40,
    92,
    352,
    724,
    2_680,
    14_200,
    73_712,
    365_596,
    2_279_184,
    14_772_512,
    95_815_104,
    666_090_624,
    4_968_057_848,
    39_029_188_884,
    314_666_222_712,
];

/// Below 4 there are boards without a solution, which have no rate.
const N_MIN: i64 = 4;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "queens".into(),
        summary: "integer speed: all solutions of the N queens problem".into(),
        about: "Solutions per second of the N queens problem by backtracking over bit masks: branches and integer \
                arithmetic in the L1 cache. Does not measure memory or floating point; compare equal N only. \
                Source: m-queens."
            .into(),
        parameters: parameters([Parameter {
            name: "n",
            about: "queens and rows; each one more takes about seven times as long",
            kind: ParameterKind::Integer { min: N_MIN, max: SOLUTIONS.len() as i64 - 1 },
            default: Some("14"),
            smoke: Some("10"),
        }]),
        metrics: metrics([
            Metric {
                name: "solutions",
                unit: "solutions/s",
                better: Better::Higher,
                series: "solutions",
                reduce: Reduce::Median,
            },
            Metric { name: "time", unit: "s", better: Better::Lower, series: "time", reduce: Reduce::Median },
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(200_000_000),
    }
}

pub(crate) fn run(job: &Job) -> Result<Measured, Failure> {
    let n = job.parameters.size("n");
    let starts = starts(n);
    let next = AtomicUsize::new(0);
    let crew = team::run(job, |member| one_thread(member, n, &starts, &next))?;
    let solutions = crew.results.iter().map(|(solutions, _)| solutions).sum();
    check(n, solutions)?;

    let seconds = Lap::seconds_of_all(crew.results.iter().map(|(_, lap)| *lap));
    let mut measured = Measured { thread_seats: crew.seats, ..Measured::default() };
    measured.push("solutions", solutions as f64 / seconds)?;
    measured.push("time", seconds)?;
    Ok(measured)
}

fn one_thread(member: &Member<'_>, n: usize, starts: &[Board], next: &AtomicUsize) -> Result<(u64, Lap), Failure> {
    let squares = row_mask(n);
    member.timed_lap(|| {
        let mut solutions = 0;
        while let Some(start) = starts.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Each start stands for itself and its mirror image.
            solutions += 2 * completions(squares, *start);
        }
        solutions
    })
}

/// The squares of the next row that are attacked, by kind.
#[derive(Clone, Copy)]
struct Board {
    columns: u32,
    leftward: u32,
    rightward: u32,
}

impl Board {
    const EMPTY: Self = Self { columns: 0, leftward: 0, rightward: 0 };

    #[inline]
    fn free(self, squares: u32) -> u32 {
        squares & !(self.columns | self.leftward | self.rightward)
    }

    /// With a queen on `square` of the next row, seen from the row after it.
    #[inline]
    fn with(self, square: u32) -> Self {
        Self {
            columns: self.columns | square,
            leftward: (self.leftward | square) << 1,
            rightward: (self.rightward | square) >> 1,
        }
    }
}

fn row_mask(n: usize) -> u32 {
    (1 << n) - 1
}

/// All placements of the first two rows but for mirror images: the first queen left of the middle, or in the middle
/// of an odd board with the second left of it.
fn starts(n: usize) -> Vec<Board> {
    let squares = row_mask(n);
    let left_half = row_mask(n / 2);
    let middle = if n % 2 == 1 { 1 << (n / 2) } else { 0 };
    let first_rows =
        squares_of(left_half).map(|first| (first, squares)).chain((middle != 0).then_some((middle, left_half)));
    let second_rows = |(first, allowed)| {
        let board = Board::EMPTY.with(first);
        squares_of(board.free(squares) & allowed).map(move |second| board.with(second))
    };
    first_rows.flat_map(second_rows).collect()
}

/// The single bits of a mask.
fn squares_of(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let square = mask & mask.wrapping_neg();
        mask ^= square;
        (square != 0).then_some(square)
    })
}

/// How many ways there are to fill the rows that are left.
fn completions(squares: u32, board: Board) -> u64 {
    let mut free = board.free(squares);
    let mut solutions = 0;
    while free != 0 {
        let square = free & free.wrapping_neg();
        free ^= square;
        let after = board.with(square);
        if after.columns == squares {
            solutions += 1;
        } else if after.free(squares) != 0 {
            solutions += completions(squares, after);
        }
    }
    solutions
}

/// Compares with the published count; small boards are also counted a second way.
fn check(n: usize, solutions: u64) -> Result<(), Failure> {
    /// Takes some milliseconds.
    const SLOW_MAX: usize = 8;
    let expected = if n <= SLOW_MAX { slowly(n, &mut Vec::new()) } else { SOLUTIONS[n] };
    if solutions == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("{solutions} solutions were found for {n} queens, there are {expected}")))
}

/// Tries every column in every row, comparing each queen with all before it.
fn slowly(n: usize, columns: &mut Vec<usize>) -> u64 {
    if columns.len() == n {
        return 1;
    }
    let mut solutions = 0;
    for column in 0..n {
        let row = columns.len();
        let attacked = columns.iter().enumerate().any(|(r, c)| *c == column || c.abs_diff(column) == row - r);
        if !attacked {
            columns.push(column);
            solutions += slowly(n, columns);
            columns.pop();
        }
    }
    solutions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_on_three_threads() {
        check_smoke("queens", &run(&Job { threads: 3, ..job_for_tests("queens") }).unwrap());
    }

    #[test]
    fn every_size_up_to_twelve_is_counted_right() {
        for n in 4..=12 {
            let mut job = job_for_tests("queens");
            set(&mut job, "n", &n.to_string());
            assert!(run(&job).is_ok(), "{n}");
        }
    }

    #[test]
    fn the_slow_count_agrees_with_the_published_table() {
        for (n, expected) in SOLUTIONS.iter().enumerate().take(9) {
            assert_eq!(slowly(n, &mut Vec::new()), *expected, "{n}");
        }
    }

    #[test]
    fn a_missing_solution_is_found() {
        for n in [6, 10, 17] {
            assert_eq!(check(n, SOLUTIONS[n]), Ok(()));
            assert!(check(n, SOLUTIONS[n] - 1).is_err());
        }
    }
}
