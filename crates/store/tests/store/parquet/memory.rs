//! Memory of an export: one row group, however many rows there are.

use std::fs::File;

use model::values::record::{RunRecord, TrialRecord};
use model::values::trial::Evidence;
use parquet::file::reader::{FileReader, SerializedFileReader};
use store::Store;
use store::shared::{Content, write};

use crate::child::{again, given_path};
use crate::fixtures;
use crate::parquet::export;

const SAMPLES: usize = 1_000;
const PEAK: &str = "peak KiB ";

/// A results file with this number of trials of 1000 samples, stored in one transaction for speed.
pub fn many(path: &std::path::Path, run: &RunRecord, trials: u32) {
    let trial = |position| {
        let mut record = fixtures::trial(run, position, SAMPLES);
        record.outcome.evidence = Evidence::default();
        record
    };
    let trials: Vec<TrialRecord> = (0..trials).map(trial).collect();
    write(path, Content::Run(run, &trials)).unwrap();
}

/// Helper process: exports the given run and prints its peak memory.
#[test]
fn export_and_report() {
    let Some(path) = given_path() else { return };
    let store = Store::open_existing(&path).unwrap();
    let written = export(&store, &fixtures::run("aa", 7).id, &path.with_file_name("out"));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\n{PEAK}{}", peak.trim().trim_end_matches(" kB"));
    println!("rows {}", written.rows);
}

#[test]
fn memory_of_an_export_does_not_grow_with_the_run() {
    let peak = |trials: u32| {
        let dir = tempfile::tempdir().unwrap();
        let (path, run) = (dir.path().join("results.db"), fixtures::run("aa", 7));
        many(&path, &run, trials);
        let output = again("parquet::memory::export_and_report").env("NEARFAR_TEST_STORE", &path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("rows {}\n", trials as usize * SAMPLES)), "{text}");
        let out = dir.path().join("out");
        let file = out.join(&crate::parquet::files(&out)[0]);
        let groups = SerializedFileReader::new(File::open(file).unwrap()).unwrap().metadata().num_row_groups();
        let peak: u64 = text.lines().find_map(|line| line.strip_prefix(PEAK)).unwrap().parse().unwrap();
        (peak, groups)
    };
    let ((small, few), (large, several)) = (peak(200), peak(800));
    eprintln!("{small} KiB for 200 000 rows in {few} groups, {large} KiB for 800 000 in {several}");
    assert_eq!((few, several), (2, 7), "groups of 131 072 rows, trials whole");
    // 600 000 more rows would take at least 34 MB if all were kept in memory.
    assert!(large < small + 8 * 1024, "{small} and {large} KiB");
}
