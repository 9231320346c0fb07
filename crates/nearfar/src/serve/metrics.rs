//! The metrics of a results file for Prometheus: numbers of runs and trials, and the progress of the newest unfinished run.
//! Measured values are in `nearfar export --format openmetrics`. Must not depend on HTTP.

use lab::history::History;
use lab::progress::forecast;
use model::values::record::{RunRecord, RunSummary, VerdictCounts};
use store::export::{MetricFamilies, label};
use store::{Store, StoreError};

/// The state of a results file; the default is that of an empty one.
#[derive(Debug, Default)]
pub struct StoreMetrics {
    runs: usize,
    /// Verdicts of the trials of all runs except warm-up.
    verdicts: VerdictCounts,
    /// End of the newest trial in milliseconds since 1970.
    newest_trial_unix_ms: Option<u64>,
    unfinished: Option<UnfinishedRun>,
}

/// The newest run that has not ended.
#[derive(Debug)]
struct UnfinishedRun {
    summary: RunSummary,
    planned_trials: usize,
}

impl StoreMetrics {
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        let mut runs = store.runs()?;
        let count = runs.len();
        let mut verdicts = VerdictCounts::default();
        for run in &runs {
            verdicts.valid += run.verdicts.valid;
            verdicts.suspect += run.verdicts.suspect;
            verdicts.invalid += run.verdicts.invalid;
        }
        let newest = runs.iter().rposition(|run| run.ended.is_none()).map(|index| runs.swap_remove(index));
        let unfinished = newest.map(|summary| -> Result<_, StoreError> {
            let planned_trials = planned_trials(store, &store.run(&summary.id.0)?)?;
            Ok(UnfinishedRun { summary, planned_trials })
        });
        let newest_trial_unix_ms = store.newest_trial_unix_ms()?;
        Ok(Self { runs: count, verdicts, newest_trial_unix_ms, unfinished: unfinished.transpose()? })
    }
}

/// Returns an upper bound of the number of trials of an unfinished run; a run that is precise enough ends earlier.
pub fn planned_trials(store: &Store, record: &RunRecord) -> Result<usize, StoreError> {
    Ok(forecast(&record.plan, &History::new(store.trials(&record.id)?)).expected)
}

pub fn text(metrics: &StoreMetrics) -> String {
    let mut families = MetricFamilies::default();
    let version = label("version", env!("CARGO_PKG_VERSION"));
    families.add("nearfar_build_info", "The program that serves these metrics.", "", version, 1.0);
    let help = "Runs in the results file.";
    families.add("nearfar_stored_runs", help, "", String::new(), metrics.runs as f64);
    let VerdictCounts { valid, suspect, invalid } = metrics.verdicts;
    for (verdict, count) in [("valid", valid), ("suspect", suspect), ("invalid", invalid)] {
        let help = "Trials of all runs by verdict, without warm-up.";
        families.add("nearfar_stored_trials", help, "", label("verdict", verdict), f64::from(count));
    }
    if let Some(time_ms) = metrics.newest_trial_unix_ms {
        let help = "End of the newest trial in seconds since 1970.";
        families.add("nearfar_newest_trial_timestamp_seconds", help, "seconds", String::new(), time_ms as f64 / 1000.0);
    }
    if let Some(run) = &metrics.unfinished {
        add_progress(&mut families, run);
    }
    families.text()
}

fn add_progress(families: &mut MetricFamilies, UnfinishedRun { summary, planned_trials }: &UnfinishedRun) {
    let labels = [
        label("run", &summary.id.0),
        label("experiment", &summary.experiment),
        label("host", summary.host.as_deref().unwrap_or_default()),
    ]
    .join(",");
    let help = "Stored trials of the newest unfinished run, including warm-up.";
    families.add("nearfar_unfinished_run_trials", help, "", labels.clone(), f64::from(summary.trials));
    let help = "Planned trials of the newest unfinished run, an upper bound.";
    families.add("nearfar_unfinished_run_planned_trials", help, "", labels, *planned_trials as f64);
}
