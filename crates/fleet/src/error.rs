//! Errors of one node, or of an engine for all its nodes. Must not depend on how they are printed.

use std::fmt;

use model::hint::Hinted;

use crate::NodeName;

/// Kind of failure: determines the exit status, and whether a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeErrorKind {
    /// The host, node or partition does not exist: a usage error.
    Unknown,
    /// The engine does not support the request: a usage error.
    Unsupported,
    /// The host does not respond, or stopped responding. A retry may succeed.
    Away,
    /// The request ran in a batch job that ended before the response. A retry runs outside of it.
    JobEnded,
    NotPermitted,
    /// nearfar is missing on the node.
    NotInstalled,
    /// nearfar on the node has a different protocol version.
    OtherVersion,
    /// nearfar on the node refused the request, or its response is invalid.
    Refused,
    /// The engine cannot be used on this machine, for example because `ssh` is missing or not executable.
    Engine,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NodeError {
    pub kind: NodeErrorKind,
    /// The message, without the node's name.
    pub what: String,
    /// The next step for the user, if one is known.
    pub hint: Option<String>,
}

/// The result of each node, in the order of the command line.
pub type PerNode<T> = Vec<(NodeName, Result<T, NodeError>)>;

impl NodeError {
    /// Creates an error without a hint. The text may come from the node, so control characters are removed.
    pub fn new(kind: NodeErrorKind, what: impl fmt::Display) -> Self {
        Self { kind, what: plain(&what.to_string()), hint: None }
    }

    /// Whether the same request may succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.kind, NodeErrorKind::Away | NodeErrorKind::JobEnded)
    }

    #[must_use]
    pub fn with_hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(plain(&hint.to_string())), ..self }
    }
}

impl Hinted for NodeError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Replaces control characters by spaces, because text of another machine could contain terminal escapes.
pub fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_nodes_are_removed() {
        let error = NodeError::new(NodeErrorKind::Refused, "a\x1b[2Jb\r\nc\n").with_hint("d\x07");
        assert_eq!(error.text_with_hint(), "a [2Jb  c\nhint: d");
    }
}
