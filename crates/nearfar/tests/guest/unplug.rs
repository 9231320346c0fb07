//! A cpu that goes offline in the middle: its cells are invalid with a reason that names it, others go on, and nothing
//! hangs. With a newer kernel where there is one, which can also interleave by weights.

use std::sync::LazyLock;

use crate::boot::{Boot, Ran, boot};
use crate::trials::{assert_caught, assert_proven, nodes, of, pages, reasons};

static RAN: LazyLock<Result<Ran, String>> = LazyLock::new(|| {
    let with = |flags| boot(&Boot { flags, job: include_str!("unplug.sh"), store: None });
    with(&["--kernel", "backports"]).or_else(|_| with(&[]))
});

fn ran(test: &str) -> Option<&'static Ran> {
    RAN.as_ref().inspect_err(|why| println!("skipped: {test}: {why}")).ok()
}

#[test]
fn memory_is_interleaved_by_weights() {
    let name = "memory_is_interleaved_by_weights";
    let Some(ran) = ran(name) else { return };
    let trials = ran.trials("weighted");
    let weighted = of(&trials, "weighted-interleave");
    if weighted.is_empty() {
        return println!("skipped: {name}: {} has no weights; Linux has them from 6.9 on", ran.text("kernel").trim());
    }
    for trial in weighted {
        assert_proven(trial);
        assert_eq!(trial["evidence"]["memory_policy"], "weighted interleave:0-2");
        assert_eq!(nodes(trial), [0, 1, 2], "{trial:#}");
        // All weights are 1 until somebody sets them.
        assert!(pages(trial).iter().all(|(_, pages)| (250..=275).contains(pages)), "{trial:#}");
    }
}

#[test]
fn a_cpu_that_goes_offline_between_trials_is_named() {
    let Some(ran) = ran("a_cpu_that_goes_offline_between_trials_is_named") else { return };
    let json = ran.json("between", &[0]);
    let trials = ran.trials("between");
    let (gone, stays) = (of(&trials, "-C 3"), of(&trials, "-C 2"));
    assert_eq!(stays.len(), 6, "the other cell goes on: {json:#}");
    stays.into_iter().for_each(assert_proven);
    assert_proven(gone[0]);
    let last = gone.last().expect("trials");
    assert_caught(last, "cpu 3");
    assert!(reasons(last).contains("online"), "{}", reasons(last));
    assert!(json["cells"][0]["verdicts"]["valid"].as_u64().is_some_and(|valid| valid < 6), "{json:#}");

    let map = ran.json("map", &[0]);
    assert_eq!((&map["counts"]["allowed_pus"], &map["counts"]["complete_pus"]), (&7.into(), &8.into()));
    assert_eq!(map["numa"][0]["cpus"], "0-2");
}

/// The kernel then lets a process run anywhere, so whose seat is gone leaves it.
#[test]
fn a_cpu_that_goes_offline_during_a_trial_ends_its_proof() {
    let Some(ran) = ran("a_cpu_that_goes_offline_during_a_trial_ends_its_proof") else { return };
    for name in ["during", "during-kernel"] {
        assert_eq!(ran.step(name).status, 4, "measured, but nothing is proven: {}", ran.text(name));
        let trials = ran.trials(name);
        assert_eq!(trials.len(), 3, "repeated in its block");
        assert_caught(&trials[2], "cannot sit on cpu 3");
    }
    assert_caught(&ran.trials("during")[0], "outside its seats 3");
    assert_caught(&ran.trials("during-kernel")[0], "a thread asked for cpu 3 had mask 3 and ran on 3 and ");
}

#[test]
fn a_race_goes_on_without_a_cpu_that_goes_offline() {
    let Some(ran) = ran("a_race_goes_on_without_a_cpu_that_goes_offline") else { return };
    let answer = ran.json("race", &[0, 3]);
    let trials = ran.trials("race");
    let lost: Vec<_> = trials.iter().filter(|trial| trial["verdict"] == "invalid").collect();
    assert!(!lost.is_empty(), "{answer:#}");
    // On a busy host a program may be seen when it has two pages: such a trial proves nothing, and is repeated.
    let repeated = |lost: &serde_json::Value| {
        let same = |key: &str, other: &serde_json::Value| other[key] == lost[key];
        trials.iter().any(|other| same("cell", other) && same("repetition", other) && other["verdict"] != "invalid")
    };
    for trial in lost {
        let on_it = trial["cpus"].as_str().is_some_and(|cpus| cpus.contains('3'));
        assert!(on_it || repeated(trial), "only its own: {trial:#}");
    }
    let mut since = trials.iter().skip_while(|trial| trial["verdict"] != "invalid");
    assert!(since.any(|trial| trial["verdict"] != "invalid"), "the others go on: {answer:#}");
}
