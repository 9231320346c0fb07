//! Findings of planted observations of a machine with two sockets.

use super::*;
use crate::analysis::residency::NodeBytes;
use crate::values::id_set::{NodeId, NodeSet};
use crate::values::units::Bytes;

const SECOND: Nanos = Nanos(1_000_000_000);

/// Two sockets: CPUs 0 to 5 and 12 to 17 on node 0, the others on node 1.
fn topology() -> Topology {
    let text = include_str!("../../../tests/captures/xeon-e5-2640-x2.json");
    serde_json::from_str(text).expect("the capture is a topology")
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).expect("a list of CPUs")
}

fn thread(name: &str, allowed: &str, ran_on: &str, cpu_percent: u64, wait_percent: u64) -> ObservedThread {
    let percent = |percent: u64| Nanos(percent * SECOND.0 / 100);
    ObservedThread {
        pid: 7,
        name: name.into(),
        allowed: cpus(allowed),
        cpus: cpus(ran_on),
        cpu_time: percent(cpu_percent),
        wait: percent(wait_percent),
    }
}

/// A second in which these CPUs were busy and all others idle.
fn activity(threads: Vec<ObservedThread>, busy: &str) -> Activity {
    let busy = cpus(busy);
    let time = |cpu| if busy.contains(cpu) { SECOND } else { Nanos(0) };
    let busy = cpus("0-23").iter().map(|cpu| (cpu, time(cpu))).collect();
    Activity { interval: SECOND, threads, busy, ..Activity::default() }
}

/// Memory in MiB on node 0 and on node 1, and its remote share.
fn memory(on: [u64; 2], remote_percent: f64) -> Residency {
    let by_node = on.iter().enumerate().map(|(node, mib)| (NodeId(node as u32), Bytes(mib << 20))).collect();
    let total = NodeBytes { bytes: Bytes((on[0] + on[1]) << 20), by_node, ..NodeBytes::default() };
    let interval = crate::analysis::residency::SamplingInterval::for_pages(1);
    Residency { total, remote_percent: Some(remote_percent), ..Residency::of(&[], interval, Bytes(4096), Vec::new()) }
}

fn found(activity: &Activity, memory: Residency) -> Vec<AuditFinding> {
    LiveAudit::new(&topology(), activity, memory, Rights { affinity: true, pages: true }).findings
}

#[test]
fn service_near_its_memory_has_no_findings() {
    let quiet = activity(vec![thread("worker", "0-23", "0-3", 380, 1)], "0-3");
    assert_eq!(found(&quiet, memory([900, 20], 2.0)), []);
}

#[test]
fn remote_memory_names_the_node_of_the_threads() {
    let on_node_0 = activity(vec![thread("worker", "0-5", "0-3", 380, 1)], "0-3");
    let expected = AuditFinding::RemoteMemory {
        percent: 22.0,
        nodes: NodeSet::parse_list("0").unwrap(),
        try_placement: "node:0".into(),
    };
    assert_eq!(found(&on_node_0, memory([780, 220], 22.0)), [expected]);
    assert_eq!(found(&on_node_0, memory([950, 50], 5.0)), []);
    let mostly_remote = found(&on_node_0, memory([220, 780], 78.0));
    assert!(
        matches!(&mostly_remote[..], [AuditFinding::RemoteMemory { try_placement, .. }] if try_placement == "node:0")
    );
}

#[test]
fn idle_service_is_where_its_threads_ran_last() {
    let idle = activity(vec![thread("worker", "0-23", "7", 0, 0)], "");
    let findings = found(&idle, memory([900, 100], 90.0));
    let [AuditFinding::RemoteMemory { nodes, try_placement, .. }] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((nodes.to_string(), try_placement.as_str()), ("1".into(), "node:1"));
}

#[test]
fn nodes_without_cpus_are_not_tried() {
    let mut topology = topology();
    topology.nodes[1].cpus = CpuSet::new();
    let spread = activity(vec![thread("worker", "0-23", "0-11", 100, 1)], "0-11");
    let rights = Rights { affinity: true, pages: true };
    let audit = LiveAudit::new(&topology, &spread, memory([10, 90], 90.0), rights);
    let tried = audit.findings.iter().filter_map(|finding| match finding {
        AuditFinding::RemoteMemory { try_placement, .. } => Some(try_placement.as_str()),
        _ => None,
    });
    assert_eq!(tried.collect::<Vec<_>>(), ["node:0"]);
}

