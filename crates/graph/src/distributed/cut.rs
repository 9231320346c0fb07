//! Maps vertices to shards: round-robin by label. Each shard numbers its own vertices. A position is a vertex's index
//! in the concatenation of all shards' numbers, where each shard starts at a multiple of 64; bit maps of all vertices
//! are indexed by position.

use std::ops::Range;

use crate::edges::SCALE_MAX_IN_CORE;
use crate::error::Error;
use crate::kronecker::Spec;
use crate::link::Link;

/// The distribution of one graph, from the view of one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardMap {
    pub(super) spec: Spec,
    pub(super) part: usize,
    pub(super) parts: usize,
    stride: u32,
}

impl ShardMap {
    pub(super) fn new(spec: &Spec, link: &impl Link) -> Result<Self, Error> {
        let (part, parts, vertices) = (link.part(), link.parts(), spec.vertices());
        if spec.scale > SCALE_MAX_IN_CORE {
            return Err(Error::Scale { scale: spec.scale, max: SCALE_MAX_IN_CORE });
        }
        if (parts as u64) > vertices {
            return Err(Error::Parts { vertices, parts });
        }
        let most = vertices.div_ceil(parts as u64).next_multiple_of(64);
        // Vertices and positions are 32 bits wide, and the largest value is reserved for `NONE`.
        match u32::try_from(most * parts as u64) {
            Ok(_) => Ok(Self { spec: *spec, part, parts, stride: most as u32 }),
            Err(_) => Err(Error::Parts { vertices, parts }),
        }
    }

    /// Returns the number of vertices of a shard; the first shards may have one more.
    pub(super) fn count(&self, part: usize) -> usize {
        (self.spec.vertices() as usize - part).div_ceil(self.parts)
    }

    /// Returns this shard's contiguous share of the generated edges.
    pub(super) fn share(&self) -> Range<u64> {
        let border = |part: usize| (u128::from(self.spec.edges()) * part as u128 / self.parts as u128) as u64;
        border(self.part)..border(self.part + 1)
    }

    /// Returns the number of words of a bit map of one shard's vertices.
    pub(super) fn words(&self) -> usize {
        self.stride as usize / 64
    }

    /// Returns the number of words of a bit map of all vertices.
    pub(super) fn all_words(&self) -> usize {
        self.words() * self.parts
    }

    /// Returns the shard that owns a vertex, and the vertex's number there.
    pub(super) fn owner(&self, vertex: u32) -> (usize, u32) {
        let parts = self.parts as u32;
        ((vertex % parts) as usize, vertex / parts)
    }

    /// Returns the label of a shard's vertex.
    pub(super) fn label(&self, part: usize, number: u32) -> u32 {
        number * self.parts as u32 + part as u32
    }

    pub(super) fn position(&self, vertex: u32) -> u32 {
        let (part, number) = self.owner(vertex);
        part as u32 * self.stride + number
    }

    /// Returns the shard and number at a position.
    pub(super) fn at(&self, position: u32) -> (usize, u32) {
        ((position / self.stride) as usize, position % self.stride)
    }

    pub(super) fn label_at(&self, position: u32) -> u32 {
        let (part, number) = self.at(position);
        self.label(part, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::together;
    use crate::team::PlainTeam;

    #[test]
    fn every_vertex_and_edge_belongs_to_one_shard() {
        for (scale, parts) in [(1, 2), (4, 3), (7, 5), (9, 1)] {
            let spec = Spec::graph500(scale);
            let cuts = together(&PlainTeam(parts), |link| Ok(ShardMap::new(&spec, link).unwrap())).unwrap();
            let mut labels = Vec::new();
            for cut in &cuts {
                for number in 0..cut.count(cut.part) as u32 {
                    let label = cut.label(cut.part, number);
                    assert_eq!(cut.owner(label), (cut.part, number));
                    assert_eq!(cut.at(cut.position(label)), (cut.part, number));
                    assert_eq!(cut.label_at(cut.position(label)), label);
                    assert!((cut.position(label) as usize) < cut.all_words() * 64);
                    labels.push(label);
                }
            }
            labels.sort_unstable();
            assert!(labels.into_iter().eq(0..1 << scale));
            let edges: Vec<u64> = cuts.iter().flat_map(ShardMap::share).collect();
            assert!(edges.into_iter().eq(0..spec.edges()));
        }
    }

    #[test]
    fn more_shards_than_vertices_return_an_error() {
        let refused = together(&PlainTeam(3), |link| Ok(ShardMap::new(&Spec::graph500(1), link).err())).unwrap();
        assert_eq!(refused, vec![Some(Error::Parts { vertices: 2, parts: 3 }); 3]);
    }
}
