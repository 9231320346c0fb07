//! Memory pressure during trials, on the machine of `two_sockets`: swapped-out memory, a full node, a limit that is too
//! low. The same trials without pressure are valid.

use serde_json::{Value, json};

use crate::boot::JobOutput;
use crate::trials::{assert_invalid, assert_verified, pages, reasons};
use crate::two_sockets::job_output;

fn first<'a>(job: &'a JobOutput, name: &str) -> &'a Value {
    job.trials(name).first().expect("a trial")
}

fn assert_suspect(trial: &Value, reason: &str) {
    assert_eq!(trial["verdict"], "suspect", "{trial:#}");
    assert!(reasons(trial).contains(reason), "'{reason}' is not among: {}", reasons(trial));
}

#[test]
fn swapped_out_memory_makes_a_trial_suspect() {
    let Some(job) = job_output("swapped_out_memory_makes_a_trial_suspect") else { return };
    assert_eq!(job.step("swap").status, 0, "there is swap");
    let undisturbed = first(job, "unsqueezed");
    assert_verified(undisturbed);
    assert_eq!((&undisturbed["evidence"]["swapped"], &undisturbed["evidence"]["faults_major"]), (&json!(0), &json!(0)));
    let squeezed = first(job, "squeezed");
    assert_suspect(squeezed, "of its memory was swapped out");
    assert_suspect(squeezed, "of its page faults waited for a disk");
}

#[test]
fn memory_limit_below_the_need_makes_a_trial_unavailable() {
    let Some(job) = job_output("memory_limit_below_the_need_makes_a_trial_unavailable") else { return };
    assert_verified(first(job, "roomy"));
    let tight = first(job, "tight");
    assert_invalid(tight, "of memory do not fit");
    assert_invalid(tight, "are left by the limit of cgroup /sys/fs/cgroup/limited");
    assert_eq!((&tight["status"], &tight["samples"]), (&json!("unavailable"), &json!([])));
}

#[test]
fn pages_on_other_nodes_make_a_trial_suspect() {
    let Some(job) = job_output("pages_on_other_nodes_make_a_trial_suspect") else { return };
    assert_eq!(job.step("full").status, 0, "node 1 is full");
    for (name, word) in [("preferred", "preferred 1"), ("local", "local is 1")] {
        let undisturbed = first(job, &format!("room-{name}"));
        assert_verified(undisturbed);
        let (here, all) = pages(undisturbed)
            .iter()
            .fold((0, 0), |(here, all), (node, pages)| (here + if *node == 1 { *pages } else { 0 }, all + pages));
        assert!(here * 50 >= all * 49, "{undisturbed:#}");
        let full = first(job, &format!("full-{name}"));
        assert_suspect(full, &format!("% of its pages were on nodes 0, {word}"));
    }
}

/// `nearfar` survives when the OOM killer ends a trial, and stores the reason.
#[test]
fn bound_trial_on_a_full_node_is_stored_as_failed() {
    let Some(job) = job_output("bound_trial_on_a_full_node_is_stored_as_failed") else { return };
    assert_verified(first(job, "room-bound"));
    assert_eq!(job.step("exhausted").status, 0, "nothing is left of node 1");
    // In the second step, it ends the trial before the program has been executed.
    for step in ["full-bound", "exhausted-bound"] {
        assert_eq!(job.step(step).status, 4, "{step}: measured, but no trial is valid");
        for trial in job.trials(step) {
            assert_invalid(trial, "failed: it ended with signal 9");
            assert_invalid(trial, "memory ran out during the trial: processes killed on this machine: 1");
            assert_eq!((&trial["status"], &trial["samples"]), (&json!("failed"), &json!([])));
        }
    }
}
