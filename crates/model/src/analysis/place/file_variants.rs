//! Other placements of the files and of the program text of a winner, which keep its CPUs and its memory policy.

use super::file_use::FileUse;
use crate::placements::placement::{cached_nodes, with_files, with_text_copy};
use crate::values::placement::Placement;
use crate::values::topology::Topology;

/// Returns the placements that differ from this one in the nodes of the files that the command uses, or in copies of its
/// program text. Those that would change nothing are left out: cached pages follow a placement that does not place files.
/// `copies_text` is whether this program may copy program text.
pub(super) fn file_variants(
    topology: &Topology,
    placement: &Placement,
    in_use: FileUse,
    copies_text: bool,
) -> Vec<Placement> {
    let nodes_now = cached_nodes(topology, placement);
    let is_other = |variant: &Placement| {
        let nodes = variant.files.as_ref().map(|policy| policy.nodes(|| topology.local_nodes(&placement.cpus())));
        nodes.is_some_and(|nodes| nodes != nodes_now)
    };
    let mut variants = Vec::new();
    if in_use.data_matters() && placement.files.is_none() {
        let found = ["files:local", "files:interleave"].map(|part| with_files(topology, placement, part));
        variants.extend(found.into_iter().filter_map(Result::ok).filter(is_other));
    }
    if in_use.text_matters() && copies_text && !placement.copies_text {
        variants.extend(with_text_copy(placement).ok());
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placements::placement::{KernelFeatures, parse};

    const DATA: FileUse = FileUse { data_percent: 0.0, reads: true, remote_text_percent: 0.0 };
    const TEXT: FileUse = FileUse { data_percent: 0.0, reads: false, remote_text_percent: 20.0 };

    fn names(placement: &str, in_use: FileUse, copies_text: bool) -> Vec<String> {
        let text = include_str!("../../../tests/captures/xeon-e5-2640-x2.json");
        let topology: Topology = serde_json::from_str(text).expect("the capture is a topology");
        let placement = parse(&topology, placement, Some(4), KernelFeatures::default()).expect("it is a placement");
        let placement = Placement { name: format!("{}, 4 threads", placement.name), ..placement };
        let found = file_variants(&topology, &placement, in_use, copies_text);
        found.into_iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn variants_change_where_files_are() {
        let none: [&str; 0] = [];
        assert_eq!(names("compact", DATA, true), ["compact+files:interleave, 4 threads"], "already local");
        assert_eq!(
            names("compact+node:1", DATA, true),
            ["compact+node:1+files:local, 4 threads", "compact+node:1+files:interleave, 4 threads"]
        );
        assert_eq!(names("compact+interleave", DATA, true), ["compact+interleave+files:local, 4 threads"]);
        assert_eq!(names("kernel", DATA, true), none, "it spreads them");
        assert_eq!(names("compact+node:1+files:local", DATA, true), none, "it has one");
    }

    #[test]
    fn text_is_copied_where_it_may_be() {
        assert_eq!(names("compact", TEXT, true), ["compact+text:copy, 4 threads"]);
        assert!(names("compact", TEXT, false).is_empty());
        assert!(names("kernel", TEXT, true).is_empty(), "it has no node");
    }
}
