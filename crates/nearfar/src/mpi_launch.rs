//! Whether a launcher of MPI (mpirun, srun) has started this process as one of several. Knows what launchers tell the processes that
//! they start, and nothing of MPI itself.

use std::process::ExitCode;

/// Open MPI's, then what MPICH, Intel MPI and Slurm tell.
const TOLD: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"];

/// Whether this process is a rank.
pub fn is_there() -> bool {
    TOLD.iter().any(|name| std::env::var_os(name).is_some())
}

/// Says what is wrong with the command line, or the help that was asked for: once, where ranks are told the same.
pub fn mistake(error: &clap::Error) -> ExitCode {
    #[cfg(feature = "mpi")]
    if is_there() {
        return crate::mpi::once(|| error.print(), error.exit_code());
    }
    error.exit()
}
