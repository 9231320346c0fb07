//! Reads sysfs and procfs: the partitions of a block device, its users and its queue settings. Read-only.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A disk or a partition, with the devices that share its sectors: the partitions of a disk, or the disk of a
/// partition.
pub(super) struct Disk {
    /// The requested device is the first.
    parts: Vec<Partition>,
}

struct Partition {
    /// For example `sda1`.
    name: String,
    /// For example `8:1`.
    number: String,
    dir: PathBuf,
}

/// Formats the device number as sysfs does.
pub(super) fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

impl Disk {
    /// Finds the device with this number. `root` contains `sys` and `proc`.
    pub(super) fn find(root: &Path, number: &str) -> Result<Self, String> {
        let link = root.join("sys/dev/block").join(number);
        let dir = fs::canonicalize(&link).map_err(|error| format!("{}: {error}", link.display()))?;
        let first = Partition::read(dir.clone()).ok_or_else(|| format!("{} has no number", dir.display()))?;
        let others = if dir.join("partition").exists() {
            dir.parent().and_then(|whole| Partition::read(whole.into())).into_iter().collect()
        } else {
            let inside = fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            let partitions = inside.flatten().map(|entry| entry.path()).filter(|path| path.join("partition").exists());
            partitions.filter_map(Partition::read).collect::<Vec<_>>()
        };
        Ok(Self { parts: std::iter::once(first).chain(others).collect() })
    }

    /// Returns how the device is used, as the end of a sentence; `None` if no use is known.
    pub(super) fn used(&self, root: &Path) -> Result<Option<String>, String> {
        let mounts = read(root, "proc/self/mountinfo")?;
        let swaps = read(root, "proc/swaps")?;
        for (index, part) in self.parts.iter().enumerate() {
            let device = if index == 0 { "it".into() } else { format!("its {}", part.name) };
            if let Some(mount_point) = part.mounted(root, &mounts) {
                return Ok(Some(format!("{device} is mounted on {mount_point}")));
            }
            if let Some(holder) = part.holder() {
                return Ok(Some(format!("{device} is part of {holder}")));
            }
            if swap_files(&swaps).any(|file| kernel_name(root, &file).as_deref() == Some(&*part.name)) {
                return Ok(Some(format!("{device} is used as swap")));
            }
        }
        Ok(None)
    }

    /// Returns whether a hypervisor provides the disk, detected by its bus: virtio, Xen or Hyper-V. Emulated and
    /// passed-through disks look like physical ones.
    pub(super) fn is_virtual(&self) -> bool {
        const BUSES: [&str; 3] = ["virtio", "vbd-", "vmbus"];
        let names = |part: &Partition| -> Vec<String> {
            part.dir.iter().map(|name| name.to_string_lossy().to_ascii_lowercase()).collect()
        };
        let is_virtual = |name: &String| BUSES.iter().any(|bus| name.starts_with(bus));
        self.parts.first().is_some_and(|part| names(part).iter().any(is_virtual))
    }

    /// Reads a queue attribute; partitions share the queue of their disk.
    pub(super) fn queue(&self, name: &str) -> Option<u64> {
        let dir = self.parts.iter().map(|part| part.dir.join("queue")).find(|dir| dir.exists())?;
        fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
    }
}

impl Partition {
    fn read(dir: PathBuf) -> Option<Self> {
        let number = fs::read_to_string(dir.join("dev")).ok()?.trim().to_string();
        let name = dir.file_name()?.to_str()?.to_string();
        Some(Self { name, number, dir })
    }

    /// Returns the mount point. Matches the device number, or the name, because some file systems have their own device
    /// numbers.
    fn mounted(&self, root: &Path, mounts: &str) -> Option<String> {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (number, mount_point) = (words.nth(2)?, words.nth(1)?);
            let source = words.skip_while(|word| *word != "-").nth(2).map(unescape).unwrap_or_default();
            let same = number == self.number || kernel_name(root, &source).as_deref() == Some(&*self.name);
            same.then(|| unescape(mount_point))
        })
    }

    /// Returns the device that is built on this one, for example by the device mapper or a RAID.
    fn holder(&self) -> Option<String> {
        let holders = fs::read_dir(self.dir.join("holders")).ok()?;
        holders.flatten().next().map(|holder| holder.file_name().to_string_lossy().into_owned())
    }
}

