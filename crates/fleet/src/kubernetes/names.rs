//! Parses names of nodes, labels, taints and images by the rules of Kubernetes, and derives object names (Kubernetes
//! documentation, "Object Names and IDs" and "Labels and Selectors"). Must not check whether the nodes exist.

use std::fmt;

use model::values::trial::short_hash;

use crate::host_list::{HostListError, expand};
use crate::{NODES_MAX, NodeName};

/// Maximum length of a label's value, and so of a Job's name, which becomes one.
const LABEL_BYTES_MAX: usize = 63;

/// Maximum length of a DNS subdomain, such as a node's name or a label's prefix.
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Maximum length of an image reference; no registry accepts longer ones.
const IMAGE_BYTES_MAX: usize = 512;

/// A selection of nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All nodes on which the pods can be scheduled.
    All,
    Named(Vec<NodeName>),
    /// Nodes that have all of these labels.
    Labelled(Vec<NodeLabel>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLabel {
    /// Includes the prefix, if any.
    pub key: String,
    /// May be empty.
    pub value: String,
}

/// A taint that the pods tolerate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    pub key: String,
    /// `None` for any value.
    pub value: Option<String>,
    /// `None` for any effect.
    pub effect: Option<String>,
}

/// Reference of a container image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub String);

impl Selection {
    /// Parses the text after `kubernetes:`: a list of nodes, or labels `KEY=VALUE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').collect();
        if words.iter().any(|word| word.contains('=')) {
            return words.into_iter().map(NodeLabel::parse).collect::<Result<_, _>>().map(Self::Labelled);
        }
        let nodes = expand(text, node).map_err(|error| match error {
            HostListError::TooMany(entry) => format!(
                "too many nodes at '{entry}': the maximum for one manifest is {NODES_MAX}; select any number by a common label with kubernetes:KEY=VALUE"
            ),
            HostListError::Invalid(message) => message,
        })?;
        Ok(Self::Named(nodes))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Named(nodes) => f.write_str(&nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(",")),
            Self::Labelled(labels) => {
                let words: Vec<String> =
                    labels.iter().map(|NodeLabel { key, value }| format!("{key}={value}")).collect();
                f.write_str(&words.join(","))
            }
        }
    }
}

/// Parses a node's name. Valid Kubernetes names are also valid [`NodeName`]s.
fn node(text: &str) -> Result<NodeName, String> {
    if !is_subdomain(text) {
        return Err(format!(
            "invalid Kubernetes node name '{}': use at most {SUBDOMAIN_BYTES_MAX} lower-case letters, digits, - and ., beginning and ending with a letter or digit",
            text.escape_debug()
        ));
    }
    NodeName::parse(text)
}

impl NodeLabel {
    /// Parses `KEY=VALUE`.
    fn parse(text: &str) -> Result<Self, String> {
        let shown = text.escape_debug();
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("invalid label '{shown}': use KEY=VALUE; nodes and labels cannot be combined"))?;
        if !is_key(key) {
            return Err(format!(
                "invalid label '{shown}': use a key of at most {LABEL_BYTES_MAX} letters, digits and - _ ., beginning and ending with a letter or digit, optionally after a DNS name and /"
            ));
        }
        if !is_value(value) {
            return Err(format!(
                "invalid label '{shown}': use a value of at most {LABEL_BYTES_MAX} letters, digits and - _ ., beginning and ending with a letter or digit, or an empty value"
            ));
        }
        Ok(Self { key: key.into(), value: value.into() })
    }
}

impl Toleration {
    /// Parses `KEY[=VALUE][:EFFECT]`, the syntax of `kubectl taint`.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let (taint, effect) = text.split_once(':').map_or((text, None), |(taint, effect)| (taint, Some(effect)));
        let (key, value) = taint.split_once('=').map_or((taint, None), |(key, value)| (key, Some(value)));
        let is_valid =
            is_key(key) && value.is_none_or(is_value) && effect.is_none_or(|effect| EFFECTS.contains(&effect));
        if !is_valid {
            return Err(format!(
                "invalid taint '{}': use KEY[=VALUE][:EFFECT]; effects are {}",
                text.escape_debug(),
                EFFECTS.join(", ")
            ));
        }
        Ok(Self { key: key.into(), value: value.map(String::from), effect: effect.map(String::from) })
    }
}

impl fmt::Display for Toleration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        self.value.iter().try_for_each(|value| write!(f, "={value}"))?;
        self.effect.iter().try_for_each(|effect| write!(f, ":{effect}"))
    }
}

impl Image {
    /// Checks that the text has only characters of image references. The container runtime checks the rest.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        let begins_alphanumeric = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins_alphanumeric || text.len() > IMAGE_BYTES_MAX || !text.chars().all(is_allowed) {
            return Err(format!(
                "invalid image name '{}': use a name like registry.example.org/nearfar:0.1",
                text.escape_debug()
            ));
        }
        Ok(Self(text.into()))
    }
}

/// Returns a valid object name for these words: the words joined by dashes if that is valid, otherwise the valid part
/// with a hash that keeps names unique.
pub fn object_name(words: &[&str]) -> String {
    let wanted = words.join("-");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let clean: String = wanted.to_lowercase().chars().map(|c| if plain(c) { c } else { '-' }).collect();
    if clean == wanted && is_label_name(&clean) {
        return clean;
    }
    let suffix = &short_hash(&words.join("\0"))[..8];
    let prefix_bytes = LABEL_BYTES_MAX - suffix.len() - 1;
    let prefix: String = clean.trim_start_matches('-').chars().take(prefix_bytes).collect();
    format!("{}-{suffix}", prefix.trim_end_matches('-'))
}

