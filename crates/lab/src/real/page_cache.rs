//! Brings the files that a command uses to the same state of the page cache before each of its runs. Otherwise the first
//! trial that reads a file decides on which node all later trials find it.

use std::collections::BTreeSet;
use std::path::Path;

use machine::child::SpawnSpec;
use machine::page_cache::{self, PageCache};
use model::values::id_set::NodeSet;
use model::values::placement::{FilePolicy, MemoryPolicy};
use model::values::trial::{Evidence, PageCacheStart};

/// Files that trials of this executor were seen to use.
#[derive(Debug, Default)]
pub(super) struct UsedFiles {
    pub command: BTreeSet<String>,
    pub server: BTreeSet<String>,
}

impl UsedFiles {
    /// Adds the data files and the program of a trial.
    pub(super) fn add(&mut self, evidence: &Evidence) {
        let own = |evidence: &Evidence| -> Vec<String> {
            evidence.files.iter().filter(|file| file.is_placeable()).map(|file| file.path.clone()).collect()
        };
        self.command.extend(own(evidence));
        self.server.extend(evidence.second.iter().flat_map(|second| own(second)));
    }
}

/// The requirement for the files of a command: of its placement, or else of its parameter `page-cache`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requirement<'a> {
    pub placement: Option<&'a FilePolicy>,
    pub parameter: PageCache,
}

impl Requirement<'_> {
    /// Whether it can only be met if the files are observed on machines with one memory node, too.
    pub(super) fn lists_files(self) -> bool {
        self.placement.is_some() || self.parameter == PageCache::Cold
    }

    /// Returns the nodes that cached pages are moved to, an empty set if they are dropped; `None` without a requirement.
    fn nodes(self, launch: &SpawnSpec) -> Option<NodeSet> {
        match (self.placement, self.parameter) {
            (Some(policy), _) => Some(policy.nodes(|| page_cache::nodes_of(&launch.cpus, &MemoryPolicy::Kernel))),
            (None, PageCache::Placed) => Some(page_cache::nodes_of(&launch.cpus, &launch.memory)),
            (None, PageCache::Cold) => Some(NodeSet::new()),
            (None, PageCache::AsFound) => None,
        }
    }
}

/// Brings files to the required state before a command starts. Returns `None` if none is required, or for no files.
pub(super) fn start(
    requirement: Requirement<'_>,
    files: &BTreeSet<String>,
    launch: &SpawnSpec,
) -> Option<PageCacheStart> {
    let nodes = requirement.nodes(launch).filter(|_| !files.is_empty())?;
    let mut start = PageCacheStart { nodes, ..PageCacheStart::default() };
    for path in files {
        let done = if start.nodes.is_empty() {
            page_cache::drop_pages(Path::new(path))
        } else {
            page_cache::place(Path::new(path), &start.nodes)
        };
        match done {
            Ok(()) => start.equalised.push(path.clone()),
            Err(error) => drop(start.not_equalised.insert(path.clone(), error.to_string())),
        }
    }
    Some(start)
}
