//! Names that people give: of nodes, of jobs, and the list of nodes behind `--on`. What passes here is harmless as an argument, as the
//! name of a folder and in a shell. Must not know whether there are such machines.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kubernetes::Selection;

/// One process and one connection for each node: more than this is a case for several coordinators.
pub const NODES_MAX: usize = 1000;

/// A folder's name has at most 255 bytes.
const NAME_BYTES_MAX: usize = 200;

/// A machine as its engine knows it: an ssh host or alias, `user@host`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

/// What nodes were told to run together; it names a folder on each of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobName(String);

/// Where to run: an engine with its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelector {
    Ssh(Vec<NodeName>),
    /// All nodes of a partition of Slurm, of its default one when none is named.
    Slurm(Option<JobName>),
    /// Nodes of a cluster of Kubernetes.
    Kubernetes(Selection),
}

impl NodeName {
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_alphanumeric() || "._-@:[]".contains(c);
        checked("node", text, plain, "letters, digits and . _ - @ : [ ]").map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl JobName {
    pub fn parse(text: &str) -> Result<Self, String> {
        checked("job", text, |c| c.is_ascii_alphanumeric() || "._-".contains(c), "letters, digits and . _ -").map(Self)
    }

    /// The nearest name to a text, with something behind it that tells two texts apart.
    pub fn of(text: &str, apart: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = text.chars().map(plain).take(NAME_BYTES_MAX / 2).collect();
        Self(format!("{}-{apart}", name.trim_start_matches(['.', '-'])).trim_start_matches('-').into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name that begins with `-` is an option to whoever it is given to, one that begins with `.` may be another folder.
fn checked(what: &str, text: &str, plain: impl Fn(char) -> bool, allowed: &str) -> Result<String, String> {
    let begins = text.starts_with(['-', '.']);
    if text.is_empty() || begins || text.len() > NAME_BYTES_MAX || !text.chars().all(plain) {
        return Err(format!(
            "'{}' is no name of a {what}: up to {NAME_BYTES_MAX} bytes of {allowed}, not beginning with - or .",
            text.escape_debug()
        ));
    }
    Ok(text.into())
}

impl NodeSelector {
    /// Reads `ssh:HOST,HOST`, `slurm`, `slurm:PARTITION`, `kubernetes`, `kubernetes:NODE,NODE` or `kubernetes:LABEL=VALUE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let hosts = match text.split_once(':') {
            None if text == "slurm" => return Ok(Self::Slurm(None)),
            None if text == "kubernetes" => return Ok(Self::Kubernetes(Selection::All)),
            Some(("kubernetes", nodes)) => return Selection::parse(nodes).map(Self::Kubernetes),
            Some(("slurm", partition)) => {
                return JobName::parse(partition).map(|partition| Self::Slurm(Some(partition)));
            }
            Some(("ssh", hosts)) => hosts,
            _ => {
                let text = text.escape_debug();
                return Err(format!(
                    "'{text}' names no engine; write it like ssh:HOST,HOST, slurm:PARTITION or kubernetes:NODE,NODE"
                ));
            }
        };
        let nodes: Vec<NodeName> = hosts.split(',').map(NodeName::parse).collect::<Result<_, _>>()?;
        if let Some(twice) = nodes.iter().enumerate().find(|(index, node)| nodes[..*index].contains(node)) {
            return Err(format!("node {} is named twice", twice.1));
        }
        if nodes.len() > NODES_MAX {
            return Err(format!("{} nodes are more than one coordinator takes ({NODES_MAX})", nodes.len()));
        }
        Ok(Self::Ssh(nodes))
    }
}

impl fmt::Display for NodeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh(nodes) => write!(f, "ssh:{}", nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(",")),
            Self::Slurm(None) => f.write_str("slurm"),
            Self::Slurm(Some(partition)) => write!(f, "slurm:{partition}"),
            Self::Kubernetes(Selection::All) => f.write_str("kubernetes"),
            Self::Kubernetes(nodes) => write!(f, "kubernetes:{nodes}"),
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for NodeName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl TryFrom<String> for JobName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl From<JobName> for String {
    fn from(name: JobName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_or_ssh_would_take_for_more_than_a_name_is_none() {
        for bad in
            ["", "-oProxyCommand=x", ".", "..", "a;b", "a b", "a$(b)", "a`b`", "a/b", "a\nb", "a'b", "a*", "~a", "a\\"]
        {
            assert!(NodeName::parse(bad).is_err(), "{bad:?}");
            assert!(JobName::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["node-7", "alice@node.example.org", "büro", "[::1]", "10.0.0.7"] {
            assert_eq!(NodeName::parse(good).unwrap().as_str(), good);
        }
        assert!(JobName::parse("alice@node").is_err());
        assert!(NodeName::parse(&"a".repeat(NAME_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn lists_of_nodes_are_read() {
        let nodes =
            |names: &[&str]| NodeSelector::Ssh(names.iter().map(|name| NodeName::parse(name).unwrap()).collect());
        assert_eq!(NodeSelector::parse("ssh:a"), Ok(nodes(&["a"])));
        assert_eq!(NodeSelector::parse("ssh:a,b@c,d"), Ok(nodes(&["a", "b@c", "d"])));
        assert_eq!(NodeSelector::parse("slurm"), Ok(NodeSelector::Slurm(None)));
        for text in ["slurm:all", "kubernetes", "kubernetes:a,b", "kubernetes:disk=nvme"] {
            assert_eq!(NodeSelector::parse(text).map(|on| on.to_string()), Ok(text.into()));
        }
        for (bad, why) in [
            ("a,b", "names no engine"),
            ("rsh:a", "names no engine"),
            ("ssh:", "'' is no name of a node"),
            ("ssh:a,,b", "'' is no name of a node"),
            ("ssh:a,b,a", "node a is named twice"),
            ("ssh:-l", "'-l' is no name of a node"),
            ("slurm:", "'' is no name"),
            ("slurm:a b", "'a b' is no name"),
            ("kubernetes:", "'' is no name of a node of Kubernetes"),
            ("kubernetes:A", "'A' is no name of a node of Kubernetes"),
        ] {
            let said = NodeSelector::parse(bad).unwrap_err();
            assert!(said.contains(why), "{bad}: {said}");
        }
        let many: Vec<String> = (0..=NODES_MAX).map(|number| format!("n{number}")).collect();
        assert!(NodeSelector::parse(&format!("ssh:{}", many.join(","))).unwrap_err().contains("1001 nodes are more"));
    }

    #[test]
    fn every_text_has_a_job_name() {
        for (text, expected) in
            [("quick", "quick-1a"), ("../my; test", "my--test-1a"), ("-", "1a"), ("Größe", "Gr--e-1a")]
        {
            let name = JobName::of(text, "1a");
            assert_eq!(name.as_str(), expected);
            assert_eq!(JobName::parse(name.as_str()), Ok(name));
        }
    }
}
