//! Dhrystone and Whetstone: arithmetic speed of a core.
//!
//! Measure: Dhrystone's loops of integer, string and record statements per second; and millions of Whetstone
//! instructions (floating-point arithmetic and functions of the mathematical library) per second of user time. Both fit
//! in the L1 caches. They do not measure memory or vector units, and the results depend on the compiler.
//! Definitions: the heads of `program/dhrystone.rs` and `program/whetstone.rs`.

use std::collections::BTreeSet;

use model::values::workload::WorkloadSpec;

use super::copies::{self, Copy};
use super::{Test, check, kernel_output, time_ns};
use crate::describe::{Parameter, choice, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};

/// R. Longbottom's results for one pass in double precision.
const WHETSTONE_RESULTS: [f64; 8] = [
    -1.123_982_556_673_919,
    -1.121_870_798_892_844,
    1.0,
    12.0,
    0.499_029_372_815_151_4,
    0.999_999_878_908_028_2,
    3.0,
    0.751_001_630_184_578_7,
];
/// Relative tolerance: according to Longbottom, the results vary slightly between compilers.
const VARIES: f64 = 1e-9;
/// A pass is ten million instructions, counted in millions.
const MWI_PER_PASS: f64 = 10.0;

pub(crate) fn describe_dhrystone() -> WorkloadSpec {
    super::describe(Test {
        name: "dhrystone",
        summary: "integers, strings and records: Dhrystone 2.1",
        about: "Loops of Dhrystone 2.1 per second, all copies together; the definition's final values are checked. \
                Does not measure memory or floating point.",
        unit: "lps",
        parameters: Vec::new(),
    })
}

pub(crate) fn dhrystone(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = copies::run(job, copies::ARITHMETIC, &["dhrystone", &time_ns(job)])?;
    check(&copies.copies, &[0], "number of Dhrystone variables with wrong values")?;
    kernel_output(copies, 1.0)
}

pub(crate) fn describe_whetstone() -> WorkloadSpec {
    super::describe(Test {
        name: "whetstone",
        summary: "floating point and its functions: double-precision Whetstone",
        about: "Millions of Whetstone instructions per second of user time, all copies together; with more copies than \
                CPUs, in proportion to the CPUs. The results are checked against published ones. Does not measure \
                memory or vector units.",
        unit: "MWIPS",
        parameters: parameters([Parameter {
            name: "work",
            about: "modules as reduced by UnixBench's compiler options, or all work that is defined",
            kind: choice(&["compiled", "defined"]),
            default: Some("compiled"),
            smoke: None,
        }]),
    })
}

pub(crate) fn whetstone(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let test = if job.parameters.text("work") == "defined" { "whetstone-strict" } else { "whetstone" };
    let copies = copies::run(job, copies::ARITHMETIC, &[test, &time_ns(job)])?;
    copies.copies.iter().try_for_each(check_whetstone)?;
    let mut output = KernelOutput { thread_seats: copies.seats, ..KernelOutput::default() };
    // Each copy measures its own user time, so the rates are added.
    let share = cpu_share(job.threads, available_cpus(job));
    output.push("score", copies.copies.iter().map(|copy| copy.rate() * MWI_PER_PASS * share).sum())?;
    for copy in &copies.copies {
        output.push("copy", copy.rate() * MWI_PER_PASS * share)?;
    }
    Ok(output)
}

/// Fraction of a CPU that each copy has if the copies share the CPUs evenly. User time does not include the waiting for a
/// CPU, so the sum of the rates of more copies than CPUs would exceed what the machine does.
fn cpu_share(copies: usize, cpus: usize) -> f64 {
    (cpus as f64 / copies as f64).min(1.0)
}

/// Number of CPUs of the copies.
fn available_cpus(job: &TrialContext) -> usize {
    if job.seats.is_empty() {
        return std::thread::available_parallelism().map_or(job.threads, usize::from);
    }
    job.seats.iter().collect::<BTreeSet<_>>().len()
}

/// The values of a copy are the time of each module, then the results of one pass.
fn check_whetstone(copy: &Copy) -> Result<(), Failure> {
    let results = copy.values.iter().skip(WHETSTONE_RESULTS.len()).map(|bits| f64::from_bits(*bits));
    let results: Vec<f64> = results.collect();
    let close = |(result, expected): (&f64, f64)| (result - expected).abs() <= VARIES * expected.abs();
    if results.len() == WHETSTONE_RESULTS.len() && results.iter().zip(WHETSTONE_RESULTS).all(close) {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong Whetstone results: {results:?}, expected {WHETSTONE_RESULTS:?}")))
}

#[cfg(test)]
mod tests {
    use model::values::id_set::CpuId;

    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_with_two_copies() {
        let job = |name| TrialContext { threads: 2, ..job_for_tests(name) };
        check_smoke("dhrystone", &dhrystone(&job("dhrystone")).unwrap());
        check_smoke("whetstone", &whetstone(&job("whetstone")).unwrap());
        let mut defined = job("whetstone");
        set(&mut defined, "work", "defined");
        check_smoke("whetstone", &whetstone(&defined).unwrap());
    }

    #[test]
    fn copies_beyond_the_cpus_do_not_raise_the_whetstone_score() {
        let job = |seats: &[u32], threads| TrialContext {
            threads,
            seats: seats.iter().map(|cpu| CpuId(*cpu)).collect(),
            ..job_for_tests("whetstone")
        };
        let share = |job: TrialContext| cpu_share(job.threads, available_cpus(&job));
        assert!((share(job(&[4, 5, 4, 5, 4, 5], 6)) - 1.0 / 3.0).abs() < 1e-12);
        assert!((share(job(&[4, 5], 2)) - 1.0).abs() < 1e-12);
        let cpus = std::thread::available_parallelism().unwrap().get();
        assert!((share(job(&[], cpus)) - 1.0).abs() < 1e-12);
        assert!((share(job(&[], 2 * cpus)) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn wrong_result_returns_an_error() {
        let copy = |results: [f64; 8]| {
            let values = [0; 8].into_iter().chain(results.map(f64::to_bits)).collect();
            Copy { count: 1, took_ns: 1, process: 1, values }
        };
        assert_eq!(check_whetstone(&copy(WHETSTONE_RESULTS)), Ok(()));
        for module in 0..8 {
            let mut wrong = WHETSTONE_RESULTS;
            wrong[module] *= 1.000_001;
            assert!(check_whetstone(&copy(wrong)).is_err(), "{module}");
        }
        assert!(check_whetstone(&Copy { values: Vec::new(), ..copy(WHETSTONE_RESULTS) }).is_err());
    }
}
