//! Computes comparisons from findings: assigns cells to columns, pairs samples, and estimates the differences between
//! columns and the baseline.

mod added;
mod columns;
mod efficiency;
mod facts;
mod fail_rule;
mod history;
mod means;
mod row;
mod rows;
#[cfg(test)]
mod run_tests;
mod samples;
#[cfg(test)]
mod suite_tests;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::finding::RunFinding;
use crate::hint::Hinted;
use crate::import::unixbench::{self, IndexTable, Score};
use crate::values::comparison::{Comparison, Efficiency};
use crate::values::plan::{By, Plan};
use crate::values::record::{ImportedTable, RunRecord};
use crate::values::stamp::Stamp;

use columns::{Baselines, ColumnValue, Columns, choose_baseline, columns, entries};
use history::History;
use rows::{MeasuredRow, RowRequest};

pub(crate) use columns::host;
pub use fail_rule::{FailCheck, FailRule};
pub use history::repeated_runs;

/// One run with its findings.
#[derive(Clone, Copy, Debug)]
pub struct ComparedRun<'a> {
    pub record: &'a RunRecord,
    pub finding: &'a RunFinding,
}

/// Columns, baseline and main metric of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonRequest<'a> {
    pub by: &'a By,
    /// The default is the column `kernel` if there is one, or else the first.
    pub baseline: Option<&'a str>,
    /// Tests to compare, by their name or its first word, which is the workload; all if empty.
    pub tests: &'a [String],
    /// Main metric of all tests, instead of that of each workload. Tests without it are not compared.
    pub metric: Option<&'a str>,
    /// Imported tables whose columns are added.
    pub added_tables: &'a [ImportedTable],
    /// Runs that are not compared: those of the same cells on the same machine show how much runs differ.
    pub history: &'a [ComparedRun<'a>],
}

/// The reason why runs or columns cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct CompareError {
    pub what: String,
    pub hint: Option<String>,
}

impl Hinted for CompareError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl From<String> for CompareError {
    fn from(what: String) -> Self {
        Self { what, hint: None }
    }
}

