//! The data to write: random words, zeros, or a mix, plus a stamp in every sector that identifies its offset, so that
//! misplaced data is detected cheaply.

use super::SECTOR;
use crate::random::Random;

const SECTOR_WORDS: usize = SECTOR / 8;

/// Sectors of a block that each read checks, evenly spaced; `verify` checks all.
const SECTORS_SAMPLED: usize = 8;

/// The content of written blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Random,
    Zero,
    /// This percentage of each sector is zeros.
    Compress(u8),
}

impl Data {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "random" => return Ok(Self::Random),
            "zero" => return Ok(Self::Zero),
            _ => {}
        }
        let percent = text.strip_prefix("compress:").and_then(|percent| percent.parse().ok());
        percent.filter(|percent| *percent <= 100).map(Self::Compress).ok_or_else(|| {
            format!(
                "invalid value '{text}' for data: must be random, zero or compress:PERCENT with PERCENT from 0 to 100"
            )
        })
    }

    pub(super) fn fill(self, words: &mut [u64], random: &mut Random) {
        let random_words = match self {
            Self::Random => SECTOR_WORDS,
            Self::Zero => return words.fill(0),
            Self::Compress(percent) => (SECTOR_WORDS * (100 - usize::from(percent))).div_ceil(100),
        };
        for sector in words.chunks_mut(SECTOR_WORDS) {
            let (noise, zeros) = sector.split_at_mut(random_words.min(sector.len()));
            noise.iter_mut().for_each(|word| *word = random.next());
            zeros.fill(0);
        }
    }
}

/// The first word of a sector.
#[inline]
fn stamp(seed: u64, offset: u64) -> u64 {
    (offset + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed
}

/// Stamps every sector of a block that is written at `offset`.
#[inline]
pub(super) fn stamp_all(words: &mut [u64], seed: u64, offset: u64) {
    for (index, sector) in words.chunks_exact_mut(SECTOR_WORDS).enumerate() {
        sector[0] = stamp(seed, offset + (index * SECTOR) as u64);
    }
}

/// Returns the first checked sector of a block read at `offset` that carries none of the stamps of these seeds.
#[inline]
pub(super) fn wrong_stamp(words: &[u64], seeds: [u64; 2], offset: u64) -> Option<usize> {
    sampled(words).find(|sector| {
        let (found, at) = (words[sector * SECTOR_WORDS], offset + (sector * SECTOR) as u64);
        found != stamp(seeds[0], at) && found != stamp(seeds[1], at)
    })
}

/// Returns the first sector of a block that does not carry this seed's stamp. Checks all sectors.
pub(super) fn wrong_sector(words: &[u64], seed: u64, offset: u64) -> Option<usize> {
    let sectors = words.len() / SECTOR_WORDS;
    (0..sectors).find(|sector| words[sector * SECTOR_WORDS] != stamp(seed, offset + (sector * SECTOR) as u64))
}

/// Returns the first checked sector of a block that does not begin with zeros.
#[inline]
pub(super) fn not_zero(words: &[u64]) -> Option<usize> {
    sampled(words).find(|sector| words[sector * SECTOR_WORDS] != 0)
}

/// Indices of the sectors to check: the first, the last, and some between.
#[inline]
fn sampled(words: &[u64]) -> impl Iterator<Item = usize> {
    let sectors = words.len() / SECTOR_WORDS;
    let step = sectors.div_ceil(SECTORS_SAMPLED);
    (0..sectors - 1).step_by(step).chain([sectors - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn made(data: Data, bytes: usize) -> Vec<u8> {
        let mut words = vec![7; bytes / 8];
        data.fill(&mut words, &mut Random::of_thread(1, 0));
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn data_kinds_are_parsed() {
        assert_eq!(Data::parse("random"), Ok(Data::Random));
        assert_eq!(Data::parse("zero"), Ok(Data::Zero));
        assert_eq!(Data::parse("compress:35"), Ok(Data::Compress(35)));
        assert!(made(Data::Zero, 4096).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn compression_saves_the_given_percentage() {
        const BYTES: usize = 1 << 20;
        let compressed = |bytes: &[u8]| -> Option<usize> {
            let mut zstd = Command::new("zstd");
            zstd.args(["-q", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = zstd.spawn().ok()?;
            let mut input = child.stdin.take().unwrap();
            let bytes = bytes.to_vec();
            let feeding = std::thread::spawn(move || input.write_all(&bytes));
            let output = child.wait_with_output().unwrap();
            feeding.join().unwrap().unwrap();
            Some(output.stdout.len())
        };
        for percent in [0, 30, 50, 80, 100] {
            let bytes = made(Data::Compress(percent), BYTES);
            let zeros = bytes.iter().map(|byte| f64::from(u8::from(*byte == 0))).sum::<f64>() / BYTES as f64;
            // One in 256 random bytes is also zero.
            assert!((zeros - f64::from(percent) / 100.0).abs() < 0.02, "{percent}: {zeros}");
            let Some(smaller) = compressed(&bytes) else { return println!("skipped: zstd is missing") };
            let saved = 100.0 * (1.0 - smaller as f64 / BYTES as f64);
            assert!((saved - f64::from(percent)).abs() < 3.0, "{percent}: zstd saved {saved} %");
        }
    }

    #[test]
    fn misplaced_data_is_detected() {
        let mut words = vec![0; 1 << 10];
        stamp_all(&mut words, 5, 8192);
        assert_eq!(wrong_stamp(&words, [5, 5], 8192), None);
        assert_eq!(wrong_stamp(&words, [4, 5], 8192), None);
        assert_eq!(wrong_sector(&words, 5, 8192), None);
        assert_eq!(wrong_stamp(&words, [4, 4], 8192), Some(0));
        assert_eq!(wrong_stamp(&words, [5, 5], 4096), Some(0));
        // 16 sectors, of which every second one and the last are checked.
        for (sector, found) in [(4, Some(4)), (15, Some(15)), (3, None)] {
            let mut changed = words.clone();
            changed[sector * SECTOR_WORDS] ^= 1;
            assert_eq!(wrong_stamp(&changed, [5, 5], 8192), found);
            assert_eq!(wrong_sector(&changed, 5, 8192), Some(sector));
            let mut zeros = vec![0; 1 << 10];
            zeros[sector * SECTOR_WORDS] = 1;
            assert_eq!(not_zero(&zeros), found);
        }
    }
}
