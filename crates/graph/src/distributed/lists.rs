//! Lists of numbers, stored contiguously.

/// A fixed number of lists in one array.
pub(super) struct AdjacencyLists {
    /// Start of each list, and the end of the last one.
    starts: Vec<usize>,
    entries: Vec<u32>,
}

impl AdjacencyLists {
    /// Builds the lists from pairs of list index (upper half) and entry (lower half) in any order. Entries are sorted
    /// and unique.
    pub(super) fn gather(count: usize, pairs: &[u64]) -> Self {
        let mut starts = vec![0; count + 1];
        pairs.iter().for_each(|pair| starts[(pair >> 32) as usize + 1] += 1);
        (0..count).for_each(|list| starts[list + 1] += starts[list]);
        let (mut entries, mut cursors) = (vec![0; pairs.len()], starts.clone());
        for pair in pairs {
            let cursor = &mut cursors[(pair >> 32) as usize];
            entries[*cursor] = *pair as u32;
            *cursor += 1;
        }
        let (mut kept, mut begin) = (0, 0);
        for list in 0..count {
            let end = starts[list + 1];
            entries[begin..end].sort_unstable();
            starts[list] = kept;
            for at in begin..end {
                if at == begin || entries[at] != entries[at - 1] {
                    // The write position is never ahead of the read position, so this entry has been read already.
                    entries[kept] = entries[at];
                    kept += 1;
                }
            }
            begin = end;
        }
        starts[count] = kept;
        entries.truncate(kept);
        entries.shrink_to_fit();
        Self { starts, entries }
    }

    /// Creates empty lists, to be appended in order.
    pub(super) fn builder() -> Self {
        Self { starts: vec![0], entries: Vec::new() }
    }

    pub(super) fn push(&mut self, entry: u32) {
        self.entries.push(entry);
    }

    /// Ends the current list and starts the next one.
    pub(super) fn end(&mut self) {
        self.starts.push(self.entries.len());
    }

    pub(super) fn of(&self, list: u32) -> &[u32] {
        &self.entries[self.starts[list as usize]..self.starts[list as usize + 1]]
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns all entries with the indices of their lists.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.count() as u32).flat_map(|list| self.of(list).iter().map(move |entry| (list, *entry)))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_unique() {
        let pairs = [(3, 5), (0, 9), (3, 1), (3, 5), (0, 9), (4, 0), (3, 2), (0, 9)];
        let lists = AdjacencyLists::gather(6, &pairs.map(|(list, entry)| list << 32 | entry));
        let expected: [&[u32]; 6] = [&[9], &[], &[], &[1, 2, 5], &[0], &[]];
        assert_eq!((lists.count(), lists.len()), (6, 5));
        assert!(expected.iter().zip(0..).all(|(list, index)| lists.of(index) == *list));
        assert!(lists.pairs().eq([(0, 9), (3, 1), (3, 2), (3, 5), (4, 0)]));
        assert_eq!(AdjacencyLists::gather(0, &[]).count(), 0);
    }
}
