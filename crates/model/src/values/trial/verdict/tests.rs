//! Verdicts of trials that are undisturbed except for one piece of evidence.

use super::*;
use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::placement::{DramBudget, Placement};
use crate::values::trial::{
    CompressedTraffic, DramBudgetUse, FarMemory, FileKind, FilePages, PageCacheStart, Role, TextCopy, ThreadBinding,
    TrialId,
};
use crate::values::units::Bytes;
use crate::values::workload::Parameters;

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

fn nodes(list: &str) -> NodeSet {
    NodeSet::parse_list(list).unwrap()
}

/// A trial pinned to CPUs 0 and 1, with memory on node 0.
fn trial() -> Trial {
    Trial {
        id: TrialId("t".into()),
        cell: 0,
        workload: "stream".into(),
        parameters: Parameters::default(),
        placement: Placement {
            bindings: vec![CpuId(0), CpuId(1)],
            memory: MemoryPolicy::Bind(nodes("0")),
            ..Placement::kernel(2)
        },
        role: Role::Measured,
        block: 0,
        attempt: 0,
        seed: 1,
        time_limit: Nanos(60 * SECOND),
    }
}

/// Ten seconds on both CPUs without other programs; the foreign time is tick noise.
fn quiet() -> Evidence {
    Evidence {
        mask_at_start: Some(cpus("0-1")),
        mask_at_end: Some(cpus("0-1")),
        cpus_seen: cpus("0-1"),
        polls: 100,
        thread_bindings: vec![binding(0), binding(1)],
        pages: [(NodeId(0), 10_000), (NodeId(1), 100)].into(),
        memory_policy: Some("bind:0".into()),
        swapped: Some(Bytes(0)),
        faults_major: Some(0),
        oom_kills: Some(0),
        steal: Some(Nanos(20_000_000)),
        foreign: Some(Nanos(30_000_000)),
        frequency_khz: Some((3_300_000, 3_500_000)),
        wall: Nanos(10 * SECOND),
        cpu_time: Nanos(20 * SECOND - 50_000_000),
        ..Evidence::default()
    }
}

fn binding(cpu: u32) -> ThreadBinding {
    ThreadBinding { requested: CpuId(cpu), mask: cpus(&cpu.to_string()), before: CpuId(cpu), after: CpuId(cpu) }
}

fn judged(change: impl FnOnce(&mut Trial, &mut Evidence)) -> Verdict {
    let (mut trial, mut evidence) = (trial(), quiet());
    change(&mut trial, &mut evidence);
    judge(&trial, &TrialStatus::Completed, &evidence)
}

#[test]
fn undisturbed_trial_is_valid() {
    assert_eq!(judged(|_, _| {}), Verdict { grade: Grade::Valid, reasons: vec![] });
    let unobserved = judged(|trial, evidence| {
        trial.placement = Placement::kernel(2);
        *evidence = Evidence { wall: Nanos(SECOND), ..Evidence::default() };
    });
    assert_eq!(unobserved.grade, Grade::Valid, "missing evidence does not count against a trial: {unobserved:?}");
}

type EvidenceEdit = fn(&mut Trial, &mut Evidence);

#[test]
fn unverified_placements_are_invalid() {
    let cases: [(EvidenceEdit, &str); 11] = [
        (|_, seen| seen.mask_at_start = None, "the affinity mask could not be read back"),
        (|_, seen| seen.mask_at_start = Some(cpus("0")), "requested CPUs 0-1, the kernel set 0"),
        (|_, seen| seen.mask_at_end = Some(cpus("0-3")), "it had the affinity 0-3, but was pinned to 0-1"),
        (|_, seen| seen.cpus_seen = cpus("0-2"), "it ran on CPUs 2, but was pinned to 0-1"),
        (
            |_, seen| seen.thread_bindings[1].mask = cpus("0-1"),
            "a thread pinned to CPU 1 had mask 0-1 and ran on 1 and 1",
        ),
        (|_, seen| seen.thread_bindings[1].after = CpuId(0), "a thread pinned to CPU 1 had mask 1 and ran on 1 and 0"),
        (
            |_, seen| seen.memory_policy = Some("default".into()),
            "requested the memory policy bind:0, the kernel set default",
        ),
        (
            |trial, seen| {
                trial.placement.memory = MemoryPolicy::Preferred(NodeId(1));
                seen.pages = [(NodeId(1), 10_000)].into();
            },
            "requested the memory policy prefer:1, the kernel set bind:0",
        ),
        (|_, seen| _ = seen.pages.insert(NodeId(1), 1_000), "9 % of its pages were on nodes 1, requested 0"),
        (
            |_, seen| seen.pages.clear(),
            "memory on nodes 0 was requested and could not be verified: no pages were observed",
        ),
        (
            |_, seen| {
                seen.pages.clear();
                seen.unavailable.insert("pages".into(), "numa_maps: Permission denied".into());
            },
            "memory on nodes 0 was requested and could not be verified: numa_maps: Permission denied",
        ),
    ];
    for (change, reason) in cases {
        assert_eq!(judged(change), Verdict { grade: Grade::Invalid, reasons: vec![reason.into()] });
    }
}

