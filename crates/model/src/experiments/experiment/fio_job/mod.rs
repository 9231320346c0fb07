//! Converts fio job files: each job becomes a cell of the workload `io`, with fio's defaults. An unsupported option is
//! an error with its line; a difference from fio is a note. Must not open the files that jobs name, and depends only on
//! the names of `io`'s parameters. Source: fio(1), section "Job file format", and fio 3.33.

mod job;
mod text;
mod value;

use std::collections::{HashMap, HashSet};

use crate::values::plan::StoppingRule;
use crate::values::units::Nanos;
use crate::values::workload::WorkloadSpec;

use super::{Experiment, ExperimentError, REPEAT, WorkloadGrid};
use job::FioJob;

/// Workload that runs the jobs.
const WORKLOAD: &str = "io";

/// A parsed job file.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    /// An experiment with one task per job.
    pub experiment: Experiment,
    /// Differences from fio.
    pub notes: Vec<String>,
}

/// Options that job files do not contain.
#[derive(Clone, Copy, Debug)]
pub struct JobFileOptions<'a> {
    pub name: &'a str,
    /// Placements of the jobs; empty for `kernel`.
    pub placements: &'a [String],
}

/// Parses a job file. Its name is used only in messages; `specs` contains the workload `io`.
pub fn read_jobs(
    text: &str,
    file: &str,
    options: JobFileOptions<'_>,
    specs: &[WorkloadSpec],
) -> Result<Jobs, ExperimentError> {
    let sections = text::sections(file, text)?;
    let wrong = |what: String| text::error(file, (1, 1), what, None);
    let spec = specs.iter().find(|spec| spec.name == WORKLOAD);
    let spec = spec.ok_or_else(|| wrong(format!("jobs run as workload {WORKLOAD}, which is not available")))?;
    for placement in options.placements {
        crate::placements::placement::check(placement).map_err(wrong)?;
    }
    let (mut tasks, mut notes, mut names) = (Vec::<WorkloadGrid>::new(), Vec::new(), JobNames::default());
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut longest = Nanos(0);
    for section in &sections {
        let job = FioJob::new(file, section, spec)?;
        let name = names.unique(job.name());
        let waits = job.has_think_time()?;
        match groups.last_mut() {
            Some(group) if !waits => group.push(name.clone()),
            _ => groups.push(vec![name.clone()]),
        }
        let read = job.read()?;
        longest = longest.max(read.time);
        notes.extend(read.notes.into_iter().map(|note| format!("job {name}: {note}")));
        let placements = match options.placements {
            [] => vec!["kernel".into()],
            given => given.to_vec(),
        };
        let label = Some(name).filter(|name| name != WORKLOAD);
        tasks.push(WorkloadGrid {
            workload: WORKLOAD.into(),
            label,
            main: None,
            outside_means: false,
            set: read.set,
            placements,
            threads: read.threads,
        });
    }
    notes.extend(groups.iter().filter(|group| group.len() > 1).map(|group| concurrency_note(group)));
    let experiment = Experiment {
        name: options.name.into(),
        question: "How fast is each of these fio jobs, alone?".into(),
        repeat: repeat(longest),
        compare_by: "placement".into(),
        baseline: None,
        efficiency: Vec::new(),
        boots: Vec::new(),
        devices: Vec::new(),
        tasks,
    };
    Ok(Jobs { experiment, notes })
}

/// Returns the default blocks without warm-up, for which a job has `ramp_time`. The time limit is twice the longest
/// runtime, to allow for creating files and for slow devices.
fn repeat(longest: Nanos) -> StoppingRule {
    let patience = Nanos(longest.0.saturating_mul(2)).max(REPEAT.time_limit);
    StoppingRule { warmup: 0, time_limit: patience, ..REPEAT }
}

/// The names of the jobs so far. Jobs may share a name, but rows of a table may not.
#[derive(Default)]
struct JobNames {
    taken: HashSet<String>,
    /// Number of the next copy of a name.
    next: HashMap<String, u32>,
}

impl JobNames {
    /// Returns the name, or that of a copy. Takes constant time, however many jobs share the name.
    fn unique(&mut self, name: &str) -> String {
        if self.taken.insert(name.into()) {
            return name.into();
        }
        let next = self.next.entry(name.into()).or_insert(2);
        loop {
            let copy = format!("{name} copy {next}");
            *next += 1;
            if self.taken.insert(copy.clone()) {
                return copy;
            }
        }
    }
}

/// Returns a note about jobs that fio would start concurrently.
fn concurrency_note(group: &[String]) -> String {
    format!("fio would run {} concurrently; here each job runs alone, as with stonewall", group.join(", "))
}
