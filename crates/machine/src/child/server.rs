//! A server for the measured command: started on its own CPUs, awaited until ready, monitored, and ended with its whole
//! process group. The caller runs the command in the meantime.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use model::hint::Hinted;
use model::values::id_set::CpuSet;
use model::values::placement::MemoryPolicy;
use model::values::units::Nanos;
use regex::bytes::Regex;
use rustix::pipe::PipeFlags;

use super::aside::Aside;
use super::output::LineWatch;
use super::wait::{self, WaitPolicy};
use super::{Exit, LaunchError, ProcessResult, SpawnSpec, adopt_orphans, observe, remember_original_mask, seats_or};
use crate::syscall::SyscallError;

/// Initial and maximum interval of the readiness poll (exponential back-off).
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Timeout of a loopback connection: it is accepted or refused at once, unless the queue of an overloaded server is
/// full.
const CONNECT_MAX: Duration = Duration::from_millis(250);
/// Time for which a connection must stay open. A proxy without its server accepts connections and closes them at once.
const OPEN_MIN: Duration = Duration::from_millis(20);
/// Time of waiting without a message.
const SILENT_MAX: Duration = Duration::from_secs(2);
/// Time limit of one readiness command.
const CHECK_MAX: Nanos = Nanos(5_000_000_000);

/// The second command of a trial, which runs during the measured one.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// The command and its environment; its time limit applies until it is ready.
    pub launch: SpawnSpec,
    /// The condition after which the measured command may start.
    pub ready: Readiness,
    /// Grace period between SIGTERM and SIGKILL, in which databases write their state and remove their sockets.
    pub stop_timeout: Nanos,
    /// CPUs of the measured command; the thread that monitors the server stays off them. Empty if the kernel chooses.
    pub measured: CpuSet,
    /// Called once with the missing condition, if the server takes longer than a moment to become ready.
    pub on_wait: fn(&str),
}

/// The condition that makes a server ready.
#[derive(Clone, Debug)]
pub enum Readiness {
    /// The server has been started.
    Started,
    /// A TCP connection to this port of the loopback address (IPv4 or IPv6) is accepted and stays open; the probe then
    /// closes it.
    Port(u16),
    /// This file exists. A file that existed before the start counts once it has been written or recreated.
    File(PathBuf),
    /// A complete line of its standard output or error matches.
    Line(Regex),
    /// This command, repeated, ends with status 0.
    Command(Vec<String>),
}

/// The reason why there was no server during the whole trial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// It could not be started, or does not end.
    #[error("server: {0}")]
    Launch(LaunchError),
    /// Another process accepts connections on its port and would have been measured.
    #[error("server: another process already accepts connections on port {0}")]
    PortTaken(u16),
    /// The readiness command succeeds without the server, so it would not show when this one is ready.
    #[error("server: the readiness command '{0}' succeeds before the server is started")]
    ReadyBeforeStart(String),
    /// The readiness command cannot be run.
    #[error("readiness command: {0}")]
    Check(LaunchError),
    /// It was not ready within the time limit.
    #[error("server: not ready after {time_limit}: {missing}{}", introduced(", last output: ", last_output))]
    NotReady {
        /// Description of the missing condition.
        missing: String,
        time_limit: Nanos,
        /// The end of its output; may be empty.
        last_output: String,
    },
    /// It ended before it was stopped.
    #[error(
        "server: ended {} with {exit}{}",
        if *was_ready { "before the end of the trial" } else { "before it was ready" },
        introduced(": ", last_output)
    )]
    Ended {
        /// Whether it had been ready.
        was_ready: bool,
        exit: Exit,
        /// The end of its output; may be empty.
        last_output: String,
    },
    /// `stop` was set before it was ready.
    #[error("server: stopped before it was ready")]
    Stopped,
}

fn introduced(introduction: &str, output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("{introduction}{output}") }
}

