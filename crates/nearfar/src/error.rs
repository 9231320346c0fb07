//! How the program says that something went wrong: what, on what, a hint, and the exit status.

use std::fmt::Display;
use std::process::ExitCode;

use machine::topology::TopologyError;
use model::experiments::experiment::PlanError;
use store::StoreError;

/// Exit statuses; 0 is success. Part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliStatus {
    /// Our failure: a store that cannot be written, a bug.
    Failure = 1,
    /// The user's mistake: the command line, an experiment, a file.
    Usage = 2,
    /// Measured, but too noisy or too little to say more.
    Inconclusive = 3,
    /// Measured, but no trial could prove its placement.
    Invalid = 4,
    /// The system did not permit it.
    NotPermitted = 5,
    /// The machine lacks what is needed.
    Skipped = 77,
    /// Ctrl-C ended it, as shells have it.
    Interrupted = 130,
}

/// What went wrong, with the next step.
#[derive(Debug)]
pub struct CliError {
    status: CliStatus,
    what: String,
}

/// What a command gives back.
pub type CommandResult = Result<ExitCode, CliError>;

impl CliError {
    pub fn usage(what: impl Display) -> Self {
        Self { status: CliStatus::Usage, what: what.to_string() }
    }

    /// Our failure, or the machine's.
    pub fn of(what: impl Display) -> Self {
        Self { status: CliStatus::Failure, what: what.to_string() }
    }

    /// A topology that cannot be read: the machine's fault when it is the live one, else the user's file.
    pub fn topology(error: &TopologyError) -> Self {
        Self::usage(error).hint_of(error.hint.as_deref())
    }

    /// A plan that cannot be made: a mistake, or a machine that offers nothing of what was asked for.
    pub fn plan(error: &PlanError) -> Self {
        match error {
            PlanError::Mistake(_) => Self::usage(error),
            PlanError::NothingToRun(_) => Self::with(CliStatus::Skipped, error),
        }
    }

    /// What is wrong with a results file, which has this status, or with a server, which may be anybody's.
    pub fn store(error: &StoreError, of_file: CliStatus) -> Self {
        let status = match error {
            StoreError::BadAddress { .. } | StoreError::NoDatabase { .. } => CliStatus::Usage,
            StoreError::NotLetIn { .. } | StoreError::NotPermitted { .. } | StoreError::NotMade { .. } => {
                CliStatus::NotPermitted
            }
            StoreError::NoServers { .. } => CliStatus::Skipped,
            StoreError::Unreachable { .. } | StoreError::Lost { .. } | StoreError::NoTls { .. } => CliStatus::Failure,
            _ => of_file,
        };
        Self::with(status, error)
    }

    pub fn with(status: CliStatus, what: impl Display) -> Self {
        Self { status, what: what.to_string() }
    }

    pub fn hint(mut self, hint: impl Display) -> Self {
        self.what = format!("{}\nhint: {hint}", self.what);
        self
    }

    /// Adds the next step where somebody knows one.
    pub fn hint_of(self, hint: Option<&str>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Whether it is the user's mistake.
    pub fn is_usage(&self) -> bool {
        self.status == CliStatus::Usage
    }

    /// What went wrong, and a line with the next step where there is one.
    pub fn text(&self) -> &str {
        &self.what
    }

    /// What went wrong, and the next step where there is one.
    pub fn words(&self) -> (&str, Option<&str>) {
        self.what.split_once("\nhint: ").map_or((&self.what, None), |(what, hint)| (what, Some(hint)))
    }

    /// The status with which the program is to end.
    #[cfg(feature = "mpi")]
    pub fn status(&self) -> CliStatus {
        self.status
    }

    pub fn print(&self) -> ExitCode {
        anstream::eprintln!("nearfar: {}", self.what);
        self.status.into()
    }
}

impl From<CliStatus> for ExitCode {
    fn from(status: CliStatus) -> Self {
        Self::from(status as u8)
    }
}
