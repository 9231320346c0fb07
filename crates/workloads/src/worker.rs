//! Both ends of a kernel's worker process: `serve` in the child reads a trial, runs it and prints one line, and
//! `read_output` in the parent reads that line.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use model::values::trial::Trial;

use crate::job::{Failure, KernelOutput, TrialContext};
use crate::{Runner, find};

/// Environment variables of a worker process. Libraries that kernels load must compute on the calling threads, which
/// are pinned, and start no threads themselves.
pub fn environment() -> BTreeMap<String, String> {
    let counts = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"];
    counts.into_iter().map(|name| (name.to_string(), "1".to_string())).collect()
}

/// Reads a trial as JSON, runs its kernel and writes the output as one line. A kernel's failure is part of the output.
/// An error is returned only if the trial cannot be read or the output cannot be written.
pub fn serve(mut input: impl Read, mut output: impl Write) -> Result<(), String> {
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|error| format!("the trial cannot be read: {error}"))?;
    let trial: Trial = serde_json::from_str(&text).map_err(|error| format!("this is not a trial: {error}"))?;
    let mut line = serde_json::to_vec(&output_of(&trial)).map_err(|error| format!("the report: {error}"))?;
    line.push(b'\n');
    output.write_all(&line).and_then(|()| output.flush()).map_err(|error| format!("the report: {error}"))
}

/// Parses the output of a worker process.
pub fn read_output(output: &[u8]) -> Result<KernelOutput, String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().last().ok_or("the worker printed no report")?;
    serde_json::from_str(line).map_err(|error| format!("the worker's report cannot be read: {error}"))
}

fn output_of(trial: &Trial) -> KernelOutput {
    let job = TrialContext::of_kernel(trial);
    let output =
        run(trial, &job).unwrap_or_else(|failure| KernelOutput { status: failure.into(), ..KernelOutput::default() });
    KernelOutput { cpu_times: job.meanwhile.seen(), ..output }
}

fn run(trial: &Trial, job: &TrialContext) -> Result<KernelOutput, Failure> {
    let name = &trial.workload;
    let Some(workload) = find(name) else {
        return Err(Failure::Failed(format!("there is no workload '{name}'")));
    };
    let Runner::Kernel(kernel) = workload.runner else {
        return Err(Failure::Failed(format!("workload {name} is an external program and does not run in a worker")));
    };
    check_threads(job, (workload.describe)().threads_exactly, name)?;
    kernel(job)
}

