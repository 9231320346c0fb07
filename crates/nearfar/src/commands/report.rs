//! `nearfar report`: one self-contained HTML file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use model::compare::{ComparedRun, compare_table, index_table, planned, planned_index};
use model::comparison::Comparison;
use model::finding::{RunFinding, summarise};
use model::measured_map::{MeasuredMap, measured_map};
use model::place::Answer;
use model::record::{ImportedTable, RunRecord, TrialRecord};
use model::size::SizeAnswer;
use model::unixbench::IndexTable;
use report::html::{ReportPage, RunSection, TableSection};
use store::Store;

use crate::cli::{Common, Report, TextOrJson};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::subject::{existing_store, store_path};

/// Writes the report and says where it is.
pub fn run(args: &Report, common: &Common) -> Outcome {
    let store = existing_store(common)?;
    let runs = loaded(&store, &records(args, &store)?)?;
    let tables = if args.runs.is_empty() { tables(&store)? } else { Vec::new() };
    let table_indices: Vec<(&str, IndexTable)> =
        tables.iter().filter_map(|(table, _)| Some((table.name.as_str(), index_table(table, None).ok()?))).collect();
    let run_indices = runs.iter().filter_map(|run| Some((run.record.plan.experiment.as_str(), run.index.as_ref()?)));
    let page = ReportPage {
        runs: runs.iter().map(Loaded::section).collect(),
        comparisons: Vec::new(),
        indices: run_indices.chain(table_indices.iter().map(|(name, index)| (*name, index))).collect(),
        tables: tables.iter().map(|(table, comparison)| TableSection { table, comparison }).collect(),
        generated_by: format!("nearfar {}", env!("CARGO_PKG_VERSION")),
    };
    let html = report::html::render(&page);
    let path = args.output.clone().map_or_else(|| beside(common), Ok)?;
    output::write(&path, &html)?;
    if path != Path::new("-") {
        say_where(&path, args.format)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn say_where(path: &Path, format: TextOrJson) -> Result<(), Failure> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    match format {
        TextOrJson::Text => output::print(&path.display().to_string()),
        TextOrJson::Json => output::print_json(&serde_json::json!({ "report": path })),
    }
}

fn beside(common: &Common) -> Result<PathBuf, Failure> {
    Ok(store_path(common)?.with_file_name("report.html"))
}

struct Loaded {
    record: RunRecord,
    trials: Vec<TrialRecord>,
    finding: RunFinding,
    comparison: Option<Comparison>,
    index: Option<IndexTable>,
    answer: Option<Answer>,
    size: Option<SizeAnswer>,
    map: Option<MeasuredMap>,
}

impl Loaded {
    fn section(&self) -> RunSection<'_> {
        RunSection {
            record: &self.record,
            finding: &self.finding,
            comparison: self.comparison.as_ref(),
            answer: self.answer.as_ref(),
            size: self.size.as_ref(),
            map: self.map.as_ref(),
            trials: &self.trials,
        }
    }
}

fn loaded(store: &Store, records: &[RunRecord]) -> Result<Vec<Loaded>, Failure> {
    let load = |record: &RunRecord| {
        let trials = store.trials(&record.id).map_err(Failure::of)?;
        let finding = summarise(&record.plan, &trials);
        let runs = [ComparedRun { record, finding: &finding }];
        let comparison = planned(&runs, &record.plan).map(Comparison::main_metrics);
        let index = planned_index(&runs, &record.plan);
        let answer = Answer::of(record, &trials);
        let size = comparison.as_ref().and_then(|comparison| SizeAnswer::of(&record.plan, comparison));
        let map = measured_map(&record.plan, &record.machine.topology, &finding);
        Ok(Loaded { record: record.clone(), trials, finding, comparison, index, answer, size, map })
    };
    records.iter().map(load).collect()
}

/// The runs that were named, else the latest of every experiment, newest first.
fn records(args: &Report, store: &Store) -> Result<Vec<RunRecord>, Failure> {
    if !args.runs.is_empty() {
        return args.runs.iter().map(|name| store.run(name).map_err(Failure::usage)).collect();
    }
    let mut seen = BTreeSet::new();
    let mut records = Vec::new();
    for summary in store.runs().map_err(Failure::of)?.iter().rev() {
        if summary.trials > 0 && seen.insert((summary.experiment.clone(), summary.simulated.clone())) {
            records.push(store.run(&summary.id.0).map_err(Failure::of)?);
        }
    }
    Ok(records)
}

fn tables(store: &Store) -> Result<Vec<(ImportedTable, Comparison)>, Failure> {
    let table = |name: &String| {
        let table = store.table(name).map_err(Failure::of)?;
        let comparison = compare_table(&table, None).map_err(Failure::of)?;
        Ok((table, comparison))
    };
    store.tables().map_err(Failure::of)?.iter().map(table).collect()
}