/// Starts a server, waits until it is ready, calls `meanwhile`, and stops the server: its process group gets SIGTERM,
/// and SIGKILL when the server has ended or after its `stop_timeout`. If its first process ends with status 0 and leaves
/// others in the background, as daemons do, these are the server. The flag passed to `meanwhile` is set when the server has
/// ended, so that the command can be aborted. Returns the result of `meanwhile` and the evidence of the server.
///
/// # Errors
/// See [`ServerError`]; no process is left running then either. `meanwhile` may have been called.
pub fn with_server<T>(
    server: &ServerCommand,
    stop: &AtomicBool,
    meanwhile: impl FnOnce(&AtomicBool) -> T,
) -> Result<(T, ProcessResult), ServerError> {
    let sign = ReadinessProbe::before_start(server, stop)?;
    let original = remember_original_mask();
    let (cpus, measured) = (seats_or(&server.launch.cpus, &original), seats_or(&server.measured, &original));
    adopt_orphans();
    // Off the server's CPUs too, if that leaves any; off those of the measured command in any case.
    let _aside = Aside::from(&original, &[&cpus.union(&measured), &measured]);
    let refused = |error: rustix::io::Errno| SyscallError::new("create a pipe", &error.into());
    let (hang_up, in_use) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| ServerError::Launch(LaunchError::Refused(refused(error))))?;
    let until = Instant::now().checked_add(Duration::from_nanos(server.launch.time_limit.0));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Closing it stops the server, also if `meanwhile` panics.
        let in_use = in_use;
        let (tell, events) = mpsc::channel();
        let (cpus, ended) = (&cpus, &ended);
        // A separate thread that lives as long as the server, which is killed when the thread that started it ends.
        let attending = scope.spawn(move || {
            observe(&server.launch, cpus, |started, descendants| {
                if matches!(server.ready, Readiness::Started) {
                    // Receivers wait until this thread has ended.
                    let _ = tell.send(());
                }
                let lines = match &server.ready {
                    Readiness::Line(pattern) => Some(LineWatch::new(pattern.clone(), tell)),
                    Readiness::Started | Readiness::Port(_) | Readiness::File(_) | Readiness::Command(_) => None,
                };
                let output_max = server.launch.output_max;
                let hang_up = Some(hang_up);
                let grace = Duration::from_nanos(server.stop_timeout.0);
                let background = Some(descendants);
                let policy =
                    WaitPolicy { output_max, time_limit: None, stop: &[stop], hang_up, grace, lines, background };
                let attended = wait::attend(started, policy);
                ended.store(true, Ordering::Relaxed);
                attended
            })
        });
        let waited = sign.wait(&events, ended, until, stop);
        let answer = (waited == ReadinessResult::Ready).then(|| meanwhile(ended));
        drop(in_use);
        let finished = attending.join().expect("the thread that waits for a process does not panic");
        let finished = finished.map_err(ServerError::Launch)?;
        conclude(server, &sign, waited, answer, finished)
    })
}

fn conclude<T>(
    server: &ServerCommand,
    sign: &ReadinessProbe<'_>,
    waited: ReadinessResult,
    answer: Option<T>,
    finished: ProcessResult,
) -> Result<(T, ProcessResult), ServerError> {
    if let Exit::Code(_) | Exit::Signal(_) = finished.exit {
        let (was_ready, last_output) = (answer.is_some(), finished.last_output());
        return Err(ServerError::Ended { was_ready, exit: finished.exit, last_output });
    }
    match answer {
        Some(answer) => Ok((answer, finished)),
        None if waited == ReadinessResult::Stopped => Err(ServerError::Stopped),
        None => Err(ServerError::NotReady {
            missing: sign.missing(),
            time_limit: server.launch.time_limit,
            last_output: finished.last_output(),
        }),
    }
}

/// Result of waiting for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadinessResult {
    Ready,
    /// The server has ended, or was never started.
    Ended,
    TooLong,
    Stopped,
}

/// A readiness condition and the state before the start.
struct ReadinessProbe<'a> {
    server: &'a ServerCommand,
    /// Identity of a file that existed before the start.
    stale: Option<FileState>,
}

/// Values that change when a file is written or recreated: device, inode, size, modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState(u64, u64, u64, i64, i64);

impl FileState {
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self(file.dev(), file.ino(), file.len(), file.ctime(), file.ctime_nsec()))
    }
}

impl<'a> ReadinessProbe<'a> {
    fn before_start(server: &'a ServerCommand, stop: &AtomicBool) -> Result<Self, ServerError> {
        match &server.ready {
            Readiness::Port(port) if connect(*port).is_some() => Err(ServerError::PortTaken(*port)),
            Readiness::File(path) => Ok(Self { server, stale: FileState::of(path) }),
            Readiness::Command(argv) if succeeds(server, argv, &[stop]).map_err(ServerError::Check)? => {
                Err(ServerError::ReadyBeforeStart(argv.join(" ")))
            }
            Readiness::Started | Readiness::Port(_) | Readiness::Line(_) | Readiness::Command(_) => {
                Ok(Self { server, stale: None })
            }
        }
    }

