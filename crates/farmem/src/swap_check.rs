//! Checks where swap may be: not on a network file system, where writing out memory needs memory, and not on an
//! unencrypted disk if other swap is encrypted. `array` checks that it is on a disk.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use machine::swap;

use crate::Unavailable;
use crate::array::FileSystem;

/// Checks that swap may be in a directory.
pub(crate) fn check(dir: &Path) -> Result<(), Unavailable> {
    let name = dir.display();
    let kind = File::open(dir).and_then(|dir| FileSystem::of(&dir)).map_err(|error| {
        Unavailable::io(format!("cannot use {name} for far memory"), &error)
            .with_hint("use --far-path with a directory on a disk")
    })?;
    if !kind.is_over_a_network() {
        return Ok(());
    }
    let network = kind.to_string().to_uppercase();
    Err(Unavailable::new(format!(
        "{name} is on {network}, where writing out memory needs memory, so the machine could deadlock"
    ))
    .with_hint("use --far-path with a directory on a local disk"))
}

/// Returns true if this machine swaps to encrypted disks only while the directory's disk is not encrypted, so that
/// memory contents could be read from that disk later.
pub(crate) fn would_leave_encryption(root: &Path, dir: &Path) -> bool {
    let areas = swap::areas(root).unwrap_or_default();
    let is_encrypted = |block: String| {
        let uuid = fs::read_to_string(root.join(format!("sys/{block}/dm/uuid"))).unwrap_or_default();
        uuid.starts_with("CRYPT-")
    };
    let names = areas.iter().map(|area| area.path.file_name().unwrap_or_default().to_string_lossy());
    if areas.is_empty() || !names.into_iter().all(|name| is_encrypted(format!("block/{name}"))) {
        return false;
    }
    let Ok(facts) = fs::metadata(dir) else { return false };
    let (major, minor) = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()));
    !is_encrypted(format!("dev/block/{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directory_is_reported() {
        assert!(check(Path::new("/nowhere")).unwrap_err().to_string().contains("cannot use /nowhere"));
        assert_eq!(check(Path::new("/")), Ok(()));
    }

    #[test]
    fn encrypted_swap_rejects_an_unencrypted_disk() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let violates = || would_leave_encryption(root.path(), root.path());
        write("proc/swaps", "Filename Type Size Used Priority\n");
        assert!(!violates(), "without swap there is no policy");
        write("proc/swaps", "Filename Type Size Used Priority\n/dev/dm-1 partition 1 0 -2\n");
        assert!(!violates(), "an ordinary logical volume");
        write("sys/block/dm-1/dm/uuid", "CRYPT-LUKS2-77\n");
        assert!(violates());
        let dev = fs::metadata(root.path()).unwrap().dev();
        let block = format!("sys/dev/block/{}:{}/dm/uuid", rustix::fs::major(dev), rustix::fs::minor(dev));
        write(&block, "CRYPT-LUKS2-78\n");
        assert!(!violates(), "the directory's disk is encrypted, too");
    }
}
