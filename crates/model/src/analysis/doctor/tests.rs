//! Tests of each check with a fact that it reports and one that it accepts.

use super::*;
use crate::values::settings::FactValue;
use crate::values::undo::SettingTarget;

/// A machine without problems.
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
        ("memory.policy", "default"),
        ("machine.virtualization", "none seen"),
        ("cgroup.cpu-quota", "none"),
        ("cgroup.cpus", "0-3"),
        ("cgroup.memory-bytes", "none"),
    ] {
        settings.record(key, FactValue::Known(value.into()));
    }
    let probes = Probes {
        load: Ok(Load { busy_milli: 100, steal_milli: 10, cpus: 4 }),
        throttled: Ok(0),
        free: Ok(Bytes(256 << 20)),
        irqbalance: false,
        pending_restores: Ok(Vec::new()),
        root: true,
        counters: Counters::Work,
        nodes: Some(2),
        managed_interrupts: Vec::new(),
        page_nodes: Ok(()),
        cached_page_nodes: Ok(()),
        text_copies: Ok(()),
        weighted_interleave: true,
        expand: expand::tests::all_there(),
    };
    (settings, probes)
}

#[test]
fn healthy_machine_has_no_problems() {
    let (settings, probes) = healthy();
    let diagnosis = diagnose(&settings, &probes);
    assert_eq!(diagnosis.problems, []);
    assert_eq!(diagnosis.ok.len(), checks::CHECKS.len() + expand::run(&probes.expand).len());
    let mut keys = diagnosis.ok;
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
}

/// Asserts that there is exactly one problem, with this key and text.
fn only(settings: &Settings, probes: &Probes, key: &str, words: &str) {
    let problems = diagnose(settings, probes).problems;
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key).collect();
    assert_eq!(keys, [key]);
    assert!(problems[0].found.contains(words), "{key}: {}", problems[0].found);
}

#[test]
fn each_bad_setting_is_one_problem() {
    let cases = [
        ("cpu.governor", "0-1: powersave, 2-3: performance", "governor", "0-1: powersave"),
        ("cpu.turbo", "on", "turbo", "on"),
        ("cpu.smt", "on", "smt", "two threads"),
        ("memory.thp", "madvise", "thp", "madvise"),
        ("memory.swap-used-bytes", "67108865", "swap", "64.0MiB"),
        ("kernel.numa-balancing", "2", "numa-balancing", "is 2"),
        ("memory.policy", "interleave:0-7", "memory-policy", "interleave:0-7"),
        ("machine.virtualization", "KVM", "virtual-machine", "KVM"),
        ("cgroup.cpu-quota", "1.500 cpus", "cpu-limit", "1.500 cpus"),
        ("cgroup.cpus", "0-1", "cpu-limit", "0-1 of 0-3"),
        ("cgroup.memory-bytes", "536870912", "memory-limit", "512MiB of 1GiB"),
    ];
    for (fact, value, key, words) in cases {
        let (mut settings, probes) = healthy();
        settings.record(fact, FactValue::Known(value.into()));
        only(&settings, &probes, key, words);
    }
    for (fact, key) in [("cpu.frequency-driver", "frequency"), ("cpu.turbo", "turbo-switch")] {
        let (mut settings, probes) = healthy();
        settings.record(fact, FactValue::Unavailable("no driver".into()));
        only(&settings, &probes, key, "no driver");
    }
}

type ProbeEdit<'a> = &'a dyn Fn(&mut Probes);

#[test]
fn each_bad_probe_is_one_problem() {
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
    let cases: [(ProbeEdit, &str, &str); 19] = [
        (&|probes| probes.load = load(1570, 0), "load", "1.5 of 4 CPUs"),
        (&|probes| probes.load = load(0, 11), "steal", "11 thousandths"),
        (&|probes| probes.load = Err(why()), "load-reading", "no such file"),
        (&|probes| probes.free = Err(why()), "load-reading", "no such file"),
        (&|probes| probes.free = Ok(Bytes(1 << 20)), "disk", "1MiB"),
        (&|probes| probes.throttled = Ok(7), "throttled", "7 thermal"),
        (&|probes| probes.throttled = Err(why()), "throttling", "no such file"),
        (&|probes| probes.irqbalance = true, "irqbalance", "runs"),
        (
            &|probes| probes.pending_restores = Ok(vec![change.clone()]),
            "left-changed",
            "changed thp from always to never",
        ),
        (&|probes| probes.root = false, "root", "not run as root"),
        (&|probes| probes.counters = Counters::Missing(why()), "counters", "no such file"),
        (&|probes| probes.counters = Counters::Forbidden(why()), "counters-forbidden", "not permitted"),
        (&|probes| probes.nodes = Some(1), "nodes", "one memory node"),
        // Without the first query, the second one cannot succeed.
        (
            &|probes| (probes.page_nodes, probes.cached_page_nodes) = (Err(why()), Err(why())),
            "page-nodes",
            "move_pages: no such file",
        ),
        (&|probes| probes.cached_page_nodes = Err(why()), "cached-page-nodes", "MADV_POPULATE_READ"),
        (&|probes| probes.weighted_interleave = false, "weighted-interleave", "no weighted interleaving"),
        (&|probes| probes.text_copies = Err("not permitted".into()), "text-copies", "not permitted"),
        (
            &|probes| probes.managed_interrupts = vec!["nvme0q1".into(), "nvme0q2".into()],
            "managed-interrupts",
            "nvme0q1 and 1 more",
        ),
        (&|probes| probes.expand.folios = false, "expand-folios", "not support folios of 64 KiB"),
    ];
    for (spoil, key, words) in cases {
        let (settings, mut probes) = healthy();
        spoil(&mut probes);
        only(&settings, &probes, key, words);
    }
}

#[test]
fn unavailable_facts_are_neither_problems_nor_ok() {
    let (_, probes) = healthy();
    let diagnosis = diagnose(&Settings::default(), &probes);
    assert_eq!(diagnosis.problems, []);
    assert!(diagnosis.ok.contains(&"load") && !diagnosis.ok.contains(&"governor"), "{:?}", diagnosis.ok);
}
