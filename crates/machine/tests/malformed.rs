//! Tests that malformed topology files return a topology or an error, and never hang or crash the caller.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use machine::topology::{TopologySource, read_isolated};

/// Number of mutated files. Enough to reach every attribute of the smallest files; takes some seconds on two cores.
const CASES: u64 = 400;
/// Any fixed number suffices; another one creates other files.
const SEED: u64 = 20_261_107;

fn reader() -> PathBuf {
    let tests = std::env::current_exe().expect("a running test has a file");
    let reader = tests.ancestors().nth(2).expect("tests are in target/*/deps").join("examples/read_topology");
    assert!(reader.exists(), "{} is missing: cargo build -p machine --examples", reader.display());
    reader
}

/// splitmix64: sufficient for mutations and avoids a dependency.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Replacements of numbers and sets in hwloc's XML.
const ODD_VALUES: [&str; 14] = [
    "",
    "-1",
    "0",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999999",
    "0xf...f",
    "0xffffffff,0xffffffff,0xffffffff",
    "NUMANode",
    "PU",
    "Machine",
    "&amp;&#0;",
    "1e9",
];

/// Applies a random mutation.
fn mutate(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = text.to_vec();
    match random.below(7) {
        0 => bytes.truncate(random.below(text.len())),
        1 => {
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
        }
        2 => replace_value(&mut bytes, random),
        3 => duplicate_attribute(&mut bytes, random),
        4 => remove_line(&mut bytes, random),
        5 => duplicate_line(&mut bytes, random),
        _ => (0..=random.below(4)).for_each(|_| replace_value(&mut bytes, random)),
    }
    bytes
}

/// Returns the range of a random attribute's value, without its quotes.
fn random_value(bytes: &[u8], random: &mut Random) -> Option<(usize, usize)> {
    let starts: Vec<usize> =
        bytes.windows(2).enumerate().filter(|(_, pair)| *pair == b"=\"").map(|(at, _)| at + 2).collect();
    let start = *starts.get(random.below(starts.len()))?;
    let length = bytes[start..].iter().position(|byte| *byte == b'"')?;
    Some((start, start + length))
}

fn replace_value(bytes: &mut Vec<u8>, random: &mut Random) {
    if let Some((start, end)) = random_value(bytes, random) {
        let value = ODD_VALUES[random.below(ODD_VALUES.len())];
        bytes.splice(start..end, value.bytes());
    }
}

fn duplicate_attribute(bytes: &mut Vec<u8>, random: &mut Random) {
    let Some((start, end)) = random_value(bytes, random) else { return };
    let Some(before) = bytes[..start].iter().rposition(|byte| *byte == b' ') else { return };
    let attribute = bytes[before..=end].to_vec();
    let after = end + 1;
    bytes.splice(after..after, attribute);
}

/// Returns the range of a random line, including its line feed.
fn random_line(bytes: &[u8], random: &mut Random) -> (usize, usize) {
    let at = random.below(bytes.len());
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
    (start, end)
}

fn remove_line(bytes: &mut Vec<u8>, random: &mut Random) {
    let (start, end) = random_line(bytes, random);
    bytes.drain(start..end);
}

fn duplicate_line(bytes: &mut Vec<u8>, random: &mut Random) {
    let (start, end) = random_line(bytes, random);
    let line = bytes[start..end].to_vec();
    bytes.splice(end..end, line);
}

#[test]
fn mutated_files_return_a_topology_or_an_error() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/topologies/models");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    files.sort();
    let texts: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert_eq!(texts.len(), 7);
    let reader = reader();
    let mutant = tempfile::Builder::new().suffix(".xml").tempfile().unwrap();
    let mut random = Random(SEED);
    let (mut read, mut rejected, mut crashed) = (0, 0, 0);
    for case in 0..CASES {
        let text = &texts[random.below(texts.len())];
        std::fs::write(mutant.path(), mutate(text, &mut random)).unwrap();
        let started = Instant::now();
        match read_isolated(&TopologySource::XmlFile(mutant.path().into()), &reader) {
            Ok(_) => read += 1,
            Err(error) if error.what.contains("crashed") => {
                assert!(error.hint.is_some(), "case {case}: {error}");
                crashed += 1;
            }
            Err(error) => {
                assert!(error.to_string().len() < 1000, "case {case}: {error}");
                rejected += 1;
            }
        }
        assert!(started.elapsed() < Duration::from_secs(15), "case {case} took {:?}", started.elapsed());
    }
    println!("{CASES} mutants: {read} read, {rejected} rejected, {crashed} crashed hwloc");
    // Both outcomes must occur, or the mutations are ineffective.
    assert!(read > 20 && rejected > 20, "{read} read, {rejected} rejected, {crashed} crashed hwloc");
}

#[test]
fn invalid_synthetic_descriptions_return_errors() {
    for text in
        ["pack:100000 core:100000 pu:1000", "pack:1 [numa] core:99999999999 pu:2", "pack:-1 pu:1", "core:2 pack:2"]
    {
        let started = Instant::now();
        let error = read_isolated(&TopologySource::Synthetic(text.into()), &reader()).unwrap_err();
        assert!(error.hint.is_some(), "{error}");
        assert!(started.elapsed() < Duration::from_secs(2), "{text}");
    }
}

/// The limits of the child process permit a description of 8192 CPUs.
#[test]
fn large_synthetic_description_is_read() {
    let source = TopologySource::Synthetic("pack:64 [numa] core:64 pu:2".into());
    assert_eq!(read_isolated(&source, &reader()).unwrap().counts().pus, 8192);
}
