//! Memory whose place is known: anonymous pages with a memory policy set before anybody touches them, and where they
//! really came to lie.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::c_int;
use model::id_set::{NodeId, NodeSet};
use model::placement::MemoryPolicy;
use model::units::Bytes;

use crate::mempolicy::{self, PolicyCode};
use crate::syscall::{self, Refusal};
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
    /// The kernel refused.
    Refused(Refusal),
    /// It does not fit; touching it would have the kernel kill somebody.
    TooLarge {
        /// What was asked for.
        asked: Bytes,
        /// What there is.
        room: Room,
    },
    /// Nothing was asked for.
    Empty,
}

/// How much memory there is to take, and what sets that bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// This many bytes, after what our own placed memory has been promised and not yet touched.
    pub bytes: Bytes,
    /// In words: `available on this machine`, `left by the limit of cgroup ...`, `free on memory nodes 0-1`.
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

/// Types that any bytes are a valid value of, so that fresh memory can be seen as a slice of them.
///
/// # Safety
/// Every bit pattern is a valid value, there is no padding, and dropping does nothing.
pub unsafe trait Plain: Send + Sync {}

/// Marks integers, floats and their atomics.
macro_rules! plain {
    ($($type:ty)*) => { $(
        // SAFETY: integers, floats and atomic integers have no padding, no invalid bit patterns and no drop.
        unsafe impl Plain for $type {}
    )* };
}

plain!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 AtomicU8 AtomicU32 AtomicU64 AtomicUsize);

/// Anonymous memory with a policy, mapped and not yet touched: the first touch belongs to the threads that will use
/// it. Zero when first read. Given back to the system when dropped.
#[derive(Debug)]
pub struct PlacedMemory {
    start: NonNull<u8>,
    bytes: usize,
    mapped: usize,
}

// SAFETY: the memory belongs to this value alone, like a boxed slice: sharing it gives only shared slices of types
// that are Sync, and unique access takes a unique borrow.
unsafe impl Send for PlacedMemory {}
// SAFETY: as above.
unsafe impl Sync for PlacedMemory {}

/// Memory begins at a multiple of this, so that huge pages can begin with it and every trial has the same alignment.
/// 2 MiB is the size of a huge page on x86-64 and on 64-bit ARM with 4 KiB pages.
const ALIGNMENT: usize = 2 << 20;

/// How many pages one call of `move_pages(2)` asks about; the kernel works in small batches of its own anyway.
const PAGES_PER_CALL: usize = 4096;

/// Bytes that live [`PlacedMemory`] has mapped: untouched, they are missing from what the kernel calls available.
static MAPPED: AtomicU64 = AtomicU64::new(0);

