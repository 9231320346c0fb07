//! A file that is memory: all of its room is there from the start, it has no name, and it is gone with its last user.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use model::values::units::Bytes;
use rustix::fs::{Advice, AtFlags, FallocateFlags, IFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::location::{BTRFS, FarLocation, FileSystem};
use super::{FarError, ScratchFile};

/// Only its owner may read and write it.
pub(super) const MODE: u32 = 0o600;
/// Where the kernel does not say how requests past the page cache have to be aligned: every disk takes this.
const ALIGNMENT_USUAL: usize = 4096;
/// Where the file system cannot set room aside, it is written in pieces of so many bytes.
const ZEROS: usize = 1 << 20;

/// How the file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Mapped as memory, through the page cache.
    Mapped,
    /// Read and written past the page cache (`O_DIRECT`).
    Direct,
}

/// A file without a name on a disk.
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
    /// Makes one of so many bytes, rounded up to whole pages of 4 KiB. All of its blocks are set aside here: writing to it can not find
    /// the disk full later. It has no name from the beginning (`O_TMPFILE`), or where the file system lacks that, from the
    /// instruction after its making on, so that nothing is left when this process is killed.
    pub fn new(place: &FarLocation, bytes: usize, access: Access) -> Result<Self, FarError> {
        let folder = place.folder();
        place.check()?;
        let what = |verb: &str| format!("{verb} a far file in {}", folder.display());
        let flags = if access == Access::Direct { libc::O_DIRECT } else { 0 };
        let file = unnamed(folder, flags).map_err(|error| refused_open(what("make"), &error))?;
        let kind = FileSystem::of(&file).map_err(|error| FarError::refused(what("look at"), &error))?;
        if access == Access::Mapped && kind.never_writes_in_place() {
            return Err(FarError::CopyOnWrite { folder: folder.into(), file_system: kind.to_string() });
        }
        if kind.0 == BTRFS {
            write_in_place(&file).map_err(|error| FarError::refused(what("have btrfs write in place"), &error))?;
        }
        let bytes = bytes.max(1).checked_next_multiple_of(4096).ok_or_else(|| FarError::NoRoom {
            folder: folder.into(),
            asked: Bytes(bytes as u64),
            free: None,
        })?;
        // Asked first: the kernel takes all that is left before it finds that it is too little, and others write meanwhile.
        if let Some(free) = free_room(&file).filter(|free| free.0 < bytes as u64) {
            return Err(FarError::NoRoom { folder: folder.into(), asked: Bytes(bytes as u64), free: Some(free) });
        }
        reserve(&file, bytes).map_err(|error| no_room(folder, &file, bytes, &error))?;
        let inode = file.metadata().map_err(|error| FarError::refused(what("look at"), &error))?.ino();
        Ok(Self { alignment: alignment(&file), file, bytes, access, kind, inode })
    }

    /// What was written to a scratch file, so many bytes, rounded up to whole pages of 4 KiB: from now on on its disk and read past the
    /// page cache, of which it leaves nothing behind.
    pub fn of_scratch(scratch: ScratchFile, bytes: usize) -> Result<Self, FarError> {
        let file = scratch.into_file();
        let refused = |verb: &str, error: &io::Error| FarError::refused(format!("{verb} a far file"), error);
        let bytes = bytes.max(1).next_multiple_of(4096);
        file.set_len(bytes as u64).and_then(|()| file.sync_all()).map_err(|error| refused("write", &error))?;
        // Advice: a kernel that keeps pages of it gives them back when it needs them.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        let flags =
            rustix::fs::fcntl_getfl(&file).and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT));
        flags.map_err(|errno| refused_open("go past the page cache for a far file".into(), &errno.into()))?;
        let kind = FileSystem::of(&file).map_err(|error| refused("look at", &error))?;
        let inode = file.metadata().map_err(|error| refused("look at", &error))?.ino();
        Ok(Self { alignment: alignment(&file), file, bytes, access: Access::Direct, kind, inode })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Requests past the page cache begin and end at multiples of this, in the file and in memory.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// The name of its file system.
    pub fn file_system(&self) -> String {
        self.kind.to_string()
    }

    /// Waits until what was written has reached the disk. An error of any write since the last call comes out here, once.
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

