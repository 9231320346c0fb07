//! The data to compress: a text generated from a seed, identical on every machine, or a file that the user names.
//!
//! Each generated MiB contains 384 KiB of words of an artificial language (each word has preferred successors), 256 KiB
//! of log lines, 256 KiB of binary records of counters, measured values, flags and addresses, and 128 KiB of
//! incompressible noise, like pictures and archives. The kind of data changes every 64 KiB, as between files in an
//! archive. Does NOT represent a particular data set: it exercises every kind of work and is always identical.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::job::{Failure, TrialContext};
use crate::random::Random;
use crate::scratch::io_failure;
use crate::tools::cache;

/// Changed with every change to the generated data, so that files of older versions are regenerated.
const VERSION: u32 = 1;
const PART: usize = 64 << 10;
/// The sixteen parts of a MiB.
const KINDS: [fn(&Language, &mut Random, &mut Vec<u8>); 16] =
    [words, log, records, words, noise, words, log, records, words, log, records, words, noise, log, records, words];
const WORDS: usize = 4096;
const FOLLOWERS: usize = 8;
const READ: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Corpus {
    pub path: PathBuf,
    pub bytes: u64,
    /// Digest of the content, used in the names of derived files.
    pub digest: u64,
}

/// Opens the corpus of a job and reads it once, which loads it into the page cache and yields its length and digest.
pub(super) fn of(job: &TrialContext, dir: &Path) -> Result<Corpus, Failure> {
    let path = match job.parameters.text("corpus") {
        "" => made(job, dir)?,
        file => file.into(),
    };
    let (bytes, digest) = read_through(&path)?;
    if bytes == 0 {
        return Err(Failure::Failed(format!("corpus {} is empty", path.display())));
    }
    Ok(Corpus { path, bytes, digest })
}

fn made(job: &TrialContext, dir: &Path) -> Result<PathBuf, Failure> {
    let (size, seed) = (job.parameters.size("size"), job.parameters.integer("seed") as u64);
    let path = cache::get_or_create(dir, &format!("corpus-{VERSION}-{seed}-{size}"), |path| {
        let wrong = |error: std::io::Error| io_failure("write", path, &error);
        let file = File::create(path).map_err(wrong)?;
        write(seed, size, BufWriter::with_capacity(READ, file)).map_err(wrong)
    })?;
    let found = std::fs::metadata(&path).map_or(0, |found| found.len());
    if found == size as u64 {
        return Ok(path);
    }
    Err(Failure::Failed(format!("{} has {found} bytes instead of {size}; hint: remove it", path.display())))
}

/// Writes the given number of bytes of a seed's corpus.
fn write(seed: u64, size: usize, mut output: impl Write) -> std::io::Result<()> {
    let language = Language::new(seed);
    let mut part = Vec::with_capacity(2 * PART);
    for (index, kind) in (0..size.div_ceil(PART)).zip(KINDS.iter().cycle()) {
        part.clear();
        kind(&language, &mut Random::of_thread(seed, index + 1), &mut part);
        output.write_all(&part[..PART.min(size - index * PART)])?;
    }
    output.flush()
}

/// The words and their successors.
struct Language {
    words: Vec<String>,
    followers: Vec<[u16; FOLLOWERS]>,
}

impl Language {
    fn new(seed: u64) -> Self {
        let mut random = Random::of_thread(seed, 0);
        let words = (0..WORDS).map(|_| word(&mut random)).collect();
        let followers = (0..WORDS).map(|_| std::array::from_fn(|_| frequent(&mut random) as u16)).collect();
        Self { words, followers }
    }
}

fn word(random: &mut Random) -> String {
    const BEGINS: [&str; 20] =
        ["b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "ch", "pl", ""];
    const MIDDLES: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "ou", "ie"];
    const ENDS: [&str; 8] = ["", "n", "r", "s", "t", "l", "nd", "ng"];
    let syllables = 1 + random.below(3);
    (0..syllables).flat_map(|_| [BEGINS[random.below(20)], MIDDLES[random.below(8)], ENDS[random.below(8)]]).collect()
}

/// Draws a word's index. Low indices are much more frequent, roughly as in Zipf's law: the logarithm of the index is
/// uniform.
fn frequent(random: &mut Random) -> usize {
    let bits = random.below(12) as u32;
    ((1usize << bits) + random.below(1 << bits) - 1).min(WORDS - 1)
}

