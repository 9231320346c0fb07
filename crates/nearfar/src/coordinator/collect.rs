//! Copies the results files of nodes and merges them into the local store in the order of the nodes. Results of an
//! unreachable node stay there and can be collected later.

use std::path::Path;

use files::TempDir;
use fleet::{JobCopy, JobName, NodeCopies, NodeError, NodeErrorKind, NodeName, PerNode};
use store::{MergeReport, Store};

use crate::error::{CliError, CliStatus};

pub struct Collected {
    /// The jobs of the node, with the numbers of merged runs and trials.
    pub jobs: Vec<(JobName, MergeReport)>,
}

/// Copies the results and merges them into the store.
pub fn merge_copies(copies: &NodeCopies, store: &mut Store) -> Result<PerNode<Collected>, CliError> {
    let scratch = if store.is_on_server() {
        scratch_dir(&std::env::temp_dir().join("nearfar"))?
    } else {
        scratch_dir(store.path())?
    };
    let merge = |(node, files): (NodeName, Result<Vec<JobCopy>, NodeError>)| match files {
        Ok(files) => merge_all(files, store).map(|merged| (node, merged)),
        Err(error) => Ok((node, Err(error))),
    };
    copies.fetch(scratch.path()).into_iter().map(merge).collect()
}

/// Merges the files of one node. An unreadable file is an error of the node, a failed merge one of the whole command.
fn merge_all(files: Vec<JobCopy>, store: &mut Store) -> Result<Result<Collected, NodeError>, CliError> {
    let mut jobs = Vec::new();
    for JobCopy { job, file } in files {
        let Some(file) = file else {
            jobs.push((job, MergeReport::default()));
            continue;
        };
        if let Err(error) = Store::open_unchanged(&file).and_then(|copy| copy.check()) {
            return Ok(Err(NodeError::new(
                NodeErrorKind::Refused,
                format!("the copy of {job} cannot be read: {error}"),
            )));
        }
        jobs.push((job, store.merge(&file).map_err(|error| CliError::store(&error, CliStatus::Failure))?));
    }
    Ok(Ok(Collected { jobs }))
}

/// Creates the directory of the copies next to the results file.
fn scratch_dir(store: &Path) -> Result<TempDir, CliError> {
    let name = store.file_name().unwrap_or_default().to_string_lossy();
    let parent = files::dir_of(store);
    TempDir::new(parent, &format!("{name}.collect-"))
        .map_err(|error| CliError::failure(format!("cannot create a directory in {}: {error}", parent.display())))
}
