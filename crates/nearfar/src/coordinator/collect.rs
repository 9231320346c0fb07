//! Copies the results files of nodes and merges them into the local store in the order of the nodes. Results of an
//! unreachable node stay there and can be collected later.

use std::path::{Path, PathBuf};

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
        ScratchDir::next_to(&std::env::temp_dir().join("nearfar"))?
    } else {
        ScratchDir::next_to(store.path())?
    };
    let merge = |(node, files): (NodeName, Result<Vec<JobCopy>, NodeError>)| match files {
        Ok(files) => merge_all(files, store).map(|merged| (node, merged)),
        Err(error) => Ok((node, Err(error))),
    };
    copies.fetch(&scratch.dir).into_iter().map(merge).collect()
}

/// Merges the files of one node. An unreadable file is an error of the node, a failed merge one of the whole command.
fn merge_all(files: Vec<JobCopy>, store: &mut Store) -> Result<Result<Collected, NodeError>, CliError> {
    let mut jobs = Vec::new();
    for JobCopy { job, file } in files {
        let Some(file) = file else {
            jobs.push((job, MergeReport::default()));
            continue;
        };
        if let Err(error) = Store::open_existing(&file).and_then(|copy| copy.check()) {
            return Ok(Err(NodeError::new(
                NodeErrorKind::Refused,
                format!("the copy of {job} cannot be read: {error}"),
            )));
        }
        jobs.push((job, store.merge(&file).map_err(|error| CliError::store(&error, CliStatus::Failure))?));
    }
    Ok(Ok(Collected { jobs }))
}

/// Temporary directory of the copies. It is removed on drop, and after a kill by the next command.
struct ScratchDir {
    dir: PathBuf,
}

impl ScratchDir {
    fn next_to(store: &Path) -> Result<Self, CliError> {
        let name = store.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!("{name}.collect-");
        let parent = store.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let process = |name: &str| name.strip_prefix(&prefix)?.parse().ok();
        for path in machine::stale::stale_entries(parent, process).unwrap_or_default() {
            let _ = std::fs::remove_dir_all(path); // a leftover is harmless
        }
        let dir = parent.join(format!("{prefix}{}", std::process::id()));
        std::fs::create_dir_all(&dir)
            .map_err(|error| CliError::failure(format!("cannot create the directory {}: {error}", dir.display())))?;
        Ok(Self { dir })
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir); // a leftover is harmless
    }
}
