//! Swap on a loop device over an unlinked file: the kernel removes both when swap is off and no process has them open,
//! even if the program was killed. Swap uses the device and not the file, because a swap file accepts no folios larger
//! than a page, and because the device has its own queue settings.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::values::units::Bytes;

use crate::sysfs;

/// Setting for folios of 64 KiB, which the kernel can swap as a whole at a fraction of the cost of single pages.
pub const LARGE_FOLIOS: &str = "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
/// Whether the kernel keeps evicted pages compressed in DRAM (zswap): `Y` or `N`, for the whole machine.
pub const ZSWAP: &str = "sys/module/zswap/parameters/enabled";
/// Highest swap priority, so that the kernel uses this swap before any other. The range is 0 to 32767.
const PRIORITY_MAX: libc::c_int = 32767;
/// Maximum number of compressed areas, which the kernel fills before far memory on disk.
const COMPRESSED_MAX: libc::c_int = 32;
/// Swap priority of far memory on disk.
pub(crate) const PRIORITY: libc::c_int = PRIORITY_MAX - COMPRESSED_MAX;
const SWAP_FLAG_PREFER: libc::c_int = 0x8000;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Maximum attempts to attach a device: another program may take the free device first.
const ATTEMPTS_MAX: usize = 32;

/// Returns the value of [`LARGE_FOLIOS`]; `None` if the kernel has no such folios.
pub fn large_folios(root: &Path) -> Option<String> {
    sysfs::read_text(root, LARGE_FOLIOS).ok().map(|text| sysfs::selected(&text).into())
}

/// A loop device over a file. The kernel detaches it when this is dropped and swap on it is off.
#[derive(Debug)]
pub struct LoopDevice {
    device: PathBuf,
    backing: String,
    /// Bytes read and written before the file was attached.
    before: (Bytes, Bytes),
    _open: File,
}

/// struct `loop_info64` of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// struct `loop_config` of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

impl LoopDevice {
    /// Attaches a file to a free loop device, with direct I/O if the file system supports it.
    pub fn attach(file: &File, page: u32) -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        for _ in 0..ATTEMPTS_MAX {
            // SAFETY: the request has no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let device = PathBuf::from(format!("/dev/loop{number}"));
            let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(&device)?;
            match configure(&open, file.as_raw_fd(), page) {
                Ok(()) => {
                    let backing = backing(Path::new("/"), &device).unwrap_or_default();
                    let before = sectors(Path::new("/"), &device);
                    return Ok(Self { device, backing, before, _open: open });
                }
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::ResourceBusy.into())
    }

    pub fn device(&self) -> &Path {
        &self.device
    }

    /// The kernel's name of the backing file.
    pub fn backing(&self) -> &str {
        &self.backing
    }

    /// Returns the bytes read and written since the file was attached.
    pub fn traffic(&self) -> (Bytes, Bytes) {
        let (read, written) = sectors(Path::new("/"), &self.device);
        (Bytes(read.0 - self.before.0.0), Bytes(written.0 - self.before.1.0))
    }

    /// Marks the device as non-rotational, so that the kernel's swap read-ahead follows a program's virtual addresses,
    /// and disables its I/O scheduler. Both settings end with the device.
    pub fn no_seeks(&self) -> io::Result<()> {
        let queue = Path::new("/").join(device_path(&self.device, "queue"));
        std::fs::write(queue.join("rotational"), "0")?;
        std::fs::write(queue.join("scheduler"), "none")
    }
}

/// Returns all bytes read and written. Documentation/block/stat: fields 3 and 7 count sectors of 512 bytes.
pub(crate) fn sectors(root: &Path, device: &Path) -> (Bytes, Bytes) {
    let text = sysfs::read_text(root, &device_path(device, "stat")).unwrap_or_default();
    let sectors: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let bytes = |field: usize| Bytes(sectors.get(field - 1).map_or(0, |sectors| sectors * 512));
    (bytes(3), bytes(7))
}

fn configure(device: &File, file: RawFd, page: u32) -> io::Result<()> {
    // SAFETY: the struct consists of integers and arrays of integers, for which all zeros is a valid value.
    let mut config: Config = unsafe { std::mem::zeroed() };
    config.fd = file as u32;
    config.block_size = page.min(4096);
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    // SAFETY: the kernel reads a live struct with the layout of its interface.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes a swap header: version 1 of the kernel's format (union `swap_header` of linux/swap.h). At offset 1024 are the
/// version, the last page and the number of bad pages; at the end of the page is the signature.
pub fn format(space: &File, bytes: u64, page: u64) -> io::Result<()> {
    let mut header = vec![0_u8; page as usize];
    let last = u32::try_from(bytes / page - 1).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    header[1024..1028].copy_from_slice(&1_u32.to_ne_bytes());
    header[1028..1032].copy_from_slice(&last.to_ne_bytes());
    let signature = b"SWAPSPACE2";
    let end = header.len();
    header[end - signature.len()..].copy_from_slice(signature);
    space.write_all_at(&header, 0)?;
    space.sync_all()
}

/// Returns the kernel's name of a loop device's backing file, or `None` if no file is attached.
pub(crate) fn backing(root: &Path, device: &Path) -> Option<String> {
    sysfs::read_text(root, &device_path(device, "loop/backing_file")).ok()
}

/// Returns the path of a block device's attribute in sysfs, relative to the root.
fn device_path(device: &Path, attribute: &str) -> String {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    format!("sys/block/{name}/{attribute}")
}

/// A swap area in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// Device or file.
    pub path: PathBuf,
    pub size: Bytes,
    pub used: Bytes,
    /// The kernel fills areas of higher priority first.
    priority: libc::c_int,
}

