//! HPL: a dense system of linear equations, A x = b with n unknowns, by LU factorisation with partial pivoting.
//!
//! Measures: floating-point operations per second over factorisation and back substitution, counted as HPL does,
//! 2/3 n^3 + 3/2 n^2 whatever is really done, by all threads together; A and b are made before the clock starts. Most of
//! it is products of matrices, which a BLAS library (`OpenBLAS`) computes; the rest shows how well memory and threads
//! keep up with that.
//! Does NOT run HPL or MPI, so its rate is not a submission to the TOP500; does NOT measure a network. `hpcc` runs the real one.
//! Definition: Petitet, Whaley, Dongarra and Cleary, HPL 2.3 (netlib.org/benchmark/hpl): its operation count, its
//! random elements of [-1/2, 1/2), its test of the result. What varies: the elements are those of this program's
//! generator and the trial's seed, and threads of one process share the matrix.
//! Checked in every trial as HPL does: max |A x - b| / (eps (max-row-sum |A| max |x| + max |b|) n) is below 16, eps = 2^-53,
//! with A made anew from the seed. HPL finds about 0.001 to 0.01; a wrong solution is off by many powers of ten.

mod factor;
mod residual;

use std::sync::atomic::{AtomicUsize, Ordering};

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, Parameters, WorkloadSpec};

use super::blas::{Blas, N_MAX};
use super::random::Elements;
use super::tile::Tile;
use super::{blas_parameter, stride, too_large};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::kernels::arena::{self, Arena};
use crate::team::{self, TeamResult, TimedSpan, Worker};
use factor::Factorisation;
use residual::Residual;

const RESIDUAL_MAX: f64 = 16.0;

/// What `nb=auto` tries. Products of matrices are fast from some 100 columns on; above, the part that one thread does
/// alone grows.
const BLOCKS: [usize; 5] = [96, 128, 192, 256, 384];
/// On matrices of this many rows, or of a quarter of the real one's when that is more, up to the second number: large enough
/// to tell, and at most 1/8 of the time for all of them.
const SEARCH_ROWS: (usize, usize) = (1536, 4096);
const SEARCH_ROUNDS: usize = 2;

/// With `memory=`, the order is a multiple of this, so that trials of one run have one size although what is available
/// changes a little.
const ORDER_STEP: usize = 512;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "hpl".into(),
        summary: "dense linear equations by LU factorisation (HPL's problem, count and test)".into(),
        about: "Operations per second (2/3 n^3 + 3/2 n^2, in 10^9) of solving n linear equations by LU with partial \
                pivoting, blocks of nb columns, the products by a BLAS library that is loaded at run time (OpenBLAS), each \
                thread of ours calling it for its part. HPL's residual test is made in every trial. Not HPL itself: no \
                MPI. Source: HPL 2.3."
            .into(),
        parameters: parameters([
            Parameter {
                name: "n",
                about: "equations; the matrix takes 8 n^2 bytes; larger is faster until memory is full",
                kind: ParameterKind::Integer { min: 1, max: N_MAX as i64 / 2 },
                default: Some("6144"),
                smoke: Some("300"),
            },
            Parameter {
                name: "memory",
                about: "instead of n: the matrix takes this many percent of the available memory; 0 for n",
                kind: ParameterKind::Integer { min: 0, max: 95 },
                default: Some("0"),
                smoke: None,
            },
            Parameter {
                name: "nb",
                about: "columns of a block; auto tries a few on a smaller matrix before the timed region",
                kind: ParameterKind::Text,
                default: Some("auto"),
                smoke: Some("64"),
            },
            blas_parameter(),
            arena::huge_pages_parameter(),
        ]),
        metrics: metrics([
            Metric::median("gflops", "GFLOPS", Better::Higher),
            Metric::median("time", "s", Better::Lower),
            Metric::median("residual", "", Better::Lower),
            Metric::median("gflops-per-thread", "GFLOPS", Better::Higher),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(5_000_000_000),
    }
}

/// What the description cannot say: nb is a number or auto.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    block(parameters).map(drop)
}

