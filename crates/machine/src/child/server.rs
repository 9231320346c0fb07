//! A server beside the measured command: started on its own seats, waited for until it is ready, watched all the time,
//! and gone afterwards with all its process group. What is run meanwhile is the caller's.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use model::values::id_set::CpuSet;
use model::values::units::Nanos;
use regex::bytes::Regex;
use rustix::pipe::PipeFlags;

use super::aside::Aside;
use super::output::LineWatch;
use super::wait::{self, WaitPolicy};
use super::{Exit, LaunchError, ProcessResult, SpawnSpec, adopt_orphans, observe, remember_original_mask, seats_or};
use crate::syscall::SyscallError;

/// Between SIGTERM and SIGKILL: databases write their state and remove their sockets in it.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks whether a port answers or a file is there: growing from the first to the second.
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// A loopback connection is made or refused at once; only a full queue of an overwhelmed server is not.
const CONNECT_MAX: Duration = Duration::from_millis(250);

/// A second command of a trial, beside the measured one.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// What is run, and where; its time limit is for becoming ready.
    pub launch: SpawnSpec,
    /// When the measured command may begin.
    pub ready: Readiness,
    /// The cpus of the measured command, empty when the kernel chooses: whoever watches the server keeps off them.
    pub measured: CpuSet,
}

/// What says that a server can be used.
#[derive(Clone, Debug)]
pub enum Readiness {
    /// That it has been started.
    Started,
    /// That a TCP connection to this port of the loopback (IPv4 or IPv6) is accepted; the connection is closed at once.
    Port(u16),
    /// That this file is there. One that was there before the start counts when it has been written or made anew since.
    File(PathBuf),
    /// That a whole line of its standard output or error matches.
    Line(Regex),
}

/// Why there was no server all through the trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerError {
    /// It could not be started, or does not go away.
    Launch(LaunchError),
    /// Somebody else answers on its port: that one would have been measured.
    PortTaken(u16),
    /// It was not ready within the time limit.
    NotReady {
        /// What was missing, in words.
        missing: String,
        /// How long it was waited for.
        time_limit: Nanos,
        /// What it said last on stderr, with words before it; may be empty.
        said: String,
    },
    /// It ended by itself before it was to be stopped.
    Ended {
        /// Whether it had been ready.
        was_ready: bool,
        exit: Exit,
        /// How it ended and what it said last.
        stderr_tail: String,
    },
    /// `stop` was set before it was ready.
    Stopped,
}

/// Starts a server, waits until it is ready, calls `meanwhile`, and stops the server: its process group gets SIGTERM,
/// and SIGKILL when the server is gone or 5 s later. The flag that `meanwhile` is given is set when the server has
/// ended: what runs is then to be given up. Gives what `meanwhile` gave, and the server's own evidence.
///
/// # Errors
/// As [`ServerError`] says; nothing is left running then either. `meanwhile` may have been called.
pub fn with_server<T>(
    server: &ServerCommand,
    stop: &AtomicBool,
    meanwhile: impl FnOnce(&AtomicBool) -> T,
) -> Result<(T, ProcessResult), ServerError> {
    let sign = ReadinessProbe::before_start(&server.ready)?;
    let original = remember_original_mask();
    let (cpus, measured) = (seats_or(&server.launch.cpus, &original), seats_or(&server.measured, &original));
    adopt_orphans();
    // The server's seats too, if that leaves us any; the measured command's in any case.
    let _aside = Aside::from(&original, &[&cpus.union(&measured), &measured]);
    let refused = |error: rustix::io::Errno| SyscallError::new("make a pipe", &error.into());
    let (hang_up, in_use) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| ServerError::Launch(LaunchError::Refused(refused(error))))?;
    let until = Instant::now().checked_add(Duration::from_nanos(server.launch.time_limit.0));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Closing it stops the server, also when `meanwhile` panics.
        let in_use = in_use;
        let (tell, told) = mpsc::channel();
        let (cpus, ended) = (&cpus, &ended);
        // A thread of its own that lives as long as the server: the server dies with the thread that started it.
        let attending = scope.spawn(move || {
            observe(&server.launch, cpus, |started| {
                if matches!(server.ready, Readiness::Started) {
                    // Who waits for it does so until this thread is gone.
                    let _ = tell.send(());
                }
                let lines = match &server.ready {
                    Readiness::Line(wanted) => Some(LineWatch::new(wanted.clone(), tell)),
                    Readiness::Started | Readiness::Port(_) | Readiness::File(_) => None,
                };
                let output_max = server.launch.output_max;
                let hang_up = Some(hang_up);
                let orders = WaitPolicy { output_max, time_limit: None, stop: &[stop], hang_up, grace: GRACE, lines };
                let attended = wait::attend(started, orders);
                ended.store(true, Ordering::Relaxed);
                attended
            })
        });
        let waited = sign.wait(&told, ended, until, stop);
        let answer = (waited == ReadinessResult::Ready).then(|| meanwhile(ended));
        drop(in_use);
        let finished = attending.join().expect("attending a process has no reason to panic");
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
        let (was_ready, last_words) = (answer.is_some(), finished.stderr_tail());
        return Err(ServerError::Ended { was_ready, exit: finished.exit, stderr_tail: last_words });
    }
    match answer {
        Some(answer) => Ok((answer, finished)),
        None if waited == ReadinessResult::Stopped => Err(ServerError::Stopped),
        None => {
            let said = finished.stderr_end();
            let said = if said.is_empty() { said } else { format!("; it said: {said}") };
            Err(ServerError::NotReady { missing: sign.missing(), time_limit: server.launch.time_limit, said })
        }
    }
}

