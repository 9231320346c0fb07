//! Checks topology files and synthetic descriptions before they are passed to hwloc: reports clear errors for input
//! that hwloc would reject without a reason or crash on.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{TopologyError, TopologySource, hwloc};

/// Maximum size of a file. The largest real export (1152 CPUs with I/O) has 1.2 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Length of the prefix that must contain the root element, which hwloc writes into the first lines.
const HEAD_BYTES: usize = 64 << 10;

/// Maximum number of CPUs of a synthetic description. Linux allows 8192; hwloc takes seconds to minutes for more.
const SYNTHETIC_CPUS_MAX: u64 = 16_384;

/// Content of a topology file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileText {
    Xml(String),
    Capture(String),
}

/// Reads a file and determines its format.
pub(super) fn read_file(path: &Path) -> Result<FileText, TopologyError> {
    let refused = |what: String| TopologyError::new(&TopologySource::XmlFile(path.into()), what);
    let text = read_text(path).map_err(|(what, hint)| match hint {
        Some(hint) => refused(what).with_hint(hint),
        None => refused(what),
    })?;
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with('{') {
        return Ok(FileText::Capture(text));
    }
    let head = &start.as_bytes()[..start.len().min(HEAD_BYTES)];
    let Some(root) = root_element(&String::from_utf8_lossy(head)) else {
        let what = if start.starts_with('<') { "is XML, but not of hwloc" } else { "is not XML" };
        return Err(refused(what.into()).with_hint("write the file with 'lstopo FILE.xml'"));
    };
    let version = attribute(&root, "version").unwrap_or("1.0");
    if version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_none_or(|major| major > 2) {
        let what = format!("is hwloc XML version {version}, which hwloc {} cannot read", hwloc::version());
        return Err(refused(what).with_hint("write the file with 'lstopo --export-xml-flags v2 FILE.xml'"));
    }
    Ok(FileText::Xml(text))
}

/// Rejects a synthetic description with more CPUs than any machine has; hwloc would try to build it.
pub(super) fn check_synthetic(text: &str) -> Result<(), String> {
    let count = |word: &str| {
        let (name, rest) = word.split_once(':')?;
        // `[numa:2]` and `(indexes=2*6:1*2)` are not levels of the tree.
        if name.contains(['[', '=', '(']) {
            return None;
        }
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        // A count that is not a number is left to hwloc, whose error is more precise.
        if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(u64::MAX)) }
    };
    match text.split_whitespace().filter_map(count).fold(1, u64::saturating_mul) {
        cpus if cpus > SYNTHETIC_CPUS_MAX => Err(format!("it describes more than {SYNTHETIC_CPUS_MAX} CPUs")),
        _ => Ok(()),
    }
}

/// Returns whether a file begins like a capture. For an unreadable file, [`read_file`] reports the error.
pub(super) fn looks_like_capture(path: &Path) -> bool {
    let mut start = Vec::new();
    // Not for a pipe: it could block, and the next reader would miss its first bytes.
    let is_file = std::fs::metadata(path).is_ok_and(|facts| facts.is_file());
    let read = is_file && File::open(path).is_ok_and(|file| file.take(64).read_to_end(&mut start).is_ok());
    read && start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

type InputError = (String, Option<&'static str>);

fn read_text(path: &Path) -> Result<String, InputError> {
    let facts = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            ("no such file".into(), Some("check the path; a relative one starts at the current directory"))
        }
        _ => (error.to_string(), None),
    })?;
    if facts.is_dir() {
        return Err(("is a directory".into(), Some("choose the XML file in it")));
    }
    if !facts.is_file() {
        return Err(("is not a regular file".into(), Some("save its content to a regular file")));
    }
    if facts.len() == 0 {
        return Err(("is empty".into(), Some("write the file with 'lstopo FILE.xml'")));
    }
    let too_large = || (format!("is larger than {} MiB", FILE_BYTES_MAX >> 20), None);
    if facts.len() > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| (error.to_string(), None))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    if bytes.contains(&0) {
        return Err(("is not XML: it contains NUL bytes".into(), None));
    }
    String::from_utf8(bytes).map_err(|error| (format!("is not UTF-8 text: {error}"), None))
}

/// Returns the tag of the root element, `<topology version="2.0">`, or `None` if the text is not XML with such a root.
fn root_element(head: &str) -> Option<String> {
    let start = if head.starts_with('<') { head.find("<topology")? } else { return None };
    let tag = &head[start..];
    let after = tag["<topology".len()..].chars().next()?;
    (after.is_whitespace() || after == '>' || after == '/').then(|| tag[..tag.find('>').unwrap_or(tag.len())].into())
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let value = tag.split_once(&format!(" {name}=\""))?.1;
    value.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_for(text: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_file(file.path()).unwrap_err().what
    }

    #[test]
    fn invalid_content_returns_a_clear_error() {
        let cases: [(&[u8], &str); 10] = [
            (b"", "is empty"),
            (b"   \n", "is not XML"),
            (b"hello", "is not XML"),
            (b"hello <topology version=\"2.0\">", "is not XML"),
            (b"<html></html>", "is XML, but not of hwloc"),
            (b"<topologyx>", "is XML, but not of hwloc"),
            (b"<?xml version=\"1.0\"?>\n<topology version=\"3.0\">", "version 3.0, which hwloc 2."),
            (b"<topology version=\"x\">", "version x"),
            (b"<topology>\xff\xfe", "is not UTF-8"),
            (b"<topology>\0", "NUL"),
        ];
        for (text, expected) in cases {
            let what = error_for(text);
            assert!(what.contains(expected), "{expected}: {what}");
        }
    }

    #[test]
    fn unreadable_path_returns_a_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let error_for = |path: &Path| read_file(path).unwrap_err().to_string();
        assert!(error_for(&dir.path().join("none.xml")).ends_with("none.xml: no such file"));
        assert!(error_for(dir.path()).ends_with("is a directory"));
        assert!(error_for(Path::new("/dev/null")).ends_with("is not a regular file"));
        let large = dir.path().join("large.xml");
        File::create(&large).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(error_for(&large).ends_with("is larger than 64 MiB"));
    }

    #[test]
    fn descriptions_with_too_many_cpus_return_errors() {
        for text in ["pack:100000 core:100000 pu:1000", "pack:2 core:8193", "pu:99999999999999999999999"] {
            assert!(check_synthetic(text).unwrap_err().contains("more than 16384 CPUs"), "{text}");
        }
        for text in ["pack:32 core:256 pu:2", "pack:2 [numa:2(memory=1GiB)] pu:2(indexes=2*9999999:1*2)", "pack:x"] {
            assert_eq!(check_synthetic(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn xml_and_captures_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            (read_file(&path), looks_like_capture(&path))
        };
        for text in [
            "<topology>",
            "<topology version=\"2.0\">",
            "\u{feff}<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n<topology\n version=\"2.0\">",
        ] {
            assert_eq!(read(text), (Ok(FileText::Xml(text.into())), false));
        }
        assert_eq!(read(" {\"version\":1}"), (Ok(FileText::Capture(" {\"version\":1}".into())), true));
    }
}
