//! The C library functions that the programs call, and the types that they need (64-bit Linux). Declared here because
//! these programs are compiled without crates.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

/// `struct timespec`.
#[repr(C)]
pub struct Timespec {
    pub seconds: i64,
    pub nanos: i64,
}

/// `struct timeval`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timeval {
    pub seconds: i64,
    pub micros: i64,
}

/// `struct itimerval`.
#[repr(C)]
pub struct Itimerval {
    pub interval: Timeval,
    pub value: Timeval,
}

/// `struct rusage`: its first two fields, and padding for the rest.
#[repr(C)]
pub struct Rusage {
    pub user: Timeval,
    pub system: Timeval,
    pub rest: [c_long; 14],
}

pub const SIGALRM: c_int = 14;
pub const ITIMER_REAL: c_int = 0;
pub const RUSAGE_SELF: c_int = 0;
pub const CLOCK_MONOTONIC: c_int = 1;
pub const O_RDWR: c_int = 2;
pub const O_CREAT: c_int = 0o100;
pub const FIONREAD: u64 = 0x541b;

// SAFETY: the signatures are those of glibc and musl on 64-bit Linux, where `mode_t` and `uid_t` are `unsigned int`,
// `off_t` and `long` have 64 bits and `sighandler_t` is a pointer. The request of `ioctl` is `unsigned long` in glibc
// and `int` in musl; both read it from the same register.
unsafe extern "C" {
    pub fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize;
    pub fn write(fd: c_int, buffer: *const c_void, count: usize) -> isize;
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64;
    pub fn fsync(fd: c_int) -> c_int;
    pub fn dup(fd: c_int) -> c_int;
    pub fn dup2(from: c_int, to: c_int) -> c_int;
    pub fn close(fd: c_int) -> c_int;
    pub fn pipe(ends: *mut c_int) -> c_int;
    pub fn ioctl(fd: c_int, request: u64, ...) -> c_int;
    pub fn umask(mask: c_uint) -> c_uint;
    pub fn getpid() -> c_int;
    pub fn getuid() -> c_uint;
    pub fn fork() -> c_int;
    pub fn wait(status: *mut c_int) -> c_int;
    pub fn execv(path: *const c_char, argv: *const *const c_char) -> c_int;
    pub fn exit(status: c_int) -> !;
    pub fn signal(signal: c_int, handler: extern "C" fn(c_int)) -> usize;
    pub fn setitimer(which: c_int, new: *const Itimerval, old: *mut Itimerval) -> c_int;
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    pub fn getrusage(who: c_int, usage: *mut Rusage) -> c_int;
    pub fn sched_getcpu() -> c_int;
    pub fn strcmp(one: *const c_char, other: *const c_char) -> c_int;
    pub fn __errno_location() -> *mut c_int;
}
