//! Each decision of the governor, on counters and times chosen for it.

use super::*;

const DRAM: u64 = 64 << 20;
const PAGE: u64 = 4096;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn governor() -> Governor {
    Governor::new(Tuning::for_dram(DRAM, PAGE))
}

/// A governor that is checked whenever a check is due.
struct Checked {
    governor: Governor,
    predicted: Counts,
    now: Duration,
}

impl Checked {
    fn new() -> Self {
        let mut governor = governor();
        assert_eq!(governor.check(&Counts::default(), Duration::ZERO), Some(Sampling::On));
        Self { governor, predicted: Counts::default(), now: Duration::ZERO }
    }

    /// The decision after a batch of faults, of which some belong to a stream.
    fn batch(&mut self, faults: u64, matched: u64) -> Sampling {
        self.predicted.major += faults / 2;
        self.predicted.minor_seen += faults - faults / 2;
        self.predicted.matched += matched;
        self.now += ms(10);
        self.governor.check(&self.predicted, self.now).expect("a check is due")
    }

    fn useless(&mut self) -> Sampling {
        self.batch(1000, 0)
    }

    /// Returns how long nothing is sampled from now on.
    fn rest_of_nap(&mut self) -> Duration {
        let began = self.now;
        assert!((0..100).any(|_| self.batch(0, 0) == Sampling::On), "it does not end");
        self.now.saturating_sub(began)
    }
}

#[test]
fn polls_are_rare_while_nothing_is_far() {
    assert_eq!([true, false].map(Governor::pace), [ms(2), ms(10)]);
}

#[test]
fn next_check_is_due_ten_milliseconds_after_the_last() {
    let mut governor = governor();
    let due = [0, 9, 10, 19, 27, 30, 36, 37].map(|at| governor.check(&Counts::default(), ms(at)).is_some());
    assert_eq!(due, [true, false, true, false, true, false, false, true]);
}

#[test]
fn three_useless_batches_in_a_row_start_a_back_off() {
    let mut checked = Checked::new();
    assert_eq!([checked.useless(), checked.useless()], [Sampling::On; 2]);
    // A useful one interrupts the row: a tenth belongs to a stream.
    assert_eq!(checked.batch(50, 5), Sampling::On);
    assert_eq!([checked.useless(), checked.batch(50, 4)], [Sampling::On; 2]);
    assert_eq!(checked.governor.counts().naps, 0);
    assert_eq!(checked.useless(), Sampling::Off);
    assert_eq!(checked.governor.counts(), GovernorCounts { naps: 1, ..GovernorCounts::default() });
}

#[test]
fn too_few_faults_are_not_judged() {
    let mut checked = Checked::new();
    assert!((0..10).all(|_| checked.batch(49, 0) == Sampling::On));
    // They do not interrupt a row of useless batches either.
    assert_eq!([checked.useless(), checked.useless(), checked.batch(49, 49)], [Sampling::On; 3]);
    assert_eq!(checked.useless(), Sampling::Off);
}

#[test]
fn back_off_ends_and_is_longer_after_one_more_useless_batch() {
    let mut checked = Checked::new();
    checked.useless();
    checked.useless();
    for (naps, length) in (1..).zip([20, 40, 80, 160, 160]) {
        assert_eq!(checked.useless(), Sampling::Off);
        assert_eq!(checked.governor.counts().naps, naps);
        assert_eq!(checked.rest_of_nap(), ms(length));
    }
}

#[test]
fn useful_batch_after_a_back_off_makes_the_next_one_short() {
    let mut checked = Checked::new();
    (0..3).for_each(|_| _ = checked.useless());
    checked.rest_of_nap();
    assert_eq!(checked.useless(), Sampling::Off);
    assert_eq!(checked.rest_of_nap(), ms(40));
    assert_eq!(checked.batch(1000, 1000), Sampling::On);
    assert_eq!([checked.useless(), checked.useless(), checked.useless()], [Sampling::On, Sampling::On, Sampling::Off]);
    assert_eq!(checked.rest_of_nap(), ms(20));
}

#[test]
fn faults_before_the_end_of_a_back_off_are_not_judged() {
    let mut checked = Checked::new();
    (0..3).for_each(|_| _ = checked.useless());
    assert_eq!(
        [checked.useless(), checked.useless(), checked.batch(0, 0)],
        [Sampling::Off, Sampling::On, Sampling::On]
    );
}

#[test]
fn unearned_cpu_time_pauses_the_controller() {
    let mut governor = governor();
    let mut pause = |pages, cpu_ms, elapsed_ms| {
        governor.pause(&Effort { pages, cpu: ms(cpu_ms), elapsed: ms(elapsed_ms) }).map(|pause| pause.as_millis())
    };
    // 50 ms are free.
    assert_eq!([pause(0, 50, 0), pause(0, 51, 0)], [None, Some(2)]);
    // It recovers with time, of which a tenth is free, and with pages, of which 125 earn one millisecond.
    assert_eq!([pause(0, 51, 9), pause(0, 51, 10)], [Some(2), None]);
    assert_eq!([pause(0, 150, 990), pause(0, 150, 1010)], [Some(2), None]);
    assert_eq!([pause(124, 51, 0), pause(126, 51, 0)], [Some(2), None]);
    assert_eq!(governor.counts(), GovernorCounts { throttled: 4, ..GovernorCounts::default() });
}

#[test]
fn memory_is_freed_for_waiting_processes_only() {
    let mut governor = governor();
    assert_eq!(governor.rescue(false), None);
    assert_eq!(governor.rescue(true), Some(DRAM / 8));
    assert_eq!(governor.counts(), GovernorCounts { rescues: 1, ..GovernorCounts::default() });
    let mut small = Governor::new(Tuning::for_dram(1 << 20, PAGE));
    assert_eq!(small.rescue(true), Some(1 << 20));
}

#[test]
fn rescues_in_vain_are_given_up_only_in_a_row_of_a_hundred() {
    let mut governor = governor();
    let mut rescue = |times, bytes| -> Vec<Guard> {
        let decisions = (0..times).map(|_| {
            governor.rescue(true);
            governor.rescued(bytes)
        });
        decisions.collect()
    };
    assert_eq!(rescue(99, 0), [Guard::Keep; 99]);
    assert_eq!(rescue(1, PAGE), [Guard::Keep]);
    assert_eq!(rescue(99, 0), [Guard::Keep; 99]);
    assert_eq!(rescue(1, 0), [Guard::GiveUp]);
    assert_eq!(governor.counts().rescues, 200);
}

#[test]
fn rescues_in_vain_are_forgotten_when_no_process_waits() {
    let mut governor = governor();
    for _ in 0..3 {
        assert!((0..99).all(|_| governor.rescue(true).is_some() && governor.rescued(0) == Guard::Keep));
        assert_eq!(governor.rescue(false), None);
    }
}
