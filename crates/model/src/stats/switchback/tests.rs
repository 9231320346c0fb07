//! Tests of whole experiments, and of the coverage of intervals at smoke size.

use super::*;
use crate::stats::racing::INDIFFERENCE;
use crate::stats::search::Random;
use crate::values::workload::Better;

fn rules(alternatives: u32, periods_max: usize) -> Rules {
    Rules { seed: 1, alternatives, better: Better::Higher, periods_max, half_width: INDIFFERENCE }
}

/// A service whose rate is autoregressive, with 2 % of noise in each period.
struct Service {
    random: Random,
    level: f64,
    /// Relative rate of each arm.
    rates: Vec<f64>,
}

impl Service {
    fn new(seed: u64, rates: &[f64]) -> Self {
        Self { random: Random::new(seed, "service"), level: 0.0, rates: rates.to_vec() }
    }

    fn period(&mut self, arm: ArmId) -> f64 {
        self.level = 0.9 * self.level + 0.02 * (1.0f64 - 0.81).sqrt() * self.random.normal();
        500.0 * self.rates[arm.0 as usize] * (self.level + 0.02 * self.random.normal()).exp()
    }

    fn block(&mut self, phase: Phase, order: &[ArmId]) -> Block {
        Block { phase, periods: order.iter().map(|arm| (*arm, PeriodResult::Value(self.period(*arm)))).collect() }
    }

    fn finish(&mut self, experiment: &mut Switchback) -> Outcome {
        loop {
            match experiment.next_step() {
                NextStep::Block { phase, order } => experiment.push(self.block(phase, &order)).unwrap(),
                NextStep::Done(outcome) => return outcome,
            }
        }
    }
}

fn outcome(rules: Rules, rates: &[f64]) -> (Outcome, Switchback) {
    let mut experiment = Switchback::new(rules);
    (Service::new(rules.seed, rates).finish(&mut experiment), experiment)
}

#[test]
fn intervals_cover_under_autocorrelation() {
    let (mut held, simulations) = (0, 1000);
    for seed in 0..simulations {
        let (mut service, schedule) = (Service::new(seed, &[1.0, 1.03]), Schedule { seed });
        let block = |at| service.block(Phase::Race, &schedule.order(at, &[ArmId(0), ArmId(1)]));
        let blocks: Vec<Block> = (0..30).map(block).collect();
        held += u32::from(compare(&blocks, ArmId(1)).unwrap().interval.contains(0.03));
    }
    let share = f64::from(held) / simulations as f64;
    assert!((0.93..=0.97).contains(&share), "{share}");
}

#[test]
fn planted_gain_is_found_with_fresh_blocks_only() {
    let (found, experiment) = outcome(rules(5, 450), &[1.0, 0.9, 0.99, 1.05, 1.0, 0.8]);
    let Outcome::Gain { arm, change } = found else { panic!("{found:?}") };
    assert!(arm == ArmId(3) && change.interval.contains(0.05), "{change:?}");
    let fresh = experiment.blocks().iter().filter(|block| block.phase == Phase::Confirm).count();
    assert_eq!(change.blocks, fresh);
    assert_eq!(experiment.chosen(), Some((arm, fresh)));
    assert_eq!(experiment.fresh_change(), Some(Ok(change)));
    assert!(experiment.periods() <= 450);
    let dropped: Vec<(u32, DropReason)> = experiment.dropped().iter().map(|drop| (drop.arm.0, drop.reason)).collect();
    assert!(dropped.contains(&(1, DropReason::Worse)) && dropped.contains(&(5, DropReason::Worse)), "{dropped:?}");
}

#[test]
fn direction_of_the_metric_decides_between_gain_and_loss() {
    let lower = Rules { better: Better::Lower, ..rules(1, 300) };
    assert!(matches!(outcome(rules(1, 300), &[1.0, 1.1]).0, Outcome::Gain { .. }));
    assert!(matches!(outcome(lower, &[1.0, 1.1]).0, Outcome::Loss { .. }));
    assert!(matches!(outcome(rules(1, 300), &[1.0, 0.9]).0, Outcome::Loss { .. }));
    assert!(matches!(outcome(lower, &[1.0, 0.9]).0, Outcome::Gain { .. }));
    let best = outcome(Rules { better: Better::Lower, ..rules(3, 300) }, &[1.0, 1.1, 0.9, 1.2]).0;
    assert!(matches!(best, Outcome::Gain { arm: ArmId(2), .. }), "{best:?}");
}

