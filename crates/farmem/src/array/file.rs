//! An unnamed file used as memory: all of its space is allocated at creation, and it is deleted when it is closed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::values::units::Bytes;
use rustix::fs::{Advice, AtFlags, FallocateFlags, IFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::location::{BTRFS, FarLocation, FileSystem};
use super::{FarError, ScratchFile};

/// Accessible by the owner only.
pub(super) const MODE: u32 = 0o600;
/// Alignment for direct I/O if the kernel does not report one; every disk accepts it.
const ALIGNMENT_USUAL: usize = 4096;
/// Write size on file systems that cannot preallocate.
const ZEROS: usize = 1 << 20;

/// The access mode of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Mapped as memory, through the page cache.
    Mapped,
    /// Direct I/O (`O_DIRECT`), without the page cache.
    Direct,
}

/// An unnamed file on a disk.
#[derive(Debug)]
pub struct FarFile {
    file: File,
    bytes: usize,
    alignment: usize,
    access: Access,
    kind: FileSystem,
    inode: u64,
}

impl FarFile {
    /// Creates a file of `bytes`, rounded up to 4 KiB. All of its blocks are allocated here, so a later write cannot
    /// find the disk full. It has no name (`O_TMPFILE`), or on file systems without that feature is unlinked directly
    /// after its creation, so a killed process leaves nothing.
    pub fn new(place: &FarLocation, bytes: usize, access: Access) -> Result<Self, FarError> {
        let dir = place.directory();
        place.check()?;
        let what = |verb: &str| format!("{verb} a far file in {}", dir.display());
        let flags = if access == Access::Direct { libc::O_DIRECT } else { 0 };
        let file = unnamed(dir, flags).map_err(|error| refused_open(what("create"), &error))?;
        let kind = FileSystem::of(&file).map_err(|error| FarError::refused(what("inspect"), &error))?;
        if access == Access::Mapped && kind.never_writes_in_place() {
            return Err(FarError::CopyOnWrite { dir: dir.into(), file_system: kind.to_string() });
        }
        if kind.0 == BTRFS {
            write_in_place(&file).map_err(|error| FarError::refused(what("disable copy-on-write for"), &error))?;
        }
        let bytes = bytes.max(1).checked_next_multiple_of(4096).ok_or_else(|| FarError::NoSpace {
            dir: dir.into(),
            asked: Bytes(bytes as u64),
            free: None,
        })?;
        // Checked first: fallocate takes all remaining space before it fails, while others write to the disk.
        if let Some(free) = free_space(&file).filter(|free| free.0 < bytes as u64) {
            return Err(FarError::NoSpace { dir: dir.into(), asked: Bytes(bytes as u64), free: Some(free) });
        }
        reserve(&file, bytes).map_err(|error| no_space(dir, &file, bytes, &error))?;
        let inode = file.metadata().map_err(|error| FarError::refused(what("inspect"), &error))?.ino();
        Ok(Self { alignment: alignment(&file), file, bytes, access, kind, inode })
    }

    /// Turns the first `bytes` of a scratch file, rounded up to 4 KiB, into a far file. They are written to the disk
    /// and dropped from the page cache.
    pub fn of_scratch(scratch: ScratchFile, bytes: usize) -> Result<Self, FarError> {
        let file = scratch.into_file();
        let refused = |verb: &str, error: &io::Error| FarError::refused(format!("{verb} a far file"), error);
        let bytes = bytes.max(1).next_multiple_of(4096);
        file.set_len(bytes as u64).and_then(|()| file.sync_all()).map_err(|error| refused("write", &error))?;
        // Only advice: if the kernel keeps pages of it, it evicts them when it needs memory.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        let flags =
            rustix::fs::fcntl_getfl(&file).and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT));
        flags.map_err(|errno| refused_open("use direct I/O for a far file".into(), &errno.into()))?;
        let kind = FileSystem::of(&file).map_err(|error| refused("inspect", &error))?;
        let inode = file.metadata().map_err(|error| refused("inspect", &error))?.ino();
        Ok(Self { alignment: alignment(&file), file, bytes, access: Access::Direct, kind, inode })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Alignment of direct I/O, for offsets, sizes and memory addresses.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// The name of its file system.
    pub fn file_system(&self) -> String {
        self.kind.to_string()
    }

    /// Waits until written data are on the disk. Returns an error of any write since the last call, once.
    pub fn sync(&self) -> Result<(), FarError> {
        rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.file)).map_err(|errno| FarError::Transfer {
            what: "write the far file to its disk (fdatasync)".into(),
            errno: errno.raw_os_error(),
        })
    }

    pub(crate) fn into_file(self) -> File {
        self.file
    }

    pub(super) fn access(&self) -> Access {
        self.access
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn inode(&self) -> u64 {
        self.inode
    }
}