/// A trial with a CPU quota of 20 %, one stopped for 300 ms, and one that waited for a burst of 50 ms were valid.
#[test]
fn lost_time_makes_a_trial_suspect() {
    let check = |change: EvidenceEdit, expected: &[&str]| {
        let verdict = judged(|trial, seen| {
            (seen.wall, seen.cpu_time, seen.steal) = (Nanos(300 * MILLI), Nanos(600 * MILLI), None);
            change(trial, seen);
        });
        assert_eq!(verdict.reasons, expected);
        assert_eq!(verdict.grade, if expected.is_empty() { Grade::Valid } else { Grade::Suspect });
    };
    check(|_, seen| seen.stopped = Some(Nanos(100 * MILLI)), &["it was stopped for 33 % of its time"]);
    check(|_, seen| seen.stopped = Some(Nanos(5 * MILLI)), &[]);
    let waited = "it waited for CPUs that ran other programs for 10 % of its time";
    check(|_, seen| seen.cpu_stall = Some(Nanos(30 * MILLI)), &[waited]);
    check(|_, seen| seen.cpu_stall = Some(Nanos(5 * MILLI)), &[]);
    // Each thread is pinned to its own CPU.
    check(|_, seen| seen.run_queue_wait_max = Some(Nanos(30 * MILLI)), &[waited]);
    let throttled = "the CPU quota of its cgroup stopped its CPUs for 50 % of the time";
    check(
        |_, seen| {
            seen.throttled = Some(Nanos(300 * MILLI));
            seen.cpu_stall = Some(Nanos(150 * MILLI));
        },
        &[throttled],
    );
    // Both are signs of the same disturbance.
    check(
        |_, seen| {
            seen.cpu_stall = Some(Nanos(30 * MILLI));
            seen.foreign = Some(Nanos(60 * MILLI));
        },
        &[waited],
    );
}

#[test]
fn short_waits_of_idle_machines_are_not_disturbances() {
    let grade = |wall: u64, wait: u64| {
        judged(|_, seen| {
            (seen.wall, seen.cpu_time) = (Nanos(wall), Nanos(2 * wall));
            (seen.steal, seen.foreign, seen.cpu_stall) = (None, None, Some(Nanos(wait)));
        })
        .grade
    };
    assert_eq!(grade(100 * MILLI, 5 * MILLI), Grade::Valid);
    assert_eq!(grade(100 * MILLI, 5 * MILLI + 1), Grade::Suspect);
    assert_eq!((grade(SECOND, 20 * MILLI), grade(SECOND, 20 * MILLI + 1)), (Grade::Valid, Grade::Suspect));
    assert_eq!(grade(0, 0), Grade::Valid);
}

#[test]
fn waiting_for_own_threads_is_not_a_disturbance() {
    let crowded = |seen: &mut Evidence| {
        (seen.thread_bindings, seen.threads_seen) = (Vec::new(), 8);
        (seen.run_queue_wait, seen.run_queue_wait_max) = (Some(Nanos(30 * SECOND)), Some(Nanos(5 * SECOND)));
    };
    assert_eq!(judged(|_, seen| crowded(seen)).grade, Grade::Valid);
    let robbed = judged(|_, seen| {
        crowded(seen);
        seen.cpu_stall = Some(Nanos(SECOND));
    });
    assert_eq!(robbed.reasons, ["it waited for CPUs that ran other programs for 10 % of its time"]);
    let single = judged(|_, seen| {
        crowded(seen);
        seen.threads_seen = 1;
    });
    assert_eq!(single.reasons, ["it waited for CPUs that ran other programs for 50 % of its time"]);
    let with_server = judged_second(|trial, seen| {
        trial.placement.server_cpus = cpus("0-1");
        let waits = |seen: &mut Evidence| {
            (seen.mask_at_start, seen.mask_at_end) = (Some(cpus("0-1")), Some(cpus("0-1")));
            (seen.cpus_seen, seen.cpu_stall) = (cpus("0-1"), Some(Nanos(5 * SECOND)));
        };
        waits(second(seen));
        waits(seen);
    });
    assert_eq!(with_server.grade, Grade::Valid, "they wait for each other: {with_server:?}");
}

