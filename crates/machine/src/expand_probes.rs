//! Checks the kernel features and capabilities that `nearfar expand` requires, by calls without side effects. Must not
//! assess the results: `model::analysis::doctor` does.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::ptr;

use model::analysis::doctor::ExpandProbes;

use crate::perf::{self, PerfEvent};
use crate::swap::{LARGE_FOLIOS, ZSWAP};
use crate::{cgroup, pagemap_scan, sysfs, zram};

const DAC_OVERRIDE: (u32, &str) = (1, "CAP_DAC_OVERRIDE");
const SYS_ADMIN: (u32, &str) = (21, "CAP_SYS_ADMIN");
const SYS_NICE: u32 = 23;
/// `perf_event_open(2)`: `PERF_SAMPLE_TID` and `PERF_SAMPLE_ADDR`, and the flags `disabled` and `inherit`.
const TID_AND_ADDRESS: u64 = 1 << 1 | 1 << 3;
const DISABLED_AND_INHERITED: u64 = 1 | 1 << 1;

/// Probes this machine. Under another `root`, only the facts that are read from files are of that machine.
pub fn read(root: &Path) -> ExpandProbes {
    let is_root = rustix::process::geteuid().is_root();
    let capabilities = capabilities(root);
    let has = |bit: u32| capabilities >> bit & 1 == 1;
    // Root owns the files, so it needs no CAP_DAC_OVERRIDE to write them.
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
            .map_err(|error| error.to_string()),
        swap: swap(),
        faults: faults(),
        advice: advice(has(SYS_NICE)),
        scan: scan(),
        folios: root.join(LARGE_FOLIOS).exists(),
        compressed: compressor(root).map(drop),
        counted: counted(root),
    }
}

fn capabilities(root: &Path) -> u64 {
    let status = sysfs::read_text(root, "proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Calls `swapoff(2)` with an empty path: ENOENT means that this process may change swap.
fn swap() -> Result<(), String> {
    // SAFETY: the path is an empty string that ends with a zero byte.
    if unsafe { libc::swapoff(c"".as_ptr()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        error => Err(error.to_string()),
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
        // CPU 0 is offline; permission was not denied.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Calls `process_madvise(2)` with an invalid descriptor: only ENOSYS and EPERM mean that the call cannot be used.
fn advice(nice: bool) -> Result<(), String> {
    // SAFETY: the descriptor is invalid and there are no ranges, so no memory is accessed.
    unsafe { libc::syscall(libc::SYS_process_madvise, -1, ptr::null::<libc::iovec>(), 0, libc::MADV_WILLNEED, 0_u32) };
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Err(error.to_string()),
        _ if nice => Ok(()),
        _ => Err("CAP_SYS_NICE is lacking".into()),
    }
}

/// Whether the kernel reports which pages are near and which are far.
fn scan() -> bool {
    File::open("/proc/self/pagemap").is_ok_and(|pagemap| pagemap_scan::is_supported(&pagemap))
}

/// A part of the kernel that keeps evicted pages compressed in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// Cgroup version 2 counts its pages.
    Zswap,
    /// Its pages count towards no limit, so that the limit has to be lowered by them.
    Zram,
}

/// Returns the part of the kernel that can keep evicted pages compressed, or the reason why there is none.
///
/// # Errors
/// If the kernel has neither.
pub fn compressor(root: &Path) -> Result<Compressor, String> {
    let reason = match cgroup::site(root)? {
        (cgroup::Version::V1, _) => "cgroup version 1 does not count pages in zswap",
        _ if !root.join(ZSWAP).exists() => "the kernel was built without zswap",
        _ => return Ok(Compressor::Zswap),
    };
    zram::is_supported(root).map(|()| Compressor::Zram).map_err(|why| format!("{reason}, and {why}"))
}

/// Whether evicted pages of limited programs stay in DRAM only if a limit counts them.
fn counted(root: &Path) -> Result<(), String> {
    let is_on = sysfs::read_text(root, ZSWAP).is_ok_and(|text| text.trim() == "Y");
    match cgroup::site(root) {
        Ok((cgroup::Version::V1, _)) if is_on => {
            Err("zswap is on, and cgroup version 1 does not count the pages that it keeps in DRAM".into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn recorded_machine_is_probed() {
        let bare = tree(&[("proc/self/status", "Name:\tx\nCapEff:\t0000000000000002\n")]);
        let probes = read(bare.path());
        assert!(
            probes.lacking.contains(&"CAP_SYS_ADMIN") && !probes.lacking.contains(&"CAP_DAC_OVERRIDE"),
            "{probes:?}"
        );
        assert!(!probes.folios && probes.group.is_err() && probes.advice.is_err(), "{probes:?}");
        let full = tree(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
            ("proc/self/cgroup", "4:memory:/\n"),
            ("proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
            ("sys/fs/cgroup/memory/cgroup.procs", ""),
            (LARGE_FOLIOS, "always [inherit] madvise never\n"),
        ]);
        let probes = read(full.path());
        assert!(probes.lacking.is_empty() && probes.folios && probes.group.is_ok(), "{probes:?}");
    }

    #[test]
    fn compressed_pages_need_zswap_that_counts_or_zram() {
        let one = [
            ("proc/self/cgroup", "4:memory:/\n"),
            ("proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
            (ZSWAP, "Y\n"),
        ];
        let probes = read(tree(&one).path());
        assert!(probes.counted.unwrap_err().contains("zswap is on"));
        let reason = probes.compressed.unwrap_err();
        assert!(reason.contains("version 1 does not count") && reason.contains("no zram"), "{reason}");
        let with_zram = |files: &[(&str, &str)]| tree(&[files, &[("sys/class/zram-control/hot_remove", "")]].concat());
        assert_eq!(compressor(with_zram(&one).path()), Ok(Compressor::Zram));
        let two = [
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            (ZSWAP, "Y\n"),
        ];
        let probes = read(tree(&two).path());
        assert!(probes.counted.is_ok() && probes.compressed.is_ok());
        assert_eq!(compressor(with_zram(&two).path()), Ok(Compressor::Zswap));
        let probes = read(tree(&two[..3]).path());
        assert!(probes.compressed.unwrap_err().contains("without zswap"));
        assert_eq!(compressor(with_zram(&two[..3]).path()), Ok(Compressor::Zram));
    }

    /// The tests of `expand` check that the results are correct.
    #[test]
    fn probes_change_nothing() {
        let swaps = || std::fs::read_to_string("/proc/swaps").ok();
        let (before, first) = (swaps(), read(Path::new("/")));
        assert_eq!(read(Path::new("/")), first);
        assert_eq!(swaps(), before);
    }
}
