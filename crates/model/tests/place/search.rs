//! Searches from block to block: an answer for every budget, the same state after every interruption, and the result.

use std::collections::BTreeMap;

use super::*;

/// 36 candidates, and few trials for them.
fn request_of(budget_seconds: u64) -> PlaceRequest {
    let space = SearchSpace { threads: Threads::Searched, ..SearchSpace::default() };
    PlaceRequest { space, budget: Nanos(budget_seconds * SECOND.0), ..request() }
}

/// Ten seconds with 12 threads, more with fewer; a quarter less if the threads are pinned. Noise of about 1 %.
fn scaling(plan: &Plan) -> impl Fn(&NextBlock, usize, u32) -> (TrialStatus, Grade, f64) + '_ {
    move |block, cell, _| {
        let placement = &plan.cells[cell].placement;
        let pinned = if placement.is_pinned() { 0.75 } else { 1.0 };
        (TrialStatus::Completed, Grade::Valid, pinned * (8.0 + 24.0 / placement.threads as f64) * noise(block, cell))
    }
}

fn noise(block: &NextBlock, cell: usize) -> f64 {
    let hash = (block.number.wrapping_mul(2_654_435_761).wrapping_add(cell as u32 * 40_503) >> 9) % 1000;
    1.0 + (f64::from(hash) - 500.0) / 25_000.0
}

fn result(plan: &Plan, state: &RaceState<'_>) -> PlaceResult {
    PlaceResult::from_state(&record(plan.clone()), state)
}

fn of_role(all: &[TrialRecord], role: Role) -> usize {
    all.iter().filter(|record| record.trial.role == role).count()
}

#[test]
fn every_budget_ends_with_an_answer_and_is_kept() {
    for seconds in [30, 60, 100, 200, 400, 600, 1200] {
        let plan = plan(&request_of(seconds));
        let (state, all) = in_time(&plan, &scaling(&plan));
        let answer = result(&plan, &state);
        assert!(state.spent().seconds() < seconds as f64 + 1.0, "{seconds} s: {}", state.spent());
        assert!(!matches!(answer.claim, Claim::Inconclusive | Claim::Unfinished), "{seconds} s: {:?}", answer.claim);
        assert!(answer.winner.is_some(), "{seconds} s");
        if seconds >= 200 {
            assert!(answer.versus_kernel.is_some_and(|versus| versus.pairs >= 3), "{seconds} s: {answer:?}");
            assert!(of_role(&all, Role::Measured) >= 7, "{seconds} s: {} trials", all.len());
        }
    }
}

#[test]
fn third_of_a_short_budget_confirms_and_the_rest_searches() {
    let mut request = request_of(100_000);
    for (trials, pairs) in [(20, 3), (40, 4), (60, 6), (100, 10)] {
        request.rules.max_trials = Some(trials);
        let plan = plan(&request);
        let (state, all) = raced(&plan, &scaling(&plan));
        let confirming = of_role(&all, Role::Confirm);
        assert!(confirming >= 2 * pairs && state.trials() as usize <= trials, "{trials}: {confirming}");
        assert!(state.trials() as usize + 2 >= trials || confirming >= 20, "{trials}: only {} used", state.trials());
    }
}

#[test]
fn budget_without_pairs_gives_a_provisional_answer() {
    let plan = plan(&request_of(70));
    let (state, all) = raced(&plan, &scaling(&plan));
    assert_eq!(of_role(&all, Role::Confirm), 0);
    let answer = result(&plan, &state);
    assert_eq!((answer.claim, answer.versus_kernel), (Claim::Provisional, None));
    let outlook = answer.outlook.expect("the model has predictions");
    assert!(outlook.winner.low <= outlook.winner.mean && outlook.winner.mean <= outlook.winner.high, "{outlook:?}");
    assert!(answer.lines.is_none(), "a prediction is not applied");
}

