//! Finds the nodes of pages that the kernel does not report. Automatic NUMA balancing makes pages inaccessible from time to
//! time, to see which threads use them. Before Linux 6.6, `move_pages(2)` takes such pages for missing, until the program
//! accesses them again. Their page frames, which only root may read, show the node.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use model::analysis::residency::PageStatus;
use model::values::id_set::NodeId;

use super::pagemap::{FRAME, PRESENT};
use crate::syscall;

/// Bit of /proc/kpageflags of the shared pages of zeros.
const KPF_ZERO_PAGE: u64 = 1 << 24;

/// Page frames of each node.
static FRAMES: LazyLock<FrameNodes> =
    LazyLock::new(|| FrameNodes::parse(&std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default()));

/// Replaces the statuses of pages that the kernel did not find although they are resident. Pages whose node is hidden from
/// this process become unknown.
pub(super) fn find(pid: u32, pages: &[u64], statuses: &mut [PageStatus]) {
    let process = if pid == 0 { "self".to_owned() } else { pid.to_string() };
    // Without the file, the process has ended, or its pages are hidden from this one.
    let Ok(pagemap) = File::open(format!("/proc/{process}/pagemap")) else { return };
    let flags = File::open("/proc/kpageflags").ok();
    for (page, status) in pages.iter().zip(statuses) {
        if matches!(status, PageStatus::On(_)) {
            continue;
        }
        let entry = entry(&pagemap, page / syscall::page_bytes() as u64).unwrap_or(0);
        let flags = flags.as_ref().and_then(|flags| self::entry(flags, entry & FRAME));
        *status = resident_status(entry, flags, &FRAMES).unwrap_or(*status);
    }
}

fn entry(file: &File, index: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let length = file.read_at(&mut bytes, index.checked_mul(8)?).ok()?;
    (length == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// Returns the status of a page by its entry in the pagemap and the flags of its frame; `None` if it is not resident.
fn resident_status(entry: u64, flags: Option<u64>, nodes: &FrameNodes) -> Option<PageStatus> {
    if entry & PRESENT == 0 {
        return None;
    }
    let Some(flags) = flags.filter(|_| entry & FRAME != 0) else { return Some(PageStatus::Unknown) };
    if flags & KPF_ZERO_PAGE != 0 {
        return Some(PageStatus::NotMemory);
    }
    Some(nodes.of(entry & FRAME).map_or(PageStatus::Unknown, PageStatus::On))
}

/// Ranges of page frames by node. They may overlap, because zones have holes.
#[derive(Debug, Default, PartialEq, Eq)]
struct FrameNodes(Vec<(Range<u64>, NodeId)>);

impl FrameNodes {
    /// Parses `/proc/zoneinfo`.
    fn parse(text: &str) -> Self {
        let (mut zones, mut node, mut spanned, mut present) = (Vec::new(), None, 0, 0);
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["Node", id, "zone", _] => node = id.trim_end_matches(',').parse().ok().map(NodeId),
                ["spanned", pages] => spanned = pages.parse().unwrap_or(0),
                ["present", pages] => present = pages.parse().unwrap_or(0_u64),
                ["start_pfn:", first] => {
                    let first: Option<u64> = first.parse().ok();
                    let zone = first.zip(node).filter(|_| present > 0);
                    zones.extend(zone.map(|(first, node)| (first..first + spanned, node)));
                }
                _ => {}
            }
        }
        Self(zones)
    }

    /// Returns the node of a page frame; `None` if it is in none, or in zones of several nodes.
    fn of(&self, frame: u64) -> Option<NodeId> {
        let mut nodes = self.0.iter().filter(|(frames, _)| frames.contains(&frame)).map(|(_, node)| *node);
        let first = nodes.next()?;
        nodes.all(|node| node == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: &str = "Node 0, zone      DMA\n  per-node stats\n  pages free     3840\n        spanned  4095\n        present  3998\n  \
                         start_pfn:           1\nNode 0, zone  Movable\n        spanned  0\n        present  0\n  \
                         start_pfn:           0\nNode 1, zone   Normal\n        spanned  1000\n        present  1000\n  \
                         start_pfn:           4000\n";

    #[test]
    fn frames_belong_to_the_node_of_their_zone() {
        let nodes = FrameNodes::parse(ZONES);
        assert_eq!(nodes.of(7), Some(NodeId(0)));
        assert_eq!(nodes.of(4999), Some(NodeId(1)));
        assert_eq!((nodes.of(4050), nodes.of(5000), nodes.of(0)), (None, None, None), "zones of two nodes, and none");
    }

    #[test]
    fn resident_pages_have_a_node_unless_it_is_hidden() {
        let nodes = FrameNodes::parse(ZONES);
        let status = |entry, flags| resident_status(entry, flags, &nodes);
        assert_eq!(status(7, Some(0)), None, "swapped out or freed");
        assert_eq!(status(PRESENT | 7, Some(0)), Some(PageStatus::On(NodeId(0))));
        assert_eq!(status(PRESENT | 7, Some(KPF_ZERO_PAGE)), Some(PageStatus::NotMemory));
        assert_eq!(status(PRESENT, Some(0)), Some(PageStatus::Unknown), "the frame is hidden");
        assert_eq!(status(PRESENT | 7, None), Some(PageStatus::Unknown));
    }

    /// As the kernel reports them, on a machine whose zones do not overlap.
    #[test]
    fn frames_of_this_process_are_on_the_reported_nodes() {
        let name = "frames_of_this_process_are_on_the_reported_nodes";
        let buffer = vec![1_u8; 64 * syscall::page_bytes()];
        let first = (buffer.as_ptr() as u64).next_multiple_of(syscall::page_bytes() as u64);
        let pages: Vec<u64> = (0..63).map(|page| first + page * syscall::page_bytes() as u64).collect();
        let reported = match super::super::query(0, &pages) {
            Ok(reported) => reported,
            Err(error) => return println!("skipped: {name}: {error}"),
        };
        let mut found = vec![PageStatus::Unknown; pages.len()];
        find(0, &pages, &mut found);
        if found.contains(&PageStatus::Unknown) {
            return println!("skipped: {name}: page frames are hidden from this user, or zones overlap");
        }
        assert_eq!(found, reported);
    }
}
