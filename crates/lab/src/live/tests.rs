//! Experiments on a simulated service with drift and noise, whose rate follows a switch with a delay.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::ops::Range;

use model::stats::switchback::DropReason;

use super::*;

/// A service with a rate per placement.
struct Simulated {
    /// Work per second of each placement, in its steady state.
    rates: Vec<f64>,
    /// Time constant of the approach to the steady rate after a switch, in seconds.
    lag_s: f64,
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
    fn place(&mut self, arm: ArmId) -> Result<(), String> {
        self.arm = arm;
        self.placed_at = self.now;
        let share = self.guard.as_ref().map_or(0.0, |guard| guard.slow_share);
        self.is_slow = share > 0.0 && self.random() < 2.0 * share - 1.0;
        self.placed += 1;
        Ok(())
    }

    fn verify(&mut self, arm: ArmId) -> Result<(), String> {
        let is_stolen = self.stolen == Some(arm) && self.placed.is_multiple_of(2);
        if is_stolen { Err("thread 7 may run on CPU 3".into()) } else { Ok(()) }
    }

    fn read(&mut self) -> Result<Reading, String> {
        let reading = Reading { total: self.total, base: self.now.as_secs_f64() };
        if self.total < self.fails_at { Ok(reading) } else { Err("no socket listens on port 7".into()) }
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
            self.now += Duration::from_secs_f64(step_s);
        }
    }
}

fn plan(alternatives: u32, seed: u64) -> LivePlan {
    LivePlan { alternatives, seed, budget: Duration::from_secs(15 * 60), better: Better::Higher }
}

fn experiment(service: &mut Simulated, seed: u64) -> LiveRun {
    let plan = plan(service.rates.len() as u32 - 1, seed);
    run(service, &plan, &AtomicBool::new(false), &mut |_| {})
}