/// `--max-trials 8` ended as provisional after 5 trials, although the only other candidate took twice the time.
#[test]
fn race_of_two_uses_the_trials_that_are_too_few_for_pairs() {
    let mut request = request();
    request.space.only = vec!["compact".into()];
    let twice = |block: &NextBlock, cell: usize, _: u32| {
        (TrialStatus::Completed, Grade::Valid, [1.0, 2.0][cell] * noise(block, cell))
    };
    for trials in 7..=20 {
        request.rules.max_trials = Some(trials);
        let plan = plan(&request);
        let (state, all) = raced(&plan, &twice);
        assert!((trials - 1..=trials).contains(&all.len()), "{trials}: {} trials", all.len());
        assert_eq!(of_role(&all, Role::Confirm) > 0, trials > 10, "{trials}");
        assert_eq!(result(&plan, &state).claim, Claim::KernelIsBest, "{trials}");
        assert!(all.len() > earlier_version(plan, &twice) || trials > 10, "{trials}");
    }
}

/// Number of trials of a plan that version 2 of the search made.
fn earlier_version(mut plan: Plan, script: Script<'_>) -> usize {
    plan.race.as_mut().and_then(|race| race.search.as_mut()).expect("a search").version = 2;
    raced(&plan, script).1.len()
}

#[test]
fn candidate_of_the_pairs_has_its_measured_value() {
    let mut request = request_of(600);
    request.rules.max_trials = Some(8);
    let plan = plan(&request);
    let (state, all) = raced(&plan, &scaling(&plan));
    assert_eq!((of_role(&all, Role::Measured), of_role(&all, Role::Confirm)), (0, 6));
    let answer = result(&plan, &state);
    assert!(answer.winner.is_some(), "{:?}", answer.claim);
    let ran: BTreeMap<usize, _> = answer
        .standings
        .iter()
        .filter(|row| row.word == RankClaim::Paired)
        .map(|row| (row.cell, row.measured))
        .collect();
    let challenger = state.challenger().expect("pairs");
    assert_eq!(ran.keys().copied().collect::<Vec<_>>(), [0, challenger]);
    let values = answer.versus_kernel.and_then(|versus| versus.values).expect("three pairs");
    for (cell, value) in [(challenger, values.leader), (0, values.baseline)] {
        let median = ran[&cell].expect("three values").median;
        assert!((median / value - 1.0).abs() < 0.03, "{median}, {value}");
    }
}

#[test]
fn one_trial_allows_a_guess() {
    let mut request = request_of(600);
    request.rules.max_trials = Some(1);
    let plan = plan(&request);
    let (state, all) = raced(&plan, &scaling(&plan));
    assert_eq!((all.len(), state.end_reason()), (1, Some(EndReason::Budget)));
    let answer = result(&plan, &state);
    assert_eq!(answer.claim, Claim::Provisional);
    assert!(answer.standings.iter().all(|row| row.cell == 0 || row.predicted.is_some()), "{:?}", answer.standings);
}

#[test]
fn search_has_the_same_result_after_every_interruption() {
    let plan = plan(&request_of(300));
    let (state, all) = raced(&plan, &scaling(&plan));
    let record = record(plan.clone());
    let expected = PlaceResult::from_state(&record, &state);
    assert_eq!(PlaceResult::of(&record, &all), Some(expected));
    for cut in 0..all.len() {
        let replayed = RaceState::replay(&plan, &all[..cut]).expect("the plan is a race");
        let next = replayed.next().expect("a trial is missing");
        assert_eq!((next.role, next.number), (all[cut].trial.role, all[cut].trial.block), "cut at {cut}");
        assert!(next.cells.contains(&all[cut].trial.cell), "cut at {cut}: {:?}", next.cells);
    }
}

#[test]
fn slow_block_ends_with_its_time_and_counts_as_complete() {
    let plan = plan(&request_of(120));
    // Every candidate takes four times as long as the baseline.
    let slow = |block: &NextBlock, cell: usize, _: u32| {
        let seconds = if cell == 0 { 5.0 } else { 20.0 };
        (TrialStatus::Completed, Grade::Valid, seconds * noise(block, cell))
    };
    let (state, all) = in_time(&plan, &slow);
    assert!(state.spent().seconds() < 121.0, "{}", state.spent());
    let replayed = RaceState::replay(&plan, &all).expect("the plan is a race");
    assert_eq!((replayed.end_reason(), replayed.trials()), (state.end_reason(), all.len() as u32));
}

