//! `nearfar compare`: things side by side against a baseline.

use std::process::ExitCode;

use model::compare::{By, ComparedRun, compare, compare_table, index, index_table};
use model::comparison::Comparison;
use model::finding::{RunFinding, summarise};
use model::record::{ImportedTable, RunRecord};
use model::unixbench::IndexTable;
use store::Store;

use crate::cli::{Common, Compare, Suite, TableFormat};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::subject::existing_store;

/// Compares stored runs, or the columns of an imported table.
pub fn run(args: &Compare, common: &Common) -> Outcome {
    let store = existing_store(common)?;
    if let Some(Suite::Unixbench) = args.index {
        return show_index(&indices(args, &store)?, args.format);
    }
    let comparison = made(args, &store)?;
    let shown = || if args.all_metrics { comparison.clone() } else { comparison.clone().main_metrics() };
    let text = match args.format {
        TableFormat::Text => report::table::comparison(&shown(), &output::look()),
        TableFormat::Markdown => report::table::comparison_markdown(&shown()),
        TableFormat::Csv => report::table::comparison_csv(&comparison),
        TableFormat::Json => {
            output::print_json(&report::json::comparison(&comparison))?;
            return Ok(ExitCode::SUCCESS);
        }
        TableFormat::Svg => report::changes::svg(&comparison).ok_or_else(nothing_to_draw)?,
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The comparison that is asked for.
pub fn made(args: &Compare, store: &Store) -> Result<Comparison, Failure> {
    if by_column(args) { imported(args, store) } else { on_runs(args, store, compare) }
}

fn nothing_to_draw() -> Failure {
    Failure::usage("there is no change to draw: only one column, or no results")
        .hint("nearfar compare shows what there is")
}

fn show_index(table: &IndexTable, format: TableFormat) -> Outcome {
    match format {
        TableFormat::Text => output::print(&report::table::index(table, &output::look()))?,
        TableFormat::Markdown => output::print(&report::table::index_markdown(table))?,
        TableFormat::Csv => output::print(&report::table::index_csv(table))?,
        TableFormat::Json => output::print_json(&report::json::index(table))?,
        TableFormat::Svg => {
            return Err(Failure::usage("an index has no picture").hint("--format text, or nearfar report"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn by_column(args: &Compare) -> bool {
    args.by.as_deref().map_or(args.table.is_some(), |by| by == "column")
}

fn indices(args: &Compare, store: &Store) -> Result<IndexTable, Failure> {
    if by_column(args) {
        return index_table(&table(args, store)?, args.baseline.as_deref()).map_err(Failure::usage);
    }
    on_runs(args, store, index)
}

fn imported(args: &Compare, store: &Store) -> Result<Comparison, Failure> {
    compare_table(&table(args, store)?, args.baseline.as_deref()).map_err(Failure::usage)
}

fn table(args: &Compare, store: &Store) -> Result<ImportedTable, Failure> {
    let names = store.tables().map_err(Failure::of)?;
    let name =
        args.table.as_ref().or(names.last()).ok_or_else(|| {
            Failure::usage("there is no imported table to compare by column").hint("nearfar import FILE")
        })?;
    store.table(name).map_err(Failure::usage)
}

/// What the runs that are to be compared come to: by what was asked, else as the experiment of the first compares.
fn on_runs<T>(
    args: &Compare,
    store: &Store,
    come_to: impl Fn(&[ComparedRun<'_>], &By, Option<&str>) -> Result<T, String>,
) -> Result<T, Failure> {
    let named = args.runs.first().map_or("latest", String::as_str);
    let plan = store.run(named).map_err(Failure::usage)?.plan;
    let by = By::parse(args.by.as_ref().unwrap_or(&plan.compare_by));
    let records = records(args, &by, store)?;
    let findings = findings(store, &records)?;
    let runs: Vec<ComparedRun<'_>> =
        records.iter().zip(&findings).map(|(record, finding)| ComparedRun { record, finding }).collect();
    // The experiment's own baseline may be what this machine does not have; then another is as good.
    let planned = plan.baseline.as_deref().filter(|_| args.by.is_none() && args.baseline.is_none());
    let compared = planned.and_then(|baseline| come_to(&runs, &by, Some(baseline)).ok());
    compared.map_or_else(|| come_to(&runs, &by, args.baseline.as_deref()).map_err(Failure::usage), Ok)
}

/// The runs that were named; else the latest, and with columns that are machines or their states every other
/// run of its experiment too.
fn records(args: &Compare, by: &By, store: &Store) -> Result<Vec<RunRecord>, Failure> {
    if !args.runs.is_empty() {
        return args.runs.iter().map(|name| store.run(name).map_err(Failure::usage)).collect();
    }
    let latest = store.run("latest").map_err(Failure::usage)?;
    if matches!(by, By::Placement | By::Threads | By::Parameter(_)) {
        return Ok(vec![latest]);
    }
    let mut records = Vec::new();
    for summary in store.runs().map_err(Failure::of)? {
        if summary.experiment == latest.plan.experiment && summary.simulated.is_some() == latest.simulated.is_some() {
            records.push(store.run(&summary.id.0).map_err(Failure::of)?);
        }
    }
    Ok(records)
}

/// The findings of runs, in the same order.
pub fn findings(store: &Store, records: &[RunRecord]) -> Result<Vec<RunFinding>, Failure> {
    let finding = |record: &RunRecord| {
        let trials = store.trials(&record.id).map_err(Failure::of)?;
        Ok(summarise(&record.plan, &trials))
    };
    records.iter().map(finding).collect()
}
