//! What sysfs and procfs know of a block device: its partitions, who uses it, what its queue can do. Only looks.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A disk or a partition, with what shares its sectors: of a disk its partitions, of a partition its disk.
pub(super) struct Disk {
    /// The one that was asked for is the first.
    parts: Vec<Partition>,
}

struct Partition {
    /// Such as `sda1`.
    name: String,
    /// Such as `8:1`.
    number: String,
    folder: PathBuf,
}

/// The numbers of a block device, as sysfs writes them.
pub(super) fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

impl Disk {
    /// The device with this number, or why nothing is known of it. `root` has `sys` and `proc`.
    pub(super) fn find(root: &Path, number: &str) -> Result<Self, String> {
        let link = root.join("sys/dev/block").join(number);
        let folder = fs::canonicalize(&link).map_err(|error| format!("{}: {error}", link.display()))?;
        let first = Partition::of(folder.clone()).ok_or_else(|| format!("{} has no number", folder.display()))?;
        let others = if folder.join("partition").exists() {
            folder.parent().and_then(|whole| Partition::of(whole.into())).into_iter().collect()
        } else {
            let inside = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            let partitions = inside.flatten().map(|entry| entry.path()).filter(|path| path.join("partition").exists());
            partitions.filter_map(Partition::of).collect::<Vec<_>>()
        };
        Ok(Self { parts: std::iter::once(first).chain(others).collect() })
    }

    /// What it is used for, in words that end a sentence; none when nothing is known to use it.
    pub(super) fn used(&self, root: &Path) -> Result<Option<String>, String> {
        let mounts = read(root, "proc/self/mountinfo")?;
        let swaps = read(root, "proc/swaps")?;
        for (index, part) in self.parts.iter().enumerate() {
            let who = if index == 0 { "it".into() } else { format!("its {}", part.name) };
            if let Some(place) = part.mounted(root, &mounts) {
                return Ok(Some(format!("{who} is mounted on {place}")));
            }
            if let Some(holder) = part.holder() {
                return Ok(Some(format!("{who} is part of {holder}")));
            }
            if swap_files(&swaps).any(|file| kernel_name(root, &file).as_deref() == Some(&*part.name)) {
                return Ok(Some(format!("{who} is used as swap")));
            }
        }
        Ok(None)
    }

    /// Whether a hypervisor offers it, by the bus on which it hangs: virtio, Xen's or Hyper-V's. An emulated or a lent disk looks
    /// like a real one.
    pub(super) fn is_virtual(&self) -> bool {
        const BUSES: [&str; 3] = ["virtio", "vbd-", "vmbus"];
        let names = |part: &Partition| -> Vec<String> {
            part.folder.iter().map(|name| name.to_string_lossy().to_ascii_lowercase()).collect()
        };
        let is_virtual = |name: &String| BUSES.iter().any(|bus| name.starts_with(bus));
        self.parts.first().is_some_and(|part| names(part).iter().any(is_virtual))
    }

    /// A line of the queue's folder: partitions share their disk's.
    pub(super) fn queue(&self, name: &str) -> Option<u64> {
        let folder = self.parts.iter().map(|part| part.folder.join("queue")).find(|folder| folder.exists())?;
        fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
    }
}

impl Partition {
    fn of(folder: PathBuf) -> Option<Self> {
        let number = fs::read_to_string(folder.join("dev")).ok()?.trim().to_string();
        let name = folder.file_name()?.to_str()?.to_string();
        Some(Self { name, number, folder })
    }

    /// Where it is mounted: by its number, or by its name, because some file systems have numbers of their own.
    fn mounted(&self, root: &Path, mounts: &str) -> Option<String> {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (number, place) = (words.nth(2)?, words.nth(1)?);
            let source = words.skip_while(|word| *word != "-").nth(2).map(unescape).unwrap_or_default();
            let same = number == self.number || kernel_name(root, &source).as_deref() == Some(&*self.name);
            same.then(|| unescape(place))
        })
    }

    /// The device mapper, a RAID or the like that is built on it.
    fn holder(&self) -> Option<String> {
        let holders = fs::read_dir(self.folder.join("holders")).ok()?;
        holders.flatten().next().map(|holder| holder.file_name().to_string_lossy().into_owned())
    }
}

/// Whether this file (device and inode, or the number of a block device) is what a loop device lies on: its name.
pub(super) fn loop_on(root: &Path, file: &fs::Metadata) -> Option<String> {
    let devices = fs::read_dir(root.join("sys/block")).ok()?;
    devices.flatten().find_map(|device| {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let backing = fs::metadata(inside(root, backing.trim_end_matches('\n'))).ok()?;
        same(&backing, file).then(|| device.file_name().to_string_lossy().into_owned())
    })
}

/// Whether this file is used as swap.
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

/// The first column of /proc/swaps, after its heading.
fn swap_files(swaps: &str) -> impl Iterator<Item = String> {
    swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescape)
}

/// What a path in /dev really is called: /dev/mapper/x is dm-0.
fn kernel_name(root: &Path, path: &str) -> Option<String> {
    let real = fs::canonicalize(inside(root, path)).ok()?;
    Some(real.file_name()?.to_str()?.to_string())
}