pub(super) fn unnamed(dir: &Path, flags: i32) -> io::Result<File> {
    let dir = files::open_dir(dir)?;
    let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL | OFlags::from_bits_retain(flags as u32);
    match rustix::fs::openat(&dir, ".", how, Mode::from_bits_retain(MODE)) {
        Ok(file) => Ok(file.into()),
        // Kernels that do not know the flag return EISDIR.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => made_and_unlinked(&dir, flags),
        Err(errno) => Err(errno.into()),
    }
}

/// For file systems without `O_TMPFILE` (NFS, old overlays).
pub(super) fn made_and_unlinked(dir: &OwnedFd, flags: i32) -> io::Result<File> {
    let name = format!(".nearfar-far-{}", files::random_name()?);
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::from_bits_retain(flags as u32);
    match rustix::fs::openat(dir, &name, how, Mode::from_bits_retain(MODE)) {
        // The name belongs to another process.
        Err(Errno::EXIST) => Err(Errno::EXIST.into()),
        // The kernel creates the file before it finds that the file system does not support O_DIRECT.
        file => {
            let unlinked = rustix::fs::unlinkat(dir, &name, AtFlags::empty());
            let file = file?;
            unlinked?;
            Ok(file.into())
        }
    }
}

pub(super) fn refused_open(what: String, error: &io::Error) -> FarError {
    let refused = FarError::refused(what, error);
    match error.raw_os_error() {
        Some(libc::EINVAL) => {
            refused.with_hint("this file system does not support O_DIRECT; name a directory on another disk")
        }
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => refused.with_hint("name a directory with write permission"),
        _ => refused,
    }
}

/// Files that are written in place keep their preallocated space.
fn write_in_place(file: &File) -> io::Result<()> {
    let flags = rustix::fs::ioctl_getflags(file)?;
    Ok(rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW)?)
}

fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    let allocated = rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64));
    match allocated {
        // NFS before 4.2 and some FUSE file systems: written data have their space.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill_with_zeros(file, bytes),
        result => Ok(result?),
    }
}

/// Overwrites the file with zeros and waits for the disk: to allocate space without fallocate, or to erase content. The
/// disk itself may keep older copies.
pub(crate) fn fill_with_zeros(file: &File, bytes: usize) -> io::Result<()> {
    // Aligned for O_DIRECT.
    let buffer = vec![0_u8; ZEROS + ALIGNMENT_USUAL];
    let from = buffer.as_ptr().align_offset(ALIGNMENT_USUAL);
    let zeros = &buffer[from..from + ZEROS];
    let mut at = 0;
    while at < bytes {
        let piece = &zeros[..ZEROS.min(bytes - at)];
        match rustix::io::retry_on_intr(|| rustix::io::pwrite(file, piece, at as u64))? {
            0 => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            written => at += written,
        }
    }
    // File systems with delayed allocation report a full disk here.
    Ok(rustix::fs::fsync(file)?)
}

/// Free space for this process; `None` if the file system does not report it.
fn free_space(file: &File) -> Option<Bytes> {
    rustix::fs::fstatvfs(file).ok().map(|stats| Bytes(stats.f_bavail.saturating_mul(stats.f_frsize)))
}

fn no_space(dir: &Path, file: &File, bytes: usize, error: &io::Error) -> FarError {
    let asked = Bytes(bytes as u64);
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            FarError::NoSpace { dir: dir.into(), asked, free: free_space(file) }
        }
        _ => FarError::refused(format!("allocate {asked} for a far file in {}", dir.display()), error),
    }
}

/// Alignment that Linux 6.1 reports for file systems that support it.
fn alignment(file: &File) -> usize {
    let asked = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let reported_alignment =
        asked.ok().map(|reported| reported.stx_dio_mem_align.max(reported.stx_dio_offset_align) as usize);
    // At least a page: smaller requests are slower, and buffers consist of pages.
    reported_alignment.unwrap_or(0).max(ALIGNMENT_USUAL)
}
