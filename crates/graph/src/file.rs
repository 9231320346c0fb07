//! Reads and writes a constructed graph: a header with a version and the sizes and checksums (SHA-256) of five
//! sections, then the sections. Everything is validated on reading: a file that is truncated, damaged, of another
//! format or inconsistent is rejected with the reason.
//!
//! Layout, all numbers little-endian: 8 bytes magic, u32 version, u32 columns, u32 scale, u32 zero, u64 edge factor,
//! two u64 seeds, u64 ranks, u64 neighbours; for each section u64 bytes and 32 bytes SHA-256; SHA-256 of everything
//! before. Sections: rows of each column and of the tail lists (u32), head columns (u32, padded to 64 rows), tail lists
//! (encoded), starts of the tail lists (u64), labels of the ranks (u32).

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use sha2::{Digest, Sha256};
use zerocopy::{FromBytes, IntoBytes};

use crate::arrays::{Array, ArrayPlacement};
use crate::build::{LayoutLists, Ranking, finish};
use crate::coded::PADDING;
use crate::degrees::DegreeRuns;
use crate::edges::SCALE_MAX_IN_CORE;
use crate::error::Error;
use crate::head::ROWS_ALIGNED;
use crate::kronecker::Spec;
use crate::layout::{COLUMNS_MAX, Layout, NO_LABEL, PlainLists};
use crate::team::{Chunks, PlainTeam, Team};

/// Format version; files of other versions are rejected.
pub const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"nearfarG";
pub(crate) const SECTIONS: [&str; 5] = ["rows", "HEAD", "TAIL", "index", "labels"];
const FIELDS_BYTES: usize = 8 + 4 * 4 + 5 * 8;
pub(crate) const HEADER_BYTES: usize = FIELDS_BYTES + SECTIONS.len() * 40 + 32;
/// Ranks whose lists a thread checks per chunk.
const PIECE: usize = 4096;

/// Reason why a file is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(String),
    #[error("not a graph file of nearfar")]
    Foreign,
    /// The format version is unknown.
    #[error("unsupported graph format {0}: this version of nearfar reads format {VERSION}")]
    Version(u32),
    #[error("the file is truncated in its {0}")]
    Cut(&'static str),
    /// A checksum does not match.
    #[error("the file is damaged: the checksum of its {0} does not match")]
    Damaged(&'static str),
    /// The checksums match, but the contents are inconsistent.
    #[error("invalid graph: {0}")]
    Impossible(String),
    /// The file is valid, but the graph cannot be loaded here.
    #[error(transparent)]
    Graph(Error),
}

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub spec: Spec,
    pub columns: u32,
    /// Vertices with an edge to another vertex.
    pub ranks: u64,
    pub neighbours: u64,
    pub sections: Vec<FileSection>,
}

/// Name, size in bytes and checksum (SHA-256) of a section.
pub type FileSection = (&'static str, u64, [u8; 32]);

pub fn write(layout: &Layout, to: &mut impl Write) -> Result<(), FileError> {
    let (head, tail) = (layout.head.wide_bytes(), layout.tail());
    let tail_at: Vec<u8> = layout.index.starts().flat_map(u64::to_le_bytes).collect();
    let rows: Vec<u8> = layout.rows.iter().flat_map(|rows| rows.to_le_bytes()).collect();
    let labels = &layout.label.view::<u8>()[..layout.ranks as usize * 4];
    let parts = [&rows[..], &head, tail, &tail_at, labels];
    let section = |(name, part): (&&'static str, &&[u8])| (*name, part.len() as u64, Sha256::digest(part).into());
    let header = Header {
        spec: layout.spec,
        columns: layout.columns(),
        ranks: layout.vertices(),
        neighbours: layout.neighbours,
        sections: SECTIONS.iter().zip(&parts).map(section).collect(),
    };
    let header = header.bytes();
    let mut parts = std::iter::once(&header[..]).chain(parts);
    let written = parts.try_for_each(|part| to.write_all(part)).and_then(|()| to.flush());
    written.map_err(|error| FileError::Io(error.to_string()))
}

impl Header {
    /// Encodes the header, with its own checksum at the end.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        for number in [VERSION, self.columns, self.spec.scale, 0] {
            bytes.extend(number.to_le_bytes());
        }
        let Spec { edge_factor, seed, .. } = self.spec;
        for number in [edge_factor, seed.0, seed.1, self.ranks, self.neighbours] {
            bytes.extend(number.to_le_bytes());
        }
        for (_, length, sum) in &self.sections {
            bytes.extend(length.to_le_bytes());
            bytes.extend(sum);
        }
        bytes.extend(Sha256::digest(&bytes));
        bytes
    }
}

