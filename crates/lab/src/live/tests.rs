//! Experiments on a simulated service with drift and noise, whose rate follows a switch with a delay.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::ops::Range;

use model::analysis::live::{GuardViolation, LivePlan};
use model::stats::switchback::{DropReason, Outcome};
use model::values::workload::Better;

use super::*;

/// A service with a rate per placement.
struct Simulated {
    /// Work per second of each placement, in its steady state.
    rates: Vec<f64>,
    /// Time constant of the approach to the steady rate after a switch, in seconds.
    lag_s: f64,
    /// Time that moving its memory takes. Zero: memory is not moved.
    change: Duration,
    /// Placement whose threads another program rebinds in every other period.
    stolen: Option<ArmId>,
    /// Total after which the counter cannot be read.
    fails_at: f64,
    arm: ArmId,
    now: Duration,
    rate: f64,
    total: f64,
    noise: u64,
    placed: usize,
    placed_at: Duration,
    guard: Option<SimulatedGuard>,
    /// CPU time of other programs on the CPUs of the placement.
    others: Duration,
    /// Whether the service is slow in this period by chance, and violates the guard.
    is_slow: bool,
}

/// Time since a placement after which the guard is known.
const KNOWN_AFTER: Duration = Duration::from_millis(200);

struct SimulatedGuard {
    /// Time from which it is violated under a placement.
    violated_from: BTreeMap<ArmId, Duration>,
    /// Times since the placement at which it is.
    within: Range<Duration>,
    /// Duration of a violation beyond its cause, under any placement.
    recovery: Duration,
    recovers_at: Duration,
    /// Share of periods in which it is violated because the service is slow, by chance.
    slow_share: f64,
}

impl SimulatedGuard {
    fn violated(arm: ArmId, from_s: u64) -> Self {
        Self {
            violated_from: BTreeMap::from([(arm, Duration::from_secs(from_s))]),
            within: Duration::from_millis(400)..Duration::MAX,
            recovery: Duration::ZERO,
            recovers_at: Duration::ZERO,
            slow_share: 0.0,
        }
    }
}

impl Simulated {
    fn new(rates: &[f64], seed: u64) -> Self {
        Self {
            rates: rates.to_vec(),
            lag_s: 0.1,
            change: Duration::ZERO,
            stolen: None,
            fails_at: f64::INFINITY,
            arm: ArmId::BASELINE,
            now: Duration::ZERO,
            rate: rates[0],
            total: 0.0,
            noise: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            placed: 0,
            placed_at: Duration::ZERO,
            guard: None,
            others: Duration::ZERO,
            is_slow: false,
        }
    }

