//! The workloads that nearfar can measure, in one ordered registry: kernels, which run in a worker process, and tools,
//! which are external programs. Must not depend on plans, experiments or the result store.
//!
//! # Invariants
//!
//! - Workload `io` never writes to existing data unless `--allow-overwrite` repeats its path, and never to a device or
//!   file in use. Tests of `kernels::io::safety` and `kernels::io::disk`; nearfar/tests/storage.rs.
//! - A semi-external trial stays within its memory, construction and validation included, and finds what a search in
//!   memory finds. Tests: `nearfar/tests/bfs_beyond_dram.rs`; `semi_external_graphs_equal_graphs_built_in_core`
//!   (`graph/src/out_of_core/tests.rs`).
//! - A value that cannot be measured is `Unavailable` with a reason, never 0.
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]

mod command_spec;
mod describe;
mod job;
mod kernels;
mod random;
mod scratch;
mod team;
mod tools;
pub mod worker;

pub use command_spec::{CommandLine, CommandSpec, READY_TIMEOUT, STOP_TIMEOUT, ServerLine};
pub use job::{CpuTimes, Failure, KernelOutput, TrialContext, with_hint};
pub use kernels::bfs::parts::{ShardError, ShardRequest, ShardResult, search_in_parts};
pub use scratch::remove_stale_trial_dirs;
pub use tools::command::readiness;

use farmem::array::FarLocation;
use kernels::unixbench;
use machine::child::ProcessResult;
use model::placements::placement::KernelFeatures;
use model::values::trial::Sample;
use model::values::workload::{Parameters, WorkloadSpec};

/// One workload: its description and the way it runs.
pub struct Workload {
    /// Its name, parameters and metrics.
    pub describe: fn() -> WorkloadSpec,
    /// Checks of the parameters that the description cannot express. Called when an experiment is read.
    pub check: fn(&Parameters) -> Result<(), String>,
    /// Returns what this machine lacks to run it, such as a program. Called when a run is planned.
    pub missing: fn(&Parameters) -> Option<String>,
    pub runner: Runner,
}

pub enum Runner {
    /// Runs in the worker process: a kernel, or external programs that the worker starts and supervises.
    Kernel(fn(&TrialContext) -> Result<KernelOutput, Failure>),
    Tool {
        recipe: fn(&TrialContext) -> Result<CommandSpec, Failure>,
        /// Parses the output of the command. An error fails the trial.
        read: fn(&TrialContext, &ProcessResult) -> Result<Vec<Sample>, Failure>,
    },
}

