//! Runs a command under a placement, in place of this process.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;

use model::values::id_set::CpuSet;
use model::values::placement::Placement;
use model::values::shell::quote_argv;
use model::values::units::Nanos;
use workloads::{CpuTimes, Runner, TrialContext};

use crate::error::{CliError, CliStatus};

/// Binds this process to the placement and executes the command, with `sh -c` if `shell`. Returns only if that fails.
pub fn exec(command: &[String], shell: bool, placement: &Placement) -> CliError {
    let argv = match expanded_argv(command, shell, placement) {
        Ok(argv) => argv,
        Err(error) => return error,
    };
    if placement.is_pinned() {
        match machine::affinity::pin_to_any(&placement.cpus()) {
            Ok(mask) if mask == placement.cpus() => {}
            Ok(mask) => {
                let message = format!("cannot bind to CPUs {}: the Linux kernel permits only {mask}", placement.cpus());
                return CliError::with(CliStatus::NotPermitted, message)
                    .hint("the CPUs of this machine have changed; repeat the measurement");
            }
            Err(error) => {
                return CliError::with(CliStatus::NotPermitted, error).hint("repeat the measurement on this machine");
            }
        }
    }
    if let Err(error) = machine::affinity::set_memory_policy(&placement.memory) {
        return CliError::with(CliStatus::NotPermitted, error);
    }
    detail!("running {} on CPUs {}", quote_argv(&argv), placement.cpus());
    let error = std::process::Command::new(&argv[0]).args(&argv[1..]).exec();
    CliError::failure(format!("cannot run '{}': {error}", argv[0]))
}

/// Returns the command as a trial runs it, with placeholders expanded.
fn expanded_argv(command: &[String], shell: bool, placement: &Placement) -> Result<Vec<String>, CliError> {
    let workload = workloads::find("command").expect("it is in the registry");
    let argv = if shell { command.join(" ") } else { serde_json::json!(command).to_string() };
    let given = BTreeMap::from([("argv".to_string(), argv), ("shell".to_string(), shell.to_string())]);
    let parameters = (workload.describe)().resolve(&given, None).map_err(CliError::usage)?;
    let context = TrialContext {
        parameters,
        threads: placement.threads,
        seats: placement.bindings.clone(),
        mask: CpuSet::new(),
        server_cpus: placement.server_cpus.clone(),
        memory: placement.memory.clone(),
        seed: 0,
        time_limit: Nanos(0),
        meanwhile: CpuTimes::default(),
    };
    match &workload.runner {
        Runner::Tool { recipe, .. } => Ok(recipe(&context).map_err(CliError::usage)?.command.argv),
        Runner::Kernel(_) => Err(CliError::failure("workload command is not a tool")),
    }
}
