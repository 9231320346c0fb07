//! Copies the results files of nodes into a directory. Must not depend on the contents of the files.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{CONCURRENT_LOGINS, NodeEngine, unexpected_response, with_retry};
use crate::error::PerNode;
use crate::parallel::map_bounded;
use crate::{JobName, NodeError, NodeErrorKind, NodeName, RequestBody, ResponseBody};

/// The results of jobs, which can be copied from every node.
#[derive(Debug)]
pub struct NodeCopies<'a> {
    pub(super) engine: &'a NodeEngine,
    /// Empty for all jobs of a node.
    pub(super) jobs: Vec<JobName>,
}

/// The copied results of one job of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCopy {
    pub job: JobName,
    /// `None` if the job has no results file yet.
    pub file: Option<PathBuf>,
}

impl NodeCopies<'_> {
    /// Copies the results files of every node to its own subdirectory of a directory.
    pub fn fetch(&self, dir: &Path) -> PerNode<Vec<JobCopy>> {
        let nodes: Vec<(usize, &NodeName)> = self.engine.nodes.iter().enumerate().collect();
        map_bounded(&nodes, CONCURRENT_LOGINS, |(index, node)| {
            ((*node).clone(), self.fetch_node(node, &dir.join(index.to_string())))
        })
    }

    fn fetch_node(&self, node: &NodeName, dir: &Path) -> Result<Vec<JobCopy>, NodeError> {
        let jobs: Vec<JobName> = match &self.jobs[..] {
            [] => self.engine.status_of(node, &[])?.into_iter().map(|status| status.job).collect(),
            jobs => jobs.to_vec(),
        };
        std::fs::create_dir_all(dir).map_err(|error| write_error(dir, &error))?;
        jobs.iter().map(|job| with_retry(|| self.fetch_job(node, job, dir))).collect()
    }

    fn fetch_job(&self, node: &NodeName, job: &JobName, dir: &Path) -> Result<JobCopy, NodeError> {
        let (mut session, response) = self.engine.send(node, RequestBody::Copy(job.clone()))?;
        let ResponseBody::Copy(copied) = response else { return Err(unexpected_response()) };
        if copied.bytes == 0 {
            return Ok(JobCopy { job: job.clone(), file: None });
        }
        let path = dir.join(job.as_str());
        let mut file = File::create(&path).map_err(|error| write_error(&path, &error))?;
        session.copy(copied.bytes, &mut file)?;
        file.flush().map_err(|error| write_error(&path, &error))?;
        Ok(JobCopy { job: job.clone(), file: Some(path) })
    }
}

fn write_error(path: &Path, error: &std::io::Error) -> NodeError {
    NodeError::new(NodeErrorKind::Engine, format!("cannot store its results in {}: {error}", path.display()))
}
