//! Tests of the checker in DRAM: its model agrees with the kernel, and it detects flipped bits.
//! `crates/nearfar/tests/operations.rs` runs it on far memory.

mod checker;

use std::time::Duration;

use checker::Plan;

const PLAN: Plan = Plan { seed: 1, threads: 2, pages: 3000, time: Duration::ZERO, operations: 2000, flip_after: None };

#[test]
fn memory_keeps_its_contents() {
    let counts = checker::run(PLAN).expect("the contents are unchanged");
    println!("{counts}");
    assert!(counts.operations.iter().all(|count| *count > 0), "{counts}");
    assert!(counts.verified > 10_000, "{counts}");
}

#[test]
fn flipped_bit_is_detected() {
    let failure = checker::run(Plan { flip_after: Some(300), ..PLAN }).expect_err("a bit was flipped");
    assert!(failure.contains("thread 0") && failure.contains("in word 256"), "{failure}");
}
