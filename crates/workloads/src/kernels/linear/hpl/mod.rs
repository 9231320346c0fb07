//! HPL: a dense system of linear equations, A x = b with n unknowns, by LU factorisation with partial pivoting.
//!
//! Measures: floating-point operations per second of factorisation and back substitution by all threads together.
//! Operations are counted as in HPL, 2/3 n^3 + 3/2 n^2, independent of those executed. A and b are generated before the
//! timed region. Most of the work is products of matrices, which a BLAS library (`OpenBLAS`) computes; the rest depends
//! on memory and thread synchronisation.
//! Does NOT run HPL or MPI, so its rate is not a submission to the TOP500. Does NOT measure a network. `hpcc` runs the
//! original HPL.
//! Definition: Petitet, Whaley, Dongarra and Cleary, HPL 2.3 (netlib.org/benchmark/hpl): its operation count, its
//! random elements of [-1/2, 1/2), its test of the result. Differences: the elements come from this program's generator
//! and the trial's seed, and threads of one process share the matrix.
//! Checked in every trial as HPL does: max |A x - b| / (eps (max-row-sum |A| max |x| + max |b|) n) is below 16, eps =
//! 2^-53, with A generated again from the seed. Typical values are 0.001 to 0.01; a wrong solution exceeds the bound by
//! many powers of ten.

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

/// Block sizes that `nb=auto` tries. Products of matrices are fast from about 100 columns on; larger blocks increase
/// the serial work of one thread.
const BLOCKS: [usize; 5] = [96, 128, 192, 256, 384];
/// Minimum and maximum number of rows for the search; in between, a quarter of the real number. Enough to distinguish
/// the block sizes, and at most 1/8 of the total time.
const SEARCH_ROWS: (usize, usize) = (1536, 4096);
const SEARCH_ROUNDS: usize = 2;

