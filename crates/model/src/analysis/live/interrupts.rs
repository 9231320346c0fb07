//! Interrupts of the devices of a service during a period of an experiment. Must not depend on how they are observed.

use serde::{Deserialize, Serialize};

use crate::values::id_set::CpuSet;
use crate::values::placement::Route;
use crate::values::trial::{DeviceInterrupt, misrouted_interrupts};

/// Interrupts of the named devices that arrived during a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptUse {
    pub arrived: u64,
    /// Those that arrived on other CPUs than those of the placement.
    pub elsewhere: u64,
}

impl InterruptUse {
    /// Counts interrupts that were observed under a placement.
    pub fn of(routes: &[Route], observed: &[DeviceInterrupt]) -> Self {
        let mut used = Self::default();
        for interrupt in observed {
            let requested = routes.iter().find(|route| route.number == interrupt.number).map(|route| &route.cpus);
            let requested = requested.filter(|cpus| !cpus.is_empty());
            for (cpu, count) in &interrupt.arrived {
                used.arrived += count;
                used.elsewhere += if requested.is_some_and(|cpus| !cpus.contains(*cpu)) { *count } else { 0 };
            }
        }
        used
    }
}

/// Returns why a period does not count: an interrupt arrived on CPUs that were not requested, or another program moved it.
pub fn misrouted(routes: &[Route], observed: &[DeviceInterrupt]) -> Option<String> {
    let as_found = routes.iter().filter(|route| !route.is_placed());
    let moved = as_found.filter_map(|route| {
        let seen = observed.iter().find(|seen| seen.number == route.number)?;
        (seen.affinity_at_start != seen.affinity_at_end).then(|| {
            format!(
                "{} was moved from CPUs {} to {} by another program meanwhile",
                route.described(),
                seen.affinity_at_start,
                seen.affinity_at_end
            )
        })
    });
    misrouted_interrupts(routes, observed).into_iter().chain(moved).next()
}

/// Returns the CPUs that may handle the interrupts of a placement; `None` if they stay as they were found.
pub fn interrupt_cpus(routes: &[Route]) -> Option<CpuSet> {
    let cpus = routes.iter().fold(CpuSet::new(), |all, route| all.union(&route.cpus));
    (!cpus.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::CpuId;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    fn route(number: u32, list: &str) -> Route {
        Route { device: "eth0".into(), number, name: format!("rx-{number}"), cpus: cpus(list) }
    }

    fn seen(number: u32, start: &str, end: &str, arrived: &[(u32, u64)]) -> DeviceInterrupt {
        DeviceInterrupt {
            number,
            affinity_at_start: cpus(start),
            affinity_at_end: cpus(end),
            arrived: arrived.iter().map(|(cpu, count)| (CpuId(*cpu), *count)).collect(),
            ..DeviceInterrupt::default()
        }
    }

    #[test]
    fn interrupts_on_other_cpus_are_counted() {
        let observed = [seen(7, "1", "1", &[(0, 2), (1, 40)]), seen(8, "0-3", "0-3", &[(3, 5)])];
        let used = InterruptUse::of(&[route(7, "1"), route(8, "")], &observed);
        assert_eq!(used, InterruptUse { arrived: 47, elsewhere: 2 });
        assert_eq!(interrupt_cpus(&[route(7, "1"), route(8, "")]), Some(cpus("1")));
        assert_eq!(interrupt_cpus(&[route(8, "")]), None);
    }

    #[test]
    fn interrupts_that_others_moved_are_reported() {
        let stays = seen(8, "0-3", "0-3", &[]);
        assert_eq!(misrouted(&[route(7, "1"), route(8, "")], &[seen(7, "1", "1", &[(1, 9)]), stays.clone()]), None);
        let why = |routes: &[Route], observed: &[DeviceInterrupt]| misrouted(routes, observed).expect("a reason");
        let moved = why(&[route(8, "")], &[seen(8, "0-3", "2", &[])]);
        assert_eq!(moved, "interrupt 8 (rx-8) of eth0 was moved from CPUs 0-3 to 2 by another program meanwhile");
        let elsewhere = why(&[route(7, "1")], &[seen(7, "1", "1", &[(0, 3)]), stays]);
        assert!(elsewhere.ends_with("arrived 3 times on CPUs 0, requested 1"), "{elsewhere}");
    }
}
