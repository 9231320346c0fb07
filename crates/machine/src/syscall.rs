//! Safe wrappers of the system calls that neither std nor rustix provides in the required form. They check arguments,
//! retry interrupted calls and preserve errno. Callers describe the purpose of a call ([`SyscallError`]).
//!
//! The wrappers never allocate, so that a child can use them between fork and exec.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};

use libc::{c_int, c_long, c_uint, c_ulong, c_void};
use model::hint::Hinted;
use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};

/// A failed system call: the operation and its object, errno, and a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {what}: {}", io::Error::from_raw_os_error(*errno))]
pub struct SyscallError {
    /// Operation and object, such as `set the affinity to CPU 7 (sched_setaffinity)`.
    pub what: String,
    pub errno: i32,
    pub hint: Option<String>,
}

impl SyscallError {
    pub fn new(what: impl Into<String>, error: &io::Error) -> Self {
        Self { what: what.into(), errno: error.raw_os_error().unwrap_or(0), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: Option<&str>) -> Self {
        self.hint = hint.map(str::to_owned);
        self
    }
}

impl Hinted for SyscallError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Maximum number of CPUs of Linux.
const CPUS_MAX: usize = 8192;
/// Maximum number of memory nodes of Linux.
const NODES_MAX: usize = 1024;

/// A CPU mask in the kernel's format, stored without heap allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuMask([u64; CPUS_MAX / 64]);

/// A node mask in the kernel's format, stored without heap allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeMask([u64; NODES_MAX / 64]);

impl CpuMask {
    pub(crate) const EMPTY: Self = Self([0; CPUS_MAX / 64]);
    /// All CPUs that Linux can have.
    pub(crate) const ALL: Self = Self([u64::MAX; CPUS_MAX / 64]);

    /// Returns `None` if a CPU number exceeds the maximum of Linux.
    pub(crate) fn from_set(cpus: &CpuSet) -> Option<Self> {
        let mut words = [0; CPUS_MAX / 64];
        set_bits(&mut words, cpus.iter().map(|cpu| cpu.0)).then_some(Self(words))
    }

    pub(crate) fn to_set(self) -> CpuSet {
        bits(&self.0).map(CpuId).collect()
    }
}

impl NodeMask {
    pub(crate) const EMPTY: Self = Self([0; NODES_MAX / 64]);

    /// Returns `None` if a node number exceeds the maximum of Linux.
    pub(crate) fn from_set(nodes: &NodeSet) -> Option<Self> {
        let mut words = [0; NODES_MAX / 64];
        set_bits(&mut words, nodes.iter().map(|node| node.0)).then_some(Self(words))
    }

    pub(crate) fn to_set(self) -> NodeSet {
        bits(&self.0).map(NodeId).collect()
    }
}

fn set_bits(words: &mut [u64], mut numbers: impl Iterator<Item = u32>) -> bool {
    numbers.all(|number| match words.get_mut(number as usize / 64) {
        Some(word) => {
            *word |= 1 << (number % 64);
            true
        }
        None => false,
    })
}

fn bits(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(|(index, word)| {
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index as u32 * 64 + bit)
    })
}

/// Retries a call that a signal interrupted, and converts -1 to its errno.
pub(crate) fn checked(mut call: impl FnMut() -> c_long) -> io::Result<c_long> {
    loop {
        let result = call();
        if result != -1 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

/// `sched_setaffinity(2)`: sets the CPUs on which a thread may run; 0 is the calling thread.
pub(crate) fn set_affinity(tid: u32, mask: &CpuMask) -> io::Result<()> {
    // SAFETY: the kernel reads exactly size_of::<CpuMask>() bytes of a live mask; cpu_set_t is a bit array without
    // other requirements, and glibc passes pointer and size through.
    checked(|| unsafe {
        c_long::from(libc::sched_setaffinity(tid as c_int, size_of::<CpuMask>(), ptr::from_ref(mask).cast()))
    })
    .map(drop)
}

/// `sched_getaffinity(2)`: reads the CPUs on which a thread may run; 0 is the calling thread. Works for zombies.
pub(crate) fn affinity(tid: u32) -> io::Result<CpuMask> {
    let mut mask = CpuMask::EMPTY;
    // SAFETY: the kernel writes at most size_of::<CpuMask>() bytes into a live mask of that size.
    checked(|| unsafe {
        c_long::from(libc::sched_getaffinity(tid as c_int, size_of::<CpuMask>(), ptr::from_mut(&mut mask).cast()))
    })?;
    Ok(mask)
}

/// `set_mempolicy(2)` for the calling thread. Fails with ENOSYS on kernels without `CONFIG_NUMA`.
pub(crate) fn set_mempolicy(mode: c_int, nodes: &NodeMask) -> io::Result<()> {
    // SAFETY: the kernel reads NODES_MAX bits of a live mask; maxnode must be one more than the number of bits.
    checked(|| unsafe {
        libc::syscall(libc::SYS_set_mempolicy, c_long::from(mode), nodes.0.as_ptr(), NODES_MAX as c_ulong + 1)
    })
    .map(drop)
}

/// `get_mempolicy(2)`: returns the mode (with its flags) and nodes of the calling thread's policy.
pub(crate) fn mempolicy() -> io::Result<(c_int, NodeMask)> {
    let (mut mode, mut nodes): (c_int, _) = (0, NodeMask::EMPTY);
    // SAFETY: the kernel writes one int and at most NODES_MAX bits into live variables of that size.
    checked(|| unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            ptr::from_mut(&mut mode),
            nodes.0.as_mut_ptr(),
            NODES_MAX as c_ulong + 1,
            ptr::null::<c_void>(),
            0 as c_ulong,
        )
    })?;
    Ok((mode, nodes))
}

