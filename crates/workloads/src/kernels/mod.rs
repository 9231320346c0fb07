//! Built-in benchmark kernels, one per file. The head of a file states what the kernel measures, what it does not
//! measure, and the source of its definition. A slow independent check runs after the timed region.

mod arena;
pub(crate) mod bfs;
pub(crate) mod chase;
mod clock;
pub(crate) mod cpu;
pub(crate) mod crypto;
mod events;
pub(crate) mod gups;
pub(crate) mod io;
mod latency;
mod library;
pub(crate) mod linear;
pub(crate) mod loaded;
pub(crate) mod memory;
pub(crate) mod mutex;
pub(crate) mod pingpong;
mod prefetch;
mod pthread;
pub(crate) mod queens;
pub(crate) mod stream;
pub(crate) mod sweep;
mod sysbench;
pub(crate) mod syscall;
pub(crate) mod threads;
pub(crate) mod unixbench;
mod xoroshiro;

#[cfg(test)]
pub(crate) use for_tests::{can_query_pages, check_smoke, job_for_tests, set};

#[cfg(test)]
mod for_tests {
    use std::collections::{BTreeMap, BTreeSet};

    use machine::memory::{HugePages, MemoryError, PlacedMemory};
    use model::values::id_set::CpuSet;
    use model::values::placement::MemoryPolicy;
    use model::values::units::{Bytes, Nanos};
    use model::values::workload::WorkloadSpec;

    use crate::job::{CpuTimes, KernelOutput, TrialContext};

    /// Returns a trial context of a workload at smoke size, with the number of threads that it needs, unpinned.
    pub(crate) fn job_for_tests(workload: &str) -> TrialContext {
        let spec = (crate::find(workload).unwrap().describe)();
        let smoke = spec.parameters.iter().filter_map(|p| Some((p.name.clone(), p.smoke.clone()?))).collect();
        TrialContext {
            parameters: spec.resolve(&smoke, Some(Bytes(1 << 20))).unwrap(),
            threads: spec.threads_exactly.unwrap_or(1),
            seats: Vec::new(),
            mask: CpuSet::new(),
            server_cpus: CpuSet::new(),
            memory: MemoryPolicy::Kernel,
            seed: 1,
            time_limit: Nanos(60_000_000_000),
            meanwhile: CpuTimes::default(),
        }
    }

    /// Sets one parameter of a trial context. The value is parsed by the workload that has exactly the parameters of
    /// this context.
    pub(crate) fn set(job: &mut TrialContext, name: &str, text: &str) {
        let is_same = |spec: &WorkloadSpec| {
            let names: BTreeSet<&String> = spec.parameters.iter().map(|parameter| &parameter.name).collect();
            names == job.parameters.0.keys().collect()
        };
        let spec =
            crate::specs().into_iter().find(is_same).expect("a trial context has the parameters of its workload");
        let value = spec.parameter(name).unwrap().kind.read(text, None).unwrap();
        job.parameters.0.insert(name.into(), value);
    }

    /// Whether the Linux kernel reports the node of a page. One without NUMA support does not.
    pub(crate) fn can_query_pages() -> bool {
        let memory = PlacedMemory::<u8>::new(4096, &MemoryPolicy::Kernel, HugePages::Never).unwrap();
        !matches!(memory.pages_by_node(1), Err(MemoryError::Refused(refusal)) if refusal.errno == libc::ENOSYS)
    }

    /// Asserts that every metric of a workload has samples, and that all samples are finite numbers above zero.
    pub(crate) fn check_smoke(workload: &str, output: &KernelOutput) {
        let mut by_series: BTreeMap<&str, usize> = BTreeMap::new();
        for sample in &output.samples {
            // Metrics of far memory are zero if everything is in DRAM.
            let zero = sample.series.starts_with("far_") && sample.value == 0.0;
            assert!(zero || sample.value.is_finite() && sample.value > 0.0, "{workload}: {sample:?}");
            *by_series.entry(&sample.series).or_default() += 1;
        }
        for metric in (crate::find(workload).unwrap().describe)().metrics {
            assert!(by_series.contains_key(metric.series.as_str()), "{workload}: no samples of {}", metric.series);
        }
    }
}
