//! Reads lists of hosts: names and patterns on the command line or in a file. Must not check whether the hosts exist.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::host_pattern::{HostPattern, entries};
use crate::{NODES_MAX, NodeName};

/// Maximum length of a host file. The longest names of [`NODES_MAX`] hosts have 200 kB; comments take the rest.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Hosts, and the list that the user gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList {
    text: String,
    /// Distinct, and at least one.
    nodes: Vec<NodeName>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    /// The text is invalid, or a host occurs twice.
    #[error("{0}")]
    Invalid(String),
    /// The list exceeds [`NODES_MAX`] with this entry.
    #[error("too many nodes at '{0}': the maximum for one coordinator is {NODES_MAX}")]
    TooMany(String),
}

impl HostList {
    /// Parses a list such as `a,node-[01-12]`, or reads the file of `@FILE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let nodes = match text.strip_prefix('@') {
            Some(path) => read(path)?,
            None => expand(text, host).map_err(|error| error.to_string())?,
        };
        Ok(Self { text: text.into(), nodes })
    }

    pub fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }
}

impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the hosts of a list. `parse` checks each name.
pub fn expand(list: &str, parse: fn(&str) -> Result<NodeName, String>) -> Result<Vec<NodeName>, HostListError> {
    let mut hosts = Hosts { nodes: Vec::new(), seen: BTreeSet::new(), parse };
    hosts.add(list)?;
    Ok(hosts.nodes)
}

/// The hosts of several lists.
struct Hosts {
    nodes: Vec<NodeName>,
    seen: BTreeSet<NodeName>,
    parse: fn(&str) -> Result<NodeName, String>,
}

impl Hosts {
    fn add(&mut self, list: &str) -> Result<(), HostListError> {
        for entry in entries(list) {
            let pattern = HostPattern::parse(entry).map_err(HostListError::Invalid)?;
            // Counted first, because a short text can name more hosts than fit into memory.
            if pattern.count().saturating_add(self.nodes.len() as u64) > NODES_MAX as u64 {
                return Err(HostListError::TooMany(entry.escape_debug().to_string()));
            }
            for name in pattern.names() {
                let node = (self.parse)(&name).map_err(HostListError::Invalid)?;
                if !self.seen.insert(node.clone()) {
                    return Err(HostListError::Invalid(format!("node {node} is named twice")));
                }
                self.nodes.push(node);
            }
        }
        Ok(())
    }
}

fn host(name: &str) -> Result<NodeName, String> {
    if name.starts_with('@') {
        let name = name.escape_debug();
        return Err(format!("invalid host '{name}': @FILE cannot be combined with other hosts"));
    }
    NodeName::parse(name)
}

/// Reads the hosts of a file: a list in each line, with comments after `#`.
fn read(path: &str) -> Result<Vec<NodeName>, String> {
    let shown = path.escape_debug();
    let text = files::read_text(Path::new(path), FILE_BYTES_MAX)
        .map_err(|error| format!("cannot read host file '{shown}': {error}"))?;
    let mut hosts = Hosts { nodes: Vec::new(), seen: BTreeSet::new(), parse: host };
    for (line, number) in text.lines().zip(1..) {
        let list = line.split('#').next().unwrap_or_default().trim();
        if !list.is_empty() {
            hosts.add(list).map_err(|error| format!("{shown}:{number}: {error}"))?;
        }
    }
    if hosts.nodes.is_empty() {
        return Err(format!("host file '{shown}' contains no host"));
    }
    Ok(hosts.nodes)
}

#[cfg(test)]
mod tests;