/// getcpu(2): returns the memory node of the current CPU.
pub(crate) fn current_node() -> io::Result<u32> {
    let mut node: libc::c_uint = 0;
    // SAFETY: the kernel writes one number through the second pointer, and nothing through null.
    checked(|| unsafe {
        libc::syscall(libc::SYS_getcpu, ptr::null_mut::<libc::c_uint>(), &raw mut node, ptr::null_mut::<libc::c_void>())
    })
    .map(|_| node)
}

/// Moves pages of this process that do not conform to the policy. include/uapi/linux/mempolicy.h.
const MPOL_MF_MOVE: c_uint = 1 << 1;

/// mbind(2): sets the policy of a range of memory; with `moved`, also moves its existing pages.
pub(crate) fn mbind(start: NonNull<u8>, bytes: usize, mode: c_int, nodes: &NodeMask, moved: bool) -> io::Result<()> {
    // SAFETY: mbind changes the nodes of pages in the range, never their contents; the kernel rejects
    // ranges that are not mapped, and reads NODES_MAX bits of a live mask.
    checked(|| unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start.as_ptr(),
            bytes as c_ulong,
            c_long::from(mode),
            nodes.0.as_ptr(),
            NODES_MAX as c_ulong + 1,
            if moved { MPOL_MF_MOVE } else { 0 },
        )
    })
    .map(drop)
}

/// Whether this thread has a capability.
pub(crate) fn has_capability(capability: rustix::thread::CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

/// `move_pages(2)` without a target: writes the node of each page of a process, or a negative errno, to `status`; process
/// 0 is the calling one. `pages` are addresses. Both slices must have the same length.
pub(crate) fn pages_status(pid: u32, pages: &[u64], status: &mut [c_int]) -> io::Result<()> {
    const { assert!(size_of::<u64>() == size_of::<*const u8>()) };
    assert_eq!(pages.len(), status.len(), "move_pages writes one status per page");
    // SAFETY: without a node array no page moves; the kernel reads and writes one entry per page of both slices, and
    // does not access the memory at the addresses. An address has the size of a pointer (asserted).
    checked(|| unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as c_int,
            pages.len() as c_ulong,
            pages.as_ptr(),
            ptr::null::<c_int>(),
            status.as_mut_ptr(),
            0 as c_int,
        )
    })
    .map(drop)
}

/// Moves pages even if other processes map them; this requires `CAP_SYS_NICE`. include/uapi/linux/mempolicy.h.
const MPOL_MF_MOVE_ALL: c_uint = 1 << 2;

/// `move_pages(2)` with target nodes: moves pages of a process (0: this one), with `shared` also those that other processes
/// map. A page that stays has the negated errno in its status. All slices must have the same length.
pub(crate) fn move_pages(
    pid: u32,
    pages: &[u64],
    nodes: &[c_int],
    shared: bool,
    status: &mut [c_int],
) -> io::Result<()> {
    const { assert!(size_of::<u64>() == size_of::<*const u8>()) };
    assert!(pages.len() == nodes.len() && pages.len() == status.len(), "move_pages uses one entry per page");
    // SAFETY: moving a page changes no content; the kernel reads and writes one entry per page of the slices, and does
    // not access the memory at the addresses. An address has the size of a pointer (asserted).
    checked(|| unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as c_int,
            pages.len() as c_ulong,
            pages.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            (if shared { MPOL_MF_MOVE_ALL } else { MPOL_MF_MOVE }) as c_int,
        )
    })
    .map(drop)
}

