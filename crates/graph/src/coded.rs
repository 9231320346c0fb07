//! Ascending lists of ranks as bytes: differences in one to four bytes each, their lengths apart (`StreamVByte`; Lemire, Kurz
//! and Rupp 2018), so that sixteen are decoded at once.
//!
//! A list is one piece or several. A piece stands for itself: how many values (LEB128), two bits for each that say how
//! many bytes it takes less one, then the bytes; the first value of a piece is a difference from zero. No piece is larger
//! than 64 KiB, the most that is wanted of a disk at once.

/// The most bytes of a piece.
pub(crate) const PIECE_BYTES: usize = 1 << 16;
/// Readers take whole vectors: so many bytes behind the last piece must be there, whatever is in them.
pub(crate) const PADDING: usize = 128;

/// A list with the [`PADDING`] bytes that readers of whole vectors may read after it. A slice of the list alone would give a
/// pointer that is not valid for them.
#[derive(Clone, Copy, Default)]
pub(crate) struct PaddedList<'l> {
    bytes: &'l [u8],
    length: usize,
}

impl<'l> PaddedList<'l> {
    /// The list that takes `length` bytes from `from` on.
    ///
    /// # Panics
    /// If fewer than [`PADDING`] bytes follow the list.
    #[inline(always)]
    pub(crate) fn new(bytes: &'l [u8], from: usize, length: usize) -> Self {
        Self { bytes: &bytes[from..from + length + PADDING], length }
    }

    /// Number of bytes of the list, without the padding.
    #[inline(always)]
    pub(crate) fn length(self) -> usize {
        self.length
    }

    #[cfg(test)]
    pub(crate) fn bytes(self) -> &'l [u8] {
        &self.bytes[..self.length]
    }

    /// A pointer to the first byte, valid for the list and, unless the list is [`PaddedList::default`], for the padding.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *const u8 {
        self.bytes.as_ptr()
    }
}

pub(crate) fn encode(mut values: &[u32], bytes: &mut Vec<u8>) {
    while !values.is_empty() {
        let count = fitting(values);
        let (piece, rest) = values.split_at(count);
        encode_piece(piece, bytes);
        values = rest;
    }
}

/// Bytes that a difference takes.
pub(crate) fn width(difference: u32) -> usize {
    4 - (difference | 1).leading_zeros() as usize / 8
}

/// How many values of a list make one piece.
fn fitting(values: &[u32]) -> usize {
    // Four bytes each, with their lengths and the count, always fit.
    const SURE: usize = (PIECE_BYTES - 8) * 4 / 17;
    if values.len() <= SURE {
        return values.len();
    }
    let (mut previous, mut data) = (0, 0);
    for (index, value) in values.iter().enumerate() {
        data += width(value - previous);
        previous = *value;
        if 4 + (index + 4) / 4 + data > PIECE_BYTES {
            return index;
        }
    }
    values.len()
}

fn encode_piece(values: &[u32], bytes: &mut Vec<u8>) {
    let mut count = values.len();
    while count > 127 {
        bytes.push(count as u8 | 128);
        count >>= 7;
    }
    bytes.push(count as u8);
    let codes = bytes.len();
    let data = codes + values.len().div_ceil(4);
    // Four bytes are written for each value, and those that it does not need overwritten by the next.
    bytes.resize(data + 4 * values.len(), 0);
    let (codes, data) = bytes[codes..].split_at_mut(data - codes);
    let (mut previous, mut end) = (0, 0);
    for (four, code) in values.chunks(4).zip(codes) {
        for (index, value) in four.iter().enumerate() {
            let difference = value - previous;
            previous = *value;
            let width = width(difference);
            *code |= (width as u8 - 1) << (2 * index);
            data[end..end + 4].copy_from_slice(&difference.to_le_bytes());
            end += width;
        }
    }
    let unused = data.len() - end;
    bytes.truncate(bytes.len() - unused);
}

/// The count at the beginning of a piece, and how many bytes it takes.
#[inline(always)]
pub(crate) fn count(bytes: [u8; 3]) -> (usize, usize) {
    let [first, second, third] = bytes.map(usize::from);
    if first < 128 {
        (first, 1)
    } else if second < 128 {
        (first & 127 | second << 7, 2)
    } else {
        (first & 127 | (second & 127) << 7 | third << 14, 3)
    }
}

/// A piece at the beginning of these bytes, taken apart: how many values it has, what says how long each is, and where they begin.
/// `None` when the bytes end before.
fn opened(bytes: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let (count, taken) = count([0, 1, 2].map(|at| bytes.get(at).copied().unwrap_or(0)));
    let (codes, data) = bytes.get(taken..)?.split_at_checked(count.div_ceil(4))?;
    Some((count, codes, data))
}

/// Bytes that a value of a piece takes.
fn width_in(codes: &[u8], index: usize) -> usize {
    usize::from(codes[index / 4] >> (2 * (index % 4)) & 3) + 1
}

