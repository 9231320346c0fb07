//! STREAM: sustainable memory bandwidth. "Based on a variant of the STREAM benchmark code."
//!
//! Measures: bytes moved per second by four loops over three arrays of 8-byte floats, a, b and c: copy c = a, scale b =
//! q c, add c = a + b, triad a = b + q c. Each thread works on its own slice, which it touched first. The time of a
//! pass is from the start of the first thread to the end of the last. As many passes of two additional loops follow,
//! each over a single array, the next array in each pass: read sums the words, write stores one value. They run
//! separately because a loop finds in the caches what the previous loop left there.
//! Counts: as STREAM does, 2 x 8 bytes per element for copy and scale, 3 x 8 for add and triad; 8 for read and for
//! write; in MB of 10^6 bytes.
//! Does NOT count the read of a line before it is overwritten (write-allocate), so ordinary stores cause more traffic
//! than reported. Does NOT measure latency. Below about 100 KiB per array, the start of the threads dominates.
//! Definition: J. D. `McCalpin`, STREAM 5.10 (www.cs.virginia.edu/stream/ref.html) and its run rules: arrays of at
//! least four times the last-level cache, the first pass excluded, the best of the others reported. Differences: the
//! arrays use huge pages and are offset against each other, q keeps the values near 1 for any number of passes, and
//! every element is checked instead of the average. Read and write are not part of STREAM.

mod loops;

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, MetricSpec, ParameterKind, Reduce, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::kernels::arena::{self, Arena};
use crate::team::{self, TimedSpan, Worker};
use loops::{Loops, Stores};

/// The loops in the order of a pass, with the number of arrays that each reads or writes.
const KERNELS: [(&str, u64); 4] = [("copy", 2), ("scale", 2), ("add", 3), ("triad", 3)];

/// The single-array loops, which run after STREAM's.
const OF_ONE_ARRAY: [&str; 2] = ["read", "write"];

/// With q = sqrt(2) - 1 a pass maps a to ((1 + q)^2 - 1) a = a, so no number of passes overflows. STREAM's q = 3
/// multiplies a by 15 in each pass, which exceeds 10^308 after 262 passes.
const Q: f64 = std::f64::consts::SQRT_2 - 1.0;

/// Initial values of the arrays, as in STREAM.
const AT_FIRST: [f64; 3] = [1.0, 2.0, 0.0];

/// If the distance of two arrays is a multiple of 4 KiB, loads wait for stores with equal low address bits, and both
/// arrays use the same DRAM banks. A gap of a third of a page, in whole lines, plus some pages avoids both.
const GAP_ELEMENTS: usize = (16 * 4096 + 1344) / 8;

/// Slices end at page boundaries so that each page is first touched by one thread.
const PART_ELEMENTS: usize = 4096 / 8;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "stream".into(),
        summary: "memory bandwidth: copy, scale, add, triad, and reading or writing alone (a STREAM variant)".into(),
        about:
            "Based on a variant of the STREAM benchmark code. Counts 16 bytes per element for copy and scale, 24 for \
             add and triad, in MB of 10^6 bytes. Reads of a line before it is overwritten are not counted. Reports the \
             best pass except the first, as STREAM does, and the medians. Read sums the words of one array, write \
             fills one, 8 bytes per element; they run after STREAM's own passes and are not part of STREAM. Source: \
             McCalpin, STREAM 5.10."
                .into(),
        parameters: parameters([
            Parameter {
                name: "size",
                about: "bytes per array; STREAM's rules ask for four times the last-level cache",
                kind: ParameterKind::Size { min: Bytes(64 << 10), max: Bytes(1 << 43) },
                default: Some("4xllc"),
                smoke: Some("1MiB"),
            },
            Parameter {
                name: "passes",
                about: "runs of each loop; the first is not counted",
                kind: ParameterKind::Integer { min: 2, max: 100_000 },
                default: Some("10"),
                smoke: Some("3"),
            },
            Parameter {
                name: "non-temporal",
                about: "store past the caches, so that no line is read before it is overwritten (x86-64); loads stay \
                        ordinary",
                kind: ParameterKind::Switch,
                default: Some("false"),
                smoke: None,
            },
            arena::huge_pages_parameter(),
        ]),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(1_000_000_000),
    }
}