#[test]
fn no_difference_has_a_bound_in_the_direction_of_the_metric() {
    for (better, end) in [(Better::Higher, 1.0), (Better::Lower, -1.0)] {
        let (found, _) = outcome(Rules { better, ..rules(2, 450) }, &[1.0; 3]);
        let Outcome::NoDifferenceSeen { change, excluded_gain, .. } = found else { panic!("{found:?}") };
        let expected = if end > 0.0 { change.interval.high } else { -change.interval.low };
        assert!((excluded_gain - expected).abs() < 1e-12 && excluded_gain < 0.02, "{change:?} {excluded_gain}");
    }
}

#[test]
fn budgets_below_the_minimum_make_no_claim() {
    for alternatives in [1, 5] {
        let least = rules(alternatives, 0).periods_min();
        for budget in [0, 1, least - 1] {
            let reason = NoClaim::TooFewBlocks { complete: 0, needed: BLOCKS_MIN };
            assert_eq!(outcome(rules(alternatives, budget), &[1.0; 6]).0, Outcome::NoClaim { reason });
        }
        let (found, experiment) = outcome(rules(alternatives, least), &[1.0, 1.3, 1.0, 1.0, 1.0, 1.0]);
        assert!(
            matches!(found, Outcome::Gain { arm: ArmId(1), change: Change { blocks: BLOCKS_MIN, .. } }),
            "{found:?}"
        );
        assert!(experiment.periods() <= least);
    }
    assert_eq!(outcome(rules(0, 450), &[1.0]).0, Outcome::NoAlternatives);
}

#[test]
fn unproven_periods_are_repeated_until_the_budget_ends() {
    let run_with = |rules: Rules, rate: f64, is_proven: &dyn Fn(usize, ArmId) -> bool| {
        let (mut experiment, mut service) = (Switchback::new(rules), Service::new(1, &[1.0, rate, 1.0]));
        while let NextStep::Block { phase, order } = experiment.next_step() {
            let mut block = service.block(phase, &order);
            let at = experiment.blocks().len();
            block.periods.iter_mut().filter(|(arm, _)| !is_proven(at, *arm)).for_each(|(_, result)| {
                *result = PeriodResult::NotProven;
            });
            experiment.push(block).unwrap();
        }
        (experiment.next_step(), experiment)
    };
    let run = |budget: usize, is_proven: &dyn Fn(usize, ArmId) -> bool| run_with(rules(2, budget), 1.1, is_proven);
    let precise = Rules { half_width: 0.0001, ..rules(2, 200) };
    let (done, experiment) = run_with(precise, 1.0, &|at, _| at % 4 != 0);
    let NextStep::Done(Outcome::NoDifferenceSeen { change, .. }) = done else { panic!("{done:?}") };
    assert!(experiment.periods() <= 200 && change.blocks < experiment.chosen().unwrap().1, "{change:?}");
    let (done, experiment) = run(450, &|at, _| at % 4 != 0);
    let NextStep::Done(Outcome::Gain { arm: ArmId(1), change }) = done else { panic!("{done:?}") };
    assert_eq!(Some((ArmId(1), change.blocks)), experiment.chosen(), "incomplete blocks do not count");
    let (done, experiment) = run(450, &|_, arm| arm != ArmId(1));
    assert!(matches!(done, NextStep::Done(Outcome::NoDifferenceSeen { arm: ArmId(2), .. })), "{done:?}");
    assert_eq!(experiment.dropped()[0], Dropped { arm: ArmId(1), reason: DropReason::NotProven, after_blocks: 10 });
    let (done, experiment) = run(200, &|_, arm| arm != ArmId::BASELINE);
    let reason = NoClaim::TooFewBlocks { complete: 0, needed: BLOCKS_MIN };
    assert_eq!(done, NextStep::Done(Outcome::NoClaim { reason }));
    assert!(experiment.periods() <= 162, "stops when 20 blocks no longer fit: {}", experiment.periods());
}

