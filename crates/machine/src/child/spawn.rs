//! Creates the process of a trial in two steps. A fork of this process, the launcher, starts it as vfork(2) does: they
//! share their memory until the exec. Does not know what the child does before its exec.
//!
//! Removing the copied page tables of a fork would be part of the measured time; here the launcher removes them. A
//! vfork without a launcher would share the memory of this process, and when its memory node is full, the OOM killer
//! spares processes between vfork and exec and kills the largest other process of the machine.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::{self, PipeWriter, Read};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use libc::{c_char, c_int, c_void};

use super::shared::Shared;
use crate::syscall::{checked, set_oom_score_max, wait_for_child};

/// Words of the stack of the child until its exec. The search in PATH needs about 8 KiB (execvpe(3)).
const STACK_WORDS: usize = (256 << 10) / size_of::<u128>();
/// Exit status of a child that executed no program.
const FAILED: c_int = 127;
/// Highest signal of Linux.
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;

/// A program with everything that exec needs, allocated before the child exists.
pub(super) struct Program {
    pub argv: Vec<CString>,
    /// `NAME=VALUE`
    pub environment: Vec<CString>,
    pub directory: Option<CString>,
    /// Standard input, output and error.
    pub streams: [OwnedFd; 3],
}

/// Pointers to the strings of a [`Program`], with a null at the end, as exec requires them.
struct Pointers(Vec<*const c_char>);

impl Pointers {
    fn to(strings: &[CString]) -> Self {
        Self(strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect())
    }
}

/// Starts a process that calls `prepare` and then executes the program. Returns its PID once the program runs, or the
/// process has ended because `prepare` returned false or exec failed (`failed` has then been called), or was killed.
///
/// # Safety
/// The calls run in a fork of a process with threads: they must not allocate, take locks or panic. What they write is
/// visible here only if it is [`Shared`].
pub(super) unsafe fn start(
    program: &Program,
    mut prepare: impl FnMut() -> bool,
    mut failed: impl FnMut(&io::Error),
) -> io::Result<u32> {
    let (argv, environment) = (Pointers::to(&program.argv), Pointers::to(&program.environment));
    let pid = Shared::new(0)?;
    let mut child = || {
        pid.set(std::process::id());
        let seated = enter(program).map(|()| prepare());
        let error = match seated {
            Ok(true) => {
                // SAFETY: both arrays end with null and point to strings that outlive the call.
                unsafe { libc::execvpe(argv.0[0], argv.0.as_ptr(), environment.0.as_ptr()) };
                io::Error::last_os_error()
            }
            Ok(false) => return,
            Err(error) => error,
        };
        failed(&error);
    };
    let (mut started, write_end) = std::io::pipe()?;
    // SAFETY: the caller guarantees what `fork` requires.
    let launcher = unsafe { fork(&mut child, &write_end) }?;
    drop(write_end);
    // The exec closes the pipe, and so does the end of both processes.
    let waited = started.read_to_end(&mut Vec::new());
    let pid = pid.get();
    if pid != launcher {
        wait_for_child(launcher)?;
    }
    waited?;
    if pid == 0 { Err(io::Error::from_raw_os_error(libc::EINTR)) } else { Ok(pid) }
}

/// Steps that every child takes: streams, directory, process group, signals.
fn enter(program: &Program) -> io::Result<()> {
    for (stream, target) in program.streams.iter().zip(0..) {
        // SAFETY: dup2 and the calls below take numbers, a string, and live signal sets. std keeps descriptors 0 to 2
        // open, so no stream has one of these numbers.
        checked(|| unsafe { libc::dup2(stream.as_raw_fd(), target) }.into())?;
    }
    if let Some(directory) = &program.directory {
        // SAFETY: see above.
        checked(|| unsafe { libc::chdir(directory.as_ptr()) }.into())?;
    }
    // Its own process group, so that it can be stopped with all its children.
    // SAFETY: see above.
    checked(|| unsafe { libc::setpgid(0, 0) }.into())?;
    reset_signals();
    Ok(())
}

