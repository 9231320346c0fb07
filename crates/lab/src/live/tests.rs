//! Experiments on a simulated service with drift and noise, whose rate follows a switch with a delay.

use std::f64::consts::TAU;

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
        self.placed += 1;
        Ok(())
    }

    fn verify(&mut self, arm: ArmId) -> Result<(), String> {
        let is_stolen = self.stolen == Some(arm) && self.placed.is_multiple_of(2);
        if is_stolen { Err("thread 7 may run on CPU 3".into()) } else { Ok(()) }
    }

    fn count(&mut self) -> Result<f64, String> {
        if self.total < self.fails_at { Ok(self.total) } else { Err("no socket listens on port 7".into()) }
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait_until(&mut self, time: Duration) {
        let step_s = 0.01;
        while self.now < time {
            let steady = self.rates[self.arm.0 as usize];
            self.rate += (steady - self.rate) * (1.0 - (-step_s / self.lag_s).exp());
            // A slow drift by a tenth.
            let drift = 1.0 + 0.1 * (TAU * self.now.as_secs_f64() / 300.0).sin();
            self.total += step_s * self.rate * drift * (1.0 + 0.1 * self.random());
            self.now += Duration::from_secs_f64(step_s);
        }
    }
}

fn experiment(service: &mut Simulated, seed: u64) -> LiveRun {
    let plan = LivePlan { alternatives: service.rates.len() as u32 - 1, seed, budget: Duration::from_secs(15 * 60) };
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
    let plan = LivePlan { alternatives: 1, seed: 1, budget: Duration::from_secs(15 * 60) };
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
