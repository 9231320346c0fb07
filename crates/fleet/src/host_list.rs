//! Reads lists of hosts: names and patterns. Must not check whether the hosts exist.

use std::collections::BTreeSet;
use std::fmt;

use crate::host_pattern::{HostPattern, entries};
use crate::{NODES_MAX, NodeName};

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
    /// Parses a list such as `a,node-[01-12]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let nodes = expand(text, NodeName::parse).map_err(|error| error.to_string())?;
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
    let (mut nodes, mut seen) = (Vec::new(), BTreeSet::new());
    for entry in entries(list) {
        let pattern = HostPattern::parse(entry).map_err(HostListError::Invalid)?;
        // Counted first, because a short text can name more hosts than fit into memory.
        if pattern.count().saturating_add(nodes.len() as u64) > NODES_MAX as u64 {
            return Err(HostListError::TooMany(entry.escape_debug().to_string()));
        }
        for name in pattern.names() {
            let node = parse(&name).map_err(HostListError::Invalid)?;
            if !seen.insert(node.clone()) {
                return Err(HostListError::Invalid(format!("node {node} is named twice")));
            }
            nodes.push(node);
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests;