fn check_threads(job: &TrialContext, exactly: Option<usize>, name: &str) -> Result<(), Failure> {
    match exactly.filter(|exactly| *exactly != job.threads) {
        Some(exactly) => Err(Failure::Failed(format!("workload {name} needs {exactly} threads, not {}", job.threads))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use model::values::id_set::{CpuId, NodeId};
    use model::values::placement::Placement;
    use model::values::trial::{CpuTime, FarMemory, Role, Sample, ThreadBinding, TrialId, TrialStatus};
    use model::values::units::Nanos;

    use super::*;
    use crate::kernels::job_for_tests;

    fn trial(workload: &str, threads: usize) -> Trial {
        Trial {
            id: TrialId("t".into()),
            cell: 0,
            workload: workload.into(),
            parameters: job_for_tests(workload).parameters,
            placement: Placement::kernel(threads),
            role: Role::Measured,
            block: 0,
            attempt: 0,
            seed: 7,
            time_limit: Nanos(60_000_000_000),
        }
    }

    fn served(trial: &Trial) -> KernelOutput {
        let mut output = Vec::new();
        serve(serde_json::to_string(trial).unwrap().as_bytes(), &mut output).unwrap();
        assert_eq!(output.iter().position(|byte| *byte == b'\n'), Some(output.len() - 1));
        read_output(&output).unwrap()
    }

    #[test]
    fn every_kernel_reports_through_the_worker() {
        for spec in crate::specs() {
            let trial = trial(&spec.name, spec.threads_exactly.unwrap_or(1));
            let report = served(&trial);
            let is_tool =
                matches!(crate::find(&spec.name).map(|found| &found.runner), Some(crate::Runner::Tool { .. }));
            if is_tool {
                assert!(matches!(report.status, TrialStatus::Failed(_)));
                continue;
            }
            if let TrialStatus::Unavailable(why) = &report.status {
                println!("skipped: {} through the worker: {why}", spec.name);
                continue;
            }
            assert_eq!(report.status, TrialStatus::Completed, "{}", spec.name);
            assert!(!report.samples.is_empty() && report.thread_seats.is_empty(), "{}", spec.name);
        }
    }

    #[test]
    fn two_pinned_threads_verify_their_bindings() {
        if std::thread::available_parallelism().unwrap().get() < 2 {
            return eprintln!("skipped: needs 2 cpus");
        }
        let mut trial = trial("stream", 2);
        trial.placement.bindings = two_cpus();
        let report = served(&trial);
        assert_eq!(report.status, TrialStatus::Completed);
        for (seat, asked) in report.thread_seats.iter().zip(&trial.placement.bindings) {
            assert_eq!((seat.requested, seat.before, seat.after), (*asked, *asked, *asked));
            assert_eq!(seat.mask.to_string(), asked.to_string());
        }
        assert_eq!(report.thread_seats.len(), 2);
        let pages: u64 = report.pages.values().sum();
        assert_eq!(pages > 0, crate::kernels::can_query_pages());
    }

    /// Returns two CPUs that this process may use.
    fn two_cpus() -> Vec<CpuId> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        model::values::id_set::CpuSet::parse_list(list).unwrap().iter().take(2).collect()
    }

    /// A running parent may start the worker of a newer version, so the names are fixed.
    #[test]
    fn printed_names_are_unchanged() {
        let (cpu, node) = (CpuId(2), NodeId(1));
        let output = KernelOutput {
            samples: vec![Sample { series: "s".into(), value: 1.5 }],
            thread_seats: vec![ThreadBinding {
                requested: cpu,
                mask: [cpu].into_iter().collect(),
                before: cpu,
                after: cpu,
            }],
            pages: BTreeMap::from([(node, 3)]),
            far: Some(FarMemory { file_system: "ext4".into(), ..FarMemory::default() }),
            cpu_times: BTreeMap::from([(cpu, CpuTime { user: Nanos(4), ..CpuTime::default() })]),
            ..KernelOutput::default()
        };
        let text = concat!(
            r#"{"status":{"status":"completed"},"samples":[{"series":"s","value":1.5}],"#,
            r#""thread_seats":[{"requested":2,"mask":"2","before":2,"after":2}],"pages":{"1":3},"#,
            r#""far":{"bytes":0,"of_file":0,"resident":null,"file_system":"ext4"},"cpu_times":{"2":{"user":4}}}"#
        );
        assert_eq!(serde_json::to_string(&output).unwrap(), text);
        assert_eq!(read_output(text.as_bytes()), Ok(output));
        let mut line = Vec::new();
        let trial = Trial { workload: "nothing".into(), ..trial("syscall", 1) };
        serve(serde_json::to_string(&trial).unwrap().as_bytes(), &mut line).unwrap();
        let status = r#"{"status":"failed","why":"there is no workload 'nothing'"}"#;
        let rest = r#""samples":[],"thread_seats":[],"pages":{},"cpu_times":{}"#;
        assert_eq!(String::from_utf8(line).unwrap(), format!("{{\"status\":{status},{rest}}}\n"));
    }

    #[test]
    fn failed_trials_are_reported() {
        let cases = [
            (Trial { workload: "nothing".into(), ..trial("syscall", 1) }, "no workload 'nothing'"),
            (trial("pingpong", 3), "needs 2 threads"),
        ];
        for (trial, expected) in cases {
            let TrialStatus::Failed(why) = served(&trial).status else { panic!("{expected}") };
            assert!(why.contains(expected), "{why}");
        }
        assert!(serve(&b"{}"[..], Vec::new()).unwrap_err().contains("not a trial"));
        for output in [&b""[..], b"killed", b"{\"status\":"] {
            assert!(read_output(output).is_err());
        }
    }
}
