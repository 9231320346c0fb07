//! Synthesises the results of many machines from those of one, exported as by `nearfar export`, for
//! scripts/bench-fleet. `cargo bench -p store --features parquet --bench fleet -- RESULTS DIR MACHINES DAYS`; the tests
//! run it with a minimal size.
//!
//! Every machine has the newest run of RESULTS on every day, with a distinct host name and one of three kernels, of
//! which the last is 3 % slower. Values vary by machine (1 %), day (0.5 %) and sample (2 %); one machine in a hundred
//! is 10 % slower.

use std::path::Path;
use std::time::Instant;

use model::values::record::{RunId, RunRecord, TrialRecord};
use model::values::settings::FactValue;
use model::values::trial::{TrialId, short_hash};
use store::Store;
use store::export::parquet_of;

#[path = "../tests/store/fixtures.rs"]
mod fixtures;

const DAY_MS: u64 = 24 * 3600 * 1000;
const KERNELS: [(&str, f64); 3] = [("6.1.0-fleet", 1.0), ("6.6.0-fleet", 1.0), ("6.12.0-fleet", 0.97)];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes `--bench`; `cargo test` does not.
    let full = words.iter().any(|word| word == "--bench");
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        [results, dir, machines, days] if full => {
            let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is not a number"));
            let store = Store::open_existing(Path::new(results)).expect("RESULTS is a results file");
            let record = store.run("latest").expect("it has a run");
            let trials = store.trials(&record.id).expect("its trials can be read");
            make(&record, &trials, Path::new(dir), number(machines), number(days));
        }
        _ if full => println!("missing arguments: RESULTS DIR MACHINES DAYS"),
        _ => smoke(),
    }
}

fn smoke() {
    let dir = tempfile::tempdir().expect("creates a temporary directory");
    let record = fixtures::run("0123456789abcdef", 1);
    let trials: Vec<TrialRecord> = (0..20).map(|position| fixtures::trial(&record, position, 5)).collect();
    assert_eq!(make(&record, &trials, dir.path(), 3, 2), 3 * 2 * 100);
}

/// Writes the files with one thread per CPU and returns the number of rows.
fn make(record: &RunRecord, trials: &[TrialRecord], dir: &Path, machines: u64, days: u64) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let begin = Instant::now();
    let rows: usize = std::thread::scope(|scope| {
        let part = |first| {
            scope.spawn(move || {
                let share = (first..machines * days).step_by(threads as usize);
                share.map(|index| one(record, trials, dir, index % machines, index / machines)).sum::<usize>()
            })
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        parts.into_iter().map(|part| part.join().expect("its thread ends")).sum()
    });
    println!("{rows} rows in {} files, {:.3} s on {threads} threads", machines * days, begin.elapsed().as_secs_f64());
    rows
}

/// Writes one machine's run of one day and returns the number of rows.
fn one(record: &RunRecord, trials: &[TrialRecord], dir: &Path, machine: u64, day: u64) -> usize {
    let (kernel, speed) = KERNELS[(machine % 3) as usize];
    let mut of_machine = Random(machine);
    let mut random = Random(day << 32 | machine);
    let slow = if machine % 100 == 7 { 0.9 } else { 1.0 };
    let level = speed * slow * (1.0 + 0.01 * of_machine.normal()) * (1.0 + 0.005 * random.normal());
    let host = format!("node-{machine:06}");
    let mut run = record.clone();
    run.id = RunId(short_hash(&format!("{host} {day}")));
    run.host = Some(host);
    run.started_unix_ms += day * DAY_MS + machine * 1000 % DAY_MS;
    run.seed = machine;
    run.machine.settings.record("kernel.release", FactValue::Known(kernel.into()));
    let (cells, id, begins) = (&record.plan.cells, run.id.clone(), run.started_unix_ms);
    let trials = trials.iter().map(|trial| {
        let mut own = trial.clone();
        let what = &own.trial;
        let key = cells.get(what.cell).map_or("", |cell| cell.key.as_str());
        own.trial.id = TrialId::derive(&id.0, key, what.role, what.block, what.attempt);
        own.outcome.started_unix_ms = begins + own.outcome.started_unix_ms.saturating_sub(record.started_unix_ms);
        for sample in &mut own.outcome.samples {
            sample.value *= level * (1.0 + 0.02 * random.normal());
        }
        own
    });
    parquet_of(&run, trials, dir).expect("the directory is writable").rows
}

/// `SplitMix64` (Steele, Lea, Flood 2014), with a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A value in [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normal with variance 1: a sum of twelve uniform values.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
