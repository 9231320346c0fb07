//! GEMM: the product of two matrices, C = A B, all three n x n, in double or single precision.
//!
//! Measures: floating-point operations per second of a BLAS library (`OpenBLAS`), 2 n^3 per product, by all threads
//! together. Each thread computes a separate rectangle of C. The time is from the start of the first thread to the end
//! of the last. The first product is not counted, because the library allocates its buffers in it.
//! Does NOT measure arithmetic of this program or the library's own threads: each worker thread calls the library for
//! its part and runs on its CPU. With small n, the start of the threads and the library's copying dominate.
//! Definition: DGEMM and SGEMM of the BLAS (Dongarra and others 1990), operations counted as HPCC does.
//! Checked in every trial: after every pass, some elements of each thread's part against dot products in twice the
//! precision, within n u sum |a b| (u is the unit roundoff); after the last pass, all of C by Freivalds' test, see
//! `check` below. Passes alternate between A B and -A B, so that a pass without effect is detected.

use model::values::units::Nanos;
use model::values::workload::{Better, ParameterKind, Reduce, WorkloadSpec};

use super::blas::{Blas, N_MAX};
use super::element::{Element, dot};
use super::grid::{self, TileRange};
use super::random::Elements;
use super::tile::Tile;
use super::{blas_parameter, precision_parameter, stride, too_large};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::kernels::arena::{self, Arena};
use crate::random::Random;
use crate::team::{self, TimedSpan, Worker};

/// Elements of each part that are checked after each pass, in addition to the test of all elements after the last pass.
const SAMPLED: usize = 16;

/// Number of random vectors in Freivalds' test. Each detects any single wrong element; errors in one row escape a
/// vector with a probability of at most one half.
const VECTORS: usize = 2;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "gemm".into(),
        summary: "matrix product by a BLAS library, double or single precision".into(),
        about: "Operations per second (2 n^3 per product, in 10^9) of C = A B by a BLAS library that is loaded at run \
                time (OpenBLAS). Each worker thread calls it for its own rectangle of C. The first product is not \
                counted. Reports the best of the others and their median. The result is checked. Source: the level-3 \
                BLAS."
            .into(),
        parameters: parameters([
            Parameter {
                name: "n",
                about: "rows and columns of each of the three matrices",
                kind: ParameterKind::Integer { min: 1, max: N_MAX as i64 / 2 },
                default: Some("2048"),
                smoke: Some("200"),
            },
            precision_parameter(),
            Parameter {
                name: "passes",
                about: "number of products; the first is not counted",
                kind: ParameterKind::Integer { min: 2, max: 100_000 },
                default: Some("6"),
                smoke: Some("3"),
            },
            blas_parameter(),
            arena::huge_pages_parameter(),
        ]),
        metrics: metrics([
            metric("gflops", "gflops", Reduce::Max),
            metric("gflops-median", "gflops", Reduce::Median),
            metric("gflops-per-thread", "gflops-per-thread", Reduce::Max),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(2_000_000_000),
    }
}

fn metric(name: &'static str, series: &'static str, reduce: Reduce) -> Metric {
    Metric { name, unit: "GFLOPS", better: Better::Higher, series, reduce }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    match job.parameters.text("precision") {
        "fp32" => multiply::<f32>(job),
        _ => multiply::<f64>(job),
    }
}

#[derive(Clone, Copy)]
struct Matrices<'m, T> {
    a: Tile<'m, T>,
    b: Tile<'m, T>,
    c: Tile<'m, T>,
}

fn multiply<T: Element>(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let (n, passes) = (job.parameters.size("n"), job.parameters.size("passes"));
    let blas = Blas::load(job)?;
    let stride = stride(n, size_of::<T>());
    let bytes = 3 * n * stride * size_of::<T>();
    let mut arena = Arena::new(job, bytes).map_err(|failure| too_large(n, failure))?;
    let (a, rest) = T::memory(&mut arena).split_at_mut(n * stride);
    let (b, c) = rest.split_at_mut(n * stride);
    let [a, b, c] = [a, b, c].map(|memory| Tile::new(memory, n, n, stride));
    let matrices = Matrices { a, b, c };
    let work = GemmContext { blas: &blas, matrices, parts: grid::parts(n, n, job.threads), passes, seed: job.seed };
    let team = team::run(job, |worker| one_thread(worker, &work))?;
    check(matrices, passes - 1, job.seed)?;

    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.found(arena.report()?);
    let operations = 2.0 * (n as f64).powi(3);
    for pass in 0..passes {
        let gflops = operations / TimedSpan::seconds_of_all(team.results.iter().map(|laps| laps[pass])) / 1e9;
        if pass == 0 {
            output.push("gflops-first", gflops)?;
        } else {
            output.push("gflops", gflops)?;
            output.push("gflops-per-thread", gflops / job.threads as f64)?;
        }
    }
    Ok(output)
}

struct GemmContext<'m, T> {
    blas: &'m Blas,
    matrices: Matrices<'m, T>,
    parts: Vec<TileRange>,
    passes: usize,
    seed: u64,
}

