//! Parses names of nodes and jobs, and the value of `--on`. A valid name is safe as a program argument, as a file name
//! and in a shell command. Must not check whether the machines exist.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::HostList;
use crate::kubernetes::Selection;

/// Maximum number of nodes of a coordinator, which needs a process and a connection for each.
pub const NODES_MAX: usize = 1000;

/// File names have at most 255 bytes, and suffixes are added to job names.
const NAME_BYTES_MAX: usize = 200;

/// Name of a machine as its engine knows it, for example an ssh host or alias, or `user@host`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

/// Name of a job, and of its directory on each node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobName(String);

/// The engine and its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelector {
    Ssh(HostList),
    /// All nodes of a Slurm partition; `None` is the default partition.
    Slurm(Option<JobName>),
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

    /// Derives a valid name from any text. The suffix distinguishes texts that give the same prefix.
    pub fn of(text: &str, suffix: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = text.chars().map(plain).take(NAME_BYTES_MAX / 2).collect();
        Self(format!("{}-{suffix}", name.trim_start_matches(['.', '-'])).trim_start_matches('-').into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A program would read a leading `-` as an option, and names such as `..` are other directories.
fn checked(kind: &str, text: &str, is_allowed: impl Fn(char) -> bool, allowed: &str) -> Result<String, String> {
    let is_unsafe = text.starts_with(['-', '.']);
    if text.is_empty() || is_unsafe || text.len() > NAME_BYTES_MAX || !text.chars().all(is_allowed) {
        return Err(format!(
            "invalid {kind} name '{}': use at most {NAME_BYTES_MAX} bytes of {allowed}, not beginning with - or .",
            text.escape_debug()
        ));
    }
    Ok(text.into())
}

impl NodeSelector {
    /// Parses `ssh:HOST,HOST`, `ssh:@FILE`, `slurm[:PARTITION]`, `kubernetes[:NODE,NODE]` or `kubernetes:LABEL=VALUE`.
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
                    "no engine in '{text}': use ssh:HOST,HOST, ssh:@FILE, slurm:PARTITION or kubernetes:NODE,NODE"
                ));
            }
        };
        HostList::parse(hosts).map(Self::Ssh)
    }
}

impl fmt::Display for NodeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh(hosts) => write!(f, "ssh:{hosts}"),
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
    fn names_with_shell_or_option_syntax_are_rejected() {
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
    fn node_selectors_are_parsed() {
        let Ok(NodeSelector::Ssh(hosts)) = NodeSelector::parse("ssh:a,b@c[1-2]") else { panic!("not hosts") };
        assert_eq!(hosts.nodes().iter().map(NodeName::as_str).collect::<Vec<_>>(), ["a", "b@c1", "b@c2"]);
        assert_eq!(NodeSelector::parse("slurm"), Ok(NodeSelector::Slurm(None)));
        for text in ["ssh:a,b@c[1-2]", "slurm:all", "kubernetes", "kubernetes:a,b", "kubernetes:disk=nvme"] {
            assert_eq!(NodeSelector::parse(text).map(|on| on.to_string()), Ok(text.into()));
        }
        for (bad, expected) in [
            ("a,b", "no engine in 'a,b'"),
            ("rsh:a", "no engine in 'rsh:a'"),
            ("ssh:", "invalid node name ''"),
            ("ssh:a,,b", "invalid node name ''"),
            ("ssh:a,b,a", "node a is named twice"),
            ("ssh:-l", "invalid node name '-l'"),
            ("slurm:", "invalid job name ''"),
            ("slurm:a b", "invalid job name 'a b'"),
            ("kubernetes:", "invalid Kubernetes node name ''"),
            ("kubernetes:A", "invalid Kubernetes node name 'A'"),
        ] {
            let message = NodeSelector::parse(bad).unwrap_err();
            assert!(message.contains(expected), "{bad}: {message}");
        }
    }

    #[test]
    fn job_name_of_any_text_is_valid() {
        for (text, expected) in
            [("quick", "quick-1a"), ("../my; test", "my--test-1a"), ("-", "1a"), ("Größe", "Gr--e-1a")]
        {
            let name = JobName::of(text, "1a");
            assert_eq!(name.as_str(), expected);
            assert_eq!(JobName::parse(name.as_str()), Ok(name));
        }
    }
}
