//! Placement of the cached pages of a command's files: the part `files:` of a placement's name. Must not move pages.

use super::cores::CoreIndex;
use super::memory::{check_node, main_memory, several};
use super::policy::node;
use super::{PlacementError, parts};
use crate::values::id_set::{NodeId, NodeSet};
use crate::values::placement::{FilePolicy, Placement};
use crate::values::suggest::suggestions;
use crate::values::topology::Topology;

const PREFIX: &str = "files:";

/// Rule by which a name places cached pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileRule {
    Local,
    Interleave,
    Node(NodeId),
    Cold,
}

/// Splits the name of a placement into the rest and its rule for files.
pub(super) fn split(text: &str) -> Result<(String, Option<FileRule>), String> {
    let (part, rest) = parts::split_one(text, "place files", |part| part.starts_with(PREFIX))?;
    let rule = part.map(rule).transpose()?;
    if rule == Some(FileRule::Local) && rest == "kernel" {
        return Err(no_cpus());
    }
    Ok((rest, rule))
}

fn rule(part: &str) -> Result<FileRule, String> {
    match part {
        "files:local" => Ok(FileRule::Local),
        "files:interleave" => Ok(FileRule::Interleave),
        "files:cold" => Ok(FileRule::Cold),
        _ => node(&part[PREFIX.len()..]).map(FileRule::Node).ok_or_else(|| {
            let known = ["files:local", "files:interleave", "files:node:0", "files:cold"];
            format!("'{part}' does not place files; valid parts: {}", suggestions(part, known).join(", "))
        }),
    }
}

fn no_cpus() -> String {
    "files:local requires CPUs whose memory node the files are moved to; add a CPU policy, as in compact+files:local"
        .into()
}

/// Adds a rule to a placement whose CPUs are already chosen.
pub(super) fn place(index: &CoreIndex, placement: &mut Placement, rule: FileRule) -> Result<(), PlacementError> {
    let policy = match rule {
        FileRule::Local if !placement.is_pinned() => return Err(PlacementError::Invalid(no_cpus())),
        FileRule::Local => FilePolicy::Local,
        FileRule::Interleave => {
            FilePolicy::Interleave(several(main_memory(index)).map_err(PlacementError::Unavailable)?)
        }
        FileRule::Node(node) => {
            check_node(index, node).map_err(PlacementError::Unavailable)?;
            FilePolicy::Node(node)
        }
        FileRule::Cold => FilePolicy::Cold,
    };
    placement.reason = format!("{}; {}", placement.reason, policy.reason());
    placement.files = Some(policy);
    Ok(())
}

/// Adds a part `files:` to a placement.
pub(crate) fn with_files(topology: &Topology, placement: &Placement, part: &str) -> Result<Placement, PlacementError> {
    let rule = rule(part).map_err(PlacementError::Invalid)?;
    let mut placement = Placement { name: parts::added(&placement.name, part), ..placement.clone() };
    place(&CoreIndex::new(topology), &mut placement, rule)?;
    Ok(placement)
}

/// Returns the nodes on which a command finds its cached pages if they follow its placement: those that its memory policy
/// names, or else those of its CPUs.
pub fn cached_nodes(topology: &Topology, placement: &Placement) -> NodeSet {
    placement.memory.named_nodes().unwrap_or_else(|| {
        let all = || CoreIndex::new(topology).memory_nodes().into_iter().collect();
        if placement.is_pinned() { topology.local_nodes(&placement.cpus()) } else { all() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_rules_are_split_from_names() {
        let cases = [
            ("compact+files:local", "compact", Some(FileRule::Local)),
            ("compact+files:node:2+interleave", "compact+interleave", Some(FileRule::Node(NodeId(2)))),
            ("files:cold", "kernel", Some(FileRule::Cold)),
            ("-C 0-3 files:interleave -m 0", "-C 0-3 -m 0", Some(FileRule::Interleave)),
            ("compact+interleave", "compact+interleave", None),
        ];
        for (text, rest, rule) in cases {
            assert_eq!(split(text).unwrap(), (rest.to_string(), rule), "{text}");
        }
        for (invalid, message) in [
            ("compact+files:remote", "'files:remote' does not place files"),
            ("compact+files:node:x", "does not place files"),
            ("compact+files:cold+files:local", "files:cold and files:local both place files"),
            ("files:local", "files:local requires CPUs"),
            ("kernel+files:local", "files:local requires CPUs"),
        ] {
            let error = split(invalid).unwrap_err();
            assert!(error.contains(message), "{invalid}: {error}");
        }
    }
}
