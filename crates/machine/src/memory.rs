//! Memory with a known placement: anonymous pages whose memory policy is set before the first touch, and the memory nodes
//! that the pages are on.
//!
//! The element type is part of the type of a mapping, so that all shared references to its bytes agree on whether they may
//! change. Another view of the same bytes takes a shared borrow if neither type has interior mutability ([`cast_slice`]), and
//! an exclusive one otherwise ([`cast_slice_mut`]): atomics of `u64` memory exclude every other access while they live.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;
use model::values::id_set::{NodeId, NodeSet};
use model::values::placement::MemoryPolicy;
use model::values::units::Bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::mempolicy::{self, PolicyCode};
use crate::syscall::{self, SyscallError};
use crate::sysfs;

/// Whether transparent huge pages may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// As the system is set: /`sys/kernel/mm/transparent_hugepage/enabled`.
    System,
    /// Never: pages of the base size only.
    Never,
    /// Asked for. The kernel gives them where it can; [`PlacedMemory::huge_bytes`] tells how many it gave.
    Wanted,
}

/// Why memory could not be placed, or not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryError {
    Refused(SyscallError),
    /// It does not fit; touching it would have the kernel kill somebody.
    TooLarge {
        asked: Bytes,
        room: AvailableMemory,
    },
    Empty,
}

/// How much memory there is to take, and what sets that bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// This many bytes, after what our own placed memory has been promised and not yet touched.
    pub bytes: Bytes,
    /// In words: `available on this machine`, `pending by the limit of cgroup ...`, `free on memory nodes 0-1`.
    pub of: String,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::TooLarge { asked, room } => {
                write!(f, "{asked} of memory do not fit: {} are {}", room.bytes, room.of)
            }
            Self::Empty => f.write_str("0 bytes of memory cannot be placed"),
        }
    }
}

impl std::error::Error for MemoryError {}

impl MemoryError {
    /// The next step, where one is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.hint.as_deref(),
            Self::TooLarge { .. } => Some("take a smaller size, or end what else uses memory"),
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

/// Views the bytes of values as values of another type for as long as nothing else can use them; bytes at the end that do
/// not make a whole value are left out. Atomics for several threads come from here:
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

/// Anonymous memory with a memory policy, mapped but not touched, so that the threads that use it can touch it first. Its
/// values are zero until they are written. Dropping it unmaps it.
///
/// A shared reference gives values of the type of the mapping and of no other:
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

// SAFETY: the mapping has one owner, as a boxed slice has: moving it to another thread moves its values, which are Send.
unsafe impl<T: Send> Send for PlacedMemory<T> {}
// SAFETY: a shared reference gives shared references to the values, which are Sync, and a pointer, whose use is unsafe.
unsafe impl<T: Sync> Sync for PlacedMemory<T> {}

/// Memory begins at a multiple of this, so that huge pages can begin with it and every trial has the same alignment.
/// 2 MiB is the size of a huge page on x86-64 and on 64-bit ARM with 4 KiB pages.
const ALIGNMENT: usize = 2 << 20;

/// How many pages one call of `move_pages(2)` asks about; the kernel works in small batches of its own anyway.
const PAGES_PER_CALL: usize = 4096;

/// Bytes that live [`PlacedMemory`] has mapped: untouched, they are missing from what the kernel calls available.
static MAPPED: AtomicU64 = AtomicU64::new(0);

impl<T: FromBytes + IntoBytes> PlacedMemory<T> {
    /// Maps `bytes` bytes (at least one) and sets their policy, without touching them.
    ///
    /// # Errors
    /// If the memory is not available, because the kernel would kill a process at the touch, or if the kernel refuses.
    pub fn new(bytes: usize, policy: &MemoryPolicy, huge: HugePages) -> Result<Self, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        check_room(Bytes(bytes as u64), policy)?;
        let code = PolicyCode::of(policy).map_err(MemoryError::Refused)?;
        let memory = Self::map(bytes)?;
        if let Some(code) = code {
            syscall::mbind(memory.first_byte(), memory.mapped, code.mode, &code.nodes, false)
                .map_err(|error| MemoryError::Refused(mempolicy::refusal("give memory", policy, &error)))?;
        }
        memory.advise(huge)?;
        Ok(memory)
    }

