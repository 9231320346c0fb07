//! N queens: branch and integer speed of a core. Counts all ways to place N queens on an N x N board so that no two
//! attack each other.
//!
//! Measures: solutions per second and the total time, by backtracking over bit masks of columns and diagonals with an
//! explicit stack. The work is hard-to-predict branches and integer arithmetic within the L1 cache, without memory
//! traffic.
//! The search covers one of two mirror images: the queen of the second row is to the right of the first row's, and each
//! solution counts twice. A square is abandoned if one of the next three rows has no free square left. The first three
//! rows form the work items, which the threads draw from a shared counter.
//! Does NOT measure memory, floating point or vector units. Rates of different N are not comparable.
//! Definition: the search of m-queens (github.com/sudden6/m-queens), whose rate for N = 17 is often quoted: the same
//! squares are tried in the same order. The counts are OEIS A000170.

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
    // Each solution found has a mirror image.
    let solutions = 2 * team.results.iter().map(|(found, _)| found).sum::<u64>();
    check(n, solutions)?;

    let seconds = TimedSpan::seconds_of_all(team.results.iter().map(|(_, lap)| *lap));
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.push("solutions", solutions as f64 / seconds)?;
    output.push("time", seconds)?;
    Ok(output)
}

fn one_thread(worker: &Worker<'_>, starts: &[Row], next: &AtomicUsize) -> Result<(u64, TimedSpan), Failure> {
    worker.timed_lap(|| {
        let mut found = 0;
        while let Some(start) = starts.get(next.fetch_add(1, Ordering::Relaxed)) {
            found += complete(*start);
        }
        found
    })
}

/// A row of the search: the squares that are attacked by the queens before it. Columns beyond the board count as attacked,
/// so a row without a free square is `FULL`.
#[derive(Clone, Copy)]
struct Row {
    columns: u32,
    leftward: u32,
    rightward: u32,
    /// Squares that are attacked or were tried.
    used: u32,
    /// Number of rows from this one on.
    rows: i32,
}

const FULL: u32 = u32::MAX;

impl Row {
    fn first(n: usize) -> Self {
        let outside = !((1 << n) - 1);
        Self { columns: outside, leftward: 0, rightward: 0, used: outside, rows: n as i32 }
    }

    /// Returns the rows after this one, with its queen on each free square.
    fn nexts(self) -> impl Iterator<Item = Self> {
        let free = (0..u32::BITS).map(|column| 1 << column).filter(move |square| self.used & square == 0);
        free.map(move |square| {
            let columns = self.columns | square;
            let (leftward, rightward) = ((self.leftward | square) << 1, (self.rightward | square) >> 1);
            Self { columns, leftward, rightward, used: columns | leftward | rightward, rows: self.rows - 1 }
        })
    }
}

/// Returns the fourth row of all placements of three rows in which the second queen is to the right of the first.
fn starts(n: usize) -> Vec<Row> {
    let firsts = Row::first(n).nexts().enumerate();
    let seconds = firsts.flat_map(|(column, row)| Row { used: row.used | ((1 << column) - 1), ..row }.nexts());
    seconds.flat_map(Row::nexts).collect()
}

/// Counts the ways to fill the rows from `start` on. The current row is in local variables, because a structure makes the
/// search 10 % slower.
#[inline(never)]
fn complete(start: Row) -> u64 {
    /// Number of rows after a row that are checked for free squares, if all of them exist.
    const CHECKED: i32 = 3;
    let mut stack = [start; N_MAX];
    let mut depth = 0;
    let Row { mut columns, mut leftward, mut rightward, mut used, mut rows } = start;
    let mut found = 0;
    loop {
        while used != FULL {
            let square = !used & used.wrapping_add(1);
            used |= square;
            let (c, l, r) = (columns | square, (leftward | square) << 1, (rightward | square) >> 1);
            let next = c | l | r;
            if next == FULL {
                found += u64::from(c == FULL);
                continue;
            }
            if rows > CHECKED && ((c | l << 2 | r >> 2) == FULL || (c | l << 1 | r >> 1) == FULL) {
                continue;
            }
            // A row without free squares is overwritten, so that the search does not return to it.
            stack[depth] = Row { columns, leftward, rightward, used, rows };
            depth += usize::from(used != FULL);
            (columns, leftward, rightward, used, rows) = (c, l, r, next, rows - 1);
        }
        if depth == 0 {
            return found;
        }
        depth -= 1;
        Row { columns, leftward, rightward, used, rows } = stack[depth];
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
    fn one_of_two_mirror_images_is_searched() {
        for n in [4, 6, 8, 12] {
            let found: u64 = starts(n).into_iter().map(complete).sum();
            assert_eq!(2 * found, SOLUTIONS[n], "{n}");
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