/// Returns the name of the loop device that is backed by this file. Files match by device and inode, block devices by
/// their number.
pub(super) fn loop_device_of(root: &Path, file: &fs::Metadata) -> Option<String> {
    let devices = fs::read_dir(root.join("sys/block")).ok()?;
    devices.flatten().find_map(|device| {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let backing = fs::metadata(inside(root, backing.trim_end_matches('\n'))).ok()?;
        same(&backing, file).then(|| device.file_name().to_string_lossy().into_owned())
    })
}

/// Returns whether this file is used as swap.
pub(super) fn is_swap(root: &Path, file: &fs::Metadata) -> Result<bool, String> {
    let swaps = read(root, "proc/swaps")?;
    Ok(swap_files(&swaps).any(|path| fs::metadata(inside(root, &path)).is_ok_and(|swap| same(&swap, file))))
}

fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    if one.file_type().is_block_device() || other.file_type().is_block_device() {
        return one.file_type().is_block_device() && other.file_type().is_block_device() && one.rdev() == other.rdev();
    }
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The first column of /proc/swaps, without its heading.
fn swap_files(swaps: &str) -> impl Iterator<Item = String> {
    swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescape)
}

/// Kernel name of a path in /dev, for example dm-0 for /dev/mapper/x.
fn kernel_name(root: &Path, path: &str) -> Option<String> {
    let real = fs::canonicalize(inside(root, path)).ok()?;
    Some(real.file_name()?.to_str()?.to_string())
}