    /// Returns all values; bytes at the end that do not make a whole value are left out.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: `len` values from `start` on lie in the mapping, which is readable and writable, is aligned for T (asserted
        // in `len`) and is borrowed exclusively through self. Every bit pattern is a value of T, which is FromBytes.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }

    /// Returns all values; bytes at the end that do not make a whole value are left out.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: as in `as_mut_slice`, and borrowed shared: through a shared reference, safe code reaches these bytes as
        // values of T alone, so that they change only if T has interior mutability.
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

    /// How many bytes there are.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.bytes as u64)
    }

    /// On which nodes its pages are now (`move_pages(2)`), in pages of the base size. Of memory with more than
    /// `pages_max` pages only that many are asked about, evenly spread. Pages that nobody has written yet are not
    /// resident and are counted nowhere.
    pub fn pages_by_node(&self, pages_max: usize) -> Result<BTreeMap<NodeId, u64>, MemoryError> {
        let page = syscall::page_bytes();
        let count = self.bytes.div_ceil(page);
        let addresses: Vec<*const u8> = spread(count, pages_max)
            .map(|index| self.first_byte().as_ptr().cast_const().wrapping_add(index * page))
            .collect();
        let mut by_node = BTreeMap::new();
        for some in addresses.chunks(PAGES_PER_CALL) {
            let mut status: Vec<c_int> = vec![-libc::ENOENT; some.len()];
            syscall::pages_status(some, &mut status).map_err(|error| {
                let refusal = SyscallError::new("ask where pages are (move_pages)", &error);
                MemoryError::Refused(refusal.with_hint(mempolicy::hint(&error)))
            })?;
            count_nodes(&status, &mut by_node);
        }
        Ok(by_node)
    }

    /// Moves the pages that begin in this range of its bytes to a node, as far as that has room.
    pub fn move_to(&self, bytes: Range<usize>, node: NodeId) -> Result<(), MemoryError> {
        let page = syscall::page_bytes();
        let [from, to] = [bytes.start, bytes.end].map(|byte| byte.next_multiple_of(page).min(self.mapped));
        if from >= to {
            return Ok(());
        }
        let policy = MemoryPolicy::Preferred(node);
        let refused = |refusal| MemoryError::Refused(refusal);
        let Some(code) = PolicyCode::of(&policy).map_err(refused)? else { return Ok(()) };
        // SAFETY: from < mapped: the place lies in the mapping.
        let start = unsafe { self.first_byte().add(from) };
        syscall::mbind(start, to - from, code.mode, &code.nodes, true)
            .map_err(|error| refused(mempolicy::refusal("move memory", &policy, &error)))
    }

    /// How many of its bytes are in transparent huge pages now; none where the kernel does not say.
    pub fn huge_bytes(&self) -> Option<Bytes> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = self.start.as_ptr() as u64;
        Some(huge_bytes_between(&text, start, start + self.mapped as u64))
    }

    fn first_byte(&self) -> NonNull<u8> {
        self.start.cast()
    }

    /// Miri has no partial `munmap(2)`: allocates the same range of zeros.
    #[cfg(miri)]
    fn map(bytes: usize) -> Result<Self, MemoryError> {
        let mapped = bytes.next_multiple_of(syscall::page_bytes());
        // SAFETY: the size is not zero, because `new` refuses zero bytes.
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
        // SAFETY: before < ALIGNMENT <= reserved, so the aligned start lies in the mapping.
        let start = unsafe { all.add(before) };
        give_back(all, before);
        // SAFETY: before + mapped <= reserved: the end of the aligned part lies in the mapping, or just after it.
        give_back(unsafe { start.add(mapped) }, ALIGNMENT - before);
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
            // A kernel without transparent huge pages has answered the question of Never, and wanting is not needing.
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
                Err(MemoryError::Refused(SyscallError::new("choose the size of pages (madvise)", &error)))
            }
            _ => Ok(()),
        }
    }
}

