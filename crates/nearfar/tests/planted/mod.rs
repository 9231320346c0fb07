//! An experiment on a running service with a planted gain, without a service.

use model::analysis::live::{
    LiveEvidence, LivePeriod, LivePhase, LivePlacement, LiveRecord, LiveRequest, LiveSetup, LiveState, LiveStep,
    ServiceIdentity,
};
use model::stats::switchback::{ArmId, SwitchSample};
use model::values::capture::Capture;
use model::values::id_set::CpuSet;
use model::values::settings::Settings;
use model::values::topology::{Object, ObjectKind, Topology};
use model::values::units::Nanos;
use model::values::workload::Better;

/// An experiment on `unit redis` with two placements, of which the second has a gain of a tenth.
pub fn record() -> LiveRecord {
    let placement = |name: &str, cpus| LivePlacement {
        name: name.into(),
        cpus: CpuSet::parse_list(cpus).expect("a list"),
        memory: None,
        interrupts: Vec::new(),
    };
    let request = LiveRequest {
        options: vec!["--unit".into(), "redis".into()],
        metric: "tcp:6379".into(),
        guards: Vec::new(),
        placements: Vec::new(),
        budget: Nanos(900_000_000_000),
        seed: 1,
        moves_memory: false,
        devices: Vec::new(),
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

/// Returns all periods of the experiment, and the time of its end.
pub fn periods(record: &LiveRecord) -> (Vec<LivePeriod>, f64) {
    let (mut state, mut from) = (LiveState::new(record.plan()), ArmId::BASELINE);
    loop {
        let at_s = state.end_s();
        let LiveStep::Block(block) = state.next_step(at_s) else { return (state.periods().to_vec(), at_s) };
        for arm in &block.order {
            // Small changes from period to period, so that values are not equal.
            let noise = 1.0 + 0.001 * (state.periods().len() % 7) as f64;
            let rate = 1000.0 * noise * if *arm == ArmId::BASELINE { 1.0 } else { 1.1 };
            let sample = |at: u32| SwitchSample { since_s: 0.1 * f64::from(at) + 0.05, value: rate };
            let is_sampled = block.phase == LivePhase::WashOut;
            let period = LivePeriod {
                block: block.number,
                at_s: state.end_s(),
                length_s: block.length.as_secs_f64(),
                arm: *arm,
                phase: block.phase,
                rate: Some(rate),
                unproven: None,
                evidence: LiveEvidence {
                    from,
                    halves: (!is_sampled).then_some((rate, rate)),
                    samples: if is_sampled { (0..20).map(sample).collect() } else { Vec::new() },
                    ..LiveEvidence::default()
                },
            };
            state.push(period).expect("the period was asked for");
            from = *arm;
        }
    }
}
