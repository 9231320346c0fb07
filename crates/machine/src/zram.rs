//! Compressed block devices in DRAM (zram), used as swap. Linux removes one only on request, so that the undo journal has
//! an entry for each. The kernel charges their memory to no cgroup.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use model::values::trial::CompressedTraffic;
use model::values::undo::SettingTarget;
use model::values::units::Bytes;

use crate::cgroup::CompressedUse;
use crate::{swap, sysfs};

/// Directory with the files that create and remove devices.
const CONTROL: &str = "sys/class/zram-control";

/// Checks whether devices can be created, without creating one.
pub(crate) fn is_supported(root: &Path) -> Result<(), String> {
    if root.join(CONTROL).is_dir() {
        return Ok(());
    }
    Err("the kernel has no zram, or its module is not loaded".into())
}

/// Prevents other processes of this program from creating or removing devices until the result is dropped: the name of the
/// next device depends on those that exist.
///
/// # Errors
/// If the kernel has no zram.
pub fn lock(root: &Path) -> io::Result<File> {
    let directory = File::open(root.join(CONTROL))?;
    directory.lock()?;
    Ok(directory)
}

/// A device in use as swap, or prepared for it. The undo journal removes it.
#[derive(Debug)]
pub struct ZramDevice {
    name: String,
    size: Bytes,
}

impl ZramDevice {
    /// Returns the target in the undo journal of the device that is created next; the caller holds the [`lock`]. `size` is that of uncompressed data, in
    /// whole pages.
    pub fn target(root: &Path, size: Bytes) -> SettingTarget {
        // hot_add uses the lowest free number.
        let mut names = (0..=u32::MAX).map(|number| format!("zram{number}"));
        let name = names.find(|name| !root.join("sys/block").join(name).exists());
        SettingTarget::Zram { name: name.expect("fewer than 2^32 devices exist"), bytes: size }
    }

    /// Writes the header of a swap area to the device of this target, which exists.
    ///
    /// # Errors
    /// If the device cannot be written, or if the target is not a zram device.
    pub fn format(target: &SettingTarget) -> io::Result<Self> {
        let SettingTarget::Zram { name, bytes } = target else { return Err(ErrorKind::InvalidInput.into()) };
        let device = Self { name: name.clone(), size: *bytes };
        let file = OpenOptions::new().read(true).write(true).open(device.path())?;
        swap::format(&file, bytes.0, rustix::param::page_size() as u64)?;
        Ok(device)
    }

    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Size of the uncompressed data that it can store.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Lets the kernel swap to it. Areas are filled in ascending order of `order`, and before far memory on disk.
    ///
    /// # Errors
    /// `PermissionDenied` also if the kernel has too many swap areas.
    pub fn use_as_swap(&self, order: usize) -> io::Result<()> {
        swap::on(&self.path(), swap::compressed_priority(order))
    }

    /// Ends its use as swap: its pages move into DRAM or to other swap areas.
    ///
    /// # Errors
    /// If it is not in use, or if there is no space for its pages.
    pub fn empty(&self) -> io::Result<()> {
        swap::off(&self.path())
    }

    /// Returns its use. Data of one byte value in a whole page use no memory.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn usage(&self) -> io::Result<CompressedUse> {
        usage(Path::new("/"), &self.name)
    }
}

/// Documentation/admin-guide/blockdev/zram.rst: the first fields of `mm_stat` are the sizes of the data before and after
/// compression, and of the memory in use, in bytes.
fn usage(root: &Path, name: &str) -> io::Result<CompressedUse> {
    let text = sysfs::read_text(root, &format!("sys/block/{name}/mm_stat"))?;
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [held, packed, dram, ..] = fields[..] else { return Err(ErrorKind::InvalidData.into()) };
    let (loaded, stored) = swap::sectors(root, Path::new(name));
    let traffic = CompressedTraffic { stored, loaded, ..CompressedTraffic::default() };
    Ok(CompressedUse { dram: Bytes(dram), held: Bytes(held), packed: Some(Bytes(packed)), traffic })
}

/// Returns whether a device exists, and has this size.
pub(crate) fn exists(root: &Path, name: &str, size: Bytes) -> bool {
    sysfs::read_text(root, &format!("sys/block/{name}/disksize")).is_ok_and(|text| text.parse() == Ok(size.0))
}

/// Creates a device of this name and size.
///
/// # Errors
/// `ResourceBusy` if another program has created a device meanwhile.
pub(crate) fn create(root: &Path, name: &str, size: Bytes) -> io::Result<()> {
    let number = sysfs::read_text(root, &format!("{CONTROL}/hot_add"))?;
    let created = format!("zram{number}");
    let sized = if created == name {
        std::fs::write(root.join(format!("sys/block/{name}/disksize")), size.0.to_string())
    } else {
        Err(ErrorKind::ResourceBusy.into())
    };
    sized.inspect_err(|_| {
        // The first error is the one to report.
        let _ = std::fs::write(root.join(CONTROL).join("hot_remove"), &number);
    })
}

/// Removes a device, with the data on it.
///
/// # Errors
/// If it is in use other than as swap, or if its pages fit nowhere else.
pub(crate) fn remove(root: &Path, name: &str) -> io::Result<()> {
    let device = Path::new("/dev").join(name);
    if swap::is_on(root, &device)? {
        swap::off(&device)?;
    }
    let _lock = lock(root)?;
    let number = name.trim_start_matches("zram");
    std::fs::write(root.join(CONTROL).join("hot_remove"), number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn usage_of_a_device_is_read() {
        let stat = "  5  0  40  1  7  0  56  3  0  9  9  0  0  0  0\n";
        let dir = tree(&[
            ("sys/block/zram0/disksize", "0\n"),
            ("sys/block/zram1/mm_stat", "  8192  3000  4096  0  4096  0  0  0  0\n"),
            ("sys/block/zram1/stat", stat),
            ("sys/block/zram1/disksize", "65536\n"),
            ("sys/block/zram2/mm_stat", "8192\n"),
        ]);
        let traffic =
            CompressedTraffic { stored: Bytes(56 * 512), loaded: Bytes(40 * 512), ..CompressedTraffic::default() };
        let packed = Some(Bytes(3000));
        let expected = CompressedUse { dram: Bytes(4096), held: Bytes(8192), packed, traffic };
        assert_eq!(usage(dir.path(), "zram1").unwrap(), expected);
        assert_eq!(usage(dir.path(), "zram2").unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(exists(dir.path(), "zram1", Bytes(65536)) && !exists(dir.path(), "zram1", Bytes(4096)));
        let next = SettingTarget::Zram { name: "zram3".into(), bytes: Bytes(4096) };
        assert_eq!(ZramDevice::target(dir.path(), Bytes(4096)), next);
    }

    #[test]
    fn device_of_another_program_is_not_used() {
        let dir = tree(&[("sys/class/zram-control/hot_add", "4\n"), ("sys/class/zram-control/hot_remove", "")]);
        assert!(is_supported(dir.path()).is_ok() && is_supported(&dir.path().join("sys")).is_err());
        let error = create(dir.path(), "zram3", Bytes(4096)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        let removed = std::fs::read_to_string(dir.path().join("sys/class/zram-control/hot_remove")).unwrap();
        assert_eq!(removed, "4", "the device that was created instead");
    }
}
