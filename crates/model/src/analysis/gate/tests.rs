//! Verdicts of gates from findings with fixed samples.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::analysis::compare::tests::{cell, finding, record};

const THREE_PERCENT: GatePlan = GatePlan { max_slower: 0.03, error_rate: 0.01 };

fn plan(gate: GatePlan) -> Plan {
    Plan { gate: Some(gate), ..record("r", &[], None).plan }
}

/// Samples with noise of 1 %, times a factor; `phase` shifts the noise.
fn samples(count: u32, factor: f64, phase: u32) -> Vec<f64> {
    (0..count).map(|block| factor * (1.0 + 0.005 * (f64::from((block * 7 + phase) % 5) - 2.0))).collect()
}

fn sides(better: Better, count: u32, factor: f64) -> RunFinding {
    finding(vec![
        cell("./old", "kernel", better, &samples(count, 1.0, 0)),
        cell("./new", "kernel", better, &samples(count, factor, 3)),
    ])
}

fn result(better: Better, count: u32, factor: f64) -> GateResult {
    GateResult::of(&plan(THREE_PERCENT), &sides(better, count, factor)).expect("the plan is a gate")
}

#[test]
fn verdicts_depend_on_the_allowed_slowdown() {
    use GateVerdict::{Failed, Passed, Undecided};
    for (factor, verdict) in [(1.0, Passed), (0.5, Passed), (1.08, Failed), (1.03, Undecided)] {
        let result = result(Better::Lower, 40, factor);
        assert_eq!(result.verdict, verdict, "{factor}: {result:?}");
        let slower = result.slower_percent.expect("40 pairs");
        assert!((slower - 100.0 * (factor - 1.0)).abs() < 0.5, "{factor}: {slower}");
        assert_eq!(result.verdict, GateVerdict::of(&plan(THREE_PERCENT), &sides(Better::Lower, 40, factor)).unwrap());
    }
    assert_eq!(result(Better::Lower, 4, 2.0).verdict, Undecided, "four pairs prove nothing");
    assert_eq!(GateResult::of(&record("r", &[], None).plan, &sides(Better::Lower, 4, 1.0)), None, "not a gate");
}

#[test]
fn interval_agrees_with_the_verdict() {
    let slow = result(Better::Lower, 40, 1.08);
    assert!(slow.ci_low.unwrap() > 3.0 && slow.ci_low < slow.slower_percent && slow.slower_percent < slow.ci_high);
    let equal = result(Better::Lower, 40, 1.0);
    assert!(equal.ci_high.unwrap() < 3.0, "{equal:?}");
}

/// Samples around 1 with an approximately normal noise of 7 %.
fn noisy(random: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| 1.0 + 0.07 * ((0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0)).collect()
}

