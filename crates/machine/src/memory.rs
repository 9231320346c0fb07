//! Memory with a known placement: maps anonymous pages, sets their memory policy before the first touch, and reads the
//! memory nodes that they are on.
//!
//! The element type is part of the type of a mapping, so that all shared references to its bytes agree on whether they
//! may change. Another view of the same bytes takes a shared borrow if neither type has interior mutability
//! ([`cast_slice`]), and an exclusive one otherwise ([`cast_slice_mut`]): atomics of `u64` memory exclude every other
//! access while they live.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use model::analysis::residency::PageStatus;
use model::hint::Hinted;
use model::values::id_set::{NodeId, NodeSet};
use model::values::placement::MemoryPolicy;
use model::values::units::Bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::mempolicy::{self, PolicyCode};
use crate::residency;
use crate::syscall::{self, SyscallError};
use crate::sysfs;

/// Use of transparent huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// The system's setting, `/sys/kernel/mm/transparent_hugepage/enabled`.
    System,
    /// Pages of the base size only.
    Never,
    /// Requested. The kernel uses them if it can; [`PlacedMemory::huge_bytes`] returns how much memory has them.
    Wanted,
}

/// Memory that could not be placed or inspected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    #[error(transparent)]
    Refused(SyscallError),
    /// Too little memory is available; touching it would trigger the kernel's OOM killer.
    #[error("{asked} of memory do not fit: {} are {}", available.bytes, available.of)]
    TooLarge { asked: Bytes, available: AvailableMemory },
    #[error("0 bytes of memory cannot be placed")]
    Empty,
}

/// Available memory and the limit that determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// Excludes mapped but still untouched [`PlacedMemory`] of this process.
    pub bytes: Bytes,
    /// For messages: `available on this machine`, `left by the limit of cgroup ...`, `free on memory nodes 0-1`.
    pub of: String,
}

impl Hinted for MemoryError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refused) => refused.hint(),
            Self::TooLarge { .. } => Some("choose a smaller size, or stop other programs that use memory".into()),
            Self::Empty => None,
        }
    }
}

/// Views the bytes of values as values of another type; bytes at the end that do not make a whole value are left out.
///
/// ```
/// use machine::memory::{PlacedMemory, cast_slice};
///
/// fn bytes(memory: &PlacedMemory<u64>) -> &[u8] {
///     cast_slice(memory.as_slice())
/// }
/// ```
///
/// Neither type has interior mutability:
///
/// ```compile_fail,E0277
/// # use std::sync::atomic::AtomicU64;
/// use machine::memory::{PlacedMemory, cast_slice};
///
/// fn atomics_of_plain_memory(memory: &PlacedMemory<u64>) -> &[AtomicU64] {
///     cast_slice(memory.as_slice()) // other code may hold a `&[u64]` of the same bytes
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use std::sync::atomic::AtomicU64;
/// use machine::memory::{PlacedMemory, cast_slice};
///
/// fn plain_values_of_atomics(memory: &PlacedMemory<AtomicU64>) -> &[u64] {
///     cast_slice(memory.as_slice()) // other code may store to the same bytes
/// }
/// ```
///
/// # Panics
/// If the first byte is not aligned for `U`. Memory of this module is aligned for every `U`.
pub fn cast_slice<T: IntoBytes + Immutable, U: FromBytes + Immutable>(values: &[T]) -> &[U] {
    let (values, _) = <[U]>::ref_from_prefix(values.as_bytes()).expect("the bytes are aligned for the other type");
    values
}

