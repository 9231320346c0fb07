//! The memory that a kernel measures: placed by the trial's policy, in the pages that a parameter names, and
//! counted by node afterwards. Beyond DRAM it is a file on a disk, seen as memory.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use farmem::array::{Access, Backing, FarError, FarFile, FarLocation, View};
use machine::memory::{HugePages, MemoryError, PlacedMemory, cast_slice_mut};
use model::placements::placement::MemoryPolicy;
use model::values::id_set::NodeId;
use model::values::trial::FarMemory;
use model::values::workload::ARRAYS_PARAMETER;
use zerocopy::{FromBytes, IntoBytes};

use crate::describe::{Parameter, choice};
use crate::job::{Failure, MemoryReport, TrialContext, with_hint};

/// Asking the kernel about a page costs some 100 ns, so of large memory this many pages spread over it are asked about.
pub(super) const PAGES_ASKED_MAX: usize = 1 << 16;

/// A huge page on x86-64 and on 64-bit ARM with 4 KiB pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Memory that is to lie on several nodes in turn does so to an eighth of a share at worst with this many huge pages
/// on each, because huge pages are dealt out whole; with one or two it lies on one node.
const HUGE_PAGES_PER_NODE_MIN: usize = 8;

pub(super) enum Arena {
    /// Anonymous pages.
    Near(PlacedMemory),
    /// Pages of a far file.
    Far(View),
}

/// The parameter that [`Arena::new`] reads.
pub(super) fn huge_pages_parameter() -> Parameter {
    Parameter {
        name: ARRAYS_PARAMETER,
        about: "transparent huge pages: asked for (not for little memory interleaved), forbidden, or as the system is set",
        kind: choice(&["yes", "no", "system"]),
        default: Some("yes"),
        smoke: None,
    }
}

impl Arena {
    /// Memory for a kernel with the parameter `huge-pages`.
    pub(super) fn new(job: &TrialContext, bytes: usize) -> Result<Self, Failure> {
        let huge_pages = match job.parameters.text("huge-pages") {
            "yes" if takes_turns_unevenly(&job.memory, bytes) => HugePages::Never,
            "yes" => HugePages::Wanted,
            "no" => HugePages::Never,
            _ => HugePages::System,
        };
        Self::with_pages(job, bytes, huge_pages)
    }

    /// Memory in ordinary pages, for a kernel that uses a line or two.
    pub(super) fn small(job: &TrialContext, bytes: usize) -> Result<Self, Failure> {
        Self::with_pages(job, bytes, HugePages::Never)
    }

    fn with_pages(job: &TrialContext, bytes: usize, huge_pages: HugePages) -> Result<Self, Failure> {
        match job.memory {
            MemoryPolicy::Far => far(bytes).map(Self::Far).map_err(|error| far_failure(&error)),
            _ => PlacedMemory::new(bytes, &job.memory, huge_pages).map(Self::Near).map_err(|error| failure(&error)),
        }
    }

    pub(super) fn as_f64(&mut self) -> &mut [f64] {
        self.as_mut_slice()
    }

    pub(super) fn as_f32(&mut self) -> &mut [f32] {
        self.as_mut_slice()
    }

    pub(super) fn as_atomics(&mut self) -> &[AtomicU64] {
        self.as_mut_slice()
    }

    pub(super) fn as_bytes(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }

    pub(super) fn as_u64(&mut self) -> &mut [u64] {
        self.as_mut_slice()
    }

    fn as_mut_slice<T: FromBytes + IntoBytes>(&mut self) -> &mut [T] {
        match self {
            Self::Near(memory) => cast_slice_mut(memory.as_mut_slice()),
            Self::Far(view) => view.as_mut_slice(),
        }
    }

    /// Where the memory is now: its pages by node, or what is behind it beyond DRAM.
    pub(super) fn found(&self) -> Result<MemoryReport, Failure> {
        let far = match self {
            Self::Near(_) => None,
            Self::Far(view) => Some(view.backing().map_err(|error| far_failure(&error))?),
        };
        let far = far.map(|Backing { bytes, of_file, resident, file_system }| FarMemory {
            bytes,
            of_file,
            resident,
            file_system,
        });
        Ok(MemoryReport { pages: self.pages_by_node()?, far })
    }

    /// Where the pages are now; nothing from a kernel without NUMA, as many boards have. A placement that names nodes is
    /// not proven then, which its verdict says, and one that names none needs no proof.
    pub(super) fn pages_by_node(&self) -> Result<BTreeMap<NodeId, u64>, Failure> {
        match self {
            Self::Near(memory) => pages(memory.pages_by_node(PAGES_ASKED_MAX)),
            // Pages of a file are the page cache's, which no policy of the trial has put anywhere.
            Self::Far(_) => Ok(BTreeMap::new()),
        }
    }
}

/// What the kernel says of pages, or nothing where it is one without NUMA.
pub(super) fn pages(told: Result<BTreeMap<NodeId, u64>, MemoryError>) -> Result<BTreeMap<NodeId, u64>, Failure> {
    match told {
        Err(MemoryError::Refused(refusal)) if refusal.errno == libc::ENOSYS => Ok(BTreeMap::new()),
        pages => pages.map_err(|error| failure(&error)),
    }
}

/// A file of its own for each arena, in the folder that is named for such files.
fn far(bytes: usize) -> Result<View, FarError> {
    View::new(FarFile::new(&FarLocation::found()?, bytes, Access::Mapped)?)
}