/// Reads only the header and verifies its checksum.
pub fn read_header(from: &mut impl Read) -> Result<Header, FileError> {
    let mut bytes = [0; HEADER_BYTES];
    let length = read_some(from, &mut bytes)?;
    if length < 8 || bytes[..8] != MAGIC {
        return Err(FileError::Foreign);
    }
    if length < HEADER_BYTES {
        return Err(FileError::Cut("header"));
    }
    let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
    if version != VERSION {
        return Err(FileError::Version(version));
    }
    let (content, sum) = bytes.split_at(HEADER_BYTES - 32);
    if Sha256::digest(content)[..] != *sum {
        return Err(FileError::Damaged("header"));
    }
    parse(content)
}

fn parse(bytes: &[u8]) -> Result<Header, FileError> {
    let small = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let large = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let spec = Spec { scale: small(16), edge_factor: large(24), seed: (large(32), large(40)) };
    let section = |(index, name): (usize, &&'static str)| {
        let at = FIELDS_BYTES + 40 * index;
        (*name, large(at), bytes[at + 8..at + 40].try_into().expect("32 bytes"))
    };
    let sections = SECTIONS.iter().enumerate().map(section).collect();
    let header = Header { spec, columns: small(12), ranks: large(48), neighbours: large(56), sections };
    let impossible = |why: String| Err(FileError::Impossible(why));
    if let Err(error) = header.spec.check() {
        return impossible(error.to_string());
    }
    if header.spec.scale > SCALE_MAX_IN_CORE || header.ranks > header.spec.vertices() || header.ranks == 0 {
        return impossible(format!("{} connected vertices at scale {}", header.ranks, header.spec.scale));
    }
    if !(1..=COLUMNS_MAX).contains(&header.columns) {
        return impossible(format!("{} columns", header.columns));
    }
    Ok(header)
}

/// Reads an entire graph, and validates it with these threads.
pub fn read(from: &mut impl Read, threads: PlainTeam, placement: &ArrayPlacement) -> Result<Layout, FileError> {
    let header = read_header(from)?;
    let rows: Vec<u32> = {
        let array: Array<u32> = section(from, &header, 0, u64::from(header.columns + 1), 0, placement)?;
        array[..].to_vec()
    };
    let fall = rows.windows(2).all(|pair| pair[0] >= pair[1]);
    if !fall || u64::from(rows[0]) != header.ranks {
        return Err(FileError::Impossible("the lengths of the columns do not descend".into()));
    }
    let columns = header.columns as usize;
    let column_at = Layout::columns_at(&rows[..columns]);
    let head: Array<u32> = section(from, &header, 1, (column_at[columns] + ROWS_ALIGNED) as u64, 0, placement)?;
    let tail: Array<u8> = section(from, &header, 2, header.sections[2].1, PADDING, placement)?;
    let tail_at: Array<u64> = section(from, &header, 3, u64::from(rows[columns]) + 1, 0, placement)?;
    let label: Array<u32> = section(from, &header, 4, header.ranks, ROWS_ALIGNED, placement)?;
    let parts = Parts { header, rows, column_at, head, tail, tail_at, label };
    parts.check(threads, placement)
}

/// Reads until the buffer is full or the input ends. Returns the number of bytes.
fn read_some(from: &mut impl Read, bytes: &mut [u8]) -> Result<usize, FileError> {
    let mut length = 0;
    while length < bytes.len() {
        match from.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(some) => length += some,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(FileError::Io(error.to_string())),
        }
    }
    Ok(length)
}

/// Reads a section with this many elements, into an array with additional space.
fn section<T: FromBytes + IntoBytes>(
    from: &mut impl Read,
    header: &Header,
    index: usize,
    elements: u64,
    more: usize,
    placement: &ArrayPlacement,
) -> Result<Array<T>, FileError> {
    let (name, bytes, sum) = header.sections[index];
    if elements.checked_mul(size_of::<T>() as u64) != Some(bytes) {
        return Err(FileError::Impossible(format!("section {name} has {bytes} bytes")));
    }
    let mut array: Array<T> = placement
        .array((elements as usize).saturating_add(more))
        .map_err(|error| FileError::Graph(Error::Memory(error)))?;
    let place = &mut array.as_mut::<u8>()[..bytes as usize];
    if read_some(from, place)? < place.len() {
        return Err(FileError::Cut(name));
    }
    if Sha256::digest(&*place)[..] != sum {
        return Err(FileError::Damaged(name));
    }
    Ok(array)
}

/// The sections of a file whose checksums match, but whose contents are not validated yet.
struct Parts {
    header: Header,
    rows: Vec<u32>,
    column_at: Vec<usize>,
    head: Array<u32>,
    tail: Array<u8>,
    tail_at: Array<u64>,
    label: Array<u32>,
}

