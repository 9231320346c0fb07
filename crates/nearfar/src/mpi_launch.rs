//! Detects whether an MPI launcher (mpirun, srun) started this process. Must not depend on MPI.

use std::process::ExitCode;

use crate::error::CliError;
use crate::message::visible;

/// Variables that Open MPI, then MPICH, Intel MPI and Slurm set in the processes that they start.
const LAUNCHER_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"];

/// Whether this process is a rank.
pub fn is_rank() -> bool {
    LAUNCHER_VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
}

/// Prints an error of the command line, or the requested help, once for all ranks. `explained` replaces clap's message.
pub fn usage_error(error: &clap::Error, explained: Option<&CliError>) -> ExitCode {
    #[cfg(feature = "mpi")]
    if is_rank() {
        let print = || {
            explained.map_or_else(
                || error.print(),
                |explained| {
                    let _ = explained.print();
                    Ok(())
                },
            )
        };
        return crate::mpi::once(print, error.exit_code());
    }
    explained.map_or_else(|| exit(error), CliError::print)
}

/// Prints clap's message, without colours if a word of the command line contains terminal escapes.
fn exit(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if visible(&text) == text {
        error.exit();
    }
    message!("{}", text.trim_end());
    std::process::exit(error.exit_code())
}
