//! Tests of each rule of a race on small blocks: drops, minimums, end, missing values, kills, budgets, stages, replay.

use proptest::prelude::*;

use super::*;

const RULES: RaceRules = RaceRules { indifference: 0.01, strict: false, max_trials: None };

/// A race of `count` candidates in one stage.
fn flat(count: usize) -> Race {
    flat_with(RULES, Better::Lower, count)
}

fn flat_with(rules: RaceRules, better: Better, count: usize) -> Race {
    Race::new(rules, better, &vec![true; count], |_| Vec::new())
}

/// A repeatable number between -0.5 and 0.5 that depends on block and candidate (the mixer of `SplitMix64`).
fn jitter(block: usize, candidate: usize) -> f64 {
    let mut mixed = ((block * 1000 + candidate + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// A block in which the candidates take these seconds, with noise of about `noise`.
fn block(race: &Race, seconds: &[f64], noise: f64) -> Vec<(usize, BlockResult)> {
    let block = race.blocks() as usize;
    let result = |candidate: &usize| {
        (*candidate, BlockResult::Value(seconds[*candidate] * (noise * 3.5 * jitter(block, *candidate)).exp()))
    };
    race.active().iter().map(result).collect()
}

/// Runs blocks until the race ends, at most `blocks`.
fn run(race: &mut Race, seconds: &[f64], noise: f64, blocks: usize) {
    for _ in 0..blocks {
        if race.state() == State::Racing {
            let results = block(race, seconds, noise);
            race.push(&results);
        }
    }
}

fn word(race: &Race, candidate: usize) -> RankClaim {
    race.standings().into_iter().find(|standing| standing.candidate == candidate).unwrap().word
}

#[test]
fn hopeless_candidates_leave_after_one_block_except_the_baseline() {
    let mut race = flat(5);
    run(&mut race, &[9.0, 3.0, 3.1, 5.9, 6.1], 0.0, 1);
    assert_eq!(race.active(), [0, 1, 2, 3]);
    assert_eq!(race.leader(), Some(1));
    let RankClaim::TooSlow { times: Some(times) } = word(&race, 4) else { panic!("{:?}", word(&race, 4)) };
    assert!((times - 6.1 / 3.0).abs() < 1e-9, "{times}");
}

#[test]
fn interim_analysis_drops_the_beaten_but_keeps_two_challengers() {
    let mut race = flat(8);
    let seconds = [1.0, 1.5, 1.5, 1.5, 1.5, 1.5, 1.4, 1.3];
    run(&mut race, &seconds, 0.005, 2);
    assert_eq!(race.active(), [0, 6, 7], "the leader and the two next best");
    run(&mut race, &seconds, 0.005, 3);
    assert_eq!((race.active().len(), race.state()), (3, State::Racing), "nothing is settled in five blocks");
    run(&mut race, &seconds, 0.005, 1);
    assert_eq!((race.state(), race.leader(), race.blocks()), (State::Resolved, Some(0), 6));
}

#[test]
fn candidates_are_only_dropped_at_interim_analyses() {
    let seconds: Vec<f64> = (0..40).map(|candidate| 1.0 + 0.01 * f64::from(candidate)).collect();
    let mut race = flat(40);
    let mut left_at = Vec::new();
    while race.state() == State::Racing {
        let before = race.active().len();
        run(&mut race, &seconds, 0.05, 1);
        if race.active().len() < before {
            left_at.push(race.blocks() as usize);
        }
    }
    assert!(left_at.len() > 8, "{left_at:?}");
    assert!(left_at.iter().all(|block| LOOKS.contains(block)), "{left_at:?}");
    assert!(LOOKS.contains(&(race.blocks() as usize)));
}

#[test]
fn clear_winner_resolves_the_race_despite_ties() {
    let mut race = flat(10);
    let mut seconds = [1.2; 10];
    seconds[3] = 1.0;
    seconds[4] = 1.002;
    run(&mut race, &seconds, 0.01, 100);
    assert_eq!(race.state(), State::Resolved);
    assert!(race.leader() == Some(3) || race.leader() == Some(4));
    assert!(race.blocks() < 40, "{}", race.blocks());
    let standings = race.standings();
    assert_eq!(standings[0].word, RankClaim::Leads);
    assert!(matches!(standings[1].word, RankClaim::NotSeenToDiffer { .. }), "{:?}", standings[1]);
    assert!(standings[2..].iter().any(|standing| matches!(standing.word, RankClaim::Worse { .. })));
    assert_eq!(standings[0].against_kernel, None, "only fresh pairs compare the leader with the baseline");
}

#[test]
fn larger_values_win_if_the_metric_is_to_be_maximised() {
    let mut race = flat_with(RULES, Better::Higher, 6);
    run(&mut race, &[100.0, 150.0, 100.0, 60.0, 120.0, 100.0], 0.005, 30);
    assert_eq!((race.leader(), race.state()), (Some(1), State::Resolved));
    assert_eq!(race.abort_limit(), None);
    let standings = race.standings();
    let second = standings.iter().find(|standing| standing.candidate == 4).unwrap();
    let effect = second.effect.unwrap();
    assert!((effect.mean_percent + 20.0).abs() < 2.0, "in the direction of the metric: {effect:?}");
    let RankClaim::Worse { by } = second.word else { panic!("{second:?}") };
    assert!(by.contains(20.0) && by.low > 10.0, "{by:?}");
    let kernel = second.against_kernel.unwrap();
    assert!((kernel.mean_percent - 20.0).abs() < 2.0, "{kernel:?}");
}

#[test]
fn missing_value_drops_no_candidate() {
    // The best candidate has no value in the first block, nor in the worst blocks of the first interim analyses.
    let mut race = flat(6);
    let seconds = [1.3, 1.0, 1.25, 1.3, 1.35, 1.3];
    for block_index in 0..12 {
        let mut results = block(&race, &seconds, 0.01);
        if block_index == 0 || block_index == 3 {
            results.iter_mut().filter(|(candidate, _)| *candidate == 1).for_each(|result| {
                result.1 = BlockResult::NotProven("thread 2 was seen on cpu 7".into());
            });
        }
        race.push(&results);
        assert!(race.active().contains(&1), "block {block_index}");
    }
    assert_eq!((race.leader(), race.state()), (Some(1), State::Resolved));
}

#[test]
fn block_of_missing_values_changes_nothing() {
    let mut race = flat(4);
    let seconds = [1.3, 1.0, 1.2, 1.5];
    let nothing: Vec<(usize, BlockResult)> =
        (0..4).map(|candidate| (candidate, BlockResult::Failed("power".into()))).collect();
    race.push(&nothing);
    assert_eq!((race.leader(), race.abort_limit(), race.pairs()), (None, None, 0));
    run(&mut race, &seconds, 0.01, 30);
    assert_eq!((race.leader(), race.state()), (Some(1), State::Resolved));
}

#[test]
fn candidates_that_cannot_be_measured_leave_with_the_reason() {
    let mut race = flat(5);
    let seconds = [1.0; 5];
    for _ in 0..3 {
        assert_eq!(race.active().len(), 5);
        let mut results = block(&race, &seconds, 0.05);
        results[2].1 = BlockResult::NotProven("mask lost".into());
        results[3].1 = BlockResult::Failed("exit status 1".into());
        results[4].1 = BlockResult::Value(-1.0);
        race.push(&results);
    }
    assert_eq!(race.active(), [0, 1]);
    assert_eq!(word(&race, 2), RankClaim::NotProven("mask lost".into()));
    assert_eq!(word(&race, 3), RankClaim::Failed("exit status 1".into()));
    let RankClaim::Failed(reason) = word(&race, 4) else { panic!() };
    assert!(reason.contains("-1"), "{reason}");
    // Per block two values and three repeated trials, of which one had a value anyway.
    assert_eq!(race.trials(), 3 * (2 + 2 * 2 + 1));
}

#[test]
fn failed_baseline_ends_the_race() {
    let mut race = flat(4);
    for _ in 0..3 {
        let mut results = block(&race, &[1.0; 4], 0.05);
        results[0].1 = BlockResult::Failed("exit status 1".into());
        race.push(&results);
    }
    assert_eq!(race.state(), State::NoReference);
    assert_eq!(word(&race, 0), RankClaim::Failed("exit status 1".into()));
    race.push(&[(1, BlockResult::Value(1.0))]);
    assert_eq!(race.blocks(), 3, "the race has ended");
}

#[test]
fn killed_trials_are_lower_bounds_and_most_of_them_drop_a_candidate() {
    let mut race = flat(4);
    run(&mut race, &[1.0, 1.01, 1.02, 1.03], 0.05, 1);
    let limit = race.abort_limit().unwrap();
    let fastest = (0..4).map(|candidate| (0.05 * 3.5 * jitter(0, candidate)).exp() * (1.0 + candidate as f64 / 100.0));
    assert!((limit / 5.0 - fastest.fold(f64::INFINITY, f64::min)).abs() < 1e-9, "five times the leader's median");
    for killed in 1..=2 {
        let mut results = block(&race, &[1.0, 1.01, 1.02, 1.03], 0.05);
        results.iter_mut().filter(|(candidate, _)| *candidate == 0 || *candidate == 3).for_each(|result| {
            result.1 = BlockResult::TooSlow { at_least: 5.0 };
        });
        race.push(&results);
        assert_eq!(race.active().contains(&3), killed < 2, "{killed}");
        assert!(race.active().contains(&0), "the baseline stays, however slow");
    }
    let RankClaim::TooSlow { times: Some(times) } = word(&race, 3) else { panic!("{:?}", word(&race, 3)) };
    assert!(times > 4.0, "{times}");
    // A single disturbed trial of the leader is winsorized like any burst.
    let mut race = flat(4);
    for index in 0..10 {
        let mut results = block(&race, &[1.5, 1.0, 1.4, 1.5], 0.01);
        if index == 4 {
            results.iter_mut().filter(|(candidate, _)| *candidate == 1).for_each(|result| {
                result.1 = BlockResult::TooSlow { at_least: 5.0 };
            });
        }
        race.push(&results);
    }
    assert_eq!((race.leader(), race.state()), (Some(1), State::Resolved));
    // Killed in its first block: the candidate is hopeless. For metrics to maximise, the elapsed time is not a bound.
    for (better, stays) in [(Better::Lower, false), (Better::Higher, true)] {
        let mut race = flat_with(RULES, better, 5);
        let mut results: Vec<(usize, BlockResult)> =
            (0..4).map(|one| (one, BlockResult::Value(1.0 + 0.1 * one as f64))).collect();
        results.push((4, BlockResult::TooSlow { at_least: 5.0 }));
        race.push(&results);
        assert_eq!(race.active().contains(&4), stays, "{better:?}");
    }
}

#[test]
fn budget_ends_the_race_and_leaves_the_reserve() {
    for budget in [30, 100, 200, 1000] {
        let rules = RaceRules { max_trials: Some(budget), ..RULES };
        let mut race = flat_with(rules, Better::Lower, 20);
        let mut seconds = [1.0; 20];
        seconds[0] = 1.9;
        run(&mut race, &seconds, 0.3, 400);
        assert_eq!(race.state(), State::OutOfBudget, "{budget}");
        assert!(!race.state().is_resolved());
        let reserve = race.reserve(budget as f64, 1.0);
        let expected = (0.15 * budget as f64).max(40.0).min(0.5 * budget as f64);
        assert!((reserve - expected).abs() < 1e-9, "{budget}: {reserve}");
        assert!(race.trials() as f64 + reserve <= budget as f64, "{budget}: {} and {reserve}", race.trials());
        assert!((race.trials() + race.active().len()) as f64 + reserve > budget as f64, "another block fits");
        assert_eq!(race.leader().is_some(), budget > 30);
        assert!(race.trials() + 2 * race.pairs() as usize <= budget, "{budget}: {} pairs", race.pairs());
        assert!(race.leader() == Some(0) || race.pairs() >= 20 || budget < 80, "{budget}: {} pairs", race.pairs());
    }
    // In seconds, with trials of half a second each.
    assert!((flat(2).reserve(60.0, 0.5) - 20.0).abs() < 1e-9);
    assert!((flat(2).reserve(600.0, 0.5) - 90.0).abs() < 1e-9);
}

#[test]
fn larger_budget_continues_where_the_smaller_one_ended() {
    let seconds = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05];
    let mut small = flat_with(RaceRules { max_trials: Some(100), ..RULES }, Better::Lower, 6);
    let mut large = flat_with(RaceRules { max_trials: Some(400), ..RULES }, Better::Lower, 6);
    while small.state() == State::Racing {
        let results = block(&small, &seconds, 0.05);
        small.push(&results);
        large.push(&results);
    }
    assert_eq!(small.state(), State::OutOfBudget);
    assert_eq!((large.state(), large.blocks()), (State::Racing, small.blocks()));
    assert_eq!((large.leader(), large.active()), (small.leader(), small.active()));
}

#[test]
fn race_ended_by_the_user_has_a_leader() {
    for (reason, state) in [(End::User, State::Stopped), (End::Budget, State::OutOfBudget)] {
        let mut race = flat(5);
        run(&mut race, &[1.4, 1.0, 1.2, 1.4, 1.4], 0.03, 3);
        race.end(reason);
        assert_eq!((race.state(), race.leader()), (state, Some(1)));
        assert!(!race.state().is_resolved());
        race.end(End::User);
        assert_eq!(race.state(), state, "the first reason is kept");
    }
}

#[test]
fn race_of_one_or_no_candidate_has_ended() {
    let alone = flat(1);
    assert_eq!((alone.state(), alone.leader(), alone.pairs()), (State::OnlyOneLeft, Some(0), 0));
    assert_eq!(alone.standings()[0].word, RankClaim::Leads);
    let mut beaten = flat(4);
    run(&mut beaten, &[1.0, 2.5, 3.0, 4.0], 0.0, 1000);
    assert_eq!((beaten.state().is_resolved(), beaten.leader()), (true, Some(0)));
}

#[test]
fn one_disturbed_trial_does_not_end_the_search() {
    let mut race = flat(2);
    race.push(&[(0, BlockResult::Value(1.0)), (1, BlockResult::Value(14.0))]);
    assert_eq!((race.state(), race.active()), (State::Racing, &[0, 1][..]));
    run(&mut race, &[1.0, 0.7], 0.01, 1000);
    assert_eq!((race.state(), race.leader()), (State::Resolved, Some(1)), "it is the better one in all other blocks");
    // Of many candidates, the leader and the next two stay.
    let mut race = flat(6);
    run(&mut race, &[1.0, 9.0, 3.0, 8.0, 4.0, 5.0], 0.0, 1);
    assert_eq!(race.active(), [0, 2, 4]);
}

#[test]
fn equal_candidates_end_at_the_last_interim_analysis() {
    let mut race = flat(4);
    // Noise so large that 360 blocks resolve nothing.
    run(&mut race, &[1.0; 4], 2.0, 1000);
    assert!(matches!(race.state(), State::OutOfBlocks | State::Resolved | State::OnlyOneLeft));
    assert!(race.blocks() <= 360);
}

#[test]
fn strict_races_need_more_trials() {
    let seconds = [1.05, 1.0, 1.03, 1.04, 1.06, 1.08, 1.1];
    let trials = |strict| {
        let mut race = flat_with(RaceRules { strict, ..RULES }, Better::Lower, 7);
        run(&mut race, &seconds, 0.03, 360);
        assert_eq!(race.leader(), Some(1));
        assert!(race.state().is_resolved());
        race.trials()
    };
    assert!(trials(true) > trials(false), "{} {}", trials(true), trials(false));
    // 5 % shared by 26 analyses and these challengers; first at the third block.
    let mut race = flat_with(RaceRules { strict: true, ..RULES }, Better::Lower, 7);
    let challengers = [Challenger { column: 1, mean: 0.0, better: 0.0 }; 4];
    assert!((race.drop_below(&challengers) - 0.05 / 26.0 / 4.0).abs() < 1e-12);
    run(&mut race, &[1.0, 1.5, 1.6, 1.7, 1.8, 1.9, 1.9], 0.001, 2);
    assert_eq!(race.active().len(), 7);
    run(&mut race, &[1.0, 1.5, 1.6, 1.7, 1.8, 1.9, 1.9], 0.001, 1);
    assert_eq!(race.active(), [0, 1, 2]);
}

/// A race of two stages: 4 policies and 30 shapes; policy 0, and every third shape with policy 1, in the first stage.
fn staged() -> Race {
    let all: Vec<(usize, usize)> = (0..30).flat_map(|shape| (0..4).map(move |policy| (shape, policy))).collect();
    let first = |(shape, policy): &(usize, usize)| *policy == 0 || (*policy == 1 && shape % 3 == 0);
    let list = |of: fn(&(usize, usize)) -> usize| -> Vec<usize> {
        [usize::MAX].into_iter().chain(all.iter().map(of)).collect()
    };
    let first_stage: Vec<bool> = [true].into_iter().chain(all.iter().map(first)).collect();
    let (shape, policy) = (list(|one| one.0), list(|one| one.1));
    let cross = |winner: usize| {
        let alike = |one: &usize| shape[*one] == shape[winner] || policy[*one] == policy[winner];
        (0..shape.len()).filter(alike).collect()
    };
    Race::new(RULES, Better::Lower, &first_stage, cross)
}

/// Seconds in that race: a sum of a term per shape and one per policy, with the minimum at shape 12 and policy 3.
fn staged_seconds() -> Vec<f64> {
    let one = |shape: i32, policy: i32| 1.0 + 0.02 * f64::from((shape - 12).abs()) + 0.1 * f64::from(3 - policy);
    [2.0].into_iter().chain((0..30).flat_map(|shape| (0..4).map(move |policy| one(shape, policy)))).collect()
}

#[test]
fn second_stage_follows_the_first_above_a_hundred_candidates() {
    let mut race = staged();
    assert_eq!(race.active().len(), 1 + 30 + 10);
    let first: Vec<usize> = race.active().to_vec();
    let seconds = staged_seconds();
    let mut survivors = Vec::new();
    while race.active().iter().all(|candidate| first.contains(candidate)) {
        survivors = race.active().iter().copied().filter(|candidate| *candidate != 0).collect::<Vec<_>>();
        run(&mut race, &seconds, 0.005, 1);
    }
    assert!((1..10).contains(&survivors.len()), "{survivors:?}");
    assert_eq!(race.state(), State::Racing);
    let begin = race.blocks();
    assert_eq!(race.leader(), Some(1 + 12 * 4 + 1), "until its first block the winner of the first stage leads");
    assert!(race.abort_limit().is_some());
    let (policy, shape) = (|candidate: usize| (candidate - 1) % 4, |candidate: usize| (candidate - 1) / 4);
    let guided = |one: usize| policy(one) == 1 || survivors.iter().any(|guide| shape(*guide) == shape(one));
    assert!(race.active().iter().all(|one| *one == 0 || guided(*one)), "{:?}", race.active());
    assert!(survivors.iter().all(|one| race.active().contains(one)), "survivors stay");
    let dropped = |one: &usize| *one != 0 && !survivors.contains(one);
    assert!(!first.iter().any(|one| dropped(one) && race.active().contains(one)), "dropped candidates stay out");
    assert!(race.active().contains(&0), "the baseline is added again");
    assert!(race.active().contains(&(1 + 12 * 4 + 3)));
    run(&mut race, &seconds, 0.005, 100);
    assert_eq!((race.leader(), race.state()), (Some(1 + 12 * 4 + 3), State::Resolved));
    assert!(race.blocks() > begin + 5);
    // Candidates that ran only in the first stage are compared via its winner.
    let standings = race.standings();
    let of = |candidate| standings.iter().find(|standing| standing.candidate == candidate).unwrap();
    let early = of(1 + 13 * 4);
    let effect = early.effect.unwrap();
    let expected = 100.0 * (seconds[1 + 13 * 4] / 1.0 - 1.0);
    assert!((effect.mean_percent - expected).abs() < 3.0, "{effect:?} {expected}");
    assert!(effect.interval.unwrap().contains(expected), "{effect:?} {expected}");
    assert_eq!(of(1 + 29 * 4 + 3).word, RankClaim::NotRaced);
}

#[test]
fn best_other_candidate_guides_second_stage_if_baseline_wins() {
    let mut race = staged();
    let mut seconds = staged_seconds();
    seconds[0] = 0.9;
    run(&mut race, &seconds, 0.005, 200);
    assert_eq!((race.leader(), race.state()), (Some(0), State::Resolved));
    assert_eq!((race.pairs(), race.planned().pairs), (0, 0));
    let third = race.standings().into_iter().find(|standing| standing.candidate == 1 + 12 * 4 + 3).unwrap();
    assert!(third.blocks > 0, "it was raced in the second stage");
}

#[test]
fn hundred_candidates_race_in_one_stage() {
    let race = Race::new(RULES, Better::Lower, &[false; 100], |_| Vec::new());
    assert_eq!(race.active().len(), 100);
    let race = Race::new(RULES, Better::Lower, &[false; 101], |_| Vec::new());
    assert_eq!(race.active(), [0]);
}

#[test]
fn number_of_pairs_follows_from_the_half_width() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../../../tests/golden/racing.json")).unwrap();
    let rows: Vec<Vec<f64>> = serde_json::from_value(golden["rows"].clone()).unwrap();
    let mut race = flat(2);
    race.rows = rows.iter().map(|row| vec![Some(row[0]), Some(row[1])]).collect();
    let planned = race.planned();
    assert_eq!(race.leader(), Some(1));
    assert_eq!(u64::from(planned.pairs), golden["pair_deviation"]["pairs"].as_u64().unwrap());
    let half_width = golden["pair_deviation"]["half_width"].as_f64().unwrap();
    assert!((planned.half_width - half_width).abs() < 1e-12, "{planned:?} {half_width}");
}

#[test]
fn estimates_count_blocks_finalists_and_pairs() {
    assert_eq!(Race::estimate(60, 80), 60 * 6 + 5 * 40 + 160);
    assert_eq!(Race::estimate(3, 0), 3 * 6 + 3 * 40);
}

/// Returns the blocks of a whole race for replaying.
fn recorded(race: &mut Race, seconds: &[f64], noise: f64) -> Vec<Vec<(usize, BlockResult)>> {
    let mut blocks = Vec::new();
    while race.state() == State::Racing && blocks.len() < 80 {
        let mut results = block(race, seconds, noise);
        for (candidate, result) in &mut results {
            match (blocks.len() * 13 + *candidate * 7) % 41 {
                0 => *result = BlockResult::NotProven("moved".into()),
                1 => *result = BlockResult::Failed("signal".into()),
                2 => *result = BlockResult::TooSlow { at_least: 6.0 },
                _ => {}
            }
        }
        race.push(&results);
        blocks.push(results);
    }
    blocks
}

#[test]
fn replaying_the_blocks_gives_the_same_race_at_every_cut() {
    let mut whole = staged();
    let blocks = recorded(&mut whole, &staged_seconds(), 0.03);
    assert!(blocks.len() > 12);
    for cut in 0..=blocks.len() {
        let mut resumed = staged();
        blocks[..cut].iter().for_each(|results| resumed.push(results));
        let mut resumed = resumed.clone();
        for results in &blocks[cut..] {
            let active: Vec<usize> = results.iter().map(|result| result.0).collect();
            assert_eq!(resumed.active(), active, "the next block has the same candidates");
            // In any order within the block.
            resumed.push(&results.iter().rev().cloned().collect::<Vec<_>>());
        }
        assert_eq!((resumed.state(), resumed.leader()), (whole.state(), whole.leader()));
        assert_eq!(resumed.standings(), whole.standings());
        assert_eq!((resumed.trials(), resumed.planned()), (whole.trials(), whole.planned()));
    }
}

#[test]
fn missing_trial_does_not_count_against_a_candidate() {
    let mut race = flat(4);
    for _ in 0..5 {
        let results: Vec<(usize, BlockResult)> =
            block(&race, &[1.0; 4], 0.05).into_iter().filter(|(candidate, _)| *candidate != 2).collect();
        race.push(&results);
        race.push(&[]);
    }
    assert!(race.active().contains(&2));
    assert_eq!(word(&race, 2), RankClaim::NotRaced);
    race.push(&[(9, BlockResult::Value(1.0)), (77, BlockResult::Value(1.0))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn order_of_candidates_does_not_matter(
        seconds in proptest::collection::vec(0.9f64..1.4, 3..9),
        noise in proptest::collection::vec(-0.04f64..0.04, 9 * 30),
        shift in 1usize..8,
    ) {
        let count = seconds.len();
        // The baseline stays first, the others are rotated.
        let moved = |one: usize| if one == 0 { 0 } else { (one - 1 + shift) % (count - 1) + 1 };
        let (mut race, mut other) = (flat(count), flat(count));
        for index in 0..30 {
            if race.state() != State::Racing {
                break;
            }
            let result = |one: &usize| (*one, BlockResult::Value(seconds[*one] * noise[index * 9 + one].exp()));
            let results: Vec<(usize, BlockResult)> = race.active().iter().map(result).collect();
            let moved_results: Vec<(usize, BlockResult)> = results.iter().map(|(one, result)| (moved(*one), result.clone())).collect();
            race.push(&results);
            other.push(&moved_results);
            let mut active: Vec<usize> = race.active().iter().map(|one| moved(*one)).collect();
            active.sort_unstable();
            prop_assert_eq!(&active, &other.active().to_vec());
            prop_assert_eq!(race.leader().map(moved), other.leader());
            prop_assert_eq!(race.state(), other.state());
        }
        prop_assert_eq!(race.pairs(), other.pairs());
    }

    #[test]
    fn arbitrary_trials_keep_a_race_consistent(
        kinds in proptest::collection::vec((0u8..6, -1.0f64..50.0), 12 * 14),
        strict: bool,
        higher: bool,
    ) {
        let better = if higher { Better::Higher } else { Better::Lower };
        let mut race = flat_with(RaceRules { strict, ..RULES }, better, 12);
        for index in 0..14 {
            let result = |one: &usize| {
                let (kind, value) = kinds[index * 12 + one];
                let result = match kind {
                    0 => BlockResult::NotProven("n".into()),
                    1 => BlockResult::Failed("f".into()),
                    2 => BlockResult::TooSlow { at_least: value },
                    3 => BlockResult::Value(f64::NAN),
                    _ => BlockResult::Value(value),
                };
                (*one, result)
            };
            let results: Vec<(usize, BlockResult)> = race.active().iter().map(result).collect();
            race.push(&results);
            let standings = race.standings();
            prop_assert_eq!(standings.len(), 12);
            prop_assert_eq!(
                standings.iter().filter(|standing| standing.word == RankClaim::Leads).count(),
                usize::from(race.leader().is_some())
            );
            prop_assert!(race.pairs() <= 250);
        }
    }
}

#[test]
fn race_among_survivors_ignores_all_other_candidates() {
    let mut race = Race::among(RULES, Better::Lower, 400, vec![0, 17, 250, 399]);
    assert_eq!(race.active(), [0, 17, 250, 399]);
    let mut seconds = vec![0.5; 400];
    (seconds[0], seconds[17], seconds[250], seconds[399]) = (1.2, 1.1, 1.0, 1.3);
    run(&mut race, &seconds, 0.01, 60);
    assert_eq!((race.state(), race.leader()), (State::Resolved, Some(250)));
    assert!(matches!(word(&race, 16), RankClaim::NotRaced), "{:?}", word(&race, 16));
}