/// Views the bytes of values as values of another type for as long as nothing else can use them; bytes at the end that
/// do not make a whole value are left out. Atomics for several threads come from here:
///
/// ```
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// use machine::memory::cast_slice_mut;
///
/// let mut sums = [0_u64; 4];
/// let shared: &[AtomicU64] = cast_slice_mut(&mut sums);
/// std::thread::scope(|scope| {
///     (0..4).for_each(|_| drop(scope.spawn(|| shared[3].fetch_add(1, Ordering::Relaxed))));
/// });
/// assert_eq!(sums[3], 4);
/// ```
///
/// The plain values cannot be read before the atomics are gone:
///
/// ```compile_fail,E0502
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// use machine::memory::{PlacedMemory, cast_slice_mut};
///
/// fn stale_read(memory: &mut PlacedMemory<u64>) -> u64 {
///     let shared: &[AtomicU64] = cast_slice_mut(memory.as_mut_slice());
///     let plain: &[u64] = memory.as_slice();
///     shared[0].store(1, Ordering::Relaxed);
///     plain[0]
/// }
/// ```
///
/// # Panics
/// If the first byte is not aligned for `U`. Memory of this module is aligned for every `U`.
pub fn cast_slice_mut<T: FromBytes + IntoBytes, U: FromBytes + IntoBytes>(values: &mut [T]) -> &mut [U] {
    let (values, _) = <[U]>::mut_from_prefix(values.as_mut_bytes()).expect("the bytes are aligned for the other type");
    values
}

/// Anonymous memory with a memory policy, mapped but not touched, so that the threads that use it can touch it first.
/// Its values are zero until they are written. Dropping it unmaps it.
///
/// A shared reference provides access only as values of the mapping's type:
///
/// ```compile_fail,E0308
/// # use std::sync::atomic::AtomicU64;
/// use machine::memory::PlacedMemory;
///
/// fn both(memory: &PlacedMemory<u64>) -> (&[u64], &[AtomicU64]) {
///     (memory.as_slice(), memory.as_slice())
/// }
/// ```
#[derive(Debug)]
pub struct PlacedMemory<T = u8> {
    start: NonNull<T>,
    bytes: usize,
    mapped: usize,
    values: PhantomData<T>,
}

// SAFETY: the mapping has one owner, as a boxed slice has: moving it to another thread moves its values, which are
// Send.
unsafe impl<T: Send> Send for PlacedMemory<T> {}
// SAFETY: a shared reference provides shared references to the values, which are Sync, and a pointer, whose use is
// unsafe.
unsafe impl<T: Sync> Sync for PlacedMemory<T> {}

/// Alignment of all mappings, so that huge pages can be used from the start and all trials have the same alignment.
/// 2 MiB is the size of a huge page on x86-64 and on 64-bit ARM with 4 KiB pages.
const ALIGNMENT: usize = 2 << 20;

/// Bytes that [`PlacedMemory`] currently maps. The kernel's estimate of available memory ignores untouched ones.
static MAPPED: AtomicU64 = AtomicU64::new(0);

