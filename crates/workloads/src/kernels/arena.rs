//! Allocates the memory that a kernel measures, applies the trial's memory policy and page size, and counts the pages
//! by node afterwards. Under the policy `far` the memory is a mapped file on a disk.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use farmem::array::{Access, Backing, FarError, FarFile, FarLocation, View};
use machine::memory::{HugePages, MemoryError, PlacedMemory, cast_slice_mut};
use model::values::id_set::NodeId;
use model::values::placement::MemoryPolicy;
use model::values::trial::FarMemory;
use model::values::workload::ARRAYS_PARAMETER;
use zerocopy::{FromBytes, IntoBytes};

use crate::describe::{Parameter, choice};
use crate::job::{Failure, MemoryReport, TrialContext, with_hint};

/// Upper limit of the pages whose node is queried. A query costs about 100 ns per page, so larger memory is sampled at
/// this many evenly spaced pages.
pub(super) const PAGES_QUERIED_MAX: usize = 1 << 16;

/// Size of a huge page on x86-64, and on 64-bit ARM with 4 KiB base pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Minimum number of huge pages per node for interleaved memory. Huge pages are interleaved whole: with this many per
/// node, shares differ by at most one eighth; with one or two, all of the memory may be on one node.
const HUGE_PAGES_PER_NODE_MIN: usize = 8;

pub(super) enum Arena {
    /// Anonymous pages.
    Near(PlacedMemory),
    /// Pages of a far file.
    Far(View),
}

pub(super) fn huge_pages_parameter() -> Parameter {
    Parameter {
        name: ARRAYS_PARAMETER,
        about: "transparent huge pages: requested (except for small interleaved memory), forbidden, or as the system \
                is configured",
        kind: choice(&["yes", "no", "system"]),
        default: Some("yes"),
        smoke: None,
    }
}

impl Arena {
    /// Allocates memory for a kernel with the parameter `huge-pages`.
    pub(super) fn new(job: &TrialContext, bytes: usize) -> Result<Self, Failure> {
        let huge_pages = match job.parameters.text("huge-pages") {
            "yes" if interleaves_unevenly(&job.memory, bytes) => HugePages::Never,
            "yes" => HugePages::Wanted,
            "no" => HugePages::Never,
            _ => HugePages::System,
        };
        Self::with_pages(job, bytes, huge_pages)
    }

    /// Allocates memory in base pages, for a kernel that uses one or two lines.
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

