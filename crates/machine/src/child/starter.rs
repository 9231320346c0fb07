//! The starter: a fork of this process that creates the processes of trials as children of this process. Each thread
//! that runs trials has its own, because the kernel ends a trial with the thread that is its parent.
//!
//! A vfork(2) of this process would share its memory until the exec. If the memory node of a trial is full by then, the
//! OOM killer spares the new process and kills the largest other process of the machine. A fork for each trial avoids
//! that, but its page tables are freed while the trial runs, which takes longer the more memory this process has.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::c_int;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType,
};

use super::shared::{ExecStrings, Shared, SharedStrings};
use super::spawn::{self, FAILED, Stack};
use crate::syscall::{self, set_oom_score_max, wait_for_child};

/// Descriptors that are sent for a process: its streams and files.
const DESCRIPTORS_MAX: usize = 5;

/// A program with everything that exec needs.
pub(super) struct Program<'a> {
    /// Its path, or a name to search in PATH.
    pub path: CString,
    pub argv: Vec<CString>,
    /// `NAME=VALUE`
    pub environment: Vec<CString>,
    pub directory: Option<CString>,
    /// Standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
    /// Files for [`Steps::perform`].
    pub files: [Option<BorrowedFd<'a>>; 2],
}

/// The actions of a process before it executes its program. The functions with `self` run in a fork of a process with
/// threads: they must not allocate, take locks or panic.
pub(super) trait Steps: Copy {
    type Report: Copy;

    /// Returns the report of a process before its first step.
    fn no_report() -> Self::Report;

    /// Performs the steps. Returns whether the program may be executed.
    fn perform(&self, files: [Option<RawFd>; 2], report: &Shared<Self::Report>) -> bool;

    /// Called if the program could not be executed.
    fn failed(&self, error: &io::Error, report: &Shared<Self::Report>);
}

pub(super) struct Starter<S: Steps> {
    /// `None` if it has ended, or has become the process of a trial.
    pid: Option<u32>,
    socket: OwnedFd,
    exchange: Exchange<S>,
    strings: SharedStrings,
}

/// Memory that the starter and its processes share with this process.
struct Exchange<S: Steps> {
    order: Shared<Option<Order<S>>>,
    report: Shared<S::Report>,
    /// PID of the process; 0 until it exists.
    pid: Shared<u32>,
}

/// Input of the starter for one process.
#[derive(Clone, Copy)]
struct Order<S> {
    strings: ExecStrings,
    has_file: [bool; 2],
    steps: S,
}

impl<S: Steps> Starter<S> {
    pub(super) fn fork() -> io::Result<Self> {
        let exchange =
            Exchange { order: Shared::new(None)?, report: Shared::new(S::no_report())?, pid: Shared::new(0)? };
        let strings = SharedStrings::new()?;
        let (socket, orders) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let mut stack = Stack::new();
        let last = last_descriptor();
        // SAFETY: `serve` and what it calls make system calls and write to memory that was allocated before.
        let pid = unsafe { spawn::fork(|| exchange.serve(&orders, last, &mut stack)) }?;
        Ok(Self { pid: Some(pid), socket, exchange, strings })
    }

    /// Returns its PID, unless it has ended.
    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Starts a process that performs the steps and then executes the program. Returns its PID and report when it has
    /// executed the program or ended: because a step or exec failed, or because it was killed. Returns `None` if the
    /// starter was killed before it could create the process.
    pub(super) fn start(&mut self, program: &Program<'_>, steps: &S) -> io::Result<Option<(u32, S::Report)>> {
        let strings =
            self.strings.store(&program.path, &program.argv, &program.environment, program.directory.as_ref())?;
        let has_file = program.files.map(|file| file.is_some());
        self.exchange.order.set(Some(Order { strings, has_file, steps: *steps }));
        self.exchange.report.set(S::no_report());
        self.exchange.pid.set(0);
        if let (Some(starter), Ok(mask)) = (self.pid, syscall::affinity(0)) {
            // The calling thread avoids the CPUs of the trial. If refused, the starter runs there for a moment.
            let _ = syscall::set_affinity(starter, &mask);
        }
        let descriptors: Vec<_> = program.streams.into_iter().chain(program.files.into_iter().flatten()).collect();
        let is_done = self.send(&descriptors)? && self.is_answered()?;
        let pid = self.exchange.pid.get();
        if !is_done {
            self.reap(pid)?;
        }
        Ok((pid != 0).then(|| (pid, self.exchange.report.get())))
    }