impl Parts {
    fn check(mut self, threads: PlainTeam, placement: &ArrayPlacement) -> Result<Layout, FileError> {
        let impossible = |why: &str| Err(FileError::Impossible(why.into()));
        let memory = |error| FileError::Graph(Error::Memory(error));
        let ranks = self.header.ranks as u32;
        let vertices = self.header.spec.vertices() as usize;
        let mut rank: Array<u32> = placement.array(vertices).map_err(memory)?;
        rank.fill(NO_LABEL);
        for (own, label) in self.label[..ranks as usize].iter().enumerate() {
            match rank.get_mut(*label as usize) {
                Some(slot) if *slot == NO_LABEL => *slot = own as u32,
                _ => return impossible("a label is out of range or a duplicate"),
            }
        }
        self.label[ranks as usize..].fill(NO_LABEL);
        let tail_bytes = (self.tail.len() - PADDING) as u64;
        let ascend = self.tail_at.windows(2).all(|pair| pair[0] <= pair[1]);
        if !ascend || self.tail_at.last() != Some(&tail_bytes) || self.tail_at.first() != Some(&0) {
            return impossible("the tail lists are not contiguous");
        }
        let filled = self
            .column_at
            .windows(2)
            .zip(&self.rows)
            .all(|(at, rows)| self.head[at[0] + *rows as usize..at[1]].iter().all(|neighbour| *neighbour == ranks));
        let end = self.column_at[self.column_at.len() - 1];
        if !filled || self.head[end..].iter().any(|neighbour| *neighbour != ranks) {
            return impossible("the columns have more rows than ranks");
        }
        let mut degrees: Array<u32> = placement.array(ranks as usize).map_err(memory)?;
        self.check_lists(threads, degrees.as_mut())?;
        self.finish(&degrees, rank, placement)
    }

    /// Decodes every list with scalar code and records its length.
    fn check_lists(&self, threads: PlainTeam, degrees: &[AtomicU32]) -> Result<(), FileError> {
        let pieces = Chunks::new(degrees.len(), PIECE);
        let (bad, sum) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        threads
            .run(&|_| {
                while let Some(mut piece) = pieces.take() {
                    let list = |rank: usize| self.lists().read(rank as u32, || self.tail(rank));
                    let broken = piece.find(|rank| {
                        let Some(list) = list(*rank) else { return true };
                        degrees[*rank].store(list.len() as u32, Relaxed);
                        sum.fetch_add(list.len() as u64, Relaxed);
                        list.binary_search(&(*rank as u32)).is_ok()
                    });
                    if let Some(rank) = broken {
                        bad.fetch_min(rank as u64, Relaxed);
                    }
                }
                Ok(())
            })
            .map_err(FileError::Graph)?;
        match bad.into_inner() {
            u64::MAX if sum.into_inner() == self.header.neighbours => Ok(()),
            u64::MAX => Err(FileError::Impossible("the number of neighbours differs from the header".into())),
            rank => Err(FileError::Impossible(format!("the list of rank {rank} is invalid"))),
        }
    }

    fn lists(&self) -> PlainLists<'_> {
        let ranks = self.header.ranks as u32;
        PlainLists { ranks, rows: &self.rows, column_at: &self.column_at, head: &self.head }
    }

    /// Returns the bytes of a rank's tail list.
    fn tail(&self, rank: usize) -> Option<&[u8]> {
        let (from, to) = (*self.tail_at.get(rank)?, *self.tail_at.get(rank + 1)?);
        self.tail.get(from as usize..to as usize)
    }

    fn finish(self, degrees: &[u32], rank: Array<u32>, placement: &ArrayPlacement) -> Result<Layout, FileError> {
        let Self { header, rows, head, tail, tail_at, label, .. } = self;
        let labels = &label[..degrees.len()];
        let ordered = |at: usize| {
            degrees[at] > degrees[at + 1] || (degrees[at] == degrees[at + 1] && labels[at] < labels[at + 1])
        };
        if !(0..degrees.len() - 1).all(ordered) {
            return Err(FileError::Impossible("ranks are not sorted by descending degree".into()));
        }
        let mut steps: Vec<(u32, u32)> = Vec::new();
        for (rank, degree) in degrees.iter().enumerate() {
            match steps.last_mut() {
                Some(step) if step.0 == *degree => step.1 = rank as u32 + 1,
                _ => steps.push((*degree, rank as u32 + 1)),
            }
        }
        let ranking = Ranking {
            ranks: header.ranks as u32,
            neighbours: header.neighbours,
            rank,
            label,
            steps: DegreeRuns(steps),
            rows,
            chunks: Vec::new(),
        };
        let listed = LayoutLists::near(head, tail, &tail_at, placement);
        let layout = listed.and_then(|listed| finish(&header.spec, ranking, listed, placement));
        layout.map_err(|error| FileError::Graph(Error::Memory(error)))
    }
}

#[cfg(test)]
mod tests;
