//! Searches on model machines with simulated programs: replay, blocks, drops, honesty, small sets of candidates.

mod machines;

use std::collections::BTreeMap;
use std::sync::Arc;

use machines::model;
use model::placements::candidates::{SearchSpace, Threads, candidates, features, machine_features};
use model::stats::racing::{BlockResult, End, State};
use model::stats::search::{
    Features, Hint, Prior, Random, Search, SearchClaim, SearchStanding, confirm_pairs, log_times,
};
use model::values::placement::Placement;
use model::values::plan::{EarlierProgram, ProgramKind, SEARCH_VERSION, SearchPlan, ThreadChoice};
use model::values::workload::Better;

/// The candidates of a machine.
struct Field {
    plan: SearchPlan,
    placements: Vec<Placement>,
    features: Features,
}

fn field(machine: &str, threads: Threads) -> Field {
    let topology = model(machine);
    let placements = candidates(&topology, &SearchSpace { threads, ..SearchSpace::default() })
        .expect("the space is valid")
        .placements;
    let choice = match threads {
        Threads::Fixed(_) => ThreadChoice::Fixed,
        Threads::Searched => ThreadChoice::Searched,
        Threads::Unspecified => ThreadChoice::Command,
    };
    let plan = SearchPlan::new(choice, machine_features(&topology));
    let features = features(&plan, &placements, None);
    Field { plan, placements, features }
}

impl Field {
    fn prior(&self) -> Arc<Prior> {
        Arc::new(Prior::new(&self.plan, &self.features))
    }

    fn prior_of_version(&mut self, version: u32) -> Arc<Prior> {
        self.plan.version = version;
        self.prior()
    }

    fn truth(&self, kind: ProgramKind, seed: u64) -> Vec<f64> {
        let table = &self.features.tables[self.features.tables.len() / 2];
        let times = log_times(kind, &self.features, table, &mut Random::new(seed, "truth"));
        times.iter().map(|time| time - times[0]).collect()
    }
}

/// A block in which the candidates take their true times, with noise that depends on the seed, block and candidate.
fn results(search: &Search, block: &[usize], truth: &[f64], noise: f64, seed: u64) -> Vec<(usize, BlockResult)> {
    let result = |candidate: &usize| {
        let mut random = Random::new(seed, &format!("noise {} {candidate}", search.blocks()));
        (*candidate, BlockResult::Value((truth[*candidate] + noise * random.normal()).exp()))
    };
    block.iter().map(result).collect()
}

/// Runs a search until it ends or has used its trials. Returns it with its blocks.
fn run(prior: &Arc<Prior>, truth: &[f64], trials: usize, seed: u64) -> (Search, Vec<Vec<(usize, BlockResult)>>) {
    let mut search = Search::new(prior.clone(), Better::Lower);
    let mut blocks = Vec::new();
    loop {
        let block = search.next_block(trials.saturating_sub(search.trials()));
        if block.is_empty() {
            break;
        }
        blocks.push(results(&search, &block, truth, 0.02, seed));
        search.push(blocks.last().expect("a block was added"));
    }
    search.end(End::Budget);
    (search, blocks)
}

fn regret(search: &Search, truth: &[f64]) -> f64 {
    truth[search.leader().expect("a block was run")] - truth.iter().copied().fold(f64::INFINITY, f64::min)
}

#[test]
fn search_finds_good_candidates_of_simulated_programs() {
    let field = field("xeon-e5-2640-x2", Threads::Searched);
    let prior = field.prior();
    let (mut good, mut runs) = (0, 0);
    for kind in [ProgramKind::Sharing, ProgramKind::Bandwidth, ProgramKind::Serial, ProgramKind::Lock] {
        for seed in 0..3 {
            let truth = field.truth(kind, seed);
            let (search, _) = run(&prior, &truth, 32, seed);
            runs += 1;
            good += u32::from(regret(&search, &truth) < 0.05);
            println!("{kind:?} {seed}: regret {:.3}, {:?}", regret(&search, &truth), search.missed());
        }
    }
    assert!(good * 10 >= runs * 8, "{good} of {runs} of {} candidates", field.placements.len());
}

