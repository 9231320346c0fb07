//! The files whose cached pages a search has placed before the trials of its candidates: who applies the winner by hand has
//! to place them, too.

use std::collections::BTreeMap;

use super::file_use::FileUse;
use crate::placements::placement::file_line;
use crate::values::record::TrialRecord;
use crate::values::shell::quote_arg;
use crate::values::trial::{Evidence, PageCacheStart};

/// The files of the commands by cell, as its newest trial found them.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacedFiles {
    cells: BTreeMap<usize, CellFiles>,
}

#[derive(Clone, Debug, Default)]
struct CellFiles {
    command: CommandFiles,
    second: CommandFiles,
}

/// The files of the measured command, or of the second one.
#[derive(Clone, Debug, Default)]
struct CommandFiles {
    start: Option<PageCacheStart>,
    /// Programs and libraries that were copied in addition to those on the command line.
    copied: Vec<String>,
    in_use: FileUse,
}

impl PlacedFiles {
    pub fn add(&mut self, records: &[&TrialRecord]) {
        for record in records {
            let (cell, evidence) = (self.cells.entry(record.trial.cell).or_default(), &record.outcome.evidence);
            cell.command.add(evidence);
            evidence.second.iter().for_each(|second| cell.second.add(second));
        }
    }

    /// Returns the line that places the files of the measured command as in the trials of a cell.
    pub fn line(&self, cell: usize) -> Option<String> {
        line(self.cells.get(&cell)?.command.start.as_ref()?)
    }

    /// Like [`PlacedFiles::line`], for the second command.
    pub fn second_line(&self, cell: usize) -> Option<String> {
        line(self.cells.get(&cell)?.second.start.as_ref()?)
    }

    /// Returns the programs and libraries that were copied for the measured command in addition to those on its command line.
    pub fn copied(&self, cell: usize) -> &[String] {
        self.cells.get(&cell).map_or(&[], |files| &files.command.copied)
    }

    /// The same for the second command.
    pub fn second_copied(&self, cell: usize) -> &[String] {
        self.cells.get(&cell).map_or(&[], |files| &files.second.copied)
    }

    /// Returns what the trials of a cell use of files: the larger use of the two commands.
    pub fn in_use(&self, cell: usize) -> FileUse {
        self.cells.get(&cell).map_or(FileUse::default(), |files| files.command.in_use.max(files.second.in_use))
    }

    /// Whether any trial so far uses enough of files for their placement to matter.
    pub fn matter(&self) -> bool {
        self.cells.keys().any(|cell| self.in_use(*cell).matters())
    }
}

impl CommandFiles {
    fn add(&mut self, evidence: &Evidence) {
        if let Some(start) = &evidence.page_cache {
            self.start = Some(start.clone());
        }
        if let Some(copy) = &evidence.text_copy {
            self.copied.clone_from(&copy.files);
        }
        self.in_use = FileUse::of(evidence);
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
