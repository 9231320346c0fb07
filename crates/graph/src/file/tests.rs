//! Written graphs are read back unchanged, and every invalid file is rejected with its own reason.

use super::*;
use crate::build::build;
use crate::edges::Tuples;

fn graph() -> Layout {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(9), &ArrayPlacement::kernel_default()).unwrap();
    build(&PlainTeam(2), &tuples, 6, &ArrayPlacement::kernel_default()).unwrap()
}

fn written(layout: &Layout) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(layout, &mut bytes).unwrap();
    bytes
}

fn again(bytes: &[u8]) -> Result<Layout, FileError> {
    read(&mut &bytes[..], PlainTeam(2), &ArrayPlacement::kernel_default())
}

fn refused(bytes: &[u8]) -> FileError {
    again(bytes).err().expect("the file is invalid")
}

/// Updates the checksums, so that only the contents are invalid.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = HEADER_BYTES;
    for index in 0..SECTIONS.len() {
        let field = FIELDS_BYTES + 40 * index;
        let length = u64::from_le_bytes(bytes[field..field + 8].try_into().unwrap()) as usize;
        let sum = Sha256::digest(&bytes[at..at + length]);
        bytes[field + 8..field + 40].copy_from_slice(&sum);
        at += length;
    }
    let sum = Sha256::digest(&bytes[..HEADER_BYTES - 32]);
    bytes[HEADER_BYTES - 32..HEADER_BYTES].copy_from_slice(&sum);
    bytes
}

#[test]
fn graphs_round_trip() {
    let layout = graph();
    let bytes = written(&layout);
    let back = again(&bytes).unwrap();
    assert_eq!((back.spec(), back.vertices(), back.edges()), (layout.spec(), layout.vertices(), layout.edges()));
    assert!((0..layout.ranks).all(|rank| back.list(rank) == layout.list(rank)));
    assert!(back.label[..] == layout.label[..] && back.rank[..] == layout.rank[..]);
    assert!(back.mean_degree[..] == layout.mean_degree[..] && back.head.wide() == layout.head.wide());
    assert!((0..layout.classes.blocks).all(|block| back.classes.runs(block).eq(layout.classes.runs(block))));
    assert_eq!(written(&back), bytes);
    let header = read_header(&mut &bytes[..]).unwrap();
    assert_eq!((header.spec, header.ranks, header.columns), (*layout.spec(), layout.vertices(), 6));
}

#[test]
fn truncated_files_are_rejected_at_any_length() {
    let bytes = written(&graph());
    for length in [8, 100, HEADER_BYTES - 1] {
        assert_eq!(refused(&bytes[..length]), FileError::Cut("header"), "{length}");
    }
    assert_eq!(refused(&bytes[..HEADER_BYTES + 3]), FileError::Cut("rows"));
    assert_eq!(refused(&bytes[..bytes.len() - 1]), FileError::Cut("labels"));
    for length in (HEADER_BYTES..bytes.len()).step_by(997) {
        assert!(matches!(refused(&bytes[..length]), FileError::Cut(_)), "{length}");
    }
}

#[test]
fn every_damaged_byte_is_detected() {
    let bytes = written(&graph());
    for at in (12..bytes.len()).step_by(61).chain([bytes.len() - 1]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert!(matches!(refused(&damaged), FileError::Damaged(_)), "{at}: {}", refused(&damaged));
    }
}

#[test]
fn foreign_files_and_other_versions_return_distinct_errors() {
    let bytes = written(&graph());
    for foreign in [&b""[..], b"\x7fELF", &[b"%%MatrixMarket".as_slice(), &[b' '; 4000]].concat()] {
        assert_eq!(refused(foreign), FileError::Foreign);
    }
    let mut newer = bytes;
    newer[8] = 2;
    assert_eq!(refused(&newer), FileError::Version(2));
}

#[test]
fn inconsistent_files_with_valid_checksums_are_rejected() {
    let bytes = written(&graph());
    assert!(again(&sealed(bytes.clone())).is_ok());
    let lengths: Vec<usize> = (0..SECTIONS.len())
        .map(|index| u64::from_le_bytes(bytes[FIELDS_BYTES + 40 * index..][..8].try_into().unwrap()) as usize)
        .collect();
    let at = |section: usize| HEADER_BYTES + lengths[..section].iter().sum::<usize>();
    // A scale of 0 and of 200, no columns, too many connected vertices, a column longer than the previous one, a
    // neighbour that is out of range, invalid bytes in a tail list, an index beyond the end, a label that is out of
    // range.
    let changes: [(usize, u8); 9] = [
        (16, 0),
        (16, 200),
        (12, 0),
        (51, 1),
        (at(0) + 7, 1),
        (at(1) + 3, 0x7F),
        (at(2), 0),
        (at(3) + 15, 1),
        (at(4) + 3, 0x40),
    ];
    for (place, value) in changes {
        let mut changed = bytes.clone();
        changed[place] = value;
        assert_ne!(changed, bytes, "{place}");
        let error = refused(&sealed(changed));
        assert!(matches!(error, FileError::Impossible(_)), "{place}: {error}");
    }
}
