//! N queens: how fast a core decides. Counts all ways to put N queens on an N x N board so that none attacks another.
//!
//! Measures: solutions per second, and the seconds for all of them, by backtracking over bit masks of columns and
//! diagonals. Branches that are hard to predict and integer arithmetic within the L1 cache; no memory traffic.
//! A row is left when one of the next two has no free square. Of the up to eight images of a solution by turning and
//! mirroring those are searched whose first row's queen is nearest to a corner of all four borders'; the others are
//! counted. The first three rows make the work items, which the threads draw from one counter.
//! Does NOT measure memory, floating point or vector units; rates of different N do not compare.
//! Definition: as m-queens (github.com/sudden6/m-queens), whose time for N = 17 is often quoted. The counts are
//! OEIS A000170.

use std::sync::atomic::{AtomicUsize, Ordering};

use model::values::units::Nanos;
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, TimedSpan, Worker};

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
/// The largest in the table.
const N_MAX: usize = SOLUTIONS.len() - 1;

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
            kind: ParameterKind::Integer { min: N_MIN, max: N_MAX as i64 },
            default: Some("14"),
            smoke: Some("10"),
        }]),
        metrics: metrics([
            Metric::median("solutions", "solutions/s", Better::Higher),
            Metric::median("time", "s", Better::Lower),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(200_000_000),
    }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let n = job.parameters.size("n");
    let starts = starts(n);
    let next = AtomicUsize::new(0);
    let crew = team::run(job, |member| one_thread(member, &starts, &next))?;
    let counts = crew.results.iter().fold(Counts::default(), |all, (counts, _)| all.add(*counts));
    let solutions = counts.solutions();
    check(n, solutions)?;

    let seconds = TimedSpan::seconds_of_all(crew.results.iter().map(|(_, lap)| *lap));
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    measured.push("solutions", solutions as f64 / seconds)?;
    measured.push("time", seconds)?;
    Ok(measured)
}