/// None for auto.
fn block(parameters: &Parameters) -> Result<Option<usize>, String> {
    match parameters.text("nb") {
        "auto" => Ok(None),
        text => match text.parse() {
            Ok(nb @ 1..=4096) => Ok(Some(nb)),
            _ => Err(format!("nb '{text}' is neither auto nor a number of columns from 1 to 4096")),
        },
    }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let blas = Blas::load(job)?;
    let n = order(job)?;
    let nb = match block(&job.parameters).map_err(Failure::Failed)? {
        Some(nb) => nb,
        None => fastest_block(job, &blas, n)?,
    };
    let mut system = System::new(job, n)?;
    let TeamResult { results, seats } = solve(job, &blas, &mut system, nb, true)?;

    let mut measured = KernelOutput { thread_seats: seats, ..KernelOutput::default() };
    measured.found(system.arena.found()?);
    let seconds = TimedSpan::seconds_of_all(results.iter().map(|(lap, _)| *lap));
    let residual = Residual::of(results.into_iter().filter_map(|(_, part)| part));
    check_residual(residual.scaled())?;
    let gflops = operations(n) / seconds / 1e9;
    measured.push("gflops", gflops)?;
    measured.push("gflops-per-thread", gflops / job.threads as f64)?;
    measured.push("time", seconds)?;
    measured.push("residual", residual.scaled())?;
    // No metrics, but what was run: neither is in the parameters when it was left to us.
    measured.push("n", n as f64)?;
    measured.push("nb", nb as f64)?;
    Ok(measured)
}

fn operations(n: usize) -> f64 {
    let n = n as f64;
    (2.0 / 3.0) * n * n * n + (3.0 / 2.0) * n * n
}

fn check_residual(scaled: f64) -> Result<(), Failure> {
    // Not `>=`: a residual that is no number fails as well.
    if scaled < RESIDUAL_MAX {
        return Ok(());
    }
    Err(Failure::Failed(format!("the solution is wrong: HPL's scaled residual is {scaled:.3}, it must be below 16")))
}

/// The job's n, or the order of a matrix that takes so much of what is available.
fn order(job: &TrialContext) -> Result<usize, Failure> {
    match job.parameters.size("memory") {
        0 => Ok(job.parameters.size("n")),
        percent => {
            let Some(Bytes(available)) = machine::memory::available() else {
                return Err(Failure::Unavailable(
                    "this machine does not say how much memory there is; hint: give n".into(),
                ));
            };
            order_for(available, percent).ok_or_else(|| {
                let few = Bytes(available);
                Failure::Unavailable(format!(
                    "{percent} % of the {few} that are available hold no matrix; hint: give n"
                ))
            })
        }
    }
}

fn order_for(available: u64, percent: usize) -> Option<usize> {
    let bytes = available as f64 * percent as f64 / 100.0;
    let rows = (bytes / 8.0).sqrt() as usize / ORDER_STEP * ORDER_STEP;
    (rows > 0).then_some(rows.min(N_MAX / 2))
}

/// Tries sizes of blocks on a smaller matrix of the same seed.
fn fastest_block(job: &TrialContext, blas: &Blas, n: usize) -> Result<usize, Failure> {
    let rows = (n / 4).clamp(SEARCH_ROWS.0, SEARCH_ROWS.1).min(n);
    let mut fastest = (f64::INFINITY, BLOCKS[0]);
    let mut system = System::new(job, rows)?;
    for _ in 0..SEARCH_ROUNDS {
        for nb in BLOCKS {
            let crew = solve(job, blas, &mut system, nb, false)?;
            let seconds = TimedSpan::seconds_of_all(crew.results.iter().map(|(lap, _)| *lap));
            if seconds < fastest.0 {
                fastest = (seconds, nb);
            }
        }
    }
    Ok(fastest.1)
}

/// A and, as its last column, b.
struct System {
    arena: Arena,
    n: usize,
    elements: Elements,
}

impl System {
    fn new(job: &TrialContext, n: usize) -> Result<Self, Failure> {
        let bytes = stride(n, size_of::<f64>()) * (n + 1) * size_of::<f64>();
        let arena = Arena::new(job, bytes).map_err(|failure| too_large(n, failure))?;
        Ok(Self { arena, n, elements: Elements::new(job.seed, 'a') })
    }
}

/// Fills the system, solves it with all threads, and has the solution checked where that is wanted.
fn solve(
    job: &TrialContext,
    blas: &Blas,
    system: &mut System,
    nb: usize,
    checked: bool,
) -> Result<TeamResult<(TimedSpan, Option<Residual>)>, Failure> {
    let (n, elements) = (system.n, system.elements);
    let matrix = Tile::new(system.arena.as_f64(), n, n + 1, stride(n, size_of::<f64>()));
    let factorisation = Factorisation::new(blas, matrix, nb, job.threads);
    let next = AtomicUsize::new(0);
    team::run(job, |member| {
        blas.alone()?;
        fill(matrix, elements, nb, member.index, job.threads);
        let lap = timed(member, &factorisation)?;
        let part = checked.then(|| Residual::part(matrix, elements, &next));
        // Nobody uses the matrix for something else while another still reads the solution.
        member.barrier()?;
        Ok((lap, part))
    })
}

