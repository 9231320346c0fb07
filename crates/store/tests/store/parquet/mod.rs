//! Parquet export: read back by the format's reader, in other processes, on failing disks, after `kill -9`.

#[cfg(feature = "s3")]
mod bucket;
mod content;
mod files;
mod memory;
mod python;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use model::values::record::{RunId, RunRecord};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use store::Store;

use crate::fixtures;

/// A results file with one run of this number of trials and samples per trial.
fn stored(dir: &Path, run: &RunRecord, trials: u32, samples: usize) -> Store {
    let mut store = Store::open(&dir.join("results.db")).unwrap();
    store.begin_run(run).unwrap();
    (0..trials).for_each(|position| store.add_trial(&run.id, &fixtures::trial(run, position, samples)).unwrap());
    store
}

fn export(store: &Store, run: &RunId, dir: &Path) -> store::export::ExportedRun {
    store::export::parquet(store, run, dir).unwrap()
}

/// All rows of a file, by column.
fn rows(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().into_columns().into_iter().collect()).collect()
}

/// The relative paths of all files in a directory tree, including hidden ones.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.push(path.strip_prefix(dir).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}