#[test]
fn planted_best_placement_is_found() {
    for seed in 0..10 {
        let mut service = Simulated::new(&[1000.0, 900.0, 1050.0], seed);
        let run = experiment(&mut service, seed);
        let LiveAnswer::Ended(Outcome::Gain { arm, change }) = run.answer else { panic!("{seed}: {:?}", run.answer) };
        assert_eq!(arm, ArmId(2), "{seed}");
        assert!((change.value - 0.05).abs() < 0.01, "{seed}: {change:?}");
        let wash_out = run.wash_out.expect("it was measured").as_secs_f64();
        // The change of 15 % decays to 2 % within two time constants.
        assert!((0.2..1.5).contains(&wash_out), "{seed}: {wash_out} s");
        assert!(run.seconds < 15.0 * 60.0, "{seed}: {} s", run.seconds);
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
    let wash_out = run.wash_out.expect("it was measured").as_secs_f64();
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

#[test]
fn periods_without_proof_do_not_count() {
    let mut service = Simulated::new(&[1000.0, 1100.0, 1050.0], 3);
    service.stolen = Some(ArmId(1));
    let run = experiment(&mut service, 3);
    let of_first = run.periods.iter().filter(|period| period.arm == ArmId(1));
    assert!(of_first.clone().any(|period| period.unproven.is_some()));
    assert!(of_first.filter(|period| period.unproven.is_some()).all(|period| period.rate.is_none()));
}

#[test]
fn interruption_and_errors_end_the_experiment_with_a_reason() {
    let plan = plan(1, 1);
    let stop = AtomicBool::new(false);
    let mut blocks = 0;
    let mut observe = |_: &LiveProgress| {
        blocks += 1;
        stop.store(blocks == 40, Ordering::Relaxed);
    };
    let interrupted = run(&mut Simulated::new(&[1.0, 1.1], 1), &plan, &stop, &mut observe);
    assert_eq!(interrupted.answer, LiveAnswer::Stopped { reason: "it was interrupted".into() });
    assert!(interrupted.switchback.is_some_and(|switchback| switchback.periods() > 20));

    let mut service = Simulated::new(&[1.0, 1.1], 1);
    service.fails_at = 100.0;
    let failed = run(&mut service, &plan, &AtomicBool::new(false), &mut |_| {});
    assert_eq!(failed.answer, LiveAnswer::Stopped { reason: "no socket listens on port 7".into() });
}

#[test]
fn lower_values_are_a_gain_if_lower_is_better() {
    let mut service = Simulated::new(&[1000.0, 900.0], 1);
    let plan = LivePlan { better: Better::Lower, ..plan(1, 1) };
    let answer = run(&mut service, &plan, &AtomicBool::new(false), &mut |_| {}).answer;
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
        let [violation] = &run.violations[..] else { panic!("{from_s} s: {:?}", run.violations) };
        assert_eq!((violation.arm, violation.phase, violation.value), (ArmId(2), phase, Some(31.0)), "{from_s} s");
        let restored = violation.restored_after_s.expect("it was restored");
        assert!(restored <= 2.0 * GUARD_STEP.as_secs_f64(), "{from_s} s: {restored} s");
        let later = run.periods.iter().filter(|period| period.at_s > violation.at_s);
        assert!(later.clone().all(|period| period.arm != ArmId(2)), "{from_s} s");
        let switchback = run.switchback.expect("it began");
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
    assert_eq!(run.violations.len(), 1, "{:?}", run.violations);
    let after = run.periods.iter().find(|period| period.at_s > run.violations[0].at_s).expect("it continues");
    assert!(after.at_s >= run.violations[0].at_s + 9.9, "{after:?}");
    assert!(matches!(run.answer, LiveAnswer::Ended(Outcome::Gain { arm: ArmId(2), .. })), "{:?}", run.answer);
}

#[test]
fn guard_violated_by_the_placement_found_ends_the_experiment() {
    let reason = "under the placement found, guard 'command:p99<20' is violated: 31".to_owned();
    let stopped = LiveAnswer::Stopped { reason };
    let found = |from_s| SimulatedGuard::violated(ArmId::BASELINE, from_s);
    let mut before = Simulated::new(&[1000.0, 1050.0], 7);
    before.guard = Some(SimulatedGuard { within: Duration::ZERO..Duration::MAX, ..found(0) });
    let run = experiment(&mut before, 7);
    assert_eq!((run.answer, before.placed), (stopped.clone(), 0), "nothing was changed");
    // In three periods of it, with a recovery after each.
    let mut repeated = Simulated::new(&[1000.0, 1050.0], 7);
    let within = Duration::from_millis(400)..Duration::from_millis(600);
    repeated.guard = Some(SimulatedGuard { within, ..found(120) });
    let run = experiment(&mut repeated, 7);
    assert_eq!((run.answer, run.violations.len()), (stopped.clone(), 3), "{:?}", run.violations);
    assert!(run.violations.iter().all(|violation| violation.restored_after_s.is_none()));
    let unproven = run.periods.iter().filter(|period| period.unproven.is_some());
    assert!(unproven.count() == 3 && run.switchback.is_some_and(|switchback| switchback.dropped().is_empty()));
    // Without a recovery.
    let mut lasting = Simulated::new(&[1000.0, 1050.0], 7);
    lasting.guard = Some(found(120));
    let run = experiment(&mut lasting, 7);
    assert_eq!((run.answer, run.violations.len()), (stopped, 1));
    assert!(run.seconds < 120.0 + 2.0 * 5.0 + 31.0, "{} s", run.seconds);
}

#[test]
fn guards_that_depend_on_the_rate_make_no_false_gains() {
    let mut gains = 0;
    for seed in 0..60 {
        let mut service = Simulated::new(&[1000.0; 3], 1000 + seed);
        let guard = SimulatedGuard::violated(ArmId(9), 0);
        service.guard = Some(SimulatedGuard { violated_from: BTreeMap::new(), slow_share: 0.01, ..guard });
        let run = experiment(&mut service, seed);
        assert!(run.seconds < 15.0 * 60.0 + 10.0, "{seed}: {} s", run.seconds);
        gains += u32::from(matches!(run.answer, LiveAnswer::Ended(Outcome::Gain { .. })));
    }
    // Each has a probability of 2.5 %; more than five of sixty have one of 0.5 %.
    assert!(gains <= 5, "{gains}");
}