#[test]
fn replayed_blocks_give_the_same_next_block() {
    let field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let prior = field.prior();
    let truth = field.truth(ProgramKind::Generic, 5);
    let (whole, blocks) = run(&prior, &truth, 40, 5);
    for cut in 0..blocks.len() {
        // The prior is made again, as after a restart.
        let mut search = Search::new(field.prior(), Better::Lower);
        blocks[..cut].iter().for_each(|block| search.push(block));
        let next = search.next_block(40 - search.trials());
        assert_eq!(next, blocks[cut].iter().map(|(candidate, _)| *candidate).collect::<Vec<_>>(), "block {cut}");
    }
    let mut search = Search::new(prior, Better::Lower);
    blocks.iter().for_each(|block| search.push(block));
    search.end(End::Budget);
    assert_eq!((search.leader(), search.missed()), (whole.leader(), whole.missed()));
    assert_eq!(search.survivors(), whole.survivors());
}

#[test]
fn blocks_are_distinct_sorted_and_within_the_budget() {
    for (machine, threads) in [
        ("ryzen5-2600", Threads::Fixed(6)),
        ("rk3399", Threads::Fixed(1)),
        ("rpi5-numafake8", Threads::Unspecified),
        ("grace-cxl", Threads::Searched),
    ] {
        let field = field(machine, threads);
        let truth = field.truth(ProgramKind::Bandwidth, 1);
        let (search, blocks) = run(&field.prior(), &truth, 26, 1);
        assert!(search.trials() <= 26 && search.leader().is_some(), "{machine}");
        for (number, block) in blocks.iter().enumerate() {
            let members: Vec<usize> = block.iter().map(|(candidate, _)| *candidate).collect();
            assert!(members.windows(2).all(|pair| pair[0] < pair[1]), "{machine} {members:?}");
            assert!(members.len() >= 2 && *members.last().unwrap() < field.placements.len(), "{machine} {members:?}");
            assert!(number % 3 != 0 || members[0] == 0, "every third block has the baseline: {machine} {members:?}");
        }
    }
}

#[test]
fn first_block_is_a_ladder_if_threads_are_searched() {
    let field = field("grace-cxl", Threads::Searched);
    let block = Search::new(field.prior(), Better::Lower).next_block(32);
    let mut threads: Vec<usize> = block[1..].iter().map(|candidate| field.placements[*candidate].threads).collect();
    threads.sort_unstable();
    assert_eq!((block[0], block.len()), (0, 7));
    let most = field.placements.iter().map(|placement| placement.threads).max().unwrap();
    assert_eq!((threads[0], *threads.last().unwrap()), (1, most), "{threads:?}");
    threads.dedup();
    assert_eq!(threads.len(), 6, "{threads:?}");
}

/// Runs blocks in which candidates 1, 5, 9 … are not verified and candidates 3, 7, 11 … fail. Returns how often each of
/// them ran.
fn run_with_unusable(search: &mut Search, truth: &[f64]) -> BTreeMap<usize, u32> {
    let mut ran = BTreeMap::new();
    for _ in 0..14 {
        let block = search.next_block(7);
        let mut outcomes = results(search, &block, truth, 0.02, 2);
        for (candidate, result) in outcomes.iter_mut().filter(|(candidate, _)| candidate % 2 == 1) {
            *ran.entry(*candidate).or_insert(0) += 1;
            *result = if *candidate % 4 == 1 {
                BlockResult::NotProven("moved".into())
            } else {
                BlockResult::Failed("signal".into())
            };
        }
        search.push(&outcomes);
    }
    ran
}

