//! The run loop on a scripted and on a simulated machine: order, retries, abandoned cells, end reasons, resume.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::executor::Executor;
use lab::progress::{RunEnd, RunEvent};
use lab::run::run;
use lab::sim::{Faults, SimExecutor};
use model::analysis::compare::{ComparedRun, ComparisonRequest, compare};
use model::analysis::finding::{RunFinding, summarise};
use model::analysis::gate::GateVerdict;
use model::values::capture::Capture;
use model::values::id_set::{CpuId, CpuSet};
use model::values::placement::Placement;
use model::values::plan::{By, Cell, GatePlan, Plan, StoppingRule};
use model::values::record::{EndReason, RunId, RunRecord, TrialRecord};
use model::values::settings::Settings;
use model::values::topology::{Object, ObjectKind, Topology};
use model::values::trial::{Evidence, Grade, Role, Sample, Trial, TrialOutcome, TrialStatus, Verdict};
use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, Parameters, Reduce, WorkloadSpec};
use store::Store;

const SECOND: Nanos = Nanos(1_000_000_000);

/// Computes the outcome of every trial with a function.
struct Scripted<F: FnMut(&Trial) -> TrialOutcome>(F);

impl<F: FnMut(&Trial) -> TrialOutcome> Executor for Scripted<F> {
    fn run(&mut self, _position: u32, trial: &Trial) -> Option<TrialOutcome> {
        Some((self.0)(trial))
    }
}

fn outcome(trial: &Trial, value: f64) -> TrialOutcome {
    let cpus = trial.placement.cpus();
    let mask = trial.placement.is_pinned().then_some(cpus.clone());
    let evidence = Evidence { mask_at_start: mask, cpus_seen: cpus, wall: SECOND, ..Evidence::default() };
    let samples = vec![Sample { series: "speed".into(), value }];
    TrialOutcome { status: TrialStatus::Completed, samples, evidence, started_unix_ms: 0, took: SECOND }
}

/// Values that differ by a few percent between trials.
fn noisy(trial: &Trial) -> TrialOutcome {
    outcome(trial, 100.0 + (trial.seed % 11) as f64)
}

fn spec() -> WorkloadSpec {
    let metric = MetricSpec {
        name: "speed".into(),
        unit: "1/s".into(),
        better: Better::Higher,
        series: "speed".into(),
        reduce: Reduce::Median,
    };
    WorkloadSpec {
        name: "w".into(),
        summary: String::new(),
        about: String::new(),
        parameters: Vec::new(),
        metrics: vec![metric],
        threads_exactly: None,
        trial_time_guess: SECOND,
    }
}

fn seated(name: &str, cpu: u32) -> Placement {
    Placement { name: name.into(), bindings: vec![CpuId(cpu)], ..Placement::kernel(1) }
}

fn kernel_and(name: &str) -> Vec<Placement> {
    vec![Placement::kernel(1), seated(name, 1)]
}

fn repeat(min: u32, max: u32) -> StoppingRule {
    StoppingRule { warmup: 1, min, max, precision: 0.01, budget: Nanos(3600 * SECOND.0), time_limit: SECOND }
}

fn record(placements: Vec<Placement>, repeat: StoppingRule) -> RunRecord {
    let cell = |placement| Cell::new(&spec(), "w".into(), Parameters::default(), placement);
    let plan = Plan {
        experiment: "e".into(),
        question: String::new(),
        cells: placements.into_iter().map(cell).collect(),
        skipped: Vec::new(),
        workloads: vec![spec()],
        repeat,
        compare_by: "placement".into(),
        baseline: None,
        efficiency: Vec::new(),
        budget_wins: false,
        race: None,
        size: None,
        gate: None,
        command: Vec::new(),
    };
    RunRecord {
        id: RunId("r".into()),
        plan,
        seed: 5,
        machine: Capture::new(Topology::default(), Settings::default()),
        host: None,
        simulated: None,
        started_unix_ms: 0,
        ended: None,
        program: String::new(),
    }
}

