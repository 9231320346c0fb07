//! An experiment on a running service with a planted gain, without a service.

use model::analysis::live::{LivePlacement, LiveRecord, LiveRequest, LiveSetup, ServiceIdentity};
use model::values::capture::Capture;
use model::values::id_set::CpuSet;
use model::values::settings::Settings;
use model::values::topology::{Object, ObjectKind, Topology};
use model::values::units::Nanos;
use model::values::workload::Better;

/// An experiment on `unit redis` with two placements, of which the second has a gain of a tenth.
pub fn record() -> LiveRecord {
    let placement =
        |name: &str, cpus| LivePlacement { name: name.into(), cpus: CpuSet::parse_list(cpus).expect("a list") };
    let request = LiveRequest {
        options: vec!["--unit".into(), "redis".into()],
        metric: "tcp:6379".into(),
        guards: Vec::new(),
        placements: Vec::new(),
        budget: Nanos(900_000_000_000),
        seed: 1,
    };
    let setup = LiveSetup {
        subject: "unit redis".into(),
        service: ServiceIdentity { pid: 7, started: 4711, boot: None },
        quantity: "rate".into(),
        unit: "/s".into(),
        better: Better::Higher,
        placements: vec![placement("as found", "0-3"), placement("node:0", "0,1")],
        pinned_threads: 0,
    };
    LiveRecord::begin(request, setup, machine(), 1_790_000_000_000, "0.1.0")
}

/// A machine with one CPU.
fn machine() -> Capture {
    let object = |kind, parent, children: &[usize]| Object {
        kind,
        os_index: Some(0),
        cpus: CpuSet::parse_list("0").expect("a list"),
        parent,
        children: children.into(),
        memory: Vec::new(),
        cache: None,
        subtype: None,
    };
    let objects = vec![object(ObjectKind::Machine, None, &[1]), object(ObjectKind::Pu, Some(0), &[])];
    Capture::new(Topology { objects, ..Topology::default() }, Settings::default())
}