/// Like [`raced`], with the limits of time that a runner observes.
fn in_time<'a>(plan: &'a Plan, script: Script<'_>) -> (RaceState<'a>, Vec<TrialRecord>) {
    let mut state = RaceState::new(plan).expect("the plan is a race");
    let mut all = Vec::new();
    while let Some(block) = state.next() {
        let mut spent = Nanos(0);
        let mut records = Vec::new();
        for record in trials(plan, &block, script) {
            let Some(limit) = block.time_limit_after(record.trial.cell, spent) else { continue };
            spent.0 += record.outcome.took.0.min(limit.0);
            records.push(cut_at(record, limit));
        }
        state.push(&block, &records.iter().collect::<Vec<_>>());
        all.extend(records);
        assert!(all.len() < 5000, "the search does not end");
    }
    (state, all)
}

/// Kills a trial at its limit.
fn cut_at(mut record: TrialRecord, limit: Nanos) -> TrialRecord {
    record.trial.time_limit = limit;
    if record.outcome.took > limit {
        record.outcome.took = limit;
        record.outcome.status = TrialStatus::timed_out(limit);
        record.outcome.samples.clear();
        record.verdict.grade = Grade::Invalid;
    }
    record
}

#[test]
fn race_follows_the_search_if_the_budget_allows_it() {
    let mut request = request_of(100_000);
    request.rules.max_trials = Some(700);
    let plan = plan(&request);
    let (state, all) = raced(&plan, &scaling(&plan));
    let race = state.race().expect("a race follows");
    assert!(race.blocks() > 3 && state.blocks() > race.blocks(), "{} and {}", race.blocks(), state.blocks());
    assert!(all.len() <= 700, "{}", all.len());
    let answer = result(&plan, &state);
    assert_eq!((answer.claim, answer.lines.is_some()), (Claim::Better, true));
    let outlook = answer.outlook.expect("there was a search");
    assert!(outlook.missed_percent.is_none() && outlook.left_out_percent.is_some(), "{outlook:?}");
    let numbers: Vec<u32> =
        all.iter().filter(|one| one.trial.role == Role::Measured).map(|one| one.trial.block).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1), "{numbers:?}");
}

#[test]
fn unusable_candidates_are_left_out_and_reported() {
    let plan = plan(&request_of(2000));
    let healthy = scaling(&plan);
    let outcomes = |block: &NextBlock, cell: usize, attempt: u32| match cell % 3 {
        1 => (TrialStatus::Failed("status 3".into()), Grade::Invalid, 1.0),
        _ => healthy(block, cell, attempt),
    };
    let (state, all) = raced(&plan, &outcomes);
    let answer = result(&plan, &state);
    assert!(
        answer.claim == Claim::Better && state.challenger().is_some_and(|cell| cell % 3 != 1),
        "{:?}",
        answer.claim
    );
    let mut failed: BTreeMap<usize, usize> = BTreeMap::new();
    all.iter().filter(|one| one.trial.cell % 3 == 1).for_each(|one| *failed.entry(one.trial.cell).or_default() += 1);
    assert!(failed.values().all(|count| *count <= 6), "a race drops after three blocks: {failed:?}");
    assert_eq!(answer.program_failures, None, "only some placements fail");
    assert!(answer.standings.iter().any(|row| matches!(row.word, RankClaim::Failed(_))), "{:?}", answer.standings);
}

#[test]
fn failing_candidate_costs_a_search_two_trials() {
    let plan = plan(&request_of(600));
    let healthy = scaling(&plan);
    let outcomes = |block: &NextBlock, cell: usize, attempt: u32| match cell % 3 {
        1 => (TrialStatus::Failed("status 3".into()), Grade::Invalid, 1.0),
        _ => healthy(block, cell, attempt),
    };
    let (state, all) = raced(&plan, &outcomes);
    assert!(state.race().is_none(), "the budget is too small for a race");
    let mut failed: BTreeMap<usize, usize> = BTreeMap::new();
    all.iter().filter(|one| one.trial.cell % 3 == 1).for_each(|one| *failed.entry(one.trial.cell).or_default() += 1);
    assert!(!failed.is_empty() && failed.values().all(|count| *count == 2), "{failed:?}");
}