/// Runs in a scratch store. Returns the stored trials and the end of the run.
fn run_all(record: &RunRecord, executor: &mut dyn Executor) -> (Vec<TrialRecord>, RunEnd) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let mut store = Store::open(&dir.path().join("r.db")).expect("a new store");
    store.begin_run(record).expect("a new run");
    let ended = run(&mut store, record, executor, &AtomicBool::new(false), &mut |_| {}).expect("the store works");
    (store.trials(&record.id).expect("the store reads"), ended)
}

#[test]
fn precise_run_stops_after_the_minimum_number_of_blocks() {
    let (trials, ended) =
        run_all(&record(kernel_and("one"), repeat(6, 50)), &mut Scripted(|trial| outcome(trial, 100.0)));
    assert_eq!(ended, RunEnd::Over(EndReason::Precise));
    assert_eq!(trials.len(), 2 * (1 + 6));
    assert!(trials.iter().enumerate().all(|(index, record)| record.position as usize == index));
}

#[test]
fn run_stops_at_the_last_block_and_at_the_budget() {
    let (trials, ended) = run_all(&record(kernel_and("one"), repeat(3, 5)), &mut Scripted(noisy));
    assert_eq!((trials.len(), ended), (2 * 6, RunEnd::Over(EndReason::AllBlocks)));
    let short = StoppingRule { budget: Nanos(9 * SECOND.0), ..repeat(3, 50) };
    let (trials, ended) = run_all(&record(kernel_and("one"), short), &mut Scripted(noisy));
    assert_eq!(ended, RunEnd::Over(EndReason::Budget));
    assert_eq!(trials.len(), 8, "eight of nine seconds; another block would make ten");
}

#[test]
fn forecast_uses_measured_times_from_the_first_trial_on() {
    let minute = |trial: &Trial| TrialOutcome { took: Nanos(60 * SECOND.0), ..outcome(trial, 100.0) };
    let dir = tempfile::tempdir().expect("a scratch directory");
    let mut store = Store::open(&dir.path().join("r.db")).expect("a new store");
    let record = record(kernel_and("one"), repeat(3, 3));
    store.begin_run(&record).expect("a new run");
    let mut left = Vec::new();
    let mut watch = |event: RunEvent<'_>| {
        if let RunEvent::Stored { forecast, .. } = event {
            left.push(forecast.left.0 / SECOND.0);
        }
    };
    run(&mut store, &record, &mut Scripted(minute), &AtomicBool::new(false), &mut watch).expect("the store works");
    // The workload estimates a second per trial: warm-up and three blocks of two cells. After one trial, the other cell
    // still counts with its estimate.
    assert_eq!(left, [4 * (60 + 1) - 60, 360, 300, 240, 180, 120, 60, 0]);
}

#[test]
fn unverified_trial_is_retried_in_its_block_and_kept() {
    let escape = |trial: &Trial| {
        let mut outcome = outcome(trial, 1.0);
        if trial.placement.name == "one" && trial.role == Role::Measured && trial.block == 0 && trial.attempt == 0 {
            outcome.evidence.cpus_seen.insert(CpuId(7));
        }
        outcome
    };
    let (trials, _) = run_all(&record(kernel_and("one"), repeat(2, 2)), &mut Scripted(escape));
    let ones =
        trials.iter().filter(|record| record.trial.placement.name == "one" && record.trial.role == Role::Measured);
    let ones: Vec<(u32, u32, Grade)> =
        ones.map(|record| (record.trial.block, record.trial.attempt, record.verdict.grade)).collect();
    assert_eq!(ones, [(0, 0, Grade::Invalid), (0, 1, Grade::Valid), (1, 0, Grade::Valid)]);
}

#[test]
fn failing_cell_is_abandoned_and_the_others_continue() {
    let broken = |trial: &Trial| match trial.placement.name.as_str() {
        "broken" => TrialOutcome { status: TrialStatus::Failed("exit status 1".into()), ..outcome(trial, 1.0) },
        _ => noisy(trial),
    };
    let (trials, ended) = run_all(&record(kernel_and("broken"), repeat(4, 4)), &mut Scripted(broken));
    let count = |name: &str| trials.iter().filter(|record| record.trial.placement.name == name).count();
    assert_eq!((count("kernel"), count("broken")), (5, 3));
    assert_eq!(ended, RunEnd::Over(EndReason::AllBlocks));
}

