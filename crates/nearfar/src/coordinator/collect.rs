//! Fetches what nodes have stored and brings it together here. What came is merged node by node in the order in which they were named;
//! a node that is away keeps what it has for the next time.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use fleet::{JobName, NodeError, NodeErrorKind, NodeName, RequestBody, ResponseBody, map_bounded};
use store::{MergeReport, Store};

use super::{AT_ONCE, Fleet, PerNode, looks, senseless};
use crate::error::{CliError, CliStatus};

/// What of one node is here now.
pub struct Collected {
    /// The jobs that it had, with what was new of them.
    pub jobs: Vec<(JobName, MergeReport)>,
}

/// Collects these jobs of every node, all that there are when none is named.
pub fn collect(fleet: &Fleet, jobs: &[JobName], store: &mut Store) -> Result<PerNode<Collected>, CliError> {
    let scratch = if store.is_on_server() {
        Scratch::beside(&std::env::temp_dir().join("nearfar"))?
    } else {
        Scratch::beside(store.path())?
    };
    let nodes: Vec<(usize, &NodeName)> = fleet.nodes().iter().enumerate().collect();
    let fetched = map_bounded(&nodes, AT_ONCE, |(index, node)| {
        let folder = scratch.folder.join(index.to_string());
        ((*node).clone(), fetch(fleet, node, jobs, &folder))
    });
    let merge = |(node, files): (NodeName, Result<Vec<FetchedStore>, NodeError>)| match files {
        Ok(files) => merge_all(files, store).map(|merged| (node, merged)),
        Err(problem) => Ok((node, Err(problem))),
    };
    fetched.into_iter().map(merge).collect()
}

struct FetchedStore {
    job: JobName,
    /// None where nothing is stored yet.
    file: Option<PathBuf>,
}

fn fetch(fleet: &Fleet, node: &NodeName, jobs: &[JobName], folder: &Path) -> Result<Vec<FetchedStore>, NodeError> {
    let jobs = match jobs {
        [] => looks(fleet.ask(node, RequestBody::Look(Vec::new()))?.1)?.into_iter().map(|look| look.job).collect(),
        jobs => jobs.to_vec(),
    };
    std::fs::create_dir_all(folder).map_err(|error| here(folder, &error))?;
    jobs.into_iter().map(|job| fetch_one(fleet, node, job, folder)).collect()
}

fn fetch_one(fleet: &Fleet, node: &NodeName, job: JobName, folder: &Path) -> Result<FetchedStore, NodeError> {
    let (mut talk, answer) = fleet.ask(node, RequestBody::Copy(job.clone()))?;
    let ResponseBody::Copy(copied) = answer else { return Err(senseless()) };
    if copied.bytes == 0 {
        return Ok(FetchedStore { job, file: None });
    }
    let path = folder.join(job.as_str());
    let mut file = File::create(&path).map_err(|error| here(&path, &error))?;
    talk.copy(copied.bytes, &mut file)?;
    file.flush().map_err(|error| here(&path, &error))?;
    Ok(FetchedStore { job, file: Some(path) })
}

fn here(path: &Path, error: &std::io::Error) -> NodeError {
    NodeError::new(NodeErrorKind::Engine, format!("its results cannot be kept here: {}: {error}", path.display()))
}

/// A file that cannot be read is its node's problem; a results file here that cannot be written is everybody's.
fn merge_all(files: Vec<FetchedStore>, store: &mut Store) -> Result<Result<Collected, NodeError>, CliError> {
    let mut jobs = Vec::new();
    for FetchedStore { job, file } in files {
        let Some(file) = file else {
            jobs.push((job, MergeReport::default()));
            continue;
        };
        if let Err(error) = Store::open_existing(&file).and_then(|theirs| theirs.check()) {
            return Ok(Err(NodeError::new(
                NodeErrorKind::Refused,
                format!("what it sent of {job} cannot be read: {error}"),
            )));
        }
        jobs.push((job, store.merge(&file).map_err(|error| CliError::store(&error, CliStatus::Failure))?));
    }
    Ok(Ok(Collected { jobs }))
}

/// A folder beside the results file, or with temporary ones, for what comes before it is merged. It goes with this; one whose process was killed goes with the
/// next.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn beside(store: &Path) -> Result<Self, CliError> {
        let name = store.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!("{name}.collect-");
        let parent = store.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let process = |name: &str| name.strip_prefix(&prefix)?.parse().ok();
        for path in machine::stale::stale_entries(parent, process).unwrap_or_default() {
            let _ = std::fs::remove_dir_all(path); // what cannot be taken away is in nobody's way
        }
        let folder = parent.join(format!("{prefix}{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| CliError::failure(format!("cannot make the folder {}: {error}", folder.display())))?;
        Ok(Self { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // as above
    }
}
