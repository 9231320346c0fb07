//! Opens perf events of the kernel, for counting or sampling: `perf_event_open(2)`. Must not interpret them.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_ulong};

use crate::syscall::checked;

/// Description of a perf event; fields of `perf_event_attr` that are not listed are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfEvent {
    /// `PERF_TYPE_...`.
    pub kind: u32,
    /// Event of that type.
    pub config: u64,
    /// Number of events per sample; 0 only counts.
    pub sample_period: u64,
    /// `PERF_SAMPLE_...`: contents of a sample.
    pub sample_type: u64,
    /// Bit field that begins with `disabled`.
    pub flags: u64,
    /// Number of events, or of bytes if the flag `watermark` is set, after which a waiting thread is woken.
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

/// `perf_event_open(2)` for the calling thread and, with the flag `inherit`, its future children; on one CPU or on all.
/// ENOENT means that the hardware or the hypervisor lacks the event, EACCES that `perf_event_paranoid` forbids it.
pub fn open(event: &PerfEvent, cpu: Option<c_int>) -> io::Result<OwnedFd> {
    let PerfEvent { kind, config, sample_period, sample_type, flags, wakeup } = *event;
    let size = size_of::<PerfEventAttr>() as u32;
    let attr =
        PerfEventAttr { kind, size, config, sample_period, sample_type, flags, wakeup, ..PerfEventAttr::default() };
    // SAFETY: the kernel reads attr.size bytes of a live struct; 0 is the calling thread, and -1 means any
    // CPU and no group.
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
    // SAFETY: the kernel has just returned this descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}
