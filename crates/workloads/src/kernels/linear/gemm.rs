//! GEMM: the product of two matrices, C = A B, all three n x n, in double or single precision.
//!
//! Measures: floating-point operations per second of a BLAS library (`OpenBLAS`), 2 n^3 for each product, all threads
//! together, each computing a rectangle of C of its own; from the first thread's start to the last one's end. The first
//! product is not counted: the library makes its buffers in it.
//! Does NOT measure this program's arithmetic, or the library's own threads: a thread of ours calls it for its part
//! and sits where the placement says. Small n show the start of the threads and the library's copying.
//! Definition: DGEMM and SGEMM of the BLAS (Dongarra and others 1990), operations counted as HPCC does.
//! Checked in every trial: after every pass some elements of each thread's part against dot products in twice the
//! precision, within n u sum |a b| (u the rounding of the precision); after the last pass all of C by Freivalds' test, see
//! `check` below. Passes alternate between A B and -A B, so that one that did nothing is found.

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

/// Elements of each part that are checked after each pass. Together with the last pass's test of all.
const SAMPLED: usize = 16;

/// Random vectors of Freivalds' test: an error that one misses, which of errors in one row happens at most every second
/// time, the others must miss as well. A single wrong element is found by each.
const VECTORS: usize = 2;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "gemm".into(),
        summary: "matrix product by a BLAS library, double or single precision".into(),
        about: "Operations per second (2 n^3 for each product, in 10^9) of C = A B by a BLAS library that is loaded at run \
                time (OpenBLAS), each thread of ours calling it for its own rectangle of C. The first product is not \
                counted; the best of the others is reported, their median beside it. The result is checked. Source: \
                the level-3 BLAS."
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
                about: "how many products; the first is not counted",
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
    let crew = team::run(job, |member| one_thread(member, &work))?;
    check(matrices, passes - 1, job.seed)?;

    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    measured.found(arena.found()?);
    let operations = 2.0 * (n as f64).powi(3);
    for pass in 0..passes {
        let gflops = operations / TimedSpan::seconds_of_all(crew.results.iter().map(|laps| laps[pass])) / 1e9;
        if pass == 0 {
            measured.push("gflops-first", gflops)?;
        } else {
            measured.push("gflops", gflops)?;
            measured.push("gflops-per-thread", gflops / job.threads as f64)?;
        }
    }
    Ok(measured)
}

struct GemmContext<'m, T> {
    blas: &'m Blas,
    matrices: Matrices<'m, T>,
    parts: Vec<TileRange>,
    passes: usize,
    seed: u64,
}

#[allow(unsafe_code)]
fn one_thread<T: Element>(member: &Worker<'_>, work: &GemmContext<'_, T>) -> Result<Vec<TimedSpan>, Failure> {
    let Matrices { a, b, c } = work.matrices;
    let part = &work.parts[member.index];
    work.blas.alone()?;
    fill(work, member.index);
    let (rows, columns, own) =
        (a.part(part.rows.clone(), 0..a.columns()), b.part(0..b.rows(), part.columns.clone()), mine(c, part));
    let mut laps = Vec::with_capacity(work.passes);
    let mut random = Random::of_thread(work.seed, member.index);
    member.timed(|| {
        for pass in 0..work.passes {
            let lap = lap(member, || {
                // SAFETY: nobody writes to A and B after the meeting, and parts of C do not overlap.
                unsafe { work.blas.gemm(T::sign(pass), rows, columns, T::ZERO, own) };
            })?;
            laps.push(lap);
            // Between two laps.
            check_some(rows, columns, own, pass, &mut random)?;
        }
        Ok(())
    })?;
    Ok(laps)
}

fn mine<'m, T>(c: Tile<'m, T>, part: &TileRange) -> Tile<'m, T> {
    c.part(part.rows.clone(), part.columns.clone())
}

fn lap(member: &Worker<'_>, kernel: impl FnOnce()) -> Result<TimedSpan, Failure> {
    member.barrier()?;
    let start = std::time::Instant::now();
    kernel();
    Ok(TimedSpan { start, end: std::time::Instant::now() })
}

/// A thread touches first what it alone uses, and its share of the factors that all read.
#[allow(unsafe_code)]
fn fill<T: Element>(work: &GemmContext<'_, T>, thread: usize) {
    let Matrices { a, b, c } = work.matrices;
    let borders = grid::borders(a.columns(), work.parts.len(), 1);
    for (letter, matrix) in [('a', a), ('b', b)] {
        let elements = Elements::new(work.seed, letter);
        for column in borders[thread]..borders[thread + 1] {
            // SAFETY: each column of A and B has one thread here, and nobody reads them before all have met.
            let values = unsafe { matrix.column_mut(column) };
            values.iter_mut().enumerate().for_each(|(row, value)| *value = T::random(elements, row, column));
        }
    }
    let own = mine(c, &work.parts[thread]);
    for column in 0..own.columns() {
        // SAFETY: parts of C do not overlap.
        unsafe { own.column_mut(column) }.fill(T::ZERO);
    }
}

