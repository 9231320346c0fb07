//! UnixBench's tests by the definitions of version 5.1.3, as separate programs. Each file contains some of them.
//! A trial is one pass: as many copies as the placement has threads, each a process pinned to its CPU, started
//! together. Their scores are added, as UnixBench does. `model::import::unixbench` computes the index over the tests.
//! The build script compiles the programs in `program/`. This module starts and pins them, and checks their results.

pub(crate) mod arithmetic;
pub(crate) mod calls;
mod copies;
pub(crate) mod files;
pub(crate) mod shell;
mod text;

use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use copies::{Copies, Copy};

/// The varying parts of a test's description.
struct Test {
    name: &'static str,
    summary: &'static str,
    about: &'static str,
    unit: &'static str,
    parameters: Vec<ParameterSpec>,
}

fn describe(test: Test) -> WorkloadSpec {
    let mut all = parameters([Parameter {
        name: "time",
        about: "duration of the copies",
        kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(3_600_000_000_000) },
        default: Some("3s"),
        smoke: Some("50ms"),
    }]);
    all.extend(test.parameters);
    WorkloadSpec {
        name: test.name.into(),
        summary: format!("{} (UnixBench)", test.summary),
        about: format!(
            "{} Source: UnixBench 5.1.3, implemented independently; see docs/reference/unixbench.md.",
            test.about
        ),
        parameters: all,
        metrics: score(test.unit),
        threads_exactly: None,
        trial_time_guess: Nanos(3_000_000_000),
    }
}

fn score(unit: &'static str) -> Vec<MetricSpec> {
    metrics([Metric::median("score", unit, Better::Higher)])
}

fn time_ns(job: &TrialContext) -> String {
    job.time("time").as_nanos().to_string()
}

/// Computes the common score: the sum of the counts divided by the mean of the times. The rate of each copy is stored
/// as well.
fn kernel_output(copies: Copies, per_count: f64) -> Result<KernelOutput, Failure> {
    let mut output = KernelOutput { thread_seats: copies.seats, ..KernelOutput::default() };
    output.push("score", rate_of_all(&copies.copies) * per_count)?;
    for copy in &copies.copies {
        output.push("copy", copy.rate() * per_count)?;
    }
    Ok(output)
}

fn rate_of_all(copies: &[Copy]) -> f64 {
    let count: u64 = copies.iter().map(|copy| copy.count).sum();
    let seconds: f64 = copies.iter().map(Copy::seconds).sum();
    count as f64 / (seconds / copies.len() as f64)
}

/// Verifies that each copy counted loops and returned the expected values.
fn check(copies: &[Copy], expected: &[u64], subject: &str) -> Result<(), Failure> {
    for copy in copies {
        if copy.count == 0 {
            return Err(Failure::Failed("a copy completed no loop within the time limit".into()));
        }
        if copy.values != expected {
            return Err(Failure::Failed(format!("wrong value in {subject}: {:?}, expected {expected:?}", copy.values)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(count: u64, took_ns: u64) -> Copy {
        Copy { count, took_ns, process: 1, values: vec![7] }
    }

    #[test]
    fn score_is_the_total_count_over_the_mean_time() {
        let copies = [copy(300, 1_000_000_000), copy(100, 3_000_000_000)];
        assert!((rate_of_all(&copies) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn copies_without_loops_or_with_wrong_values_fail() {
        assert_eq!(check(&[copy(1, 1)], &[7], "w"), Ok(()));
        assert!(check(&[copy(1, 1), copy(0, 1)], &[7], "w").is_err());
        assert!(check(&[copy(1, 1)], &[8], "w").is_err());
    }
}
