//! Reads topologies from this machine, hwloc's XML, captures and synthetic descriptions. Only `hwloc.rs` may depend on
//! hwloc. Files from untrusted sources must be read with [`read_isolated`].

mod hwloc;
mod input;
mod isolated;
mod measured_xml;
mod reconcile;

pub use isolated::{HIDDEN_COMMAND, read_isolated, serve_read};

use std::fmt;
use std::path::{Path, PathBuf};

use model::hint::Hinted;
use model::values::capture::Capture;
use model::values::topology::{Distances, MemoryAttribute, Topology};
use serde::{Deserialize, Serialize};

use crate::{devices, sysfs};
use input::FileText;

/// Source of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologySource {
    /// This machine, within the affinity mask and cgroup of this process.
    Live,
    /// A file that contains hwloc's XML.
    XmlFile(PathBuf),
    /// A file that contains a [`Capture`] as JSON.
    CaptureFile(PathBuf),
    /// hwloc's synthetic notation, such as `pack:2 core:4 pu:2`.
    Synthetic(String),
}

/// A topology that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("cannot read {of}: {what}")]
pub struct TopologyError {
    /// The file or text.
    pub of: String,
    /// The cause of the error.
    pub what: String,
    pub hint: Option<String>,
}

/// Environment variables that make hwloc describe another machine without a warning.
const MISLEADING_VARIABLES: [&str; 5] =
    ["HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_CPUID_PATH", "HWLOC_COMPONENTS"];

/// Prefixes of the object types that a synthetic description may contain; hwloc accepts abbreviations.
const SYNTHETIC_WORDS: [&str; 13] =
    ["pack", "numa", "node", "die", "group", "core", "pu", "l1", "l2", "l3", "l4", "l5", "machine"];

const SYNTHETIC_HINT: &str = "write it like 'pack:2 [numa] l3:2 core:4 pu:2'; see hwloc(7), synthetic topologies";

/// Reads a topology in this process. hwloc may crash on malformed files, so files from untrusted sources must be read
/// with [`read_isolated`].
pub fn read(source: &TopologySource) -> Result<Topology, TopologyError> {
    let refused = |what| TopologyError::new(source, what);
    match source {
        TopologySource::Live => read_live(Path::new("/")),
        TopologySource::XmlFile(path) => match input::read_file(path)? {
            FileText::Xml(text) => checked(hwloc::load(&hwloc::Input::Xml(&text))).map_err(refused),
            FileText::Capture(text) => capture(source, &text).map(|capture| capture.topology),
        },
        TopologySource::CaptureFile(path) => read_capture(path).map(|capture| capture.topology),
        TopologySource::Synthetic(text) => input::check_synthetic(text)
            .and_then(|()| checked(hwloc::load(&hwloc::Input::Synthetic(text))))
            .map_err(|what| refused(what).with_hint(SYNTHETIC_HINT)),
    }
}

/// Reads a complete capture.
pub fn read_capture(path: &Path) -> Result<Capture, TopologyError> {
    let source = TopologySource::CaptureFile(path.into());
    match input::read_file(path)? {
        FileText::Capture(text) => capture(&source, &text),
        FileText::Xml(_) => Err(TopologyError::new(&source, "is hwloc's XML, not a capture".into())),
    }
}

/// Exports a topology as hwloc's XML, version 2, for other programs. Runs hwloc in this process: a file from an
/// untrusted source must be read with [`read_isolated`] first. With hwloc before 2.10, the export of a live machine
/// lacks nodes that share their CPUs.
pub fn export_xml(source: &TopologySource) -> Result<String, TopologyError> {
    let refused = |what| TopologyError::new(source, what);
    match source {
        TopologySource::Live => {
            refuse_misleading_variables()?;
            hwloc::export_xml(&hwloc::Input::Live { only: None }).map_err(refused)
        }
        TopologySource::XmlFile(path) => match input::read_file(path)? {
            FileText::Xml(text) => hwloc::export_xml(&hwloc::Input::Xml(&text)).map_err(refused),
            FileText::Capture(_) => Err(capture_has_no_xml(source)),
        },
        TopologySource::CaptureFile(_) => Err(capture_has_no_xml(source)),
        TopologySource::Synthetic(text) => input::check_synthetic(text)
            .and_then(|()| hwloc::export_xml(&hwloc::Input::Synthetic(text)))
            .map_err(|what| refused(what).with_hint(SYNTHETIC_HINT)),
    }
}

/// Like [`export_xml`], with measured memory attributes and a matrix of measured distances between nodes.
pub fn export_measured_xml(
    source: &TopologySource,
    attributes: &[MemoryAttribute],
    distances: Option<&Distances>,
) -> Result<String, TopologyError> {
    let xml = export_xml(source)?;
    measured_xml::with_measured(&xml, attributes, distances)
        .map_err(|what| TopologyError::new(source, what).with_hint("use a map of the machine that the XML describes"))
}

fn capture_has_no_xml(source: &TopologySource) -> TopologyError {
    TopologyError::new(source, "is a capture, which cannot be exported as XML".into())
        .with_hint("export the XML on the machine itself, or run lstopo there")
}

