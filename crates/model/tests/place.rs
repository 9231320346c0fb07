//! The state of a race from block to block: the next block, its outcome, the end, and the same state after replaying
//! stored trials. Searches by a model are in `place/search.rs`, predictions in `place/prediction.rs`.

mod machines;
#[path = "place/prediction.rs"]
mod prediction;
#[path = "place/search.rs"]
mod search;

use model::analysis::place::{
    Claim, EarlierRun, MetricLabel, Objective, PlaceRequest, PlaceResult, PriorChoice, RaceState,
};
use model::placements::candidates::{SearchSpace, Threads};
use model::stats::racing::{RankClaim, State};
use model::values::capture::Capture;
use model::values::plan::RaceRules;
use model::values::plan::{NextBlock, Plan};
use model::values::record::{EndReason, RunId, RunRecord, TrialRecord};
use model::values::settings::Settings;
use model::values::topology::Topology;
use model::values::trial::{Evidence, Grade, Role, Sample, TrialOutcome, TrialStatus, Verdict};
use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, Reduce, WorkloadSpec};

const SECOND: Nanos = Nanos(1_000_000_000);
const HOUR: Nanos = Nanos(3_600_000_000_000);

fn ryzen() -> Topology {
    machines::model("ryzen5-2600")
}

fn command() -> WorkloadSpec {
    let metric = |name: &str, better| MetricSpec {
        name: name.into(),
        unit: "s".into(),
        better,
        series: name.into(),
        reduce: Reduce::Median,
    };
    let argv = ParameterSpec {
        name: "argv".into(),
        about: String::new(),
        kind: ParameterKind::Text,
        default: None,
        smoke: None,
    };
    WorkloadSpec {
        name: "command".into(),
        summary: String::new(),
        about: String::new(),
        parameters: vec![argv],
        metrics: vec![metric("wall", Better::Lower), metric("value", Better::Lower)],
        threads_exactly: None,
        trial_time_guess: SECOND,
    }
}

