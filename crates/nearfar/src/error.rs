//! The error type of commands: message, hint and exit status.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

use farmem::Unavailable;
use graph::StorageError;
use machine::SyscallError;
use machine::child::{LaunchError, ServerError};
use machine::live::ObserveError;
use machine::residency::{FileError, InspectError, SubjectError};
use machine::text_copy::TextCopyError;
use machine::topology::TopologyError;
use model::analysis::compare::CompareError;
use model::analysis::place::PredictionError;
use model::experiments::experiment::{ExperimentError, PlanError};
use model::hint::Hinted;
use model::placements::measured_map::WeightError;
use store::StoreError;
use store::export::ExportError;
use store::import::ImportError;
use store::parquet_dir::ParquetDirError;
use workloads::Failure;

/// Exit statuses other than 0; documented in docs/reference/exit-status.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliStatus {
    /// A failure of Nearfar or of the system, such as a results file that cannot be written.
    Failure = 1,
    /// An invalid command line, experiment or input file.
    Usage = 2,
    /// The measurements are too few or too noisy for a decision.
    Inconclusive = 3,
    /// No trial has a verified placement.
    Invalid = 4,
    /// The system denied permission.
    NotPermitted = 5,
    /// The machine or the build lacks a requirement.
    Skipped = 77,
    /// Interrupted by SIGINT; the value that shells use.
    Interrupted = 130,
}

impl CliStatus {
    /// The status of a refused operation of the kernel.
    pub fn of_io(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::PermissionDenied { Self::NotPermitted } else { Self::Failure }
    }
}

/// An error with an optional hint, and the exit status.
#[derive(Debug)]
pub struct CliError {
    status: CliStatus,
    message: String,
    hint: Option<String>,
}

pub type CommandResult = Result<ExitCode, CliError>;

/// The message of a [`CliError`], and the hint of errors that know one.
pub trait Message {
    fn text(&self) -> String;

    fn hint(&self) -> Option<String> {
        None
    }
}

impl<T: Message + ?Sized> Message for &T {
    fn text(&self) -> String {
        (**self).text()
    }

    fn hint(&self) -> Option<String> {
        (**self).hint()
    }
}

macro_rules! messages {
    (plain: $($plain:ty),* ; hinted: $($hinted:ty),* $(,)?) => {
        $(impl Message for $plain {
            fn text(&self) -> String {
                self.to_string()
            }
        })*
        $(impl Message for $hinted {
            fn text(&self) -> String {
                self.to_string()
            }

            fn hint(&self) -> Option<String> {
                Hinted::hint(self)
            }
        })*
    };
}

#[cfg(feature = "s3")]
messages! {
    plain: ; hinted: store::export::BucketError,
}

// A list instead of every type that can be displayed, so that no error loses its hint on the way.
messages! {
    plain: str, String, std::io::Error, std::string::FromUtf8Error, serde_json::Error, clap::Error, PlanError, Failure,
        StorageError, ObserveError;
    hinted: FileError, InspectError, SubjectError, fleet::NodeError, StoreError, ParquetDirError, ExportError, ImportError, TopologyError, LaunchError, ServerError, SyscallError, TextCopyError,
        CompareError, ExperimentError, PredictionError, Unavailable, WeightError, graph::Error,
}

impl CliError {
    pub fn usage(message: impl Message) -> Self {
        Self::with(CliStatus::Usage, message)
    }

    pub fn failure(message: impl Message) -> Self {
        Self::with(CliStatus::Failure, message)
    }

    /// A topology that cannot be read.
    pub fn topology(error: &TopologyError) -> Self {
        Self::usage(error)
    }

    /// A plan that cannot be built: an invalid request, or a machine that has none of the requested placements.
    pub fn plan(error: &PlanError) -> Self {
        match error {
            PlanError::Invalid(_) => Self::usage(error),
            PlanError::NothingToRun(_) => Self::with(CliStatus::Skipped, error),
        }
    }

    /// An error of the store; `file_status` is the status of errors of a results file.
    pub fn store(error: &StoreError, file_status: CliStatus) -> Self {
        let status = match error {
            StoreError::BadAddress { .. } | StoreError::NoDatabase { .. } => CliStatus::Usage,
            StoreError::NotLetIn { .. } | StoreError::NotPermitted { .. } | StoreError::NotMade { .. } => {
                CliStatus::NotPermitted
            }
            StoreError::NoServers { .. } => CliStatus::Skipped,
            StoreError::Unreachable { .. } | StoreError::Lost { .. } | StoreError::NoTls { .. } => CliStatus::Failure,
            _ => file_status,
        };
        Self::with(status, error)
    }

    pub fn with(status: CliStatus, message: impl Message) -> Self {
        Self { status, message: message.text(), hint: message.hint() }
    }

    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(match self.hint {
            Some(first) => format!("{first}\nhint: {hint}"),
            None => hint.to_string(),
        });
        self
    }

    pub fn maybe_hint(self, hint: Option<impl Display>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    pub fn is_usage(&self) -> bool {
        self.status == CliStatus::Usage
    }

    /// Returns the message and the hint.
    pub fn parts(&self) -> (&str, Option<&str>) {
        (&self.message, self.hint.as_deref())
    }

    #[cfg(feature = "mpi")]
    pub fn status(&self) -> CliStatus {
        self.status
    }

    pub fn print(&self) -> ExitCode {
        message!("nearfar: {self}");
        self.status.into()
    }
}

/// The message and, on a second line, the hint.
impl Display for CliError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl From<CliStatus> for ExitCode {
    fn from(status: CliStatus) -> Self {
        Self::from(status as u8)
    }
}
