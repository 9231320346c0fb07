//! Nodes that OpenSSH reaches: its own program with the user's own configuration, keys, agent and known hosts. Must not know what is said
//! through it.

use std::process::Command;

use model::values::shell::quote_argv;

use crate::NodeName;
use crate::child::ChildExit;
use crate::engine::{Engine, last};
use crate::error::{NodeError, NodeErrorKind};

/// The status by which ssh says that it was ssh that failed.
const SSH_FAILED: i32 = 255;

/// The first value that ssh is given counts, so the user's own options stand before these. No question to a person: nobody looks at
/// hundreds of them. No forwarding: many connections would want one port. A connection that is dead is given up after 45 s.
const OPTIONS: [&str; 8] = [
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ControlMaster=no",
    "RemoteCommand=none",
    "RequestTTY=no",
];

#[derive(Clone, Debug)]
pub struct Ssh {
    /// Words for ssh itself, as in `-F FILE`.
    pub options: Vec<String>,
    /// nearfar on the nodes: a name that their shells find, or a path.
    pub program: String,
}

impl Engine for Ssh {
    fn command(&self, node: &NodeName, word: &str) -> Command {
        let mut command = Command::new("ssh");
        command.args(&self.options);
        command.args(OPTIONS.iter().flat_map(|option| ["-o", option]));
        // What is not harmless in a shell goes through standard input.
        command.args(["--", node.as_str(), &quote_argv(&[self.program.as_str(), word])]);
        command
    }

    fn explain(&self, ended: &ChildExit) -> Option<NodeError> {
        match ended.status.code() {
            Some(SSH_FAILED) => Some(in_words(&ended.complaint)),
            // Somebody ended ssh.
            None => Some(NodeError::new(NodeErrorKind::Away, format!("ssh ended with {}", ended.status))),
            Some(_) => None,
        }
    }

    fn program(&self) -> &str {
        &self.program
    }
}

/// What ssh complained of, with a next step. Its words are the same in every language.
fn in_words(complaint: &str) -> NodeError {
    let said = |words: &str| complaint.contains(words);
    let line = last(complaint);
    if said("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return NodeError::new(
            NodeErrorKind::NotPermitted,
            "its host key is not the one that is known: it may be another machine",
        )
        .hint("if it was set up anew, 'ssh-keygen -R HOST' forgets the old key");
    }
    if said("Host key verification failed") || said("host key is known for") {
        return NodeError::new(NodeErrorKind::NotPermitted, "its host key is not known here").hint(
            "log in once by hand with ssh and look at the key, or have 'ssh-keyscan HOST' write it to known_hosts",
        );
    }
    if said("Permission denied") {
        let line = complaint.lines().find(|line| line.contains("Permission denied")).unwrap_or(line);
        return NodeError::new(NodeErrorKind::NotPermitted, line)
            .hint("a key must be accepted there without a question: ssh-copy-id HOST, and ssh-add for a key with a passphrase");
    }
    if said("Could not resolve hostname") || said("hostname contains invalid characters") {
        return NodeError::new(NodeErrorKind::Unknown, line)
            .hint("give a name that 'ssh HOST' knows, from DNS or ~/.ssh/config");
    }
    if said("Bad configuration option") || said("command-line: line") || said("Can't open user config file") {
        return NodeError::new(NodeErrorKind::Engine, line).hint("look at ~/.ssh/config and --ssh-option");
    }
    let line = if line.is_empty() { "the connection was lost" } else { line };
    NodeError::new(NodeErrorKind::Away, line).hint("what runs there goes on; the same command finds it again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn what_ssh_complains_of_is_told_apart() {
        let cases = [
            (
                "ssh: Could not resolve hostname nowhere: Name or service not known\r\n",
                NodeErrorKind::Unknown,
                "nowhere",
            ),
            (
                "ssh: connect to host 127.0.0.1 port 9: Connection refused\r\n",
                NodeErrorKind::Away,
                "Connection refused",
            ),
            ("ssh: connect to host a port 22: Connection timed out\r\n", NodeErrorKind::Away, "timed out"),
            (
                "Banner\r\nroot@127.0.0.1: Permission denied (publickey).\r\n",
                NodeErrorKind::NotPermitted,
                "(publickey)",
            ),
            ("Host key verification failed.\r\n", NodeErrorKind::NotPermitted, "host key is not known"),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\r\n",
                NodeErrorKind::NotPermitted,
                "another machine",
            ),
            ("Timeout, server a not responding.\r\n", NodeErrorKind::Away, "not responding"),
            ("Can't open user config file x: No such file or directory\r\n", NodeErrorKind::Engine, "config file x"),
            ("", NodeErrorKind::Away, "connection was lost"),
        ];
        for (complaint, kind, expected) in cases {
            let ended = ChildExit { status: ExitStatus::from_raw(255 << 8), complaint: complaint.into() };
            let ssh = Ssh { options: vec![], program: "nearfar".into() };
            let problem = ssh.explain(&ended).unwrap();
            assert_eq!(problem.kind, kind, "{complaint}");
            assert!(problem.what.contains(expected), "{complaint}: {problem}");
        }
    }

    #[test]
    fn the_program_is_one_word_to_the_shell_there() {
        let ssh = Ssh { options: vec!["-F".into(), "my file".into()], program: "/opt/it's here/nearfar".into() };
        let command = ssh.command(&NodeName::parse("a").unwrap(), "__node");
        let words: Vec<&str> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words[..2], ["-F", "my file"]);
        assert_eq!(words[words.len() - 3..], ["--", "a", r"'/opt/it'\''s here/nearfar' __node"]);
    }
}
