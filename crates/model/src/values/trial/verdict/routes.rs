//! Whether interrupts came where they were told to, and whether they came at all.

use std::collections::BTreeMap;

use super::Evidence;
use crate::placements::placement::Route;
use crate::values::id_set::CpuSet;
use crate::values::trial::DeviceInterrupt;

/// A new affinity takes effect with the next interrupt, which still comes to the old cpu, and one more may be on its
/// way there.
const LATE_MAX: u64 = 2;

/// Interrupts that were sent somewhere and were not there.
pub(super) fn not_proven(routes: &[Route], evidence: &Evidence) -> Vec<String> {
    let sent = routes.iter().filter(|route| !route.cpus.is_empty());
    sent.filter_map(|route| {
        let what = format!("interrupt {} ({}) of {}", route.number, route.name, route.device);
        match evidence.device_interrupts.iter().find(|seen| seen.number == route.number) {
            None => Some(format!("{what} was asked for on cpus {} and not seen", route.cpus)),
            Some(seen) => elsewhere(&route.cpus, seen).map(|why| format!("{what} {why}")),
        }
    })
    .collect()
}

fn elsewhere(asked: &CpuSet, seen: &DeviceInterrupt) -> Option<String> {
    if seen.affinity_at_start != *asked {
        return Some(format!("was asked for on cpus {asked}, the kernel has {}", seen.affinity_at_start));
    }
    if seen.affinity_at_end != *asked {
        return Some(format!("was moved from cpus {asked} to {} by somebody else while it ran", seen.affinity_at_end));
    }
    let astray = seen.arrived.iter().filter(|(cpu, _)| !asked.contains(**cpu));
    let (cpus, count) = astray.fold((CpuSet::new(), 0_u64), |(mut cpus, sum), (cpu, count)| {
        cpus.insert(*cpu);
        (cpus, sum + count)
    });
    (count > LATE_MAX).then(|| format!("came {count} times on cpus {cpus}, asked for {asked}"))
}

/// Devices whose interrupts the placement is about, and that raised none.
pub(super) fn unused(routes: &[Route], evidence: &Evidence) -> Vec<String> {
    let mut came: BTreeMap<&str, u64> = BTreeMap::new();
    for route in routes.iter().filter(|route| !route.cpus.is_empty()) {
        let seen = evidence.device_interrupts.iter().find(|seen| seen.number == route.number);
        let there = seen.map_or(0, |seen| {
            seen.arrived.iter().filter(|(cpu, _)| route.cpus.contains(**cpu)).map(|(_, count)| count).sum()
        });
        *came.entry(&route.device).or_default() += there;
    }
    let idle = came.into_iter().filter(|(_, count)| *count == 0);
    idle.map(|(device, _)| format!("no interrupt of {device} came where it was sent: the device was not used"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::CpuId;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    fn route(number: u32, list: &str) -> Route {
        Route { device: "sda".into(), number, name: "xhci".into(), cpus: cpus(list) }
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

    fn evidence(seen: &[DeviceInterrupt]) -> Evidence {
        Evidence { device_interrupts: seen.into(), ..Evidence::default() }
    }

    #[test]
    fn interrupts_must_come_where_they_were_sent() {
        let cases = [
            (vec![seen(7, "1", "1", &[(1, 100)])], ""),
            (vec![seen(7, "1", "1", &[(0, 2), (1, 100)])], ""),
            (vec![seen(7, "1", "1", &[(0, 2), (2, 1), (1, 100)])], "came 3 times on cpus 0,2, asked for 1"),
            (vec![seen(7, "0-1", "0-1", &[(1, 100)])], "was asked for on cpus 1, the kernel has 0-1"),
            (vec![seen(7, "1", "0", &[(1, 100)])], "was moved from cpus 1 to 0 by somebody else while it ran"),
            (vec![], "was asked for on cpus 1 and not seen"),
        ];
        for (seen, why) in cases {
            let reasons = not_proven(&[route(7, "1")], &evidence(&seen));
            assert_eq!(reasons.is_empty(), why.is_empty(), "{seen:?}: {reasons:?}");
            assert!(reasons.iter().all(|reason| reason.ends_with(why)), "{reasons:?}");
        }
        assert_eq!(not_proven(&[route(7, "")], &evidence(&[])), [""; 0], "left as it was found");
    }

    #[test]
    fn a_device_is_used_when_one_of_its_interrupts_came() {
        let routes = [route(7, "1"), route(8, "1")];
        let used = evidence(&[seen(7, "1", "1", &[]), seen(8, "1", "1", &[(1, 1)])]);
        assert_eq!(unused(&routes, &used), [""; 0]);
        let late = evidence(&[seen(7, "1", "1", &[(0, 2)]), seen(8, "1", "1", &[])]);
        assert_eq!(unused(&routes, &late).len(), 1);
        assert_eq!(unused(&[route(7, "")], &evidence(&[])), [""; 0], "left as it was found");
    }
}