#[test]
fn dropped_candidates_never_come_back() {
    let field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let truth = field.truth(ProgramKind::Sharing, 2);
    let mut search = Search::new(field.prior(), Better::Lower);
    let ran = run_with_unusable(&mut search, &truth);
    let of_remainder = |remainder: usize| ran.iter().filter(move |(one, _)| **one % 4 == remainder);
    assert!(of_remainder(1).all(|(_, count)| *count <= 3) && of_remainder(1).any(|(_, count)| *count == 3), "{ran:?}");
    assert!(of_remainder(3).count() > 0 && of_remainder(3).all(|(_, count)| *count == 1), "{ran:?}");
    let outlook = search.outlook();
    for (dropped, _) in of_remainder(1).filter(|(_, count)| **count == 3).chain(of_remainder(3)) {
        let standing = search.standings(&outlook).into_iter().find(|one| one.candidate == *dropped).unwrap();
        assert!(matches!(standing.claim, SearchClaim::Dropped(_)), "{standing:?}");
        assert!(outlook.predictions[*dropped].best.abs() < f64::MIN_POSITIVE);
        assert!(!search.survivors().contains(dropped));
    }
}

#[test]
fn stored_search_of_version_1_drops_after_three_failures() {
    let mut field = field("xeon-e5-2640-x2", Threads::Unspecified);
    field.plan.version = 1;
    let truth = field.truth(ProgramKind::Sharing, 2);
    let ran = run_with_unusable(&mut Search::new(field.prior(), Better::Lower), &truth);
    let failing = || ran.iter().filter(|(one, _)| **one % 4 == 3).map(|(_, count)| *count);
    assert_eq!(failing().max(), Some(3), "{ran:?}");
}

/// The best candidate is 4 % faster than the baseline, which few pairs cannot prove.
#[test]
fn confirmation_of_a_small_gain_gets_more_pairs_from_version_4_on() {
    let mut field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let times = field.truth(ProgramKind::CacheCapacity, 2);
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let truth: Vec<f64> = times.iter().map(|time| time * 0.04 / -best).collect();
    let pairs = |field: &Field| {
        let mut search = Search::new(field.prior(), Better::Lower);
        for _ in 0..3 {
            let block = search.next_block(50);
            search.push(&results(&search, &block, &truth, 0.03, 1));
        }
        search.worthwhile_pairs(40, 4)
    };
    assert!(pairs(&field) > 6, "{}", pairs(&field));
    field.plan.version = 3;
    assert_eq!(pairs(&field), 4);
}

#[test]
fn failure_after_a_success_does_not_drop() {
    let field = field("ryzen5-2600", Threads::Fixed(6));
    let mut search = Search::new(field.prior(), Better::Lower);
    let all: Vec<usize> = (0..field.placements.len()).collect();
    let with_failures = |fails: bool| {
        let result = |one: &usize| {
            if fails && *one == 2 { BlockResult::Failed("signal".into()) } else { BlockResult::Value(1.0) }
        };
        all.iter().map(|one| (*one, result(one))).collect::<Vec<_>>()
    };
    [false, true, true].into_iter().for_each(|fails| search.push(&with_failures(fails)));
    let standings = search.standings(&search.outlook());
    assert!(standings.iter().all(|one| !matches!(one.claim, SearchClaim::Dropped(_))), "{standings:?}");
}

#[test]
fn baseline_that_fails_ends_the_search() {
    let field = field("ryzen5-2600", Threads::Fixed(6));
    let mut search = Search::new(field.prior(), Better::Lower);
    for _ in 0..9 {
        let block = search.next_block(9);
        let result = |candidate: &usize| {
            (
                *candidate,
                if *candidate == 0 { BlockResult::Failed("exit status 1".into()) } else { BlockResult::Value(1.0) },
            )
        };
        search.push(&block.iter().map(result).collect::<Vec<_>>());
    }
    assert_eq!(search.state(), State::NoReference);
    assert!(search.next_block(50).is_empty());
}

