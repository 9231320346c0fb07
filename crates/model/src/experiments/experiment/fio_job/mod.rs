//! fio's job files: each job becomes a cell of workload `io`, with what fio would do where the file says nothing. An option
//! that cannot be kept is an error with its line, never left out in silence; what is done otherwise than by fio is a note.
//! Does not look at the files that it names, and knows no more of `io` than its parameters' names.
//! Source: fio(1), section "Job file format", and fio 3.33.

mod job;
mod text;
mod value;

use crate::values::plan::StoppingRule;
use crate::values::units::Nanos;
use crate::values::workload::WorkloadSpec;

use super::{Experiment, ExperimentError, REPEAT, WorkloadGrid};
use job::FioJob;

/// The workload that runs jobs.
const WORKLOAD: &str = "io";

/// A job file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    /// One task for each job.
    pub experiment: Experiment,
    /// Where this is not what fio would do.
    pub notes: Vec<String>,
}

/// What the caller adds to a job file.
#[derive(Clone, Copy, Debug)]
pub struct JobFileOptions<'a> {
    pub name: &'a str,
    /// Where the jobs run; job files do not say it. Empty for the kernel's choice.
    pub placements: &'a [String],
}

/// Reads a job file. Its name is for messages only; `specs` has the workload `io`.
pub fn read_jobs(
    text: &str,
    file: &str,
    wishes: JobFileOptions<'_>,
    specs: &[WorkloadSpec],
) -> Result<Jobs, ExperimentError> {
    let sections = text::sections(file, text)?;
    let wrong = |what: String| text::error(file, (1, 1), what, None);
    let spec = specs.iter().find(|spec| spec.name == WORKLOAD);
    let spec = spec.ok_or_else(|| wrong(format!("jobs run as workload {WORKLOAD}, which is not there")))?;
    for placement in wishes.placements {
        crate::placements::placement::check(placement).map_err(wrong)?;
    }
    let (mut tasks, mut notes) = (Vec::<WorkloadGrid>::new(), Vec::new());
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut longest = Nanos(0);
    for section in &sections {
        let job = FioJob::new(file, section, spec)?;
        let name = unlike(job.name(), &tasks);
        let waits = job.has_think_time()?;
        match groups.last_mut() {
            Some(group) if !waits => group.push(name.clone()),
            _ => groups.push(vec![name.clone()]),
        }
        let read = job.read()?;
        longest = longest.max(read.time);
        notes.extend(read.notes.into_iter().map(|note| format!("job {name}: {note}")));
        let placements = match wishes.placements {
            [] => vec!["kernel".into()],
            given => given.to_vec(),
        };
        let label = Some(name).filter(|name| name != WORKLOAD);
        tasks.push(WorkloadGrid { workload: WORKLOAD.into(), label, set: read.set, placements, threads: read.threads });
    }
    notes.extend(groups.iter().filter(|group| group.len() > 1).map(|group| alone(group)));
    let experiment = Experiment {
        name: wishes.name.into(),
        question: "How fast is each of these fio jobs, alone?".into(),
        repeat: repeat(longest),
        compare_by: "placement".into(),
        baseline: None,
        boots: Vec::new(),
        devices: Vec::new(),
        tasks,
    };
    Ok(Jobs { experiment, notes })
}

/// Blocks as ever, but none to warm up: that is what a job's own `ramp_time` is for. A job may take as long as it says,
/// and as long again for its file and for slow devices.
fn repeat(longest: Nanos) -> StoppingRule {
    let patience = Nanos(longest.0.saturating_mul(2)).max(REPEAT.time_limit);
    StoppingRule { warmup: 0, time_limit: patience, ..REPEAT }
}

/// Jobs may share a name; rows of a table may not.
fn unlike(name: &str, earlier: &[WorkloadGrid]) -> String {
    let taken = |name: &str| earlier.iter().any(|task| task.title() == name);
    let copies = (2..).map(|copy| format!("{name} copy {copy}"));
    std::iter::once(name.to_string()).chain(copies).find(|name| !taken(name)).expect("names are endless")
}

/// fio starts jobs together unless told otherwise.
fn alone(group: &[String]) -> String {
    format!(
        "fio would run {} at the same time; here each is measured alone, as with stonewall between them",
        group.join(", ")
    )
}