/// A job of low priority on the other CPU made all of 12 trials suspect, though none waited.
#[test]
fn foreign_work_for_which_an_unbound_trial_did_not_wait_is_ignored() {
    let with_wait = |wait: Option<u64>| {
        judged(|trial, seen| {
            trial.placement = Placement::kernel(1);
            (seen.mask_at_start, seen.mask_at_end) = (Some(cpus("0-1")), Some(cpus("0-1")));
            (seen.cpu_time, seen.foreign) = (Nanos(10 * SECOND), Some(Nanos(10 * SECOND)));
            seen.cpu_stall = wait.map(Nanos);
        })
        .grade
    };
    assert_eq!((with_wait(Some(20 * MILLI)), with_wait(Some(SECOND))), (Grade::Valid, Grade::Suspect));
    assert_eq!(with_wait(None), Grade::Suspect, "it is unknown whether it waited");
}

/// A trial that another program moved to CPU 1 for 30 ms and back was valid, unless a poll fell into this time.
#[test]
fn migrations_of_a_trial_with_one_cpu_are_violations() {
    let with = |list: &'static str, migrations| {
        judged(move |trial, seen| {
            trial.placement.bindings = cpus(list).iter().collect();
            (seen.mask_at_start, seen.mask_at_end, seen.cpus_seen) = (Some(cpus(list)), Some(cpus(list)), cpus(list));
            (seen.thread_bindings, seen.migrations) = (Vec::new(), migrations);
        })
    };
    let reason = "it left its only CPU 0 during the trial";
    assert_eq!(with("0", Some(2)), Verdict { grade: Grade::Invalid, reasons: vec![reason.into()] });
    assert_eq!((with("0", Some(0)).grade, with("0", None).grade), (Grade::Valid, Grade::Valid));
    assert_eq!(with("0-1", Some(2)).grade, Grade::Valid, "the kernel may move it between its CPUs");
}

/// In the NUMA guest, a trial whose pages were moved away was proven by an early reading of 209 of 12288 pages.
#[test]
fn few_pages_of_the_peak_prove_nothing() {
    let with = |pages: u64, file: u64, peak: Option<u64>| {
        judged(|_, seen| {
            (seen.pages, seen.file_pages) = ([(NodeId(0), pages)].into(), [(NodeId(1), file)].into());
            seen.pages_peak = peak;
        })
        .reasons
    };
    let reason = "memory on nodes 0 was requested, but only 2 % of its peak memory was observed";
    assert_eq!(with(209, 0, Some(12_288)), [reason]);
    assert!(with(6000, 144, Some(12_288)).is_empty(), "half of them were");
    assert!(with(209, 0, None).is_empty(), "the kernel was asked for every page");
    let unbound = judged(|trial, seen| {
        trial.placement.memory = MemoryPolicy::Kernel;
        (seen.pages, seen.pages_peak) = ([(NodeId(0), 209)].into(), Some(12_288));
    });
    assert_eq!(unbound.grade, Grade::Valid);
}

/// In the NUMA guest, 77 % of "interleaved" pages were on one node, and the trial was valid.
#[test]
fn uneven_pages_are_not_interleaved() {
    let check = |pages: &[(u32, u64)], expected: &[&str]| {
        let verdict = judged(|trial, seen| {
            trial.placement.memory = MemoryPolicy::Interleave(nodes("0-1"));
            seen.memory_policy = Some("interleave:0-1".into());
            seen.pages = pages.iter().map(|(node, pages)| (NodeId(*node), *pages)).collect();
        });
        assert_eq!(verdict.reasons, expected, "{pages:?}");
    };
    check(&[(0, 10_000), (1, 10_000)], &[]);
    check(&[(0, 10_512), (1, 9_488)], &[]);
    check(&[(0, 4_000), (1, 16_000)], &["80 % of its pages were on node 1, requested interleaving on 0-1"]);
    check(&[(0, 20_000)], &["100 % of its pages were on node 0, requested interleaving on 0-1"]);
    // One huge page and a little.
    check(&[(0, 512), (1, 80)], &[]);
}

#[test]
fn few_pages_on_other_nodes_are_tolerated() {
    let grade = |here: u64, elsewhere: u64| {
        judged(|_, seen| seen.pages = [(NodeId(0), here), (NodeId(1), elsewhere)].into()).grade
    };
    assert_eq!(grade(11, 2), Grade::Valid, "as observed in the NUMA guest");
    assert_eq!(grade(2, 11), Grade::Invalid, "most are on other nodes");
    assert_eq!(grade(100, 9), Grade::Invalid, "above the limit");
}