    /// Uniform in [-1, 1].
    fn random(&mut self) -> f64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        (self.noise >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

impl LiveService for Simulated {
    fn place(&mut self, arm: ArmId) -> Result<Placed, String> {
        let is_moved = self.arm != arm;
        self.arm = arm;
        self.placed_at = self.now;
        let share = self.guard.as_ref().map_or(0.0, |guard| guard.slow_share);
        self.is_slow = share > 0.0 && self.random() < 2.0 * share - 1.0;
        self.placed += 1;
        let memory = (!self.change.is_zero()).then_some(Bytes(if is_moved { 1 << 30 } else { 0 }));
        if is_moved && memory.is_some() {
            self.wait_until(self.now + self.change);
        }
        Ok(Placed { threads: 7, memory })
    }

    fn verify(&mut self, arm: ArmId) -> Result<(), String> {
        let is_stolen = self.stolen == Some(arm) && self.placed.is_multiple_of(2);
        if is_stolen { Err("thread 7 may run on CPU 3".into()) } else { Ok(()) }
    }

    fn read(&mut self) -> Result<Reading, String> {
        let reading = Reading { total: self.total, base: self.now.as_secs_f64() };
        if self.total < self.fails_at { Ok(reading) } else { Err("no socket listens on port 7".into()) }
    }

    /// Other programs use half of a CPU, and a tenth of one under the placement found.
    fn cpu_totals(&mut self) -> Option<CpuTotals> {
        let busy = self.others;
        Some(CpuTotals { at: self.now, busy, ..CpuTotals::default() })
    }

    fn guards(&mut self) -> GuardState {
        let (now, arm, since) = (self.now, self.arm, self.now.saturating_sub(self.placed_at));
        let Some(guard) = &mut self.guard else { return GuardState::Hold };
        let is_new = guard.violated_from.get(&arm).is_some_and(|from| now >= *from) && guard.within.contains(&since);
        if is_new || self.is_slow && guard.within.contains(&since) {
            guard.recovers_at = now + guard.recovery;
        } else if now >= guard.recovers_at {
            return if since < KNOWN_AFTER { GuardState::Unknown } else { GuardState::Hold };
        }
        let since = now.saturating_sub(GUARD_STEP).max(self.placed_at);
        GuardState::Violated(Violated { guard: "command:p99<20".into(), value: Ok(31.0), since })
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait_until(&mut self, time: Duration) {
        let step_s = 0.01;
        while self.now < time {
            let steady = self.rates[self.arm.0 as usize] * if self.is_slow { 0.7 } else { 1.0 };
            self.rate += (steady - self.rate) * (1.0 - (-step_s / self.lag_s).exp());
            // A slow drift by a tenth.
            let drift = 1.0 + 0.1 * (TAU * self.now.as_secs_f64() / 300.0).sin();
            self.total += step_s * self.rate * drift * (1.0 + 0.1 * self.random());
            let others = if self.arm == ArmId::BASELINE { 0.1 } else { 0.5 };
            self.others += Duration::from_secs_f64(step_s * others);
            self.now += Duration::from_secs_f64(step_s);
        }
    }
}

fn plan(alternatives: u32, seed: u64) -> LivePlan {
    LivePlan { alternatives, seed, budget: Duration::from_secs(15 * 60), better: Better::Higher }
}

/// Keeps the periods, and interrupts the experiment.
#[derive(Default)]
struct Kept<'a> {
    periods: Vec<LivePeriod>,
    /// Set after this number of periods.
    stop: Option<(&'a AtomicBool, usize)>,
    /// Number of periods that can be stored.
    room: Option<usize>,
}

impl LiveObserver for Kept<'_> {
    fn store(&mut self, period: &LivePeriod) -> Result<(), String> {
        if self.room == Some(self.periods.len()) {
            return Err("the disk is full".into());
        }
        self.periods.push(period.clone());
        if let Some((stop, _)) = self.stop.filter(|(_, after)| *after == self.periods.len()) {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn show(&mut self, _: &LiveProgress) {}
}

fn violations(run: &LiveRun) -> Vec<GuardViolation> {
    run.state.violations().cloned().collect()
}

fn experiment(service: &mut Simulated, seed: u64) -> LiveRun {
    let state = LiveState::new(plan(service.rates.len() as u32 - 1, seed));
    run(service, state, &AtomicBool::new(false), &mut Kept::default())
}

#[test]
fn planted_best_placement_is_found() {
    for seed in 0..10 {
        let mut service = Simulated::new(&[1000.0, 900.0, 1050.0], seed);
        let run = experiment(&mut service, seed);
        let LiveAnswer::Ended(Outcome::Gain { arm, change }) = run.answer else { panic!("{seed}: {:?}", run.answer) };
        assert_eq!(arm, ArmId(2), "{seed}");
        assert!((change.value - 0.05).abs() < 0.01, "{seed}: {change:?}");
        let wash_out = run.state.wash_out().expect("it was measured").as_secs_f64();
        // The change of 15 % decays to 2 % within two time constants.
        assert!((0.2..1.5).contains(&wash_out), "{seed}: {wash_out} s");
        assert!(run.state.end_s() < 15.0 * 60.0, "{seed}: {} s", run.state.end_s());
    }
}

#[test]
fn periods_have_the_use_of_cpus_under_their_placement() {
    let run = experiment(&mut Simulated::new(&[1000.0, 1050.0], 3), 3);
    for LivePeriod { arm, evidence, .. } in run.state.periods() {
        let used = evidence.cpu_use.expect("each period has it");
        let expected = if *arm == ArmId::BASELINE { 0.1 } else { 0.5 };
        assert!((used.others - expected).abs() < 1e-6, "{arm:?}: {used:?}");
        assert_eq!(evidence.change, Some(PlacementChange { threads: 7, seconds: 0.0, memory: None }));
    }
}

#[test]
fn equal_placements_are_no_gain() {
    let gains = (0..20).filter(|seed| {
        let run = experiment(&mut Simulated::new(&[1000.0, 1000.0, 1000.0], 100 + seed), *seed);
        !matches!(run.answer, LiveAnswer::Ended(Outcome::NoDifferenceSeen { .. }))
    });
    // Each has a probability of 5 %; more than four of twenty have one of 0.3 %.
    assert!(gains.count() <= 4);
}

#[test]
fn slow_service_has_long_periods() {
    let mut slow = Simulated::new(&[1000.0, 1100.0], 2);
    slow.lag_s = 0.8;
    let run = experiment(&mut slow, 2);
    let wash_out = run.state.wash_out().expect("it was measured").as_secs_f64();
    assert!(wash_out > 1.0, "{wash_out} s");
    // The rest of the reaction is small, but the test for carry-over may still find it.
    let is_right =
        matches!(run.answer, LiveAnswer::Ended(Outcome::Gain { arm: ArmId(1), .. }) | LiveAnswer::CarriedOver { .. });
    assert!(is_right, "{:?}", run.answer);
}

#[test]
fn service_that_never_settles_is_not_judged() {
    for lag_s in [3.0, 5.0, 10.0, 20.0] {
        let mut slow = Simulated::new(&[1000.0, 2000.0], 1);
        slow.lag_s = lag_s;
        let answer = experiment(&mut slow, 1).answer;
        let is_refused = matches!(answer, LiveAnswer::NotSettled { .. } | LiveAnswer::CarriedOver { .. });
        assert!(is_refused, "{lag_s} s: {answer:?}");
    }
}

/// The stages of the measurement take 176 s.
#[test]
fn half_of_the_budget_is_spent_on_a_service_that_never_settles() {
    let mut slow = Simulated::new(&[1000.0, 2000.0], 1);
    slow.lag_s = 10.0;
    let state = LiveState::new(LivePlan { budget: Duration::from_secs(600), ..plan(1, 1) });
    let run = run(&mut slow, state, &AtomicBool::new(false), &mut Kept::default());
    assert!(matches!(run.answer, LiveAnswer::NotSettled { .. }), "{:?}", run.answer);
    assert!((250.0..=300.0).contains(&run.state.end_s()), "{} s", run.state.end_s());
}

#[test]
fn periods_without_proof_do_not_count() {
    let mut service = Simulated::new(&[1000.0, 1100.0, 1050.0], 3);
    service.stolen = Some(ArmId(1));
    let run = experiment(&mut service, 3);
    let of_first = run.state.periods().iter().filter(|period| period.arm == ArmId(1));
    assert!(of_first.clone().any(|period| period.unproven.is_some()));
    assert!(of_first.filter(|period| period.unproven.is_some()).all(|period| period.rate.is_none()));
}

#[test]
fn interruption_and_errors_end_the_experiment_with_a_reason() {
    let stop = AtomicBool::new(false);
    let mut kept = Kept { stop: Some((&stop, 90)), ..Kept::default() };
    let interrupted = run(&mut Simulated::new(&[1.0, 1.1], 1), LiveState::new(plan(1, 1)), &stop, &mut kept);
    assert_eq!(interrupted.answer, LiveAnswer::Stopped { reason: "it was interrupted".into() });
    assert_eq!(interrupted.end, None, "it can continue");
    assert!(interrupted.state.switchback().is_some_and(|switchback| switchback.periods() > 20));

    let mut service = Simulated::new(&[1.0, 1.1], 1);
    service.fails_at = 100.0;
    let failed = experiment(&mut service, 1);
    assert_eq!(failed.answer, LiveAnswer::Stopped { reason: "no socket listens on port 7".into() });
    assert_eq!(failed.end.and_then(|end| end.reason).as_deref(), Some("no socket listens on port 7"));

    let mut full = Kept { room: Some(7), ..Kept::default() };
    let mut service = Simulated::new(&[1.0, 1.1], 1);
    let stored = run(&mut service, LiveState::new(plan(1, 1)), &AtomicBool::new(false), &mut full);
    assert_eq!(stored.answer, LiveAnswer::Stopped { reason: "the disk is full".into() });
    assert_eq!(stored.state.periods(), full.periods, "a period that is not stored has no effect");
}

/// The replay of the stored periods is the state that stored them, wherever it ends, also within a block.
#[test]
fn killed_experiment_continues_from_its_periods() {
    let plan = plan(2, 4);
    for kill_after in [1, 40, 100, 115, 120, 121, 122, 130] {
        let mut service = Simulated::new(&[1000.0, 900.0, 1050.0], 4);
        service.guard = Some(SimulatedGuard::violated(ArmId(1), 150));
        let stop = AtomicBool::new(false);
        let mut kept = Kept { stop: Some((&stop, kill_after)), ..Kept::default() };
        let killed = run(&mut service, LiveState::new(plan), &stop, &mut kept);
        assert_eq!(kept.periods.len(), kill_after);
        let replayed = LiveState::replay(plan, kept.periods.clone()).expect("its own periods");
        assert_eq!(replayed.periods(), killed.state.periods(), "{kill_after}");
        kept.stop = None;
        // By the process that restores.
        service.place(ArmId::BASELINE).expect("it runs");
        let resumed = run(&mut service, replayed, &AtomicBool::new(false), &mut kept);
        let is_right = matches!(resumed.answer, LiveAnswer::Ended(Outcome::Gain { arm: ArmId(2), .. }));
        assert!(is_right, "{kill_after}: {:?}", resumed.answer);
        // All periods together have the same answer, and the interrupted block does not count.
        let mut again = LiveState::replay(plan, kept.periods.clone()).expect("its own periods");
        let end = resumed.end.expect("it ended");
        assert_eq!(again.next_step(end.at_s), LiveStep::Done(resumed.answer), "{kill_after}");
        assert_eq!(again.switchback(), resumed.state.switchback(), "{kill_after}");
        let times = kept.periods.windows(2).all(|pair| pair[0].end_s() <= pair[1].at_s + 1e-6);
        assert!(times, "{kill_after}: the time in which it did not run does not count");
    }
}

#[test]
fn periods_of_other_experiments_cannot_be_replayed() {
    let plan = plan(1, 1);
    let mut kept = Kept::default();
    run(&mut Simulated::new(&[1.0, 1.1], 1), LiveState::new(plan), &AtomicBool::new(false), &mut kept);
    let first = kept.periods.iter().position(|period| period.phase == LivePhase::Race).expect("a race");
    let changed = |change: &dyn Fn(&mut Vec<LivePeriod>)| {
        let mut periods = kept.periods.clone();
        change(&mut periods);
        LiveState::replay(plan, periods).is_err()
    };
    assert!(!changed(&|_| {}));
    assert!(changed(&|periods| periods[first].arm = periods[first + 1].arm), "an arm twice");
    assert!(changed(&|periods| periods[first].arm = ArmId(7)), "an unknown arm");
    assert!(changed(&|periods| periods[first].phase = LivePhase::Confirm), "another phase");
    assert!(changed(&|periods| drop(periods.drain(..first))), "no wash-out");
}

#[test]
fn interrupted_experiment_has_a_provisional_change() {
    let plan = plan(1, 1);
    let mut kept = Kept::default();
    let whole = run(&mut Simulated::new(&[1.0, 1.1], 1), LiveState::new(plan), &AtomicBool::new(false), &mut kept);
    let first = kept.periods.iter().position(|period| period.phase == LivePhase::Confirm).expect("a confirmation");
    let after = |periods: usize| LiveState::replay(plan, kept.periods[..periods].to_vec()).expect("its own periods");
    assert_eq!(after(first - 1).fresh_pairs(), None);
    let few = after(first + 2 * 19 + 1).fresh_pairs().expect("fresh pairs");
    assert_eq!((few.arm, few.complete, few.change), (ArmId(1), 19, None));
    let enough = after(first + 2 * 20).fresh_pairs().expect("fresh pairs");
    assert!(enough.complete == 20 && enough.change.is_some_and(|change| change.interval.contains(0.1)), "{enough:?}");
    assert!(matches!(whole.answer, LiveAnswer::Ended(Outcome::Gain { .. })), "{:?}", whole.answer);
}

#[test]
fn lower_values_are_a_gain_if_lower_is_better() {
    let mut service = Simulated::new(&[1000.0, 900.0], 1);
    let plan = LivePlan { better: Better::Lower, ..plan(1, 1) };
    let answer = run(&mut service, LiveState::new(plan), &AtomicBool::new(false), &mut Kept::default()).answer;
    let LiveAnswer::Ended(Outcome::Gain { arm: ArmId(1), change }) = answer else { panic!("{answer:?}") };
    assert!((change.value + 0.1).abs() < 0.01, "{change:?}");
}

#[test]
fn placement_that_violates_a_guard_leaves_at_once() {
    // While the wash-out is measured, in the race, and during the confirmation.
    for (from_s, phase) in [(0, LivePhase::WashOut), (150, LivePhase::Race), (240, LivePhase::Confirm)] {
        let mut service = Simulated::new(&[1000.0, 1050.0, 1200.0], 5);
        service.guard = Some(SimulatedGuard::violated(ArmId(2), from_s));
        let run = experiment(&mut service, 5);
        let violations = violations(&run);
        let [violation] = &violations[..] else { panic!("{from_s} s: {violations:?}") };
        assert_eq!((violation.arm, violation.phase, violation.value), (ArmId(2), phase, Some(31.0)), "{from_s} s");
        let restored = violation.restored_after_s.expect("it was restored");
        assert!(restored <= 2.0 * GUARD_STEP.as_secs_f64(), "{from_s} s: {restored} s");
        let later = run.state.periods().iter().filter(|period| period.at_s > violation.at_s);
        assert!(later.clone().all(|period| period.arm != ArmId(2)), "{from_s} s");
        let switchback = run.state.switchback().expect("it began");
        let left: Vec<_> = switchback.dropped().iter().map(|dropped| (dropped.arm, dropped.reason)).collect();
        assert!(left.contains(&(ArmId(2), DropReason::Withdrawn)), "{from_s} s: {left:?}");
        if phase == LivePhase::Confirm {
            // Placement 1 left the race as worse, so nothing is left.
            assert_eq!(run.answer, LiveAnswer::Ended(Outcome::NoAlternatives));
            assert_eq!(service.arm, ArmId::BASELINE);
        } else {
            assert!(later.count() > 0, "{from_s} s");
            let is_right = matches!(run.answer, LiveAnswer::Ended(Outcome::Gain { arm: ArmId(1), .. }));
            assert!(is_right, "{from_s} s: {:?}", run.answer);
        }
    }
}

#[test]
fn next_placement_is_not_blamed_for_a_guard_that_recovers() {
    let mut service = Simulated::new(&[1000.0, 900.0, 1050.0], 6);
    let guard = SimulatedGuard::violated(ArmId(1), 100);
    service.guard = Some(SimulatedGuard { recovery: Duration::from_secs(10), ..guard });
    let run = experiment(&mut service, 6);
    let violations = violations(&run);
    assert_eq!(violations.len(), 1, "{violations:?}");
    let after = run.state.periods().iter().find(|period| period.at_s > violations[0].at_s).expect("it continues");
    assert!(after.at_s >= violations[0].at_s + 9.9, "{after:?}");
    assert!(matches!(run.answer, LiveAnswer::Ended(Outcome::Gain { arm: ArmId(2), .. })), "{:?}", run.answer);
}

#[test]
fn guard_violated_by_the_placement_found_ends_the_experiment() {
    let reason = "under the placement found, guard 'command:p99<20' is violated: 31".to_owned();
    let stopped = LiveAnswer::Stopped { reason };
    let found_from = |from_s| SimulatedGuard::violated(ArmId::BASELINE, from_s);
    let mut before = Simulated::new(&[1000.0, 1050.0], 7);
    before.guard = Some(SimulatedGuard { within: Duration::ZERO..Duration::MAX, ..found_from(0) });
    let run = experiment(&mut before, 7);
    assert_eq!((run.answer, before.placed), (stopped.clone(), 0), "nothing was changed");
    // In three periods of it, with a recovery after each.
    let mut repeated = Simulated::new(&[1000.0, 1050.0], 7);
    let within = Duration::from_millis(400)..Duration::from_millis(600);
    repeated.guard = Some(SimulatedGuard { within, ..found_from(120) });
    let run = experiment(&mut repeated, 7);
    let found = violations(&run);
    assert_eq!((&run.answer, found.len()), (&stopped, 3), "{found:?}");
    assert!(found.iter().all(|violation| violation.restored_after_s.is_none()));
    let unproven = run.state.periods().iter().filter(|period| period.unproven.is_some());
    assert!(unproven.count() == 3 && run.state.switchback().is_some_and(|switchback| switchback.dropped().is_empty()));
    // Without a recovery.
    let mut lasting = Simulated::new(&[1000.0, 1050.0], 7);
    lasting.guard = Some(found_from(120));
    let run = experiment(&mut lasting, 7);
    assert_eq!((&run.answer, violations(&run).len()), (&stopped, 1));
    assert!(run.state.end_s() < 120.0 + 2.0 * 5.0 + 31.0, "{} s", run.state.end_s());
}

#[test]
fn guards_that_depend_on_the_rate_make_no_false_gains() {
    let mut gains = 0;
    for seed in 0..60 {
        let mut service = Simulated::new(&[1000.0; 3], 1000 + seed);
        let guard = SimulatedGuard::violated(ArmId(9), 0);
        service.guard = Some(SimulatedGuard { violated_from: BTreeMap::new(), slow_share: 0.01, ..guard });
        let run = experiment(&mut service, seed);
        assert!(run.state.end_s() < 15.0 * 60.0 + 10.0, "{seed}: {} s", run.state.end_s());
        gains += u32::from(matches!(run.answer, LiveAnswer::Ended(Outcome::Gain { .. })));
    }
    // Each has a probability of 2.5 %; more than five of sixty have one of 0.5 %.
    assert!(gains <= 5, "{gains}");
}

/// Moves of memory use up part of the budget, so periods are as long as a move.
#[test]
fn slow_moves_have_long_periods_within_the_budget() {
    let budget = Duration::from_secs(3600);
    for seed in 0..3 {
        let mut service = Simulated::new(&[1000.0, 1100.0], seed);
        service.change = Duration::from_secs(5);
        let state = LiveState::new(LivePlan { budget, ..plan(1, seed) });
        let run = run(&mut service, state, &AtomicBool::new(false), &mut Kept::default());
        let LiveAnswer::Ended(Outcome::Gain { change, .. }) = run.answer else { panic!("{seed}: {:?}", run.answer) };
        assert!((change.value - 0.1).abs() < 0.02, "{seed}: {change:?}");
        let (wash_out, period) = (run.state.wash_out().unwrap(), run.state.period().unwrap());
        assert!(period >= wash_out + service.change, "{seed}: {period:?}");
        assert!(run.state.end_s() <= budget.as_secs_f64() + 60.0, "{seed}: {} s", run.state.end_s());
        let moved = run.state.periods().iter().filter_map(|period| period.evidence.change);
        assert!(moved.clone().any(|change| change.memory == Some(Bytes(1 << 30)) && change.seconds > 4.9));
        assert!(moved.clone().any(|change| change.memory == Some(Bytes(0))), "placed as before");
    }
}

#[test]
fn budget_that_slow_moves_would_exceed_ends_the_experiment_early() {
    let begin = |budget_s: u64| {
        let mut service = Simulated::new(&[1000.0, 1100.0], 1);
        service.change = Duration::from_secs(20);
        let state = LiveState::new(LivePlan { budget: Duration::from_secs(budget_s), ..plan(1, 1) });
        run(&mut service, state, &AtomicBool::new(false), &mut Kept::default())
    };
    let early = begin(15 * 60);
    let LiveAnswer::BudgetTooShort { change_s, needed } = early.answer else { panic!("{:?}", early.answer) };
    assert!((change_s - 20.0).abs() < 0.1 && early.state.end_s() < 60.0, "{change_s} s, {} s", early.state.end_s());
    let enough = begin(needed.0 / 1_000_000_000 + 60);
    assert!(matches!(enough.answer, LiveAnswer::Ended(Outcome::Gain { .. })), "{:?}", enough.answer);
}
