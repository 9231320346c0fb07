//! Names and words as Kubernetes takes them: of nodes, labels, taints and images, and the names that we give to objects. Its own rules
//! (Kubernetes documentation, "Object Names and IDs" and "Labels and Selectors"). Must not know whether there are such nodes.

use std::fmt;

use model::values::trial::short_hash;

use crate::{NODES_MAX, NodeName};

/// A name that becomes a label's value, as a Job's does, has at most so many bytes.
const LABEL_BYTES_MAX: usize = 63;

/// A DNS subdomain, as a node's name and a label's prefix are.
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// An image's reference: longer than any registry takes.
const IMAGE_BYTES_MAX: usize = 512;

/// Which nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All that take pods of ours.
    All,
    Named(Vec<NodeName>),
    /// Those that have all of these labels.
    Labelled(Vec<NodeLabel>),
}

/// A label of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLabel {
    /// With its prefix, where it has one.
    pub key: String,
    /// May be empty.
    pub value: String,
}

/// A taint that is no obstacle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    pub key: String,
    /// Its value; none for any.
    pub value: Option<String>,
    /// Its effect; none for any.
    pub effect: Option<String>,
}

/// The name of a container's image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub String);

impl Selection {
    /// Reads what stands behind `kubernetes:`: names of nodes, or labels `KEY=VALUE` that nodes have.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').collect();
        if words.iter().any(|word| word.contains('=')) {
            return words.into_iter().map(NodeLabel::parse).collect::<Result<_, _>>().map(Self::Labelled);
        }
        let nodes: Vec<NodeName> = words.into_iter().map(node).collect::<Result<_, _>>()?;
        if let Some((_, twice)) = nodes.iter().enumerate().find(|(index, node)| nodes[..*index].contains(node)) {
            return Err(format!("node {twice} is named twice"));
        }
        if nodes.len() > NODES_MAX {
            return Err(format!(
                "{} nodes are more than one manifest takes ({NODES_MAX}); nodes with a label in common may be any number: kubernetes:KEY=VALUE",
                nodes.len()
            ));
        }
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

/// What Kubernetes takes for a node's name is also one of ours.
fn node(text: &str) -> Result<NodeName, String> {
    if !is_subdomain(text) {
        return Err(format!(
            "'{}' is no name of a node of Kubernetes: up to {SUBDOMAIN_BYTES_MAX} small letters, digits, - and ., beginning and ending with a letter or digit",
            text.escape_debug()
        ));
    }
    NodeName::parse(text)
}

impl NodeLabel {
    /// Reads `KEY=VALUE`.
    fn parse(text: &str) -> Result<Self, String> {
        let shown = text.escape_debug();
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("'{shown}' is no label KEY=VALUE; name nodes or labels, not both"))?;
        if !is_key(key) {
            return Err(format!(
                "'{shown}' is no label: its key is up to {LABEL_BYTES_MAX} letters, digits and - _ . between two letters or digits, maybe with a DNS name and / before it"
            ));
        }
        if !is_value(value) {
            return Err(format!(
                "'{shown}' is no label: its value is up to {LABEL_BYTES_MAX} letters, digits and - _ . between two letters or digits, or empty"
            ));
        }
        Ok(Self { key: key.into(), value: value.into() })
    }
}

impl Toleration {
    /// Reads `KEY[=VALUE][:EFFECT]`, as `kubectl taint` writes a taint.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let (taint, effect) = text.split_once(':').map_or((text, None), |(taint, effect)| (taint, Some(effect)));
        let (key, value) = taint.split_once('=').map_or((taint, None), |(key, value)| (key, Some(value)));
        let right = is_key(key) && value.is_none_or(is_value) && effect.is_none_or(|effect| EFFECTS.contains(&effect));
        if !right {
            return Err(format!(
                "'{}' is no taint KEY[=VALUE][:EFFECT]; effects are {}",
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
    /// Checks what every container runtime does: that it is one word of the letters that references have.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins || text.len() > IMAGE_BYTES_MAX || !text.chars().all(plain) {
            return Err(format!(
                "'{}' is no name of an image; it looks like registry.example.org/nearfar:0.1",
                text.escape_debug()
            ));
        }
        Ok(Self(text.into()))
    }
}

/// The nearest name of an object to these words: the words themselves where they are one, else with something behind them that tells two
/// apart.
pub fn object_name(words: &[&str]) -> String {
    let wanted = words.join("-");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let clean: String = wanted.to_lowercase().chars().map(|c| if plain(c) { c } else { '-' }).collect();
    if clean == wanted && is_label_name(&clean) {
        return clean;
    }
    let apart = &short_hash(&words.join("\0"))[..8];
    let room = LABEL_BYTES_MAX - apart.len() - 1;
    let begins: String = clean.trim_start_matches('-').chars().take(room).collect();
    format!("{}-{apart}", begins.trim_end_matches('-'))
}

/// RFC 1123 labels with dots between them.
fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(is_part)
}

/// What a Job may be called.
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
    fn nodes_and_labels_are_told_apart() {
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
    }

    /// As `kubectl` would refuse them, with the rule that is broken.
    #[test]
    fn what_kubernetes_would_not_take_is_refused() {
        let long = "a".repeat(SUBDOMAIN_BYTES_MAX + 1);
        let many = (0..=NODES_MAX).map(|number| format!("n{number}")).collect::<Vec<_>>().join(",");
        let value = format!("a={}", "b".repeat(LABEL_BYTES_MAX + 1));
        let cases = [
            ("", "'' is no name of a node"),
            ("Node", "'Node' is no name of a node of Kubernetes: up to 253 small letters"),
            ("a_b", "is no name of a node"),
            ("user@a", "is no name of a node"),
            ("-a", "is no name of a node"),
            ("a-", "is no name of a node"),
            ("a..b", "is no name of a node"),
            (&long, "is no name of a node"),
            ("a,b,a", "node a is named twice"),
            (&many, "1001 nodes are more than one manifest takes"),
            ("a,b=c", "'a' is no label KEY=VALUE; name nodes or labels, not both"),
            ("=b", "its key is"),
            ("-a=b", "its key is"),
            ("A/b/c=d", "its key is"),
            ("Upper.org/a=b", "its key is"),
            ("a=b c", "its value is"),
            ("a=b=c", "its value is"),
            ("a=.b", "its value is"),
            (&value, "its value is"),
        ];
        for (text, expected) in cases {
            let said = Selection::parse(text).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    #[test]
    fn taints_are_read_as_kubectl_writes_them() {
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
    fn images_are_one_word() {
        for good in ["nearfar", "localhost:5000/a/b:0.1", "a@sha256:0123"] {
            assert_eq!(Image::parse(good), Ok(Image(good.into())));
        }
        for bad in ["", " a", "a b", "-a", "a\n", "a;b", "$(NODE)"] {
            assert!(Image::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn objects_have_names_and_no_two_the_same() {
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
            assert!(!names[..index].contains(name), "{name} is there twice");
        }
    }
}
