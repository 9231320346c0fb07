//! Whether this machine has what `nearfar expand` needs: asked of the kernel by calls that change nothing. Must not judge:
//! that is `model::analysis::doctor`.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

use model::analysis::doctor::ExpandProbes;

use crate::perf::{self, PerfEvent};
use crate::swap::LARGE_FOLIOS;
use crate::{cgroup, sysfs};

const DAC_OVERRIDE: (u32, &str) = (1, "CAP_DAC_OVERRIDE");
const SYS_ADMIN: (u32, &str) = (21, "CAP_SYS_ADMIN");
const SYS_NICE: u32 = 23;
/// `ioctl(2)` on a process's pagemap, which tells what is near and what is far: linux/fs.h of 6.7.
pub const PAGEMAP_SCAN: libc::c_ulong = 0xC060_6610;
/// `perf_event_open(2)`: page faults that wait, sampled with address and thread, inherited, off.
const TID_AND_ADDRESS: u64 = 1 << 1 | 1 << 3;
const DISABLED_AND_INHERITED: u64 = 1 | 1 << 1;

/// Looks at this machine, or at a recorded one as far as that tells.
pub fn read(root: &Path) -> ExpandProbes {
    let is_root = rustix::process::geteuid().is_root();
    let capabilities = capabilities(root);
    let has = |bit: u32| capabilities >> bit & 1 == 1;
    // What belongs to root, root may write without it.
    let needed = if is_root { &[SYS_ADMIN][..] } else { &[SYS_ADMIN, DAC_OVERRIDE] };
    ExpandProbes {
        root: is_root,
        lacking: needed.iter().filter(|(bit, _)| !has(*bit)).map(|(_, name)| *name).collect(),
        group: cgroup::is_supported(root),
        loops: OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
            .map(drop)
            .map_err(|error| said(&error)),
        swap: swap(),
        faults: faults(),
        advice: advice(has(SYS_NICE)),
        scan: scan(),
        folios: root.join(LARGE_FOLIOS).exists(),
    }
}

fn said(error: &io::Error) -> String {
    error.to_string()
}

fn capabilities(root: &Path) -> u64 {
    let status = sysfs::read_text(root, "proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Turns no file off: who may is told that there is none, and who may not, that.
fn swap() -> Result<(), String> {
    // SAFETY: the path is an empty string that ends with a zero byte.
    if unsafe { libc::swapoff(c"".as_ptr()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        error => Err(said(&error)),
    }
}

fn faults() -> Result<(), String> {
    let event = PerfEvent {
        kind: perf::TYPE_SOFTWARE,
        config: perf::PAGE_FAULTS_MAJOR,
        sample_period: 1,
        sample_type: TID_AND_ADDRESS,
        flags: DISABLED_AND_INHERITED,
        ..PerfEvent::default()
    };
    match perf::open(&event, Some(0)) {
        Ok(_) => Ok(()),
        // Cpu 0 is offline, which is no refusal.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        Err(error) => Err(said(&error)),
    }
}

/// Asked of no process: a kernel that has the call says that there is none.
fn advice(nice: bool) -> Result<(), String> {
    // SAFETY: a descriptor that is none, and no ranges.
    unsafe { libc::syscall(libc::SYS_process_madvise, -1, ptr::null::<libc::iovec>(), 0, libc::MADV_WILLNEED, 0_u32) };
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Err(said(&error)),
        _ if nice => Ok(()),
        _ => Err("CAP_SYS_NICE is lacking".into()),
    }
}

/// Asked without an argument: a kernel that knows the request cannot read it.
fn scan() -> bool {
    let Ok(pagemap) = OpenOptions::new().read(true).open("/proc/self/pagemap") else { return false };
    // SAFETY: the kernel checks the null pointer, and finds that it can read nothing there.
    unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, ptr::null::<u8>()) };
    io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn a_recorded_machine_says_what_it_has() {
        let bare = tree(&[("proc/self/status", "Name:\tx\nCapEff:\t0000000000000002\n")]);
        let signs = read(bare.path());
        assert!(signs.lacking.contains(&"CAP_SYS_ADMIN") && !signs.lacking.contains(&"CAP_DAC_OVERRIDE"), "{signs:?}");
        assert!(!signs.folios && signs.group.is_err() && signs.advice.is_err(), "{signs:?}");
        let full = tree(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
            ("proc/self/cgroup", "4:memory:/\n"),
            ("proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
            ("sys/fs/cgroup/memory/cgroup.procs", ""),
            (LARGE_FOLIOS, "always [inherit] madvise never\n"),
        ]);
        let signs = read(full.path());
        assert!(signs.lacking.is_empty() && signs.folios && signs.group.is_ok(), "{signs:?}");
    }

    /// What root finds on a machine of its own, expand finds too: its own tests say whether that is true.
    #[test]
    fn asking_changes_nothing() {
        let swaps = || std::fs::read_to_string("/proc/swaps").ok();
        let (before, first) = (swaps(), read(Path::new("/")));
        assert_eq!(read(Path::new("/")), first);
        assert_eq!(swaps(), before);
    }
}
