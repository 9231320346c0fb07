//! Real processes that are disturbed, or that leave their placement, for a part of their time.

use model::values::trial::Grade;

use super::tests::{WORK, has, one, sessions, sh, two_cpus, verdict};
use super::*;

fn run(launch: &SpawnSpec) -> ProcessResult {
    super::run(launch, &[]).unwrap()
}

#[test]
fn stopped_process_makes_a_trial_suspect() {
    // It continues when its child has done some work.
    let finished = run(&sh(&format!("({WORK}; kill -CONT $$) & kill -STOP $$; wait")));
    let verdict = verdict(&[], MemoryPolicy::Kernel, &finished);
    assert!(verdict.reasons.iter().any(|reason| reason.contains("it was stopped for")), "{verdict:?}");
}

#[test]
fn process_that_leaves_its_cpu_and_returns_is_detected() {
    let Some((a, b)) = two_cpus() else { return };
    if !has("taskset") {
        return;
    }
    let mut launch = sh(&format!("{WORK}; taskset -cp {a} $$; taskset -cp {b} $$; {WORK}"));
    launch.cpus = one(b);
    let finished = run(&launch);
    if let Some(why) = finished.evidence.unavailable.get("migrations") {
        return println!("skipped: process_that_leaves_its_cpu_and_returns_is_detected: {why}");
    }
    let verdict = verdict(&[b], MemoryPolicy::Kernel, &finished);
    let expected = format!("it left its only CPU {b} during the trial");
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with(&expected)), "{verdict:?}");
}

#[test]
fn descendants_in_other_sessions_are_followed() {
    let Some((a, b)) = two_cpus() else { return };
    if !has("taskset") || !has("setsid") {
        return;
    }
    let _sessions = sessions();
    // The process that did the work has no parent in the trial; the leader waits for the end of its output.
    let mut launch = sh(&format!("(setsid taskset -c {a} sh -c '{WORK}; echo' &) | cat"));
    launch.cpus = one(b);
    let kernel = |finished| verdict(&[b], MemoryPolicy::Kernel, finished);
    let finished = run(&launch);
    assert_eq!(finished.evidence.mask_at_end, Some([a, b].into_iter().collect()));
    assert_eq!(kernel(&finished).grade, Grade::Invalid);
    // A cgroup with a DRAM limit replaces the one that follows descendants; this file is none.
    launch.entrance = Some(Arc::new(File::options().write(true).open("/dev/null").unwrap()));
    let finished = run(&launch);
    assert!(finished.evidence.unavailable.contains_key("cpu_stall"), "{:?}", finished.evidence);
    assert_eq!(finished.evidence.mask_at_end, Some([a, b].into_iter().collect()), "found as an adopted orphan");
}

#[test]
fn threads_that_wait_for_each_other_are_not_stalled() {
    let Some((_, cpu)) = two_cpus() else { return };
    let mut launch = sh(&format!("({WORK}) & ({WORK}) & wait"));
    launch.cpus = one(cpu);
    let evidence = run(&launch).evidence;
    if let Some(why) = evidence.unavailable.get("cpu_stall").or(evidence.unavailable.get("run_queue_wait")) {
        return println!("skipped: threads_that_wait_for_each_other_are_not_stalled: {why}");
    }
    assert!(evidence.run_queue_wait > evidence.cpu_stall, "both shells wait for half of the time: {evidence:?}");
}
