//! Sorting of ranks. A list of a thousand is sorted digit by digit (radix sort from the lowest digit; Knuth, volume 3, 5.2.5), which
//! takes half as long as by comparing; a list of ten by comparing.

/// Lists below are sorted by comparing.
const SHORT: usize = 128;
/// From here on digits are wide: counting them takes less than passing once more over the list.
const LONG: usize = 1024;
/// Bits of a digit at most, of lists below [`LONG`] and of others.
const DIGIT_BITS: [u32; 2] = [7, 11];

/// Sorts lists, one after the other.
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

/// Puts numbers into the order of one digit, those that have the same in the order in which they come. There are as many places, all
/// zero, as a digit has values.
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

/// Makes of how many there are of each kind where those begin that lie one kind after the other.
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
    fn lists_of_any_length_and_width_are_sorted() {
        let mut sorter = Sorter::default();
        // Longer and shorter ones in turn: nothing stays from one to the next.
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