/// What this machine lacks cannot be measured; a disk that fails has gone wrong.
pub(super) fn far_failure(error: &FarError) -> Failure {
    let why = with_hint(error, error.hint());
    if error.is_unavailable() { Failure::Unavailable(why) } else { Failure::Failed(why) }
}

/// Whether huge pages would put most of this memory on one node although the policy says all in turn.
fn takes_turns_unevenly(policy: &MemoryPolicy, bytes: usize) -> bool {
    match policy {
        MemoryPolicy::Interleave(nodes) | MemoryPolicy::WeightedInterleave(nodes) => {
            nodes.len() > 1 && bytes < nodes.len() * HUGE_PAGES_PER_NODE_MIN * HUGE_PAGE_BYTES
        }
        MemoryPolicy::Kernel
        | MemoryPolicy::Local
        | MemoryPolicy::Bind(_)
        | MemoryPolicy::Preferred(_)
        | MemoryPolicy::Far => false,
    }
}

/// What the machine has no room for cannot be measured there; what it refuses has gone wrong.
pub(super) fn failure(error: &MemoryError) -> Failure {
    let why = with_hint(error, error.hint());
    match error {
        MemoryError::TooLarge { .. } => Failure::Unavailable(why),
        MemoryError::Refused(_) | MemoryError::Empty => Failure::Failed(why),
    }
}

#[cfg(test)]
mod tests {
    use model::values::id_set::NodeSet;

    use super::*;
    use crate::kernels::{job_for_tests, pages_can_be_asked, set};

    #[test]
    fn memory_that_does_not_fit_cannot_be_measured_and_missing_nodes_fail() {
        let mut job = job_for_tests("stream");
        set(&mut job, "size", "8TiB");
        let failure = crate::kernels::stream::run(&job).unwrap_err();
        assert!(matches!(failure, Failure::Unavailable(_)), "{failure}");
        let nowhere = MemoryPolicy::Bind(NodeSet::parse_list("1023").unwrap());
        let failure = Arena::small(&TrialContext { memory: nowhere, ..job }, 4096).err().unwrap();
        assert!(matches!(failure, Failure::Failed(_)) && failure.to_string().contains("hint: "), "{failure}");
    }

    /// Every workload that says it measures arrays of its own does so beyond DRAM, and shows the file behind them.
    #[test]
    fn arrays_beyond_dram_are_of_their_file() {
        for workload in crate::all() {
            let spec = (workload.describe)();
            let crate::Runner::Kernel(run) = workload.runner else { continue };
            if !spec.has_arrays() {
                continue;
            }
            let job = TrialContext { memory: MemoryPolicy::Far, ..job_for_tests(&spec.name) };
            match run(&job) {
                Ok(measured) => {
                    let far = measured.far.unwrap_or_else(|| panic!("{} shows no file", spec.name));
                    assert!(far.bytes.0 > 0 && far.of_file == far.bytes, "{}: {far:?}", spec.name);
                    assert!(measured.pages.is_empty() && !measured.samples.is_empty(), "{}", spec.name);
                }
                Err(Failure::Unavailable(why)) => println!("skipped: {} beyond DRAM: {why}", spec.name),
                Err(failure) => panic!("{}: {failure}", spec.name),
            }
        }
    }

    #[test]
    fn threads_with_far_memory_of_their_own_show_all_of_it() {
        let job = |threads| TrialContext { memory: MemoryPolicy::Far, threads, ..job_for_tests("chase") };
        let bytes = |threads| match crate::kernels::chase::run(&job(threads)) {
            Ok(measured) => Some(measured.far.unwrap().bytes.0),
            Err(failure) => {
                println!("skipped: {failure}");
                None
            }
        };
        assert_eq!(bytes(1).map(|bytes| 3 * bytes), bytes(3));
    }

    #[test]
    fn little_memory_takes_turns_in_base_pages() {
        let nodes = |list| NodeSet::parse_list(list).unwrap();
        let two = MemoryPolicy::Interleave(nodes("0-1"));
        let cases = [
            (two.clone(), 3 << 20, true),
            (two.clone(), (32 << 20) - 1, true),
            (two, 32 << 20, false),
            (MemoryPolicy::WeightedInterleave(nodes("0-2")), 40 << 20, true),
            (MemoryPolicy::Interleave(nodes("0")), 1 << 20, false),
            (MemoryPolicy::Bind(nodes("0-1")), 1 << 20, false),
            (MemoryPolicy::Kernel, 1 << 20, false),
        ];
        for (policy, bytes, expected) in cases {
            assert_eq!(takes_turns_unevenly(&policy, bytes), expected, "{policy} {bytes}");
        }
    }

    #[test]
    fn bound_pages_are_found_on_their_node() {
        let bound = MemoryPolicy::Bind(NodeSet::parse_list("0").unwrap());
        let mut job = TrialContext { memory: bound, ..job_for_tests("stream") };
        if !pages_can_be_asked() {
            return println!("skipped: this kernel has no NUMA");
        }
        for huge_pages in ["yes", "no", "system"] {
            set(&mut job, "huge-pages", huge_pages);
            let measured = crate::kernels::stream::run(&job).unwrap();
            assert_eq!(measured.pages.keys().copied().collect::<Vec<_>>(), [NodeId(0)]);
            // Three arrays of 1 MiB, in pages of at most 64 KiB.
            assert!(measured.pages[&NodeId(0)] >= 3 << 4, "{:?}", measured.pages);
        }
    }
}