#[test]
fn waiting_threads_are_reported_only_beside_idle_cpus() {
    let narrow = activity(vec![thread("worker", "0-1", "0-1", 190, 60)], "0-1");
    let [AuditFinding::WaitsWhileCpusIdle { idle, are_allowed: false, .. }] = &found(&narrow, memory([9, 0], 0.0))[..]
    else {
        panic!("{:?}", found(&narrow, memory([9, 0], 0.0)))
    };
    assert_eq!(idle, &cpus("2-23"));
    let wide = activity(vec![thread("worker", "0-3", "0-1", 190, 60)], "0-1");
    let findings = found(&wide, memory([9, 0], 0.0));
    assert!(
        matches!(&findings[..], [AuditFinding::WaitsWhileCpusIdle { idle, are_allowed: true, .. }] if *idle == cpus("2-3"))
    );
    let full = activity(vec![thread("worker", "0-1", "0-1", 190, 60)], "0-23");
    assert_eq!(found(&full, memory([9, 0], 0.0)), []);
}

#[test]
fn other_programs_on_its_cpus_are_reported() {
    let shared = activity(vec![thread("worker", "0-23", "0-1", 100, 2)], "0-1");
    let expected = AuditFinding::OtherPrograms { cpus: cpus("0-1"), percent: 50.0 };
    assert_eq!(found(&shared, memory([9, 0], 0.0)), [expected]);
}

#[test]
fn spread_service_is_reported_if_one_node_suffices() {
    let spread = |percent| activity(vec![thread("worker", "0-23", "0-11", percent, 1)], "0-11");
    let findings = found(&spread(900), memory([10, 90], 50.0));
    let is_spread = |finding: &AuditFinding| matches!(finding, AuditFinding::SpreadOverNodes { try_placement, .. } if try_placement == "node:1");
    assert!(findings.iter().any(is_spread), "{findings:?}");
    assert!(!found(&spread(1100), memory([10, 90], 50.0)).iter().any(is_spread), "12 CPUs at 92 %");
}

#[test]
fn throttled_pinned_and_misallocated_services_are_reported() {
    let threads = vec![thread("worker", "0-3", "0-3", 380, 1), thread("logger", "2", "2", 0, 0)];
    let allowed_nodes = NodeSet::parse_list("1").ok();
    let restricted = Activity { throttled: Some(Nanos(SECOND.0 / 4)), allowed_nodes, ..activity(threads, "0-3") };
    let findings = found(&restricted, memory([9, 0], 0.0));
    let [
        AuditFinding::Throttled { percent },
        AuditFinding::PinnedThreads { threads: 1, cpus: pinned },
        AuditFinding::MemoryOfOtherNodes { .. },
    ] = &findings[..]
    else {
        panic!("{findings:?}")
    };
    assert!((percent - 25.0).abs() < 1e-9 && *pinned == cpus("2"));
}

#[test]
fn threads_are_grouped_by_name_and_allowed_cpus() {
    let threads =
        vec![thread("io", "0-3", "1", 5, 0), thread("worker", "0-3", "0", 90, 2), thread("worker", "0-3", "2", 80, 1)];
    let rights = Rights { affinity: true, pages: false };
    let audit = LiveAudit::new(&topology(), &activity(threads, "0-2"), memory([9, 0], 0.0), rights);
    let [workers, io] = &audit.threads[..] else { panic!("{:?}", audit.threads) };
    assert_eq!((workers.name.as_str(), workers.threads, &workers.cpus), ("worker", 2, &cpus("0,2")));
    assert!((workers.cpu_percent - 170.0).abs() < 1e-9 && (workers.wait_percent - 3.0).abs() < 1e-9);
    assert_eq!(io.name, "io");
}

#[test]
fn alternatives_are_nodes_and_caches_with_enough_cpus() {
    let names = |found: &str, busy| -> Vec<String> {
        alternatives(&topology(), &cpus(found), busy).into_iter().map(|placement| placement.name).collect()
    };
    // Each node of this machine has one L3 cache.
    assert_eq!(names("0-23", 3.5), ["node:0", "node:1"]);
    assert_eq!(names("0-8", 3.5), ["node:0"], "node 1 has three of these CPUs");
    assert_eq!(names("0-5", 1.0), [""; 0], "it already runs on one node");
    assert_eq!(names("0-23", 12.5), [""; 0]);
}

#[test]
fn placements_are_written_as_for_numactl() {
    let with = |memory| LivePlacement {
        name: "node:1".into(),
        cpus: CpuSet::parse_list("4-7").unwrap(),
        memory,
        interrupts: Vec::new(),
    };
    let nodes =
        |list: &str, interleaved| Some(LiveMemoryNodes { nodes: NodeSet::parse_list(list).unwrap(), interleaved });
    assert_eq!(with(None).numactl(), "4-7");
    assert_eq!(with(nodes("1", false)).numactl(), "-C 4-7 -m 1");
    assert_eq!(with(nodes("0-1", true)).numactl(), "-C 4-7 -i 0-1");
}