/// A thread that left its CPU in every trial was seen in 16 of 20, and the 4 in which it was not became the result.
#[test]
fn cell_that_is_violated_too_often_has_no_result() {
    let medians = |violated_blocks: u32| {
        let escape = move |trial: &Trial| {
            let mut outcome = noisy(trial);
            if trial.placement.name == "one" && trial.block.is_multiple_of(violated_blocks) && trial.attempt == 0 {
                outcome.evidence.cpus_seen.insert(CpuId(7));
            }
            outcome
        };
        let record = record(kernel_and("one"), repeat(20, 20));
        let (trials, _) = run_all(&record, &mut Scripted(escape));
        let finding = summarise(&record.plan, &trials);
        let violated = finding.cells.iter().flat_map(|cell| cell.caveats.clone()).collect::<Vec<_>>();
        (finding.cells.iter().map(|cell| cell.metrics[0].median.is_some()).collect::<Vec<_>>(), violated)
    };
    let no_result = "no result, because the placement was violated in 3 of 7 trials";
    assert_eq!(medians(2), (vec![true, false], vec![no_result.into()]), "abandoned when the share is reached");
    assert_eq!(medians(4), (vec![true, true], vec![]));
}

#[test]
fn unavailable_cell_is_tried_once() {
    let absent = |trial: &Trial| match trial.placement.name.as_str() {
        "absent" => TrialOutcome { status: TrialStatus::Unavailable("no such unit".into()), ..outcome(trial, 1.0) },
        _ => noisy(trial),
    };
    let (trials, _) = run_all(&record(kernel_and("absent"), repeat(3, 3)), &mut Scripted(absent));
    assert_eq!(trials.iter().filter(|record| record.trial.placement.name == "absent").count(), 1);
}

#[test]
fn interrupted_run_resumes_to_the_same_trials() {
    let placements = || vec![Placement::kernel(1), seated("one", 0), seated("two", 1)];
    check_resume(&record(placements(), repeat(3, 4)));
    // The budget pays for three blocks of three seconds; a started block is completed wherever the run was interrupted.
    let poor = StoppingRule { budget: Nanos(12 * SECOND.0), ..repeat(2, 9) };
    check_resume(&record(placements(), poor));
}

fn check_resume(record: &RunRecord) {
    let (whole, _) = run_all(record, &mut Scripted(noisy));
    for cut in 1..whole.len() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let mut store = Store::open(&dir.path().join("r.db")).expect("a new store");
        store.begin_run(record).expect("a new run");
        let stop = AtomicBool::new(false);
        let mut stored = 0;
        let mut watch = |event: RunEvent<'_>| {
            stored += usize::from(matches!(event, RunEvent::Stored { .. }));
            stop.store(stored >= cut, Ordering::Relaxed);
        };
        let ended = run(&mut store, record, &mut Scripted(noisy), &stop, &mut watch).expect("the store works");
        assert_eq!(ended, RunEnd::Interrupted);
        run(&mut store, record, &mut Scripted(noisy), &AtomicBool::new(false), &mut |_| {}).expect("the store works");
        assert_eq!(store.trials(&record.id).expect("the store reads"), whole, "interrupted after {cut}");
    }
}

fn two_cpus() -> Topology {
    let cpus: CpuSet = [CpuId(0), CpuId(1)].into_iter().collect();
    let object = |kind, os_index, cpus: &CpuSet, parent, children| Object {
        kind,
        os_index,
        cpus: cpus.clone(),
        parent,
        children,
        memory: Vec::new(),
        cache: None,
        subtype: None,
    };
    let one = |cpu| -> CpuSet { [CpuId(cpu)].into_iter().collect() };
    let objects = vec![
        object(ObjectKind::Machine, None, &cpus, None, vec![1, 3]),
        object(ObjectKind::Core, Some(0), &one(0), Some(0), vec![2]),
        object(ObjectKind::Pu, Some(0), &one(0), Some(1), vec![]),
        object(ObjectKind::Core, Some(1), &one(1), Some(0), vec![4]),
        object(ObjectKind::Pu, Some(1), &one(1), Some(3), vec![]),
    ];
    Topology { objects, allowed_cpus: cpus.clone(), complete_cpus: cpus, ..Topology::default() }
}