impl PlacedMemory {
    /// Maps `bytes` bytes (at least one) and sets their policy, without touching them. What does not fit into memory
    /// is refused here, because the kernel would only say so by killing a process at the touch.
    pub fn new(bytes: usize, policy: &MemoryPolicy, huge: HugePages) -> Result<Self, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        check_room(Bytes(bytes as u64), policy)?;
        let code = PolicyCode::of(policy).map_err(MemoryError::Refused)?;
        let memory = Self::map(bytes)?;
        if let Some(code) = code {
            syscall::mbind(memory.start, memory.mapped, code.mode, &code.nodes, false)
                .map_err(|error| MemoryError::Refused(mempolicy::refusal("give memory", policy, &error)))?;
        }
        memory.advise(huge)?;
        Ok(memory)
    }

    /// All of it, as values of `T`; bytes at the end that do not make a whole value are left out.
    pub fn as_mut_slice<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: the mapping is live, readable and writable for `bytes` bytes, aligned far beyond any T, and borrowed
        // uniquely through self; T is Plain, so whatever bytes are there are values of it.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    /// All of it, as values of `T`, to read, or to share through atomics.
    pub fn as_slice<T: Plain>(&self) -> &[T] {
        // SAFETY: as in as_mut_slice, borrowed shared; only atomics can be written through a shared slice.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
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
        let addresses: Vec<*const u8> =
            spread(count, pages_max).map(|index| self.start.as_ptr().cast_const().wrapping_add(index * page)).collect();
        let mut by_node = BTreeMap::new();
        for some in addresses.chunks(PAGES_PER_CALL) {
            let mut status: Vec<c_int> = vec![-libc::ENOENT; some.len()];
            syscall::pages_status(some, &mut status).map_err(|error| {
                let refusal = Refusal::new("ask where pages are (move_pages)", &error);
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
        let start = unsafe { self.start.add(from) };
        syscall::mbind(start, to - from, code.mode, &code.nodes, true)
            .map_err(|error| refused(mempolicy::refusal("move memory", &policy, &error)))
    }

    /// How many of its bytes are in transparent huge pages now; none where the kernel does not say.
    pub fn huge_bytes(&self) -> Option<Bytes> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = self.start.as_ptr() as u64;
        Some(huge_bytes_between(&text, start, start + self.mapped as u64))
    }

    fn map(bytes: usize) -> Result<Self, MemoryError> {
        let page = syscall::page_bytes();
        let what = || format!("map {} of memory (mmap)", Bytes(bytes as u64));
        let too_large = || MemoryError::Refused(Refusal::new(what(), &std::io::Error::from_raw_os_error(libc::ENOMEM)));
        let mapped = bytes.checked_next_multiple_of(page).ok_or_else(too_large)?;
        let reserved = mapped.checked_add(ALIGNMENT).ok_or_else(too_large)?;
        let all =
            syscall::map_anonymous(reserved).map_err(|error| MemoryError::Refused(Refusal::new(what(), &error)))?;
        let before = all.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: before < ALIGNMENT <= reserved, so the aligned start lies in the mapping.
        let start = unsafe { all.add(before) };
        give_back(all, before);
        // SAFETY: before + mapped <= reserved: the end of the aligned part lies in the mapping, or just after it.
        give_back(unsafe { start.add(mapped) }, ALIGNMENT - before);
        MAPPED.fetch_add(mapped as u64, Ordering::Relaxed);
        Ok(Self { start, bytes, mapped })
    }

    fn advise(&self, huge: HugePages) -> Result<(), MemoryError> {
        let huge = match huge {
            HugePages::System => return Ok(()),
            HugePages::Never => false,
            HugePages::Wanted => true,
        };
        match syscall::advise_huge(self.start, self.mapped, huge) {
            // A kernel without transparent huge pages has answered the question of Never, and wanting is not needing.
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
                Err(MemoryError::Refused(Refusal::new("choose the size of pages (madvise)", &error)))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for PlacedMemory {
    fn drop(&mut self) {
        give_back(self.start, self.mapped);
        MAPPED.fetch_sub(self.mapped as u64, Ordering::Relaxed);
    }
}

/// Unmaps a part of a mapping that nothing refers to: its unneeded ends, or all of it on drop.
fn give_back(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the callers in this file, and nobody else can call, pass ranges of their own mapping that no slice
        // borrows: parts before the value exists, or the whole when it is dropped.
        // A failure would be a wrong range, which is our bug.
        unsafe { syscall::unmap(start, bytes) }.expect("a range of our own mapping can be unmapped");
    }
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

fn room_for(root: &Path, policy: &MemoryPolicy) -> Option<Room> {
    let meminfo = sysfs::read_text(root, "proc/meminfo").unwrap_or_default();
    let machine = sysfs::meminfo_bytes(&meminfo, "MemAvailable")
        .map(|bytes| Room { bytes, of: "available on this machine".into() });
    let group = sysfs::memory_room(root)
        .map(|(folder, bytes)| Room { bytes, of: format!("left by the limit of cgroup {}", folder.display()) });
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
fn room_on(root: &Path, nodes: &NodeSet) -> Option<Room> {
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
    Some(Room { bytes: Bytes(bytes), of: format!("free on memory {noun} {nodes}") })
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
        memory.as_mut_slice::<u8>().fill(1);
        match memory.move_to(0..8 * page, NodeId(0)) {
            Err(MemoryError::Refused(refusal)) if matches!(refusal.errno, libc::EPERM | libc::ENOSYS) => {
                return println!("skipped: {refusal}");
            }
            moved => moved.unwrap(),
        }
        assert_eq!(memory.pages_by_node(1000).unwrap(), [(NodeId(0), 8)].into());
        assert!(memory.as_slice::<u8>().iter().all(|byte| *byte == 1));
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
            memory.as_mut_slice::<u8>()[..16 * page].fill(1);
            assert_eq!(memory.pages_by_node(1000).unwrap().values().sum::<u64>(), 16, "{policy}");
            memory.as_mut_slice::<u64>().fill(1);
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
        assert_eq!(memory.as_mut_slice::<u8>().len(), 4097);
        assert_eq!(memory.as_mut_slice::<f64>().len(), 512);
        assert!(memory.as_slice::<f64>().iter().all(|value| *value == 0.0));
        assert_eq!(memory.as_slice::<u8>().as_ptr().align_offset(ALIGNMENT), 0);
        memory.as_slice::<AtomicU64>()[3].store(7, Ordering::Relaxed);
        assert_eq!(memory.as_slice::<u64>()[3], 7);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_sizes() {
        let asked = available().map_or(1 << 50, |bytes| bytes.0 as usize + (1 << 30));
        let error = PlacedMemory::new(asked, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        let MemoryError::TooLarge { room, .. } = &error else { panic!("{error}") };
        assert!(room.bytes.0 > 0, "{error}");
        assert!(error.to_string().contains("do not fit"), "{error}");
        assert!(error.hint().is_some());
        let huge = PlacedMemory::new(usize::MAX, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
        assert!(matches!(huge, MemoryError::TooLarge { .. }), "{huge}");
        let none = PlacedMemory::new(0, &MemoryPolicy::Kernel, HugePages::System).unwrap_err();
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
            let mut memory = PlacedMemory::new(bytes, &MemoryPolicy::Kernel, choice).unwrap();
            memory.as_mut_slice::<u8>().fill(1);
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
