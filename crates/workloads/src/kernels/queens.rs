//! N queens: branch and integer speed of a core. Counts all ways to place N queens on an N x N board so that no two
//! attack each other.
//!
//! Measures: solutions per second and the total time, by backtracking over bit masks of columns and diagonals. The work
//! is hard-to-predict branches and integer arithmetic within the L1 cache, without memory traffic.
//! The search abandons a row if one of the next two rows has no free square. Rotation and reflection map a solution to
//! up to eight solutions. The search covers only those whose queen in the first row is at least as near to a corner as
//! the queens on the other three borders, and counts the rest. The first three rows form the work items, which the
//! threads draw from a shared counter.
//! Does NOT measure memory, floating point or vector units. Rates of different N are not comparable.
//! Definition: as m-queens (github.com/sudden6/m-queens), whose time for N = 17 is often quoted. The counts are OEIS
//! A000170.

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

/// Smallest N. Some smaller boards have no solution and therefore no rate.
const N_MIN: i64 = 4;
/// Largest N in the table.
const N_MAX: usize = SOLUTIONS.len() - 1;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "queens".into(),
        summary: "integer speed: all solutions of the N queens problem".into(),
        about: "Solutions per second of the N queens problem by backtracking over bit masks: branches and integer \
                arithmetic in the L1 cache. Does not measure memory or floating point. Compare results of equal N \
                only. Source: m-queens."
            .into(),
        parameters: parameters([Parameter {
            name: "n",
            about: "number of queens and rows; each increment multiplies the time by about seven",
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
    let team = team::run(job, |worker| one_thread(worker, &starts, &next))?;
    let counts = team.results.iter().fold(Counts::default(), |all, (counts, _)| all.add(*counts));
    let solutions = counts.solutions();
    check(n, solutions)?;

    let seconds = TimedSpan::seconds_of_all(team.results.iter().map(|(_, lap)| *lap));
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.push("solutions", solutions as f64 / seconds)?;
    output.push("time", seconds)?;
    Ok(output)
}

fn one_thread(worker: &Worker<'_>, starts: &[Start], next: &AtomicUsize) -> Result<(Counts, TimedSpan), Failure> {
    worker.timed_lap(|| {
        let mut counts = Counts::default();
        while let Some(start) = starts.get(next.fetch_add(1, Ordering::Relaxed)) {
            complete(&start.rows, start.row, start.board, start.ties, &mut counts);
        }
        counts
    })
}

/// The attacked squares of the next row, by direction of attack.
#[derive(Clone, Copy)]
struct Board {
    columns: u32,
    leftward: u32,
    rightward: u32,
}

impl Board {
    const EMPTY: Self = Self { columns: 0, leftward: 0, rightward: 0 };

    /// Free squares of the next row.
    #[inline]
    fn free(self, squares: u32) -> u32 {
        squares & !(self.columns | self.leftward | self.rightward)
    }

    /// Free squares of the row after the next, if the next row has no queen.
    #[inline]
    fn free_after_next(self, squares: u32) -> u32 {
        squares & !(self.columns | (self.leftward << 1) | (self.rightward >> 1))
    }

    /// Returns the board after placing a queen on `square` of the next row.
    #[inline]
    fn with(self, square: u32) -> Self {
        Self {
            columns: self.columns | square,
            leftward: (self.leftward | square) << 1,
            rightward: (self.rightward | square) >> 1,
        }
    }
}

/// The allowed squares of a search whose first queen is `depth` squares from a corner while no queen on another border
/// is nearer to one. Rotation and reflection map a solution to up to eight solutions; the search covers those whose
/// first row is such a border.
#[derive(Clone)]
struct Rows {
    n: usize,
    allowed: [u32; N_MAX],
    /// By row, the squares where the queen of another border is as near to a corner as that of the first row.
    ties: [u32; N_MAX],
    /// Mask of the first and the last column.
    sides: u32,
    /// Row by which both of these columns must have their queen.
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

    /// Returns 1 if a queen on this square makes a tie, otherwise 0.
    #[inline]
    fn tie(&self, row: usize, square: u32) -> usize {
        usize::from(square & self.ties[row] != 0)
    }
}

/// Boards found, by the number of border ends whose queen is as near to the corner as that of the first row. The search
/// finds a board once for each such end, so each board found counts as eight divided by that number.
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

/// Returns all placements of the first three rows with the first queen in the left half. If the first queen of an odd
/// board were in the middle column, the queens of all four borders would have to be in the middle.
fn starts(n: usize) -> Vec<Start> {
    let first = |depth: usize| {
        let rows = Rows::new(n, depth);
        let ties = 1 + rows.tie(0, 1 << depth);
        Start { board: Board::EMPTY.with(1 << depth), row: 1, ties, rows }
    };
    let next = |start: Start| {
        let free: Vec<u32> = bits(start.board.free(start.rows.allowed[start.row])).collect();
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

/// Iterates over the single bits of a mask.
fn bits(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let square = mask & mask.wrapping_neg();
        mask ^= square;
        (square != 0).then_some(square)
    })
}

/// Counts the ways to fill the rows from `row` on. At least two rows remain.
#[inline(never)]
fn complete(rows: &Rows, row: usize, board: Board, ties: usize, counts: &mut Counts) {
    let mut free = board.free(rows.allowed[row]);
    let is_last_but_one = row + 2 == rows.n;
    while free != 0 {
        let square = free & free.wrapping_neg();
        free ^= square;
        let after = board.with(square);
        // One column remains for the last row, so at most one square is free.
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

/// Compares with the published count; small boards are also counted by a second method.
fn check(n: usize, solutions: u64) -> Result<(), Failure> {
    /// Largest board for the second method, which takes a few milliseconds.
    const SLOW_MAX: usize = 8;
    let expected = if n <= SLOW_MAX { count_slowly(n, &mut Vec::new()) } else { SOLUTIONS[n] };
    if solutions == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong number of solutions for {n} queens: {solutions}, expected {expected}")))
}

/// Tries every column in every row and compares each queen with all previous ones.
fn count_slowly(n: usize, columns: &mut Vec<usize>) -> u64 {
    if columns.len() == n {
        return 1;
    }
    let mut solutions = 0;
    for column in 0..n {
        let row = columns.len();
        let attacked = columns.iter().enumerate().any(|(r, c)| *c == column || c.abs_diff(column) == row - r);
        if !attacked {
            columns.push(column);
            solutions += count_slowly(n, columns);
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
    fn counts_up_to_size_thirteen_are_correct() {
        for n in 4..=13 {
            let mut job = TrialContext { threads: 2, ..job_for_tests("queens") };
            set(&mut job, "n", &n.to_string());
            assert!(run(&job).is_ok(), "{n}");
        }
    }

    #[test]
    fn slow_count_matches_the_published_table() {
        for (n, expected) in SOLUTIONS.iter().enumerate().take(9) {
            assert_eq!(count_slowly(n, &mut Vec::new()), *expected, "{n}");
        }
    }

    #[test]
    fn symmetric_solutions_are_counted_once() {
        // Four of the 92 solutions for 8 queens have only two images, and so do all 4 for 6 queens: both
        // kinds of boards occur.
        for (n, ties_max) in [(6, 2), (8, 2), (12, 4)] {
            let mut counts = Counts::default();
            for start in starts(n) {
                complete(&start.rows, start.row, start.board, start.ties, &mut counts);
            }
            assert_eq!(counts.solutions(), SOLUTIONS[n], "{n}");
            assert!(counts.0[ties_max..].iter().any(|found| *found > 0), "{n}: {:?}", counts.0);
            // The division leaves no remainder; a wrong number of ties would.
            assert!((1..).zip(&counts.0[1..]).all(|(ties, found)| (found * 8).is_multiple_of(ties)));
        }
    }

    #[test]
    fn missing_solution_returns_an_error() {
        for n in [6, 10, 17] {
            assert_eq!(check(n, SOLUTIONS[n]), Ok(()));
            assert!(check(n, SOLUTIONS[n] - 1).is_err());
        }
    }
}