/// Restores the default action of handled signals, because handlers of this process must not run in the child, and of
/// SIGPIPE, which std ignores. Then unblocks all signals.
fn reset_signals() {
    // SAFETY: zeroed is a valid sigaction and sigset_t, and the calls read and write live variables. Errors concern
    // only signals that cannot be handled.
    unsafe {
        for signal in SIGNALS {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            let known = libc::sigaction(signal, ptr::null(), &raw mut action) == 0;
            let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
            if known && (handled || signal == libc::SIGPIPE) {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        let mut none = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Starts the launcher, which holds `started` open until `child` has executed a program or ended.
///
/// # Safety
/// As for [`start`].
unsafe fn fork(child: &mut dyn FnMut(), started: &PipeWriter) -> io::Result<u32> {
    let mut stack = Vec::<u128>::with_capacity(STACK_WORDS);
    // SAFETY: zeroed is a valid sigset_t. All signals are blocked meanwhile, so that no handler runs in the children.
    // The launcher only makes system calls and exits without running exit handlers.
    unsafe {
        let (mut all, mut before) = (MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::zeroed());
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let launcher = libc::fork();
        if launcher == 0 {
            set_oom_score_max();
            launch(child, &mut stack);
            libc::close(started.as_raw_fd());
            libc::_exit(FAILED);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        u32::try_from(launcher).map_err(|_| error)
    }
}

/// Calls `child` in a new process with the parent and the memory of the calling one, and waits until it has executed a
/// program or ended. Calls it in the calling process where that is impossible, as in QEMU's user emulation.
///
/// # Safety
/// As for [`start`]; nothing else uses the stack.
unsafe fn launch(child: &mut dyn FnMut(), stack: &mut Vec<u128>) {
    extern "C" fn run(child: *mut c_void) -> c_int {
        // SAFETY: the pointer is that to `child` below, which waits while this runs.
        let child = unsafe { &mut *child.cast::<&mut dyn FnMut()>() };
        child();
        // SAFETY: _exit does not return, and runs no exit handlers of the shared memory.
        unsafe { libc::_exit(FAILED) }
    }
    let mut child = child;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: the stack grows down from its end and is live until the child has left it, because of CLONE_VFORK.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK_WORDS).cast();
        libc::clone(run, top, flags, ptr::from_mut(&mut child).cast())
    };
    if pid < 0 {
        child();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;

    fn program(argv: &[&str], output: OwnedFd) -> Program {
        let null = || OwnedFd::from(File::open("/dev/null").unwrap());
        let argv = argv.iter().map(|word| CString::new(*word).unwrap()).collect();
        Program { argv, environment: Vec::new(), directory: None, streams: [null(), output, null()] }
    }

    #[test]
    fn child_reports_through_shared_memory() {
        for (name, expected) in [("true", None), ("/nowhere/true", Some(libc::ENOENT))] {
            let (_, output) = std::io::pipe().unwrap();
            let program = program(&[name], output.into());
            let (prepared, errno) = (Shared::new(false).unwrap(), Shared::new(None).unwrap());
            let prepare = || {
                prepared.set(true);
                true
            };
            // SAFETY: the closures write to shared memory and make no calls.
            let pid = unsafe { start(&program, prepare, |error| errno.set(error.raw_os_error())) }.unwrap();
            wait_for_child(pid).unwrap();
            assert_eq!((prepared.get(), errno.get()), (true, expected), "{name}");
        }
    }

    #[test]
    fn program_is_not_executed_if_its_preparation_fails() {
        let (mut read, output) = std::io::pipe().unwrap();
        let program = program(&["echo", "text"], output.into());
        // SAFETY: the closures do nothing.
        let pid = unsafe { start(&program, || false, |_| {}) }.unwrap();
        wait_for_child(pid).unwrap();
        drop(program);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
    }

    #[test]
    fn program_starts_with_the_signals_that_std_gives_it() {
        // Blocked, ignored and handled. Signals from 32 belong to the C library.
        let signals = |status: &str| -> Vec<u64> {
            let masks = status.lines().filter_map(|line| line.strip_prefix("Sig")?.split_once(":\t"));
            let masks = masks.filter(|(name, _)| ["Blk", "Ign", "Cgt"].contains(name));
            masks.map(|(_, mask)| u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff).collect()
        };
        let (mut read, output) = std::io::pipe().unwrap();
        let program = program(&["cat", "/proc/self/status"], output.into());
        // SAFETY: the closures do nothing.
        let pid = unsafe { start(&program, || true, |_| {}) }.unwrap();
        drop(program);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        wait_for_child(pid).unwrap();
        let by_std = Command::new("cat").arg("/proc/self/status").output().unwrap().stdout;
        assert_eq!(signals(&text), signals(&String::from_utf8(by_std).unwrap()));
        assert_eq!(signals(&text).len(), 3, "{text}");
    }
}
