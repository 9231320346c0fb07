//! Writes edge lists in formats that other programs read. All threads generate, and edges are passed on in order, so a
//! list may be larger than memory.

use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::kronecker::{Generator, Spec};
use crate::team::{PlainTeam, Team};

/// Edges that a thread generates per batch: 4 MiB.
const BATCH: u64 = 1 << 18;

/// Encoding of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeEncoding {
    /// Two little-endian u64.
    Pairs,
    /// The packed edge of the Graph500: the low 32 bits of both ends, then the high 16 bits of both.
    Packed,
    /// Two decimal numbers and a line feed.
    Text,
}

impl EdgeEncoding {
    /// Returns the size of an edge in bytes, or `None` if it varies.
    pub fn width(self) -> Option<usize> {
        match self {
            Self::Pairs => Some(16),
            Self::Packed => Some(12),
            Self::Text => None,
        }
    }

    /// Decodes edges that are stored in [`EdgeEncoding::width`] bytes each.
    pub fn read(self, bytes: &[u8], edges: &mut [[u64; 2]]) {
        let Some(width) = self.width() else { return };
        let large = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let small = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes.try_into().expect("four bytes")));
        for (edge, bytes) in edges.iter_mut().zip(bytes.chunks_exact(width)) {
            *edge = if self == Self::Pairs {
                [large(&bytes[..8]), large(&bytes[8..])]
            } else {
                let high = small(&bytes[8..]);
                [small(&bytes[..4]) | (high & 0xFFFF) << 32, small(&bytes[4..8]) | high >> 16 << 32]
            };
        }
    }

    /// Returns the size of an edge list in bytes; an upper bound for text.
    pub fn bytes(self, spec: &Spec) -> u64 {
        let digits = (spec.vertices() - 1).max(1).ilog10() + 1;
        let edge = match self {
            Self::Pairs => 16,
            Self::Packed => 12,
            Self::Text => 2 * (u64::from(digits) + 1),
        };
        spec.edges().saturating_mul(edge)
    }

    pub fn append(self, edges: &[[u64; 2]], bytes: &mut Vec<u8>) {
        for [a, b] in edges {
            match self {
                Self::Pairs => [a, b].iter().for_each(|end| bytes.extend(end.to_le_bytes())),
                Self::Packed => {
                    let high = (a >> 32) as u32 & 0xFFFF | (b >> 32 << 16) as u32;
                    [*a as u32, *b as u32, high].iter().for_each(|part| bytes.extend(part.to_le_bytes()));
                }
                Self::Text => bytes.extend(format!("{a} {b}\n").bytes()),
            }
        }
    }
}

/// Generates all edges and passes them on in order, in batches. An error of the callback ends the stream.
pub fn stream<E: From<Error>>(
    spec: &Spec,
    threads: PlainTeam,
    mut take: impl FnMut(&[[u64; 2]]) -> Result<(), E>,
) -> Result<(), E> {
    let generator = Generator::new(spec)?;
    let parts: Vec<Mutex<Vec<[u64; 2]>>> = (0..threads.threads()).map(|_| Mutex::default()).collect();
    let round = BATCH * parts.len() as u64;
    for first in (0..spec.edges()).step_by(round as usize) {
        threads.run(&|worker| {
            let from = (first + BATCH * worker.index as u64).min(spec.edges());
            let count = BATCH.min(spec.edges() - from) as usize;
            let mut edges = parts[worker.index].lock().unwrap_or_else(PoisonError::into_inner);
            edges.resize(count, [0; 2]);
            generator.fill(from, &mut edges);
            Ok(())
        })?;
        for part in &parts {
            take(&part.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_deliver_all_edges_in_order() {
        let spec = Spec { scale: 16, edge_factor: 9, seed: (2, 3) };
        let mut whole = vec![[0; 2]; spec.edges() as usize];
        Generator::new(&spec).unwrap().fill(0, &mut whole);
        for threads in [1, 2, 3] {
            let mut streamed = Vec::new();
            stream::<Error>(&spec, PlainTeam(threads), |edges| {
                streamed.extend_from_slice(edges);
                Ok(())
            })
            .unwrap();
            assert!(streamed == whole, "{threads}");
        }
        assert_eq!(stream(&spec, PlainTeam(2), |_| Err(Error::Stopped)), Err(Error::Stopped));
    }

    #[test]
    fn edges_are_written_in_each_format() {
        let edges = [[1, 2], [0x1234_5678_9ABC, 0xFEDC_0000_0001]];
        let written = |form: EdgeEncoding| {
            let mut bytes = Vec::new();
            form.append(&edges, &mut bytes);
            bytes
        };
        assert_eq!(written(EdgeEncoding::Text), b"1 2\n20015998343868 280220846260225\n");
        let packed = written(EdgeEncoding::Packed);
        assert_eq!(packed[12..], [0xBC, 0x9A, 0x78, 0x56, 1, 0, 0, 0, 0x34, 0x12, 0xDC, 0xFE]);
        assert_eq!(written(EdgeEncoding::Pairs)[16..24], 0x1234_5678_9ABC_u64.to_le_bytes());
        for form in [EdgeEncoding::Pairs, EdgeEncoding::Packed] {
            let mut read = [[0; 2]; 2];
            form.read(&written(form), &mut read);
            assert_eq!(read, edges, "{form:?}");
        }
        let spec = Spec::graph500(4);
        assert_eq!(
            [EdgeEncoding::Pairs, EdgeEncoding::Packed, EdgeEncoding::Text].map(|form| form.bytes(&spec)),
            [4096, 3072, 1536]
        );
    }
}
