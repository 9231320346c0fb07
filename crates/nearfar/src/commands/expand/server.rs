//! A server with a DRAM limit, and its load in the foreground, without the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use farmem::Expansion;
use machine::child::{Readiness, ServerCommand, ServerError, SpawnSpec, with_server};
use model::values::id_set::CpuSet;
use model::values::units::Bytes;
use workloads::{READY_TIMEOUT, STOP_TIMEOUT, readiness};

use super::{POLL_INTERVAL, failure};
use crate::app::forwarded_signals::ends_wait;
use crate::cli::ServerArgs;
use crate::error::{CliError, CliStatus};
use crate::message;
use crate::requests::duration;

/// The end of a server's output that is kept for error messages.
const OUTPUT_MAX: Bytes = Bytes(64 << 10);

/// Returns the server that the options describe, without a limit yet.
pub(super) fn server_command(argv: &[String], args: &ServerArgs, quiet: bool) -> Result<ServerCommand, CliError> {
    let time =
        |option: &str, text: &Option<String>, default| text.as_ref().map_or(Ok(default), |text| duration(option, text));
    let launch = SpawnSpec {
        time_limit: time("--ready-timeout", &args.ready_timeout, READY_TIMEOUT)?,
        ..SpawnSpec::new(argv, OUTPUT_MAX)
    };
    Ok(ServerCommand {
        launch,
        ready: args.ready.as_deref().map_or(Ok(Readiness::Started), readiness).map_err(CliError::usage)?,
        stop_timeout: time("--stop-timeout", &args.stop_timeout, STOP_TIMEOUT)?,
        measured: CpuSet::new(),
        on_wait: message::waiting(quiet),
    })
}

/// Starts the server in the expansion, calls `run` with its load when it is ready, and stops it. The flag is set when
/// the server has ended.
pub(super) fn with_limited_server<T>(
    server: &ServerCommand,
    expansion: &Expansion,
    signals: Receiver<i32>,
    run: impl FnOnce(&Receiver<i32>, &AtomicBool) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let entrance = expansion.cgroup_procs().map_err(|error| failure(&error))?;
    let launch = SpawnSpec { entrance: Some(Arc::new(entrance)), ..server.launch.clone() };
    let server = ServerCommand { launch, ..server.clone() };
    let (stop, has_waited) = (AtomicBool::new(false), AtomicBool::new(false));
    let ran = std::thread::scope(|scope| {
        // Until the server is ready, no load receives the signals.
        let watch = scope.spawn(|| stop_on_signal(signals, &stop, &has_waited));
        let ran = with_server(&server, &stop, |ended| {
            has_waited.store(true, Ordering::Relaxed);
            let signals = watch.join().expect("waiting for signals does not panic");
            run(&signals, ended)
        });
        has_waited.store(true, Ordering::Relaxed);
        ran
    });
    let (result, _) = ran.map_err(|error| server_error(&error))?;
    result
}

/// Sets `stop` when a signal asks this process to end. Returns the signals once the server is ready or has failed.
fn stop_on_signal(signals: Receiver<i32>, stop: &AtomicBool, has_waited: &AtomicBool) -> Receiver<i32> {
    while !has_waited.load(Ordering::Relaxed) {
        if signals.recv_timeout(POLL_INTERVAL).is_ok_and(ends_wait) {
            stop.store(true, Ordering::Relaxed);
        }
    }
    signals
}

fn server_error(error: &ServerError) -> CliError {
    let status = if *error == ServerError::Stopped { CliStatus::Interrupted } else { CliStatus::Failure };
    CliError::with(status, error)
}
