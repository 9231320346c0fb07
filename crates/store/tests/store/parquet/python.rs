//! Other readers of the format: `pyarrow` and DuckDB, if a Python on this machine has them.

use std::path::Path;
use std::process::Command;

use model::values::record::RunRecord;
use store::Store;

use crate::fixtures;
use crate::parquet::export;

const PYARROW: &str = "import sys, pyarrow.dataset as ds\n\
    table = ds.dataset(sys.argv[1], format='parquet', partitioning='hive').to_table()\n\
    of = lambda name: table.column(name).to_pylist()\n\
    print(table.num_rows, len(set(of('trial'))), sorted(set(of('experiment'))), sorted({str(d) for d in of('date')}),\n\
          repr(sum(v for v in of('value') if v is not None)))\n";

const DUCKDB: &str = "import sys, duckdb\n\
    rows = duckdb.connect().execute(f\"\"\"SELECT count(*), count(DISTINCT trial), list_sort(list(DISTINCT experiment)),\n\
        list_sort(list(DISTINCT CAST(date AS VARCHAR))), list(value)\n\
        FROM read_parquet('{sys.argv[1]}/**/*.parquet', hive_partitioning = true)\"\"\").fetchall()[0]\n\
    print(*rows[:4], repr(sum(v for v in rows[4] if v is not None)))\n";

/// The first Python that has a module; `NEARFAR_PYTHON` may name one of a virtual environment.
pub fn python(module: &str) -> Option<String> {
    let own = std::env::var("NEARFAR_PYTHON").ok();
    own.into_iter().chain(["python3".to_string(), "/usr/bin/python3".to_string()]).find(|python| {
        let probe = Command::new(python).args(["-c", &format!("import {module}")]).output();
        probe.is_ok_and(|output| output.status.success())
    })
}

fn read_by(module: &str, script: &str) {
    let Some(python) = python(module) else {
        println!("skipped: Parquet read by {module}: no Python with {module} (from PyPI; NEARFAR_PYTHON names one)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut store = Store::open(&dir.path().join("results.db")).unwrap();
    let mut sum = 0.0;
    let experiments = ["bandwidth", "größe / 2=3"];
    for (id, experiment) in ["aa", "bb"].into_iter().zip(experiments) {
        let mut run = RunRecord { ..fixtures::run(id, 1) };
        run.plan.experiment = experiment.into();
        store.begin_run(&run).unwrap();
        for position in 0..30 {
            // Every tenth trial has no samples and therefore a row without a value.
            let trial = fixtures::trial(&run, position, if position % 10 == 9 { 0 } else { 4 });
            sum += trial.outcome.samples.iter().map(|sample| sample.value).sum::<f64>();
            store.add_trial(&run.id, &trial).unwrap();
        }
        export(&store, &run.id, &out);
        // Readers ignore the partial file of a killed export.
        write_partial_file(&out);
    }
    let output = Command::new(python).args(["-c", script]).arg(&out).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (summary, found) = text.rsplit_once(' ').unwrap();
    assert_eq!(summary, "222 60 ['bandwidth', 'größe / 2=3'] ['2026-09-21']");
    let found: f64 = found.parse().unwrap();
    assert!((found - sum).abs() < 1e-9 * sum, "{found} {sum}");
}

fn write_partial_file(out: &Path) {
    let whole =
        crate::parquet::files(out).into_iter().find(|file| !file.to_string_lossy().ends_with("partial")).unwrap();
    let half = out.join(whole.with_file_name(".cc.parquet.nearfar-partial"));
    std::fs::write(half, "PAR1 and no more").unwrap();
}

#[test]
fn pyarrow_reads_exported_files() {
    read_by("pyarrow.dataset", PYARROW);
}

#[test]
fn duckdb_reads_exported_files() {
    read_by("duckdb", DUCKDB);
}