#[allow(unsafe_code)]
fn one_thread<T: Element>(worker: &Worker<'_>, work: &GemmContext<'_, T>) -> Result<Vec<TimedSpan>, Failure> {
    let Matrices { a, b, c } = work.matrices;
    let part = &work.parts[worker.index];
    work.blas.set_single_thread()?;
    fill(work, worker.index);
    let (rows, columns, own) =
        (a.part(part.rows.clone(), 0..a.columns()), b.part(0..b.rows(), part.columns.clone()), own_part(c, part));
    let mut laps = Vec::with_capacity(work.passes);
    let mut random = Random::of_thread(work.seed, worker.index);
    worker.timed(|| {
        for pass in 0..work.passes {
            let lap = lap(worker, || {
                // SAFETY: no thread writes to A and B after the barrier, and the parts of C do not overlap.
                unsafe { work.blas.gemm(T::sign(pass), rows, columns, T::ZERO, own) };
            })?;
            laps.push(lap);
            // Between two timed passes.
            check_some(rows, columns, own, pass, &mut random)?;
        }
        Ok(())
    })?;
    Ok(laps)
}

fn own_part<'m, T>(c: Tile<'m, T>, part: &TileRange) -> Tile<'m, T> {
    c.part(part.rows.clone(), part.columns.clone())
}

fn lap(worker: &Worker<'_>, kernel: impl FnOnce()) -> Result<TimedSpan, Failure> {
    worker.barrier()?;
    let start = std::time::Instant::now();
    kernel();
    Ok(TimedSpan { start, end: std::time::Instant::now() })
}

/// Each thread touches its own part of C first, and its share of the factors that all threads read.
#[allow(unsafe_code)]
fn fill<T: Element>(work: &GemmContext<'_, T>, thread: usize) {
    let Matrices { a, b, c } = work.matrices;
    let borders = grid::borders(a.columns(), work.parts.len(), 1);
    for (letter, matrix) in [('a', a), ('b', b)] {
        let elements = Elements::new(work.seed, letter);
        for column in borders[thread]..borders[thread + 1] {
            // SAFETY: only this thread writes this column of A and B, and no thread reads it before the barrier.
            let values = unsafe { matrix.column_mut(column) };
            values.iter_mut().enumerate().for_each(|(row, value)| *value = T::random(elements, row, column));
        }
    }
    let own = own_part(c, &work.parts[thread]);
    for column in 0..own.columns() {
        // SAFETY: the parts of C do not overlap.
        unsafe { own.column_mut(column) }.fill(T::ZERO);
    }
}

/// Compares some elements of a part with dot products.
#[allow(unsafe_code)]
fn check_some<T: Element>(
    a: Tile<'_, T>,
    b: Tile<'_, T>,
    c: Tile<'_, T>,
    pass: usize,
    random: &mut Random,
) -> Result<(), Failure> {
    if c.rows() == 0 || c.columns() == 0 {
        return Ok(());
    }
    for _ in 0..SAMPLED {
        let (row, column) = (random.below(c.rows()), random.below(c.columns()));
        // SAFETY: A and B are only read now, and this part of C belongs to this thread.
        let (value, factors) = unsafe { (c.column(column)[row].as_f64(), b.column(column)) };
        // SAFETY: as above.
        let element = |inner: usize| unsafe { a.column(inner)[row] };
        let pairs = factors.iter().enumerate().map(|(inner, b)| (element(inner).as_f64(), b.as_f64()));
        let (product, size) = dot(pairs);
        let expected = T::sign(pass).as_f64() * product;
        // The error bound for any order of summation; the additional unit is the rounding of the store.
        let tolerance = (a.columns() + 1) as f64 * T::ROUNDING * size;
        if (value - expected).abs() <= tolerance {
            continue;
        }
        return Err(Failure::Failed(format!(
            "wrong product: in pass {pass} the element at row {row}, column {column} of a thread's part is {value}, \
             expected {expected} with tolerance {tolerance:e}"
        )));
    }
    Ok(())
}

