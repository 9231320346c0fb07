//! Decides which files and devices may be written. Existing data is protected unless the user repeated its exact path.
//! Mounted devices, swap, parts of other devices and kernel interfaces are always protected.
#![allow(unsafe_code)]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::disk::{self, Disk};
use crate::job::Failure;

/// File systems whose files are kernel interfaces: writing to them changes the running kernel.
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

/// Checks whether `path`, which exists, may be overwritten if the user repeated the path `allowed`. Opens nothing.
pub(super) fn may_overwrite(path: &str, allowed: &str) -> Result<(), Failure> {
    if allowed != path {
        let repeated = if allowed.is_empty() { String::new() } else { format!(" (--allow-overwrite names {allowed})") };
        return Err(Failure::Failed(format!(
            "cannot write to {path}: it exists and would be overwritten{repeated}; hint: --allow-overwrite {path}, if \
             its content is not needed"
        )));
    }
    let metadata = fs::metadata(path).map_err(|error| Failure::Failed(format!("cannot check {path}: {error}")))?;
    let used = in_use(Path::new("/"), &metadata)
        .unwrap_or_else(|reason| Some(format!("cannot determine whether it is in use: {reason}")));
    used.map_or(Ok(()), |used| Err(refused(path, &used)))
}

/// Checks the opened file again, because the path may refer to another file by then.
pub(super) fn check_opened(path: &str, file: &File) -> Result<(), Failure> {
    let metadata = file.metadata().map_err(|error| Failure::Failed(format!("cannot check {path}: {error}")))?;
    let used = in_use(Path::new("/"), &metadata)
        .unwrap_or_else(|reason| Some(format!("cannot determine whether it is in use: {reason}")));
    let switch = kernel_file_system(file).map(|name| format!("it is a file of the kernel's {name}"));
    used.or(switch).map_or(Ok(()), |used| Err(refused(path, &used)))
}

/// Converts an error of opening for writing. EBUSY means that the device is in use, possibly in another container.
pub(super) fn busy(path: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ResourceBusy => refused(path, "the kernel reports that it is in use"),
        _ => Failure::Failed(format!("cannot write {path}: {error}")),
    }
}

fn refused(path: &str, used: &str) -> Failure {
    Failure::Failed(format!("refusing to write to {path}: {used}"))
}

/// Returns how a file or a block device is used; `None` if no use is known.
fn in_use(root: &Path, metadata: &Metadata) -> Result<Option<String>, String> {
    if metadata.file_type().is_block_device() {
        let used = Disk::find(root, &disk::number(metadata.rdev()))?.used(root)?;
        if used.is_some() {
            return Ok(used);
        }
    } else if !metadata.is_file() {
        return Ok(Some("it is neither a file nor a disk".into()));
    }
    if let Some(device) = disk::loop_device_of(root, metadata) {
        return Ok(Some(format!("{device} is backed by it")));
    }
    Ok(disk::is_swap(root, metadata)?.then(|| "it is used as swap".into()))
}

fn kernel_file_system(file: &File) -> Option<&'static str> {
    // SAFETY: all zeros is a valid statfs, which the call fills in.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the struct is local.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut about) } != 0 {
        return Some("unknown file system");
    }
    KERNEL_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == about.f_type as i64).map(|(_, name)| *name)
}

/// Checks whether a file may be created at `path`. A missing name in /dev means a missing disk.
pub(super) fn may_create(path: &str) -> Result<(), Failure> {
    let real = Path::new(path).parent().and_then(|dir| fs::canonicalize(dir).ok()).unwrap_or_default();
    let devices = ["/dev", "/proc", "/sys"].iter().any(|dir| real.starts_with(dir));
    if devices && !real.starts_with("/dev/shm") {
        return Err(Failure::Failed(format!(
            "cannot create {path}: not a place for files; hint: lsblk lists the disks"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<(), Failure>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn overwriting_requires_the_exact_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert!(message(may_overwrite(path, "")).contains(&format!("hint: --allow-overwrite {path}")));
        for other in [format!("/{path}"), path[1..].to_string(), format!("{path}x"), "true".into()] {
            assert!(message(may_overwrite(path, &other)).contains("would be overwritten"), "{other}");
        }
        assert_eq!(may_overwrite(path, path), Ok(()));
        assert_eq!(check_opened(path, file.as_file()), Ok(()));
    }

    #[test]
    fn kernel_interfaces_are_always_protected() {
        for path in ["/dev/null", "/tmp"] {
            assert!(message(may_overwrite(path, path)).contains("neither a file nor a disk"));
        }
        // Only checked: it is opened for reading.
        let switch = "/proc/self/oom_score_adj";
        assert!(message(check_opened(switch, &File::open(switch).unwrap())).contains("procfs"));
    }

    #[test]
    fn mounted_disk_is_protected_despite_allow_overwrite() {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut sources = mounts.lines().filter_map(|line| line.split(" - ").nth(1)?.split(' ').nth(1));
        let is_disk = |source: &&str| fs::metadata(source).is_ok_and(|metadata| metadata.file_type().is_block_device());
        let Some(disk) = sources.find(is_disk) else { return println!("skipped: no disk is mounted here") };
        let refusal = message(may_overwrite(disk, disk));
        assert!(refusal.contains("refusing to write to") && refusal.contains("mounted on"), "{refusal}");
    }

    #[test]
    fn missing_disk_is_not_created() {
        assert!(message(may_create("/dev/sdzz")).contains("lsblk"));
        assert!(message(may_create("/dev/../proc/x")).contains("cannot create"));
        assert_eq!(may_create("/dev/shm/x"), Ok(()));
        assert_eq!(may_create("/tmp/x"), Ok(()));
    }

    #[test]
    fn busy_device_returns_an_error() {
        let busy = busy("/dev/x", &io::Error::from_raw_os_error(libc::EBUSY)).to_string();
        assert!(busy.contains("refusing to write to /dev/x"), "{busy}");
    }
}