/// How waiting for a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadinessResult {
    Ready,
    /// The server has ended, or was never there.
    Ended,
    TooLong,
    Stopped,
}

/// What a server's readiness is told by, and what it looked like before.
struct ReadinessProbe<'a> {
    ready: &'a Readiness,
    /// The file that was already there.
    stale: Option<FileState>,
}

/// What changes when a file is written or made anew: device, inode, length, time of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState(u64, u64, u64, i64, i64);

impl FileState {
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self(file.dev(), file.ino(), file.len(), file.ctime(), file.ctime_nsec()))
    }
}

impl<'a> ReadinessProbe<'a> {
    fn before_start(ready: &'a Readiness) -> Result<Self, ServerError> {
        match ready {
            Readiness::Port(port) if answers(*port) => Err(ServerError::PortTaken(*port)),
            Readiness::File(path) => Ok(Self { ready, stale: FileState::of(path) }),
            Readiness::Started | Readiness::Port(_) | Readiness::Line(_) => Ok(Self { ready, stale: None }),
        }
    }

    /// `told` hears of a line that matches or of the start, and hangs up when the server is gone.
    fn wait(
        &self,
        told: &Receiver<()>,
        ended: &AtomicBool,
        until: Option<Instant>,
        stop: &AtomicBool,
    ) -> ReadinessResult {
        let (mut pause, longest) = LOOKS;
        loop {
            match told.recv_timeout(pause) {
                Ok(()) => return ReadinessResult::Ready,
                Err(RecvTimeoutError::Disconnected) => return ReadinessResult::Ended,
                Err(RecvTimeoutError::Timeout) if ended.load(Ordering::Relaxed) => return ReadinessResult::Ended,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return ReadinessResult::Stopped,
                Err(RecvTimeoutError::Timeout) if self.is_seen() => return ReadinessResult::Ready,
                Err(RecvTimeoutError::Timeout) if until.is_some_and(|until| Instant::now() >= until) => {
                    return ReadinessResult::TooLong;
                }
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(longest),
            }
        }
    }

    /// Whether what has to be looked for is there; the other signs are told.
    fn is_seen(&self) -> bool {
        match self.ready {
            Readiness::Port(port) => answers(*port),
            Readiness::File(path) => FileState::of(path).is_some_and(|state| self.stale != Some(state)),
            Readiness::Started | Readiness::Line(_) => false,
        }
    }

    fn missing(&self) -> String {
        match self.ready {
            Readiness::Started => "it was not started".into(),
            Readiness::Port(port) => format!("nothing answers on port {port} of 127.0.0.1 and ::1"),
            Readiness::File(path) if self.stale.is_some() => {
                format!("file '{}' was there before it was started and has not changed since", path.display())
            }
            Readiness::File(path) => format!("there is no file '{}'", path.display()),
            Readiness::Line(wanted) => {
                format!("no line of its output matches '{wanted}' (programs may hold back what they write to a pipe)")
            }
        }
    }
}

/// Whether somebody accepts connections on this port of the loopback.
fn answers(port: u16) -> bool {
    let connects = |address: SocketAddr| {
        let Ok(stream) = TcpStream::connect_timeout(&address, CONNECT_MAX) else { return false };
        // Where nobody listens, the kernel may give us the very port as our own, and we reach ourselves.
        stream.local_addr().is_ok_and(|own| own != address)
    };
    connects((Ipv4Addr::LOCALHOST, port).into()) || connects((Ipv6Addr::LOCALHOST, port).into())
}

impl ServerError {
    /// The next step, where one is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Launch(error) => error.hint(),
            Self::PortTaken(_) => Some("stop the other program, or give the server another port"),
            Self::Ended { exit: Exit::Code(0), .. } => {
                Some("let it run in the foreground: what it leaves in the background is not watched")
            }
            Self::NotReady { .. } | Self::Ended { .. } | Self::Stopped => None,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch(error) => write!(f, "the server: {error}"),
            Self::PortTaken(port) => write!(f, "the server: another program already answers on its port {port}"),
            Self::NotReady { missing, time_limit, said } => {
                write!(f, "the server was not ready after {time_limit}: {missing}{said}")
            }
            Self::Ended { was_ready, stderr_tail: last_words, .. } => {
                let when = if *was_ready { "before the trial was over" } else { "before it was ready" };
                write!(f, "the server ended {when} with {last_words}")
            }
            Self::Stopped => f.write_str("the server was stopped before it was ready"),
        }
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests;