    /// `events` receives a matching line or the start, and is disconnected when the server has ended.
    fn wait(
        &self,
        events: &Receiver<()>,
        ended: &AtomicBool,
        until: Option<Instant>,
        stop: &AtomicBool,
    ) -> ReadinessResult {
        let (mut pause, longest) = LOOKS;
        let mut silent_until = Instant::now().checked_add(SILENT_MAX);
        loop {
            if silent_until.is_some_and(|until| Instant::now() >= until) {
                silent_until = None;
                (self.server.on_wait)(&format!(
                    "waiting for {}, at most {}",
                    self.awaited(),
                    self.server.launch.time_limit
                ));
            }
            match events.recv_timeout(pause) {
                Ok(()) => return ReadinessResult::Ready,
                Err(RecvTimeoutError::Disconnected) => return ReadinessResult::Ended,
                Err(RecvTimeoutError::Timeout) if ended.load(Ordering::Relaxed) => return ReadinessResult::Ended,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return ReadinessResult::Stopped,
                Err(RecvTimeoutError::Timeout) if self.is_seen(&[stop, ended]) => return ReadinessResult::Ready,
                Err(RecvTimeoutError::Timeout) if until.is_some_and(|until| Instant::now() >= until) => {
                    return ReadinessResult::TooLong;
                }
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(longest),
            }
        }
    }

    /// Polls a port or a file, or runs the command; the other conditions are reported through the channel.
    fn is_seen(&self, stop: &[&AtomicBool]) -> bool {
        match &self.server.ready {
            Readiness::Port(port) => connect(*port).is_some_and(|stream| stays_open(&stream)),
            Readiness::Command(argv) => succeeds(self.server, argv, stop).unwrap_or(false),
            Readiness::File(path) => FileState::of(path).is_some_and(|state| self.stale != Some(state)),
            Readiness::Started | Readiness::Line(_) => false,
        }
    }

    fn awaited(&self) -> String {
        match &self.server.ready {
            Readiness::Started => "the start of the server".into(),
            Readiness::Port(port) => format!("port {port} of the server"),
            Readiness::File(path) => format!("file '{}' of the server", path.display()),
            Readiness::Line(pattern) => format!("a line of the server's output that matches '{pattern}'"),
            Readiness::Command(argv) => format!("the readiness command '{}'", argv.join(" ")),
        }
    }

    fn missing(&self) -> String {
        match &self.server.ready {
            Readiness::Started => "it was not started".into(),
            Readiness::Port(port) => format!("port {port} of 127.0.0.1 and ::1 accepts no connection that stays open"),
            Readiness::Command(argv) => format!("the readiness command '{}' does not succeed", argv.join(" ")),
            Readiness::File(path) if self.stale.is_some() => {
                format!("file '{}' existed before the start and has not changed since", path.display())
            }
            Readiness::File(path) => format!("file '{}' does not exist", path.display()),
            Readiness::Line(pattern) => {
                format!("no line of its output matches '{pattern}' (programs may buffer output to a pipe)")
            }
        }
    }
}

/// Returns a connection to a process that listens on this loopback port.
fn connect(port: u16) -> Option<TcpStream> {
    let connects = |address: SocketAddr| {
        let stream = TcpStream::connect_timeout(&address, CONNECT_MAX).ok()?;
        // If no process listens, the kernel may assign this very port to our socket, which then connects to itself.
        stream.local_addr().is_ok_and(|own| own != address).then_some(stream)
    };
    connects((Ipv4Addr::LOCALHOST, port).into()).or_else(|| connects((Ipv6Addr::LOCALHOST, port).into()))
}

/// Whether the other side sends something or waits, instead of closing the connection.
fn stays_open(mut stream: &TcpStream) -> bool {
    if stream.set_read_timeout(Some(OPEN_MIN)).is_err() {
        return false;
    }
    match stream.read(&mut [0]) {
        Ok(bytes) => bytes > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// Runs a readiness command once, in the environment of the server but on any CPU.
fn succeeds(server: &ServerCommand, argv: &[String], stop: &[&AtomicBool]) -> Result<bool, LaunchError> {
    let check = SpawnSpec {
        argv: argv.iter().map(Into::into).collect(),
        wrapper: Vec::new(),
        cpus: CpuSet::new(),
        memory: MemoryPolicy::Kernel,
        time_limit: CHECK_MAX,
        entrance: None,
        ..server.launch.clone()
    };
    Ok(super::run(&check, stop)?.exit == Exit::Code(0))
}

impl Hinted for ServerError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Launch(error) | Self::Check(error) => error.hint(),
            Self::ReadyBeforeStart(_) => {
                Some("stop the other server, or use a command that fails without this one".into())
            }
            Self::PortTaken(_) => Some("stop the other process, or use another port".into()),
            Self::Ended { exit: Exit::Code(0), .. } => {
                Some("it left no process in the background; see its log for the reason".into())
            }
            Self::NotReady { .. } | Self::Ended { .. } | Self::Stopped => None,
        }
    }
}

#[cfg(test)]
mod tests;
