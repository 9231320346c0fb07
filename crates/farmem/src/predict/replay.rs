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
    world: MemoryModel,
}

impl ReplayResult {
    /// Fraction of waits that the predictor avoided.
    fn avoided(&self) -> f64 {
        1.0 - self.steered as f64 / self.plain.max(1) as f64
    }

    /// Fraction of prefetched pages that were accessed.
    fn used(&self) -> f64 {
        self.world.used as f64 / self.world.fetched.max(1) as f64
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
    let (world, counts) = play(&header, &records, true);
    let faults = records.iter().filter(|record| matches!(record, Record::Fault(_))).count() as u64;
    let replayed = ReplayResult { plain: plain.waited, steered: world.waited, world };
    println!(
        "{name}: {faults} faults, {} waits without, {} with: {:.3} avoided; {} fetched, {:.3} used; {counts:?}",
        replayed.plain,
        replayed.steered,
        replayed.avoided(),
        replayed.world.fetched,
        replayed.used()
    );
    replayed
}

fn play(header: &Header, records: &[Record], steered: bool) -> (MemoryModel, Counts) {
    let tuning = Tuning::for_dram(header.dram, PAGE);
    let (mut world, mut predictor) = (MemoryModel::new(header.dram / PAGE, 0), Predictor::new(tuning));
    world.touched.extend(far_at_first(records));
    // As in the controller.
    let slack = tuning.dram / 12;
    let mut now = 0;
    for record in records {
        let fault = match record {
            Record::Fault(fault) => fault,
            Record::Look { now: looked, .. } => {
                now = *looked;
                continue;
            }
            _ => continue,
        };
        let Some(major) = world.touch(fault.address / PAGE) else { continue };
        if !steered || (!major && !world.minor.is_multiple_of(tuning.minor_period)) {
            continue;
        }
        predictor.observe(&Fault { major, ..*fault });
        let headroom = tuning.dram as i64 - (world.near.len() as u64 * PAGE + slack) as i64;
        for order in predictor.orders(now, headroom) {
            let pages = world.apply(&order);
            predictor.fetched(&order, pages, now);
        }
    }
    (world, predictor.counts())
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
macro_rules! foresees {
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
foresees!(a_sweep_is_foreseen, "read", 0.98, 0.95);
foresees!(a_backward_sweep_is_foreseen, "backward", 0.98, 0.98);
foresees!(three_streams_are_foreseen, "three-streams", 0.94, 0.92);
foresees!(a_triad_is_foreseen, "triad", 0.94, 0.95);
foresees!(steps_are_foreseen, "steps", 0.80, 0.90);
// OpenBLAS in workload gemm, 52 MiB in 28 MiB.
foresees!(a_matrix_product_is_foreseen, "gemm", 0.85, 0.88);
// GNU sort of 12 MB in 14 MiB, and the searches of workload bfs (scale 17 in 20 MiB), whose random accesses are not
// predicted.
foresees!(a_sort_is_foreseen_in_part, "sort", 0.75, 0.94);
foresees!(a_search_is_foreseen_in_part, "bfs", 0.60, 0.95);
// SQLite creating an index of a table of 317 MiB in 158 MiB: it steps through its own pages of 4368 bytes.
foresees!(records_of_one_size_are_swept, "sqlite", 0.93, 0.97);

#[test]
fn random_reads_are_not_prefetched() {
    let replayed = replay("random-read", include_bytes!("traces/random-read.trace"));
    assert!(replayed.plain > 1000, "the trace has too few waits");
    assert_eq!((replayed.steered, replayed.world.fetched), (replayed.plain, 0));
}
