//! HTML reports of stored results, with the same bytes for `nearfar report` and `nearfar serve`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use model::analysis::compare::{ComparedRun, compare_table, efficiencies, index_table, planned, planned_index};
use model::analysis::finding::{RunFinding, RunSummariser, TrialNames};
use model::analysis::live::{LiveId, LiveSummary, LiveTrial};
use model::analysis::place::PlaceResult;
use model::analysis::size::SizeAnswer;
use model::analysis::survey::Survey;
use model::import::unixbench::IndexTable;
use model::placements::measured_map::{MeasuredMap, measured_map};
use model::values::comparison::Comparison;
use model::values::record::{ImportedTable, RunRecord, RunSummary, TrialRecord};
use report::html::{InvalidTrial, LiveSection, ReportPage, RunSection, ServedHeader, TableSection};
use store::{Store, TrialColumns};

use crate::app::results_file::readable_runs;
use crate::app::stored_live::{Stored, evaluated, stored};
use crate::app::survey;
use crate::error::CliError;

/// Whether the figures of a report contain suspect trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspectTrials {
    Kept,
    /// Left out, except those of searches.
    LeftOut,
}

/// Returns the program and its version, for the footer of pages.
pub fn generated_by() -> String {
    format!("nearfar {}", env!("CARGO_PKG_VERSION"))
}

/// Renders the report of the named runs; `served` is the additional header of `nearfar serve`.
pub fn runs_html(
    store: &Store,
    names: &[String],
    suspect: SuspectTrials,
    served: Option<ServedHeader>,
) -> Result<String, CliError> {
    let (mut records, mut live) = (Vec::new(), Vec::new());
    for name in names {
        match stored(store, name)? {
            Stored::Run(record) => records.push(*record),
            Stored::Live(id, trial) => live.push((id, *trial)),
        }
    }
    Ok(page(&PageContent { runs: loaded(store, &records, suspect)?, live, ..PageContent::default() }, served))
}

/// Renders the report of the latest run of every experiment (newest first), of the latest experiment on each running
/// service, of all imported tables, and a survey if there are several machines.
pub fn latest_html(store: &Store, suspect: SuspectTrials, served: Option<ServedHeader>) -> Result<String, CliError> {
    let content = PageContent {
        runs: loaded(store, &latest_records(store)?, suspect)?,
        live: latest_live(store)?,
        tables: tables(store)?,
        survey: survey::of_several(store)?,
    };
    Ok(page(&content, served))
}

pub fn survey_html(survey: Survey) -> String {
    page(&PageContent { survey: Some(survey), ..PageContent::default() }, None)
}

/// The parts of a page.
#[derive(Default)]
struct PageContent {
    runs: Vec<LoadedRun>,
    live: Vec<(LiveId, LiveTrial)>,
    tables: Vec<(ImportedTable, Comparison)>,
    survey: Option<Survey>,
}

fn page(content: &PageContent, served: Option<ServedHeader>) -> String {
    let PageContent { runs, live, tables, survey } = content;
    let table_indices: Vec<(&str, IndexTable)> =
        tables.iter().filter_map(|(table, _)| Some((table.name.as_str(), index_table(table, None).ok()?))).collect();
    let run_indices = runs.iter().filter_map(|run| Some((run.record.plan.experiment.as_str(), run.index.as_ref()?)));
    report::html::render(&ReportPage {
        runs: runs.iter().map(LoadedRun::section).collect(),
        live: live.iter().map(|(id, trial)| LiveSection { id, trial }).collect(),
        indices: run_indices.chain(table_indices.iter().map(|(name, index)| (*name, index))).collect(),
        tables: tables.iter().map(|(table, comparison)| TableSection { table, comparison }).collect(),
        survey: survey.as_ref(),
        generated_by: generated_by(),
        served,
        ..ReportPage::default()
    })
}

/// A run with everything that a page shows.
pub struct LoadedRun {
    pub record: RunRecord,
    invalid: Vec<InvalidTrial>,
    finding: RunFinding,
    comparison: Option<Comparison>,
    index: Option<IndexTable>,
    answer: Option<PlaceResult>,
    size: Option<SizeAnswer>,
    map: Option<MeasuredMap>,
}

