//! The topology that placements are derived from: as reported by the machine, with measured values if the results file
//! has a measured map of the machine.

use model::analysis::finding::summarise;
use model::placements::measured_map::{EXPERIMENT, MeasuredMap, MeasuredTopology, measured_map};
use model::values::capture::Capture;
use model::values::id_set::CpuSet;
use model::values::record::{RunId, RunRecord};
use model::values::topology::Topology;
use store::Store;

use crate::app::results_file::{ResultsFile, readable_runs};
use crate::app::target_machine::TargetMachine;
use crate::error::CliError;

/// Values of `--map` that are not runs.
const NONE: &str = "none";
const LATEST: &str = "latest";

/// Selects a measured map.
pub struct MapRequest {
    /// A run, `latest` or `none`; the newest map of the machine if not set.
    pub run: Option<String>,
    pub results: ResultsFile,
    /// Suppress the message that names the map.
    pub quiet: bool,
}

pub struct PlacementCatalogue {
    /// With measured values if there is a measured map.
    pub topology: Topology,
    /// Classes of CPUs that a measurement distinguished; see `SearchSpace::measured`.
    pub classes: Vec<CpuSet>,
    /// The run of the measured map, if the map changes the topology.
    pub run: Option<RunId>,
}

impl PlacementCatalogue {
    pub fn for_target(target: &TargetMachine, map: &MapRequest) -> Result<Self, CliError> {
        Self::new(&target.machine.topology, target.simulated.as_deref(), map)
    }

    /// Builds the catalogue of a topology; `simulated` as in `RunRecord`.
    pub fn new(topology: &Topology, simulated: Option<&str>, map: &MapRequest) -> Result<Self, CliError> {
        let measured = match map.run.as_deref() {
            Some(NONE) => None,
            Some(name) => Some(named(name, topology, &map.results)?),
            None => newest(topology, simulated, &map.results)?,
        };
        let unmeasured = MeasuredTopology { topology: topology.clone(), classes: Vec::new() };
        let (run, MeasuredTopology { topology, classes }) = match measured {
            Some((run, map)) => {
                let applied = map.apply_to(topology);
                (Some(run).filter(|_| applied != unmeasured), applied)
            }
            None => (None, unmeasured),
        };
        if let Some(run) = run.as_ref().filter(|_| !map.quiet) {
            message!("using measured map {run} for placements; --map none uses only what the machine reports");
        }
        Ok(Self { topology, classes, run })
    }

    /// Adds the option that selects the same measured map to the arguments of a command.
    pub fn argv_with_map(&self, argv: &[String]) -> Vec<String> {
        let mut argv = argv.to_vec();
        if let Some(run) = &self.run {
            // After the name of the command, because what follows `--` belongs to another program.
            let at = argv.len().min(1);
            argv.splice(at..at, ["--map".to_string(), run.to_string()]);
        }
        argv
    }
}

/// Describes a map of another machine, with both machines.
pub fn of_other_machine(there: &Topology, here: &Topology) -> String {
    format!("the map is of another machine: {}; this machine: {}", there.summary(), here.summary())
}

/// Returns the measured map of a run selected with `--map`.
fn named(name: &str, topology: &Topology, results: &ResultsFile) -> Result<(RunId, MeasuredMap), CliError> {
    let store = results.open_existing()?;
    if name == LATEST {
        let newest = newest_matching(&store, |_| true)?;
        return newest.ok_or_else(|| {
            CliError::usage(format!("--map latest: {} contains no measured map", store.path().display()))
                .hint("create one with nearfar map --measure")
        });
    }
    let record = store.run(name).map_err(CliError::usage)?;
    let there = &record.machine.topology;
    if there.summary() != topology.summary() {
        return Err(CliError::usage(format!("--map {name}: {}", of_other_machine(there, topology))));
    }
    Ok((record.id.clone(), map_of(&store, &record)?))
}

/// Returns the newest completed map of this machine, except smoke tests, which measure nothing meaningful. `None` if
/// there is no results file.
fn newest(
    topology: &Topology,
    simulated: Option<&str>,
    results: &ResultsFile,
) -> Result<Option<(RunId, MeasuredMap)>, CliError> {
    if !results.may_exist()? {
        return Ok(None);
    }
    let same = |record: &RunRecord| {
        !record.stamp().smoke
            && record.simulated.as_deref() == simulated
            && record.machine.topology.fixed() == topology.fixed()
    };
    newest_matching(&results.open()?, same)
}

fn newest_matching(
    store: &Store,
    matches: impl Fn(&RunRecord) -> bool,
) -> Result<Option<(RunId, MeasuredMap)>, CliError> {
    let runs = readable_runs(store)?;
    for run in runs.iter().rev().filter(|run| run.experiment == EXPERIMENT && run.ended.is_some()) {
        let record = store.run(&run.id.0).map_err(CliError::failure)?;
        if matches(&record) {
            return Ok(Some((record.id.clone(), map_of(store, &record)?)));
        }
    }
    Ok(None)
}

/// Derives the measured map from a run of experiment `map`.
pub fn map_of(store: &Store, record: &RunRecord) -> Result<MeasuredMap, CliError> {
    let finding = summarise(&record.plan, &store.trials(&record.id).map_err(CliError::failure)?);
    let Capture { topology, .. } = &record.machine;
    measured_map(&record.plan, topology, &finding).ok_or_else(|| {
        let (id, experiment) = (&record.id, &record.plan.experiment);
        CliError::usage(format!("run {id} of experiment '{experiment}' has no measured map"))
            .hint("list runs with nearfar show --runs; those of experiment 'map' have one")
    })
}
