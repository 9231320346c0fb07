//! What placements are made of: the machine as it states itself, with measured values in their place where a measured
//! map of it is in the results file.

use model::capture::Capture;
use model::finding::summarise;
use model::id_set::CpuSet;
use model::measured_map::{Applied, EXPERIMENT, MeasuredMap, measured_map};
use model::record::{RunId, RunRecord};
use model::topology::Topology;
use store::Store;

use crate::cli::{ByMap, Common};
use crate::failure::Failure;
use crate::subject::{Subject, existing_store, has_store, open_store};

/// What `--map` takes in place of a run.
const NONE: &str = "none";
const LATEST: &str = "latest";

/// The machine as placements see it.
pub struct Offering {
    /// With measured values where there are any.
    pub topology: Topology,
    /// Cpus that a measurement told apart; see `Wish::measured`.
    pub classes: Vec<CpuSet>,
    /// The run that measured, where it says anything that the machine does not.
    pub run: Option<RunId>,
}

impl Offering {
    /// For a machine to measure on.
    pub fn of(subject: &Subject, by: &ByMap, common: &Common) -> Result<Self, Failure> {
        Self::new(&subject.machine.topology, subject.simulated.as_deref(), by, common)
    }

    /// For a topology of this machine or of a file; `simulated` as in a run's record.
    pub fn new(stated: &Topology, simulated: Option<&str>, by: &ByMap, common: &Common) -> Result<Self, Failure> {
        let found = match by.map.as_deref() {
            Some(NONE) => None,
            Some(name) => Some(named(name, stated, common)?),
            None => newest(stated, simulated, common)?,
        };
        let unmeasured = Applied { topology: stated.clone(), classes: Vec::new() };
        let (run, Applied { topology, classes }) = match found {
            Some((run, map)) => {
                let applied = map.applied_to(stated);
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
fn named(name: &str, stated: &Topology, common: &Common) -> Result<(RunId, MeasuredMap), Failure> {
    let store = existing_store(common)?;
    if name == LATEST {
        let newest = newest_of(&store, |_| true)?;
        return newest.ok_or_else(|| {
            Failure::usage(format!("--map latest: {} has no measured map", store.path().display()))
                .hint("nearfar map --measure makes one")
        });
    }
    let record = store.run(name).map_err(Failure::usage)?;
    let (there, here) = (record.machine.topology.summary(), stated.summary());
    if there != here {
        return Err(Failure::usage(format!("--map {name}: it is of another machine: {there}; this is {here}")));
    }
    Ok((record.id.clone(), map_of(&store, &record)?))
}

/// The newest finished map of this very machine, unless it was a smoke test, which says nothing of its speeds. A results
/// file that is not there has none.
fn newest(
    stated: &Topology,
    simulated: Option<&str>,
    common: &Common,
) -> Result<Option<(RunId, MeasuredMap)>, Failure> {
    if !has_store(common)? {
        return Ok(None);
    }
    let same = |record: &RunRecord| {
        let smoke = record.plan.command.iter().any(|word| word == "--smoke");
        !smoke && record.simulated.as_deref() == simulated && record.machine.topology.fixed() == stated.fixed()
    };
    newest_of(&open_store(common)?, same)
}

fn newest_of(store: &Store, fits: impl Fn(&RunRecord) -> bool) -> Result<Option<(RunId, MeasuredMap)>, Failure> {
    let runs = store.runs().map_err(Failure::of)?;
    for run in runs.iter().rev().filter(|run| run.experiment == EXPERIMENT && run.ended.is_some()) {
        let record = store.run(&run.id.0).map_err(Failure::of)?;
        if fits(&record) {
            return Ok(Some((record.id.clone(), map_of(store, &record)?)));
        }
    }
    Ok(None)
}

/// The measured map that a run found.
pub fn map_of(store: &Store, record: &RunRecord) -> Result<MeasuredMap, Failure> {
    let finding = summarise(&record.plan, &store.trials(&record.id).map_err(Failure::of)?);
    let Capture { topology, .. } = &record.machine;
    measured_map(&record.plan, topology, &finding).ok_or_else(|| {
        let (id, experiment) = (&record.id, &record.plan.experiment);
        Failure::usage(format!("run {id} is of '{experiment}' and has no measured map"))
            .hint("nearfar show --runs lists runs; those of 'map' have one")
    })
}