pub(super) fn unnamed(folder: &Path, flags: i32) -> io::Result<File> {
    let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL | OFlags::from_bits_retain(flags as u32);
    match rustix::fs::open(folder, how, Mode::from_bits_retain(MODE)) {
        Ok(file) => Ok(file.into()),
        // EISDIR is what kernels say that do not know the flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => made_and_unlinked(folder, flags),
        Err(errno) => Err(errno.into()),
    }
}

/// For file systems without nameless files (NFS, old overlays).
pub(super) fn made_and_unlinked(folder: &Path, flags: i32) -> io::Result<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".nearfar-far-{}-{number}", std::process::id()));
    let mut how = OpenOptions::new();
    let file = how.read(true).write(true).create_new(true).mode(MODE).custom_flags(flags).open(&path);
    match file {
        // A name that was there before is not ours to take away.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // The kernel makes a file before it finds that its file system knows no O_DIRECT.
        file => {
            let unlinked = std::fs::remove_file(&path);
            let file = file?;
            unlinked?;
            Ok(file)
        }
    }
}

pub(super) fn refused_open(what: String, error: &io::Error) -> FarError {
    let refused = FarError::refused(what, error);
    match error.raw_os_error() {
        Some(libc::EINVAL) => refused.with_hint("this file system knows no O_DIRECT; name a folder on another disk"),
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => refused.with_hint("name a folder that you may write to"),
        _ => refused,
    }
}

/// A file that is written in place keeps the room that was set aside for it.
fn write_in_place(file: &File) -> io::Result<()> {
    let flags = rustix::fs::ioctl_getflags(file)?;
    Ok(rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW)?)
}

fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    let set_aside = rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64));
    match set_aside {
        // NFS before 4.2 and some FUSE file systems: what has been written has its room.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill_with_zeros(file, bytes),
        result => Ok(result?),
    }
}

/// Writes all of it with zeros and waits for the disk: for room that cannot be had otherwise, or over what was there. That the disk
/// itself keeps no older copy is not promised.
pub(crate) fn fill_with_zeros(file: &File, bytes: usize) -> io::Result<()> {
    // Aligned for O_DIRECT.
    let room = vec![0_u8; ZEROS + ALIGNMENT_USUAL];
    let from = room.as_ptr().align_offset(ALIGNMENT_USUAL);
    let zeros = &room[from..from + ZEROS];
    let mut at = 0;
    while at < bytes {
        let piece = &zeros[..ZEROS.min(bytes - at)];
        match rustix::io::retry_on_intr(|| rustix::io::pwrite(file, piece, at as u64))? {
            0 => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            written => at += written,
        }
    }
    // File systems that put off choosing blocks say here that there are none.
    Ok(rustix::fs::fsync(file)?)
}

/// What the file system has for this process; none where it does not say.
fn free_room(file: &File) -> Option<Bytes> {
    rustix::fs::fstatvfs(file).ok().map(|room| Bytes(room.f_bavail.saturating_mul(room.f_frsize)))
}

fn no_room(folder: &Path, file: &File, bytes: usize, error: &io::Error) -> FarError {
    let asked = Bytes(bytes as u64);
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            FarError::NoRoom { folder: folder.into(), asked, free: free_room(file) }
        }
        _ => FarError::refused(format!("set {asked} aside for a far file in {}", folder.display()), error),
    }
}

/// Linux 6.1 tells it, for the file systems that know.
fn alignment(file: &File) -> usize {
    let asked = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let told = asked.ok().map(|about| about.stx_dio_mem_align.max(about.stx_dio_offset_align) as usize);
    // A page at least: what is smaller is slower, and buffers are pages anyway.
    told.unwrap_or(0).max(ALIGNMENT_USUAL)
}
