//! Lookup tables for decoding four values at a time with a byte shuffle.

/// For each byte of length codes: the shuffle that moves the bytes of its four values into place.
pub(super) static SHUFFLES: [[u8; 16]; 256] = shuffles();
/// For each byte of length codes: the total size of its four values.
pub(super) static LENGTHS: [u8; 256] = lengths();

const fn width(codes: usize, value: usize) -> usize {
    (codes >> (2 * value) & 3) + 1
}

const fn shuffles() -> [[u8; 16]; 256] {
    // An index of 128 makes the byte zero.
    let mut tables = [[128; 16]; 256];
    let mut codes = 0;
    while codes < 256 {
        let (mut value, mut from) = (0, 0);
        while value < 4 {
            let mut byte = 0;
            while byte < width(codes, value) {
                tables[codes][4 * value + byte] = from;
                from += 1;
                byte += 1;
            }
            value += 1;
        }
        codes += 1;
    }
    tables
}

const fn lengths() -> [u8; 256] {
    let mut lengths = [0; 256];
    let mut codes = 0;
    while codes < 256 {
        lengths[codes] = (width(codes, 0) + width(codes, 1) + width(codes, 2) + width(codes, 3)) as u8;
        codes += 1;
    }
    lengths
}
