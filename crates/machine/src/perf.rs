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
    open_for(0, event, cpu)
}

/// [`open`] for the first thread of a process, or for the calling thread if it is 0.
pub fn open_for(pid: u32, event: &PerfEvent, cpu: Option<c_int>) -> io::Result<OwnedFd> {
    let PerfEvent { kind, config, sample_period, sample_type, flags, wakeup } = *event;
    let size = size_of::<PerfEventAttr>() as u32;
    let attr =
        PerfEventAttr { kind, size, config, sample_period, sample_type, flags, wakeup, ..PerfEventAttr::default() };
    // SAFETY: the kernel reads attr.size bytes of `attr`, which outlives the call; -1 selects any CPU, and no group.
    let fd = checked(|| unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            ptr::from_ref(&attr),
            pid as c_int,
            cpu.unwrap_or(-1),
            -1 as c_int,
            FLAG_CLOEXEC,
        )
    })?;
    // SAFETY: the kernel has just returned this descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_COUNT_SW_CPU_MIGRATIONS: u64 = 4;
/// Bits of `perf_event_attr`: disabled, inherit, `enable_on_exec`.
const PERF_FROM_EXEC_ON: u64 = 1 | 1 << 1 | 1 << 12;
/// Bits of `perf_event_attr`: `exclude_kernel`, `exclude_hv`.
const PERF_USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// `perf_event_open(2)`: counts CPU migrations of all processes that a process of one thread creates afterwards, from
/// their exec on, including their threads and children, but not its own. Read with [`read_counter`].
pub(crate) fn open_migration_counter(pid: u32) -> io::Result<OwnedFd> {
    let (kind, config, flags) = (TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, PERF_FROM_EXEC_ON);
    open_for(pid, &PerfEvent { kind, config, flags, ..PerfEvent::default() }, None)
}

/// `perf_event_open(2)`: counts the cycles of the calling thread in user mode. Fails with ENOENT if the hardware or the
/// hypervisor has no counter, and with EACCES if `perf_event_paranoid` forbids it.
pub(crate) fn open_cycle_counter() -> io::Result<OwnedFd> {
    let (kind, config, flags) = (TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, PERF_USER_ONLY);
    open(&PerfEvent { kind, config, flags, ..PerfEvent::default() }, None)
}

/// Reads the count of a perf event.
pub(crate) fn read_counter(counter: &OwnedFd) -> io::Result<u64> {
    let mut value = [0_u8; 8];
    match rustix::io::read(counter, &mut value)? {
        8 => Ok(u64::from_ne_bytes(value)),
        _ => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}
