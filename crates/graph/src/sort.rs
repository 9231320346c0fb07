//! Sorts ranks. Long lists are sorted by digits (least-significant-digit radix sort; Knuth, volume 3, 5.2.5), which for
//! a thousand ranks takes half as long as a comparison sort; short lists by comparisons.

/// Shorter lists are sorted by comparisons.
const SHORT: usize = 128;
/// From this length on, wide digits are faster: counting them costs less than another pass over the list.
const LONG: usize = 1024;
/// Maximum width of a digit in bits, for lists below [`LONG`] and for others.
const DIGIT_BITS: [u32; 2] = [7, 11];

/// Buffers for sorting lists one after the other.
#[derive(Default)]
pub(crate) struct Sorter {
    spare: Vec<u32>,
    places: Vec<u32>,
}

impl Sorter {
    /// Sorts numbers below 2^`bits`.
    pub(crate) fn sort(&mut self, list: &mut Vec<u32>, bits: u32) {
        if list.len() < SHORT {
            list.sort_unstable();
            return;
        }
        let passes = bits.div_ceil(DIGIT_BITS[usize::from(list.len() >= LONG)]).max(1);
        let width = bits.div_ceil(passes);
        self.spare.resize(list.len(), 0);
        for pass in 0..passes {
            self.places.clear();
            self.places.resize(1 << width, 0);
            by_digit(list, &mut self.spare, pass * width, &mut self.places);
            std::mem::swap(list, &mut self.spare);
        }
    }
}

/// Sorts numbers by one digit; the sort is stable. `places` must have one element, initially zero, per value of the
/// digit.
fn by_digit(list: &[u32], sorted: &mut [u32], shift: u32, places: &mut [u32]) {
    let mask = places.len() - 1;
    let digit = |value: u32| (value >> shift) as usize & mask;
    list.iter().for_each(|value| places[digit(*value)] += 1);
    to_starts(places);
    for value in list {
        let place = &mut places[digit(*value)];
        sorted[*place as usize] = *value;
        *place += 1;
    }
}

/// Converts the counts of consecutive groups to their starts.
pub(crate) fn to_starts(counts: &mut [u32]) {
    let mut end = 0;
    for count in counts {
        (*count, end) = (end, end + *count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_lengths_and_widths_are_sorted() {
        let mut sorter = Sorter::default();
        // Long and short lists alternate, to show that no state is carried over.
        for length in [0, 1, 5000, 127, 128, 1023, 2, 1024, 70_000] {
            for bits in [0, 1, 7, 8, 20, 22, 31, 32] {
                let number = |index: u32| u64::from(index.wrapping_mul(2_654_435_769)) >> (32 - bits);
                let mut list: Vec<u32> = (0..length).map(|index| number(index) as u32).collect();
                let mut expected = list.clone();
                expected.sort_unstable();
                sorter.sort(&mut list, bits);
                assert!(list == expected, "{length} numbers of {bits} bits");
            }
        }
    }
}