/// In the median, gates that are undecided after 40 pairs need between half and all of the pairs estimated then.
#[test]
fn undecided_gate_estimates_the_pairs_that_it_needs() {
    let mut ratios: Vec<f64> = (0..60)
        .filter_map(|seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let [old, new] = [(); 2].map(|()| noisy(&mut random, 1500));
            let sides = |count: usize| {
                let side = |name, samples: &[f64]| cell(name, "kernel", Better::Lower, &samples[..count]);
                finding(vec![side("./old", &old), side("./new", &new)])
            };
            let needed = GateResult::of(&plan(THREE_PERCENT), &sides(40))?.pairs_needed?;
            let is_open = |count: &usize| GateVerdict::of(&plan(THREE_PERCENT), &sides(*count)).unwrap().is_open();
            let actual = (40..1500).step_by(10).find(|count| !is_open(count)).unwrap_or(1500);
            Some(actual as f64 / needed as f64)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    assert!(ratios.len() > 30, "most gates are undecided after 40 pairs: {ratios:?}");
    assert!((0.5..1.0).contains(&ratios[ratios.len() / 2]), "{ratios:?}");
    let decided = result(Better::Lower, 40, 1.0);
    assert_eq!((decided.verdict, decided.pairs_needed), (GateVerdict::Passed, None));
    assert_eq!(result(Better::Lower, 4, 2.0).pairs_needed, None, "four pairs have no interval");
}

#[test]
fn less_of_a_metric_to_maximise_is_slower() {
    assert_eq!(result(Better::Higher, 40, 0.9).verdict, GateVerdict::Failed);
    assert_eq!(result(Better::Higher, 40, 1.1).verdict, GateVerdict::Passed);
    assert!((result(Better::Higher, 40, 0.9).slower_percent.unwrap() - 11.1).abs() < 0.6);
}

#[test]
fn only_blocks_with_both_values_are_pairs() {
    let mut finding = sides(Better::Lower, 40, 1.0);
    let metric = &mut finding.cells[0].metrics[0];
    metric.blocks.remove(5);
    metric.samples.remove(5);
    metric.samples[10] = 0.0;
    let metric = &mut finding.cells[1].metrics[0];
    metric.blocks.remove(20);
    metric.samples.remove(20);
    assert_eq!(GateResult::of(&plan(THREE_PERCENT), &finding).unwrap().pairs, 37);
}

#[test]
fn commands_that_often_fail_have_no_verdict() {
    let verdict = |valid, suspect, invalid| {
        let mut finding = sides(Better::Lower, 40, 1.0);
        finding.cells[1].verdicts = VerdictCounts { valid, suspect, invalid };
        GateVerdict::of(&plan(THREE_PERCENT), &finding).unwrap()
    };
    assert_eq!(verdict(0, 0, 1), GateVerdict::Invalid);
    assert_eq!(verdict(10, 10, 3), GateVerdict::Invalid);
    assert_eq!(verdict(10, 0, 2), GateVerdict::Passed, "two trials may fail by chance");
    assert_eq!(verdict(30, 10, 4), GateVerdict::Passed);
}

/// Compares a candidate with a stored run; `others` are the levels of more runs of the baseline.
fn of_stored(factor: f64, others: &[f64]) -> GateResult {
    let baseline = cell("./app", "kernel", Better::Lower, &samples(12, 1.0, 0));
    let candidate = cell("./app", "kernel", Better::Lower, &samples(12, factor, 3));
    let runs: Vec<Vec<f64>> = others.iter().map(|level| samples(12, *level, 1)).collect();
    let history = [runs.iter().map(Vec::as_slice).collect()];
    let sides = StoredSides {
        baseline: &[("a", &baseline)],
        candidate: &candidate,
        history: if others.is_empty() { &[] } else { &history },
        notes: &[],
    };
    GateResult::of_stored(&THREE_PERCENT, sides, Nanos(1)).expect("both have the metric")
}

#[test]
fn stored_baseline_needs_other_runs_that_show_how_much_runs_differ() {
    let unknown = of_stored(2.0, &[]);
    assert_eq!((unknown.verdict, unknown.slower_percent), (GateVerdict::Undecided, None), "twice as slow, but one run");
    let alike = [1.0, 1.004, 0.997, 1.001, 0.998];
    let stored = of_stored(1.0, &alike).stored.expect("the baseline is stored");
    assert_eq!((stored.trials, stored.candidate_trials, stored.other_runs), (12, 12, 5));
    for (factor, verdict) in [(1.0, GateVerdict::Passed), (1.08, GateVerdict::Failed)] {
        assert_eq!(of_stored(factor, &alike).verdict, verdict, "{factor}");
    }
    let slow = of_stored(1.08, &alike);
    assert!(slow.ci_low < slow.slower_percent && slow.slower_percent < slow.ci_high, "{slow:?}");
    let unlike = [1.0, 1.1, 0.9, 1.05, 0.96];
    assert_eq!(of_stored(1.08, &unlike).verdict, GateVerdict::Undecided, "runs of the baseline differ as much");
}