impl<T: FromBytes + IntoBytes> PlacedMemory<T> {
    /// Maps `bytes` bytes (at least one) and sets their policy, without touching them.
    ///
    /// # Errors
    /// If the memory is not available (the kernel would kill a process at the touch), or if a system call fails.
    pub fn new(bytes: usize, policy: &MemoryPolicy, huge: HugePages) -> Result<Self, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        check_available(Bytes(bytes as u64), policy)?;
        let code = PolicyCode::of(policy).map_err(MemoryError::Refused)?;
        let memory = Self::map(bytes)?;
        if let Some(code) = code {
            syscall::mbind(memory.first_byte(), memory.mapped, code.mode, &code.nodes, false)
                .map_err(|error| MemoryError::Refused(mempolicy::refusal("apply", policy, &error)))?;
        }
        memory.advise(huge)?;
        Ok(memory)
    }

    /// Returns all values; bytes at the end that do not make a whole value are left out.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: `len` values from `start` on are in the mapping, which is readable and writable, is aligned for T
        // (asserted in `len`) and is borrowed exclusively through self. Every bit pattern is a value of T, which is
        // FromBytes.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }

    /// Returns all values; bytes at the end that do not make a whole value are left out.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: as in `as_mut_slice`, and borrowed shared: through a shared reference, safe code reaches these bytes
        // as values of T alone, so that they change only if T has interior mutability.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len()) }
    }

    fn len(&self) -> usize {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        self.bytes / size_of::<T>()
    }

    /// Returns a pointer to the first value, for threads that divide the values between them. It is not derived from a
    /// reference, so it stays valid whichever slices are borrowed before and after its use.
    pub fn start(&self) -> NonNull<T> {
        self.start
    }

    pub fn bytes(&self) -> Bytes {
        Bytes(self.bytes as u64)
    }

    /// Returns the number of resident pages by node (`move_pages(2)`), in pages of the base size. If there are more
    /// than `pages_max` pages, only `pages_max` evenly spaced ones are queried. Pages never written are not counted.
    pub fn pages_by_node(&self, pages_max: usize) -> Result<BTreeMap<NodeId, u64>, MemoryError> {
        let page = syscall::page_bytes();
        let count = self.bytes.div_ceil(page);
        let first = self.first_byte().as_ptr().addr();
        let addresses: Vec<u64> = evenly_spaced(count, pages_max).map(|index| (first + index * page) as u64).collect();
        let statuses =
            residency::query(0, &addresses).map_err(|error| MemoryError::Refused(residency::query_error(&error)))?;
        Ok(count_nodes(&statuses))
    }

    /// Moves the pages that begin in this range of bytes to a node, as long as the node has free memory.
    pub fn move_to(&self, bytes: Range<usize>, node: NodeId) -> Result<(), MemoryError> {
        let page = syscall::page_bytes();
        let [from, to] = [bytes.start, bytes.end].map(|byte| byte.next_multiple_of(page).min(self.mapped));
        if from >= to {
            return Ok(());
        }
        let policy = MemoryPolicy::Preferred(node);
        let refused = |refusal| MemoryError::Refused(refusal);
        let Some(code) = PolicyCode::of(&policy).map_err(refused)? else { return Ok(()) };
        // SAFETY: from < mapped, so the address is in the mapping.
        let start = unsafe { self.first_byte().add(from) };
        syscall::mbind(start, to - from, code.mode, &code.nodes, true)
            .map_err(|error| refused(mempolicy::refusal("move pages according to", &policy, &error)))
    }

    /// Returns the bytes in transparent huge pages, or `None` if the kernel does not report them.
    pub fn huge_bytes(&self) -> Option<Bytes> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = self.start.as_ptr() as u64;
        Some(huge_bytes_between(&text, start, start + self.mapped as u64))
    }

    fn first_byte(&self) -> NonNull<u8> {
        self.start.cast()
    }

    /// Allocates the same range of zeros, because Miri has no partial `munmap(2)`.
    #[cfg(miri)]
    fn map(bytes: usize) -> Result<Self, MemoryError> {
        let mapped = bytes.next_multiple_of(syscall::page_bytes());
        // SAFETY: the size is not zero, because `new` rejects zero bytes.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(miri_layout(mapped)) }).expect("Miri has memory");
        MAPPED.fetch_add(mapped as u64, Ordering::Relaxed);
        Ok(Self { start: start.cast(), bytes, mapped, values: PhantomData })
    }

    #[cfg(not(miri))]
    fn map(bytes: usize) -> Result<Self, MemoryError> {
        let page = syscall::page_bytes();
        let what = || format!("map {} of memory (mmap)", Bytes(bytes as u64));
        let too_large =
            || MemoryError::Refused(SyscallError::new(what(), &std::io::Error::from_raw_os_error(libc::ENOMEM)));
        let mapped = bytes.checked_next_multiple_of(page).ok_or_else(too_large)?;
        let reserved = mapped.checked_add(ALIGNMENT).ok_or_else(too_large)?;
        let all = syscall::map_anonymous(reserved)
            .map_err(|error| MemoryError::Refused(SyscallError::new(what(), &error)))?;
        let before = all.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: before < ALIGNMENT <= reserved, so the aligned start is in the mapping.
        let start = unsafe { all.add(before) };
        release(all, before);
        // SAFETY: before + mapped <= reserved, so the end of the aligned part is in the mapping or directly after it.
        release(unsafe { start.add(mapped) }, ALIGNMENT - before);
        MAPPED.fetch_add(mapped as u64, Ordering::Relaxed);
        Ok(Self { start: start.cast(), bytes, mapped, values: PhantomData })
    }

    fn advise(&self, huge: HugePages) -> Result<(), MemoryError> {
        let huge = match huge {
            HugePages::System => return Ok(()),
            // Miri has no madvise(2), which changes no value.
            _ if cfg!(miri) => return Ok(()),
            HugePages::Never => false,
            HugePages::Wanted => true,
        };
        match syscall::advise_huge(self.first_byte(), self.mapped, huge) {
            // EINVAL: the kernel has no transparent huge pages, as Never requires, and Wanted is only a preference.
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
                Err(MemoryError::Refused(SyscallError::new("set the use of huge pages (madvise)", &error)))
            }
            _ => Ok(()),
        }
    }
}