/// Observed in the NUMA guest with a node that another program had filled.
#[test]
fn spilled_pages_make_a_trial_suspect() {
    let check = |memory: MemoryPolicy, policy: &str, local: Option<&str>, expected: &[&str]| {
        let verdict = judged(|trial, seen| {
            trial.placement.memory = memory;
            seen.memory_policy = Some(policy.into());
            seen.local_nodes = local.map(nodes);
            seen.pages = [(NodeId(0), 1_000), (NodeId(1), 3_000)].into();
        });
        let grade = if expected.is_empty() { Grade::Valid } else { Grade::Suspect };
        assert_eq!((verdict.grade, verdict.reasons), (grade, expected.iter().map(ToString::to_string).collect()));
    };
    let preferred = MemoryPolicy::Preferred(NodeId(0));
    check(preferred, "prefer:0", None, &["75 % of its pages were on nodes 1, preferred 0"]);
    check(MemoryPolicy::Local, "local", Some("0"), &["75 % of its pages were on nodes 1, local is 0"]);
    check(MemoryPolicy::Local, "local", Some("0-1"), &[]);
    check(MemoryPolicy::Local, "local", None, &[]);
    check(MemoryPolicy::Kernel, "default", Some("0"), &[]);
}

/// Far memory must be pages of its file. Its faults are by design; swapped-out memory is still a disturbance.
#[test]
fn far_memory_is_verified_by_its_file() {
    let check = |far: Option<(u64, u64)>, expected: &[&str]| {
        let verdict = judged(|trial, seen| {
            trial.placement.memory = MemoryPolicy::Far;
            seen.memory_policy = Some("default".into());
            seen.pages.clear();
            seen.faults_major = Some(1_000_000);
            seen.far = far.map(|(bytes, of_file)| FarMemory {
                bytes: Bytes(bytes << 20),
                of_file: Bytes(of_file << 20),
                ..FarMemory::default()
            });
        });
        let grade = if expected.is_empty() { Grade::Valid } else { Grade::Invalid };
        assert_eq!((verdict.grade, verdict.reasons), (grade, expected.iter().map(ToString::to_string).collect()));
    };
    check(Some((8, 8)), &[]);
    check(Some((8, 7)), &["memory 'far' was requested, but only 7MiB of 8MiB were pages of its file"]);
    check(Some((0, 0)), &["memory 'far' was requested, but only 0B of 0B were pages of its file"]);
    check(None, &["memory 'far' was requested and could not be verified: its file was not observed"]);

    let swapped = judged(|trial, seen| {
        trial.placement.memory = MemoryPolicy::Far;
        seen.memory_policy = Some("default".into());
        seen.far = Some(FarMemory { bytes: Bytes(1), of_file: Bytes(1), ..FarMemory::default() });
        seen.swapped = Some(Bytes(3 << 20));
    });
    assert_eq!(swapped.reasons, ["3MiB of its memory was swapped out"]);
}

type BudgetEdit<'a> = &'a dyn Fn(&mut DramBudgetUse);

#[test]
fn dram_budgets_that_were_not_kept_make_a_trial_invalid() {
    let compressed = |stored| Some(CompressedTraffic { stored: Bytes(stored), ..CompressedTraffic::default() });
    let with = |is_compressed: bool, change: BudgetEdit| {
        judged(|trial, seen| {
            let dram = Bytes(1 << 30);
            trial.placement.budget = Some(DramBudget { dram, steered: false, compressed: is_compressed });
            let mut kept = DramBudgetUse { dram, compressed: compressed(0), ..DramBudgetUse::default() };
            change(&mut kept);
            seen.budget = Some(kept);
        })
    };
    assert_eq!(with(false, &|_| ()).grade, Grade::Valid);
    assert_eq!(with(false, &|kept| kept.compressed = None).grade, Grade::Valid);
    assert_eq!(with(true, &|kept| kept.compressed = compressed(4096)).grade, Grade::Valid);
    let cases: [(bool, BudgetEdit, &str); 4] = [
        (false, &|kept| kept.dram = Bytes(1 << 29), "requested a DRAM limit of 1GiB, the kernel set 512MiB"),
        (false, &|kept| kept.controller_cpu = Some(Nanos(1)), "a paging controller ran"),
        (false, &|kept| kept.compressed = compressed(4096), "4KiB of evicted pages were kept compressed"),
        (true, &|kept| kept.compressed = None, "no compressed memory was available"),
    ];
    for (is_compressed, change, reason) in cases {
        let verdict = with(is_compressed, change);
        assert_eq!(verdict.grade, Grade::Invalid, "{reason}");
        assert!(verdict.reasons.iter().any(|found| found.contains(reason)), "{reason}: {:?}", verdict.reasons);
    }
    let shared = with(false, &|kept| kept.other_swap = vec!["/dev/loop1".into()]);
    assert_eq!(shared.grade, Grade::Suspect);
    assert!(shared.reasons[0].contains("in the swap of others: /dev/loop1"), "{:?}", shared.reasons);
}