#[test]
fn simulated_faults_make_trials_invalid() {
    let record = record(kernel_and("one"), repeat(20, 20));
    let grades = |faults: &str| {
        let faults = Faults::parse(faults).expect("valid faults");
        let (trials, _) = run_all(&record, &mut SimExecutor::new(two_cpus(), vec![spec()], 3, faults));
        let mut counts: BTreeMap<(String, Grade), u32> = BTreeMap::new();
        for record in trials.iter().filter(|record| record.trial.role == Role::Measured) {
            *counts.entry((record.trial.placement.name.clone(), record.verdict.grade)).or_default() += 1;
        }
        counts
    };
    let key = |name: &str, grade| (name.to_string(), grade);
    assert!(grades("").keys().all(|(_, grade)| *grade == Grade::Valid));
    let escaped = grades("escapes=0.3");
    assert!(escaped[&key("one", Grade::Invalid)] > 0 && !escaped.contains_key(&key("kernel", Grade::Invalid)));
    let lost = grades("lost-cpu=1@4");
    assert_eq!(lost[&key("one", Grade::Valid)], 4, "the CPU goes offline at the start of block 4");
    assert!(grades("stops=0.2").contains_key(&key("one", Grade::Suspect)));
    assert!(grades("never-ends=0.2").contains_key(&key("kernel", Grade::Invalid)));
    assert!(Faults::parse("flood=1").is_err() && Faults::parse("escapes=2").is_err());
}

/// Runs six tests in six blocks on a simulated machine.
fn measured_suite(seed: u64, run: &str) -> (RunRecord, RunFinding) {
    let specs: Vec<WorkloadSpec> = (0..6).map(|test| WorkloadSpec { name: format!("w{test}"), ..spec() }).collect();
    let cell = |spec| Cell::new(spec, spec.name.clone(), Parameters::default(), seated("one", 0));
    let mut record = record(Vec::new(), repeat(6, 6));
    record.plan.cells = specs.iter().map(cell).collect();
    record.plan.workloads.clone_from(&specs);
    record.id = RunId(run.into());
    let mut executor = SimExecutor::new(two_cpus(), specs, seed, Faults::parse("").expect("no faults"));
    let trials = (0..6).flat_map(|block| record.plan.block(run, seed, Role::Measured, block));
    let verdict = Verdict { grade: Grade::Valid, reasons: Vec::new() };
    let measured = (0..).zip(trials).map(|(position, trial)| TrialRecord {
        position,
        outcome: executor.run(position, &trial).expect("the user does not interrupt"),
        trial,
        verdict: verdict.clone(),
    });
    let measured: Vec<TrialRecord> = measured.collect();
    let finding = summarise(&record.plan, &measured);
    (record, finding)
}

/// Returns how many pairs of runs on one simulated machine have geometric means that are called different.
fn pairs_called_different(pairs: u64) -> usize {
    let is_different = |pair: &u64| {
        let (one, one_finding) = measured_suite(2 * pair, "one");
        let (other, other_finding) = measured_suite(2 * pair + 1, "other");
        let runs = [
            ComparedRun { record: &one, finding: &one_finding },
            ComparedRun { record: &other, finding: &other_finding },
        ];
        let request = ComparisonRequest {
            by: &By::Run,
            baseline: None,
            tests: &[],
            metric: None,
            added_tables: &[],
            history: &[],
        };
        let comparison = compare(&runs, &request).expect("two runs of one plan");
        let mean = &comparison.geomean[0];
        assert_eq!((mean.tests, mean.trials), (6, 72));
        let (low, high) = mean.ci_low.zip(mean.ci_high).expect("six blocks on each side have an interval");
        assert!(low <= mean.change_percent && mean.change_percent <= high);
        low > 0.0 || high < 0.0
    };
    (0..pairs).filter(is_different).count()
}

