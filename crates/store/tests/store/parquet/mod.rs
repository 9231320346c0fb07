//! Runs as Parquet files: read back by the format's own reader, in other processes, on bad disks, after `kill -9`.

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

/// A results file with one run of so many trials with so many samples each.
fn stored(folder: &Path, run: &RunRecord, trials: u32, samples: usize) -> Store {
    let mut store = Store::open(&folder.join("results.db")).unwrap();
    store.begin_run(run).unwrap();
    (0..trials).for_each(|position| store.add_trial(&run.id, &fixtures::trial(run, position, samples)).unwrap());
    store
}

fn export(store: &Store, run: &RunId, folder: &Path) -> store::export::ExportedRun {
    store::export::parquet(store, run, folder).unwrap()
}

/// All rows of a file, by column.
fn rows(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().into_columns().into_iter().collect()).collect()
}

/// Every file under a folder, hidden ones too, by its path below the folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}