impl<T> Drop for PlacedMemory<T> {
    fn drop(&mut self) {
        release(self.start.cast(), self.mapped);
        MAPPED.fetch_sub(self.mapped as u64, Ordering::Relaxed);
    }
}

/// Unmaps a part of a mapping that nothing refers to: its unneeded ends, or all of it on drop.
#[cfg(not(miri))]
fn release(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: this function is private; its callers pass ranges of a mapping that they own and no slice borrows:
        // parts before the value exists, or the whole mapping on drop. An error means a wrong range, which is a bug.
        unsafe { syscall::unmap(start, bytes) }.expect("a range of the mapping can be unmapped");
    }
}

#[cfg(miri)]
fn release(start: NonNull<u8>, bytes: usize) {
    // SAFETY: in Miri only drop calls this, with the allocation of `map` and the same layout.
    unsafe { std::alloc::dealloc(start.as_ptr(), miri_layout(bytes)) }
}

#[cfg(miri)]
fn miri_layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, ALIGNMENT).expect("tests in Miri are small")
}

/// Returns at most `limit` evenly spaced numbers below `count`.
fn evenly_spaced(count: usize, limit: usize) -> impl Iterator<Item = usize> {
    let chosen = count.min(limit);
    (0..chosen).map(move |index| (index as u128 * count as u128 / chosen as u128) as usize)
}

/// Counts the resident pages. Others were never touched or are swapped out, or were only read and are the shared zero page.
fn count_nodes(statuses: &[PageStatus]) -> BTreeMap<NodeId, u64> {
    let mut by_node = BTreeMap::new();
    for status in statuses {
        if let PageStatus::On(node) = status {
            *by_node.entry(*node).or_insert(0) += 1;
        }
    }
    by_node
}

/// Sums the `AnonHugePages` of the mappings of an smaps text that begin in a range.
fn huge_bytes_between(smaps: &str, from: u64, to: u64) -> Bytes {
    let begins = |line: &str| u64::from_str_radix(line.split_once('-')?.0, 16).ok();
    let (mut inside, mut total) = (false, 0_u64);
    for line in smaps.lines() {
        if let Some(start) = begins(line) {
            inside = (from..to).contains(&start);
        } else if inside && line.starts_with("AnonHugePages:") {
            total += sysfs::meminfo_bytes(line, "AnonHugePages").unwrap_or_default().0;
        }
    }
    Bytes(total)
}

/// Returns the memory available to this process: the lower of the kernel's estimate for the machine and the remainder
/// of its cgroup limits. `None` if the kernel reports neither.
pub fn available() -> Option<Bytes> {
    available_for(Path::new("/"), &MemoryPolicy::Kernel).map(|available| available.bytes)
}

