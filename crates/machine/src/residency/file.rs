//! The page cache of a file: the cached ranges and the memory nodes of their pages.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::analysis::residency::{CachedFile, RANGES_MAX, SamplingInterval, Tally};
use model::hint::Hinted;
use model::values::units::Bytes;
use rustix::fs::{Access, AtFlags, CWD};

use super::{query, shown};
use crate::file_mapping::{FileMapping, for_each_part};
use crate::syscall;

/// A file that cannot be inspected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("{path} is {kind}, not a file")]
    NotAFile { path: String, kind: &'static str },
    #[error("cannot open {path}: {error}")]
    Open { path: String, error: String, is_missing: bool },
    /// The kernel would report every page as cached.
    #[error("the Linux kernel shows which parts of {0} are cached only to its owner and to users who may write it")]
    NotOwner(String),
    #[error("cannot inspect {path}: {error}")]
    Refused { path: String, error: String },
}

impl Hinted for FileError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotAFile { kind: "a directory", path } => Some(format!("name the files in it: {path}/*")),
            Self::Open { is_missing: false, .. } | Self::NotOwner(_) => {
                Some("run as the owner of the file, or as root".into())
            }
            _ => None,
        }
    }
}

/// Returns the cached ranges of a file, and the nodes of their pages.
pub fn cached_file(path: &Path) -> Result<CachedFile, FileError> {
    let (file, metadata) = open_own_file(path)?;
    let refused = |error: io::Error| FileError::Refused { path: shown(path), error: error.to_string() };
    let mut survey = Survey::new(metadata.len());
    survey.find_cached(&file).map_err(refused)?;
    survey.interval = SamplingInterval::for_pages(survey.pages());
    if let Err(error) = survey.find_nodes(&file) {
        survey.nodes_unavailable = Some(reason(&error));
    }
    Ok(survey.result(shown(path)))
}

/// Opens a file whose cached pages this user may see.
pub(crate) fn open_own_file(path: &Path) -> Result<(File, Metadata), FileError> {
    let open_error = |error: io::Error| FileError::Open {
        path: shown(path),
        is_missing: error.kind() == io::ErrorKind::NotFound,
        error: error.to_string(),
    };
    check_kind(path, &std::fs::metadata(path).map_err(open_error)?)?;
    let file = File::open(path).map_err(open_error)?;
    let metadata = file.metadata().map_err(open_error)?;
    if !may_see_pages(path, &metadata) {
        return Err(FileError::NotOwner(shown(path)));
    }
    Ok((file, metadata))
}

fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), FileError> {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    let name = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(FileError::NotAFile { path: shown(path), kind: name })
}

/// Since Linux 5.2, mincore(2) reports the pages of other users' files as cached.
fn may_see_pages(path: &Path, metadata: &Metadata) -> bool {
    let user = rustix::process::geteuid();
    user.is_root()
        || user.as_raw() == metadata.uid()
        || rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EINVAL) => "it needs Linux 5.14".into(),
        Some(libc::EFAULT) => "the file was truncated during the inspection".into(),
        _ => error.to_string(),
    }
}

/// The findings about a file, piece by piece.
#[derive(Debug)]
struct Survey {
    size: u64,
    page_bytes: u64,
    /// Cached ranges in bytes, in order.
    ranges: Vec<[u64; 2]>,
    interval: SamplingInterval,
    tally: Tally,
    nodes_unavailable: Option<String>,
}

impl Survey {
    fn new(size: u64) -> Self {
        Self {
            size,
            page_bytes: syscall::page_bytes() as u64,
            ranges: Vec::new(),
            interval: SamplingInterval::EVERY_PAGE,
            tally: Tally::default(),
            nodes_unavailable: None,
        }
    }

    fn pages(&self) -> u64 {
        self.ranges.iter().map(|[start, end]| (end - start) / self.page_bytes).sum()
    }

    fn find_cached(&mut self, file: &File) -> io::Result<()> {
        for_each_part(file, self.size, |offset, mapping| {
            for range in mapping.cached_ranges()? {
                let [start, end] = [range.start, range.end].map(|at| offset + at as u64);
                match self.ranges.last_mut() {
                    Some([_, last]) if *last == start => *last = end,
                    _ => self.ranges.push([start, end]),
                }
            }
            Ok(())
        })
    }

    /// Maps the pages to query, which are in the page cache already, and queries them.
    fn find_nodes(&mut self, file: &File) -> io::Result<()> {
        let ranges = self.ranges.clone();
        for_each_part(file, self.size, |offset, mapping| {
            let end = offset + mapping.len();
            let part = ranges.iter().map(|[from, to]| [(*from).max(offset), (*to).min(end)]);
            let inside: Vec<[u64; 2]> = part.filter(|[from, to]| from < to).collect();
            self.find_nodes_in(mapping, offset, &inside)
        })
    }

    fn find_nodes_in(&mut self, mapping: &FileMapping, offset: u64, ranges: &[[u64; 2]]) -> io::Result<()> {
        let (mut addresses, mut weights) = (Vec::new(), Vec::new());
        for [from, to] in ranges {
            if self.interval == SamplingInterval::EVERY_PAGE {
                mapping.populate((from - offset) as usize, (to - from) as usize)?;
            }
            for page in (*from..*to).step_by(self.page_bytes as usize) {
                let Some(weight) = self.tally.next(self.interval) else { continue };
                let at = (page - offset) as usize;
                if self.interval != SamplingInterval::EVERY_PAGE {
                    mapping.populate(at, self.page_bytes as usize)?;
                }
                addresses.push(mapping.address(at));
                weights.push(weight);
            }
        }
        let answers = query(0, &addresses)?;
        weights.into_iter().zip(answers).for_each(|(weight, answer)| self.tally.record(weight, answer));
        Ok(())
    }

    fn result(mut self, path: String) -> CachedFile {
        if self.nodes_unavailable.is_some() {
            self.tally = Tally::default();
            self.tally.record_unknown(self.pages());
        }
        let range_count = self.ranges.len() as u64;
        self.ranges.truncate(RANGES_MAX);
        CachedFile {
            path,
            size: Bytes(self.size),
            memory: self.tally.memory(Bytes(self.page_bytes)),
            ranges: self.ranges,
            range_count,
            sampling_interval: self.interval.0,
            nodes_unavailable: self.nodes_unavailable,
        }
    }
}
