//! CPU load of a cell by kind of work: the mean over its trials, each with the same weight.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::id_set::CpuId;
use crate::values::trial::CpuTime;
use crate::values::workload::WorkloadSpec;

/// Time of one CPU by kind in percent, with the sum 100: the mean over the counted trials that observed the CPU. Field
/// names are part of the JSON contract. [`CpuTime`] describes the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuLoad {
    pub cpu: CpuId,
    pub user: f64,
    pub system: f64,
    pub irq: f64,
    /// Work that drivers defer until after the interrupt.
    pub softirq: f64,
    /// Idle, waiting for a disk.
    pub iowait: f64,
    pub idle: f64,
    pub steal: f64,
}

impl CpuLoad {
    /// Returns the sum of user, system, interrupt and softirq time.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

/// Whether the CPU load is an essential part of the result, as for disk requests, whose interrupts appear in it.
pub fn load_belongs_to(spec: &WorkloadSpec) -> bool {
    spec.metrics.first().is_some_and(|main| main.unit == "IO/s")
}

/// Sums of the shares of each CPU over the counted trials of a cell. A trial without ticks of a CPU is ignored for this
/// CPU.
#[derive(Debug, Default)]
pub(super) struct LoadSum(BTreeMap<CpuId, ([f64; 7], f64)>);

impl LoadSum {
    pub(super) fn add(&mut self, times: &BTreeMap<CpuId, CpuTime>) {
        for (cpu, time) in times {
            let Some(shares) = percents(time) else { continue };
            let (sums, trials) = self.0.entry(*cpu).or_default();
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
            *trials += 1.0;
        }
    }

    /// Returns the mean load of each CPU.
    pub(super) fn means(&self) -> Vec<CpuLoad> {
        let mean = |(cpu, (sums, trials)): (&CpuId, &([f64; 7], f64))| {
            let [user, system, irq, softirq, iowait, idle, steal] = sums.map(|sum| sum / trials);
            CpuLoad { cpu: *cpu, user, system, irq, softirq, iowait, idle, steal }
        };
        self.0.iter().map(mean).collect()
    }
}

fn percents(time: &CpuTime) -> Option<[f64; 7]> {
    let total = time.total().0;
    let kinds = [time.user, time.system, time.irq, time.softirq, time.iowait, time.idle, time.steal];
    (total > 0).then(|| kinds.map(|kind| 100.0 * kind.0 as f64 / total as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::units::Nanos;

    fn time(user: u64, irq: u64, idle: u64) -> CpuTime {
        CpuTime { user: Nanos(user), irq: Nanos(irq), idle: Nanos(idle), ..CpuTime::default() }
    }

    fn means(trials: &[&[(u32, CpuTime)]]) -> Vec<(u32, f64, f64, f64)> {
        let trials = trials.iter().map(|trial| trial.iter().map(|(cpu, time)| (CpuId(*cpu), *time)).collect());
        let trials: Vec<BTreeMap<CpuId, CpuTime>> = trials.collect();
        let mut sum = LoadSum::default();
        trials.iter().for_each(|times| sum.add(times));
        sum.means().iter().map(|load| (load.cpu.0, load.user, load.irq, load.idle)).collect()
    }

    #[test]
    fn trials_have_equal_weight_regardless_of_duration() {
        let (short, long) = (time(10, 0, 0), time(0, 250, 750));
        assert_eq!(means(&[&[(3, short)], &[(3, long)]]), [(3, 50.0, 12.5, 37.5)]);
    }

    #[test]
    fn cpu_load_uses_only_trials_that_observed_the_cpu() {
        let busy = time(1, 0, 0);
        assert_eq!(
            means(&[&[(0, busy), (1, time(0, 0, 0))], &[(1, busy)]]),
            [(0, 100.0, 0.0, 0.0), (1, 100.0, 0.0, 0.0)]
        );
        assert!(means(&[]).is_empty());
    }
}