/// Checks whether `asked` bytes are available under a policy.
///
/// # Errors
/// [`MemoryError::TooLarge`] if less memory is available.
pub fn check_available(asked: Bytes, policy: &MemoryPolicy) -> Result<(), MemoryError> {
    // Miri reads /proc slowly, and its tests are small.
    if cfg!(miri) {
        return Ok(());
    }
    match available_for(Path::new("/"), policy) {
        Some(available) if asked > available.bytes => Err(MemoryError::TooLarge { asked, available }),
        // Unknown (no /proc): the allocation itself will fail.
        _ => Ok(()),
    }
}

/// Returns the current and the peak resident memory of this process, including the pages of its program, or `None` if
/// the kernel does not report them.
pub fn resident() -> Option<(Bytes, Bytes)> {
    let status = sysfs::read_text(Path::new("/"), "proc/self/status").ok()?;
    Some((sysfs::meminfo_bytes(&status, "VmRSS")?, sysfs::meminfo_bytes(&status, "VmHWM")?))
}

fn available_for(root: &Path, policy: &MemoryPolicy) -> Option<AvailableMemory> {
    let meminfo = sysfs::read_text(root, "proc/meminfo").unwrap_or_default();
    let machine = sysfs::meminfo_bytes(&meminfo, "MemAvailable")
        .map(|bytes| AvailableMemory { bytes, of: "available on this machine".into() });
    let group = sysfs::available_memory(root).map(|(cgroup, bytes)| AvailableMemory {
        bytes,
        of: format!("left by the limit of cgroup {}", cgroup.display()),
    });
    let nodes = match policy {
        MemoryPolicy::Bind(nodes) => available_on(root, nodes),
        // All other policies fall back to other nodes.
        _ => None,
    };
    let mut available = [machine, group, nodes].into_iter().flatten().min_by_key(|available| available.bytes)?;
    available.bytes = Bytes(available.bytes.0.saturating_sub(untouched_bytes(root)));
    Some(available)
}

/// Returns the memory available on nodes, or `None` on a machine with one node, where the machine's total applies.
fn available_on(root: &Path, nodes: &NodeSet) -> Option<AvailableMemory> {
    let online: NodeSet = sysfs::read_list(root, "sys/devices/system/node/has_memory")?;
    if online.len() < 2 {
        return None;
    }
    let mut bytes = 0_u64;
    for node in nodes.intersection(&online).iter() {
        let text = sysfs::read_text(root, &format!("sys/devices/system/node/node{node}/meminfo")).ok()?;
        let of = |name| sysfs::meminfo_bytes(&text, name).unwrap_or_default().0;
        bytes = bytes.saturating_add(of("MemFree") + of("Active(file)") + of("Inactive(file)") + of("SReclaimable"));
    }
    Some(AvailableMemory { bytes: Bytes(bytes), of: format!("free on memory {}", nodes.described()) })
}