#[test]
fn killed_trials_are_lower_bounds_and_drop_after_two() {
    let field = field("ryzen5-2600", Threads::Fixed(6));
    let count = field.placements.len();
    let mut search = Search::new(field.prior(), Better::Lower);
    let mut killed = 0;
    while killed < 2 {
        let block = search.next_block(count);
        let result = |candidate: &usize| {
            (*candidate, if *candidate == 1 { BlockResult::TooSlow { at_least: 5.0 } } else { BlockResult::Value(1.0) })
        };
        killed += usize::from(block.contains(&1));
        search.push(&block.iter().map(result).collect::<Vec<_>>());
    }
    assert!(search.abort_limit().is_some_and(|limit| (limit - 5.0).abs() < 1e-9), "{:?}", search.abort_limit());
    assert!(!search.survivors().contains(&1));
    assert_ne!(search.leader(), Some(1));
}

#[test]
fn larger_values_win_if_the_metric_is_to_be_maximised() {
    let field = field("ryzen5-2600", Threads::Fixed(6));
    let mut search = Search::new(field.prior(), Better::Higher);
    for _ in 0..5 {
        let block = search.next_block(8);
        let result = |candidate: &usize| (*candidate, BlockResult::Value(if *candidate == 2 { 130.0 } else { 100.0 }));
        search.push(&block.iter().map(result).collect::<Vec<_>>());
    }
    assert_eq!((search.leader(), search.abort_limit()), (Some(2), None));
    let prediction = search.outlook().predictions[2];
    assert!(prediction.low < prediction.mean && prediction.mean < prediction.high && prediction.high < 0.0);
    assert!(prediction.best > 0.5, "{prediction:?}");
}

#[test]
fn few_candidates_are_measured_and_resolved() {
    let all = field("ryzen5-2600", Threads::Fixed(6));
    for count in [1, 2, 3, 10] {
        let placements: Vec<Placement> = all.placements.iter().take(count).cloned().collect();
        let features = features(&all.plan, &placements, None);
        let prior = Arc::new(Prior::new(&all.plan, &features));
        let mut truth = vec![0.0; count];
        *truth.last_mut().unwrap() = -0.1;
        let (search, blocks) = run(&prior, &truth, 60, 4);
        if count == 1 {
            assert_eq!((search.state(), blocks.len()), (State::OnlyOneLeft, 0));
            continue;
        }
        assert_eq!(search.leader(), Some(count - 1), "{count}");
        assert!(search.missed().unwrap().mean < 0.02, "{count}: {:?}", search.missed());
    }
}

/// A search of version 3 ended after two blocks if a model was sure, with most trials unused.
#[test]
fn search_ends_early_only_if_no_draw_is_better() {
    let mut field = field("ryzen5-2600", Threads::Fixed(6));
    let mut good_and_trials = |version: u32| {
        let prior = field.prior_of_version(version);
        let runs = (0..100).map(|seed| {
            let mut random = Random::new(seed, "few candidates");
            let truth: Vec<f64> = (0..field.placements.len()).map(|_| 0.03 * random.normal()).collect();
            let (search, _) = run(&prior, &truth, 60, seed);
            (usize::from(regret(&search, &truth) < 0.02), search.trials())
        });
        runs.fold((0, 0), |(good, trials), run| (good + run.0, trials + run.1))
    };
    let (before, now) = (good_and_trials(3), good_and_trials(SEARCH_VERSION));
    println!("{before:?} {now:?}");
    assert!(now.0 > before.0 && now.0 >= 97, "{before:?} {now:?}");
}

