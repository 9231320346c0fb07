//! Use of CPUs during a period of an experiment. Must not depend on how it is observed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::values::units::Bytes;

/// Other programs matter if they use this share of the CPUs.
const OTHERS_MIN: f64 = 0.1;
/// The hypervisor matters if it takes this share of the CPUs.
const STOLEN_MIN: f64 = 0.02;

/// Times that have passed since any fixed moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// Wall time.
    pub at: Duration,
    /// For which threads of the service ran.
    pub service: Duration,
    /// For which threads of the service were ready and waited for a CPU.
    pub waited: Duration,
    /// For which the CPUs of the placement were busy with any program.
    pub busy: Duration,
    /// For which the hypervisor ran others on the CPUs of the placement.
    pub stolen: Duration,
}

/// Use of the CPUs of a placement, as mean numbers of CPUs or threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Busy with the service.
    pub service: f64,
    /// Busy with other programs, interrupts and kernel threads.
    pub others: f64,
    /// Threads of the service that waited for a CPU.
    pub waiting: f64,
    /// Taken by the hypervisor.
    pub stolen: f64,
}

/// A change of the placement of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementChange {
    /// Number of threads whose affinity was changed.
    pub threads: usize,
    /// Memory that was moved to other nodes; `None` if memory is not moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Duration of the change.
    pub seconds: f64,
}

impl CpuUse {
    /// Returns the use between two readings; `None` if no time has passed.
    pub fn between(before: &CpuTotals, after: &CpuTotals) -> Option<Self> {
        let wall = after.at.checked_sub(before.at).filter(|wall| !wall.is_zero())?;
        let mean = |time: fn(&CpuTotals) -> Duration| time(after).saturating_sub(time(before)).div_duration_f64(wall);
        let (service, busy) = (mean(|times| times.service), mean(|times| times.busy));
        // May be negative: the kernel counts the time of busy CPUs in ticks, and that of threads in nanoseconds.
        let others = (busy - service).max(0.0);
        Some(Self { service, others, waiting: mean(|times| times.waited), stolen: mean(|times| times.stolen) })
    }

    /// Returns the mean of several periods of equal length; `None` of none.
    pub fn mean(periods: &[Self]) -> Option<Self> {
        let mean = |part: fn(&Self) -> f64| periods.iter().map(part).sum::<f64>() / periods.len() as f64;
        (!periods.is_empty()).then(|| Self {
            service: mean(|period| period.service),
            others: mean(|period| period.others),
            waiting: mean(|period| period.waiting),
            stolen: mean(|period| period.stolen),
        })
    }

    /// Returns whether other programs used enough of this number of CPUs to affect the speed of a service.
    pub fn has_others(&self, cpus: usize) -> bool {
        self.others >= OTHERS_MIN * cpus as f64
    }

    /// Returns whether the hypervisor took enough of this number of CPUs to affect the speed of a service.
    pub fn has_steal(&self, cpus: usize) -> bool {
        self.stolen >= STOLEN_MIN * cpus as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_the_growth_per_wall_time() {
        let ms = Duration::from_millis;
        let before = CpuTotals { at: ms(500), service: ms(100), waited: ms(7), busy: ms(300), stolen: ms(10) };
        let after = CpuTotals { at: ms(2500), service: ms(1100), waited: ms(407), busy: ms(2300), stolen: ms(50) };
        let used = CpuUse::between(&before, &after).expect("two seconds");
        assert_eq!(used, CpuUse { service: 0.5, others: 0.5, waiting: 0.2, stolen: 0.02 });
        assert_eq!(CpuUse::between(&after, &after), None);
        let idle = CpuTotals { busy: ms(350), ..after };
        assert_eq!(CpuUse::between(&before, &idle).map(|used| used.others.to_bits()), Some(0), "ticks were missed");
    }

    #[test]
    fn limits_are_shares_of_the_cpus() {
        let used = CpuUse { service: 3.0, others: 0.4, waiting: 0.0, stolen: 0.1 };
        assert_eq!([4, 5].map(|cpus| used.has_others(cpus)), [true, false]);
        assert_eq!([5, 6].map(|cpus| used.has_steal(cpus)), [true, false]);
        let mean = CpuUse::mean(&[used, CpuUse { others: 0.2, ..CpuUse::default() }]).expect("two periods");
        assert!((mean.others - 0.3).abs() < 1e-12 && (mean.service - 1.5).abs() < 1e-12, "{mean:?}");
        assert_eq!(CpuUse::mean(&[]), None);
    }
}