fn all_metrics() -> Vec<MetricSpec> {
    let metric = |name, series, reduce| Metric { name, unit: "MB/s", better: Better::Higher, series, reduce };
    metrics([
        metric("triad", "triad", Reduce::Max),
        metric("copy", "copy", Reduce::Max),
        metric("scale", "scale", Reduce::Max),
        metric("add", "add", Reduce::Max),
        metric("read", "read", Reduce::Max),
        metric("write", "write", Reduce::Max),
        metric("triad-median", "triad", Reduce::Median),
        metric("copy-median", "copy", Reduce::Median),
        metric("scale-median", "scale", Reduce::Median),
        metric("add-median", "add", Reduce::Median),
        metric("read-median", "read", Reduce::Median),
        metric("write-median", "write", Reduce::Median),
    ])
}

/// The slices of the three arrays that belong to one thread.
struct ArraySlice<'m> {
    a: &'m mut [f64],
    b: &'m mut [f64],
    c: &'m mut [f64],
}

impl ArraySlice<'_> {
    fn arrays(&mut self) -> [&mut [f64]; 3] {
        [&mut *self.a, &mut *self.b, &mut *self.c]
    }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let elements = job.parameters.size("size") / size_of::<f64>();
    let passes = job.parameters.size("passes");
    let stores = if job.parameters.switch("non-temporal") { Stores::NonTemporal } else { Stores::Ordinary };
    let loops = Loops::choose(stores)?;

    let mut arena = Arena::new(job, (3 * elements + 2 * GAP_ELEMENTS) * size_of::<f64>())?;
    let parts = share_out(arena.as_f64(), elements, job.threads);
    let team = team::run(job, |worker| one_thread(worker, &parts, &loops, passes))?;
    for part in parts {
        check_written(&part.into_inner().unwrap_or_else(PoisonError::into_inner), passes)?;
    }

    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.found(arena.report()?);
    let bytes_per_array = (elements * size_of::<f64>()) as f64;
    let mut push = |name: &str, pass: usize, arrays: u64, seconds: f64| {
        // The first pass also fills caches and TLBs; STREAM's rules exclude it, so it has a separate series.
        let series = if pass == 0 { format!("{name}-first") } else { name.into() };
        output.push(&series, arrays as f64 * bytes_per_array / seconds / 1e6)
    };
    for pass in 0..passes {
        for (kernel, (name, arrays)) in KERNELS.into_iter().enumerate() {
            push(
                name,
                pass,
                arrays,
                TimedSpan::seconds_of_all(team.results.iter().map(|laps| laps.stream[pass][kernel])),
            )?;
        }
        for (kernel, name) in OF_ONE_ARRAY.into_iter().enumerate() {
            push(name, pass, 1, TimedSpan::seconds_of_all(team.results.iter().map(|laps| laps.of_one[kernel][pass])))?;
        }
    }
    Ok(output)
}

/// Splits the memory into the three arrays and one slice per thread. All slices except the last have the same size.
fn share_out(memory: &mut [f64], elements: usize, threads: usize) -> Vec<Mutex<ArraySlice<'_>>> {
    let (a, rest) = memory.split_at_mut(elements + GAP_ELEMENTS);
    let (b, c) = rest.split_at_mut(elements + GAP_ELEMENTS);
    let (mut a, mut b, mut c) = (&mut a[..elements], &mut b[..elements], &mut c[..elements]);
    let border = |thread: usize| match thread {
        thread if thread == threads => elements,
        thread => (elements / threads * thread).next_multiple_of(PART_ELEMENTS).min(elements),
    };
    let mut parts = Vec::with_capacity(threads);
    for thread in 0..threads {
        let length = border(thread + 1) - border(thread);
        let part = ArraySlice {
            a: a.split_off_mut(..length).expect("borders end at the last element"),
            b: b.split_off_mut(..length).expect("borders end at the last element"),
            c: c.split_off_mut(..length).expect("borders end at the last element"),
        };
        parts.push(Mutex::new(part));
    }
    parts
}

struct Laps {
    stream: Vec<[TimedSpan; 4]>,
    of_one: [Vec<TimedSpan>; 2],
}

