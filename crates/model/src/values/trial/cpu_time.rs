//! CPU time by kind of work, as counted in /proc/stat. The crate `machine` reads it.

use serde::{Deserialize, Serialize};

use crate::values::units::Nanos;

/// Time of one CPU by kind. The kernel counts in ticks of 10 ms; without exact accounting it charges a whole tick to
/// the task that runs when the tick ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTime {
    #[serde(skip_serializing_if = "is_zero")]
    pub user: Nanos,
    /// Kernel code for programs, and kernel threads.
    #[serde(skip_serializing_if = "is_zero")]
    pub system: Nanos,
    #[serde(skip_serializing_if = "is_zero")]
    pub irq: Nanos,
    /// Work that drivers defer until after the interrupt.
    #[serde(skip_serializing_if = "is_zero")]
    pub softirq: Nanos,
    /// Idle while a program that last ran on this CPU waits for a disk.
    #[serde(skip_serializing_if = "is_zero")]
    pub iowait: Nanos,
    #[serde(skip_serializing_if = "is_zero")]
    pub idle: Nanos,
    #[serde(skip_serializing_if = "is_zero")]
    pub steal: Nanos,
}

impl CpuTime {
    /// Returns the time that was not idle, iowait or steal.
    pub fn busy(&self) -> Nanos {
        sum(&[self.user, self.system, self.irq, self.softirq])
    }

    pub fn total(&self) -> Nanos {
        sum(&[self.busy(), self.iowait, self.idle, self.steal])
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// Returns the difference from an earlier reading. Kernels sometimes correct idle time backwards, which counts as
    /// zero.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(&self, other: &Self, each: impl Fn(u64, u64) -> u64) -> Self {
        let each = |one: Nanos, other: Nanos| Nanos(each(one.0, other.0));
        Self {
            user: each(self.user, other.user),
            system: each(self.system, other.system),
            irq: each(self.irq, other.irq),
            softirq: each(self.softirq, other.softirq),
            iowait: each(self.iowait, other.iowait),
            idle: each(self.idle, other.idle),
            steal: each(self.steal, other.steal),
        }
    }
}

fn sum(times: &[Nanos]) -> Nanos {
    Nanos(times.iter().fold(0, |sum, time| sum.saturating_add(time.0)))
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(time: &Nanos) -> bool {
    time.0 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(numbers: [u64; 7]) -> CpuTime {
        let [user, system, irq, softirq, iowait, idle, steal] = numbers.map(Nanos);
        CpuTime { user, system, irq, softirq, iowait, idle, steal }
    }

    #[test]
    fn sums_and_differences_are_computed_by_kind() {
        let (before, after) = (time([1, 2, 4, 8, 16, 32, 64]), time([2, 4, 8, 16, 32, 64, 128]));
        assert_eq!(after.since(&before), before);
        assert_eq!(before.plus(&before), after);
        assert_eq!((before.busy(), before.total()), (Nanos(15), Nanos(127)));
        assert_eq!(CpuTime::default().total(), Nanos(0));
    }

    #[test]
    fn sums_and_differences_saturate() {
        assert_eq!(time([0; 7]).since(&time([1; 7])), time([0; 7]));
        assert_eq!(time([u64::MAX; 7]).plus(&time([1; 7])).total(), Nanos(u64::MAX));
    }

    #[test]
    fn zeros_are_omitted_from_json() {
        let idle = CpuTime { idle: Nanos(5), ..CpuTime::default() };
        let text = serde_json::to_string(&idle).unwrap();
        assert_eq!(text, r#"{"idle":5}"#);
        assert_eq!(serde_json::from_str::<CpuTime>(&text).unwrap(), idle);
    }
}