/// A path that the kernel wrote, under another root.
fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    let path = root.join(path);
    fs::read(&path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// The kernel writes blanks and the like in names as \040.
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

    /// A tree with the disk sda, its partitions sda1 and sda2, dm-0, and these mounts and swaps.
    fn tree(mounts: &str, swaps: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        for (folder, number) in
            [("block/sda", "8:0"), ("block/sda/sda1", "8:1"), ("block/sda/sda2", "8:2"), ("block/dm-0", "253:0")]
        {
            write(&format!("sys/{folder}/dev"), &format!("{number}\n"));
            fs::create_dir_all(at(&format!("sys/{folder}/holders"))).unwrap();
            if folder.contains("/sda/") {
                write(&format!("sys/{folder}/partition"), "1\n");
            }
            fs::create_dir_all(at("sys/dev/block")).unwrap();
            symlink(format!("../../{folder}"), at(&format!("sys/dev/block/{number}"))).unwrap();
            write(&format!("dev/{}", folder.rsplit('/').next().unwrap()), "");
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
    fn a_free_disk_is_free() {
        let root = tree(ROOT_ON_NOTHING, "");
        assert_eq!((used(&root, "8:0"), used(&root, "8:1"), used(&root, "253:0")), (None, None, None));
        assert!(Disk::find(root.path(), "9:9").is_err());
        let queue = |number: &str| Disk::find(root.path(), number).unwrap().queue("logical_block_size");
        assert_eq!((queue("8:0"), queue("8:2"), queue("253:0")), (Some(4096), Some(4096), None));
    }

    #[test]
    fn a_disk_on_a_hypervisors_bus_is_virtual() {
        for (folder, is_virtual) in [
            ("devices/pci0000:00/0000:00:04.0/virtio1/block/vda", true),
            ("devices/vbd-51712/block/xvda", true),
            ("devices/LNXSYSTM:00/VMBUS:00/f8b3781a/host0/target0:0:0/block/sda", true),
            ("devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/block/sda", false),
        ] {
            let root = tempfile::tempdir().unwrap();
            let place = root.path().join("sys").join(folder);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("dev"), "8:0\n").unwrap();
            fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
            symlink(&place, root.path().join("sys/dev/block/8:0")).unwrap();
            assert_eq!(Disk::find(root.path(), "8:0").unwrap().is_virtual(), is_virtual, "{folder}");
        }
    }

    #[test]
    fn what_is_mounted_is_used_and_so_is_its_whole_disk() {
        let root = tree("25 1 8:1 / /mnt/my\\040disk rw,relatime shared:1 - ext4 /dev/sda1 rw\n", "");
        assert_eq!(used(&root, "8:1").unwrap(), "it is mounted on /mnt/my disk");
        assert_eq!(used(&root, "8:0").unwrap(), "its sda1 is mounted on /mnt/my disk");
        assert_eq!(used(&root, "8:2"), None);
        // What the kernel itself mounts has a source that is no path to it.
        let root = tree("25 1 8:2 / / rw - ext4 /dev/root rw\n", "");
        assert_eq!(used(&root, "8:2").unwrap(), "it is mounted on /");
        let whole = tree("25 1 8:0 / /data rw - ext4 /dev/sda rw\n", "");
        assert_eq!(used(&whole, "8:2").unwrap(), "its sda is mounted on /data");
    }

    #[test]
    fn file_systems_with_numbers_of_their_own_are_known_by_name() {
        let btrfs = tree("25 1 0:31 / /home rw - btrfs /dev/sda2 rw\n", "");
        assert_eq!(used(&btrfs, "8:2").unwrap(), "it is mounted on /home");
        let mapped = tree("25 1 0:31 / /home rw shared:7 master:1 - btrfs /dev/mapper/vg-data rw\n", "");
        assert_eq!(used(&mapped, "253:0").unwrap(), "it is mounted on /home");
    }

    #[test]
    fn holders_and_swap_are_uses() {
        let root = tree(ROOT_ON_NOTHING, "/dev/sda2 partition 1000 0 -2\n");
        fs::create_dir(root.path().join("sys/block/sda/sda1/holders/md127")).unwrap();
        assert_eq!(used(&root, "8:1").unwrap(), "it is part of md127");
        assert_eq!(used(&root, "8:2").unwrap(), "it is used as swap");
        assert!(used(&root, "8:0").is_some());
    }

    #[test]
    fn files_under_loop_devices_and_swap_files_are_found() {
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
        assert_eq!(loop_on(root.path(), &of("image")).as_deref(), Some("loop3"));
        assert_eq!(loop_on(root.path(), &of("free")), None);
    }

    #[test]
    fn this_machines_own_root_is_found_in_use() {
        let device = fs::metadata("/").unwrap().dev();
        match Disk::find(Path::new("/"), &number(device)) {
            Ok(disk) => {
                let used = disk.used(Path::new("/")).unwrap();
                assert!(used.as_deref().is_some_and(|used| used.contains("mounted on")), "{used:?}");
            }
            Err(why) => println!("skipped: / lies on no disk of its own: {why}"),
        }
    }
}
