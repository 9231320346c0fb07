//! Numbers a subset of positions: a bit per position and a running count per word.

/// A set of positions, numbered in ascending order.
pub(super) struct PositionIndex {
    words: Vec<u64>,
    before: Vec<u32>,
}

impl PositionIndex {
    /// Creates the set of positions whose bits are set.
    pub(super) fn of(words: Vec<u64>) -> Self {
        let mut count = 0;
        let before = words.iter().map(|word| {
            count += word.count_ones();
            count - word.count_ones()
        });
        let before = before.collect();
        Self { words, before }
    }

    pub(super) fn has(&self, position: u32) -> bool {
        bit(&self.words, position)
    }

    /// Returns the number of a position in the set, i.e. how many smaller ones the set has.
    pub(super) fn number(&self, position: u32) -> u32 {
        let below = self.words[position as usize / 64] & ((1 << (position % 64)) - 1);
        self.before[position as usize / 64] + below.count_ones()
    }

    /// Returns all positions, ascending.
    pub(super) fn positions(&self) -> impl Iterator<Item = u32> {
        ones(&self.words)
    }
}

pub(super) fn bit(words: &[u64], at: u32) -> bool {
    words[at as usize / 64] >> (at % 64) & 1 == 1
}

pub(super) fn set(words: &mut [u64], at: u32) {
    words[at as usize / 64] |= 1 << (at % 64);
}

/// Returns the indices of set bits, ascending.
pub(super) fn ones(words: &[u64]) -> impl Iterator<Item = u32> {
    words.iter().enumerate().flat_map(|(index, word)| ones_of(index, *word))
}

/// Returns the indices of the set bits of one word of a map.
pub(super) fn ones_of(index: usize, word: u64) -> impl Iterator<Item = u32> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let found = (rest != 0).then(|| (index * 64) as u32 + rest.trailing_zeros());
        rest &= rest.wrapping_sub(1);
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_numbered_in_ascending_order() {
        let positions = [0, 1, 63, 64, 127, 129, 255];
        let mut words = vec![0; 4];
        positions.iter().for_each(|position| set(&mut words, *position));
        let directory = PositionIndex::of(words);
        assert!(directory.positions().eq(positions));
        assert!(positions.iter().zip(0..).all(|(position, number)| directory.number(*position) == number));
        assert!((0..256).all(|position| directory.has(position) == positions.contains(&position)));
    }
}