/// A random candidate is faster than all others, so no other trial hints at it. A search of version 4 tried a third of the
/// candidates in 80 trials.
#[test]
fn late_blocks_explore_from_version_5_on() {
    let mut field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let mut tried_and_found = |version: u32| {
        let prior = field.prior_of_version(version);
        let runs = (0..12).map(|seed| {
            let mut truth = field.truth(ProgramKind::Sharing, seed);
            let chosen = 1 + Random::new(seed, "resonance").below(truth.len() - 1);
            truth[chosen] = truth.iter().copied().fold(f64::INFINITY, f64::min) - 0.1;
            let (search, _) = run(&prior, &truth, 80, seed);
            let tried = (0..truth.len()).filter(|candidate| search.trials_of(*candidate) > 0).count();
            (tried, usize::from(search.leader() == Some(chosen)))
        });
        runs.fold((0, 0), |(tried, found), run| (tried + run.0, found + run.1))
    };
    let (before, now) = (tried_and_found(4), tried_and_found(SEARCH_VERSION));
    println!("{before:?} {now:?}");
    assert!(now.0 * 2 > before.0 * 3 && now.1 >= before.1, "{before:?} {now:?}");
}

/// A search of version 4 ended as soon as its model was sure, even if the program fitted no model.
#[test]
fn search_ends_early_only_after_as_many_trials_as_candidates() {
    let mut field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let mut trials = |version: u32| {
        let prior = field.prior_of_version(version);
        let of_seed = |seed| {
            let mut truth = field.truth(ProgramKind::Sharing, seed);
            let best = (1..truth.len()).min_by(|one, other| truth[*one].total_cmp(&truth[*other])).unwrap();
            truth[best] -= 0.3;
            run(&prior, &truth, 100, seed).0.trials()
        };
        (0..5).map(of_seed).collect::<Vec<_>>()
    };
    let (before, now) = (trials(4), trials(SEARCH_VERSION));
    let candidates = field.placements.len();
    assert!(before.iter().any(|trials| *trials < candidates), "{before:?}");
    assert!(now.iter().all(|trials| *trials >= candidates && *trials < 100), "{now:?}");
}

#[test]
fn wrong_models_do_not_break_the_stated_bound() {
    // The times of a program belong to other candidates, so no simulated program is like it.
    let field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let prior = field.prior();
    let (mut held, runs) = (0, 12);
    for seed in 0..runs {
        let mut truth = field.truth(ProgramKind::Sharing, 7);
        let mut random = Random::new(seed, "permutation");
        for index in (2..truth.len()).rev() {
            truth.swap(index, 1 + random.below(index));
        }
        let (search, _) = run(&prior, &truth, 60, seed);
        held += u64::from(regret(&search, &truth).exp_m1() <= search.missed().unwrap().bound90);
    }
    assert!(held * 4 >= runs * 3, "{held} of {runs}");
}

/// `place` printed that a candidate was the best with 91 % and that the kernel's choice missed 0.1 %, next to fresh pairs
/// in which the candidate was 4 % slower.
#[test]
fn fresh_pairs_change_the_statements_about_the_answer() {
    let field = field("ryzen5-2600", Threads::Unspecified);
    let mut truth = vec![0.03; field.placements.len()];
    (truth[0], truth[1]) = (0.0, -0.04);
    let (search, _) = run(&field.prior(), &truth, 20, 4);
    assert_eq!(search.leader(), Some(1));
    let (leads, kept) = (search.outlook(), search.outlook_of(0));
    assert!(leads.predictions[1].best > 0.8, "{:?}", leads.predictions[1]);
    let [missed_by_leader, missed_by_baseline] = [&leads, &kept].map(|outlook| outlook.missed.unwrap().mean);
    assert!(missed_by_baseline > missed_by_leader + 0.02, "{missed_by_baseline} {missed_by_leader}");
    let pair = |seed| {
        let noise = 0.01 * Random::new(seed, "pair").normal();
        (noise.exp() * 1.04, 1.0)
    };
    let after = search.after_pairs(1, &(0..8).map(pair).collect::<Vec<_>>());
    let outlook = after.outlook_of(0);
    assert!(outlook.predictions[1].best < 0.5, "{:?}", outlook.predictions[1]);
    assert!(outlook.missed.unwrap().mean < missed_by_baseline - 0.01, "{:?}", outlook.missed);
    assert_eq!(search.after_pairs(1, &[(0.0, 1.0)]).outlook(), leads, "a value of 0 cannot be compared");
}