/// Some elements of one part against dot products of their own.
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
        // SAFETY: A and B are only read now, and this part of C is this thread's own.
        let (value, factors) = unsafe { (c.column(column)[row].as_f64(), b.column(column)) };
        // SAFETY: as above.
        let element = |inner: usize| unsafe { a.column(inner)[row] };
        let pairs = factors.iter().enumerate().map(|(inner, b)| (element(inner).as_f64(), b.as_f64()));
        let (product, size) = dot(pairs);
        let expected = T::sign(pass).as_f64() * product;
        // The bound of any order of summing up; the last unit is the store's.
        let tolerance = (a.columns() + 1) as f64 * T::ROUNDING * size;
        if (value - expected).abs() <= tolerance {
            continue;
        }
        return Err(Failure::Failed(format!(
            "the product is wrong: in pass {pass} the element at row {row}, column {column} of a thread's part is {value}, it \
             should be {expected} give or take {tolerance:e}"
        )));
    }
    Ok(())
}

/// Freivalds' test of the whole product: C r = A (B r) for random vectors r of ones and minus ones, which takes n^2
/// steps instead of n^3.
///
/// How far apart rounding may bring the two sides: elements are uniform on [-1/2, 1/2), so the first k terms of an element of
/// C add up to about sqrt(k) / 12, each addition is off by at most u times that, and n such errors of either sign make
/// u n / 29. A row of C times r adds up n of these with random signs: u n sqrt(n) / 29. Multiplying in double precision
/// here adds two errors of at most that size. The bound is u n sqrt(n), over 15 times what is expected, so a right product
/// does not fail; a wrong element is found when it is off by that bound (1e-11 for n = 2048 in double, 0.006 in single
/// precision, where elements are about sqrt(n) / 12 = 4).
#[allow(unsafe_code)]
fn check<T: Element>(matrices: Matrices<'_, T>, last_pass: usize, seed: u64) -> Result<(), Failure> {
    let Matrices { a, b, c } = matrices;
    let n = a.rows();
    let sign = T::sign(last_pass).as_f64();
    let tolerance = T::ROUNDING * n as f64 * (n as f64).sqrt();
    for vector in 0..VECTORS {
        let mut random = Random::of_thread(seed, usize::MAX - vector);
        let r: Vec<f64> = (0..n).map(|_| if random.next() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
        // SAFETY: the threads have ended; nobody writes any more.
        let [left, right] = unsafe { [times(c, &r), times(a, &times(b, &r))] };
        // A difference that is no number is not near either.
        let near = |(left, right): (&f64, &f64)| (left - sign * right).abs() <= tolerance;
        if let Some(row) = left.iter().zip(&right).position(|pair| !near(pair)) {
            return Err(Failure::Failed(format!(
                "the product is wrong: row {row} of C times a vector is {}, of A times B times it {}; they may differ by \
                 {tolerance:e}",
                left[row],
                sign * right[row]
            )));
        }
    }
    Ok(())
}

/// A matrix times a vector, in double precision.
///
/// # Safety
/// Nobody writes to the matrix meanwhile.
#[allow(unsafe_code)]
unsafe fn times<T: Element>(matrix: Tile<'_, T>, vector: &[f64]) -> Vec<f64> {
    let mut result = vec![0.0; matrix.rows()];
    for (column, factor) in vector.iter().enumerate() {
        // SAFETY: as the caller says.
        let values = unsafe { matrix.column(column) };
        result.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value.as_f64());
    }
    result
}

#[cfg(test)]
mod tests {
    use model::values::workload::Value;

    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, pages_can_be_asked};

    fn with(job: &mut TrialContext, name: &str, value: Value) {
        job.parameters.0.insert(name.into(), value);
    }

    #[test]
    fn both_precisions_and_any_number_of_threads_multiply_right() {
        for (precision, threads, n) in
            [("fp64", 1, 200), ("fp32", 2, 200), ("fp64", 3, 129), ("fp32", 7, 1), ("fp64", 4, 65)]
        {
            let mut job = TrialContext { threads, ..job_for_tests("gemm") };
            with(&mut job, "precision", Value::Text(precision.into()));
            with(&mut job, "n", Value::Integer(n));
            match run(&job) {
                Ok(measured) => {
                    check_smoke("gemm", &measured);
                    assert_eq!(measured.pages.values().sum::<u64>() > 0, pages_can_be_asked());
                }
                Err(Failure::Unavailable(why)) => return println!("skipped: gemm: {why}"),
                Err(failure) => panic!("{precision} {threads} {n}: {failure}"),
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_the_numbers() {
        let mut job = job_for_tests("gemm");
        with(&mut job, "n", Value::Integer(1_000_000));
        let Err(Failure::Unavailable(why)) = run(&job) else { panic!("3 x 8 TB fit") };
        if why.contains("libopenblas0-pthread") {
            return println!("skipped: gemm: {why}");
        }
        assert!(why.contains("n = 1000000: 21.8TiB of memory do not fit"), "{why}");
    }

    /// Three matrices with a right product, made without a library.
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
    fn a_wrong_element_is_found_wherever_it_is() {
        fn all<T: Element>(narrow: fn(f64) -> T, off: f64) {
            let n = 100;
            let mut matrices = product(n, narrow);
            assert_eq!(checked(n, &mut matrices, 2), [Ok(()), Ok(())]);
            assert!(checked(n, &mut matrices, 1).iter().all(Result::is_err), "a pass that did nothing");
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
