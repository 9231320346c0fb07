//! Brings the files that a command uses to the same state of the page cache before each of its runs. Otherwise the first
//! trial that reads a file decides on which node all later trials find it.

use std::collections::BTreeSet;
use std::path::Path;

use machine::child::SpawnSpec;
use machine::page_cache::{self, PageCache};
use model::values::id_set::NodeSet;
use model::values::placement::{FilePolicy, MemoryPolicy};
use model::values::trial::{Evidence, FilePages, PageCacheStart};

/// Files that trials of this executor were seen to use.
#[derive(Debug, Default)]
pub(super) struct UsedFiles {
    pub command: CommandFiles,
    pub server: CommandFiles,
}

/// Files of one command of the trials.
#[derive(Debug, Default)]
pub(super) struct CommandFiles {
    /// Data files and the program.
    pub placeable: BTreeSet<String>,
    /// Programs and libraries that trials with copies used without having copies of them.
    pub uncopied: BTreeSet<String>,
}

impl UsedFiles {
    /// Adds the files of a trial.
    pub(super) fn add(&mut self, evidence: &Evidence) {
        self.command.add(evidence);
        evidence.second.iter().for_each(|second| self.server.add(second));
    }
}

impl CommandFiles {
    fn add(&mut self, evidence: &Evidence) {
        let paths = |is_wanted: &dyn Fn(&FilePages) -> bool| -> Vec<String> {
            evidence.files.iter().filter(|file| is_wanted(file)).map(|file| file.path.clone()).collect()
        };
        self.placeable.extend(paths(&FilePages::is_placeable));
        if let Some(copy) = &evidence.text_copy {
            self.uncopied.extend(copy.files.iter().cloned());
            self.uncopied.extend(paths(&|file| file.is_text() && file.pages_outside(&copy.nodes) > 0));
        }
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
