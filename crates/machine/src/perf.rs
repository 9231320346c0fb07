//! Events of the kernel about processes, counted or sampled: `perf_event_open(2)`. Must not know what follows from them.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_ulong};

use crate::syscall::checked;

/// What is counted or sampled; what is left out is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfEvent {
    /// `PERF_TYPE_...`.
    pub kind: u32,
    /// Which event of that type.
    pub config: u64,
    /// One event in so many is sampled; 0 only counts.
    pub sample_period: u64,
    /// `PERF_SAMPLE_...`: what a sample has.
    pub sample_type: u64,
    /// The bit field, from `disabled` on.
    pub flags: u64,
    /// So many events, or bytes where the flag `watermark` is set, wake who waits for them.
    pub wakeup: u32,
}

/// The beginning of struct `perf_event_attr` up to its first published size (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// `PERF_TYPE_HARDWARE`.
pub const TYPE_HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
pub const TYPE_SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_PAGE_FAULTS_MAJ`: page faults that waited for a disk.
pub const PAGE_FAULTS_MAJOR: u64 = 6;
const FLAG_CLOEXEC: c_ulong = 1 << 3;

/// `perf_event_open(2)` on the calling thread, and with the flag `inherit` on what it forks from then on: on this cpu, or on
/// all. ENOENT where the hardware, or the hypervisor, has no such event; EACCES where `perf_event_paranoid` forbids it.
pub fn open(event: &PerfEvent, cpu: Option<c_int>) -> io::Result<OwnedFd> {
    let PerfEvent { kind, config, sample_period, sample_type, flags, wakeup } = *event;
    let size = size_of::<PerfEventAttr>() as u32;
    let attr =
        PerfEventAttr { kind, size, config, sample_period, sample_type, flags, wakeup, ..PerfEventAttr::default() };
    // SAFETY: the kernel reads attr.size bytes of a live struct; 0 is the calling thread, -1 for the cpu and the group
    // are its documented "any".
    let fd = checked(|| unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            ptr::from_ref(&attr),
            0 as c_int,
            cpu.unwrap_or(-1),
            -1 as c_int,
            FLAG_CLOEXEC,
        )
    })?;
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}
