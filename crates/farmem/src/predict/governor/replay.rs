//! Replays faults of real programs through the predictor, the governor and a [`MemoryModel`], poll by poll as the
//! controller does. Accesses keep their recorded times, even if the predictor saves waits. A trace has no CPU times and
//! no processes that wait for memory: CPU times are assumed, and rescues do not occur.

use std::time::Duration;

use super::{Effort, Governor, GovernorCounts, Sampling};
use crate::predict::memory_model::{MemoryModel, PAGE};
use crate::predict::replay::far_at_first;
use crate::predict::{Advice, Fault, Order, Predictor, Tuning};
use crate::trace::{Decoder, Record};

/// Assumed conditions of a replay.
#[derive(Clone, Copy)]
struct Assumed {
    /// CPU time of a sample.
    cpu: Duration,
    /// Factor by which the program runs faster than in the recording.
    speed: u32,
}

const AS_RECORDED: Assumed = Assumed { cpu: Duration::from_micros(20), speed: 1 };
/// So fast that each check has enough faults to judge; in the recordings, most have too few.
const FAST: Assumed = Assumed { speed: 8, ..AS_RECORDED };
/// At this cost, most traces need more CPU time than is free.
const DEAR: Assumed = Assumed { cpu: Duration::from_micros(175), ..AS_RECORDED };

/// The controller without threads, clocks and a kernel.
struct ControllerModel {
    tuning: Tuning,
    world: MemoryModel,
    predictor: Predictor,
    governor: Governor,
    sampling: Sampling,
    /// Samples that wait for the next poll.
    ring: Vec<Fault>,
    effort: Effort,
    sample_cpu: Duration,
    /// Start of each back-off, and its end if it has ended.
    naps: Vec<(Duration, Option<Duration>)>,
}

impl ControllerModel {
    fn new(dram: u64, sample_cpu: Duration) -> Self {
        let tuning = Tuning::for_dram(dram, PAGE);
        Self {
            tuning,
            world: MemoryModel::new(dram / PAGE, 0),
            predictor: Predictor::new(tuning),
            governor: Governor::new(tuning),
            sampling: Sampling::On,
            ring: vec![],
            effort: Effort { pages: 0, cpu: Duration::ZERO, elapsed: Duration::ZERO },
            sample_cpu,
            naps: vec![],
        }
    }

    fn access(&mut self, fault: &Fault) {
        let Some(major) = self.world.touch(fault.address / PAGE) else { return };
        let sampled = major || self.world.minor.is_multiple_of(self.tuning.minor_period);
        if sampled && self.sampling == Sampling::On {
            self.ring.push(Fault { major, ..*fault });
        }
    }

    fn poll(&mut self) {
        let now = self.effort.elapsed;
        if let Some(sampling) = self.governor.check(&self.predictor.counts(), now) {
            self.note(sampling);
        }
        let pause = self.governor.pause(&self.effort);
        let ring = std::mem::take(&mut self.ring);
        self.effort.cpu += self.sample_cpu * ring.len() as u32;
        if pause.is_some() {
            return;
        }
        // Samples that are still in the ring when a back-off starts are dropped.
        if self.sampling == Sampling::On {
            ring.iter().for_each(|fault| self.predictor.observe(fault));
        }
        let slack = self.tuning.dram / 12;
        let headroom = self.tuning.dram as i64 - (self.world.near.len() as u64 * PAGE + slack) as i64;
        let now = now.as_nanos() as u64;
        for order in self.predictor.orders(now, headroom) {
            let pages = self.world.apply(&order);
            self.predictor.fetched(&order, pages, now);
            self.effort.pages += pages + evicted(&order);
        }
    }

    fn note(&mut self, sampling: Sampling) {
        let now = self.effort.elapsed;
        match (self.sampling, sampling) {
            (Sampling::On, Sampling::Off) => self.naps.push((now, None)),
            (Sampling::Off, Sampling::On) => self.naps.last_mut().expect("it has begun").1 = Some(now),
            _ => {}
        }
        self.sampling = sampling;
    }