/// Maximum number of addresses of a call of [`read_bytes`].
const ADDRESSES_MAX: usize = libc::UIO_MAXIOV as usize;

/// `process_vm_readv(2)`: reads one byte at each of the first addresses of a process, and returns how many were read. The
/// content is discarded.
pub(crate) fn read_bytes(pid: u32, addresses: &[u64]) -> io::Result<usize> {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    let mut bytes = vec![0_u8; addresses.len()];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote: Vec<libc::iovec> = addresses
        .iter()
        .map(|address| libc::iovec { iov_base: ptr::without_provenance_mut(*address as usize), iov_len: 1 })
        .collect();
    // SAFETY: the kernel writes at most one byte per address to `bytes`, which lives as long as the call, and checks the
    // remote addresses, which are those of another process.
    let read = checked(|| unsafe {
        libc::process_vm_readv(pid as libc::pid_t, &raw const local, 1, remote.as_ptr(), remote.len() as c_ulong, 0)
            as libc::c_long
    })?;
    Ok(usize::try_from(read).unwrap_or(0))
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("the page size is positive")
}

/// mmap(2) of new anonymous private memory, readable and writable.
#[cfg_attr(miri, expect(dead_code, reason = "Miri has no partial munmap(2)"))]
pub(crate) fn map_anonymous(bytes: usize) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // NORESERVE because `memory` has already compared the size with the available memory; the kernel's overcommit
    // heuristic would reject sizes that fit, because it counts address space, not pages.
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags | libc::MAP_NORESERVE, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// munmap(2).
///
/// # Safety
/// The range is part of a mapping from [`map_anonymous`] that nothing refers to any more.
#[cfg_attr(miri, expect(dead_code, reason = "Miri has no partial munmap(2)"))]
pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller gives up the range.
    checked(|| c_long::from(unsafe { libc::munmap(start.as_ptr().cast(), bytes) })).map(drop)
}

/// madvise(2) with `MADV_HUGEPAGE` (true) or `MADV_NOHUGEPAGE`. EINVAL means that the kernel supports neither.
pub(crate) fn advise_huge(start: NonNull<u8>, bytes: usize, huge: bool) -> io::Result<()> {
    let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: both kinds of advice change the size of future pages, never contents; unmapped ranges are rejected.
    checked(|| c_long::from(unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) })).map(drop)
}

/// Status and resource usage of an ended process, from wait4(2).
#[derive(Clone, Copy)]
pub(crate) struct WaitStatus {
    /// Status word of wait(2).
    pub status: c_int,
    /// Resource usage of the process and its reaped children.
    pub usage: libc::rusage,
}

/// wait4(2) without blocking: reaps one dead child in a process group, or returns `None` if all children in it run.
/// Fails with ECHILD if the group contains no child of this process.
pub(crate) fn reap_in_group(group: u32) -> io::Result<Option<WaitStatus>> {
    reap(-(group as c_int))
}

/// wait4(2) without blocking, for one child.
pub(crate) fn reap_child(pid: u32) -> io::Result<Option<WaitStatus>> {
    reap(pid as c_int)
}

fn reap(pid_or_group: c_int) -> io::Result<Option<WaitStatus>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes an int and a rusage into live variables of these types.
    let pid = checked(|| unsafe {
        c_long::from(libc::wait4(pid_or_group, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()))
    })?;
    // SAFETY: zeroed is a valid rusage (integers only), and the kernel has overwritten it if a child was reaped.
    let usage = unsafe { usage.assume_init() };
    Ok((pid > 0).then_some(WaitStatus { status, usage }))
}

/// Moves the calling process into a cgroup through its open file `cgroup.procs`. May be called between fork and exec.
pub(crate) fn enter_group(cgroup_procs: RawFd) -> io::Result<()> {
    // SAFETY: the kernel reads one byte of a literal; an invalid descriptor returns an error.
    checked(|| unsafe { libc::write(cgroup_procs, c"0".as_ptr().cast(), 1) as c_long }).map(drop)
}

/// prctl(2): makes the kernel kill the calling process when the thread that forked it ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: this prctl takes one integer and has no effect on memory.
    checked(|| unsafe { c_long::from(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong)) }).map(drop)
}

