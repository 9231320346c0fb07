//! Brings the files that a command uses to the same state of the page cache before each of its runs. Otherwise the first
//! trial that reads a file decides on which node all later trials find it.

use std::collections::BTreeSet;
use std::path::Path;

use machine::child::SpawnSpec;
use machine::page_cache::{self, PageCache};
use model::values::trial::{Evidence, FILE_PAGES_MIN, FileKind, FilePages, PageCacheStart};

/// Files that trials of this executor were seen to use.
#[derive(Debug, Default)]
pub(super) struct UsedFiles {
    pub command: BTreeSet<String>,
    pub server: BTreeSet<String>,
}

impl UsedFiles {
    /// Adds the data files and the program of a trial. Libraries, and programs that run elsewhere too, belong to the
    /// whole system.
    pub(super) fn add(&mut self, evidence: &Evidence) {
        let own = |evidence: &Evidence| -> Vec<String> {
            let is_own = |file: &&FilePages| file.kind != FileKind::Library && !file.is_shared;
            // Files without pages were open, and are large.
            let is_large =
                |file: &&FilePages| file.pages.is_empty() || file.pages.values().sum::<u64>() >= FILE_PAGES_MIN;
            evidence.files.iter().filter(is_own).filter(is_large).map(|file| file.path.clone()).collect()
        };
        self.command.extend(own(evidence));
        self.server.extend(evidence.second.iter().flat_map(|second| own(second)));
    }
}

/// Brings files to the state that a command requires before it starts. Returns `None` if it requires none, or for no files.
pub(super) fn start(state: PageCache, files: &BTreeSet<String>, launch: &SpawnSpec) -> Option<PageCacheStart> {
    if files.is_empty() {
        return None;
    }
    let mut start = PageCacheStart::default();
    for path in files {
        let done = match state {
            PageCache::AsFound => return None,
            PageCache::Placed => page_cache::place(Path::new(path), &launch.cpus, &launch.memory),
            PageCache::Cold => page_cache::drop_pages(Path::new(path)),
        };
        match done {
            Ok(()) => start.equalised.push(path.clone()),
            Err(error) => drop(start.not_equalised.insert(path.clone(), error.to_string())),
        }
    }
    Some(start)
}