#[test]
fn withdrawn_arms_are_not_run_again() {
    let (mut experiment, mut service) = (Switchback::new(rules(2, 450)), Service::new(1, &[1.0, 1.2, 1.0]));
    while experiment.chosen().is_none() {
        let NextStep::Block { phase, order } = experiment.next_step() else { panic!() };
        experiment.push(service.block(phase, &order)).unwrap();
    }
    assert_eq!(experiment.chosen().unwrap().0, ArmId(1));
    experiment.withdraw(ArmId::BASELINE);
    // Arm 2 was dropped as worse, so nothing is left.
    experiment.withdraw(ArmId(1));
    assert_eq!(experiment.next_step(), NextStep::Done(Outcome::NoAlternatives));
    let mut early = Switchback::new(rules(2, 450));
    early.withdraw(ArmId(1));
    early.withdraw(ArmId(1));
    assert_eq!(early.dropped().len(), 1);
    let found = service.finish(&mut early);
    assert!(early.blocks().iter().all(|block| block.value(ArmId(1)).is_none()));
    assert!(matches!(found, Outcome::NoDifferenceSeen { arm: ArmId(2), .. }), "{found:?}");
}

#[test]
fn next_best_arm_is_confirmed_after_a_withdrawal() {
    let (mut experiment, mut service) = (Switchback::new(rules(2, 450)), Service::new(1, &[1.0, 1.1, 1.1]));
    while experiment.fresh_change().is_none_or(|change| change.is_err()) {
        let NextStep::Block { phase, order } = experiment.next_step() else { panic!() };
        experiment.push(service.block(phase, &order)).unwrap();
    }
    let (first, _) = experiment.chosen().unwrap();
    experiment.withdraw(first);
    let found = service.finish(&mut experiment);
    assert!(matches!(found, Outcome::Gain { arm, .. } if arm != first), "{found:?}");
}

#[test]
fn lost_periods_count_for_the_budget() {
    let finish = |lost: usize| {
        let (mut experiment, mut service) = (Switchback::new(rules(2, 200)), Service::new(1, &[1.0, 1.1, 1.0]));
        let NextStep::Block { phase, order } = experiment.next_step() else { panic!() };
        experiment.push(service.block(phase, &order)).unwrap();
        experiment.lose(lost);
        (service.finish(&mut experiment), experiment)
    };
    for lost in [0, 60, 130] {
        let (found, experiment) = finish(lost);
        assert!(matches!(found, Outcome::Gain { arm: ArmId(1), .. }), "{lost}: {found:?}");
        assert!(experiment.periods() + lost <= 200, "{lost}: {}", experiment.periods());
    }
    // The race ends without another block, but 20 fresh pairs do not fit, either.
    let (found, experiment) = finish(160);
    assert!(matches!(found, Outcome::NoClaim { .. }) && experiment.periods() == 3, "{found:?}");
}

#[test]
fn replay_of_stored_blocks_results_in_the_same_state() {
    let (found, experiment) = outcome(rules(3, 300), &[1.0, 1.05, 0.9, 1.0]);
    let text = serde_json::to_string(experiment.blocks()).unwrap();
    let stored: Vec<Block> = serde_json::from_str(&text).unwrap();
    let mut again = Switchback::new(rules(3, 300));
    stored.into_iter().for_each(|block| again.push(block).unwrap());
    assert_eq!(again, experiment);
    assert_eq!(again.next_step(), NextStep::Done(found.clone()));
    assert_eq!(serde_json::from_str::<Outcome>(&serde_json::to_string(&found).unwrap()).unwrap(), found);
}

#[test]
fn other_blocks_than_the_next_are_refused() {
    let mut experiment = Switchback::new(rules(1, 300));
    let block = |phase, periods: &[(u32, f64)]| Block {
        phase,
        periods: periods.iter().map(|(arm, value)| (ArmId(*arm), PeriodResult::Value(*value))).collect(),
    };
    for wrong in [
        block(Phase::Confirm, &[(0, 1.0), (1, 1.0)]),
        block(Phase::Race, &[(0, 1.0)]),
        block(Phase::Race, &[(0, 1.0), (1, 1.0), (1, 1.0)]),
        block(Phase::Race, &[(0, 1.0), (2, 1.0)]),
    ] {
        assert_eq!(experiment.push(wrong), Err(BlockError::NotNext));
    }
    let zero = block(Phase::Race, &[(1, 0.0), (0, 1.0)]);
    assert_eq!(experiment.push(zero), Err(BlockError::InvalidValue { arm: ArmId(1), value: 0.0 }));
    assert!(experiment.blocks().is_empty());
    experiment.push(block(Phase::Race, &[(1, 1.0), (0, 1.0)])).unwrap();
}