/// Sentences: seven of eight words are a successor of the previous word.
fn words(language: &Language, random: &mut Random, part: &mut Vec<u8>) {
    let mut word = frequent(random);
    let mut left = 0;
    while part.len() < PART {
        word = match random.below(8) {
            0 => frequent(random),
            _ => usize::from(language.followers[word][random.below(FOLLOWERS).min(random.below(FOLLOWERS))]),
        };
        let begin = part.len();
        part.extend_from_slice(language.words[word].as_bytes());
        if left == 0 {
            part[begin] = part[begin].to_ascii_uppercase();
            left = 4 + random.below(16);
        }
        left -= 1;
        part.extend_from_slice(match (left, random.below(12)) {
            (0, 0) => b".\n\n",
            (0, _) => b". ",
            (_, 0) => b", ",
            _ => b" ",
        });
    }
}

/// Lines with an increasing time, a level, a component, an address and numbers.
fn log(language: &Language, random: &mut Random, part: &mut Vec<u8>) {
    const LEVELS: [&str; 8] = ["INFO", "INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR"];
    let mut time_ms = 1_700_000_000_000 + (random.below(1 << 32) as u64);
    let mut line = String::new();
    while part.len() < PART {
        time_ms += random.below(2000) as u64;
        let service = &language.words[random.below(24)];
        let (a, b, digits) = (random.below(4), random.below(256), random.below(20));
        line.clear();
        let written = writeln!(
            line,
            "{}.{:03} {:5} [{service}-{}] request id={:016x} from 10.0.{a}.{b} took {} us, {} bytes, status {}",
            time_ms / 1000,
            time_ms % 1000,
            LEVELS[random.below(8)],
            random.below(8),
            random.next(),
            random.below(1 << digits),
            random.below(64) * 512,
            [200, 200, 200, 200, 304, 404, 500, 200][random.below(8)],
        );
        written.expect("a text takes all");
        part.extend_from_slice(line.as_bytes());
    }
}

/// Records of 32 bytes: number, measured value, flags, address, counter.
fn records(_: &Language, random: &mut Random, part: &mut Vec<u8>) {
    let mut value = 20.0f64;
    let first = random.below(1 << 24) as u32;
    let mut counter = random.below(1 << 30) as u64;
    for number in 0..PART / 32 {
        // In steps of a sixteenth, as an analogue-to-digital converter would produce.
        value += (random.below(9) as f64 - 4.0) / 16.0;
        counter += random.below(100) as u64;
        part.extend_from_slice(&(first + number as u32).to_le_bytes());
        part.extend_from_slice(&(1u32 << random.below(4)).to_le_bytes());
        part.extend_from_slice(&value.to_le_bytes());
        part.extend_from_slice(&(0x7f3a_0000_0000 + 64 * random.below(1 << 20) as u64).to_le_bytes());
        part.extend_from_slice(&counter.to_le_bytes());
    }
}

fn noise(_: &Language, random: &mut Random, part: &mut Vec<u8>) {
    while part.len() < PART {
        part.extend_from_slice(&random.next().to_le_bytes());
    }
}

/// Length and digest of a file. The digest distinguishes files but is not cryptographic.
fn read_through(path: &Path) -> Result<(u64, u64), Failure> {
    let wrong = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::Failed(format!("corpus {} does not exist", path.display())),
        _ => io_failure("read", path, &error),
    };
    let mut file = File::open(path).map_err(wrong)?;
    let mut buffer = vec![0; READ];
    let (mut bytes, mut digest) = (0, 0xCBF2_9CE4_8422_2325u64);
    loop {
        let got = fill(&mut file, &mut buffer).map_err(wrong)?;
        if got == 0 {
            return Ok((bytes, digest));
        }
        bytes += got as u64;
        // Zero the unused rest of a partial buffer. Different lengths are detected by comparing the lengths.
        buffer[got..].fill(0);
        for word in buffer[..got.next_multiple_of(8)].chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
            digest = (digest ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
        }
    }
}