fn one_thread(
    worker: &Worker<'_>,
    parts: &[Mutex<ArraySlice<'_>>],
    loops: &Loops,
    passes: usize,
) -> Result<Laps, Failure> {
    let mut part = parts[worker.index].lock().unwrap_or_else(PoisonError::into_inner);
    for (array, value) in part.arrays().into_iter().zip(AT_FIRST) {
        array.fill(value);
    }
    let mut laps = Laps { stream: Vec::with_capacity(passes), of_one: [(); 2].map(|()| Vec::with_capacity(passes)) };
    let mut sums = vec![0; passes];
    worker.timed(|| {
        stream_passes(worker, &mut part, loops, passes, &mut laps.stream)?;
        for (pass, sum) in sums.iter_mut().enumerate() {
            let array = &*part.arrays()[pass % 3];
            laps.of_one[0].push(lap(worker, || *sum = loops.read(array))?);
        }
        // Before the single-array loops: after write, the arrays no longer show what STREAM's loops did.
        check(&part, passes)?;
        check_sums(&mut part, &sums)?;
        for pass in 0..passes {
            let array = &mut *part.arrays()[pass % 3];
            laps.of_one[1].push(lap(worker, || loops.write(array, written(pass)))?);
        }
        Ok(())
    })?;
    Ok(laps)
}

fn stream_passes(
    worker: &Worker<'_>,
    part: &mut ArraySlice<'_>,
    loops: &Loops,
    passes: usize,
    laps: &mut Vec<[TimedSpan; 4]>,
) -> Result<(), Failure> {
    let ArraySlice { a, b, c } = part;
    for _ in 0..passes {
        laps.push([
            lap(worker, || loops.copy(c, a))?,
            lap(worker, || loops.scale(b, c, Q))?,
            lap(worker, || loops.add(c, a, b))?,
            lap(worker, || loops.triad(a, b, c, Q))?,
        ]);
    }
    Ok(())
}

/// A different value in each pass, so that a pass without effect is detected.
fn written(pass: usize) -> f64 {
    pass as f64 + 0.5
}

#[inline]
fn lap(worker: &Worker<'_>, kernel: impl FnOnce()) -> Result<TimedSpan, Failure> {
    worker.barrier()?;
    let start = Instant::now();
    kernel();
    Ok(TimedSpan { start, end: Instant::now() })
}

/// Replays one element with scalar arithmetic and compares every element with it.
fn check(part: &ArraySlice<'_>, passes: usize) -> Result<(), Failure> {
    let [mut a, mut b, mut c] = AT_FIRST;
    for _ in 0..passes {
        c = a;
        b = Q * c;
        c = a + b;
        a = b + Q * c;
    }
    // Fused multiply-add rounds differently, by at most 2^-53 per operation with four operations per pass.
    let tolerance = 1e-15 * (passes as f64 + 4.0);
    for (name, array, expected) in [("a", &part.a, a), ("b", &part.b, b), ("c", &part.c, c)] {
        let off = |value: f64| value.is_nan() || (value - expected).abs() > tolerance * expected;
        if let Some(index) = array.iter().position(|value| off(*value)) {
            return Err(Failure::Failed(format!(
                "wrong result: {name}[{index}] of a slice is {}, expected {expected}",
                array[index]
            )));
        }
    }
    Ok(())
}

/// Sums each array word by word and compares the result of the loop in every pass.
fn check_sums(part: &mut ArraySlice<'_>, sums: &[u64]) -> Result<(), Failure> {
    let expected = part.arrays().map(|array| array.iter().fold(0, |sum: u64, x| sum.wrapping_add(x.to_bits())));
    match sums.iter().enumerate().find(|(pass, sum)| **sum != expected[pass % 3]) {
        None => Ok(()),
        Some((pass, sum)) => Err(Failure::Failed(format!(
            "wrong result: pass {pass} of read returned {sum}, expected {}",
            expected[pass % 3]
        ))),
    }
}

/// Verifies that every element holds the value of the last write pass over its array. With fewer than three passes,
/// some arrays are not written.
fn check_written(part: &ArraySlice<'_>, passes: usize) -> Result<(), Failure> {
    for (first, array) in [&part.a, &part.b, &part.c].into_iter().enumerate() {
        let Some(last) = (first..passes).step_by(3).next_back() else { continue };
        if let Some(index) = array.iter().position(|value| value.to_bits() != written(last).to_bits()) {
            return Err(Failure::Failed(format!(
                "wrong result: write left {} at {index} of array {first}, expected {}",
                array[index],
                written(last)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_with_both_kinds_of_stores() {
        for stores in ["false", "true"] {
            let mut job = job_for_tests("stream");
            set(&mut job, "non-temporal", stores);
            match run(&job) {
                Ok(output) => check_smoke("stream", &output),
                Err(Failure::Unavailable(reason)) if stores == "true" => eprintln!("skipped: {reason}"),
                Err(failure) => panic!("{failure}"),
            }
        }
    }

    #[test]
    fn every_element_belongs_to_one_slice() {
        for (elements, threads) in [(1 << 17, 1), (1 << 17, 3), (100_000, 7), (8192, 40), (100_000, 1000), (8192, 8192)]
        {
            let mut memory = vec![0.0; 3 * elements + 2 * GAP_ELEMENTS];
            for part in share_out(&mut memory, elements, threads) {
                let part = part.into_inner().unwrap();
                for value in part.a.iter_mut().chain(part.b).chain(part.c) {
                    *value += 1.0;
                }
            }
            let held = |times: f64| memory.iter().filter(|value| value.to_bits() == times.to_bits()).count();
            assert_eq!((held(1.0), held(0.0)), (3 * elements, 2 * GAP_ELEMENTS), "{elements} over {threads}");
        }
    }

    #[test]
    fn arrays_start_at_different_page_offsets() {
        let elements = 1 << 17;
        let mut memory = vec![0.0; 3 * elements + 2 * GAP_ELEMENTS];
        let parts = share_out(&mut memory, elements, 1);
        let part = parts[0].lock().unwrap();
        let [a, b, c] = [&part.a, &part.b, &part.c].map(|array| array.as_ptr().addr() % 4096);
        // At least some lines apart within a page, in both directions.
        for apart in [a.abs_diff(b), b.abs_diff(c), a.abs_diff(c)] {
            assert!((512..4096 - 512).contains(&apart), "{a} {b} {c}");
        }
    }

    #[test]
    fn wrong_element_returns_an_error() {
        let passes = 5;
        let loops = Loops::choose(Stores::Ordinary).unwrap();
        let [a, b, c] = AT_FIRST.map(|value| vec![value; 1000]);
        let mut arrays = [a, b, c];
        for _ in 0..passes {
            let [a, b, c] = &mut arrays;
            loops.copy(c, a);
            loops.scale(b, c, Q);
            loops.add(c, a, b);
            loops.triad(a, b, c, Q);
        }
        let checked = |arrays: &mut [Vec<f64>; 3]| {
            let [a, b, c] = arrays;
            check(&ArraySlice { a, b, c }, passes)
        };
        assert_eq!(checked(&mut arrays), Ok(()));
        for array in 0..3 {
            for planted in [1.0 + 1e-13, f64::NAN] {
                let before = arrays[array][999];
                arrays[array][999] *= planted;
                assert!(checked(&mut arrays).is_err(), "array {array}, {planted}");
                arrays[array][999] = before;
            }
        }
    }

    #[test]
    fn skipped_reads_and_writes_return_errors() {
        let passes = 4;
        let loops = Loops::choose(Stores::Ordinary).unwrap();
        let [mut a, mut b, mut c] = AT_FIRST.map(|value| vec![value; 1000]);
        let mut part = ArraySlice { a: &mut a, b: &mut b, c: &mut c };
        let mut sums: Vec<u64> = (0..passes).map(|pass| loops.read(part.arrays()[pass % 3])).collect();
        assert_eq!(check_sums(&mut part, &sums), Ok(()));
        sums[3] = loops.read(&part.a[1..]);
        assert!(check_sums(&mut part, &sums).is_err());

        for pass in 0..passes {
            loops.write(part.arrays()[pass % 3], written(pass));
        }
        assert_eq!(check_written(&part, passes), Ok(()));
        // As if the last pass had stopped before this element.
        part.a[999] = written(0);
        assert!(check_written(&part, passes).is_err());
    }
}