/// Estimates the placed memory that is not yet touched. All resident anonymous pages are assumed to be placed ones,
/// because they cannot be distinguished: the estimate may be too low, so that a size is accepted.
fn untouched_bytes(root: &Path) -> u64 {
    let mapped = MAPPED.load(Ordering::Relaxed);
    if mapped == 0 {
        return 0;
    }
    let status = sysfs::read_text(root, "proc/self/status").unwrap_or_default();
    mapped.saturating_sub(sysfs::meminfo_bytes(&status, "RssAnon").unwrap_or_default().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    fn placed(bytes: usize, policy: &str) -> Option<PlacedMemory> {
        let policy = match policy {
            "bind 0" => MemoryPolicy::Bind(NodeSet::parse_list("0").unwrap()),
            "local" => MemoryPolicy::Local,
            _ => MemoryPolicy::Kernel,
        };
        match PlacedMemory::new(bytes, &policy, HugePages::Never) {
            Err(MemoryError::Refused(refusal)) if matches!(refusal.errno, libc::EPERM | libc::ENOSYS) => {
                println!("skipped: {refusal}");
                None
            }
            result => Some(result.unwrap()),
        }
    }

    #[test]
    fn pages_move_to_existing_nodes() {
        let page = syscall::page_bytes();
        let Some(mut memory) = placed(8 * page, "kernel") else { return };
        memory.as_mut_slice().fill(1);
        match memory.move_to(0..8 * page, NodeId(0)) {
            Err(MemoryError::Refused(refusal)) if matches!(refusal.errno, libc::EPERM | libc::ENOSYS) => {
                return println!("skipped: {refusal}");
            }
            moved => moved.unwrap(),
        }
        assert_eq!(memory.pages_by_node(1000).unwrap(), [(NodeId(0), 8)].into());
        assert!(memory.as_slice().iter().all(|byte| *byte == 1));
        // Only pages that begin in the range are moved.
        assert!(memory.move_to(page..2 * page, NodeId(1000)).is_err());
        memory.move_to(1..page, NodeId(1000)).unwrap();
    }

    #[test]
    fn only_touched_pages_are_counted() {
        let page = syscall::page_bytes();
        for policy in ["bind 0", "local", "kernel"] {
            let Some(mut memory) = placed(64 * page, policy) else { continue };
            let untouched = match memory.pages_by_node(1000) {
                Err(MemoryError::Refused(refusal)) if refusal.errno == libc::ENOSYS => {
                    return println!("skipped: {refusal}");
                }
                pages => pages.unwrap(),
            };
            assert!(untouched.is_empty(), "{policy}: new memory is untouched");
            memory.as_mut_slice()[..16 * page].fill(1);
            assert_eq!(memory.pages_by_node(1000).unwrap().values().sum::<u64>(), 16, "{policy}");
            cast_slice_mut::<u8, u64>(memory.as_mut_slice()).fill(1);
            let pages = memory.pages_by_node(1000).unwrap();
            assert_eq!(pages.values().sum::<u64>(), 64, "{policy}");
            if policy == "bind 0" {
                assert_eq!(pages, [(NodeId(0), 64)].into());
            }
            assert_eq!(memory.pages_by_node(10).unwrap().values().sum::<u64>(), 10, "{policy}");
        }
    }

    #[test]
    fn slices_are_aligned_and_contain_only_whole_values() {
        let Some(mut memory) = placed(4097, "kernel") else { return };
        assert_eq!(memory.bytes(), Bytes(4097));
        assert_eq!(memory.as_mut_slice().len(), 4097);
        assert_eq!(cast_slice_mut::<u8, f64>(memory.as_mut_slice()).len(), 512);
        assert!(cast_slice::<u8, f64>(memory.as_slice()).iter().all(|value| *value == 0.0));
        assert_eq!(memory.as_slice().as_ptr().align_offset(ALIGNMENT), 0);
        cast_slice_mut::<u8, AtomicU64>(memory.as_mut_slice())[3].store(7, Ordering::Relaxed);
        assert_eq!(cast_slice::<u8, u64>(memory.as_slice())[3], 7);
    }

    #[test]
    fn typed_memory_contains_only_whole_values() {
        let memory = |bytes| PlacedMemory::<AtomicU64>::new(bytes, &MemoryPolicy::Kernel, HugePages::Never).unwrap();
        assert!(memory(7).as_slice().is_empty());
        let mut memory = memory(23);
        let shared = memory.as_slice();
        assert_eq!(shared.len(), 2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| shared[1].fetch_add(5, Ordering::Relaxed));
            }
        });
        assert_eq!(cast_slice_mut::<AtomicU64, u64>(memory.as_mut_slice()), [0, 10]);
    }

    #[test]
    fn memory_beyond_the_limit_returns_an_error_with_sizes() {
        let asked = available().map_or(1 << 50, |bytes| bytes.0 as usize + (1 << 30));
        let error = PlacedMemory::<u8>::new(asked, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        let MemoryError::TooLarge { available, .. } = &error else { panic!("{error}") };
        assert!(available.bytes.0 > 0, "{error}");
        assert!(error.to_string().contains("do not fit"), "{error}");
        assert!(error.hint().is_some());
        let huge = PlacedMemory::<u8>::new(usize::MAX, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        assert!(matches!(huge, MemoryError::TooLarge { .. }), "{huge}");
        let none = PlacedMemory::<u8>::new(0, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        assert_eq!(none, MemoryError::Empty);
    }

    #[test]
    fn error_reports_the_tightest_limit() {
        let files = [
            ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 4000 kB\n"),
            ("sys/devices/system/node/has_memory", "0-1\n"),
            ("sys/devices/system/node/node1/meminfo", "Node 1 MemFree: 900 kB\nNode 1 Inactive(file): 100 kB\n"),
        ];
        let dir = tree(&files);
        let bind = MemoryPolicy::Bind(NodeSet::parse_list("1").unwrap());
        // Placed memory of other tests in this process is subtracted.
        let limit = |policy: &MemoryPolicy| available_for(dir.path(), policy).unwrap();
        assert_eq!(limit(&MemoryPolicy::Kernel).of, "available on this machine");
        assert_eq!(limit(&bind).of, "free on memory node 1");
        assert!(limit(&bind).bytes <= Bytes(1000 << 10));
        assert_eq!(available_for(Path::new("/nowhere"), &bind), None);
    }

    #[test]
    fn sampled_pages_are_evenly_spaced() {
        let cases: [(usize, usize, &[usize]); 5] =
            [(0, 10, &[]), (3, 10, &[0, 1, 2]), (10, 5, &[0, 2, 4, 6, 8]), (10, 3, &[0, 3, 6]), (5, 0, &[])];
        for (count, limit, expected) in cases {
            assert_eq!(evenly_spaced(count, limit).collect::<Vec<_>>(), expected, "{count} {limit}");
        }
        assert_eq!(evenly_spaced(usize::MAX, 4).last(), Some(usize::MAX / 4 * 3 + 2));
    }

    #[test]
    fn pages_that_are_not_resident_are_not_counted() {
        let on = |node| PageStatus::On(NodeId(node));
        let statuses = [on(0), on(1), PageStatus::Unknown, on(1), PageStatus::NotMemory];
        assert_eq!(count_nodes(&statuses), [(NodeId(0), 1), (NodeId(1), 2)].into());
    }

    #[test]
    fn huge_pages_are_summed_over_the_range() {
        let smaps = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      4096 kB
7f0000400000-7f0000800000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
";
        assert_eq!(huge_bytes_between(smaps, 0x7f00_0000_0000, 0x7f00_0040_0000), Bytes(4 << 20));
        assert_eq!(huge_bytes_between(smaps, 0x7f00_0000_0000, 0x7f00_0080_0000), Bytes(6 << 20));
        assert_eq!(huge_bytes_between(smaps, 0, 1), Bytes(0));
    }

    #[test]
    fn huge_pages_are_used_on_request() {
        let bytes = 8 << 20;
        let huge = |choice| {
            let mut memory = PlacedMemory::<u8>::new(bytes, &MemoryPolicy::Kernel, choice).unwrap();
            memory.as_mut_slice().fill(1);
            memory.huge_bytes()
        };
        let Some(never) = huge(HugePages::Never) else {
            println!("skipped: no /proc/self/smaps");
            return;
        };
        assert_eq!(never, Bytes(0));
        let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if enabled.contains("[never]") || enabled.is_empty() {
            println!("skipped: transparent huge pages are off here");
            return;
        }
        assert!(huge(HugePages::Wanted) > Some(Bytes(0)), "none of {bytes} bytes is in a huge page");
    }
}