/// A CPU goes offline during a search: from then on, programs placed on it do not start.
#[test]
fn placements_that_stop_working_do_not_end_a_search() {
    let plan = plan(&request_of(600));
    let healthy = scaling(&plan);
    let searched = |seconds: f64| {
        let outcomes = |block: &NextBlock, cell: usize, attempt: u32| match cell % 3 {
            1 if block.number > 2 => (TrialStatus::Failed("cannot set the affinity".into()), Grade::Invalid, seconds),
            _ => healthy(block, cell, attempt),
        };
        let (state, all) = raced(&plan, &outcomes);
        let failed = all.iter().filter(|one| one.outcome.status != TrialStatus::Completed).count();
        (result(&plan, &state), failed * 10 > all.len())
    };
    let (answer, often) = searched(0.0);
    assert!(often, "more than a tenth of the trials failed");
    assert_ne!(answer.claim, Claim::ProgramFails);
    assert_eq!(answer.program_failures, None);
    assert_eq!(searched(1.0).0.claim, Claim::ProgramFails, "a program that started failed by itself");
}

#[test]
fn program_that_fails_in_a_tenth_of_its_runs_has_no_answer() {
    let plan = plan(&request_of(1500));
    let healthy = scaling(&plan);
    let failing = |every: u32| {
        let outcomes = |block: &NextBlock, cell: usize, attempt: u32| {
            let turn = block.number * 7 + cell as u32 * 3 + attempt;
            if block.role != Role::Warmup && turn % 32 < every {
                (TrialStatus::Failed("status 1: no luck".into()), Grade::Invalid, 1.0)
            } else {
                healthy(block, cell, attempt)
            }
        };
        let (state, _) = raced(&plan, &outcomes);
        result(&plan, &state)
    };
    let some = failing(1);
    let failures = some.program_failures.expect("some runs failed");
    assert!(!failures.most && failures.last == "status 1: no luck", "{failures:?}");
    assert_ne!(some.claim, Claim::ProgramFails);
    for often in [6, 16, 24] {
        let failing = failing(often);
        assert!(matches!(failing.claim, Claim::ProgramFails | Claim::NoReference), "{often}: {:?}", failing.claim);
        assert_eq!((failing.winner, failing.lines), (None, None), "{often}");
    }
}

#[test]
fn warm_up_is_tried_three_times() {
    let plan = plan(&request_of(600));
    let flaky = |block: &NextBlock, cell: usize, attempt: u32| match (block.role, attempt) {
        (Role::Warmup, 0 | 1) => (TrialStatus::Failed("status 1".into()), Grade::Invalid, 1.0),
        _ => scaling(&plan)(block, cell, attempt),
    };
    let (state, _) = raced(&plan, &flaky);
    assert_ne!(state.end_reason(), Some(EndReason::NoReference));
    let broken = |_: &NextBlock, _: usize, _: u32| (TrialStatus::Failed("status 1".into()), Grade::Invalid, 0.1);
    let (state, all) = raced(&plan, &broken);
    assert_eq!((state.end_reason(), all.len()), (Some(EndReason::NoReference), 3));
}

#[test]
fn equal_candidates_exclude_a_gain() {
    let plan = plan(&request_of(600));
    let equal =
        |block: &NextBlock, cell: usize, _: u32| (TrialStatus::Completed, Grade::Valid, 10.0 * noise(block, cell));
    let (state, _) = raced(&plan, &equal);
    let answer = result(&plan, &state);
    assert_eq!(answer.claim, Claim::NoDifferenceSeen, "{:?}", answer.versus_kernel);
    let versus = answer.versus_kernel.expect("fresh pairs are always reported");
    let (excluded, by_pairs) = (answer.excluded_gain_percent.unwrap(), versus.excluded_gain_percent(Better::Lower));
    assert!(
        excluded < 5.0 && (excluded - by_pairs).abs() > 1e-6,
        "the trials of the search count: {excluded}, {versus:?}"
    );
    assert_eq!(answer.winner.map(|winner| winner.placement), Some(plan.cells[0].placement.name.clone()));
}