/// Compares the cells of runs.
pub fn compare(runs: &[ComparedRun<'_>], request: &ComparisonRequest<'_>) -> Result<Comparison, CompareError> {
    check_not_mixed_with_simulated(runs)?;
    check_not_mixed_with_imported(runs, request.added_tables)?;
    let (entries, dimensions) = entries(runs, request.by, request.metric)?;
    check_tests(request.tests, entries.iter().map(|entry| entry.test.as_str()))?;
    let entries: Vec<_> = entries.into_iter().filter(|entry| is_chosen(request.tests, &entry.test)).collect();
    let baseline = request.baseline.map(|baseline| columns::baseline_of(request.by, &dimensions, baseline));
    let mut columns = columns(&entries, &dimensions, baseline.as_deref())?;
    let seed = runs.first().map_or(0, |run| run.record.seed);
    let history = History::new(runs, request.history);
    let keeps_all_samples = !request.added_tables.is_empty();
    let row_request = RowRequest { baselines: &columns.baselines, history: &history, seed, keeps_all_samples };
    let mut rows = rows::rows(&entries, &row_request);
    let mut first_run = runs.len();
    for table in request.added_tables {
        added::add(&mut rows, &mut columns, table, first_run);
        first_run += table.columns.len();
    }
    let notes = facts::differing(runs, &dimensions);
    let efficiency = efficiency::efficiencies(runs, request.metric);
    let stamp = Stamp::of(runs.iter().map(|run| run.record));
    let machines = columns::machines(runs, &entries);
    Ok(Comparison { machines, efficiency, ..assemble(columns, rows, &history, notes) }.stamped(stamp))
}

/// Returns the comparison that a plan defines; `None` with a single column and without efficiencies, or if the baseline
/// was not measured.
pub fn planned(runs: &[ComparedRun<'_>], plan: &Plan) -> Option<Comparison> {
    if plan.race.is_some() {
        // The trials of a race overestimate its winner; its result compares fresh pairs.
        return None;
    }
    if plan.experiment == crate::placements::measured_map::EXPERIMENT {
        // The cells of a map are not comparable; the map itself interprets them.
        return None;
    }
    let by = By::parse(&plan.compare_by);
    let request = ComparisonRequest {
        by: &by,
        baseline: plan.baseline.as_deref(),
        tests: &[],
        metric: None,
        added_tables: &[],
        history: &[],
    };
    let comparison = compare(runs, &request).ok()?;
    (comparison.columns.len() > 1 || !comparison.efficiency.is_empty()).then_some(comparison)
}

/// Returns the efficiencies that the plan of a run defines.
pub fn efficiencies(run: ComparedRun<'_>) -> Vec<Efficiency> {
    efficiency::efficiencies(&[run], None)
}

/// Compares the columns of an imported table.
pub fn compare_table(table: &ImportedTable, baseline: Option<&str>) -> Result<Comparison, CompareError> {
    let baseline = choose_baseline(&table.columns, baseline, "column")?;
    let baselines = Baselines::one(&table.columns, &baseline);
    let rows = tables::rows(table, &baselines);
    let mut names = table.columns.clone();
    names.sort_by_key(|column| *column != baseline);
    let columns = Columns::new("column".into(), names, baselines);
    Ok(assemble(columns, rows, &History::default(), table.notes.clone()))
}

/// Removes all but these tests from an imported table, as [`ComparisonRequest::tests`].
pub fn choose_tests(table: &mut ImportedTable, tests: &[String]) -> Result<(), CompareError> {
    check_tests(tests, table.rows.iter().map(|row| row.test.as_str()))?;
    table.rows.retain(|row| is_chosen(tests, &row.test));
    Ok(())
}

/// Whether a test was requested.
fn is_chosen(tests: &[String], test: &str) -> bool {
    let workload = test.split(' ').next();
    tests.is_empty() || tests.iter().any(|chosen| chosen == test || Some(chosen.as_str()) == workload)
}

fn check_tests<'a>(tests: &[String], known: impl Iterator<Item = &'a str>) -> Result<(), CompareError> {
    let known: BTreeSet<&str> = known.collect();
    let is_unknown = |test: &&String| !known.iter().any(|known| is_chosen(std::slice::from_ref(*test), known));
    let Some(test) = tests.iter().find(is_unknown) else { return Ok(()) };
    let hint = format!("the tests are {}", known.into_iter().collect::<Vec<_>>().join(", "));
    Err(CompareError { what: format!("no test is named '{test}'"), hint: Some(hint) })
}

/// Returns the UnixBench index of the main metrics of runs by column; single samples are its passes.
pub fn index(runs: &[ComparedRun<'_>], by: &By, baseline: Option<&str>) -> Result<IndexTable, CompareError> {
    index_with_tables(runs, by, baseline, &[])
}

/// Returns the index of runs, and of the columns of imported tables next to them.
pub fn index_with_tables(
    runs: &[ComparedRun<'_>],
    by: &By,
    baseline: Option<&str>,
    added_tables: &[ImportedTable],
) -> Result<IndexTable, CompareError> {
    check_not_mixed_with_simulated(runs)?;
    check_not_mixed_with_imported(runs, added_tables)?;
    let (entries, dimensions) = entries(runs, by, None)?;
    let baseline = baseline.map(|baseline| columns::baseline_of(by, &dimensions, baseline));
    let mut columns = columns(&entries, &dimensions, baseline.as_deref())?;
    let mut scores: Vec<Score> = entries.iter().filter_map(ColumnValue::score).collect();
    for table in added_tables {
        let added = table.columns.iter().filter(|column| !columns.names.contains(column));
        let added: Vec<String> = added.cloned().collect();
        columns.names.extend(added);
        scores.extend(table_scores(table));
    }
    let mut table = unixbench::indices(&columns.by, columns.names, &scores)?;
    table.notes.extend(added_tables.iter().map(imported_note));
    if entries.iter().any(|entry| entry.indexed.is_some() && entry.metric.name == "score") {
        table
            .notes
            .push("native: measured by built-in programs, not by UnixBench; see docs/reference/unixbench.md".into());
    }
    table.notes.extend(facts::differing(runs, &dimensions));
    table.stamp = Stamp::of(runs.iter().map(|run| run.record));
    Ok(table)
}

/// Returns the index of a plan with at least two UnixBench tests: the index of one test equals its score.
pub fn planned_index(runs: &[ComparedRun<'_>], plan: &Plan) -> Option<IndexTable> {
    let table = index(runs, &By::parse(&plan.compare_by), plan.baseline.as_deref()).ok()?;
    table.groups.iter().any(|group| group.tests.len() > 1).then_some(table)
}

/// Returns the UnixBench index of the columns of an imported table.
pub fn index_table(table: &ImportedTable, baseline: Option<&str>) -> Result<IndexTable, CompareError> {
    let baseline = choose_baseline(&table.columns, baseline, "column")?;
    let mut columns = table.columns.clone();
    columns.sort_by_key(|column| *column != baseline);
    let mut indices = unixbench::indices("column", columns, &table_scores(table))?;
    indices.notes.push(imported_note(table));
    Ok(indices)
}

fn table_scores(table: &ImportedTable) -> Vec<Score> {
    let mut scores = Vec::new();
    for row in &table.rows {
        let given = table.columns.iter().zip(&row.values).filter_map(|(column, value)| Some((column, (*value)?)));
        scores.extend(given.map(|(column, value)| Score {
            test: row.test.clone(),
            column: column.clone(),
            passes: vec![value],
        }));
    }
    scores
}

fn imported_note(table: &ImportedTable) -> String {
    format!("imported: the scores of table {} are used as the results of their passes", table.name)
}

fn assemble(columns: Columns, rows: Vec<MeasuredRow<'_>>, history: &History<'_>, notes: Vec<String>) -> Comparison {
    let Columns { by, names, baselines, notes: mut all_notes, .. } = columns;
    all_notes.extend(notes);
    let compared: Vec<(&str, &str)> =
        names.iter().filter_map(|column| Some((column.as_str(), baselines.of(column)?))).collect();
    let geomean = means::geomeans(&rows, &compared, history);
    all_notes.extend(means::note(&rows).filter(|_| !geomean.is_empty()));
    Comparison {
        by,
        baselines: baselines.several(),
        baseline: baselines.name,
        columns: names,
        machines: BTreeMap::new(),
        rows: rows.into_iter().map(|measured| measured.row).collect(),
        geomean,
        efficiency: Vec::new(),
        notes: all_notes,
        stamp: Stamp::default(),
    }
}

fn check_not_mixed_with_imported(runs: &[ComparedRun<'_>], tables: &[ImportedTable]) -> Result<(), String> {
    let simulated = runs.iter().find(|run| run.record.simulated.is_some() && !tables.is_empty());
    simulated.map_or(Ok(()), |run| {
        let id = &run.record.id;
        Err(format!("run {id} is simulated; simulated results are never compared with imported ones"))
    })
}

pub(crate) fn check_not_mixed_with_simulated(runs: &[ComparedRun<'_>]) -> Result<(), String> {
    let simulated = |run: &&ComparedRun<'_>| run.record.simulated.is_some();
    match (runs.iter().find(simulated), runs.iter().find(|run| !simulated(run))) {
        (Some(one), Some(other)) => Err(format!(
            "run {} is simulated and run {} is real; simulated results are never compared with real ones",
            one.record.id, other.record.id
        )),
        _ => Ok(()),
    }
}
