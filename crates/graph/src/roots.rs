//! Chooses the search roots as the Graph500 does: distinct random vertices with an edge to another vertex.

use crate::kronecker::Spec;
use crate::mrg::MrgState;

/// Iterates over the roots of a graph in the benchmark's order.
#[derive(Clone, Debug)]
pub struct Roots {
    spec: Spec,
    drawn: u64,
    given: Vec<u64>,
}

impl Roots {
    pub fn new(spec: &Spec) -> Self {
        Self { spec: *spec, drawn: 0, given: Vec::new() }
    }

    /// Returns the next root. `has_edge` must return true for vertices with an edge to another vertex. Returns `None`
    /// after as many attempts as the benchmark makes.
    pub fn next(&mut self, has_edge: impl Fn(u64) -> bool) -> Option<u64> {
        let vertices = self.spec.vertices();
        let start = MrgState::seeded(self.spec.seed);
        while self.drawn <= 2 * vertices {
            // Each number takes two steps of the generator.
            let mut state = start.skipped(2, 0, 2 * self.drawn);
            let (one, two) = (state.fraction(), state.fraction());
            let root = ((one + two) * vertices as f64) as u64 % vertices;
            self.drawn += 2;
            if !self.given.contains(&root) && has_edge(root) {
                self.given.push(root);
                return Some(root);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kronecker::Generator;

    #[test]
    fn roots_equal_those_of_the_reference() {
        let golden: [(u32, &[u64]); 4] = [
            (4, &[7, 3, 1, 15, 6, 0, 13, 12]),
            (10, &[458, 214, 220, 966]),
            (16, &[29_348, 8_064, 61_854, 29_808]),
            (20, &[469_580, 129_031, 989_678, 404_994]),
        ];
        for (scale, expected) in golden {
            let spec = Spec::graph500(scale);
            let mut edges = vec![[0; 2]; spec.edges() as usize];
            Generator::new(&spec).unwrap().fill(0, &mut edges);
            let mut has_edge = vec![false; spec.vertices() as usize];
            edges.iter().filter(|edge| edge[0] != edge[1]).flatten().for_each(|end| has_edge[*end as usize] = true);
            let mut roots = Roots::new(&spec);
            let found: Vec<u64> =
                expected.iter().map_while(|_| roots.next(|vertex| has_edge[vertex as usize])).collect();
            assert_eq!(found, expected, "scale {scale}");
        }
    }

    #[test]
    fn roots_are_at_most_as_many_as_vertices() {
        let mut roots = Roots::new(&Spec::graph500(4));
        let found: Vec<u64> = std::iter::from_fn(|| roots.next(|vertex| vertex % 2 == 0)).collect();
        assert!(found.len() <= 8 && found.iter().all(|root| root % 2 == 0), "{found:?}");
        assert_eq!(roots.next(|_| true), None);
    }
}