#[test]
fn baseline_has_all_cpus_and_thread_effects_are_separate() {
    let plan = plan(&request_of(1500));
    assert_eq!((plan.cells[0].placement.threads, plan.baseline.as_deref()), (12, Some("kernel, 12 threads")));
    let bare = plan.cells.iter().position(|cell| cell.placement.name == "kernel, 4 threads").expect("a candidate");
    // Four threads are best, wherever they run.
    let serial = |block: &NextBlock, cell: usize, _: u32| {
        let threads = plan.cells[cell].placement.threads as f64;
        let own = if cell == bare { 0.97 } else { 1.0 };
        (TrialStatus::Completed, Grade::Valid, own * (10.0 + (threads - 4.0).abs()) * noise(block, cell))
    };
    let (state, _) = raced(&plan, &serial);
    let answer = result(&plan, &state);
    let effect = answer.thread_effect.expect("the number of threads differs");
    assert_eq!((effect.threads, effect.baseline_threads), (4, 12));
    assert_eq!(effect.is_all, state.challenger() == Some(bare));
    assert!(effect.alone.is_some_and(|alone| alone.mean < -20.0), "{effect:?}");
    assert_eq!(answer.command.as_deref(), Some("app -t 4"));
}

#[test]
fn metric_has_the_name_and_unit_of_the_user() {
    let label = MetricLabel { name: Some("tps".into()), unit: Some("1/s".into()) };
    let plan = plan(&PlaceRequest { objective: Objective::Number, label, ..request_of(600) });
    let (state, _) = raced(&plan, &scaling(&plan));
    let answer = result(&plan, &state);
    assert_eq!((answer.metric.name.as_str(), answer.metric.unit.as_str()), ("tps", "1/s"));
    let values = answer.versus_kernel.and_then(|versus| versus.values).expect("pairs have values");
    assert!((9.0..12.0).contains(&values.baseline), "{values:?}");
}

#[test]
fn disturbed_trials_are_counted_with_their_reason() {
    let plan = plan(&request_of(600));
    let noisy = |block: &NextBlock, cell: usize, attempt: u32| {
        let (status, _, seconds) = scaling(&plan)(block, cell, attempt);
        (status, if cell % 2 == 1 { Grade::Suspect } else { Grade::Valid }, seconds)
    };
    let (state, all) = raced(&plan, &noisy);
    let answer = result(&plan, &state);
    let odd = all.iter().filter(|one| one.trial.cell % 2 == 1).count() as u32;
    assert!(odd > 0 && answer.suspect == odd, "{} of {odd}", answer.suspect);
    assert_eq!(answer.suspect_reason.as_deref(), Some("it ran elsewhere"));
}

#[test]
fn earlier_program_is_an_assumption_of_the_next_search() {
    let plain = plan(&request_of(600));
    let (_, all) = raced(&plain, &scaling(&plain));
    let earlier = EarlierRun::new(&record(plain.clone()), &all).expect("it is a search with results");
    let informed = plan(&PlaceRequest { prior: PriorChoice::Store(vec![earlier]), ..request_of(600) });
    let search = informed.race.as_ref().and_then(|race| race.search.as_ref()).expect("a search");
    let times = &search.earlier[0].log_times;
    assert_eq!((times.len(), times[0]), (informed.cells.len(), Some(0.0)));
    let measured: Vec<usize> = (1..times.len()).filter(|cell| times[*cell].is_some()).collect();
    let ran = |cell: usize| all.iter().any(|one| one.trial.role == Role::Measured && one.trial.cell == cell);
    assert!(!measured.is_empty() && measured.iter().all(|cell| ran(*cell)), "{measured:?}");
    for cell in measured {
        let placement = &informed.cells[cell].placement;
        let expected =
            (if placement.is_pinned() { 0.75 } else { 1.0 } * (8.0 + 24.0 / placement.threads as f64) / 10.0).ln();
        assert!((times[cell].unwrap_or_default() - expected).abs() < 0.05, "{cell}: {times:?}");
    }
    assert_ne!(informed.key(), plain.key(), "another search");
    let (state, _) = raced(&informed, &scaling(&informed));
    assert_eq!(result(&informed, &state).claim, Claim::Better);
}

#[test]
fn search_without_assumptions_has_an_answer() {
    let plan = plan(&PlaceRequest { prior: PriorChoice::None, ..request_of(600) });
    let (state, _) = raced(&plan, &scaling(&plan));
    let answer = result(&plan, &state);
    assert!(answer.versus_kernel.is_some() && answer.claim != Claim::Inconclusive, "{:?}", answer.claim);
}
