//! Runs an installed, unmodified High-Performance Linpack (`xhpl`) and parses its HPL.out.
//!
//! Measures: GFLOPS and seconds of one system of `n` equations as reported by xhpl, which checks the solution, with one
//! MPI process for each thread of the placement. The kernel `hpl` measures the same without MPI. Does NOT pin its
//! processes (together they may use the placement's CPUs), nor search for the best block size or grid.
//! Source: HPL 2 (netlib.org/benchmark/hpl), an external program. This file contains none of its code. Debian has no
//! package of it.

use machine::child::{Exit, ProcessResult, find_program};
use model::import::reports;
use model::values::trial::Sample;
use model::values::units::Nanos;
use model::values::workload::{Better, ParameterKind, Parameters, WorkloadSpec};

use super::linpack;
use crate::command_spec::CommandSpec;
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};

pub(crate) fn describe() -> WorkloadSpec {
    let program = Parameter {
        name: "program",
        about: "which xhpl",
        kind: ParameterKind::Text,
        default: Some("xhpl"),
        smoke: None,
    };
    let [n, nb] = linpack::size_and_block("equations");
    WorkloadSpec {
        name: "xhpl".into(),
        summary: "an installed High-Performance Linpack".into(),
        about: "Runs xhpl in a scratch directory with one MPI process for each thread of the placement, in a grid as \
                square as the count allows, and parses its HPL.out. A solution that fails its check fails the trial. It is \
                an external program: see docs/guides/linear-algebra.md. Alternatives are hpcc and the built-in hpl."
            .into(),
        parameters: parameters([n, nb, program]),
        metrics: metrics([
            Metric::median("gflops", "GFLOPS", Better::Higher),
            Metric::median("time", "s", Better::Lower),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(5_000_000_000),
    }
}

pub(crate) fn missing(parameters: &Parameters) -> Option<String> {
    let hint = "hint: Debian has no package of it; to build it, see docs/guides/linear-algebra.md; workload hpcc runs the same code";
    find_program(parameters.text("program")).err().map(|error| format!("{error}; {hint}"))
}

pub(crate) fn recipe(job: &TrialContext) -> Result<CommandSpec, Failure> {
    if let Some(why) = missing(&job.parameters) {
        return Err(Failure::Unavailable(why));
    }
    let program = job.parameters.text("program");
    // The program runs in its scratch directory, where a relative path would resolve differently.
    let absolute = program.contains('/').then(|| std::path::absolute(program)).transpose();
    let path = absolute.map_err(|error| Failure::Failed(format!("program {program}: {error}")))?;
    let program = path.map_or_else(|| program.into(), |path| path.to_string_lossy().into_owned());
    linpack::recipe(job, &program, "HPL.dat", "HPL.out")
}

pub(crate) fn read(job: &TrialContext, finished: &ProcessResult) -> Result<Vec<Sample>, Failure> {
    if finished.exit != Exit::Code(0) {
        return Err(Failure::Failed(format!("it ended with {}", finished.stderr_tail())));
    }
    samples(job.parameters.size("n"), &String::from_utf8_lossy(&finished.stdout))
}

fn samples(n: usize, output: &str) -> Result<Vec<Sample>, Failure> {
    let format = reports::find("hpl").expect("hpl is one of the formats");
    let report = reports::read(format, output).map_err(|error| Failure::Failed(format!("its HPL.out: {error}")))?;
    let mut measured = KernelOutput::default();
    for (metric, series) in [("rate", "gflops"), ("time", "time")] {
        let [row] = report.rows.iter().filter(|row| row.metric == metric).collect::<Vec<_>>()[..] else {
            return Err(Failure::Failed("its HPL.out does not have exactly one system".into()));
        };
        if !row.test.contains(&format!("N={n} ")) {
            return Err(Failure::Failed(format!("its HPL.out is of '{}' instead of N={n}", row.test)));
        }
        for value in row.values.iter().flatten() {
            measured.push(series, *value)?;
        }
    }
    Ok(measured.samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{job_for_tests, set};

    // Real output of HPL 2.3 with two processes, n = 3000.
    const OUTPUT: &str = include_str!("xhpl/hpl-2.3.txt");

    #[test]
    fn rate_and_time_are_parsed() {
        let samples = samples(3000, OUTPUT).unwrap();
        let read: Vec<(&str, f64)> = samples.iter().map(|sample| (sample.series.as_str(), sample.value)).collect();
        assert_eq!(read, [("gflops", 94.31), ("time", 0.19)]);
    }

    #[test]
    fn invalid_output_returns_errors() {
        let error = |n: usize, output: &str| samples(n, output).unwrap_err().to_string();
        let cases = [
            (error(3000, &OUTPUT.replace("HPLinpack 2.3", "HPLinpack 1.0")), "line 2: 'HPLinpack 1.0"),
            (error(3000, &OUTPUT.replace("PASSED", "FAILED")), "the residual check failed"),
            (error(3000, &OUTPUT.replace("End of Tests.", "")), "is truncated"),
            (error(3000, ""), "is empty"),
            (error(2000, OUTPUT), "is of 'hpl N=3000 NB=128 1x2 WR11C2R4' instead of N=2000"),
        ];
        for (error, expected) in cases {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn missing_xhpl_returns_an_error_with_the_alternative() {
        let mut job = job_for_tests("xhpl");
        set(&mut job, "program", "no-such-xhpl");
        let Err(Failure::Unavailable(why)) = recipe(&job) else { panic!("xhpl is installed") };
        assert!(why.contains("no-such-xhpl") && why.contains("workload hpcc"), "{why}");
    }

    #[test]
    fn program_path_resolves_from_the_scratch_directory() {
        let mut job = job_for_tests("xhpl");
        set(&mut job, "program", "../workloads/Cargo.toml");
        let program = recipe(&job).unwrap().command.argv.pop().unwrap();
        assert!(program.starts_with('/') && program.ends_with("workloads/Cargo.toml"), "{program}");
    }
}
