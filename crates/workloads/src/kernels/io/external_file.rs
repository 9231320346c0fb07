//! The file or disk of a trial for another program that does the requests in our place: made, opened and refused as for
//! ours, and held while that program runs.

use super::options::Options;
use super::target::IoTarget;
use crate::job::{Failure, TrialContext};

/// What another program works on.
pub(crate) struct ExternalFile {
    target: IoTarget,
    block: u64,
}

impl ExternalFile {
    /// What the job names, or a file of our own.
    pub(crate) fn open(job: &TrialContext) -> Result<Self, Failure> {
        let options = Options::read(&job.parameters).map_err(Failure::Failed)?;
        options.possible().map_err(Failure::Failed)?;
        if options.each_file().map_err(Failure::Failed)?.len() > 1 {
            let why = "several files at once are workload io's; this one has one";
            return Err(Failure::Unavailable(format!("{why}; hint: --set file=PATH, or workload io")));
        }
        let target = IoTarget::open(job.seed, &options)?;
        target.suits(&options)?;
        Ok(Self { target, block: options.block as u64 })
    }

    /// Where the program finds it while this is held. Opening that for writing is up to the program: it must be told not
    /// to where the job only reads.
    pub(crate) fn path(&self) -> String {
        self.target.path()
    }

    /// How much of it, in whole requests.
    pub(crate) fn bytes(&self) -> u64 {
        self.target.bytes / self.block * self.block
    }

    /// Whether we have made it.
    pub(crate) fn is_ours(&self) -> bool {
        self.target.ours
    }

    /// Whether it is still what it was, after the program.
    pub(crate) fn unchanged(&self) -> Result<(), Failure> {
        self.target.unchanged()
    }
}
