//! What may be written to. Nothing that was there before, unless its exact path was repeated; and never what is mounted,
//! swap, part of another device, or a window into the kernel, whatever was said.
#![allow(unsafe_code)]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::disk::{self, Disk};
use crate::job::Failure;

/// File systems whose files are no storage but switches: writing to them changes the running kernel.
const KERNEL_FILE_SYSTEMS: [(i64, &str); 10] = [
    (0x9fa0, "procfs"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6265_6570, "configfs"),
    (0x7363_6673, "securityfs"),
    (0xde5e_81e4, "efivarfs"),
    (0xcafe_4a11, "bpf"),
];

/// Whether `path`, which exists, may be written to when `allowed` is the path that was repeated. Looks and opens nothing.
pub(super) fn may_overwrite(path: &str, allowed: &str) -> Result<(), Failure> {
    if allowed != path {
        let repeated = if allowed.is_empty() { String::new() } else { format!(" (--allow-overwrite says {allowed})") };
        return Err(Failure::Failed(format!(
            "{path} was there before and would be overwritten{repeated}; \
             hint: --allow-overwrite {path}, if nothing in it is needed"
        )));
    }
    let found = fs::metadata(path).map_err(|error| Failure::Failed(format!("cannot look at {path}: {error}")))?;
    let used = in_use(Path::new("/"), &found).unwrap_or_else(|why| Some(format!("nothing is known of its use: {why}")));
    used.map_or(Ok(()), |used| Err(refused(path, &used)))
}

/// The same once more of what was opened, which the path may have been exchanged for meanwhile.
pub(super) fn opened(path: &str, file: &File) -> Result<(), Failure> {
    let found = file.metadata().map_err(|error| Failure::Failed(format!("cannot look at {path}: {error}")))?;
    let used = in_use(Path::new("/"), &found).unwrap_or_else(|why| Some(format!("nothing is known of its use: {why}")));
    let switch = kernel_file_system(file).map(|name| format!("it is a file of the kernel's {name}"));
    used.or(switch).map_or(Ok(()), |used| Err(refused(path, &used)))
}

/// A device that the kernel gives to nobody else is in use, whoever uses it and in whichever container.
pub(super) fn busy(path: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ResourceBusy => refused(path, "the kernel says that it is in use"),
        _ => Failure::Failed(format!("cannot write {path}: {error}")),
    }
}

fn refused(path: &str, used: &str) -> Failure {
    Failure::Failed(format!("{path} is never written to: {used}"))
}

/// Who uses a file or a block device; none when nobody is known to.
fn in_use(root: &Path, found: &Metadata) -> Result<Option<String>, String> {
    if found.file_type().is_block_device() {
        let used = Disk::find(root, &disk::number(found.rdev()))?.used(root)?;
        if used.is_some() {
            return Ok(used);
        }
    } else if !found.is_file() {
        return Ok(Some("it is neither a file nor a disk".into()));
    }
    if let Some(device) = disk::loop_on(root, found) {
        return Ok(Some(format!("{device} lies on it")));
    }
    Ok(disk::is_swap(root, found)?.then(|| "it is used as swap".into()))
}

fn kernel_file_system(file: &File) -> Option<&'static str> {
    // SAFETY: all zeros is a valid statfs, which the call alone fills in.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the struct is ours.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut about) } != 0 {
        return Some("unknown file system");
    }
    KERNEL_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == about.f_type as i64).map(|(_, name)| *name)
}

/// Whether a file may be made there: in /dev a name that is missing is a disk that is missing.
pub(super) fn may_create(path: &str) -> Result<(), Failure> {
    let real = Path::new(path).parent().and_then(|folder| fs::canonicalize(folder).ok()).unwrap_or_default();
    let devices = ["/dev", "/proc", "/sys"].iter().any(|folder| real.starts_with(folder));
    if devices && !real.starts_with("/dev/shm") {
        return Err(Failure::Failed(format!("there is no {path}; hint: lsblk shows the disks")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(result: Result<(), Failure>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn the_exact_path_has_to_be_repeated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert!(why(may_overwrite(path, "")).contains(&format!("hint: --allow-overwrite {path}")));
        for other in [format!("/{path}"), path[1..].to_string(), format!("{path}x"), "true".into()] {
            assert!(why(may_overwrite(path, &other)).contains("would be overwritten"), "{other}");
        }
        assert_eq!(may_overwrite(path, path), Ok(()));
        assert_eq!(opened(path, file.as_file()), Ok(()));
    }

    #[test]
    fn what_is_no_storage_is_refused_whatever_is_said() {
        for path in ["/dev/null", "/tmp"] {
            assert!(why(may_overwrite(path, path)).contains("neither a file nor a disk"));
        }
        // Looked at only: it is opened for reading.
        let switch = "/proc/self/oom_score_adj";
        assert!(why(opened(switch, &File::open(switch).unwrap())).contains("procfs"));
    }

    #[test]
    fn a_mounted_disk_is_refused_although_its_path_is_repeated() {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut sources = mounts.lines().filter_map(|line| line.split(" - ").nth(1)?.split(' ').nth(1));
        let is_disk = |source: &&str| fs::metadata(source).is_ok_and(|found| found.file_type().is_block_device());
        let Some(disk) = sources.find(is_disk) else { return println!("skipped: no disk is mounted here") };
        let refusal = why(may_overwrite(disk, disk));
        assert!(refusal.contains("is never written to") && refusal.contains("mounted on"), "{refusal}");
    }

    #[test]
    fn a_missing_disk_is_not_made() {
        assert!(why(may_create("/dev/sdzz")).contains("lsblk"));
        assert!(why(may_create("/dev/../proc/x")).contains("there is no"));
        assert_eq!(may_create("/dev/shm/x"), Ok(()));
        assert_eq!(may_create("/tmp/x"), Ok(()));
    }

    #[test]
    fn a_busy_device_is_named() {
        let busy = busy("/dev/x", &io::Error::from_raw_os_error(libc::EBUSY)).to_string();
        assert!(busy.contains("/dev/x is never written to"), "{busy}");
    }
}
