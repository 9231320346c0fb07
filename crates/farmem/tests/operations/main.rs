//! The checker of random operations, in DRAM: that the model agrees with the kernel, and that it sees what changes behind
//! its back. Far memory is put to it by `crates/nearfar/tests/operations.rs`.

mod checker;

use std::time::Duration;

use checker::Plan;

const PLAN: Plan = Plan { seed: 1, threads: 2, pages: 3000, time: Duration::from_millis(700), flip_after: None };

#[test]
fn memory_holds_what_it_was_given() {
    let counts = checker::run(PLAN).expect("memory does");
    println!("{counts}");
    assert!(counts.operations.iter().all(|count| *count > 0), "{counts}");
    assert!(counts.verified > 10_000, "{counts}");
}

#[test]
fn a_bit_that_changed_is_seen() {
    let trouble = checker::run(Plan { flip_after: Some(300), ..PLAN }).expect_err("a page was changed");
    assert!(trouble.contains("thread 0") && trouble.contains("in word 256"), "{trouble}");
}