/// fork(2): starts a process that keeps a descriptor open until it is readable, its peer has closed it, or `timeout_ms`
/// (-1: no limit) has elapsed. If the descriptor never became readable, the process then writes each text of
/// `on_close` to its file. It survives this process and receives no signals of the terminal. The caller must
/// wait for it with [`wait_for_child`].
pub(crate) fn keep_open(held: &impl AsRawFd, timeout_ms: c_int, on_close: &[(&File, &CStr)]) -> io::Result<u32> {
    let held = held.as_raw_fd();
    let open = || on_close.iter().map(|(file, _)| file.as_raw_fd()).chain([held]);
    // SAFETY: the child of a process with threads may only make system calls, and it does nothing else: it closes all
    // other descriptors, so that it holds no locks or pipes, waits, writes, and exits without running exit handlers.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::setsid();
            let mut from = 0;
            while let Some(fd) = open().filter(|fd| *fd >= from).min() {
                if from < fd {
                    libc::syscall(libc::SYS_close_range, from, fd - 1, 0);
                }
                from = fd + 1;
            }
            libc::syscall(libc::SYS_close_range, from, c_int::MAX, 0);
            let mut waited = libc::pollfd { fd: held, events: libc::POLLIN, revents: 0 };
            while libc::poll(&raw mut waited, 1, timeout_ms) < 0 && *libc::__errno_location() == libc::EINTR {}
            if waited.revents & libc::POLLIN == 0 {
                for (file, text) in on_close {
                    libc::write(file.as_raw_fd(), text.as_ptr().cast(), text.count_bytes());
                }
            }
            libc::_exit(0);
        }
        u32::try_from(pid).map_err(|_| io::Error::last_os_error())
    }
}

/// waitpid(2): waits until a child has ended.
pub(crate) fn wait_for_child(pid: u32) -> io::Result<()> {
    // SAFETY: the status pointer is null, so nothing is written.
    checked(|| unsafe { c_long::from(libc::waitpid(pid as c_int, ptr::null_mut(), 0)) }).map(drop)
}

pub(crate) fn parent_id() -> u32 {
    // SAFETY: getppid has no preconditions and cannot fail.
    unsafe { libc::getppid() as u32 }
}

/// Makes this process and its children the first candidates of the OOM killer, so that it spares the monitoring
/// process, which stores the failure of the trial. May be called between vfork and exec.
pub(crate) fn set_oom_score_max() {
    // SAFETY: open, write and close take literals that end with a zero byte and a descriptor of this process. Errors
    // are ignored: the score then keeps its default.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, c"1000".as_ptr().cast(), 4);
            libc::close(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_round_trip_through_sets() {
        for list in ["", "0", "0-1", "63-64", "0,8191"] {
            let cpus = CpuSet::parse_list(list).unwrap();
            assert_eq!(CpuMask::from_set(&cpus).unwrap().to_set(), cpus, "{list}");
        }
        assert!(CpuMask::from_set(&CpuSet::parse_list("8192").unwrap()).is_none());
        assert_eq!(NodeMask::from_set(&NodeSet::parse_list("3,1023").unwrap()).unwrap().to_set().to_string(), "3,1023");
        assert!(NodeMask::from_set(&NodeSet::parse_list("1024").unwrap()).is_none());
    }

    /// A write to a closed connection raises SIGPIPE, so only the holder may close it.
    #[test]
    fn connection_is_kept_open_until_the_response_arrives() {
        use std::io::{ErrorKind, Write};
        let (local, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let holder = keep_open(&local, 60_000, &[]).unwrap();
        drop(local);
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{holder}/stat")).expect("the process is not reaped");
            stat.rsplit_once(") ").map(|(_, fields)| fields.as_bytes()[0])
        };
        // Running, or waiting for its memory.
        while matches!(state(), Some(b'R' | b'D')) {
            std::thread::yield_now();
        }
        assert_eq!(state(), Some(b'S'), "the holder waits");
        peer.write_all(b"answer").expect("the connection is open");
        wait_for_child(holder).unwrap();
        let refused = peer.write_all(b"more").map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::BrokenPipe), "the holder has ended");
    }

    #[test]
    fn errors_contain_the_operation_and_the_cause() {
        let refusal = SyscallError::new("set the affinity to CPU 7", &io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(refusal.to_string(), "cannot set the affinity to CPU 7: Operation not permitted (os error 1)");
    }

    #[test]
    fn interrupted_call_is_retried() {
        let mut results = [-1, -1, 5].into_iter();
        let result = checked(|| {
            let result = results.next().expect("three results");
            // SAFETY: errno is this thread's own.
            unsafe { *libc::__errno_location() = libc::EINTR };
            result
        });
        assert_eq!(result.unwrap(), 5);
    }
}
