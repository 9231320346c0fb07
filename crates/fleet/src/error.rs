//! What went wrong with one node, in words. Must not know how it is shown.

use std::fmt;

/// What kind of thing went wrong: decides the exit status, and whether trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeErrorKind {
    /// Nobody knows such a host, or knows it as another one: the user's mistake.
    Unknown,
    /// The host is known and does not answer, or stopped answering: it may come back.
    Away,
    NotPermitted,
    /// There is no nearfar on it.
    NotInstalled,
    /// Its nearfar is another version.
    OtherVersion,
    /// Its nearfar said no, or what it said makes no sense.
    Refused,
    /// The engine cannot be used here: no program `ssh`, no right to start it.
    Engine,
}

/// What went wrong with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    pub kind: NodeErrorKind,
    /// What, without the node's name.
    pub what: String,
    /// The next step, where one is known.
    pub hint: Option<String>,
}

impl NodeError {
    /// One without a hint. Nodes are other machines: what they said has no control characters any more.
    pub fn new(kind: NodeErrorKind, what: impl fmt::Display) -> Self {
        Self { kind, what: plain(&what.to_string()), hint: None }
    }

    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(plain(&hint.to_string())), ..self }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

/// A text of another machine on one line and without anything that a terminal obeys.
pub fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_cannot_steer_the_terminal() {
        let problem = NodeError::new(NodeErrorKind::Refused, "a\x1b[2Jb\r\nc\n").hint("d\x07");
        assert_eq!(problem.to_string(), "a [2Jb  c\nhint: d");
    }
}