    /// Lengths of the back-offs that have ended, in milliseconds.
    fn nap_lengths(&self) -> Vec<u128> {
        let ended = self.naps.iter().filter_map(|(began, ended)| Some((*began, (*ended)?)));
        ended.map(|(began, ended)| ended.saturating_sub(began).as_millis()).collect()
    }
}

/// Evicted pages.
fn evicted(order: &Order) -> u64 {
    if let Advice::PageOut(range) = &order.advice { (range.end - range.start) / PAGE } else { 0 }
}

fn replay(name: &str, bytes: &[u8], assumed: Assumed) -> ControllerModel {
    let decoder = Decoder::begin(bytes).expect("a trace");
    let mut model = ControllerModel::new(decoder.header.dram, assumed.cpu);
    let records: Vec<Record> = decoder.collect::<Result<_, _>>().expect("a whole trace");
    model.world.touched.extend(far_at_first(&records));
    let mut began = None;
    for record in &records {
        match record {
            Record::Fault(fault) => model.access(fault),
            Record::Look { now, .. } => {
                let now = Duration::from_nanos(*now) / assumed.speed;
                let now = now.saturating_sub(*began.get_or_insert(now));
                // Polls that read no fault were left out of the trace.
                while model.effort.elapsed < now {
                    model.effort.elapsed = now.min(model.effort.elapsed + Governor::pace(true));
                    model.poll();
                }
            }
            _ => {}
        }
    }
    let (counts, Effort { pages, cpu, elapsed }) = (model.governor.counts(), model.effort);
    println!("{name}: {counts:?}, {cpu:?} of {elapsed:?}, {pages} pages moved, {:?}", model.naps);
    model
}

macro_rules! trace {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../traces/", $name, ".trace")) as &[u8])
    };
}

/// Programs whose faults form streams.
const STREAMS: [(&str, &[u8]); 9] = [
    trace!("read"),
    trace!("backward"),
    trace!("three-streams"),
    trace!("triad"),
    trace!("steps"),
    trace!("gemm"),
    trace!("sort"),
    trace!("bfs"),
    trace!("sqlite"),
];
const RANDOM: (&str, &[u8]) = trace!("random-read");

#[test]
fn streams_are_followed_all_the_time() {
    for (assumed, (name, bytes)) in [AS_RECORDED, FAST].into_iter().flat_map(|of| STREAMS.map(|trace| (of, trace))) {
        let model = replay(name, bytes, assumed);
        assert_eq!(model.governor.counts(), GovernorCounts::default(), "{name}");
        assert!(model.effort.pages > 1000, "{name}: {:?}", model.effort);
    }
}

#[test]
fn pages_moved_earn_the_cpu_time() {
    for (name, bytes) in STREAMS {
        let counts = replay(name, bytes, DEAR).governor.counts();
        // Strided access has the most samples per page moved.
        assert_eq!((counts.naps, counts.throttled > 0), (0, name == "steps"), "{name}: {counts:?}");
    }
}

#[test]
fn random_reads_make_the_controller_back_off() {
    let (name, bytes) = RANDOM;
    let model = replay(name, bytes, AS_RECORDED);
    assert_eq!(model.governor.counts(), GovernorCounts { naps: 2, ..GovernorCounts::default() });
    // 20 and 40 ms, until the next check.
    assert_eq!(model.nap_lengths(), [23, 44]);
    let model = replay(name, bytes, FAST);
    assert_eq!(model.governor.counts(), GovernorCounts { naps: 2, ..GovernorCounts::default() });
    // The trace ends during the second.
    assert_eq!(model.nap_lengths(), [20]);
}

#[test]
fn random_reads_earn_no_cpu_time() {
    let (name, bytes) = RANDOM;
    let counts = replay(name, bytes, DEAR).governor.counts();
    // It is paused before it can see that the reads form no streams.
    assert_eq!(counts, GovernorCounts { throttled: 542, ..GovernorCounts::default() });
}
