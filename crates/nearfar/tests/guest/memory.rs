//! Memory that others take from a trial, on the machine of `two_sockets`: it is swapped out, its node is full, there is
//! none left. The same trials with nobody beside them are proven.

use serde_json::{Value, json};

use crate::boot::Ran;
use crate::trials::{assert_caught, assert_proven, pages, reasons};
use crate::two_sockets::ran;

fn first(ran: &Ran, name: &str) -> Value {
    ran.trials(name).into_iter().next().expect("a trial")
}

fn assert_suspect(trial: &Value, why: &str) {
    assert_eq!(trial["verdict"], "suspect", "{trial:#}");
    assert!(reasons(trial).contains(why), "'{why}' is not among: {}", reasons(trial));
}

#[test]
fn swapped_out_memory_is_told() {
    let Some(ran) = ran("swapped_out_memory_is_told") else { return };
    assert_eq!(ran.step("swap").status, 0, "there is swap");
    let quiet = first(ran, "unsqueezed");
    assert_proven(&quiet);
    assert_eq!((&quiet["evidence"]["swapped"], &quiet["evidence"]["faults_major"]), (&json!(0), &json!(0)));
    let squeezed = first(ran, "squeezed");
    assert_suspect(&squeezed, "of its memory was swapped out");
    assert_suspect(&squeezed, "of its page faults waited for a disk");
}

#[test]
fn a_limit_that_is_too_small_is_a_reason_and_no_number() {
    let Some(ran) = ran("a_limit_that_is_too_small_is_a_reason_and_no_number") else { return };
    assert_proven(&first(ran, "roomy"));
    let tight = first(ran, "tight");
    assert_caught(&tight, "of memory do not fit");
    assert_caught(&tight, "are left by the limit of cgroup /sys/fs/cgroup/limited");
    assert_eq!((&tight["status"], &tight["samples"]), (&json!("unavailable"), &json!([])));
}

#[test]
fn pages_that_a_full_node_sends_elsewhere_are_told() {
    let Some(ran) = ran("pages_that_a_full_node_sends_elsewhere_are_told") else { return };
    assert_eq!(ran.step("full").status, 0, "node 1 is full");
    for (name, word) in [("preferred", "preferred 1"), ("local", "local is 1")] {
        let quiet = first(ran, &format!("room-{name}"));
        assert_proven(&quiet);
        let (here, all) = pages(&quiet)
            .iter()
            .fold((0, 0), |(here, all), (node, pages)| (here + if *node == 1 { *pages } else { 0 }, all + pages));
        assert!(here * 50 >= all * 49, "{quiet:#}");
        let full = first(ran, &format!("full-{name}"));
        assert_suspect(&full, &format!("% of its pages were on nodes 0, {word}"));
    }
}

/// The lab lives on when the kernel kills for want of memory, and stores who was killed.
#[test]
fn a_bound_trial_without_room_is_a_stored_failure() {
    let Some(ran) = ran("a_bound_trial_without_room_is_a_stored_failure") else { return };
    assert_proven(&first(ran, "room-bound"));
    assert_eq!(ran.step("full-bound").status, 4, "measured, but nothing is proven");
    for trial in ran.trials("full-bound") {
        assert_caught(&trial, "failed: it ended with signal 9");
        assert_caught(&trial, "memory ran out: the kernel killed 1 of this machine's processes while it ran");
        assert_eq!((&trial["status"], &trial["samples"]), (&json!("failed"), &json!([])));
    }
}