#[test]
fn guess_before_any_trial_predicts_every_candidate() {
    let field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let search = Search::new(field.prior(), Better::Lower);
    let outlook = search.outlook();
    assert_eq!((search.leader(), search.abort_limit()), (None, None));
    assert_eq!(outlook.predictions.len(), field.placements.len());
    assert!(outlook.missed.is_some_and(|missed| missed.mean > 0.0 && missed.bound90 >= missed.mean));
    let sum: f64 = outlook.predictions.iter().map(|one| one.best).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!(outlook.predictions[1..].iter().all(|one| one.low < one.high));
    let predicted = |standing: &SearchStanding| standing.claim == SearchClaim::Predicted;
    assert!(search.standings(&outlook).iter().all(predicted));
}

#[test]
fn search_without_assumptions_still_finds_the_best() {
    let mut field = field("ryzen5-2600", Threads::Fixed(6));
    field.plan.programs.clear();
    let mut truth = vec![0.0; field.placements.len()];
    truth[3] = -0.2;
    let (search, _) = run(&field.prior(), &truth, 60, 9);
    assert_eq!(search.leader(), Some(3));
}

#[test]
fn program_like_an_earlier_one_is_found_at_once() {
    let mut field = field("xeon-e5-2640-x2", Threads::Unspecified);
    field.plan.programs = vec![ProgramKind::Generic];
    let truth: Vec<f64> = {
        let mut random = Random::new(3, "unlike any other program");
        (0..field.placements.len()).map(|index| if index == 0 { 0.0 } else { 0.08 * random.normal() }).collect()
    };
    let regret_of = |field: &Field| {
        let (search, _) = run(&field.prior(), &truth, 14, 3);
        regret(&search, &truth)
    };
    let without = regret_of(&field);
    let log_times = truth.iter().map(|time| Some(*time)).collect();
    field.plan.earlier.push(EarlierProgram { name: "the same program".into(), log_times });
    let with = regret_of(&field);
    assert!(with < 0.01 && without > 0.03, "{with} with the earlier program, {without} without");
}

#[test]
fn hinted_number_of_threads_dominates_the_prior() {
    let field = field("xeon-e5-2640-x2", Threads::Unspecified);
    let hint = Some(Hint { threads: 6, busy: 5.8 });
    let features = features(&field.plan, &field.placements, hint);
    let total: f64 = features.tables.iter().map(|table| table.weight).sum();
    assert!((features.tables[0].candidates[0].threads - 6.0).abs() < 1e-9);
    assert!(features.tables[0].weight / total > 0.5);
    // Programs that run a thread on each CPU that they may use.
    let by_mask = features.tables.last().unwrap();
    assert!(by_mask.candidates.iter().skip(1).all(|one| (one.threads - one.used).abs() < 1e-9));
}

#[test]
fn plan_of_a_large_machine_is_stored_in_less_than_a_megabyte() {
    let plan = field("grace-cxl", Threads::Searched).plan;
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<SearchPlan>(&text).unwrap(), plan);
    // 30 bytes per CPU and 3 per pair of nodes: 45 KB for 1152 CPUs and 32 nodes.
    assert!(text.len() < 40 * plan.machine.cpus.len() + 4 * plan.machine.distances.len() + 500, "{}", text.len());
}

#[test]
fn share_of_pairs_is_a_tenth_but_at_least_three() {
    for (trials, pairs) in [(0, 3), (20, 3), (40, 4), (60, 6), (100, 10), (300, 30)] {
        assert_eq!(confirm_pairs(trials), pairs, "{trials}");
    }
}