/// Freivalds' test of the whole product: C r = A (B r) for random vectors r of ones and minus ones, which takes n^2
/// steps instead of n^3.
///
/// Rounding errors of the two sides: elements are uniform on [-1/2, 1/2), so the first k terms of an element of C sum
/// to about sqrt(k) / 12. Each addition has an error of at most u times that, and n such errors with random signs sum
/// to u n / 29. A row of C times r sums n of these with random signs: u n sqrt(n) / 29. The multiplication in double
/// precision here adds two errors of at most that size. The bound is u n sqrt(n), more than 15 times the expected
/// error, so a correct product passes. A wrong element is detected if its error exceeds that bound (1e-11 for n = 2048
/// in double, 0.006 in single precision, where elements are about sqrt(n) / 12 = 4).
#[allow(unsafe_code)]
fn check<T: Element>(matrices: Matrices<'_, T>, last_pass: usize, seed: u64) -> Result<(), Failure> {
    let Matrices { a, b, c } = matrices;
    let n = a.rows();
    let sign = T::sign(last_pass).as_f64();
    let tolerance = T::ROUNDING * n as f64 * (n as f64).sqrt();
    for vector in 0..VECTORS {
        let mut random = Random::of_thread(seed, usize::MAX - vector);
        let r: Vec<f64> = (0..n).map(|_| if random.next() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
        // SAFETY: the threads have ended, so nothing writes to the matrices.
        let [left, right] = unsafe { [times(c, &r), times(a, &times(b, &r))] };
        // NaN differences fail as well.
        let near = |(left, right): (&f64, &f64)| (left - sign * right).abs() <= tolerance;
        if let Some(row) = left.iter().zip(&right).position(|pair| !near(pair)) {
            return Err(Failure::Failed(format!(
                "wrong product: row {row} of C times a vector is {}, but of A times B times it {}; the tolerance is \
                 {tolerance:e}",
                left[row],
                sign * right[row]
            )));
        }
    }
    Ok(())
}

/// Multiplies a matrix with a vector in double precision.
///
/// # Safety
/// No other thread may write to the matrix during the call.
#[allow(unsafe_code)]
unsafe fn times<T: Element>(matrix: Tile<'_, T>, vector: &[f64]) -> Vec<f64> {
    let mut result = vec![0.0; matrix.rows()];
    for (column, factor) in vector.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        let values = unsafe { matrix.column(column) };
        result.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value.as_f64());
    }
    result
}

#[cfg(test)]
mod tests {
    use model::values::workload::Value;

    use super::*;
    use crate::kernels::{can_query_pages, check_smoke, job_for_tests};

    fn with(job: &mut TrialContext, name: &str, value: Value) {
        job.parameters.0.insert(name.into(), value);
    }

    #[test]
    fn products_are_correct_for_all_precisions_and_threads() {
        for (precision, threads, n) in
            [("fp64", 1, 200), ("fp32", 2, 200), ("fp64", 3, 129), ("fp32", 7, 1), ("fp64", 4, 65)]
        {
            let mut job = TrialContext { threads, ..job_for_tests("gemm") };
            with(&mut job, "precision", Value::Text(precision.into()));
            with(&mut job, "n", Value::Integer(n));
            match run(&job) {
                Ok(output) => {
                    check_smoke("gemm", &output);
                    assert_eq!(output.pages.values().sum::<u64>() > 0, can_query_pages());
                }
                Err(Failure::Unavailable(reason)) => return println!("skipped: gemm: {reason}"),
                Err(failure) => panic!("{precision} {threads} {n}: {failure}"),
            }
        }
    }

    #[test]
    fn matrices_too_large_for_memory_are_unavailable() {
        let mut job = job_for_tests("gemm");
        with(&mut job, "n", Value::Integer(1_000_000));
        let Err(Failure::Unavailable(reason)) = run(&job) else { panic!("3 x 8 TB fit") };
        if reason.contains("libopenblas0-pthread") {
            return println!("skipped: gemm: {reason}");
        }
        assert!(reason.contains("n = 1000000: 21.8TiB of memory do not fit"), "{reason}");
    }

    /// Three matrices with a correct product, computed without a library.
    fn product<T: Element>(n: usize, narrow: fn(f64) -> T) -> [Vec<T>; 3] {
        let [a, b] = ['a', 'b'].map(|letter| {
            let elements = Elements::new(1, letter);
            (0..n * n).map(|place| T::random(elements, place % n, place / n)).collect::<Vec<T>>()
        });
        let element = |place: usize| {
            let pairs = (0..n).map(|inner| (a[inner * n + place % n].as_f64(), b[place / n * n + inner].as_f64()));
            narrow(dot(pairs).0)
        };
        let c = (0..n * n).map(element).collect();
        [a, b, c]
    }

    fn checked<T: Element>(n: usize, matrices: &mut [Vec<T>; 3], pass: usize) -> [Result<(), Failure>; 2] {
        let [a, b, c] = matrices.each_mut().map(|memory| Tile::new(memory, n, n, n));
        [check(Matrices { a, b, c }, pass, 5), check_some(a, b, c, pass, &mut Random::of_thread(1, 0))]
    }

    #[test]
    fn wrong_element_is_detected_anywhere() {
        fn all<T: Element>(narrow: fn(f64) -> T, off: f64) {
            let n = 100;
            let mut matrices = product(n, narrow);
            assert_eq!(checked(n, &mut matrices, 2), [Ok(()), Ok(())]);
            assert!(checked(n, &mut matrices, 1).iter().all(Result::is_err), "a pass without effect");
            for place in [0, 1, n, n * n / 2, n * n - 1] {
                let right = matrices[2][place];
                for wrong in [right.as_f64() + off, 0.0, f64::NAN] {
                    matrices[2][place] = narrow(wrong);
                    assert!(checked(n, &mut matrices, 2)[0].is_err(), "{place} {wrong}");
                }
                matrices[2][place] = right;
            }
        }
        all(|x| x, 1e-12);
        all(|x| x as f32, 1e-3);
    }
}
