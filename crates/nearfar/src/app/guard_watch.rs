//! Reads guards in separate threads, so that a source that hangs delays nothing. Must not depend on placements.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::live::{GuardState, Violated};
use model::values::live_metric::{GuardLimit, GuardRule};

use crate::app::live_meter::LiveMeter;

/// Interval between the begins of two readings.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of a reading. With the interval, and a reading of the metric of the same length, a violation is seen within a
/// second.
pub const READ_LIMIT: Duration = Duration::from_millis(300);
/// Time without a successful reading after which a guard counts as violated.
const UNREAD_MAX: Duration = Duration::from_millis(600);
/// Interval over which a rate is measured for an upper limit.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// The same for a lower limit: short enough to see a violation within a second, although the first reading may be late.
const LOWER_LIMIT_WINDOW: Duration = Duration::from_millis(600);
/// Time for which readings are kept.
const KEPT: Duration = Duration::from_secs(3);

/// A reading of a source.
#[derive(Clone, Debug)]
struct GuardReading {
    began: Instant,
    value: Result<f64, String>,
}

/// A guard whose source is read until this is dropped.
pub struct GuardWatch {
    rule: GuardRule,
    readings: Arc<Mutex<VecDeque<GuardReading>>>,
    /// Closed when dropped: the thread then ends.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl GuardWatch {
    pub fn start(rule: GuardRule, mut meter: LiveMeter) -> Self {
        let readings = Arc::new(Mutex::new(VecDeque::new()));
        let (stop, stopped) = mpsc::channel::<()>();
        let shared = Arc::clone(&readings);
        let thread = std::thread::spawn(move || {
            loop {
                let began = Instant::now();
                let value = meter.value();
                let value =
                    value.and_then(|value| if value.is_nan() { Err("it is not a number".into()) } else { Ok(value) });
                let mut readings = shared.lock().unwrap_or_else(PoisonError::into_inner);
                readings.push_back(GuardReading { began, value });
                while readings.front().is_some_and(|first| first.began + KEPT < began) {
                    readings.pop_front();
                }
                drop(readings);
                if stopped.recv_timeout(INTERVAL.saturating_sub(began.elapsed())) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Self { rule, readings, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the state from the readings that began since `placed`. Times in the result are relative to `origin`.
    pub fn state(&self, placed: Instant, now: Instant, origin: Instant) -> GuardState {
        let readings: Vec<GuardReading> =
            self.readings.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        state(&self.rule, &readings, placed, now, origin)
    }
}

impl Drop for GuardWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Its readings have a time limit.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Judges the readings. Those that began before the placement may say something about the previous one.
fn state(rule: &GuardRule, readings: &[GuardReading], placed: Instant, now: Instant, origin: Instant) -> GuardState {
    let (mut good, mut error) = (Vec::new(), None);
    for reading in readings.iter().filter(|reading| reading.began >= placed) {
        match &reading.value {
            Ok(value) => good.push((reading.began, *value)),
            Err(text) => error = Some(text.clone()),
        }
    }
    let mut held = placed;
    let violated = |value: Result<f64, String>, held: Instant| {
        let since = held.saturating_duration_since(origin);
        GuardState::Violated(Violated { guard: rule.text.clone(), value, since })
    };
    let mut is_known = false;
    for (at, (began, value)) in good.iter().enumerate() {
        let value = if rule.is_rate { rate(rule.limit, &good[..=at]) } else { Some(*value) };
        match value {
            Some(value) if !rule.holds(value) => return violated(Ok(value), held),
            Some(_) => (is_known, held) = (true, *began),
            None => {}
        }
    }
    let last = good.last().map_or(placed, |(began, _)| *began);
    if now.saturating_duration_since(last) > UNREAD_MAX {
        let error = error.unwrap_or_else(|| format!("no answer within {} ms", READ_LIMIT.as_millis()));
        return violated(Err(error), held);
    }
    if is_known { GuardState::Hold } else { GuardState::Unknown }
}

/// Returns the growth per second before the last reading; `None` if it is not known yet. An upper limit can be
/// violated before a whole window has passed; a lower limit cannot be judged earlier.
fn rate(limit: GuardLimit, readings: &[(Instant, f64)]) -> Option<f64> {
    let window = match limit {
        GuardLimit::Above => LOWER_LIMIT_WINDOW,
        GuardLimit::Below => RATE_WINDOW,
    };
    let (last, total) = readings.last()?;
    let start = readings.iter().rposition(|(began, _)| *last >= *began + window).unwrap_or(0);
    let (first, before) = readings[start];
    let span = last.saturating_duration_since(first);
    // A counter that was reset has grown by an unknown number.
    let growth = (total - before).max(0.0);
    match limit {
        _ if span.is_zero() => None,
        GuardLimit::Above if span < window => None,
        _ => Some(growth / span.max(window).as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges readings at times in milliseconds since the placement; `None` cannot be read.
    fn judged(rule: &str, readings: &[(i64, Option<f64>)], now_ms: u64) -> GuardState {
        let origin = Instant::now();
        let placed = origin + Duration::from_secs(10);
        let at = |ms: i64| {
            if ms < 0 {
                placed.checked_sub(Duration::from_millis(ms.unsigned_abs())).expect("the machine runs for longer")
            } else {
                placed + Duration::from_millis(ms.unsigned_abs())
            }
        };
        let reading = |(ms, value): &(i64, Option<f64>)| GuardReading {
            began: at(*ms),
            value: value.ok_or_else(|| "refused".to_owned()),
        };
        let readings: Vec<GuardReading> = readings.iter().map(reading).collect();
        state(
            &GuardRule::parse(rule).expect("it is valid"),
            &readings,
            placed,
            placed + Duration::from_millis(now_ms),
            origin,
        )
    }

    /// Value and time in milliseconds since the placement of the last reading that held.
    fn violation(state: GuardState) -> (Result<f64, String>, u128) {
        let GuardState::Violated(violated) = state else { panic!("{state:?}") };
        (violated.value, violated.since.as_millis() - 10_000)
    }

    #[test]
    fn values_since_the_placement_are_compared() {
        let guard = "command:p99<20";
        assert_eq!(judged(guard, &[(-100, Some(30.0))], 50), GuardState::Unknown, "under the previous placement");
        assert_eq!(judged(guard, &[(-100, Some(30.0)), (100, Some(19.0))], 150), GuardState::Hold);
        assert_eq!(violation(judged(guard, &[(100, Some(19.0)), (300, Some(20.0))], 350)), (Ok(20.0), 100));
        assert_eq!(violation(judged(guard, &[(100, Some(21.0)), (300, Some(1.0))], 350)), (Ok(21.0), 0), "in between");
    }

    #[test]
    fn guards_that_cannot_be_read_are_violated() {
        let guard = "command:p99<20";
        assert_eq!(judged(guard, &[(100, None)], 500), GuardState::Unknown, "one failure is not enough");
        assert_eq!(violation(judged(guard, &[(100, None), (300, None)], 601)), (Err("refused".into()), 0));
        let silent = "no answer within 300 ms".to_owned();
        assert_eq!(violation(judged(guard, &[(50, Some(1.0))], 651)), (Err(silent), 50));
        assert_eq!(judged(guard, &[(50, Some(1.0)), (250, None), (450, Some(1.0))], 1000), GuardState::Hold);
    }

    #[test]
    fn growth_per_second_is_compared() {
        let errors = "command:errors<2/s";
        let grows = |per_reading: f64, count: i64| -> Vec<(i64, Option<f64>)> {
            (0..count).map(|at| (200 * at, Some(1000.0 + per_reading * at as f64))).collect()
        };
        assert_eq!(judged(errors, &grows(1.0, 1), 100), GuardState::Unknown);
        assert_eq!(judged(errors, &grows(0.2, 20), 3900), GuardState::Hold);
        assert_eq!(violation(judged(errors, &grows(1.0, 5), 900)), (Ok(2.0), 200), "before a second has passed");
        assert_eq!(violation(judged(errors, &[(0, Some(5.0)), (200, Some(7.0))], 300)), (Ok(2.0), 0));
        assert_eq!(
            judged(errors, &[(0, Some(900.0)), (200, Some(0.0)), (400, Some(1.0))], 500),
            GuardState::Hold,
            "a reset"
        );
        let work = "tcp:80>10";
        assert_eq!(judged(work, &grows(0.0, 3), 500), GuardState::Unknown, "a lower limit needs a whole window");
        assert_eq!(violation(judged(work, &grows(0.0, 4), 700)), (Ok(0.0), 0), "within a second");
        assert_eq!(violation(judged(work, &grows(1.0, 6), 1100)), (Ok(5.0), 0));
        assert_eq!(judged(work, &grows(3.0, 6), 1100), GuardState::Hold);
    }

    #[test]
    fn dropped_watch_ends_its_thread() {
        let rule = GuardRule::parse("command:echo 5<20").expect("it is valid");
        let threads = machine::service_threads::ServiceThreads::of_tree(std::process::id()).expect("this process");
        let meter = LiveMeter::open("--guard", &rule.source, &threads, Duration::from_secs(60)).expect("it is read");
        let (origin, watch) = (Instant::now(), GuardWatch::start(rule, meter));
        let end = origin + Duration::from_secs(60);
        while watch.state(origin, origin, origin) != GuardState::Hold {
            assert!(Instant::now() < end, "it is read");
            std::thread::sleep(Duration::from_millis(5));
        }
        let readings = Arc::clone(&watch.readings);
        drop(watch);
        assert_eq!(Arc::strong_count(&readings), 1, "the thread has ended");
    }
}