    /// Returns false if the starter has ended.
    fn send(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)), "there is space for all descriptors");
        let byte = [IoSlice::new(&[0])];
        let sent = || rustix::net::sendmsg(&self.socket, &byte, &mut control, SendFlags::NOSIGNAL);
        match rustix::io::retry_on_intr(sent) {
            Ok(_) => Ok(true),
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the answer of the starter; returns false if it has ended.
    fn is_answered(&self) -> io::Result<bool> {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.socket, &mut [0])) {
            Ok(bytes) => Ok(bytes > 0),
            Err(Errno::CONNRESET) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Called when the starter has ended. In an emulation without vfork it has become the trial, whose PID is given.
    fn reap(&mut self, trial: u32) -> io::Result<()> {
        self.pid.take().filter(|starter| *starter != trial).map_or(Ok(()), wait_for_child)
    }
}

impl<S: Steps> Drop for Starter<S> {
    fn drop(&mut self) {
        if let Some(starter) = self.pid {
            // It ends at the end of the connection. Errors mean that it has ended already.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
            let _ = wait_for_child(starter);
        }
    }
}

impl<S: Steps> Exchange<S> {
    /// Runs in the starter: starts a process for each message. Returns the exit status at the end of the connection.
    fn serve(&self, orders: &OwnedFd, last: RawFd, stack: &mut Stack) -> c_int {
        close_others(orders.as_raw_fd(), last);
        // Without it, the starter still ends with the connection.
        let _ = syscall::die_with_parent();
        loop {
            let Some(received) = receive(orders) else { return 0 };
            let Some(order) = self.order.get() else { return FAILED };
            // SAFETY: `run` makes system calls and writes to shared memory.
            unsafe { spawn::launch(&mut || self.run(&order, &received), stack) };
            drop(received);
            if rustix::io::retry_on_intr(|| rustix::io::write(orders, &[0])).is_err() {
                return 0;
            }
        }
    }

    /// Runs in the new process. Returns only if the program could not be executed.
    fn run(&self, order: &Order<S>, received: &[Option<OwnedFd>; DESCRIPTORS_MAX]) {
        self.pid.set(std::process::id());
        // Only for this process, although it shares the memory of the starter, because vfork(2) created it.
        set_oom_score_max();
        let mut descriptors = received.iter().flatten().map(AsRawFd::as_raw_fd);
        let mut next = || descriptors.next().unwrap_or(-1);
        let streams = [next(), next(), next()];
        let files = order.has_file.map(|is_there| is_there.then(&mut next));
        let ExecStrings { program, argv, environment, directory } = order.strings;
        // SAFETY: the directory is a string in shared memory, or null.
        let entered = unsafe { spawn::enter(streams, directory) };
        let error = match entered.map(|()| order.steps.perform(files, &self.report)) {
            Ok(true) => {
                // SAFETY: both arrays are in shared memory, end with null and point to strings there.
                unsafe { libc::execvpe(program, argv, environment) };
                io::Error::last_os_error()
            }
            Ok(false) => return,
            Err(error) => error,
        };
        order.steps.failed(&error, &self.report);
    }
}

/// Receives the descriptors of a process; `None` at the end of the connection.
fn receive(orders: &OwnedFd) -> Option<[Option<OwnedFd>; DESCRIPTORS_MAX]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let receive = || rustix::net::recvmsg(orders, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC);
    rustix::io::retry_on_intr(receive).ok().filter(|received| received.bytes > 0)?;
    let mut descriptors = [const { None }; DESCRIPTORS_MAX];
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.iter_mut().zip(received).for_each(|(slot, descriptor)| *slot = Some(descriptor));
        }
    }
    Some(descriptors)
}

/// Returns the highest open descriptor.
fn last_descriptor() -> RawFd {
    /// If /proc is not mounted: the usual limit.
    const USUAL_MAX: RawFd = 1024;
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().unwrap_or(USUAL_MAX)
}