/// In display order: memory, cores, operating system kernel, encryption, UnixBench's tests in its own order, then
/// external programs.
static REGISTRY: &[Workload] = &[
    Workload::kernel(kernels::stream::describe, kernels::stream::run),
    Workload::kernel(kernels::sweep::describe, kernels::sweep::run),
    Workload::kernel(kernels::chase::describe, kernels::chase::run),
    Workload::kernel(kernels::loaded::describe, kernels::loaded::run),
    Workload::kernel(kernels::gups::describe, kernels::gups::run),
    Workload::kernel(kernels::pingpong::describe, kernels::pingpong::run),
    Workload::kernel(kernels::queens::describe, kernels::queens::run),
    Workload {
        describe: kernels::linear::gemm::describe,
        check: described_fully,
        missing: kernels::linear::missing,
        runner: Runner::Kernel(kernels::linear::gemm::run),
    },
    Workload {
        describe: kernels::linear::far_gemm::describe,
        check: kernels::linear::far_gemm::check,
        missing: kernels::linear::missing,
        runner: Runner::Kernel(kernels::linear::far_gemm::run),
    },
    Workload {
        describe: kernels::linear::hpl::describe,
        check: kernels::linear::hpl::check,
        missing: kernels::linear::missing,
        runner: Runner::Kernel(kernels::linear::hpl::run),
    },
    Workload {
        describe: kernels::bfs::describe,
        check: kernels::bfs::check,
        missing: nothing,
        runner: Runner::Kernel(kernels::bfs::run),
    },
    Workload::kernel(kernels::threads::describe, kernels::threads::run),
    Workload::kernel(kernels::mutex::describe, kernels::mutex::run),
    Workload::kernel(kernels::cpu::describe, kernels::cpu::run),
    Workload {
        describe: kernels::memory::describe,
        check: kernels::memory::check,
        missing: nothing,
        runner: Runner::Kernel(kernels::memory::run),
    },
    Workload::kernel(kernels::syscall::describe, kernels::syscall::run),
    Workload {
        describe: kernels::io::describe,
        check: kernels::io::check,
        missing: nothing,
        runner: Runner::Kernel(kernels::io::run),
    },
    Workload {
        describe: kernels::crypto::describe,
        check: kernels::crypto::check,
        missing: kernels::crypto::missing,
        runner: Runner::Kernel(kernels::crypto::run),
    },
    Workload::kernel(unixbench::arithmetic::describe_dhrystone, unixbench::arithmetic::dhrystone),
    Workload::kernel(unixbench::arithmetic::describe_whetstone, unixbench::arithmetic::whetstone),
    Workload::kernel(unixbench::calls::describe_execl, unixbench::calls::execl),
    Workload::kernel(unixbench::files::describe, unixbench::files::run),
    Workload::kernel(unixbench::calls::describe_pipe, unixbench::calls::pipe),
    Workload::kernel(unixbench::calls::describe_switching, unixbench::calls::switching),
    Workload::kernel(unixbench::calls::describe_spawn, unixbench::calls::spawn),
    Workload::kernel(unixbench::shell::describe, unixbench::shell::run),
    Workload::kernel(unixbench::calls::describe_system_calls, unixbench::calls::system_calls),
    Workload {
        describe: tools::command::describe,
        check: tools::command::check,
        missing: nothing,
        runner: Runner::Tool { recipe: tools::command::recipe, read: tools::command::read },
    },
    Workload {
        describe: tools::compress::describe,
        check: tools::compress::check,
        missing: tools::compress::missing,
        runner: Runner::Kernel(tools::compress::run),
    },
    Workload {
        describe: tools::kernel_build::describe,
        check: described_fully,
        missing: tools::kernel_build::missing,
        runner: Runner::Kernel(tools::kernel_build::run),
    },
    Workload {
        describe: tools::sysbench::describe,
        check: tools::sysbench::check,
        missing: tools::sysbench::missing,
        runner: Runner::Tool { recipe: tools::sysbench::recipe, read: tools::sysbench::read },
    },
    Workload {
        describe: tools::fio::describe,
        check: kernels::io::check,
        missing: tools::fio::missing,
        runner: Runner::Kernel(tools::fio::run),
    },
    Workload {
        describe: tools::unixbench::describe,
        check: tools::unixbench::check,
        missing: tools::unixbench::missing,
        runner: Runner::Tool { recipe: tools::unixbench::recipe, read: tools::unixbench::read },
    },
    Workload {
        describe: tools::openssl::describe,
        check: tools::openssl::check,
        missing: tools::openssl::missing,
        runner: Runner::Tool { recipe: tools::openssl::recipe, read: tools::openssl::read },
    },
    Workload {
        describe: tools::hpcc::describe,
        check: described_fully,
        missing: tools::hpcc::missing,
        runner: Runner::Tool { recipe: tools::hpcc::recipe, read: tools::hpcc::read },
    },
    Workload {
        describe: tools::xhpl::describe,
        check: described_fully,
        missing: tools::xhpl::missing,
        runner: Runner::Tool { recipe: tools::xhpl::recipe, read: tools::xhpl::read },
    },
];

/// Placement features of this machine that its topology does not show.
pub fn offers() -> KernelFeatures {
    KernelFeatures { far: FarLocation::found().is_ok(), ..machine::nodes::kernel_offers() }
}

pub fn all() -> &'static [Workload] {
    REGISTRY
}

/// Returns the workload with this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    REGISTRY.iter().find(|workload| (workload.describe)().name == name)
}

/// Returns the descriptions of all workloads.
pub fn specs() -> Vec<WorkloadSpec> {
    REGISTRY.iter().map(|workload| (workload.describe)()).collect()
}

/// Returns what this machine lacks to run a workload with these parameters; `None` if nothing is known to be missing.
pub fn missing(workload: &str, parameters: &Parameters) -> Option<String> {
    (find(workload)?.missing)(parameters)
}

impl Workload {
    const fn kernel(describe: fn() -> WorkloadSpec, run: fn(&TrialContext) -> Result<KernelOutput, Failure>) -> Self {
        Self { describe, check: described_fully, missing: nothing, runner: Runner::Kernel(run) }
    }
}

/// For workloads whose descriptions define all constraints of their parameters.
#[expect(clippy::unnecessary_wraps, reason = "the signature of Workload::check")]
fn described_fully(_: &Parameters) -> Result<(), String> {
    Ok(())
}

/// For workloads that need nothing but this program.
fn nothing(_: &Parameters) -> Option<String> {
    None
}