impl LoadedRun {
    /// Reads the trials of a run one by one, and analyses them. `names` is for the JSON, which names the trials.
    pub fn new(store: &Store, record: RunRecord, names: TrialNames, suspect: SuspectTrials) -> Result<Self, CliError> {
        let mut summary = RunSummariser::new(&record.plan, names);
        let (mut invalid, mut raced) = (Vec::new(), Vec::new());
        let visit = |trial: TrialRecord| {
            summary.add(&trial);
            invalid.extend(InvalidTrial::of(&record, &trial));
            if record.plan.race.is_some() {
                raced.push(trial);
            }
            ControlFlow::Continue(())
        };
        store.each_trial(&record.id, TrialColumns::All, visit).map_err(CliError::failure)?;
        let mut finding = summary.finish();
        if suspect == SuspectTrials::LeftOut && record.plan.race.is_none() {
            finding.leave_out_suspect();
        }
        let runs = [ComparedRun { record: &record, finding: &finding }];
        let comparison = planned(&runs, &record.plan).map(Comparison::main_metrics);
        let index = planned_index(&runs, &record.plan);
        let answer = PlaceResult::of(&record, &raced);
        let size = comparison.as_ref().and_then(|comparison| SizeAnswer::of(&record.plan, &finding, comparison));
        let map = measured_map(&record.plan, &record.machine.topology, &finding);
        Ok(Self { record, invalid, finding, comparison, index, answer, size, map })
    }

    /// Returns the result in one sentence; `None` without a result.
    pub fn in_words(&self) -> Option<String> {
        report::in_words(self.answer.as_ref(), self.size.as_ref(), self.comparison.as_ref())
    }

    /// Returns the JSON of `nearfar show --format json`.
    pub fn json(&self) -> serde_json::Value {
        match (&self.answer, &self.size) {
            (Some(answer), _) => report::json::race(&self.record, &self.finding, answer),
            (None, Some(size)) => report::json::sized(&self.record, &self.finding, size),
            (None, None) => {
                let run = ComparedRun { record: &self.record, finding: &self.finding };
                report::json::run(&self.record, &self.finding, &efficiencies(run))
            }
        }
    }

    fn section(&self) -> RunSection<'_> {
        RunSection {
            record: &self.record,
            finding: &self.finding,
            comparison: self.comparison.as_ref(),
            answer: self.answer.as_ref(),
            size: self.size.as_ref(),
            map: self.map.as_ref(),
            invalid: &self.invalid,
        }
    }
}

fn loaded(store: &Store, records: &[RunRecord], suspect: SuspectTrials) -> Result<Vec<LoadedRun>, CliError> {
    records.iter().map(|record| LoadedRun::new(store, record.clone(), TrialNames::LeftOut, suspect)).collect()
}

fn latest_records(store: &Store) -> Result<Vec<RunRecord>, CliError> {
    let mut runs = readable_runs(store)?;
    runs.retain(|run| run.trials > 0);
    let subject = |run: &RunSummary| (run.experiment.clone(), run.simulated.clone());
    let measured: BTreeSet<_> = runs.iter().filter(|run| !run.smoke).map(subject).collect();
    // A smoke test is reported only if its experiment has no other run.
    runs.retain(|run| !run.smoke || !measured.contains(&subject(run)));
    let mut seen = BTreeSet::new();
    let newest = runs.iter().rev().filter(|run| seen.insert(subject(run)));
    newest.map(|run| store.run(&run.id.0).map_err(CliError::failure)).collect()
}

/// Returns the latest experiment on each running service by each metric, the newest first.
fn latest_live(store: &Store) -> Result<Vec<(LiveId, LiveTrial)>, CliError> {
    let mut all = store.live_experiments().map_err(CliError::failure)?;
    all.retain(|live| live.periods > 0);
    let mut seen = BTreeSet::new();
    let newest = all.into_iter().rev().filter(|live| seen.insert((live.subject.clone(), live.metric.clone())));
    let trial = |live: LiveSummary| match store.live(&live.id.0).map_err(CliError::failure)? {
        Some(record) => Ok(Some((live.id, evaluated(store, &record)?))),
        None => Ok(None),
    };
    newest.filter_map(|live| trial(live).transpose()).collect()
}

fn tables(store: &Store) -> Result<Vec<(ImportedTable, Comparison)>, CliError> {
    let table = |name: &String| {
        let table = store.table(name).map_err(CliError::failure)?;
        let comparison = compare_table(&table, None).map_err(CliError::failure)?;
        Ok((table, comparison))
    };
    store.tables().map_err(CliError::failure)?.iter().map(table).collect()
}