#[test]
fn disturbed_trials_are_suspect() {
    let cases: [(EvidenceEdit, &str); 6] = [
        (|_, seen| seen.steal = Some(Nanos(SECOND)), "the hypervisor took 5 % of the time of its CPUs"),
        (|_, seen| seen.foreign = Some(Nanos(2 * SECOND)), "other programs used 10 % of the time of its CPUs"),
        (|_, seen| seen.swapped = Some(Bytes(3 << 20)), "3MiB of its memory was swapped out"),
        (|_, seen| seen.oom_kills = Some(1), "memory ran out during the trial: processes killed on this machine: 1"),
        (|_, seen| seen.faults_major = Some(5000), "5000 of its page faults waited for a disk"),
        (
            |_, seen| seen.frequency_khz = Some((2_000_000, 4_000_000)),
            "the core frequency fell by 50 % during the trial",
        ),
    ];
    for (change, reason) in cases {
        assert_eq!(judged(change), Verdict { grade: Grade::Suspect, reasons: vec![reason.into()] });
    }
    assert_eq!(judged(|_, seen| seen.faults_major = Some(3000)).grade, Grade::Valid, "0.3 s of 20");
    let both = judged(|_, seen| {
        seen.cpus_seen = cpus("3");
        seen.swapped = Some(Bytes(4096));
    });
    assert_eq!((both.grade, both.reasons.len()), (Grade::Invalid, 2), "disturbances are reported as well: {both:?}");
}

/// As [`quiet`], with a second command on cpus 2 and 3.
fn judged_second(change: impl FnOnce(&mut Trial, &mut Evidence)) -> Verdict {
    judged(|trial, seen| {
        trial.placement.server_cpus = cpus("2-3");
        let second = Evidence {
            mask_at_start: Some(cpus("2-3")),
            mask_at_end: Some(cpus("2-3")),
            cpus_seen: cpus("2"),
            thread_bindings: Vec::new(),
            ..quiet()
        };
        seen.second = Some(Box::new(second));
        change(trial, seen);
    })
}

fn second(seen: &mut Evidence) -> &mut Evidence {
    seen.second.as_mut().expect("judged_second sets one")
}

#[test]
fn second_command_is_judged_like_the_first() {
    assert_eq!(judged_second(|_, _| {}), Verdict { grade: Grade::Valid, reasons: vec![] });
    let cases: [(EvidenceEdit, Grade, &str); 9] = [
        (|_, seen| seen.second = None, Grade::Invalid, "no server was observed; one was requested on CPUs 2-3"),
        (
            |_, seen| second(seen).mask_at_start = None,
            Grade::Invalid,
            "the server: the affinity mask could not be read back",
        ),
        (
            |_, seen| second(seen).mask_at_end = Some(cpus("0-3")),
            Grade::Invalid,
            "the server had the affinity 0-3, but was pinned to 2-3",
        ),
        (
            |_, seen| second(seen).cpus_seen = cpus("1-2"),
            Grade::Invalid,
            "the server ran on CPUs 1, but was pinned to 2-3",
        ),
        (
            |_, seen| second(seen).memory_policy = Some("default".into()),
            Grade::Invalid,
            "the server: requested the memory policy bind:0, the kernel set default",
        ),
        (
            |_, seen| second(seen).pages = [(NodeId(0), 1), (NodeId(1), 1)].into(),
            Grade::Invalid,
            "the server: 50 % of its pages were on nodes 1, requested 0",
        ),
        (
            |_, seen| second(seen).pages.clear(),
            Grade::Invalid,
            "the server: memory on nodes 0 was requested and could not be verified: no pages were observed",
        ),
        (
            |_, seen| second(seen).foreign = Some(Nanos(2 * SECOND)),
            Grade::Suspect,
            "the server: other programs used 10 % of the time of its CPUs",
        ),
        (
            |_, seen| second(seen).swapped = Some(Bytes(3 << 20)),
            Grade::Suspect,
            "the server: 3MiB of its memory was swapped out",
        ),
    ];
    for (change, grade, reason) in cases {
        assert_eq!(judged_second(change), Verdict { grade, reasons: vec![reason.into()] });
    }
}

