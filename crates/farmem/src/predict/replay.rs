//! Replays faults of real programs through the predictor and a [`MemoryModel`]. They were recorded with `nearfar expand
//! --engine kernel --trace` and shortened by the example `trace` of this crate. The initial state of memory is unknown,
//! so the model starts empty. Accesses to mapped pages are not in a trace, so the model knows less about use than a
//! kernel.

use super::memory_model::{MemoryModel, PAGE};
use super::*;
use crate::trace::{Decoder, Header, Record};

/// The result of a replay.
struct ReplayResult {
    /// Faults that waited, without and with the predictor.
    plain: u64,
    steered: u64,
    memory: MemoryModel,
}

impl ReplayResult {
    /// Fraction of waits that the predictor avoided.
    fn avoided(&self) -> f64 {
        1.0 - self.steered as f64 / self.plain.max(1) as f64
    }

    /// Fraction of prefetched pages that were accessed.
    fn used(&self) -> f64 {
        self.memory.used as f64 / self.memory.fetched.max(1) as f64
    }
}

fn replay(name: &str, bytes: &[u8]) -> ReplayResult {
    let decoder = Decoder::begin(bytes).expect("a trace");
    let header = decoder.header;
    let records: Vec<Record> = decoder.collect::<Result<_, _>>().expect("a whole trace");
    assert_eq!(
        (header.page, header.minor_period, header.steered),
        (PAGE, 1, false),
        "the trace must contain every fault"
    );
    let (plain, _) = play(&header, &records, false);
    let (memory, counts) = play(&header, &records, true);
    let faults = records.iter().filter(|record| matches!(record, Record::Fault(_))).count() as u64;
    let replayed = ReplayResult { plain: plain.waited, steered: memory.waited, memory };
    println!(
        "{name}: {faults} faults, {} waits without, {} with: {:.3} avoided; {} fetched, {:.3} used; {counts:?}",
        replayed.plain,
        replayed.steered,
        replayed.avoided(),
        replayed.memory.fetched,
        replayed.used()
    );
    replayed
}

fn play(header: &Header, records: &[Record], steered: bool) -> (MemoryModel, Counts) {
    let tuning = Tuning::for_dram(header.dram, PAGE);
    let (mut memory, mut predictor) = (MemoryModel::new(header.dram / PAGE, 0), Predictor::new(tuning));
    memory.touched.extend(far_at_first(records));
    // As in the controller.
    let slack = tuning.dram / 12;
    let mut now = 0;
    for record in records {
        let fault = match record {
            Record::Fault(fault) => fault,
            Record::Look { now: time, .. } => {
                now = *time;
                continue;
            }
            _ => continue,
        };
        let Some(major) = memory.touch(fault.address / PAGE) else { continue };
        if !steered || (!major && !memory.minor.is_multiple_of(tuning.minor_period)) {
            continue;
        }
        predictor.observe(&Fault { major, ..*fault });
        let headroom = tuning.dram as i64 - (memory.near.len() as u64 * PAGE + slack) as i64;
        for order in predictor.orders(now, headroom) {
            let pages = memory.apply(&order);
            predictor.fetched(&order, pages, now);
        }
    }
    (memory, predictor.counts())
}

/// Pages that were waited for and their read-ahead neighbours; all others are new at their first access.
pub(super) fn far_at_first(records: &[Record]) -> Vec<u64> {
    let faults =
        || records.iter().filter_map(|record| if let Record::Fault(fault) = record { Some(fault) } else { None });
    let waited: std::collections::BTreeSet<u64> =
        faults().filter(|fault| fault.major).map(|fault| fault.address / PAGE / READ_AROUND).collect();
    faults().map(|fault| fault.address / PAGE).filter(|page| waited.contains(&(page / READ_AROUND))).collect()
}

/// Replays a named trace and requires minimum fractions of waits avoided and pages used.
macro_rules! replay_test {
    ($test:ident, $name:literal, $avoided:literal, $used:literal) => {
        #[test]
        fn $test() {
            let replayed = replay($name, include_bytes!(concat!("traces/", $name, ".trace")));
            assert!(replayed.plain > 500, "the trace has too few waits");
            assert!(replayed.avoided() >= $avoided, "{:.3} avoided", replayed.avoided());
            assert!(replayed.used() >= $used, "{:.3} used", replayed.used());
        }
    };
}

// Workload sweep, 40 MiB in 24 MiB (strided: 96 in 32), in its second and later passes.
replay_test!(sweep_is_predicted, "read", 0.98, 0.95);
replay_test!(backward_sweep_is_predicted, "backward", 0.98, 0.98);
replay_test!(three_streams_are_predicted, "three-streams", 0.94, 0.92);
replay_test!(triad_is_predicted, "triad", 0.94, 0.95);
replay_test!(steps_are_predicted, "steps", 0.80, 0.90);
// OpenBLAS in workload gemm, 52 MiB in 28 MiB.
replay_test!(matrix_product_is_predicted, "gemm", 0.85, 0.88);
// GNU sort of 12 MB in 14 MiB, and the searches of workload bfs (scale 17 in 20 MiB), whose random accesses are not
// predicted.
replay_test!(sort_is_partly_predicted, "sort", 0.75, 0.94);
replay_test!(search_is_partly_predicted, "bfs", 0.60, 0.95);
// SQLite creating an index of a table of 317 MiB in 158 MiB: it steps through its own pages of 4368 bytes.
replay_test!(records_of_one_size_are_a_sweep, "sqlite", 0.93, 0.97);

#[test]
fn random_reads_are_not_prefetched() {
    let replayed = replay("random-read", include_bytes!("traces/random-read.trace"));
    assert!(replayed.plain > 1000, "the trace has too few waits");
    assert_eq!((replayed.steered, replayed.memory.fetched), (replayed.plain, 0));
}
