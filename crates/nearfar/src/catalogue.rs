//! What placements are made of: the machine as it states itself, with measured values in their place where a measured
//! map of it is in the results file.

use model::analysis::finding::summarise;
use model::placements::measured_map::{EXPERIMENT, MeasuredMap, MeasuredTopology, measured_map};
use model::values::capture::Capture;
use model::values::id_set::CpuSet;
use model::values::record::{RunId, RunRecord};
use model::values::topology::Topology;
use store::Store;

use crate::cli::{GlobalArgs, MapArgs};
use crate::error::CliError;
use crate::target_machine::{TargetMachine, existing_store, has_store, open_store};

/// What `--map` takes in place of a run.
const NONE: &str = "none";
const LATEST: &str = "latest";

/// The machine as placements see it.
pub struct PlacementCatalogue {
    /// With measured values where there are any.
    pub topology: Topology,
    /// Cpus that a measurement told apart; see `FollowOptions::measured`.
    pub classes: Vec<CpuSet>,
    /// The run that measured, where it says anything that the machine does not.
    pub run: Option<RunId>,
}

impl PlacementCatalogue {
    /// For a machine to measure on.
    pub fn of(subject: &TargetMachine, by: &MapArgs, common: &GlobalArgs) -> Result<Self, CliError> {
        Self::new(&subject.machine.topology, subject.simulated.as_deref(), by, common)
    }

    /// For a topology of this machine or of a file; `simulated` as in a run's record.
    pub fn new(
        stated: &Topology,
        simulated: Option<&str>,
        by: &MapArgs,
        common: &GlobalArgs,
    ) -> Result<Self, CliError> {
        let found = match by.map.as_deref() {
            Some(NONE) => None,
            Some(name) => Some(named(name, stated, common)?),
            None => newest(stated, simulated, common)?,
        };
        let unmeasured = MeasuredTopology { topology: stated.clone(), classes: Vec::new() };
        let (run, MeasuredTopology { topology, classes }) = match found {
            Some((run, map)) => {
                let applied = map.apply_to(stated);
                (Some(run).filter(|_| applied != unmeasured), applied)
            }
            None => (None, unmeasured),
        };
        if let Some(run) = run.as_ref().filter(|_| !common.quiet) {
            eprintln!("placements go by measured map {run}; --map none: by what the machine states");
        }
        Ok(Self { topology, classes, run })
    }

    /// The flag that asks for the same again.
    pub fn words(&self) -> Vec<String> {
        self.run.iter().flat_map(|run| ["--map".to_string(), run.to_string()]).collect()
    }
}

/// The map of a run that the user named.
fn named(name: &str, stated: &Topology, common: &GlobalArgs) -> Result<(RunId, MeasuredMap), CliError> {
    let store = existing_store(common)?;
    if name == LATEST {
        let newest = newest_of(&store, |_| true)?;
        return newest.ok_or_else(|| {
            CliError::usage(format!("--map latest: {} has no measured map", store.path().display()))
                .hint("nearfar map --measure makes one")
        });
    }
    let record = store.run(name).map_err(CliError::usage)?;
    let (there, here) = (record.machine.topology.summary(), stated.summary());
    if there != here {
        return Err(CliError::usage(format!("--map {name}: it is of another machine: {there}; this is {here}")));
    }
    Ok((record.id.clone(), map_of(&store, &record)?))
}

/// The newest finished map of this very machine, unless it was a smoke test, which says nothing of its speeds. A results
/// file that is not there has none.
fn newest(
    stated: &Topology,
    simulated: Option<&str>,
    common: &GlobalArgs,
) -> Result<Option<(RunId, MeasuredMap)>, CliError> {
    if !has_store(common)? {
        return Ok(None);
    }
    let same = |record: &RunRecord| {
        let smoke = record.plan.command.iter().any(|word| word == "--smoke");
        !smoke && record.simulated.as_deref() == simulated && record.machine.topology.fixed() == stated.fixed()
    };
    newest_of(&open_store(common)?, same)
}

fn newest_of(store: &Store, fits: impl Fn(&RunRecord) -> bool) -> Result<Option<(RunId, MeasuredMap)>, CliError> {
    let runs = store.runs().map_err(CliError::of)?;
    for run in runs.iter().rev().filter(|run| run.experiment == EXPERIMENT && run.ended.is_some()) {
        let record = store.run(&run.id.0).map_err(CliError::of)?;
        if fits(&record) {
            return Ok(Some((record.id.clone(), map_of(store, &record)?)));
        }
    }
    Ok(None)
}

/// The measured map that a run found.
pub fn map_of(store: &Store, record: &RunRecord) -> Result<MeasuredMap, CliError> {
    let finding = summarise(&record.plan, &store.trials(&record.id).map_err(CliError::of)?);
    let Capture { topology, .. } = &record.machine;
    measured_map(&record.plan, topology, &finding).ok_or_else(|| {
        let (id, experiment) = (&record.id, &record.plan.experiment);
        CliError::usage(format!("run {id} is of '{experiment}' and has no measured map"))
            .hint("nearfar show --runs lists runs; those of 'map' have one")
    })
}