    /// Returns the pages by node, or the backing file if the memory is far.
    pub(super) fn report(&self) -> Result<MemoryReport, Failure> {
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

    /// Returns the number of pages on each node. The map is empty on a Linux kernel without NUMA; a placement that
    /// names nodes is then unverified, which the verdict reports.
    pub(super) fn pages_by_node(&self) -> Result<BTreeMap<NodeId, u64>, Failure> {
        match self {
            Self::Near(memory) => pages(memory.pages_by_node(PAGES_QUERIED_MAX)),
            // The pages belong to the page cache, to which the trial's memory policy does not apply.
            Self::Far(_) => Ok(BTreeMap::new()),
        }
    }
}

/// Converts the result of a page query. Returns an empty map if the Linux kernel does not support NUMA (`ENOSYS`).
pub(super) fn pages(result: Result<BTreeMap<NodeId, u64>, MemoryError>) -> Result<BTreeMap<NodeId, u64>, Failure> {
    match result {
        Err(MemoryError::Refused(refusal)) if refusal.errno == libc::ENOSYS => Ok(BTreeMap::new()),
        pages => pages.map_err(|error| failure(&error)),
    }
}

/// Creates a separate far file for each arena.
fn far(bytes: usize) -> Result<View, FarError> {
    View::new(FarFile::new(&FarLocation::found()?, bytes, Access::Mapped)?)
}

/// Converts an error of far memory: an unsupported machine is `Unavailable`, an I/O error is `Failed`.
pub(super) fn far_failure(error: &FarError) -> Failure {
    let reason = with_hint(error);
    if error.is_unavailable() { Failure::Unavailable(reason) } else { Failure::Failed(reason) }
}

/// Returns whether huge pages would put most of this memory on one node although the policy interleaves it.
fn interleaves_unevenly(policy: &MemoryPolicy, bytes: usize) -> bool {
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

/// Converts an allocation error: memory that is too large for the machine is `Unavailable`, a refused request is
/// `Failed`.
pub(super) fn failure(error: &MemoryError) -> Failure {
    let reason = with_hint(error);
    match error {
        MemoryError::TooLarge { .. } => Failure::Unavailable(reason),
        MemoryError::Refused(_) | MemoryError::Empty => Failure::Failed(reason),
    }
}

#[cfg(test)]
mod tests {
    use model::values::id_set::NodeSet;

    use super::*;
    use crate::kernels::{can_query_pages, job_for_tests, set};

    #[test]
    fn oversized_memory_is_unavailable_and_missing_nodes_fail() {
        let mut job = job_for_tests("stream");
        set(&mut job, "size", "8TiB");
        let failure = crate::kernels::stream::run(&job).unwrap_err();
        assert!(matches!(failure, Failure::Unavailable(_)), "{failure}");
        let nowhere = MemoryPolicy::Bind(NodeSet::parse_list("1023").unwrap());
        let failure = Arena::small(&TrialContext { memory: nowhere, ..job }, 4096).err().unwrap();
        assert!(matches!(failure, Failure::Failed(_)) && failure.to_string().contains("hint: "), "{failure}");
    }

    /// Every workload with its own arrays supports far memory and reports the file behind it.
    #[test]
    fn far_arrays_report_their_backing_file() {
        for workload in crate::all() {
            let spec = (workload.describe)();
            let crate::Runner::Kernel(run) = workload.runner else { continue };
            if !spec.has_arrays() {
                continue;
            }
            let job = TrialContext { memory: MemoryPolicy::Far, ..job_for_tests(&spec.name) };
            match run(&job) {
                Ok(output) => {
                    let far = output.far.unwrap_or_else(|| panic!("{} reports no file", spec.name));
                    assert!(far.bytes.0 > 0 && far.of_file == far.bytes, "{}: {far:?}", spec.name);
                    assert!(output.pages.is_empty() && !output.samples.is_empty(), "{}", spec.name);
                }
                Err(Failure::Unavailable(reason)) => println!("skipped: {} in far memory: {reason}", spec.name),
                Err(failure) => panic!("{}: {failure}", spec.name),
            }
        }
    }

    #[test]
    fn far_memory_is_summed_over_threads() {
        let job = |threads| TrialContext { memory: MemoryPolicy::Far, threads, ..job_for_tests("chase") };
        let bytes = |threads| match crate::kernels::chase::run(&job(threads)) {
            Ok(output) => Some(output.far.unwrap().bytes.0),
            Err(failure) => {
                println!("skipped: {failure}");
                None
            }
        };
        assert_eq!(bytes(1).map(|bytes| 3 * bytes), bytes(3));
    }

    #[test]
    fn small_interleaved_memory_uses_base_pages() {
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
            assert_eq!(interleaves_unevenly(&policy, bytes), expected, "{policy} {bytes}");
        }
    }

    #[test]
    fn bound_pages_are_reported_on_their_node() {
        let bound = MemoryPolicy::Bind(NodeSet::parse_list("0").unwrap());
        let mut job = TrialContext { memory: bound, ..job_for_tests("stream") };
        if !can_query_pages() {
            return println!("skipped: the Linux kernel has no NUMA support");
        }
        for huge_pages in ["yes", "no", "system"] {
            set(&mut job, "huge-pages", huge_pages);
            let output = crate::kernels::stream::run(&job).unwrap();
            assert_eq!(output.pages.keys().copied().collect::<Vec<_>>(), [NodeId(0)]);
            // Three arrays of 1 MiB in pages of at most 64 KiB.
            assert!(output.pages[&NodeId(0)] >= 3 << 4, "{:?}", output.pages);
        }
    }
}