/// Compares a file with the corpus and describes the first difference. `other` is the output of a program.
pub(super) fn compare(corpus: &Corpus, mut other: impl Read) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| io_failure("read", &corpus.path, &error);
    let mut file = File::open(&corpus.path).map_err(wrong)?;
    let (mut expected, mut found) = (vec![0; READ], vec![0; READ]);
    let mut at = 0;
    loop {
        let got = [fill(&mut file, &mut expected).map_err(wrong)?, fill(&mut other, &mut found).map_err(wrong)?];
        let common = got[0].min(got[1]);
        let differs = expected[..common].iter().zip(&found[..common]).position(|(one, other)| one != other);
        if let Some(offset) = differs.or((got[0] != got[1]).then_some(common)) {
            let at = at + offset;
            return Err(Failure::Failed(format!("decompressed data differ from the corpus at byte {at}")));
        }
        if common == 0 {
            return Ok(());
        }
        at += common;
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, size: usize) -> Vec<u8> {
        let mut all = Vec::new();
        write(seed, size, &mut all).unwrap();
        all
    }

    /// Order-0 entropy in bits per byte.
    fn entropy(bytes: &[u8]) -> f64 {
        let mut counts = [0.0f64; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1.0);
        let all = bytes.len() as f64;
        counts.iter().filter(|count| **count > 0.0).map(|count| -count / all * (count / all).log2()).sum()
    }

    #[test]
    fn corpus_depends_only_on_the_seed() {
        assert_eq!(bytes(1, 3 * PART + 5), bytes(1, 16 * PART)[..3 * PART + 5]);
        assert_ne!(bytes(1, PART), bytes(2, PART));
        // Digest of the data of this version. If it changes, change VERSION.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus");
        std::fs::write(&path, bytes(1, 1 << 20)).unwrap();
        assert_eq!(read_through(&path).unwrap(), (1 << 20, DIGEST_OF_A_MIB));
    }

    const DIGEST_OF_A_MIB: u64 = 3_147_697_884_614_066_051;

    #[test]
    fn parts_have_the_properties_of_their_kind() {
        let all = bytes(1, 16 * PART);
        let part = |index: usize| &all[index * PART..(index + 1) * PART];
        for (index, low, high) in [(0, 3.5, 4.5), (1, 4.5, 5.5), (2, 3.0, 6.0), (4, 7.99, 8.0)] {
            let entropy = entropy(part(index));
            assert!((low..high).contains(&entropy), "part {index}: {entropy} bits per byte");
        }
        assert!(String::from_utf8_lossy(part(0)).contains(". "));
        assert!(String::from_utf8_lossy(part(1)).contains(" status 200\n"));
    }

    #[test]
    fn comparison_reports_the_position_of_a_difference() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("corpus");
        let mut content = bytes(1, READ + 100);
        std::fs::write(&path, &content).unwrap();
        let (bytes, digest) = read_through(&path).unwrap();
        let corpus = Corpus { path, bytes, digest };
        assert_eq!(compare(&corpus, content.as_slice()), Ok(()));
        let differs = |other: &[u8]| compare(&corpus, other).unwrap_err().to_string();
        assert!(differs(&content[..READ + 99]).contains(&format!("byte {}", READ + 99)));
        assert!(differs(&[]).contains("at byte 0"));
        content.push(1);
        assert!(differs(&content).contains(&format!("byte {}", READ + 100)));
        content[READ + 7] ^= 1;
        assert!(differs(&content).contains(&format!("byte {}", READ + 7)));
    }

    #[test]
    fn missing_or_empty_corpus_returns_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut job = crate::kernels::job_for_tests("compress");
        crate::kernels::set(&mut job, "corpus", "/no/such/corpus");
        assert!(of(&job, dir.path()).unwrap_err().to_string().contains("/no/such/corpus does not exist"));
        let empty = dir.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        crate::kernels::set(&mut job, "corpus", empty.to_str().unwrap());
        let failure = of(&job, dir.path()).unwrap_err().to_string();
        assert!(failure.contains("empty is empty"), "{failure}");
        crate::kernels::set(&mut job, "corpus", "");
        let made = of(&job, dir.path()).unwrap();
        std::fs::write(&made.path, "short").unwrap();
        assert!(of(&job, dir.path()).unwrap_err().to_string().contains("hint: remove it"));
    }
}
