//! The file or disk of a trial in which an external program issues the requests. Created, opened and checked as for
//! workload `io`, and kept open while that program runs.

use super::options::Options;
use super::target::IoTarget;
use crate::job::{Failure, TrialContext};

/// The file or disk that an external program accesses.
pub(crate) struct ExternalFile {
    target: IoTarget,
    block: u64,
}

impl ExternalFile {
    /// Opens the file or disk that the job names, or creates a file.
    pub(crate) fn open(job: &TrialContext) -> Result<Self, Failure> {
        let options = Options::read(&job.parameters).map_err(Failure::Failed)?;
        options.check_combination().map_err(Failure::Failed)?;
        if options.each_file().map_err(Failure::Failed)?.len() > 1 {
            let reason = "several files at once are supported by workload io only";
            return Err(Failure::Unavailable(format!("{reason}; hint: --set file=PATH, or workload io")));
        }
        let target = IoTarget::open(job.seed, &options)?;
        target.check_disk(&options)?;
        Ok(Self { target, block: options.block as u64 })
    }

    /// Path by which the program can open it while this value lives. If the job only reads, the caller must prevent the
    /// program from opening it for writing.
    pub(crate) fn path(&self) -> String {
        self.target.path()
    }

    /// Usable size in bytes, a multiple of the request size.
    pub(crate) fn bytes(&self) -> u64 {
        self.target.bytes / self.block * self.block
    }

    /// Returns whether this process created the file.
    pub(crate) fn is_created(&self) -> bool {
        self.target.created
    }

    /// Verifies that the program did not remove or truncate the file.
    pub(crate) fn unchanged(&self) -> Result<(), Failure> {
        self.target.unchanged()
    }
}
