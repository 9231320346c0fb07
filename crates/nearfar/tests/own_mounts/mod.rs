//! A shell whose mounts nobody else sees and that are gone with it, for tests that need a disk of their own. Must not know what they do there.

use std::process::{Command, Output};

/// The shell with this script; its arguments are `$1` and so on. `root`: as root of a user namespace, where that is enough.
pub fn shell(root: bool, script: &str) -> Command {
    let mut shell = Command::new("unshare");
    if root {
        shell.args(["--user", "--map-root-user"]);
    }
    shell.args(["--mount", "sh", "-c", script, "sh"]);
    shell
}

/// Runs it; or why that cannot be here, which the script says with status 77 where it needs such `disks` and there are none.
pub fn run(shell: &mut Command, disks: &str) -> Result<Output, String> {
    let Ok(output) = shell.output() else { return Err("no unshare: apt-get install util-linux".into()) };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare failed") || said.contains("unshare: ") {
        return Err(format!("no {disks} or mount namespaces here: {said}"));
    }
    Ok(output)
}
