//! A shell in a private mount namespace, for tests that mount file systems. Must not depend on what they mount.

use std::process::{Command, Output};

/// Runs a script in a new mount namespace; `root` adds a user namespace in which it is root, which suffices for tmpfs.
pub fn shell(root: bool, script: &str) -> Command {
    let mut shell = Command::new("unshare");
    if root {
        shell.args(["--user", "--map-root-user"]);
    }
    shell.args(["--mount", "sh", "-c", script, "sh"]);
    shell
}

/// Runs the shell. Returns the reason if this machine lacks namespaces or, reported by exit status 77, these `disks`.
pub fn run(shell: &mut Command, disks: &str) -> Result<Output, String> {
    let Ok(output) = shell.output() else { return Err("no unshare: apt-get install util-linux".into()) };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || stderr.contains("unshare failed") || stderr.contains("unshare: ") {
        return Err(format!("{disks} or mount namespaces are not available: {stderr}"));
    }
    Ok(output)
}
