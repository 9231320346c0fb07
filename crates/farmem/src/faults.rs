//! Page faults of a program as they occur: software events of the kernel with address, thread and instruction, in one
//! ring per CPU, of all processes that another one forks from then on and of their children and threads. Must
//! not know what follows from a fault.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use machine::perf::{self, PerfEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::predict::Fault;
use crate::trace::Record;

/// Pages of a ring, a power of two. With 40 bytes per sample, it holds about 13 000 samples.
const RING_PAGES: usize = 128;
/// Number of bytes in a ring that wakes the reader.
const WAKE_AT_BYTES: u32 = 512;

/// `perf_event_open(2)`: events, sample fields, flags.
const MINOR_FAULTS: u64 = 5;
const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_ADDR: u64 = 1 << 3;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_HV: u64 = 1 << 6;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const COMM_EXEC: u64 = 1 << 24;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;
const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_SAMPLE: u32 = 9;
const MISC_COMM_EXEC: u16 = 1 << 13;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SensorEvent {
    Fault(Fault),
    /// A process ended, or executed another program.
    Gone(u32),
    /// Number of samples lost because a ring was full.
    Lost(u64),
}

impl SensorEvent {
    pub(crate) fn record(self) -> Record {
        match self {
            Self::Fault(fault) => Record::Fault(fault),
            Self::Gone(process) => Record::Gone(process),
            Self::Lost(count) => Record::Lost(count),
        }
    }
}

/// The events of one CPU.
struct Cpu {
    major: OwnedFd,
    minor: OwnedFd,
    major_id: u64,
    ring: EventRing,
}

pub(crate) struct FaultSource {
    cpus: Vec<Cpu>,
    /// Whether major and minor faults are enabled.
    major_on: bool,
    minor_on: bool,
    /// PID of the process that forks the program. Its own faults are ignored.
    parent: u32,
}

impl FaultSource {
    /// Opens the events for processes that the first thread of process `parent` forks from now on, or the calling thread. One
    /// minor fault in `minor_period` is sampled, once [`FaultSource::watch_minor`] enables them.
    pub(crate) fn open(minor_period: u64, parent: Option<u32>) -> io::Result<Self> {
        let mut cpus = Vec::new();
        // SAFETY: sysconf has no preconditions.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as i32;
        for cpu in 0..count {
            match Cpu::open(cpu, minor_period, parent.unwrap_or(0)) {
                Ok(opened) => cpus.push(opened),
                // The CPU is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        let parent = parent.unwrap_or_else(std::process::id);
        Ok(Self { cpus, major_on: true, minor_on: false, parent })
    }

    /// Enables or disables minor faults. They are worth their cost once pages are in far memory.
    pub(crate) fn watch_minor(&mut self, on: bool) {
        if on != self.minor_on {
            self.minor_on = on;
            self.cpus.iter().for_each(|cpu| switch(&cpu.minor, on));
        }
    }

    /// Returns true if minor faults are enabled.
    pub(crate) fn watches_minor(&self) -> bool {
        self.minor_on
    }

    /// Enables or disables major faults.
    pub(crate) fn watch_major(&mut self, on: bool) {
        if on != self.major_on {
            self.major_on = on;
            self.cpus.iter().for_each(|cpu| switch(&cpu.major, on));
        }
    }

    /// Waits until a ring has data, or until the timeout, which must be less than a second.
    pub(crate) fn wait(&self, at_most: Duration) {
        let rings = self.cpus.iter().map(|cpu| cpu.major.as_fd());
        let mut descriptors: Vec<PollFd> = rings.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let at_most = Timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().into() };
        // After an interruption, the caller reads the available data too.
        let _ = poll(&mut descriptors, Some(&at_most));
    }

    /// Drains the rings; samples of one CPU are in order.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(SensorEvent)) {
        for cpu in &mut self.cpus {
            let (major_id, parent) = (cpu.major_id, self.parent);
            cpu.ring.drain(|record| {
                let is_own = |seen: &_| matches!(seen, SensorEvent::Fault(Fault { process, .. }) if *process == parent);
                read_record(record, major_id).filter(|seen| !is_own(seen)).into_iter().for_each(&mut each);
            });
        }
    }
}