#[test]
fn commands_on_shared_cpus_are_not_foreign_to_each_other() {
    let shared = |trial: &mut Trial, seen: &mut Evidence| {
        trial.placement.server_cpus = cpus("1-2");
        let second = second(seen);
        (second.mask_at_start, second.mask_at_end) = (Some(cpus("1-2")), Some(cpus("1-2")));
        (second.cpu_time, second.foreign) = (Nanos(5 * SECOND), Some(Nanos(9 * SECOND)));
        seen.foreign = Some(Nanos(5 * SECOND));
    };
    assert_eq!(judged_second(shared), Verdict { grade: Grade::Valid, reasons: vec![] });
    let chosen = judged_second(|trial, seen| {
        shared(trial, seen);
        trial.placement.server_cpus = CpuSet::new();
        second(seen).steal = Some(Nanos(SECOND));
    });
    assert_eq!(chosen, Verdict { grade: Grade::Valid, reasons: vec![] }, "the kernel may put it anywhere");
    let more = judged_second(|trial, seen| {
        shared(trial, seen);
        seen.foreign = Some(Nanos(7 * SECOND));
    });
    assert_eq!(more.reasons, ["other programs used 10 % of the time of its CPUs"]);
    let separate = judged_second(|_, seen| {
        second(seen).cpu_time = Nanos(5 * SECOND);
        seen.foreign = Some(Nanos(5 * SECOND));
    });
    assert_eq!(separate.reasons, ["other programs used 25 % of the time of its CPUs"], "it ran on other CPUs");
}

#[test]
fn evidence_without_second_command_omits_its_key() {
    let text = serde_json::to_string(&quiet()).unwrap();
    assert!(!text.contains("second"), "{text}");
    assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), quiet());
    let both = Evidence { second: Some(Box::new(quiet())), ..quiet() };
    assert_eq!(serde_json::from_str::<Evidence>(&serde_json::to_string(&both).unwrap()).unwrap(), both);
}

/// On a machine with two CPUs and ten other jobs, trials ran at half speed and every trial of `kernel` was valid.
#[test]
fn foreign_work_counts_for_unbound_trials_on_full_machines() {
    let with_load = |all: &'static str, cpu_time: u64, foreign: u64| {
        judged(move |trial, seen| {
            trial.placement = Placement::kernel(2);
            (seen.mask_at_start, seen.mask_at_end) = (Some(cpus(all)), Some(cpus(all)));
            (seen.cpu_time, seen.foreign) = (Nanos(cpu_time * SECOND), Some(Nanos(foreign * SECOND)));
        })
    };
    assert_eq!(with_load("0-1", 10, 10).reasons, ["other programs used 50 % of its time, and no CPU was free"]);
    assert_eq!(with_load("0-7", 20, 10).grade, Grade::Valid, "six CPUs were free");
    assert_eq!(with_load("0-1", 10, 5).grade, Grade::Valid, "a quarter of the time was idle");
    assert_eq!(with_load("0-7", 20, 60).reasons.len(), 1);
}

#[test]
fn unbound_trials_are_not_judged_by_cpus_or_foreign_work() {
    let verdict = judged(|trial, seen| {
        trial.placement = Placement::kernel(2);
        seen.mask_at_start = None;
        seen.mask_at_end = Some(cpus("0-7"));
        seen.cpus_seen = cpus("0-7");
        seen.foreign = Some(Nanos(30 * SECOND));
        seen.memory_policy = Some("interleave:0-1".into());
    });
    assert_eq!(verdict.grade, Grade::Valid, "{verdict:?}");
}

#[test]
fn tick_rounding_is_not_a_disturbance() {
    // CPU time of a trial of one second (always busy, half busy, almost idle), and its foreign time.
    let cases = [
        (2 * SECOND, 41_000_000, Grade::Suspect),
        (2 * SECOND, 39_000_000, Grade::Valid),
        (SECOND, 200_000_000, Grade::Valid),
        (SECOND, 220_000_000, Grade::Suspect),
        (20_000_000, 42_000_000, Grade::Valid),
        (0, 41_000_000, Grade::Suspect),
    ];
    for (cpu_time, foreign, expected) in cases {
        let verdict = judged(|_, seen| {
            (seen.wall, seen.steal) = (Nanos(SECOND), None);
            (seen.cpu_time, seen.foreign) = (Nanos(cpu_time), Some(Nanos(foreign)));
        });
        assert_eq!(verdict.grade, expected, "{cpu_time} {foreign} {verdict:?}");
    }
    let short = judged(|_, seen| (seen.wall, seen.cpu_time) = (Nanos(2_000_000), Nanos(4_000_000)));
    assert_eq!(short.grade, Grade::Valid, "three ticks in a trial of 2 ms: {short:?}");
    let instant = judged(|_, seen| (seen.wall, seen.cpu_time) = (Nanos(0), Nanos(0)));
    assert_eq!(instant.grade, Grade::Valid, "{instant:?}");
}

