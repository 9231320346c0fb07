//! Where far memory may be kept: a file without a name, on a disk, as large as asked for and readable by nobody else. Must
//! not know what it is used for.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use model::units::Bytes;

use crate::Refused;

/// statfs(2)'s numbers of file systems that are memory, or that need memory to write.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
const OVER_A_NETWORK: [(u64, &str); 4] =
    [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x6573_5546, "FUSE")];

/// A file for far memory in a folder, all of its blocks given to it. It goes when the last who has it open closes it.
pub fn create(folder: &Path, bytes: Bytes) -> Result<File, Refused> {
    check(folder)?;
    let name = folder.display();
    let file = open_unnamed(folder).map_err(|error| {
        Refused::io(format!("cannot make a file for far memory in {name}"), &error)
            .hint("--far-file names another folder, on a disk")
    })?;
    let space = rustix::fs::fstatvfs(&file).map(|space| Bytes(space.f_bavail * space.f_frsize)).unwrap_or_default();
    if space.0 < bytes.0 {
        return Err(Refused::unavailable(format!("{bytes} of far memory do not fit: {space} are free in {name}"))
            .hint("--far-size takes less, --far-file another disk"));
    }
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes.0).map_err(|error| {
        Refused::io(format!("cannot give {bytes} of {name} to far memory"), &error.into())
            .hint("--far-size takes less, --far-file another disk")
    })?;
    Ok(file)
}

/// Whether a folder is on a disk of this machine.
fn check(folder: &Path) -> Result<(), Refused> {
    let name = folder.display();
    let facts = rustix::fs::statfs(folder).map_err(|error| {
        Refused::io(format!("cannot use {name} for far memory"), &error.into())
            .hint("--far-file names a folder on a disk")
    })?;
    #[allow(clippy::unnecessary_cast)] // its type differs between machines
    let kind = facts.f_type as u64 & 0xffff_ffff;
    if IN_MEMORY.contains(&kind) {
        return Err(Refused::unavailable(format!("{name} is in memory itself (tmpfs)"))
            .hint("--far-file names a folder on a disk"));
    }
    if let Some((_, network)) = OVER_A_NETWORK.iter().find(|(number, _)| *number == kind) {
        return Err(Refused::unavailable(format!(
            "{name} is on {network}, where writing out memory needs memory: the machine could stand still"
        ))
        .hint("--far-file names a folder on a disk of this machine"));
    }
    Ok(())
}

/// 0600 and without a name from the first moment; where the file system cannot, its name goes at once.
fn open_unnamed(folder: &Path) -> io::Result<File> {
    let open = |flags: i32, path: &Path, new: bool| {
        OpenOptions::new().read(true).write(true).create_new(new).mode(0o600).custom_flags(flags).open(path)
    };
    match open(libc::O_TMPFILE, folder, false) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {
            let path = folder.join(format!(".nearfar-{}", std::process::id()));
            let file = open(libc::O_NOFOLLOW, &path, true)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        opened => opened,
    }
}

/// Whether this machine swaps to encrypted disks alone while the folder's disk is not encrypted: memory that was written
/// there could be read from the disk later.
pub fn would_leave_encryption(root: &Path, folder: &Path) -> bool {
    let swaps = fs::read_to_string(root.join("proc/swaps")).unwrap_or_default();
    let devices: Vec<&str> = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let is_encrypted = |block: String| {
        let uuid = fs::read_to_string(root.join(format!("sys/{block}/dm/uuid"))).unwrap_or_default();
        uuid.starts_with("CRYPT-")
    };
    let names = devices.iter().map(|device| device.rsplit('/').next().unwrap_or(device));
    if devices.is_empty() || !names.into_iter().all(|name| is_encrypted(format!("block/{name}"))) {
        return false;
    }
    let Ok(facts) = fs::metadata(folder) else { return false };
    let (major, minor) = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()));
    !is_encrypted(format!("dev/block/{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_private_nameless_and_whole() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = create(folder.path(), Bytes(1 << 20)).unwrap();
        let facts = file.metadata().unwrap();
        assert_eq!((facts.mode() & 0o777, facts.len(), facts.nlink()), (0o600, 1 << 20, 0));
        assert_eq!(facts.blocks() * 512, 1 << 20, "every block is given");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn places_that_cannot_be_far_are_refused() {
        let refused = |folder: &str, bytes: u64| create(Path::new(folder), Bytes(bytes)).unwrap_err().to_string();
        if rustix::fs::statfs("/dev/shm").is_ok_and(|facts| facts.f_type as u64 == IN_MEMORY[0]) {
            assert!(refused("/dev/shm", 1).contains("is in memory itself"));
        }
        assert!(refused("/nowhere", 1).contains("cannot use /nowhere"));
        assert!(refused("/var/tmp", 1 << 60).contains("do not fit"));
    }

    #[test]
    fn encrypted_swap_and_a_plain_disk_do_not_go_together() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let leaves = || would_leave_encryption(root.path(), root.path());
        write("proc/swaps", "Filename Type Size Used Priority\n");
        assert!(!leaves(), "no swap, no policy");
        write("proc/swaps", "Filename Type Size Used Priority\n/dev/dm-1 partition 1 0 -2\n");
        assert!(!leaves(), "an ordinary logical volume");
        write("sys/block/dm-1/dm/uuid", "CRYPT-LUKS2-77\n");
        assert!(leaves());
        let dev = fs::metadata(root.path()).unwrap().dev();
        let block = format!("sys/dev/block/{}:{}/dm/uuid", rustix::fs::major(dev), rustix::fs::minor(dev));
        write(&block, "CRYPT-LUKS2-78\n");
        assert!(!leaves(), "the folder's disk is encrypted too");
    }
}
