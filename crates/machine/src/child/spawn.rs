//! Creates processes as vfork(2) does: the caller waits until the process has executed a program or ended, and they
//! share their memory until then. Does not know what the process does before its exec, except for the steps that each
//! one takes.
#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::RawFd;
use std::ptr;

use libc::{c_char, c_int, c_void};

use crate::syscall::checked;

/// Size of the stack on which a new process runs until exec, in words. The search in PATH needs about 8 KiB (execvpe(3)).
const STACK_WORDS: usize = (256 << 10) / size_of::<u128>();
/// Exit status of a process that executed no program.
pub(super) const FAILED: c_int = 127;
/// Highest signal of Linux.
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;

/// The stack on which a new process runs until exec.
pub(super) struct Stack(Vec<u128>);

impl Stack {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(STACK_WORDS))
    }
}

/// Steps that every process takes: streams, directory (null for none), process group, signals.
///
/// # Safety
/// `directory` is null or points to a string.
pub(super) unsafe fn enter(streams: [RawFd; 3], directory: *const c_char) -> io::Result<()> {
    for (stream, target) in streams.into_iter().zip(0..) {
        // SAFETY: dup2 and the calls below take numbers, a string, and live signal sets. std keeps descriptors 0 to 2
        // open, so no stream has one of these numbers.
        checked(|| unsafe { libc::dup2(stream, target) }.into())?;
    }
    if !directory.is_null() {
        // SAFETY: the caller passes a string.
        checked(|| unsafe { libc::chdir(directory) }.into())?;
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

/// Forks this process with all signals blocked, so that no handler runs in the child, and calls `child` there.
///
/// # Safety
/// `child` runs in a fork of a process with threads: it must not allocate, take locks or panic.
pub(super) unsafe fn fork(child: impl FnOnce() -> c_int) -> io::Result<u32> {
    // SAFETY: an all-zero sigset_t is valid, and the caller guarantees what `child` may do. The child ends with _exit,
    // which runs no exit handlers.
    unsafe {
        let (mut all, mut before) = (MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::zeroed());
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(child());
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        u32::try_from(pid).map_err(|_| error)
    }
}

/// Calls `child` in a new process with the parent and the memory of the calling one, and waits until it has executed a
/// program or ended. Where that is impossible, as in QEMU's user emulation, the calling process becomes that process.
///
/// # Safety
/// As for [`fork`].
pub(super) unsafe fn launch(child: &mut dyn FnMut(), stack: &mut Stack) {
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
        let top = stack.0.as_mut_ptr().add(STACK_WORDS).cast();
        libc::clone(run, top, flags, ptr::from_mut(&mut child).cast())
    };
    if pid < 0 {
        child();
        // SAFETY: as above.
        unsafe { libc::_exit(FAILED) };
    }
}