#[test]
fn trials_without_a_result_are_invalid() {
    let cases = [
        (TrialStatus::Failed("exit status 1".into()), "failed: exit status 1"),
        (TrialStatus::TimedOut("60s".into()), "stopped: 60s"),
        (TrialStatus::Unavailable("no counters".into()), "cannot be measured here: no counters"),
    ];
    for (status, reason) in cases {
        let verdict = judge(&trial(), &status, &quiet());
        assert_eq!(verdict, Verdict { grade: Grade::Invalid, reasons: vec![reason.into()] });
    }
}

/// A command that maps files; its memory is on node 0, as requested.
fn with_files(
    anonymous: u64,
    files: &[(&str, FileKind, u64, u64)],
    change: impl Fn(&mut Trial, &mut Evidence),
) -> Verdict {
    judged(|trial, seen| {
        seen.thread_bindings = Vec::new();
        seen.pages = [(NodeId(0), anonymous)].into();
        let file = |&(path, kind, here, elsewhere): &(&str, FileKind, u64, u64)| FilePages {
            path: path.into(),
            kind,
            pages: [(NodeId(0), here), (NodeId(1), elsewhere)].into(),
            is_shared: false,
        };
        seen.files = files.iter().map(file).collect();
        for file in &seen.files {
            file.pages.iter().for_each(|(node, pages)| *seen.file_pages.entry(*node).or_insert(0) += pages);
        }
        change(trial, seen);
    })
}

/// Seen in the NUMA guest: a trial read a file that an earlier trial had read on another node, and was valid.
#[test]
fn file_pages_on_other_nodes_are_suspect_or_invalid() {
    let with =
        |anonymous, kind, here, elsewhere| with_files(anonymous, &[("/data/a", kind, here, elsewhere)], |_, _| ());
    let reason = "100 % of the pages that it mapped were pages of files in the page cache on nodes 1, requested 0 (most \
                  of them: /data/a)";
    let verdict = with(0, FileKind::Data, 0, 12_455);
    assert!(verdict.grade == Grade::Invalid && verdict.reasons.contains(&reason.into()), "{verdict:?}");
    let suspect = with(20_000, FileKind::Data, 0, 12_455);
    let reason = "38 % of the pages that it mapped were pages of files in the page cache on nodes 1, requested 0 (most \
                  of them: /data/a)";
    assert_eq!(suspect, Verdict { grade: Grade::Suspect, reasons: vec![reason.into()] });
    for (kind, owner) in [(FileKind::Program, "its program"), (FileKind::Library, "its libraries")] {
        let verdict = with(6_000, kind, 0, 1_000);
        assert!(verdict.grade == Grade::Suspect && verdict.reasons[0].contains(owner), "{verdict:?}");
    }
    assert_eq!(with(10_000, FileKind::Data, 0, 1_000).grade, Grade::Valid, "less than a tenth");
    assert_eq!(with(10, FileKind::Data, 0, 500).grade, Grade::Valid, "less than the second-level cache");
    assert_eq!(with(10, FileKind::Data, 12_000, 0).grade, Grade::Valid, "on the requested node");
}

#[test]
fn files_of_the_whole_system_and_of_unbound_trials_are_not_judged() {
    let files = [("/usr/lib/libc.so.6", FileKind::Library, 0, 6_000)];
    assert_eq!(with_files(1_000, &files, |_, _| ()).grade, Grade::Suspect, "most pages, but of a library");
    assert_eq!(with_files(1_000, &files, |_, seen| seen.files[0].is_shared = true).grade, Grade::Valid);
    let unbound = |trial: &mut Trial, seen: &mut Evidence| {
        trial.placement.memory = MemoryPolicy::Kernel;
        seen.memory_policy = Some("default".into());
    };
    assert_eq!(with_files(1_000, &files, unbound).grade, Grade::Valid);
    let built_in = |_: &mut Trial, seen: &mut Evidence| seen.thread_bindings = vec![binding(0), binding(1)];
    assert_eq!(with_files(1_000, &files, built_in).grade, Grade::Valid);
}