fn read_live(root: &Path) -> Result<Topology, TopologyError> {
    refuse_misleading_variables()?;
    let allowed = sysfs::allowed(root);
    let mut topology = hwloc::load(&hwloc::Input::Live { only: allowed.cpus.as_ref() })
        .map_err(|what| TopologyError::new(&TopologySource::Live, what))?;
    reconcile::with_sysfs(&mut topology, root);
    topology.devices = devices::read(root);
    Ok(topology)
}

fn refuse_misleading_variables() -> Result<(), TopologyError> {
    match MISLEADING_VARIABLES.iter().find(|name| std::env::var_os(name).is_some()) {
        None => Ok(()),
        Some(name) => Err(TopologyError::new(
            &TopologySource::Live,
            format!("{name} is set, so hwloc would describe another machine"),
        )
        .with_hint(&format!("run with 'env -u {name}', or pass the file with --from"))),
    }
}

fn capture(source: &TopologySource, text: &str) -> Result<Capture, TopologyError> {
    Capture::parse(text).map_err(|what| TopologyError::new(source, what))
}

/// Rejects contradictions that hwloc accepts but that would cause errors later.
fn checked(loaded: Result<Topology, String>) -> Result<Topology, String> {
    let topology = loaded?;
    model::values::capture::check_topology(&topology)?;
    Ok(topology)
}

impl TopologySource {
    /// Reads a `--from` argument: a file with XML or a capture, a synthetic description, or `live`.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let path = Path::new(text);
        if path.exists() {
            let file = if input::looks_like_capture(path) { Self::CaptureFile } else { Self::XmlFile };
            return Ok(file(path.into()));
        }
        if text == "live" {
            return Ok(Self::Live);
        }
        if looks_synthetic(text) {
            return Ok(Self::Synthetic(text.into()));
        }
        Err(TopologyError {
            of: format!("'{text}'"),
            what: "no such file, and not a synthetic description".into(),
            hint: Some("use an XML file of lstopo, a capture, or a text like 'pack:2 core:4 pu:2'".into()),
        })
    }
}

/// Returns whether a text contains object types with counts, and is not merely a path that contains a colon.
fn looks_synthetic(text: &str) -> bool {
    let names = text.split_whitespace().filter_map(|word| word.split_once(':')).map(|(name, _)| name);
    let is_known = |name: &str| {
        let name = name.trim_start_matches('[').to_ascii_lowercase();
        SYNTHETIC_WORDS.iter().any(|word| name.starts_with(word))
    };
    let mut names = names.peekable();
    names.peek().is_some() && names.any(is_known)
}

impl TopologyError {
    pub(crate) fn new(source: &TopologySource, what: String) -> Self {
        Self { of: source.to_string(), what, hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for TopologySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("this machine"),
            Self::XmlFile(path) | Self::CaptureFile(path) => path.display().fmt(f),
            Self::Synthetic(text) => write!(f, "'{text}'"),
        }
    }
}

impl Hinted for TopologyError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_argument_is_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let xml = file("a.xml", "<topology/>");
        let json = file("a.json", " \n{\"version\":1}");
        let odd = file("pack:2 core:4", "<topology/>");
        assert_eq!(TopologySource::parse(xml.to_str().unwrap()), Ok(TopologySource::XmlFile(xml)));
        assert_eq!(TopologySource::parse(json.to_str().unwrap()), Ok(TopologySource::CaptureFile(json)));
        assert_eq!(TopologySource::parse(odd.to_str().unwrap()), Ok(TopologySource::XmlFile(odd)));
        assert_eq!(TopologySource::parse("live"), Ok(TopologySource::Live));
        for text in ["pack:2 core:4 pu:2", "[numa:1] PU:3", "package:1 [numa(memory=16GiB)] l3:2(size=8MiB) core:3"] {
            assert_eq!(TopologySource::parse(text), Ok(TopologySource::Synthetic(text.into())));
        }
        for text in ["", "nowhere.xml", "/no/such:file", "C:\\box.xml", "pack core", "hello: world"] {
            let error = TopologySource::parse(text).unwrap_err();
            assert!(error.of.contains(text) && error.hint.is_some(), "{error:?}");
        }
    }

    #[test]
    fn invalid_synthetic_description_returns_an_error_with_a_hint() {
        for text in ["pack:", "pack:x core:2", "core:2 pack:2", "pack:1 pu:1 core:1"] {
            let error = read(&TopologySource::Synthetic(text.into())).unwrap_err();
            assert!(error.to_string().contains(text) && error.hint.is_some(), "{error:?}");
        }
    }

    #[test]
    fn capture_is_read_but_has_no_xml() {
        let topology = read(&TopologySource::Synthetic("pack:1 core:2 pu:2".into())).unwrap();
        let text = serde_json::to_string(&Capture::new(topology.clone(), model::values::settings::Settings::default()))
            .unwrap();
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), text).unwrap();
        let source = TopologySource::parse(path.path().to_str().unwrap()).unwrap();
        assert_eq!(read(&source), Ok(topology));
        assert!(export_xml(&source).unwrap_err().to_string().contains("is a capture"));
    }

    #[test]
    fn exported_xml_is_read_back_unchanged() {
        let source =
            TopologySource::Synthetic("pack:2 [numa(memory=1GiB)] l2:2(size=1MiB) core:2 pu:2(indexes=2*8:1*2)".into());
        let xml = export_xml(&source).unwrap();
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), xml).unwrap();
        assert_eq!(read(&TopologySource::XmlFile(path.path().into())), read(&source));
    }
}