impl SwapArea {
    pub fn free(&self) -> Bytes {
        Bytes(self.size.0.saturating_sub(self.used.0))
    }
}

/// Returns the swap areas in use: proc(5), `/proc/swaps`, which counts in KiB.
///
/// # Errors
/// If `/proc/swaps` cannot be read.
pub fn areas(root: &Path) -> io::Result<Vec<SwapArea>> {
    let text = sysfs::read_text(root, "proc/swaps")?;
    let area = |line: &str| {
        let [path, _, size, used, priority] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let bytes = |kib: &str| kib.parse::<u64>().ok().map(|kib| Bytes(kib << 10));
        Some(SwapArea { path: path.into(), size: bytes(size)?, used: bytes(used)?, priority: priority.parse().ok()? })
    };
    Ok(text.lines().skip(1).filter_map(area).collect())
}

/// Returns whether a device is in use as swap.
pub(crate) fn is_on(root: &Path, device: &Path) -> io::Result<bool> {
    Ok(areas(root)?.iter().any(|area| area.path == device))
}

/// Returns the swap areas that the kernel fills before the devices of an expansion or in turn with them.
///
/// # Errors
/// If `/proc/swaps` cannot be read.
pub fn other_areas(root: &Path, devices: &[PathBuf]) -> io::Result<Vec<String>> {
    let is_other = |area: &SwapArea| area.priority >= PRIORITY && !devices.contains(&area.path);
    Ok(areas(root)?.into_iter().filter(is_other).map(|area| area.path.display().to_string()).collect())
}

/// Swap priority of a compressed area: those of higher order are filled later.
pub(crate) fn compressed_priority(order: usize) -> libc::c_int {
    PRIORITY_MAX - (order as libc::c_int).min(COMPRESSED_MAX - 1)
}

/// Reads from a device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReads {
    pub count: u64,
    pub bytes: Bytes,
    /// Sum of their durations.
    pub time: Duration,
}

/// Returns the reads from a device so far. Documentation/block/stat: field 1 is their number, and field 4 their time in
/// milliseconds.
pub fn reads(root: &Path, device: &Path) -> DeviceReads {
    let text = sysfs::read_text(root, &device_path(device, "stat")).unwrap_or_default();
    let field = |number: usize| text.split_whitespace().nth(number - 1)?.parse::<u64>().ok();
    let time = Duration::from_millis(field(4).unwrap_or(0));
    DeviceReads { count: field(1).unwrap_or(0), bytes: sectors(root, device).0, time }
}

/// Empties the swap device of an expansion into DRAM and other swap areas, and enables it again. May be repeated after a
/// failure.
///
/// # Errors
/// If there is no space for the pages, which then stay on the device, or if it cannot be used again.
pub fn empty(device: &Path) -> io::Result<()> {
    if is_on(Path::new("/"), device)? {
        off(device)?;
    }
    on(device, PRIORITY)
}

/// swapon(2).
pub(crate) fn on(device: &Path, priority: libc::c_int) -> io::Result<()> {
    let path = c_path(device)?;
    // SAFETY: the path ends with a zero byte.
    match unsafe { libc::swapon(path.as_ptr(), SWAP_FLAG_PREFER | priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// swapoff(2): reads the swapped memory back, which requires time and enough free memory.
pub(crate) fn off(device: &Path) -> io::Result<()> {
    let path = c_path(device)?;
    // SAFETY: the path ends with a zero byte.
    match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn c_path(path: &Path) -> io::Result<std::ffi::CString> {
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    std::ffi::CString::new(bytes).map_err(|_| ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn swap_header_has_the_kernel_format() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        format(&file, 1 << 20, 4096).unwrap();
        let mut header = vec![0; 4096];
        file.read_exact_at(&mut header, 0).unwrap();
        assert_eq!(&header[4086..], b"SWAPSPACE2");
        assert_eq!(header[1024..1032], [1, 0, 0, 0, 255, 0, 0, 0], "version 1, the last of 256 pages");
        assert!(header[..1024].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn swap_state_and_backing_file_are_read() {
        let dir = tree(&[
            (
                "proc/swaps",
                "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/loop1                              partition\t1048572\t\t64\t\t100\n/dev/loop4 partition 4 0 32767\n/swap file 4 0 -2\n",
            ),
            ("sys/block/loop1/loop/backing_file", "/var/tmp/#77 (deleted)\n"),
            ("sys/block/loop1/stat", "  5  0  40  9  7  0  56  3  0  9  9  0  0  0  0\n"),
        ]);
        assert_eq!(other_areas(dir.path(), &["/dev/loop1".into()]).unwrap(), ["/dev/loop4"]);
        assert!(is_on(dir.path(), Path::new("/dev/loop1")).unwrap());
        let first = areas(dir.path()).unwrap().remove(0);
        assert_eq!(
            (first.size, first.used, first.free()),
            (Bytes(1_048_572 << 10), Bytes(64 << 10), Bytes(1_048_508 << 10))
        );
        assert!(!is_on(dir.path(), Path::new("/dev/loop")).unwrap());
        let expected = DeviceReads { count: 5, bytes: Bytes(40 * 512), time: Duration::from_millis(9) };
        assert_eq!(reads(dir.path(), Path::new("/dev/loop1")), expected);
        assert_eq!(reads(dir.path(), Path::new("/dev/loop2")), DeviceReads::default());
        assert_eq!(backing(dir.path(), Path::new("/dev/loop1")).as_deref(), Some("/var/tmp/#77 (deleted)"));
        assert_eq!(backing(dir.path(), Path::new("/dev/loop2")), None);
    }
}
