//! A shell in a private mount namespace, for tests that mount a disk. Must not depend on any test.

use std::process::{Command, Output};

/// A shell that runs a script with the arguments `$1`, `$2`, ...; if `root`, as root of a new user namespace.
pub fn shell(root: bool, script: &str) -> Command {
    let mut shell = Command::new("unshare");
    if root {
        shell.args(["--user", "--map-root-user"]);
    }
    shell.args(["--mount", "sh", "-c", script, "sh"]);
    shell
}

/// Runs the shell. The error is why mounts are impossible; the script exits with 77 if it cannot create `disks`.
pub fn run(shell: &mut Command, disks: &str) -> Result<Output, String> {
    let Ok(output) = shell.output() else { return Err("no unshare: apt-get install util-linux".into()) };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || stderr.contains("unshare failed") || stderr.contains("unshare: ") {
        return Err(format!("no {disks} or mount namespaces: {stderr}"));
    }
    Ok(output)
}
