//! Runs a program in the foreground: it inherits the terminal, the standard streams and the process group, and this
//! process exits with its status. Unlike the process of a trial, it may outlive this process.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use crate::syscall;

/// A program in the foreground, whose exit status this process takes over.
#[derive(Debug)]
pub struct ForegroundProcess(Child);

impl ForegroundProcess {
    /// Starts a program, which joins a cgroup through its open file `cgroup.procs` before the exec, if there is one.
    pub fn start(argv: &[OsString], cgroup_procs: Option<&File>) -> io::Result<Self> {
        let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(cgroup_procs) = cgroup_procs.map(AsRawFd::as_raw_fd) {
            // SAFETY: between fork and exec the closure makes one system call; the descriptor outlives the spawn.
            unsafe {
                command.pre_exec(move || syscall::enter_group(cgroup_procs));
            }
        }
        command.spawn().map(Self)
    }

    /// Starts a program whose standard output is the standard error of this process.
    pub fn start_with_stdout_on_stderr(argv: &[OsString]) -> io::Result<Self> {
        let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        Command::new(program).args(arguments).stdout(stderr).spawn().map(Self)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns its exit status, or `None` while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    pub fn signal(&self, signal: i32) {
        send(self.0.id(), signal);
    }
}

/// Sends a signal to a process. Errors are ignored: the process has ended.
pub fn send(pid: u32, signal: i32) {
    // SAFETY: kill takes two integers; the caller started the process.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Returns whether the terminal sends its signals to the process group of this process. The program then receives them
/// too, and they must not be forwarded.
pub fn terminal_signals_us() -> bool {
    (0..3).any(|fd| {
        // SAFETY: both calls take integers at most and only query state.
        let foreground = unsafe { libc::tcgetpgrp(fd) };
        // SAFETY: as above.
        foreground > 0 && foreground == unsafe { libc::getpgrp() }
    })
}

/// Ends this process with the status of another process or by the same signal, so that a shell sees no difference.
pub fn exit_like(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        // SAFETY: the process ends here, so its state is irrelevant, as would be its core dump.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        // The signal did not end this process: use the exit status by which shells report a signal.
        std::process::exit(128 + signal);
    }
    std::process::exit(status.code().unwrap_or(1))
}