impl<T> Drop for PlacedMemory<T> {
    fn drop(&mut self) {
        give_back(self.start.cast(), self.mapped);
        MAPPED.fetch_sub(self.mapped as u64, Ordering::Relaxed);
    }
}

/// Unmaps a part of a mapping that nothing refers to: its unneeded ends, or all of it on drop.
#[cfg(not(miri))]
fn give_back(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the callers in this file, and nobody else can call, pass ranges of their own mapping that no slice
        // borrows: parts before the value exists, or the whole when it is dropped.
        // A failure would be a wrong range, which is our bug.
        unsafe { syscall::unmap(start, bytes) }.expect("a range of our own mapping can be unmapped");
    }
}

#[cfg(miri)]
fn give_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: only drop calls this in Miri, with what `map` has allocated with the same layout.
    unsafe { std::alloc::dealloc(start.as_ptr(), miri_layout(bytes)) }
}

#[cfg(miri)]
fn miri_layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, ALIGNMENT).expect("tests in Miri are small")
}

/// At most `most` of the numbers below `count`, evenly spread.
fn spread(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let asked = count.min(most);
    (0..asked).map(move |index| (index as u128 * count as u128 / asked as u128) as usize)
}

/// Adds the pages that are somewhere; negative statuses are pages that are not (ENOENT: never touched or swapped out,
/// EFAULT: only ever read, so the shared zero page).
fn count_nodes(status: &[c_int], by_node: &mut BTreeMap<NodeId, u64>) {
    for node in status.iter().filter_map(|status| u32::try_from(*status).ok()) {
        *by_node.entry(NodeId(node)).or_insert(0) += 1;
    }
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

/// How much memory this process can take now: the kernel's estimate for the machine, or what the limits of its
/// cgroups leave, whichever is less. None where the kernel says neither.
pub fn available() -> Option<Bytes> {
    room_for(Path::new("/"), &MemoryPolicy::Kernel).map(|room| room.bytes)
}

/// Whether so much can be taken under a policy, asked before it is.
///
/// # Errors
/// What there is when that is less, and of what.
pub fn check_room(asked: Bytes, policy: &MemoryPolicy) -> Result<(), MemoryError> {
    // Miri reads /proc slowly, and its tests are small.
    if cfg!(miri) {
        return Ok(());
    }
    match room_for(Path::new("/"), policy) {
        Some(room) if asked > room.bytes => Err(MemoryError::TooLarge { asked, room }),
        // Where the kernel does not say (no /proc), only trying can tell.
        _ => Ok(()),
    }
}

/// What this process has in memory now, pages of its program included, and the most that it ever had. None where the kernel does
/// not say.
pub fn resident() -> Option<(Bytes, Bytes)> {
    let status = sysfs::read_text(Path::new("/"), "proc/self/status").ok()?;
    Some((sysfs::meminfo_bytes(&status, "VmRSS")?, sysfs::meminfo_bytes(&status, "VmHWM")?))
}

fn room_for(root: &Path, policy: &MemoryPolicy) -> Option<AvailableMemory> {
    let meminfo = sysfs::read_text(root, "proc/meminfo").unwrap_or_default();
    let machine = sysfs::meminfo_bytes(&meminfo, "MemAvailable")
        .map(|bytes| AvailableMemory { bytes, of: "available on this machine".into() });
    let group = sysfs::available_memory(root).map(|(folder, bytes)| AvailableMemory {
        bytes,
        of: format!("left by the limit of cgroup {}", folder.display()),
    });
    let nodes = match policy {
        MemoryPolicy::Bind(nodes) => room_on(root, nodes),
        // All others fall back to further nodes.
        _ => None,
    };
    let mut room = [machine, group, nodes].into_iter().flatten().min_by_key(|room| room.bytes)?;
    room.bytes = Bytes(room.bytes.0.saturating_sub(promised(root)));
    Some(room)
}

/// What nodes can give; none on a machine with one node, whose own number is the machine's.
fn room_on(root: &Path, nodes: &NodeSet) -> Option<AvailableMemory> {
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
    let noun = if nodes.len() == 1 { "node" } else { "nodes" };
    Some(AvailableMemory { bytes: Bytes(bytes), of: format!("free on memory {noun} {nodes}") })
}

/// Placed memory that nobody has touched yet. Which of our anonymous pages are placed ones is not known, so all of
/// them are taken for it: the result errs towards letting a size through.
fn promised(root: &Path) -> u64 {
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
    fn pages_move_to_nodes_that_are_there() {
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
        // The kernel is asked only about pages that begin there.
        assert!(memory.move_to(page..2 * page, NodeId(1000)).is_err());
        memory.move_to(1..page, NodeId(1000)).unwrap();
    }

    #[test]
    fn pages_are_counted_once_they_are_touched() {
        let page = syscall::page_bytes();
        for policy in ["bind 0", "local", "kernel"] {
            let Some(mut memory) = placed(64 * page, policy) else { continue };
            let untouched = match memory.pages_by_node(1000) {
                Err(MemoryError::Refused(refusal)) if refusal.errno == libc::ENOSYS => {
                    return println!("skipped: {refusal}");
                }
                pages => pages.unwrap(),
            };
            assert!(untouched.is_empty(), "{policy}: nothing is touched before its use");
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
    fn slices_hold_whole_values_and_begin_aligned() {
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
    fn typed_memory_holds_whole_values_and_atomics() {
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
    fn what_does_not_fit_is_refused_with_sizes() {
        let asked = available().map_or(1 << 50, |bytes| bytes.0 as usize + (1 << 30));
        let error = PlacedMemory::<u8>::new(asked, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        let MemoryError::TooLarge { room, .. } = &error else { panic!("{error}") };
        assert!(room.bytes.0 > 0, "{error}");
        assert!(error.to_string().contains("do not fit"), "{error}");
        assert!(error.hint().is_some());
        let huge = PlacedMemory::<u8>::new(usize::MAX, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        assert!(matches!(huge, MemoryError::TooLarge { .. }), "{huge}");
        let none = PlacedMemory::<u8>::new(0, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        assert_eq!(none, MemoryError::Empty);
    }

    #[test]
    fn the_tightest_bound_is_named() {
        let files = [
            ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 4000 kB\n"),
            ("sys/devices/system/node/has_memory", "0-1\n"),
            ("sys/devices/system/node/node1/meminfo", "Node 1 MemFree: 900 kB\nNode 1 Inactive(file): 100 kB\n"),
        ];
        let folder = tree(&files);
        let bind = MemoryPolicy::Bind(NodeSet::parse_list("1").unwrap());
        // Other tests of this process may hold placed memory, whose size is taken off.
        let room = |policy: &MemoryPolicy| room_for(folder.path(), policy).unwrap();
        assert_eq!(room(&MemoryPolicy::Kernel).of, "available on this machine");
        assert_eq!(room(&bind).of, "free on memory node 1");
        assert!(room(&bind).bytes <= Bytes(1000 << 10));
        assert_eq!(room_for(Path::new("/nowhere"), &bind), None);
    }

    #[test]
    fn pages_are_picked_evenly() {
        let cases: [(usize, usize, &[usize]); 5] =
            [(0, 10, &[]), (3, 10, &[0, 1, 2]), (10, 5, &[0, 2, 4, 6, 8]), (10, 3, &[0, 3, 6]), (5, 0, &[])];
        for (count, most, expected) in cases {
            assert_eq!(spread(count, most).collect::<Vec<_>>(), expected, "{count} {most}");
        }
        assert_eq!(spread(usize::MAX, 4).last(), Some(usize::MAX / 4 * 3 + 2));
    }

    #[test]
    fn pages_that_are_nowhere_are_not_counted() {
        let mut by_node = BTreeMap::new();
        count_nodes(&[0, 1, -libc::ENOENT, 1, -libc::EFAULT], &mut by_node);
        assert_eq!(by_node, [(NodeId(0), 1), (NodeId(1), 2)].into());
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
    fn huge_pages_are_given_where_they_are_wanted() {
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
