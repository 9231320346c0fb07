//! Checks that interrupts arrived on the requested CPUs, and that they arrived at all.

use std::collections::BTreeMap;

use crate::values::id_set::CpuSet;
use crate::values::placement::Route;
use crate::values::trial::{DeviceInterrupt, Evidence};

/// A new affinity takes effect after the next interrupt, which still arrives on the old CPU; one more may be pending
/// there.
const LATE_MAX: u64 = 2;

/// Returns a reason for each routed interrupt that did not arrive on its CPUs.
pub fn misrouted_interrupts(routes: &[Route], observed: &[DeviceInterrupt]) -> Vec<String> {
    let routed = routes.iter().filter(|route| route.is_placed());
    routed
        .filter_map(|route| {
            let interrupt = route.described();
            match observed.iter().find(|seen| seen.number == route.number) {
                None => Some(format!("{interrupt} was requested on CPUs {} and not observed", route.cpus)),
                Some(seen) => misrouted(&route.cpus, seen).map(|reason| format!("{interrupt} {reason}")),
            }
        })
        .collect()
}

fn misrouted(requested: &CpuSet, seen: &DeviceInterrupt) -> Option<String> {
    if seen.affinity_at_start != *requested {
        return Some(format!("was requested on CPUs {requested}, but the kernel uses {}", seen.affinity_at_start));
    }
    if seen.affinity_at_end != *requested {
        return Some(format!(
            "was moved from CPUs {requested} to {} by another program meanwhile",
            seen.affinity_at_end
        ));
    }
    let astray = seen.arrived.iter().filter(|(cpu, _)| !requested.contains(**cpu));
    let (cpus, count) = astray.fold((CpuSet::new(), 0_u64), |(mut cpus, sum), (cpu, count)| {
        cpus.insert(*cpu);
        (cpus, sum + count)
    });
    (count > LATE_MAX).then(|| format!("arrived {count} times on CPUs {cpus}, requested {requested}"))
}

/// Returns a reason for each routed device without interrupts.
pub(super) fn unused(routes: &[Route], evidence: &Evidence) -> Vec<String> {
    let mut arrived: BTreeMap<&str, u64> = BTreeMap::new();
    for route in routes.iter().filter(|route| route.is_placed()) {
        let seen = evidence.device_interrupts.iter().find(|seen| seen.number == route.number);
        let count = seen.map_or(0, |seen| {
            seen.arrived.iter().filter(|(cpu, _)| route.cpus.contains(**cpu)).map(|(_, count)| count).sum()
        });
        *arrived.entry(&route.device).or_default() += count;
    }
    let idle = arrived.into_iter().filter(|(_, count)| *count == 0);
    idle.map(|(device, _)| format!("no interrupt of {device} arrived on the requested CPUs: the device was not used"))
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
    fn interrupts_must_arrive_on_requested_cpus() {
        let cases = [
            (vec![seen(7, "1", "1", &[(1, 100)])], ""),
            (vec![seen(7, "1", "1", &[(0, 2), (1, 100)])], ""),
            (vec![seen(7, "1", "1", &[(0, 2), (2, 1), (1, 100)])], "arrived 3 times on CPUs 0,2, requested 1"),
            (vec![seen(7, "0-1", "0-1", &[(1, 100)])], "was requested on CPUs 1, but the kernel uses 0-1"),
            (vec![seen(7, "1", "0", &[(1, 100)])], "was moved from CPUs 1 to 0 by another program meanwhile"),
            (vec![], "was requested on CPUs 1 and not observed"),
        ];
        for (seen, why) in cases {
            let reasons = misrouted_interrupts(&[route(7, "1")], &seen);
            assert_eq!(reasons.is_empty(), why.is_empty(), "{seen:?}: {reasons:?}");
            assert!(reasons.iter().all(|reason| reason.ends_with(why)), "{reasons:?}");
        }
        assert_eq!(misrouted_interrupts(&[route(7, "")], &[]), [""; 0], "unrouted interrupts are not checked");
    }

    #[test]
    fn device_is_used_if_one_of_its_interrupts_arrived() {
        let routes = [route(7, "1"), route(8, "1")];
        let used = evidence(&[seen(7, "1", "1", &[]), seen(8, "1", "1", &[(1, 1)])]);
        assert_eq!(unused(&routes, &used), [""; 0]);
        let late = evidence(&[seen(7, "1", "1", &[(0, 2)]), seen(8, "1", "1", &[])]);
        assert_eq!(unused(&routes, &late).len(), 1);
        assert_eq!(unused(&[route(7, "")], &evidence(&[])), [""; 0], "unrouted interrupts are not checked");
    }
}