/// With `memory=`, the order is a multiple of this, so that the trials of a run have the same size although the
/// available memory varies slightly.
const ORDER_STEP: usize = 512;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "hpl".into(),
        summary: "dense linear equations by LU factorisation (HPL's problem, count and test)".into(),
        about: "Operations per second (2/3 n^3 + 3/2 n^2, in 10^9) of solving n linear equations by LU with partial \
                pivoting in blocks of nb columns. A BLAS library that is loaded at run time (OpenBLAS) computes the \
                products; each worker thread calls it for its part. HPL's residual test is made in every trial. Not \
                HPL itself: no MPI. Source: HPL 2.3."
            .into(),
        parameters: parameters([
            Parameter {
                name: "n",
                about: "number of equations; the matrix takes 8 n^2 bytes; larger is faster until memory is full",
                kind: ParameterKind::Integer { min: 1, max: N_MAX as i64 / 2 },
                default: Some("6144"),
                smoke: Some("300"),
            },
            Parameter {
                name: "memory",
                about: "instead of n: size of the matrix in percent of the available memory; 0 uses n",
                kind: ParameterKind::Integer { min: 0, max: 95 },
                default: Some("0"),
                smoke: None,
            },
            Parameter {
                name: "nb",
                about: "columns per block; auto tries several values on a smaller matrix before the timed region",
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

/// Rejects values of nb other than a number or auto.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    block(parameters).map(drop)
}

/// Returns the block size; `None` for auto.
fn block(parameters: &Parameters) -> Result<Option<usize>, String> {
    match parameters.text("nb") {
        "auto" => Ok(None),
        text => match text.parse() {
            Ok(nb @ 1..=4096) => Ok(Some(nb)),
            _ => Err(format!("invalid value '{text}' for nb: must be auto or a number of columns from 1 to 4096")),
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

    let mut output = KernelOutput { thread_seats: seats, ..KernelOutput::default() };
    output.found(system.arena.report()?);
    let seconds = TimedSpan::seconds_of_all(results.iter().map(|(lap, _)| *lap));
    let residual = Residual::sum(results.into_iter().filter_map(|(_, part)| part));
    check_residual(residual.scaled())?;
    let gflops = operations(n) / seconds / 1e9;
    output.push("gflops", gflops)?;
    output.push("gflops-per-thread", gflops / job.threads as f64)?;
    output.push("time", seconds)?;
    output.push("residual", residual.scaled())?;
    // Not metrics, but the values that were chosen, which the parameters may not contain.
    output.push("n", n as f64)?;
    output.push("nb", nb as f64)?;
    Ok(output)
}

fn operations(n: usize) -> f64 {
    let n = n as f64;
    (2.0 / 3.0) * n * n * n + (3.0 / 2.0) * n * n
}

fn check_residual(scaled: f64) -> Result<(), Failure> {
    // Not `>=`, so that a NaN residual fails as well.
    if scaled < RESIDUAL_MAX {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong solution: HPL's scaled residual is {scaled:.3}, but must be below 16")))
}

/// Returns the job's n, or the order of a matrix that takes the given share of the available memory.
fn order(job: &TrialContext) -> Result<usize, Failure> {
    match job.parameters.size("memory") {
        0 => Ok(job.parameters.size("n")),
        percent => {
            let Some(Bytes(available)) = machine::memory::available() else {
                return Err(Failure::Unavailable("cannot determine the available memory; hint: set n".into()));
            };
            order_for(available, percent).ok_or_else(|| {
                let few = Bytes(available);
                Failure::Unavailable(format!(
                    "{percent} % of the available {few} is too small for a matrix; hint: set n"
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

/// Tries several block sizes on a smaller matrix of the same seed.
fn fastest_block(job: &TrialContext, blas: &Blas, n: usize) -> Result<usize, Failure> {
    let rows = (n / 4).clamp(SEARCH_ROWS.0, SEARCH_ROWS.1).min(n);
    let mut fastest = (f64::INFINITY, BLOCKS[0]);
    let mut system = System::new(job, rows)?;
    for _ in 0..SEARCH_ROUNDS {
        for nb in BLOCKS {
            let team = solve(job, blas, &mut system, nb, false)?;
            let seconds = TimedSpan::seconds_of_all(team.results.iter().map(|(lap, _)| *lap));
            if seconds < fastest.0 {
                fastest = (seconds, nb);
            }
        }
    }
    Ok(fastest.1)
}

/// A with b as its last column.
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

/// Fills the system, solves it with all threads, and checks the solution if `checked`.
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
    team::run(job, |worker| {
        blas.set_single_thread()?;
        fill(matrix, elements, nb, worker.index, job.threads);
        let lap = timed(worker, &factorisation)?;
        let part = checked.then(|| Residual::part(matrix, elements, &next));
        // No thread may reuse the matrix while another still reads the solution.
        worker.barrier()?;
        Ok((lap, part))
    })
}

fn timed(worker: &Worker<'_>, factorisation: &Factorisation<'_>) -> Result<TimedSpan, Failure> {
    worker.timed(|| {
        worker.barrier()?;
        let start = std::time::Instant::now();
        factorisation.run(worker)?;
        let lap = TimedSpan { start, end: std::time::Instant::now() };
        worker.barrier()?;
        Ok(lap)
    })
}

/// Fills blocks of columns in turn, so that all threads' memory holds equal shares of the trailing matrix until the
/// end.
#[allow(unsafe_code)]
fn fill(matrix: Tile<'_, f64>, elements: Elements, nb: usize, thread: usize, threads: usize) {
    for column in (0..matrix.columns()).filter(|column| column / nb % threads == thread) {
        // SAFETY: only this thread writes this column, and no thread reads it before the barrier.
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
    use crate::kernels::{can_query_pages, check_smoke, job_for_tests};

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
                Ok(output) => {
                    // The solution of a very small system may be exact.
                    if n > 10 {
                        check_smoke("hpl", &output);
                    }
                    assert_eq!(output.pages.values().sum::<u64>() > 0, can_query_pages());
                }
                Err(Failure::Unavailable(reason)) => return println!("skipped: hpl: {reason}"),
                Err(failure) => panic!("{threads} {n} {nb}: {failure}"),
            }
        }
    }

    #[test]
    fn system_too_large_for_memory_is_unavailable() {
        let Err(Failure::Unavailable(reason)) = run(&job(1, 2_000_000, "128")) else { panic!("29 TiB fit") };
        if reason.contains("libopenblas0-pthread") {
            return println!("skipped: hpl: {reason}");
        }
        assert!(reason.contains("n = 2000000: 29.1TiB of memory do not fit"), "{reason}");
    }

    #[test]
    fn block_size_must_be_a_number_or_auto() {
        for (text, expected) in [("auto", Ok(None)), ("64", Ok(Some(64)))] {
            assert_eq!(block(&job(1, 1, text).parameters), expected);
        }
        for text in ["0", "5000", "fast", ""] {
            assert!(check(&job(1, 1, text).parameters).unwrap_err().contains("nb"), "{text}");
        }
    }

    #[test]
    fn order_for_a_memory_share_is_the_largest_that_fits() {
        assert_eq!(order_for(8 << 30, 100), Some(32_768));
        assert_eq!(order_for(8 << 30, 50), Some(23_040));
        assert_eq!(order_for(1 << 20, 10), None);
        let (rows, bytes) = (23_040u64, 4u64 << 30);
        assert!(rows * rows * 8 <= bytes && (rows + 512) * (rows + 512) * 8 > bytes);
    }

    #[test]
    fn operation_count_matches_hpl() {
        // HPL.out of Debian's hpcc 1.5.0: N = 2000, 0.16 s, 33.4 GFLOPS is 5.34e9 operations.
        assert!((operations(2000) / 5.339e9 - 1.0).abs() < 1e-3);
        for (scaled, right) in [(0.004, true), (15.9, true), (16.0, false), (f64::NAN, false)] {
            assert_eq!(check_residual(scaled).is_ok(), right, "{scaled}");
        }
    }

    #[test]
    fn pieces_are_drawn_exactly_once() {
        let next = AtomicUsize::new(0);
        let pieces: Vec<_> = std::iter::from_fn(|| draw(&next, 100, |left| left / 2)).collect();
        assert_eq!(pieces.first(), Some(&(0..50)));
        assert_eq!(pieces.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }
}
