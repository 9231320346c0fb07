//! Reaches nodes through `ssh` with the user's configuration, keys, agent and known hosts. Must not depend on the
//! contents of messages.

use std::process::Command;

use model::values::shell::quote_argv;

use crate::NodeName;
use crate::child::ChildExit;
use crate::error::{NodeError, NodeErrorKind};
use crate::launcher::Launcher;
use crate::session::last_line;

/// Exit status of ssh if ssh itself failed, not the remote command.
const SSH_FAILED: i32 = 255;

/// ssh uses the first value of each option, so the user's options precede these. They disable prompts, because there
/// may be hundreds of nodes, and forwardings, which would all need the same port. Dead connections time out after 45 s.
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
    /// Arguments of ssh, for example `-F` and `FILE`.
    pub options: Vec<String>,
    /// nearfar on the nodes: a name in PATH there, or a path.
    pub program: String,
}

impl Launcher for Ssh {
    fn command(&self, node: &NodeName, arg: &str) -> Command {
        let mut command = Command::new("ssh");
        command.args(&self.options);
        command.args(OPTIONS.iter().flat_map(|option| ["-o", option]));
        // Anything that needs more than quotes goes through standard input.
        command.args(["--", node.as_str(), &quote_argv(&[self.program.as_str(), arg])]);
        command
    }

    fn explain(&self, exit: &ChildExit) -> Option<NodeError> {
        match exit.status.code() {
            Some(SSH_FAILED) => Some(ssh_error(&exit.stderr)),
            // A signal ended ssh.
            None => Some(NodeError::new(NodeErrorKind::Away, format!("ssh ended with {}", exit.status))),
            Some(_) => None,
        }
    }

    fn program(&self) -> &str {
        &self.program
    }
}

/// Returns the error that ssh printed, with a hint. ssh does not translate its messages.
fn ssh_error(stderr: &str) -> NodeError {
    let has = |text: &str| stderr.contains(text);
    let line = last_line(stderr);
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return NodeError::new(NodeErrorKind::NotPermitted, "its host key has changed: it may be another machine")
            .with_hint("if the node was reinstalled, remove the old key with 'ssh-keygen -R HOST'");
    }
    if has("Host key verification failed") || has("host key is known for") {
        return NodeError::new(NodeErrorKind::NotPermitted, "its host key is unknown").with_hint(
            "log in once by hand with ssh to check the key, or add the output of 'ssh-keyscan HOST' to known_hosts",
        );
    }
    if has("Permission denied") {
        let line = stderr.lines().find(|line| line.contains("Permission denied")).unwrap_or(line);
        return NodeError::new(NodeErrorKind::NotPermitted, line).with_hint(
            "install a key that needs no prompt: ssh-copy-id HOST, and ssh-add for a key with a passphrase",
        );
    }
    if has("Could not resolve hostname") || has("hostname contains invalid characters") {
        return NodeError::new(NodeErrorKind::Unknown, line)
            .with_hint("use a name that 'ssh HOST' can resolve, from DNS or ~/.ssh/config");
    }
    if has("Bad configuration option") || has("command-line: line") || has("Can't open user config file") {
        return NodeError::new(NodeErrorKind::Engine, line).with_hint("check ~/.ssh/config and --ssh-option");
    }
    let line = if line.is_empty() { "the connection was lost" } else { line };
    NodeError::new(NodeErrorKind::Away, line)
        .with_hint("rerun the same command when the node responds; jobs that run on it continue")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn ssh_errors_are_classified() {
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
            ("Host key verification failed.\r\n", NodeErrorKind::NotPermitted, "host key is unknown"),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\r\n",
                NodeErrorKind::NotPermitted,
                "another machine",
            ),
            ("Timeout, server a not responding.\r\n", NodeErrorKind::Away, "not responding"),
            ("Can't open user config file x: No such file or directory\r\n", NodeErrorKind::Engine, "config file x"),
            ("", NodeErrorKind::Away, "connection was lost"),
        ];
        for (stderr, kind, expected) in cases {
            let exit = ChildExit { status: ExitStatus::from_raw(255 << 8), stderr: stderr.into() };
            let ssh = Ssh { options: vec![], program: "nearfar".into() };
            let error = ssh.explain(&exit).unwrap();
            assert_eq!(error.kind, kind, "{stderr}");
            assert!(error.what.contains(expected), "{stderr}: {error}");
        }
    }

    #[test]
    fn program_path_is_quoted_for_the_remote_shell() {
        let ssh = Ssh { options: vec!["-F".into(), "my file".into()], program: "/opt/it's here/nearfar".into() };
        let command = ssh.command(&NodeName::parse("a").unwrap(), "__node");
        let args: Vec<&str> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
        assert_eq!(args[..2], ["-F", "my file"]);
        assert_eq!(args[args.len() - 3..], ["--", "a", r"'/opt/it'\''s here/nearfar' __node"]);
    }
}
