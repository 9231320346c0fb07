//! Experiments: the built-in ones, files, and the jobs of fio job files, with the overrides of a command.

use std::collections::BTreeSet;
use std::path::Path;

use model::experiments::experiment::{self, Experiment, JobFileOptions};

use crate::app::overwrite;
use crate::error::CliError;
use crate::suggestion::hint;

/// Built-in experiments: file name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("experiments/quick.toml", include_str!("../../../../experiments/quick.toml")),
    ("experiments/interrupts.toml", include_str!("../../../../experiments/interrupts.toml")),
    ("experiments/ccx.toml", include_str!("../../../../experiments/ccx.toml")),
    ("experiments/fake-numa.toml", include_str!("../../../../experiments/fake-numa.toml")),
    ("experiments/boards.toml", include_str!("../../../../experiments/boards.toml")),
    ("experiments/gateway.toml", include_str!("../../../../experiments/gateway.toml")),
    ("experiments/far-memory.toml", include_str!("../../../../experiments/far-memory.toml")),
    ("experiments/steering.toml", include_str!("../../../../experiments/steering.toml")),
    ("experiments/graph500.toml", include_str!("../../../../experiments/graph500.toml")),
    ("experiments/storage.toml", include_str!("../../../../experiments/storage.toml")),
    ("experiments/crystaldiskmark.toml", include_str!("../../../../experiments/crystaldiskmark.toml")),
    ("experiments/crystaldiskmark-3.toml", include_str!("../../../../experiments/crystaldiskmark-3.toml")),
];

pub enum ExperimentSource<'a> {
    /// A built-in experiment, or the path of a TOML file.
    Named(&'a str),
    /// A fio job file, each job of which runs separately.
    JobFile { file: &'a Path, placements: &'a [String] },
}

/// An experiment and its changes.
pub struct ExperimentRequest<'a> {
    pub source: ExperimentSource<'a>,
    /// The existing file or disk that workload io may overwrite.
    pub allow_overwrite: Option<&'a str>,
    /// Values of parameters, instead of those in the file.
    pub overrides: &'a [(String, String)],
    pub quiet: bool,
}

/// Reads an experiment and applies the overrides; also returns the names of their parameters.
pub fn read(request: &ExperimentRequest<'_>) -> Result<(Experiment, BTreeSet<String>), CliError> {
    let mut experiment = match request.source {
        ExperimentSource::Named(name) => read_named(name)?,
        ExperimentSource::JobFile { file, placements } => read_jobs(file, placements, request.quiet)?,
    };
    overwrite::allow(&mut experiment, request.allow_overwrite)?;
    experiment
        .override_parameters(request.overrides, &workloads::specs())
        .map_err(|error| CliError::usage(format!("--set: {error}")))?;
    Ok((experiment, request.overrides.iter().map(|(name, _)| name.clone()).collect()))
}

/// Reads the jobs of a fio job file, and prints how their behaviour differs from that of fio.
fn read_jobs(file: &Path, placements: &[String], quiet: bool) -> Result<Experiment, CliError> {
    let name = file.to_string_lossy();
    let text = files::read_text(file, FILE_BYTES_MAX)
        .map_err(|error| CliError::usage(format!("--fio {name}: {error}")).hint("pass the path of a fio job file"))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let options = JobFileOptions { name: &stem, placements };
    let jobs = experiment::read_jobs(&text, &name, options, &workloads::specs()).map_err(CliError::usage)?;
    for note in jobs.notes.iter().filter(|_| !quiet) {
        message!("note: {note}");
    }
    Ok(jobs.experiment)
}

fn read_named(name: &str) -> Result<Experiment, CliError> {
    let (file, text) = text(name)?;
    experiment::parse(&text, &file, &workloads::specs()).map_err(CliError::usage)
}

/// Returns the file name and the text of a built-in experiment or of a file.
pub fn text(name: &str) -> Result<(String, String), CliError> {
    let built_in = BUILT_IN.iter().find(|(file, _)| Path::new(file).file_stem().is_some_and(|stem| stem == name));
    if let Some((file, text)) = built_in {
        detail!("experiment: {name}, built in");
        return Ok(((*file).into(), (*text).into()));
    }
    let text = files::read_text(Path::new(name), FILE_BYTES_MAX).map_err(|error| {
        let names: Vec<_> = BUILT_IN.iter().filter_map(|(file, _)| Path::new(file).file_stem()?.to_str()).collect();
        let list = format!("built in: {}; or use the path of a TOML file", names.join(", "));
        CliError::usage(format!("cannot read experiment '{name}': {error}")).hint(hint(name, &names, &list))
    })?;
    detail!("experiment: file {name}");
    Ok((name.into(), text))
}

/// Maximum size of an experiment or job file.
const FILE_BYTES_MAX: u64 = 1 << 20;
