//! The share of files in the memory of a command: whether their placement can matter.

use serde::Serialize;

use crate::values::trial::{Evidence, FILE_PAGES_MIN, FilePages, REMOTE_SHARE_MIN};

/// Files that a command uses, from the evidence of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileUse {
    /// Pages of data files and of the program that it runs, in percent of all pages that it maps.
    pub data_percent: f64,
    /// Whether it reads large files without mapping them.
    pub reads: bool,
    /// Pages of its program and libraries that are on other nodes than those of its CPUs, in percent of all pages that it
    /// maps. 0 without bound CPUs.
    pub remote_text_percent: f64,
}

impl FileUse {
    /// Returns the files that a command used in a trial.
    pub(super) fn of(evidence: &Evidence) -> Self {
        let sum = |file: &FilePages| file.pages.values().sum::<u64>();
        let all = evidence.mapped_pages();
        let percent = |pages: u64| if pages == 0 { 0.0 } else { 100.0 * pages as f64 / all.max(pages) as f64 };
        let placeable = || evidence.files.iter().filter(|file| file.is_placeable());
        let local = evidence.local_nodes.as_ref();
        let text = evidence.files.iter().filter(|file| file.is_text());
        let remote_text: u64 = local.map_or(0, |local| text.map(|file| file.pages_outside(local)).sum());
        Self {
            data_percent: percent(placeable().map(sum).sum()),
            reads: placeable().any(|file| file.pages.is_empty()),
            remote_text_percent: percent(if remote_text >= FILE_PAGES_MIN { remote_text } else { 0 }),
        }
    }

    /// Returns the larger value of each field.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            data_percent: self.data_percent.max(other.data_percent),
            reads: self.reads || other.reads,
            remote_text_percent: self.remote_text_percent.max(other.remote_text_percent),
        }
    }

    /// Whether the placement of its data files can matter.
    pub fn data_matters(&self) -> bool {
        self.reads || self.data_percent >= 100.0 * REMOTE_SHARE_MIN
    }

    /// Whether copies of its program text can matter.
    pub fn text_matters(&self) -> bool {
        self.remote_text_percent >= 100.0 * REMOTE_SHARE_MIN
    }

    pub fn matters(&self) -> bool {
        self.data_matters() || self.text_matters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::NodeId;
    use crate::values::trial::FileKind;

    fn file(kind: FileKind, pages: &[(u32, u64)]) -> FilePages {
        let pages = pages.iter().map(|(node, count)| (NodeId(*node), *count)).collect();
        FilePages { path: "/f".into(), kind, pages, is_shared: false }
    }

    fn used(anonymous: u64, files: Vec<FilePages>) -> FileUse {
        let mut evidence = Evidence {
            local_nodes: Some([NodeId(0)].into_iter().collect()),
            pages: [(NodeId(0), anonymous)].into(),
            ..Evidence::default()
        };
        for (node, pages) in files.iter().flat_map(|file| &file.pages) {
            *evidence.file_pages.entry(*node).or_default() += pages;
        }
        evidence.files = files;
        FileUse::of(&evidence)
    }

    #[test]
    fn tenth_of_the_pages_matters() {
        let mapped = |pages| used(10_000 - pages, vec![file(FileKind::Data, &[(1, pages)])]);
        assert!(mapped(1_000).data_matters(), "a tenth");
        assert!(!mapped(999).matters());
        assert!(!used(100, vec![file(FileKind::Data, &[(0, 400)])]).matters(), "it fits in a cache");
        assert!(used(90_000, vec![file(FileKind::Data, &[])]).data_matters(), "open and large");
    }

    #[test]
    fn only_remote_text_matters() {
        let library = |pages: &[(u32, u64)]| used(2_000, vec![file(FileKind::Library, pages)]);
        assert!(library(&[(0, 100), (1, 600)]).text_matters());
        assert!(!library(&[(0, 700)]).matters(), "it is local");
        assert!(!library(&[(1, 400)]).matters(), "it fits in a cache");
    }
}
