//! A program run in our place: it has our terminal, standard streams, signals and process group, and its exit status is
//! ours. Unlike a trial's process it outlives us. Must not know what is done around it.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use crate::syscall;

/// A program that runs in our place.
#[derive(Debug)]
pub struct ForegroundProcess(Child);

impl ForegroundProcess {
    /// Starts it; before it becomes the program, it enters a cgroup through this.
    pub fn start(argv: &[OsString], entrance: &File) -> io::Result<Self> {
        let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let entrance = entrance.as_raw_fd();
        let mut command = Command::new(program);
        command.args(arguments);
        // SAFETY: between fork and exec it makes one system call, and the descriptor is open until the spawn is over.
        unsafe {
            command.pre_exec(move || syscall::enter_group(entrance));
        }
        command.spawn().map(Self)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    pub fn signal(&self, signal: i32) {
        send(self.0.id(), signal);
    }
}

/// Sends a signal to a process; one that has ended needs none.
pub fn send(pid: u32, signal: i32) {
    // SAFETY: kill takes two integers; the process is one that our caller started.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Whether the terminal sends its signals to us, and with that to all of our process group: then the program has had them
/// and they need not be passed on.
pub fn terminal_signals_us() -> bool {
    (0..3).any(|fd| {
        // SAFETY: both take integers and only ask.
        let foreground = unsafe { libc::tcgetpgrp(fd) };
        // SAFETY: as above.
        foreground > 0 && foreground == unsafe { libc::getpgrp() }
    })
}

/// Ends this process as another ended: with its status, or by the signal that ended it, so that a shell sees no difference.
pub fn exit_like(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        // SAFETY: from here on nothing of this process is used; a core of ours would tell nothing of the program.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        // A signal that does not end us by itself: what shells say of one.
        std::process::exit(128 + signal);
    }
    std::process::exit(status.code().unwrap_or(1))
}