fn one_thread(member: &Worker<'_>, starts: &[Start], next: &AtomicUsize) -> Result<(Counts, TimedSpan), Failure> {
    member.timed_lap(|| {
        let mut counts = Counts::default();
        while let Some(start) = starts.get(next.fetch_add(1, Ordering::Relaxed)) {
            complete(&start.rows, start.row, start.board, start.ties, &mut counts);
        }
        counts
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

    /// Of the next row's squares.
    #[inline]
    fn free(self, squares: u32) -> u32 {
        squares & !(self.columns | self.leftward | self.rightward)
    }

    /// Of the squares of the row after the next, should nobody stand in the next.
    #[inline]
    fn free_after_next(self, squares: u32) -> u32 {
        squares & !(self.columns | (self.leftward << 1) | (self.rightward >> 1))
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

/// What the rows of a board may hold that begins with a queen `depth` squares from a corner, when no other border's queen is
/// nearer to one. Turning and mirroring a solution gives up to eight; of these we search those whose first row is such a border.
#[derive(Clone)]
struct Rows {
    n: usize,
    allowed: [u32; N_MAX],
    /// By row, the squares where another border's queen is just as near to a corner as the first row's.
    ties: [u32; N_MAX],
    /// The first and the last column.
    sides: u32,
    /// From this row on both of them must have their queen.
    sides_by: usize,
}

impl Rows {
    fn new(n: usize, depth: usize) -> Self {
        let sides = 1 | 1 << (n - 1);
        let (near, far) = (depth, n - 1 - depth);
        let mut rows = Self { n, allowed: [row_mask(n); N_MAX], ties: [0; N_MAX], sides, sides_by: far + 1 };
        for row in (0..near).chain(far + 1..n) {
            rows.allowed[row] &= !sides;
        }
        rows.ties[near] = sides;
        rows.ties[far] = sides;
        let corners = row_mask(depth) | row_mask(depth) << (n - depth);
        rows.allowed[n - 1] &= !corners;
        rows.ties[n - 1] |= 1 << near | 1 << far;
        rows
    }

    /// One when a queen in this row makes a tie.
    #[inline]
    fn tie(&self, row: usize, square: u32) -> usize {
        usize::from(square & self.ties[row] != 0)
    }
}

/// The boards that were found, by how many of the four borders, each looked at from both its ends, are as near to a
/// corner as the first row: that many of their eight turned and mirrored images are found, so each stands for eight
/// divided by it.
#[derive(Clone, Copy, Default)]
struct Counts([u64; BORDER_ENDS + 1]);

/// Four borders with two ends.
const BORDER_ENDS: usize = 8;

impl Counts {
    fn add(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
        self
    }

    fn solutions(self) -> u64 {
        (1..).zip(&self.0[1..]).map(|(ties, found)| found * BORDER_ENDS as u64 / ties).sum()
    }
}

/// A work item: a board with its first three rows filled.
struct Start {
    rows: Rows,
    row: usize,
    board: Board,
    ties: usize,
}

fn row_mask(n: usize) -> u32 {
    (1 << n) - 1
}

/// All placements of the first three rows, the first queen in the left half: with one in the middle of an odd board, all four
/// borders' would have to be there.
fn starts(n: usize) -> Vec<Start> {
    let first = |depth: usize| {
        let rows = Rows::new(n, depth);
        let ties = 1 + rows.tie(0, 1 << depth);
        Start { board: Board::EMPTY.with(1 << depth), row: 1, ties, rows }
    };
    let next = |start: Start| {
        let free: Vec<u32> = squares_of(start.board.free(start.rows.allowed[start.row])).collect();
        free.into_iter().map(move |square| Start {
            rows: start.rows.clone(),
            row: start.row + 1,
            board: start.board.with(square),
            ties: start.ties + start.rows.tie(start.row, square),
        })
    };
    let firsts = (0..(n - 1).div_ceil(2)).map(first);
    // The last two rows belong to `complete`.
    if n < 5 { firsts.collect() } else { firsts.flat_map(next).flat_map(next).collect() }
}

/// The single bits of a mask.
fn squares_of(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let square = mask & mask.wrapping_neg();
        mask ^= square;
        (square != 0).then_some(square)
    })
}

/// Counts the ways to fill the rows from `row` on, of which there are two at least.
#[inline(never)]
fn complete(rows: &Rows, row: usize, board: Board, ties: usize, counts: &mut Counts) {
    let mut free = board.free(rows.allowed[row]);
    let is_last_but_one = row + 2 == rows.n;
    while free != 0 {
        let square = free & free.wrapping_neg();
        free ^= square;
        let after = board.with(square);
        // One column is left for the last row, so there is one square at most.
        let next = after.free(rows.allowed[row + 1]);
        if is_last_but_one {
            if next != 0 {
                counts.0[ties + rows.tie(row, square) + rows.tie(row + 1, next)] += 1;
            }
            continue;
        }
        let sides_missing = row + 1 >= rows.sides_by && after.columns & rows.sides != rows.sides;
        if next != 0 && after.free_after_next(rows.allowed[row + 2]) != 0 && !sides_missing {
            complete(rows, row + 1, after, ties + rows.tie(row, square), counts);
        }
    }
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
        check_smoke("queens", &run(&TrialContext { threads: 3, ..job_for_tests("queens") }).unwrap());
    }

    #[test]
    fn every_size_up_to_thirteen_is_counted_right() {
        for n in 4..=13 {
            let mut job = TrialContext { threads: 2, ..job_for_tests("queens") };
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
    fn no_symmetric_solution_is_counted_twice() {
        // Of 8 queens' 92 solutions 4 have two images only, of 6 queens' 4 all: both kinds of boards are there.
        for (n, ties_max) in [(6, 2), (8, 2), (12, 4)] {
            let mut counts = Counts::default();
            for start in starts(n) {
                complete(&start.rows, start.row, start.board, start.ties, &mut counts);
            }
            assert_eq!(counts.solutions(), SOLUTIONS[n], "{n}");
            assert!(counts.0[ties_max..].iter().any(|found| *found > 0), "{n}: {:?}", counts.0);
            // Divided without rest, which a wrong number of ties leaves.
            assert!((1..).zip(&counts.0[1..]).all(|(ties, found)| (found * 8).is_multiple_of(ties)));
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
