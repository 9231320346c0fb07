//! Copies the results files of nodes and merges them into the local store in the order of the nodes. Results of an
//! unreachable node stay there and can be collected later.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use fleet::{JobName, NodeError, NodeErrorKind, NodeName, RequestBody, ResponseBody, map_bounded};
use store::{MergeReport, Store};

use super::{CONCURRENT_LOGINS, Fleet, PerNode, statuses, unexpected_response};
use crate::error::{CliError, CliStatus};

pub struct Collected {
    /// The jobs of the node, with the numbers of merged runs and trials.
    pub jobs: Vec<(JobName, MergeReport)>,
}

/// Collects these jobs from every node; an empty list means all jobs.
pub fn collect(fleet: &Fleet, jobs: &[JobName], store: &mut Store) -> Result<PerNode<Collected>, CliError> {
    let scratch = if store.is_on_server() {
        ScratchDir::next_to(&std::env::temp_dir().join("nearfar"))?
    } else {
        ScratchDir::next_to(store.path())?
    };
    let nodes: Vec<(usize, &NodeName)> = fleet.nodes().iter().enumerate().collect();
    let fetched = map_bounded(&nodes, CONCURRENT_LOGINS, |(index, node)| {
        let dir = scratch.dir.join(index.to_string());
        ((*node).clone(), fetch(fleet, node, jobs, &dir))
    });
    let merge = |(node, files): (NodeName, Result<Vec<FetchedStore>, NodeError>)| match files {
        Ok(files) => merge_all(files, store).map(|merged| (node, merged)),
        Err(error) => Ok((node, Err(error))),
    };
    fetched.into_iter().map(merge).collect()
}

struct FetchedStore {
    job: JobName,
    /// `None` if the job has no results file yet.
    file: Option<PathBuf>,
}

fn fetch(fleet: &Fleet, node: &NodeName, jobs: &[JobName], dir: &Path) -> Result<Vec<FetchedStore>, NodeError> {
    let jobs = match jobs {
        [] => {
            statuses(fleet.send(node, RequestBody::Status(vec![]))?.1)?.into_iter().map(|status| status.job).collect()
        }
        jobs => jobs.to_vec(),
    };
    std::fs::create_dir_all(dir).map_err(|error| write_error(dir, &error))?;
    jobs.into_iter().map(|job| fetch_one(fleet, node, job, dir)).collect()
}

fn fetch_one(fleet: &Fleet, node: &NodeName, job: JobName, dir: &Path) -> Result<FetchedStore, NodeError> {
    let (mut session, response) = fleet.send(node, RequestBody::Copy(job.clone()))?;
    let ResponseBody::Copy(copied) = response else { return Err(unexpected_response()) };
    if copied.bytes == 0 {
        return Ok(FetchedStore { job, file: None });
    }
    let path = dir.join(job.as_str());
    let mut file = File::create(&path).map_err(|error| write_error(&path, &error))?;
    session.copy(copied.bytes, &mut file)?;
    file.flush().map_err(|error| write_error(&path, &error))?;
    Ok(FetchedStore { job, file: Some(path) })
}

fn write_error(path: &Path, error: &std::io::Error) -> NodeError {
    NodeError::new(NodeErrorKind::Engine, format!("cannot store its results in {}: {error}", path.display()))
}

/// Merges the files of one node. An unreadable file is an error of the node, a failed merge one of the whole command.
fn merge_all(files: Vec<FetchedStore>, store: &mut Store) -> Result<Result<Collected, NodeError>, CliError> {
    let mut jobs = Vec::new();
    for FetchedStore { job, file } in files {
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