/// At smoke size; `NEARFAR_PAIRS=1000` measures the rate.
#[test]
fn means_of_the_same_machine_are_rarely_called_different() {
    let pairs = std::env::var("NEARFAR_PAIRS").ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(60);
    let different = pairs_called_different(pairs);
    println!("{different} of {pairs} pairs of runs are called different");
    assert!(different as u64 <= pairs.div_ceil(20), "{different} of {pairs}");
}

#[test]
fn minimum_of_blocks_wins_over_the_budget_unless_the_user_lowers_it() {
    let short = || StoppingRule { budget: Nanos(3 * SECOND.0), ..repeat(4, 50) };
    let (trials, ended) = run_all(&record(kernel_and("one"), short()), &mut Scripted(noisy));
    assert_eq!((trials.len(), ended), (2 * 5, RunEnd::Over(EndReason::Budget)));
    let mut lowered = record(kernel_and("one"), short());
    lowered.plan.budget_wins = true;
    let (trials, ended) = run_all(&lowered, &mut Scripted(noisy));
    assert_eq!(
        (trials.len(), ended),
        (2 * 2, RunEnd::Over(EndReason::Budget)),
        "warm-up, and the block that has begun"
    );
}

#[test]
fn two_equal_blocks_do_not_end_a_run() {
    let (trials, ended) = run_all(&record(kernel_and("one"), repeat(2, 9)), &mut Scripted(|trial| outcome(trial, 7.0)));
    assert_eq!((trials.len(), ended), (2 * 4, RunEnd::Over(EndReason::Precise)), "the third block gives an interval");
}

#[test]
fn run_is_precise_when_the_main_metric_of_each_cell_is() {
    let steady = |trial: &Trial| {
        let mut outcome = noisy(trial);
        outcome.samples.push(Sample { series: "steady".into(), value: 5.0 });
        outcome
    };
    let mut of_first = record(kernel_and("one"), repeat(3, 7));
    let metric = MetricSpec { name: "steady".into(), series: "steady".into(), ..spec().metrics.remove(0) };
    of_first.plan.workloads[0].metrics.push(metric);
    let (trials, ended) = run_all(&of_first, &mut Scripted(steady));
    assert_eq!((trials.len(), ended), (2 * 8, RunEnd::Over(EndReason::AllBlocks)));
    let mut of_chosen = of_first;
    of_chosen.plan.cells.iter_mut().for_each(|cell| cell.main = Some("steady".into()));
    let (trials, ended) = run_all(&of_chosen, &mut Scripted(steady));
    assert_eq!((trials.len(), ended), (2 * 4, RunEnd::Over(EndReason::Precise)));
}

#[test]
fn gate_ends_with_the_block_that_proves_its_verdict() {
    let gate = |slowdown: f64| {
        let mut record = record(kernel_and("one"), repeat(200, 200));
        record.plan.gate = Some(GatePlan { max_slower: 0.03, error_rate: 0.01 });
        let value = |trial: &Trial| if trial.cell == 1 { 1.0 / slowdown } else { 1.0 };
        let (trials, ended) =
            run_all(&record, &mut Scripted(|trial| outcome(trial, value(trial) * noisy_factor(trial))));
        let verdict = GateVerdict::of(&record.plan, &summarise(&record.plan, &trials)).expect("the plan is a gate");
        (verdict, ended, trials.len() / 2 - 1)
    };
    for (slowdown, expected) in [(1.0, GateVerdict::Passed), (1.5, GateVerdict::Failed)] {
        let (verdict, ended, blocks) = gate(slowdown);
        assert_eq!((verdict, ended), (expected, RunEnd::Over(EndReason::Resolved)), "{slowdown}: {blocks} blocks");
        assert!((8..60).contains(&blocks), "{slowdown}: {blocks} blocks");
    }
    assert_eq!(gate(1.03).1, RunEnd::Over(EndReason::AllBlocks), "the limit itself is never decided");
}

/// A factor that differs by up to 2 % between trials.
fn noisy_factor(trial: &Trial) -> f64 {
    1.0 + 0.002 * (trial.seed % 11) as f64
}