fn timed(member: &Worker<'_>, factorisation: &Factorisation<'_>) -> Result<TimedSpan, Failure> {
    member.timed(|| {
        member.barrier()?;
        let start = std::time::Instant::now();
        factorisation.run(member)?;
        let lap = TimedSpan { start, end: std::time::Instant::now() };
        member.barrier()?;
        Ok(lap)
    })
}

/// Blocks of columns in turn, so that every thread's memory holds a like share of what is worked on to the end.
#[allow(unsafe_code)]
fn fill(matrix: Tile<'_, f64>, elements: Elements, nb: usize, thread: usize, threads: usize) {
    for column in (0..matrix.columns()).filter(|column| column / nb % threads == thread) {
        // SAFETY: each column has one thread here, and nobody reads it before all have met.
        let values = unsafe { matrix.column_mut(column) };
        values.iter_mut().enumerate().for_each(|(row, value)| *value = elements.at(row, column));
    }
}

/// Draws the next piece of `length`, at most `most` long.
fn draw(next: &AtomicUsize, length: usize, most: impl Fn(usize) -> usize) -> Option<std::ops::Range<usize>> {
    let end = |start: usize| start + most(length - start).clamp(1, length - start);
    let drawn = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |start| (start < length).then(|| end(start)));
    drawn.ok().map(|start| start..end(start))
}

#[cfg(test)]
mod tests {
    use model::values::workload::Value;

    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, pages_can_be_asked};

    fn job(threads: usize, n: i64, nb: &str) -> TrialContext {
        let mut job = TrialContext { threads, ..job_for_tests("hpl") };
        job.parameters.0.insert("n".into(), Value::Integer(n));
        job.parameters.0.insert("nb".into(), Value::Text(nb.into()));
        job
    }

    #[test]
    fn systems_of_many_shapes_are_solved() {
        for (threads, n, nb) in [
            (1, 300, "64"),
            (2, 300, "64"),
            (3, 129, "128"),
            (2, 128, "128"),
            (4, 65, "7"),
            (1, 1, "1"),
            (3, 5, "1"),
            (2, 250, "auto"),
        ] {
            match run(&job(threads, n, nb)) {
                Ok(measured) => {
                    // Of a very small system the solution may be exact.
                    if n > 10 {
                        check_smoke("hpl", &measured);
                    }
                    assert_eq!(measured.pages.values().sum::<u64>() > 0, pages_can_be_asked());
                }
                Err(Failure::Unavailable(why)) => return println!("skipped: hpl: {why}"),
                Err(failure) => panic!("{threads} {n} {nb}: {failure}"),
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_the_numbers() {
        let Err(Failure::Unavailable(why)) = run(&job(1, 2_000_000, "128")) else { panic!("29 TiB fit") };
        if why.contains("libopenblas0-pthread") {
            return println!("skipped: hpl: {why}");
        }
        assert!(why.contains("n = 2000000: 29.1TiB of memory do not fit"), "{why}");
    }

    #[test]
    fn blocks_are_numbers_or_auto() {
        for (text, expected) in [("auto", Ok(None)), ("64", Ok(Some(64)))] {
            assert_eq!(block(&job(1, 1, text).parameters), expected);
        }
        for text in ["0", "5000", "fast", ""] {
            assert!(check(&job(1, 1, text).parameters).unwrap_err().contains("nb"), "{text}");
        }
    }

    #[test]
    fn the_order_for_a_share_of_memory_is_the_largest_that_fits() {
        assert_eq!(order_for(8 << 30, 100), Some(32_768));
        assert_eq!(order_for(8 << 30, 50), Some(23_040));
        assert_eq!(order_for(1 << 20, 10), None);
        let (rows, bytes) = (23_040u64, 4u64 << 30);
        assert!(rows * rows * 8 <= bytes && (rows + 512) * (rows + 512) * 8 > bytes);
    }

    #[test]
    fn operations_are_counted_as_hpl_does() {
        // HPL.out of Debian's hpcc 1.5.0: N = 2000, 0.16 s, 33.4 GFLOPS is 5.34e9 operations.
        assert!((operations(2000) / 5.339e9 - 1.0).abs() < 1e-3);
        for (scaled, right) in [(0.004, true), (15.9, true), (16.0, false), (f64::NAN, false)] {
            assert_eq!(check_residual(scaled).is_ok(), right, "{scaled}");
        }
    }

    #[test]
    fn pieces_are_drawn_once_and_completely() {
        let next = AtomicUsize::new(0);
        let pieces: Vec<_> = std::iter::from_fn(|| draw(&next, 100, |left| left / 2)).collect();
        assert_eq!(pieces.first(), Some(&(0..50)));
        assert_eq!(pieces.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }
}
