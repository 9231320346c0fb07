//! Each check with what it complains of and what it lets pass.

use super::*;
use crate::values::settings::FactValue;
use crate::values::undo::SettingTarget;

/// A machine on which all is well.
fn healthy() -> (Settings, Probes) {
    let mut settings = Settings::default();
    for (key, value) in [
        ("cpu.governor", "performance"),
        ("cpu.frequency-driver", "intel_pstate"),
        ("cpu.turbo", "off"),
        ("cpu.smt", "off"),
        ("cpu.online", "0-3"),
        ("memory.thp", "never"),
        ("memory.total-bytes", "1073741824"),
        ("memory.swap-used-bytes", "0"),
        ("kernel.numa-balancing", "0"),
        ("machine.virtualization", "none seen"),
        ("cgroup.cpu-quota", "none"),
        ("cgroup.cpus", "0-3"),
        ("cgroup.memory-bytes", "none"),
    ] {
        settings.record(key, FactValue::Known(value.into()));
    }
    let signs = Probes {
        load: Ok(Load { busy_milli: 100, steal_milli: 10, cpus: 4 }),
        throttled: Ok(0),
        free: Ok(Bytes(256 << 20)),
        irqbalance: false,
        left: Ok(Vec::new()),
        root: true,
        counters: Counters::Work,
        nodes: Some(2),
        managed_interrupts: Vec::new(),
        expand: expand::tests::all_there(),
    };
    (settings, signs)
}

#[test]
fn a_healthy_machine_has_no_complaints() {
    let (settings, signs) = healthy();
    let diagnosis = diagnose(&settings, &signs);
    assert_eq!(diagnosis.complaints, []);
    assert_eq!(diagnosis.well.len(), checks::CHECKS.len() + expand::look(&signs.expand).len());
    let mut keys = diagnosis.well;
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
}

/// The one complaint there must be, after a fact or a sign was made bad.
fn only(settings: &Settings, signs: &Probes, key: &str, words: &str) {
    let complaints = diagnose(settings, signs).complaints;
    let keys: Vec<&str> = complaints.iter().map(|complaint| complaint.key).collect();
    assert_eq!(keys, [key]);
    assert!(complaints[0].found.contains(words), "{key}: {}", complaints[0].found);
}

#[test]
fn each_bad_setting_is_complained_of_alone() {
    let cases = [
        ("cpu.governor", "0-1: powersave, 2-3: performance", "governor", "0-1: powersave"),
        ("cpu.turbo", "on", "turbo", "on"),
        ("cpu.smt", "on", "smt", "two threads"),
        ("memory.thp", "madvise", "thp", "madvise"),
        ("memory.swap-used-bytes", "67108865", "swap", "64.0MiB"),
        ("kernel.numa-balancing", "2", "numa-balancing", "is 2"),
        ("machine.virtualization", "KVM", "virtual-machine", "KVM"),
        ("cgroup.cpu-quota", "1.500 cpus", "cpu-limit", "1.500 cpus"),
        ("cgroup.cpus", "0-1", "cpu-limit", "0-1 of 0-3"),
        ("cgroup.memory-bytes", "536870912", "memory-limit", "512MiB of 1GiB"),
    ];
    for (fact, value, key, words) in cases {
        let (mut settings, signs) = healthy();
        settings.record(fact, FactValue::Known(value.into()));
        only(&settings, &signs, key, words);
    }
    for (fact, key) in [("cpu.frequency-driver", "frequency"), ("cpu.turbo", "turbo-switch")] {
        let (mut settings, signs) = healthy();
        settings.record(fact, FactValue::Unavailable("no driver".into()));
        only(&settings, &signs, key, "no driver");
    }
}

type ProbeEdit<'a> = &'a dyn Fn(&mut Probes);

#[test]
fn each_bad_sign_is_complained_of_alone() {
    let change = SettingChange {
        setting: "thp".into(),
        target: SettingTarget::File("x".into()),
        old: "always".into(),
        new: "never".into(),
        also: Vec::new(),
        boot: None,
    };
    let why = || "no such file".to_string();
    let load = |busy_milli, steal_milli| Ok(Load { busy_milli, steal_milli, cpus: 4 });
    let cases: [(ProbeEdit, &str, &str); 15] = [
        (&|signs| signs.load = load(1570, 0), "load", "1.5 of 4 cpus"),
        (&|signs| signs.load = load(0, 11), "steal", "11 thousandths"),
        (&|signs| signs.load = Err(why()), "load-reading", "no such file"),
        (&|signs| signs.free = Err(why()), "load-reading", "no such file"),
        (&|signs| signs.free = Ok(Bytes(1 << 20)), "disk", "1MiB"),
        (&|signs| signs.throttled = Ok(7), "throttled", "7 times"),
        (&|signs| signs.throttled = Err(why()), "throttling", "no such file"),
        (&|signs| signs.irqbalance = true, "irqbalance", "runs"),
        (&|signs| signs.left = Ok(vec![change.clone()]), "left-changed", "changed thp from always to never"),
        (&|signs| signs.root = false, "root", "not root"),
        (&|signs| signs.counters = Counters::Missing(why()), "counters", "no such file"),
        (&|signs| signs.counters = Counters::Forbidden(why()), "counters-forbidden", "not for us"),
        (&|signs| signs.nodes = Some(1), "nodes", "one memory node"),
        (
            &|signs| signs.managed_interrupts = vec!["nvme0q1".into(), "nvme0q2".into()],
            "managed-interrupts",
            "nvme0q1 and 1 more",
        ),
        (&|signs| signs.expand.folios = false, "expand-folios", "no folios of 64 KiB"),
    ];
    for (spoil, key, words) in cases {
        let (settings, mut signs) = healthy();
        spoil(&mut signs);
        only(&settings, &signs, key, words);
    }
}

#[test]
fn facts_that_are_not_there_are_neither_sick_nor_well() {
    let (_, signs) = healthy();
    let diagnosis = diagnose(&Settings::default(), &signs);
    assert_eq!(diagnosis.complaints, []);
    assert!(diagnosis.well.contains(&"load") && !diagnosis.well.contains(&"governor"), "{:?}", diagnosis.well);
}