/// Closes the descriptors that an exec would close, except one, and those above `last`, which other threads have opened
/// since. The starter would otherwise keep pipes and connections of this process open.
fn close_others(kept: RawFd, last: RawFd) {
    for descriptor in (3..=last).filter(|descriptor| *descriptor != kept) {
        // SAFETY: the calls take numbers. Nothing in the starter uses the closed descriptors.
        unsafe {
            let flags = libc::fcntl(descriptor, libc::F_GETFD);
            if flags != -1 && flags & libc::FD_CLOEXEC != 0 {
                libc::close(descriptor);
            }
        }
    }
    // SAFETY: as above. Before Linux 5.9 they stay open.
    unsafe { libc::syscall(libc::SYS_close_range, last + 1, c_int::MAX, 0) };
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::process::Command;

    use super::*;

    /// Reports that it was taken, and the error of exec.
    #[derive(Clone, Copy)]
    struct Note {
        may_execute: bool,
    }

    impl Steps for Note {
        type Report = (bool, Option<i32>);

        fn no_report() -> Self::Report {
            (false, None)
        }

        fn perform(&self, files: [Option<RawFd>; 2], report: &Shared<Self::Report>) -> bool {
            report.set((true, None));
            files == [None, None] && self.may_execute
        }

        fn failed(&self, error: &io::Error, report: &Shared<Self::Report>) {
            report.set((report.get().0, error.raw_os_error()));
        }
    }

    /// Starts a program and waits for its end. Returns the report and its output.
    fn run(starter: &mut Starter<Note>, argv: &[&str], may_execute: bool) -> (Option<(bool, Option<i32>)>, String) {
        let null = File::open("/dev/null").unwrap();
        let (mut read, output) = std::io::pipe().unwrap();
        let argv: Vec<_> = argv.iter().map(|word| CString::new(*word).unwrap()).collect();
        let path = argv[0].clone();
        let streams = [null.as_fd(), output.as_fd(), null.as_fd()];
        let program = Program { path, argv, environment: Vec::new(), directory: None, streams, files: [None; 2] };
        let started = starter.start(&program, &Note { may_execute }).unwrap();
        drop(output);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        if let Some((pid, _)) = started {
            wait_for_child(pid).unwrap();
        }
        (started.map(|(_, report)| report), text)
    }

    /// The same, where an emulation without vfork needs a starter for each process.
    fn run_once(argv: &[&str], may_execute: bool) -> (Option<(bool, Option<i32>)>, String) {
        run(&mut Starter::fork().unwrap(), argv, may_execute)
    }

    #[test]
    fn process_reports_its_steps_and_the_error_of_exec() {
        for (name, expected) in [("true", None), ("/nowhere/true", Some(libc::ENOENT))] {
            assert_eq!(run_once(&[name], true), (Some((true, expected)), String::new()), "{name}");
        }
    }

    #[test]
    fn program_is_not_executed_if_its_steps_fail() {
        assert_eq!(run_once(&["echo", "text"], false), (Some((true, None)), String::new()));
    }

    #[test]
    fn arguments_of_one_process_do_not_reach_the_next() {
        let mut starter = Starter::fork().unwrap();
        for words in [&["echo", "several", "words"][..], &["echo"], &["echo", "one"]] {
            let (_, text) = run(&mut starter, words, true);
            assert_eq!(text.trim_end(), words[1..].join(" "));
            if starter.pid().is_none() {
                starter = Starter::fork().unwrap();
            }
        }
    }

    #[test]
    fn killed_starter_starts_nothing() {
        let mut starter = Starter::fork().unwrap();
        let pid = rustix::process::Pid::from_raw(starter.pid().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert_eq!(run(&mut starter, &["echo", "text"], true), (None, String::new()));
        assert_eq!(starter.pid(), None);
    }

    #[test]
    fn starter_keeps_no_pipe_open_and_ends_when_dropped() {
        let (mut read, write) = std::io::pipe().unwrap();
        let starter = Starter::<Note>::fork().unwrap();
        drop(write);
        // The end of the file is reached only when no process can write.
        assert_eq!(read.read(&mut [0]).unwrap(), 0);
        let process = format!("/proc/{}", starter.pid().unwrap());
        assert!(std::fs::exists(&process).unwrap());
        drop(starter);
        assert!(!std::fs::exists(&process).unwrap());
    }

    #[test]
    fn program_starts_with_the_signals_that_std_gives_it() {
        // The masks of blocked, ignored and handled signals, without those from 32 on, which the C library may reserve.
        let signals = |status: &str| -> Vec<u64> {
            let masks = status.lines().filter_map(|line| line.strip_prefix("Sig")?.split_once(":\t"));
            let masks = masks.filter(|(name, _)| ["Blk", "Ign", "Cgt"].contains(name));
            masks.map(|(_, mask)| u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff).collect()
        };
        let (_, text) = run_once(&["cat", "/proc/self/status"], true);
        let by_std = Command::new("cat").arg("/proc/self/status").output().unwrap().stdout;
        assert_eq!(signals(&text), signals(&String::from_utf8(by_std).unwrap()));
        assert_eq!(signals(&text).len(), 3, "{text}");
    }
}