/// A record of the ring as 8-byte words, header first.
fn read_record(words: &[u64], major_id: u64) -> Option<SensorEvent> {
    let (kind, misc) = (words[0] as u32, (words[0] >> 32) as u16);
    match (kind, words) {
        (RECORD_SAMPLE, [_, id, instruction, ids, address, ..]) => Some(SensorEvent::Fault(Fault {
            process: *ids as u32,
            thread: (*ids >> 32) as u32,
            instruction: *instruction,
            address: *address,
            major: *id == major_id,
        })),
        (RECORD_LOST, [_, _, count, ..]) => Some(SensorEvent::Lost(*count)),
        (RECORD_COMM, [_, ids, ..]) if misc & MISC_COMM_EXEC != 0 => Some(SensorEvent::Gone(*ids as u32)),
        // Process, parent process, thread, parent thread: a process ends with its first thread.
        (RECORD_EXIT, [_, process, thread, ..]) if *process as u32 == *thread as u32 => {
            Some(SensorEvent::Gone(*process as u32))
        }
        _ => None,
    }
}

impl Cpu {
    /// A `parent` of 0 is the calling thread.
    fn open(cpu: i32, minor_period: u64, parent: u32) -> io::Result<Self> {
        let major = open_event(perf::PAGE_FAULTS_MAJOR, 1, COMM | TASK | COMM_EXEC, (cpu, parent))?;
        let minor = open_event(MINOR_FAULTS, minor_period, DISABLED, (cpu, parent))?;
        let ring = EventRing::map(&major)?;
        let mut major_id = 0_u64;
        request(&minor, IOC_SET_OUTPUT, libc::c_long::from(major.as_raw_fd()))?;
        request(&major, IOC_ID, ptr::from_mut(&mut major_id) as libc::c_long)?;
        Ok(Self { major, minor, major_id, ring })
    }
}

fn open_event(config: u64, period: u64, flags: u64, (cpu, parent): (i32, u32)) -> io::Result<OwnedFd> {
    let event = PerfEvent {
        kind: perf::TYPE_SOFTWARE,
        config,
        sample_period: period,
        sample_type: SAMPLE_IDENTIFIER | SAMPLE_IP | SAMPLE_TID | SAMPLE_ADDR,
        flags: flags | INHERIT | EXCLUDE_HV | WATERMARK,
        wakeup: WAKE_AT_BYTES,
    };
    perf::open_for(parent, &event, Some(cpu))
}

fn request(event: &OwnedFd, request: libc::c_ulong, argument: libc::c_long) -> io::Result<()> {
    // SAFETY: these requests take a number, a descriptor, or the address of a live u64.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn switch(event: &OwnedFd, on: bool) {
    // An event whose processes have all ended cannot be switched.
    let _ = request(event, if on { IOC_ENABLE } else { IOC_DISABLE }, 0);
}

/// A ring shared with the kernel: a page of counters, then the data.
struct EventRing {
    start: NonNull<u8>,
    page: usize,
    /// A record that wraps around the end, made contiguous.
    record: Vec<u64>,
}

// SAFETY: the value owns the mapping, which does not depend on the thread.
unsafe impl Send for EventRing {}

impl EventRing {
    /// Offsets of `data_head` and `data_tail` in struct `perf_event_mmap_page`.
    const HEAD: usize = 1024;
    const TAIL: usize = 1032;

    fn map(event: &OwnedFd) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = page * (1 + RING_PAGES);
        // SAFETY: a new shared mapping of the event's own buffer at an address chosen by the kernel.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, page, record: Vec::new() })
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the counter page is mapped as long as `self` lives, the offsets are multiples of eight, and kernel
        // and reader access these words as atomics.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    fn word(&self, at: u64) -> u64 {
        let size = (self.page * RING_PAGES) as u64;
        // SAFETY: records are aligned to eight bytes and the size of the ring is a multiple of that, so a word is
        // inside it; the kernel does not write between tail and head, where the caller reads.
        unsafe { ptr::read_volatile(self.start.as_ptr().add(self.page + (at % size) as usize).cast()) }
    }

    fn drain(&mut self, mut each: impl FnMut(&[u64])) {
        let head = self.counter(Self::HEAD).load(Ordering::Acquire);
        let mut tail = self.counter(Self::TAIL).load(Ordering::Relaxed);
        let mut record = std::mem::take(&mut self.record);
        while tail < head {
            let words = (self.word(tail) >> 48) / 8;
            if words == 0 {
                break;
            }
            record.clear();
            record.extend((0..words).map(|word| self.word(tail + word * 8)));
            each(&record);
            tail += words * 8;
        }
        self.record = record;
        self.counter(Self::TAIL).store(tail, Ordering::Release);
    }
}

impl Drop for EventRing {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which no references remain.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page * (1 + RING_PAGES)) };
    }
}
