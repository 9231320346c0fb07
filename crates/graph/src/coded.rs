//! Encodes ascending lists of ranks as differences of one to four bytes, with the lengths stored separately
//! (`StreamVByte`; Lemire, Kurz and Rupp 2018), so that sixteen are decoded at once.
//!
//! A list has one or more pieces, each of which can be decoded independently: the number of values (LEB128), a two-bit
//! length code per value (bytes minus one), then the bytes. The first value of a piece is a difference from zero. A
//! piece takes at most 64 KiB, the largest disk read.

/// Maximum size of a piece.
pub(crate) const PIECE_BYTES: usize = 1 << 16;
/// Readers take whole vectors, so this many bytes after the last piece must be readable; their contents do not matter.
pub(crate) const PADDING: usize = 128;

/// A list followed by the [`PADDING`] bytes that vector readers may read. A pointer from a slice of the list alone
/// would not be valid for them.
#[derive(Clone, Copy, Default)]
pub(crate) struct PaddedList<'l> {
    bytes: &'l [u8],
    length: usize,
}

impl<'l> PaddedList<'l> {
    /// Creates a list of `length` bytes that starts at `from`.
    ///
    /// # Panics
    /// If fewer than [`PADDING`] bytes follow the list.
    #[inline(always)]
    pub(crate) fn new(bytes: &'l [u8], from: usize, length: usize) -> Self {
        Self { bytes: &bytes[from..from + length + PADDING], length }
    }

    /// Returns the size of the list in bytes, without the padding.
    #[inline(always)]
    pub(crate) fn length(self) -> usize {
        self.length
    }

    #[cfg(test)]
    pub(crate) fn bytes(self) -> &'l [u8] {
        &self.bytes[..self.length]
    }

    /// Returns a pointer to the first byte, valid for the list and, unless the list is [`PaddedList::default`], for the
    /// padding.
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

/// Returns the number of bytes that a difference takes.
pub(crate) fn width(difference: u32) -> usize {
    4 - (difference | 1).leading_zeros() as usize / 8
}

/// Returns the number of leading values that fit into one piece.
fn fitting(values: &[u32]) -> usize {
    // With four bytes per value, this many always fit together with their length codes and the count.
    const CERTAIN: usize = (PIECE_BYTES - 8) * 4 / 17;
    if values.len() <= CERTAIN {
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
    // Each value is written as four bytes; the next value overwrites the unused ones.
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

/// Returns the count at the start of a piece and its size in bytes.
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

/// Splits the piece at the start of these bytes into its number of values, its length codes and its data. Returns
/// `None` if the bytes are truncated.
fn opened(bytes: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let (count, taken) = count([0, 1, 2].map(|at| bytes.get(at).copied().unwrap_or(0)));
    let (codes, data) = bytes.get(taken..)?.split_at_checked(count.div_ceil(4))?;
    Some((count, codes, data))
}

/// Returns the size in bytes of a value of a piece.
fn width_in(codes: &[u8], index: usize) -> usize {
    usize::from(codes[index / 4] >> (2 * (index % 4)) & 3) + 1
}

/// Returns the value after `previous`, taking its bytes from the start of `data`. Returns `None` if `data` is too short
/// or the value too large.
fn next(codes: &[u8], index: usize, data: &mut &[u8], previous: u32) -> Option<u32> {
    let own = data.split_off(..width_in(codes, index))?;
    let difference = own.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
    previous.checked_add(difference)
}

/// Returns the start of each piece of a list stored at offset `at`, and the end of the last one.
pub(crate) fn pieces(mut bytes: &[u8], mut at: u64) -> Vec<u64> {
    let mut borders = vec![at];
    while !bytes.is_empty() {
        let (count, codes, data) = opened(bytes).expect("the list is valid");
        let length = bytes.len() - data.len() + (0..count).map(|index| width_in(codes, index)).sum::<usize>();
        at += length as u64;
        borders.push(at);
        bytes = &bytes[length..];
    }
    borders
}

/// Returns the first `most` values of a list, limited to its first piece. Scalar code. Returns `None` if the bytes are
/// truncated.
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

/// Decodes and validates a list with scalar code. Returns `None` if it is not in the form that `encode` writes or has a
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
    fn lists_round_trip() {
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
    fn widths_are_minimal() {
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
    fn long_lists_are_split_into_pieces_of_64_kib() {
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
    fn invalid_lists_are_rejected() {
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