/// Each part is below a tenth or above; parts of one kind are summed, different kinds are not.
#[test]
fn files_are_judged_by_kind() {
    let files = [
        ("/data/a", FileKind::Data, 0, 700),
        ("/data/b", FileKind::Data, 0, 800),
        ("/opt/server", FileKind::Program, 0, 900),
        ("/opt/lib.so", FileKind::Library, 0, 600),
    ];
    let verdict = with_files(7_000, &files, |_, _| ());
    let expected = "15 % of the pages that it mapped were pages of files in the page cache on nodes 1, requested 0 (most \
                    of them: /data/b)";
    assert_eq!(verdict.reasons, [expected]);
}

/// A command on node 0 whose files are placed on node 1.
#[test]
fn placed_files_are_judged_by_their_own_placement() {
    let start = |nodes_moved_to: &str| PageCacheStart {
        nodes: nodes(nodes_moved_to),
        equalised: vec!["/data/a".into()],
        ..PageCacheStart::default()
    };
    let with = |here, elsewhere, start: Option<PageCacheStart>| {
        with_files(1_000, &[("/data/a", FileKind::Data, here, elsewhere)], |trial, seen| {
            trial.placement.files = Some(FilePolicy::Node(NodeId(1)));
            seen.page_cache.clone_from(&start);
        })
    };
    assert_eq!(with(0, 12_000, Some(start("1"))).grade, Grade::Valid);
    let verdict = with(12_000, 0, Some(start("1")));
    assert!(verdict.grade == Grade::Invalid && verdict.reasons[0].contains("on nodes 0, requested 1"), "{verdict:?}");
    let kept = PageCacheStart {
        not_equalised: [("/data/a".into(), "other processes map them".into())].into(),
        equalised: Vec::new(),
        ..start("1")
    };
    let cases = [
        (None, "cached pages of /data/a were not placed: no earlier trial of the run used it"),
        (Some(kept), "cached pages of /data/a were not placed: other processes map them"),
    ];
    for (start, reason) in cases {
        assert_eq!(with(0, 12_000, start), Verdict { grade: Grade::Invalid, reasons: vec![reason.into()] });
    }
    let unseen = with(0, 100, None);
    let reason = "no file of at least 2MiB was seen in use, so none was placed";
    assert_eq!(unseen, Verdict { grade: Grade::Suspect, reasons: vec![reason.into()] });
}

#[test]
fn dropped_files_are_judged_by_the_memory_policy() {
    let with = |here, elsewhere| {
        with_files(1_000, &[("/data/a", FileKind::Data, here, elsewhere)], |trial, seen| {
            trial.placement.files = Some(FilePolicy::Cold);
            let equalised = vec!["/data/a".into()];
            seen.page_cache = Some(PageCacheStart { equalised, ..PageCacheStart::default() });
        })
    };
    assert_eq!((with(12_000, 0).grade, with(0, 12_000).grade), (Grade::Valid, Grade::Invalid));
}

/// A command on node 0 that runs from copies there.
#[test]
fn copied_text_must_be_on_the_nodes_of_the_copies() {
    let with = |here, elsewhere, is_shared| {
        let files = [("/opt/server", FileKind::Program, here, 0), ("/opt/lib.so", FileKind::Library, 0, elsewhere)];
        with_files(100_000, &files, |trial, seen| {
            trial.placement.copies_text = true;
            seen.text_copy = Some(TextCopy { nodes: nodes("0"), files: Vec::new() });
            seen.files[1].is_shared = is_shared;
        })
    };
    assert_eq!(with(900, 0, false).grade, Grade::Valid);
    assert_eq!(with(900, 99, false).grade, Grade::Valid);
    let reason = "101 of 1001 pages of its program and libraries were outside nodes 0, whose memory has the copies (most \
                  of them: /opt/lib.so)";
    // Whether other programs map the original is irrelevant.
    for is_shared in [false, true] {
        assert_eq!(with(900, 101, is_shared), Verdict { grade: Grade::Invalid, reasons: vec![reason.into()] });
    }
}

/// A command on node 0 with memory on node 1.
#[test]
fn copied_text_is_not_judged_by_the_memory_policy() {
    let verdict = with_files(1_000, &[("/opt/server", FileKind::Program, 9_000, 0)], |trial, seen| {
        trial.placement.memory = MemoryPolicy::Bind(nodes("1"));
        seen.memory_policy = Some("bind:1".into());
        seen.pages = [(NodeId(1), 1_000)].into();
        seen.text_copy = Some(TextCopy { nodes: nodes("0"), files: Vec::new() });
    });
    assert_eq!(verdict, Verdict { grade: Grade::Valid, reasons: Vec::new() });
}