fn request() -> PlaceRequest {
    PlaceRequest {
        name: "app".into(),
        given: [("argv".to_string(), r#"["app", "-t", "{threads}"]"#.to_string())].into(),
        objective: Objective::WallTime,
        label: MetricLabel::default(),
        prior: PriorChoice::Topology,
        space: SearchSpace { threads: Threads::Fixed(4), ..SearchSpace::default() },
        rules: RaceRules { indifference: 0.01, strict: false, max_trials: None },
        budget: HOUR,
        time_limit: Nanos(100 * SECOND.0),
        places_files: false,
    }
}

fn plan(request: &PlaceRequest) -> Plan {
    request.plan(&ryzen(), &command()).expect("the request is valid")
}

/// A plan without a search, as earlier versions stored it.
fn race_plan(request: &PlaceRequest) -> Plan {
    let mut plan = plan(request);
    plan.race.as_mut().expect("the plan is a race").search = None;
    plan
}

/// Outcome of one attempt of a cell.
type Script<'a> = &'a dyn Fn(&NextBlock, usize, u32) -> (TrialStatus, Grade, f64);

/// Seconds by cell with deterministic noise; cell 2 is best by a wide margin.
fn steady(block: &NextBlock, cell: usize, _: u32) -> (TrialStatus, Grade, f64) {
    let best = if cell == 2 { 1.0 } else { 1.3 + 0.05 * cell as f64 };
    let noise = f64::from((block.number * 7 + cell as u32 * 13) % 11) / 1000.0;
    (TrialStatus::Completed, Grade::Valid, best + noise)
}

/// The trials of a block; each cell is repeated until an attempt is valid or the maximum is reached.
fn trials(plan: &Plan, block: &NextBlock, script: Script<'_>) -> Vec<TrialRecord> {
    let mut records = Vec::new();
    for cell in &block.cells {
        for attempt in 0..block.attempts_max {
            let (status, grade, seconds) = script(block, *cell, attempt);
            let completed = status == TrialStatus::Completed;
            let sample = |series: &str| Sample { series: series.into(), value: seconds };
            let mut trial = plan.trial("r", 1, *cell, block.role, block.number, attempt);
            trial.time_limit = block.time_limit_for(*cell);
            let record = TrialRecord {
                position: 0,
                trial,
                outcome: TrialOutcome {
                    status,
                    samples: if completed { vec![sample("wall"), sample("value")] } else { Vec::new() },
                    evidence: Evidence { wall: Nanos((seconds * 1e9) as u64), ..Evidence::default() },
                    started_unix_ms: 0,
                    took: Nanos((seconds * 1e9) as u64),
                },
                verdict: Verdict { grade, reasons: vec!["it ran elsewhere".into()] },
            };
            let again = record.is_retriable();
            records.push(record);
            if !again {
                break;
            }
        }
    }
    records
}

/// Runs a race to its end, and returns its state and all trials in order.
fn raced<'a>(plan: &'a Plan, script: Script<'_>) -> (RaceState<'a>, Vec<TrialRecord>) {
    let mut state = RaceState::new(plan).expect("the plan is a race");
    let mut all = Vec::new();
    while let Some(block) = state.next() {
        let records = trials(plan, &block, script);
        state.push(&block, &records.iter().collect::<Vec<_>>());
        all.extend(records);
        assert!(all.len() < 20_000, "the race does not end");
    }
    (state, all)
}

fn record(plan: Plan) -> RunRecord {
    RunRecord {
        id: RunId("r".into()),
        plan,
        seed: 1,
        machine: Capture::new(ryzen(), Settings::default()),
        host: None,
        simulated: None,
        started_unix_ms: 0,
        ended: None,
        program: String::new(),
    }
}

#[test]
fn place_warms_up_races_and_confirms() {
    let plan = plan(&request());
    let (state, all) = raced(&plan, &steady);
    let roles: Vec<Role> = all.chunk_by(|a, b| a.trial.role == b.trial.role).map(|part| part[0].trial.role).collect();
    assert_eq!(roles, [Role::Warmup, Role::Measured, Role::Confirm]);
    assert_eq!(all.iter().filter(|record| record.trial.role == Role::Warmup).count(), 1);
    let confirming: Vec<usize> =
        all.iter().filter(|record| record.trial.role == Role::Confirm).map(|record| record.trial.cell).collect();
    assert!(confirming.len() >= 20 && confirming.chunks(2).all(|pair| pair == [0, 2]), "{confirming:?}");
    assert_eq!((state.end_reason(), state.search_state()), (Some(EndReason::Resolved), State::Resolved));
    let record = record(plan.clone());
    let result = PlaceResult::from_state(&record, &state);
    assert_eq!(result.claim, Claim::Better);
    let versus = result.versus_kernel.expect("the winner was confirmed");
    assert!((versus.change_percent - (100.0 / 1.3 - 100.0)).abs() < 0.5, "{versus:?}");
    let lines = result.lines.expect("the winner has bindings");
    let cpus = &plan.cells[2].placement.cpus();
    assert_eq!(lines.taskset, Some(format!("taskset -c {cpus} app -t 4")));
}

#[test]
fn place_has_the_same_state_after_replaying_stored_trials() {
    let plan = plan(&request());
    let (state, all) = raced(&plan, &steady);
    let record = record(plan.clone());
    let result = PlaceResult::from_state(&record, &state);
    assert_eq!(PlaceResult::of(&record, &all), Some(result));
    for cut in [0, 1, 7, all.len() / 2, all.len() - 1] {
        let replayed = RaceState::replay(&plan, &all[..cut]).expect("the plan is a race");
        let next = replayed.next().expect("a trial is missing");
        // The next block is the one of the first missing trial, or the interrupted one.
        assert_eq!((next.role, next.number), (all[cut].trial.role, all[cut].trial.block), "cut at {cut}");
    }
}

#[test]
fn place_stops_slow_trials_but_never_the_baseline() {
    let request = request();
    let wall = plan(&request);
    let mut state = RaceState::new(&wall).expect("the plan is a race");
    for _ in 0..2 {
        let block = state.next().expect("the race is running");
        assert_eq!(block.time_limit_for(3), Nanos(100 * SECOND.0), "no limit before two blocks");
        let records = trials(&wall, &block, &steady);
        state.push(&block, &records.iter().collect::<Vec<_>>());
    }
    let block = state.next().expect("the race is running");
    let (limit, reference) = (block.time_limit_for(3).seconds(), block.time_limit_for(0));
    assert!((4.9..5.2).contains(&limit), "not five times 1 s: {limit}");
    assert_eq!(reference, Nanos(100 * SECOND.0));
    // Short trials have a minimum limit, because a short disturbance takes many times the median.
    let short = |block: &NextBlock, cell: usize, attempt: u32| {
        let (status, grade, seconds) = steady(block, cell, attempt);
        (status, grade, seconds / 100.0)
    };
    let mut state = RaceState::new(&wall).expect("the plan is a race");
    for _ in 0..2 {
        let block = state.next().expect("the race is running");
        let records = trials(&wall, &block, &short);
        state.push(&block, &records.iter().collect::<Vec<_>>());
    }
    assert_eq!(state.next().expect("the race is running").time_limit_for(3), SECOND);
    // For other metrics than the time, there is no limit.
    let number = plan(&PlaceRequest { objective: Objective::Number, ..request });
    let (_, all) = raced(&number, &steady);
    assert!(all.iter().all(|record| record.trial.time_limit == Nanos(100 * SECOND.0)));
}

#[test]
fn place_reports_candidates_without_valid_trials() {
    let plan = plan(&request());
    let outcomes = |block: &NextBlock, cell: usize, attempt: u32| match (cell, attempt) {
        (1, _) => (TrialStatus::Failed("status 3".into()), Grade::Invalid, 0.1),
        (3, _) => (TrialStatus::Completed, Grade::Invalid, 1.0),
        (4, _) if block.role == Role::Measured => (TrialStatus::TimedOut("100 s".into()), Grade::Invalid, 100.0),
        // The first attempt is invalid, the second is valid.
        (2, 0) if block.number % 2 == 1 => (TrialStatus::Completed, Grade::Invalid, 1.0),
        _ => steady(block, cell, attempt),
    };
    let (state, all) = raced(&plan, &outcomes);
    let record = record(plan.clone());
    let result = PlaceResult::from_state(&record, &state);
    let word = |cell: usize| &result.standings.iter().find(|one| one.cell == cell).expect("it is ranked").word;
    assert_eq!(word(1), &RankClaim::Failed("status 3".into()));
    assert_eq!(word(3), &RankClaim::NotProven("it ran elsewhere".into()));
    assert!(matches!(word(4), RankClaim::TooSlow { .. }), "{:?}", word(4));
    assert_eq!((word(2), result.claim), (&RankClaim::Leads, Claim::Better));
    let repeated =
        |cell: usize| all.iter().filter(|record| record.trial.cell == cell && record.trial.attempt == 1).count();
    assert!(repeated(2) > 0 && repeated(1) == repeated(3) && repeated(1) >= 3, "dropped after three");
    assert_eq!(repeated(4), 0, "a timeout is not repeated");
}

#[test]
fn place_requires_the_baseline() {
    let plan = race_plan(&request());
    let broken = |_: &NextBlock, _: usize, _: u32| (TrialStatus::Failed("status 1".into()), Grade::Invalid, 0.1);
    let (state, all) = raced(&plan, &broken);
    assert_eq!((state.end_reason(), all.len()), (Some(EndReason::NoReference), 2), "only the baseline runs, twice");
    let record = record(plan.clone());
    let result = PlaceResult::from_state(&record, &state);
    assert_eq!((result.claim, result.reference_failed.as_deref()), (Claim::NoReference, Some("status 1")));
    assert_eq!((result.winner, result.lines), (None, None));
}

#[test]
fn place_requires_a_command_that_ends() {
    let plan = plan(&request());
    let endless = |_: &NextBlock, _: usize, _: u32| (TrialStatus::TimedOut("100 s".into()), Grade::Invalid, 100.0);
    let (state, all) = raced(&plan, &endless);
    assert_eq!((state.end_reason(), all.len()), (Some(EndReason::NoReference), 1));
}

#[test]
fn place_uses_at_most_the_budget() {
    // The budget is shorter than one trial, which is stopped at its end; a block of ten exceeds it, too.
    let short = race_plan(&PlaceRequest { budget: Nanos(5 * SECOND.0), ..request() });
    let mut state = RaceState::new(&short).expect("the plan is a race");
    let block = state.next().expect("the race is running");
    assert_eq!(block.time_limit_after(0, Nanos(0)), Some(Nanos(5 * SECOND.0)));
    let records = trials(&short, &block, &steady);
    state.push(&block, &records.iter().collect::<Vec<_>>());
    assert_eq!((state.next(), state.end_reason()), (None, Some(EndReason::Budget)));
    let record = record(short.clone());
    let result = PlaceResult::from_state(&record, &state);
    assert_eq!((result.claim, result.winner, result.trials), (Claim::Inconclusive, None, 1));
}

#[test]
fn place_confirms_again_if_the_pairs_were_too_few() {
    let plan = plan(&request());
    // The confirmation has more noise than the race, so the number of pairs estimated by the race is too small.
    let later = |block: &NextBlock, cell: usize, attempt: u32| {
        let (status, grade, seconds) = steady(block, cell, attempt);
        let hash = block.number.wrapping_mul(2_654_435_761).wrapping_add(cell as u32 * 40_503) >> 7;
        let noise = if block.role == Role::Confirm { f64::from(hash % 97) / 250.0 } else { 0.0 };
        (status, grade, if cell == 0 { 1.02 + noise } else { seconds + noise })
    };
    let (state, all) = raced(&plan, &later);
    let confirmed = state.confirmed(1).expect("the winner was confirmed");
    let pairs = all.iter().filter(|record| record.trial.role == Role::Confirm).count() as u32 / 2;
    assert!(confirmed.pairs > 10 && pairs == 10 + confirmed.pairs, "{pairs} pairs, {confirmed:?}");
    let record = record(plan.clone());
    assert_eq!(PlaceResult::of(&record, &all), Some(PlaceResult::from_state(&record, &state)));
}

#[test]
fn place_keeps_its_budget_and_a_reserve() {
    // 100 s are a few blocks of ten candidates; 15 % or twenty pairs are reserved for the confirmation.
    let plan = race_plan(&PlaceRequest { budget: Nanos(100 * SECOND.0), ..request() });
    let close = |block: &NextBlock, cell: usize, _: u32| {
        let hash = block.number.wrapping_mul(2_654_435_761).wrapping_add(cell as u32 * 40_503) >> 7;
        (TrialStatus::Completed, Grade::Valid, 1.0 + f64::from(hash % 97) / 1000.0)
    };
    let (state, all) = raced(&plan, &close);
    assert_eq!(state.end_reason(), Some(EndReason::Budget));
    assert_eq!(state.search_state(), State::OutOfBudget);
    assert!(state.spent() < Nanos(101 * SECOND.0), "{}", state.spent());
    let confirming = all.iter().filter(|record| record.trial.role == Role::Confirm).count();
    assert!(state.leader() == Some(0) || confirming >= 20, "{confirming} confirmation trials");
    let record = record(plan.clone());
    assert!(matches!(PlaceResult::from_state(&record, &state).claim, Claim::Inconclusive | Claim::Better));
}

#[test]
fn place_reports_that_nothing_is_better_than_the_baseline() {
    let plan = race_plan(&request());
    let kernel = |block: &NextBlock, cell: usize, attempt: u32| {
        let (status, grade, seconds) = steady(block, cell, attempt);
        (status, grade, if cell == 0 { 0.9 } else { seconds })
    };
    let (state, all) = raced(&plan, &kernel);
    let record = record(plan.clone());
    let result = PlaceResult::from_state(&record, &state);
    assert_eq!(
        (result.claim, result.winner.map(|winner| winner.placement)),
        (Claim::KernelIsBest, Some("kernel".into()))
    );
    assert!(all.iter().all(|record| record.trial.role != Role::Confirm), "there is nothing to confirm");
    assert!(result.lines.is_none() && result.versus_kernel.is_none());
}
