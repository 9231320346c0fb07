//! The files whose cached pages a search has placed before the trials of its candidates: who applies the winner by hand has
//! to place them, too.

use std::collections::BTreeMap;

use crate::placements::placement::file_line;
use crate::values::record::TrialRecord;
use crate::values::shell::quote_arg;
use crate::values::trial::PageCacheStart;

/// The newest state of the page cache by cell: for the measured command, and for the second one.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacedFiles {
    command: BTreeMap<usize, PageCacheStart>,
    second: BTreeMap<usize, PageCacheStart>,
    /// Programs and libraries that were copied besides those that the commands name, by cell.
    copied: BTreeMap<usize, Vec<String>>,
    second_copied: BTreeMap<usize, Vec<String>>,
}

impl PlacedFiles {
    pub fn add(&mut self, records: &[&TrialRecord]) {
        for record in records {
            let (cell, evidence) = (record.trial.cell, &record.outcome.evidence);
            if let Some(start) = &evidence.page_cache {
                self.command.insert(cell, start.clone());
            }
            if let Some(start) = evidence.second.as_ref().and_then(|second| second.page_cache.as_ref()) {
                self.second.insert(cell, start.clone());
            }
            if let Some(copy) = &evidence.text_copy {
                self.copied.insert(cell, copy.files.clone());
            }
            if let Some(copy) = evidence.second.as_ref().and_then(|second| second.text_copy.as_ref()) {
                self.second_copied.insert(cell, copy.files.clone());
            }
        }
    }

    /// Returns the line that places the files of the measured command as in the trials of a cell.
    pub fn line(&self, cell: usize) -> Option<String> {
        line(self.command.get(&cell)?)
    }

    /// Returns the files that were copied for the measured command besides those that it names.
    pub fn copied(&self, cell: usize) -> &[String] {
        self.copied.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// The same for the second command.
    pub fn second_copied(&self, cell: usize) -> &[String] {
        self.second_copied.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// Like [`PlacedFiles::line`], for the second command.
    pub fn second_line(&self, cell: usize) -> Option<String> {
        line(self.second.get(&cell)?)
    }
}

/// Pages are dropped only to start all candidates equally, not as part of a placement.
fn line(start: &PageCacheStart) -> Option<String> {
    let is_placed = !start.nodes.is_empty() && !start.equalised.is_empty();
    is_placed.then(|| {
        let paths: Vec<String> = start.equalised.iter().map(|path| quote_arg(path)).collect();
        file_line(&start.nodes, &paths.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::NodeId;

    #[test]
    fn only_moved_files_have_a_line() {
        let start = |nodes: &[u32], files: &[&str]| PageCacheStart {
            nodes: nodes.iter().copied().map(NodeId).collect(),
            equalised: files.iter().map(|file| (*file).into()).collect(),
            ..PageCacheStart::default()
        };
        let moved = line(&start(&[0, 2], &["/data/a", "/data/b c"]));
        assert_eq!(moved.as_deref(), Some("nearfar files --nodes 0,2 /data/a '/data/b c'"));
        assert_eq!(line(&start(&[], &["/data/a"])), None, "dropped");
        assert_eq!(line(&start(&[0], &[])), None, "kept by others");
    }
}