/// The value after `previous`, whose bytes are taken from the beginning of the data; `None` when there are too few, or it is too large.
fn next(codes: &[u8], index: usize, data: &mut &[u8], previous: u32) -> Option<u32> {
    let own = data.split_off(..width_in(codes, index))?;
    let difference = own.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
    previous.checked_add(difference)
}

/// Where each piece of a list begins that lies at this place, and the end of the last.
pub(crate) fn pieces(mut bytes: &[u8], mut at: u64) -> Vec<u64> {
    let mut borders = vec![at];
    while !bytes.is_empty() {
        let (count, codes, data) = opened(bytes).expect("it is a list");
        let length = bytes.len() - data.len() + (0..count).map(|index| width_in(codes, index)).sum::<usize>();
        at += length as u64;
        borders.push(at);
        bytes = &bytes[length..];
    }
    borders
}

/// The first values of a list, as many as are asked for or as its first piece has, in the plainest way; `None` when the bytes end
/// before.
pub(crate) fn begins(bytes: &[u8], most: usize) -> Option<Vec<u32>> {
    let (count, codes, mut data) = opened(bytes)?;
    let mut previous = 0;
    (0..count.min(most))
        .map(|index| {
            previous = next(codes, index, &mut data, previous)?;
            Some(previous)
        })
        .collect()
}

/// Reads a list in the plainest way, and checks that it is one: `None` when it is not made as `encode` makes them, or has a
/// value of `limit` or more.
pub(crate) fn decode(mut bytes: &[u8], limit: u32) -> Option<Vec<u32>> {
    let mut values: Vec<u32> = Vec::new();
    while !bytes.is_empty() {
        let (count, codes, mut data) = opened(bytes)?;
        let mut previous = 0;
        for index in 0..count {
            previous = next(codes, index, &mut data, previous)?;
            if previous >= limit || values.last().is_some_and(|last| *last >= previous) {
                return None;
            }
            values.push(previous);
        }
        if count == 0 || bytes.len() - data.len() > PIECE_BYTES {
            return None;
        }
        bytes = data;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ascending(count: usize, step: u32) -> Vec<u32> {
        (0..count as u32).map(|index| index * step + index % 7).collect()
    }

    #[test]
    fn lists_come_back() {
        let steps = [7, 250, 300, 70_000];
        for (count, step) in [0, 1, 3, 4, 5, 16, 17, 127, 128, 129, 20_000].iter().flat_map(|c| steps.map(|s| (*c, s)))
        {
            let values = ascending(count, step);
            let mut bytes = Vec::new();
            encode(&values, &mut bytes);
            assert_eq!(decode(&bytes, u32::MAX).as_ref(), Some(&values), "{count} {step}");
            assert!(bytes.len() <= count * 17 / 4 + 8);
        }
        let wide = [0, 255, 511, 66_100, 66_101, 20_000_000, u32::MAX - 1];
        let mut bytes = Vec::new();
        encode(&wide, &mut bytes);
        assert_eq!(bytes.len(), 1 + 2 + (1 + 1 + 2 + 3 + 1 + 4 + 4));
        assert_eq!(decode(&bytes, u32::MAX).unwrap(), wide);
    }

    #[test]
    fn widths_are_the_fewest_bytes() {
        for (difference, expected) in [
            (0, 1),
            (1, 1),
            (255, 1),
            (256, 2),
            (65_535, 2),
            (65_536, 3),
            (1 << 24, 4),
            ((1 << 24) - 1, 3),
            (u32::MAX, 4),
        ] {
            assert_eq!(width(difference), expected, "{difference}");
        }
    }

    #[test]
    fn long_lists_are_cut_into_pieces_of_64_kib() {
        let values = ascending(200_000, 7);
        let mut bytes = Vec::new();
        encode(&values, &mut bytes);
        let (first, _) = count([bytes[0], bytes[1], bytes[2]]);
        assert!(first < values.len() && first > 50_000, "{first}");
        assert_eq!(decode(&bytes, u32::MAX).unwrap(), values);
        let borders = pieces(&bytes, 1000);
        assert!(borders.len() >= 5 && borders.windows(2).all(|pair| pair[1] - pair[0] <= PIECE_BYTES as u64));
        assert_eq!((borders[0], borders[borders.len() - 1]), (1000, 1000 + bytes.len() as u64));
        let piece = |pair: &[u64]| decode(&bytes[pair[0] as usize - 1000..pair[1] as usize - 1000], u32::MAX).unwrap();
        assert_eq!(borders.windows(2).flat_map(piece).collect::<Vec<u32>>(), values);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let mut bytes = Vec::new();
        encode(&[3, 9, 400], &mut bytes);
        assert!(decode(&bytes, 401).is_some());
        assert!(decode(&bytes, 400).is_none(), "a value too large");
        assert!(decode(&bytes[..bytes.len() - 1], 401).is_none(), "cut");
        let repeated = [2, 0, 5, 0];
        assert!(decode(&repeated, 401).is_none(), "the same value twice");
        assert!(decode(&[0], 401).is_none(), "an empty piece");
    }
}