/// Resolves an absolute path from the kernel below another root.
fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    let path = root.join(path);
    fs::read(&path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Decodes octal escapes such as \040, which the kernel writes for spaces and other special characters.
fn unescape(word: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten();
        let byte = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Creates a tree with the disk sda, its partitions sda1 and sda2, dm-0, and these mounts and swaps.
    fn tree(mounts: &str, swaps: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        for (dir, number) in
            [("block/sda", "8:0"), ("block/sda/sda1", "8:1"), ("block/sda/sda2", "8:2"), ("block/dm-0", "253:0")]
        {
            write(&format!("sys/{dir}/dev"), &format!("{number}\n"));
            fs::create_dir_all(at(&format!("sys/{dir}/holders"))).unwrap();
            if dir.contains("/sda/") {
                write(&format!("sys/{dir}/partition"), "1\n");
            }
            fs::create_dir_all(at("sys/dev/block")).unwrap();
            symlink(format!("../../{dir}"), at(&format!("sys/dev/block/{number}"))).unwrap();
            write(&format!("dev/{}", dir.rsplit('/').next().unwrap()), "");
        }
        write("sys/block/sda/queue/logical_block_size", "4096\n");
        fs::create_dir_all(at("dev/mapper")).unwrap();
        symlink("../dm-0", at("dev/mapper/vg-data")).unwrap();
        write("proc/self/mountinfo", mounts);
        write("proc/swaps", &format!("Filename\tType\tSize\tUsed\tPriority\n{swaps}"));
        root
    }

    fn used(root: &tempfile::TempDir, number: &str) -> Option<String> {
        Disk::find(root.path(), number).unwrap().used(root.path()).unwrap()
    }

    const ROOT_ON_NOTHING: &str = "22 1 0:20 / /proc rw - proc proc rw\n";

    #[test]
    fn unused_disk_has_no_use() {
        let root = tree(ROOT_ON_NOTHING, "");
        assert_eq!((used(&root, "8:0"), used(&root, "8:1"), used(&root, "253:0")), (None, None, None));
        assert!(Disk::find(root.path(), "9:9").is_err());
        let queue = |number: &str| Disk::find(root.path(), number).unwrap().queue("logical_block_size");
        assert_eq!((queue("8:0"), queue("8:2"), queue("253:0")), (Some(4096), Some(4096), None));
    }

    #[test]
    fn disk_on_a_hypervisor_bus_is_virtual() {
        for (dir, is_virtual) in [
            ("devices/pci0000:00/0000:00:04.0/virtio1/block/vda", true),
            ("devices/vbd-51712/block/xvda", true),
            ("devices/LNXSYSTM:00/VMBUS:00/f8b3781a/host0/target0:0:0/block/sda", true),
            ("devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/block/sda", false),
        ] {
            let root = tempfile::tempdir().unwrap();
            let mount_point = root.path().join("sys").join(dir);
            fs::create_dir_all(&mount_point).unwrap();
            fs::write(mount_point.join("dev"), "8:0\n").unwrap();
            fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
            symlink(&mount_point, root.path().join("sys/dev/block/8:0")).unwrap();
            assert_eq!(Disk::find(root.path(), "8:0").unwrap().is_virtual(), is_virtual, "{dir}");
        }
    }

    #[test]
    fn mounted_partition_marks_its_disk_as_used() {
        let root = tree("25 1 8:1 / /mnt/my\\040disk rw,relatime shared:1 - ext4 /dev/sda1 rw\n", "");
        assert_eq!(used(&root, "8:1").unwrap(), "it is mounted on /mnt/my disk");
        assert_eq!(used(&root, "8:0").unwrap(), "its sda1 is mounted on /mnt/my disk");
        assert_eq!(used(&root, "8:2"), None);
        // The source of a mount by the kernel itself is not a path to the device.
        let root = tree("25 1 8:2 / / rw - ext4 /dev/root rw\n", "");
        assert_eq!(used(&root, "8:2").unwrap(), "it is mounted on /");
        let whole = tree("25 1 8:0 / /data rw - ext4 /dev/sda rw\n", "");
        assert_eq!(used(&whole, "8:2").unwrap(), "its sda is mounted on /data");
    }

    #[test]
    fn mounts_with_other_device_numbers_match_by_name() {
        let btrfs = tree("25 1 0:31 / /home rw - btrfs /dev/sda2 rw\n", "");
        assert_eq!(used(&btrfs, "8:2").unwrap(), "it is mounted on /home");
        let mapped = tree("25 1 0:31 / /home rw shared:7 master:1 - btrfs /dev/mapper/vg-data rw\n", "");
        assert_eq!(used(&mapped, "253:0").unwrap(), "it is mounted on /home");
    }

    #[test]
    fn holders_and_swap_count_as_uses() {
        let root = tree(ROOT_ON_NOTHING, "/dev/sda2 partition 1000 0 -2\n");
        fs::create_dir(root.path().join("sys/block/sda/sda1/holders/md127")).unwrap();
        assert_eq!(used(&root, "8:1").unwrap(), "it is part of md127");
        assert_eq!(used(&root, "8:2").unwrap(), "it is used as swap");
        assert!(used(&root, "8:0").is_some());
    }

    #[test]
    fn loop_backing_files_and_swap_files_are_detected() {
        let root = tree(ROOT_ON_NOTHING, "/swap\\040file file 1000 0 -2\n");
        let at = |path: &str| root.path().join(path);
        for file in ["swap file", "image", "free"] {
            fs::write(at(file), "x").unwrap();
        }
        fs::create_dir_all(at("sys/block/loop3/loop")).unwrap();
        fs::write(at("sys/block/loop3/loop/backing_file"), "/image\n").unwrap();
        let of = |file: &str| fs::metadata(at(file)).unwrap();
        assert_eq!(is_swap(root.path(), &of("swap file")), Ok(true));
        assert_eq!(is_swap(root.path(), &of("free")), Ok(false));
        assert_eq!(loop_device_of(root.path(), &of("image")).as_deref(), Some("loop3"));
        assert_eq!(loop_device_of(root.path(), &of("free")), None);
    }

    #[test]
    fn root_of_this_machine_is_in_use() {
        let device = fs::metadata("/").unwrap().dev();
        match Disk::find(Path::new("/"), &number(device)) {
            Ok(disk) => {
                let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
                if !mounts.lines().any(|line| line.split_whitespace().nth(4) == Some("/")) {
                    println!("skipped: / is not a mount point, as in a chroot");
                    return;
                }
                let used = disk.used(Path::new("/")).unwrap();
                assert!(used.as_deref().is_some_and(|used| used.contains("mounted on")), "{used:?}");
            }
            Err(reason) => println!("skipped: / is not on a block device: {reason}"),
        }
    }
}