/// Whether the text is RFC 1123 labels joined by dots.
fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(is_part)
}

/// Whether the text is a valid name of a Job.
fn is_label_name(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX && is_part(text)
}

fn is_part(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|c| plain(c) || c == '-')
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_value(name)
}

fn is_value(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    let inside = |c: char| plain(c) || "-_.".contains(c);
    value.is_empty()
        || value.len() <= LABEL_BYTES_MAX
            && value.starts_with(plain)
            && value.ends_with(plain)
            && value.chars().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(key: &str, value: &str) -> NodeLabel {
        NodeLabel { key: key.into(), value: value.into() }
    }

    #[test]
    fn nodes_and_labels_are_distinguished() {
        let named =
            |names: &[&str]| Selection::Named(names.iter().map(|name| NodeName::parse(name).unwrap()).collect());
        let cases = [
            ("node-1", named(&["node-1"])),
            ("a,b.example.org,0", named(&["a", "b.example.org", "0"])),
            ("disk=nvme", Selection::Labelled(vec![label("disk", "nvme")])),
            (
                "node.kubernetes.io/instance-type=m5.metal,a_b.c=",
                Selection::Labelled(vec![label("node.kubernetes.io/instance-type", "m5.metal"), label("a_b.c", "")]),
            ),
        ];
        for (text, expected) in cases {
            let read = Selection::parse(text).unwrap();
            assert_eq!(read, expected, "{text}");
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(Selection::parse("a,b-[09-10]"), Ok(named(&["a", "b-09", "b-10"])));
    }

    /// `kubectl` would reject the same texts.
    #[test]
    fn invalid_selection_error_names_the_broken_rule() {
        let long = "a".repeat(SUBDOMAIN_BYTES_MAX + 1);
        let many = (0..=NODES_MAX).map(|number| format!("n{number}")).collect::<Vec<_>>().join(",");
        let value = format!("a={}", "b".repeat(LABEL_BYTES_MAX + 1));
        let cases = [
            ("", "invalid Kubernetes node name ''"),
            ("Node", "invalid Kubernetes node name 'Node': use at most 253 lower-case letters"),
            ("a_b", "invalid Kubernetes node name '"),
            ("user@a", "invalid Kubernetes node name '"),
            ("-a", "invalid Kubernetes node name '"),
            ("a-", "invalid Kubernetes node name '"),
            ("a..b", "invalid Kubernetes node name '"),
            (&long, "invalid Kubernetes node name '"),
            ("a,b,a", "node a is named twice"),
            (&many, "too many nodes at 'n1000': the maximum for one manifest is 1000"),
            ("a,b=c", "invalid label 'a': use KEY=VALUE; nodes and labels cannot be combined"),
            ("=b", "use a key of"),
            ("-a=b", "use a key of"),
            ("A/b/c=d", "use a key of"),
            ("Upper.org/a=b", "use a key of"),
            ("a=b c", "use a value of"),
            ("a=b=c", "use a value of"),
            ("a=.b", "use a value of"),
            (&value, "use a value of"),
        ];
        for (text, expected) in cases {
            let error = Selection::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn taints_in_kubectl_syntax_are_parsed() {
        let taint = |key: &str, value: Option<&str>, effect: Option<&str>| Toleration {
            key: key.into(),
            value: value.map(String::from),
            effect: effect.map(String::from),
        };
        let cases = [
            ("dedicated", taint("dedicated", None, None)),
            ("dedicated=nearfar:NoSchedule", taint("dedicated", Some("nearfar"), Some("NoSchedule"))),
            (
                "node-role.kubernetes.io/control-plane:NoSchedule",
                taint("node-role.kubernetes.io/control-plane", None, Some("NoSchedule")),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(expected.to_string(), text);
            assert_eq!(Toleration::parse(text), Ok(expected), "{text}");
        }
        for bad in ["", "a b", "a:Never", "a=b c:NoSchedule", "=a", "a:"] {
            assert!(Toleration::parse(bad).unwrap_err().contains("KEY[=VALUE][:EFFECT]"), "{bad}");
        }
    }

    #[test]
    fn images_with_invalid_characters_are_rejected() {
        for good in ["nearfar", "localhost:5000/a/b:0.1", "a@sha256:0123"] {
            assert_eq!(Image::parse(good), Ok(Image(good.into())));
        }
        for bad in ["", " a", "a b", "-a", "a\n", "a;b", "$(NODE)"] {
            assert!(Image::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn object_names_are_valid_and_unique() {
        assert_eq!(object_name(&["nearfar", "quick-1f2e3d4c", "node-1"]), "nearfar-quick-1f2e3d4c-node-1");
        let long = "n".repeat(200);
        let odd = [
            vec!["nearfar", "Quick", "a"],
            vec!["nearfar", "quick", "a.b"],
            vec!["nearfar", "quick", "a-b."],
            vec!["nearfar", "quick.a", "b"],
            vec!["nearfar", &long, "a"],
            vec!["nearfar", &long, "b"],
            vec!["nearfar", "a_", "-"],
        ];
        let names: Vec<String> = odd.iter().map(|words| object_name(words)).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(is_label_name(name), "{name}");
            assert!(!names[..index].contains(name), "{name} is not unique");
        }
    }
}
