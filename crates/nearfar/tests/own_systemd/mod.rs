//! A service manager of systemd in private namespaces, for tests of lines for `systemd-run` on machines with another
//! init. Must not depend on what the services are.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the file `$1` with a manager that sees only its own processes, control groups and `/run`. Exit status 77: the
/// manager does not start.
const SCRIPT: &str = r#"
hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
cgroup=$hierarchy/nearfar-test-$$
mkdir "$cgroup" || exit 77
sh -c 'echo $$ > "$0/cgroup.procs" && exec unshare --mount --cgroup --pid --fork --kill-child --mount-proc \
    sh -c "$1" "$2"' "$cgroup" '
        mount -t tmpfs run /run && mkdir -p /run/systemd/system /run/user || exit 77
        umount -R /sys/fs/cgroup
        mount -t cgroup2 cgroup /sys/fs/cgroup || exit 77
        export XDG_RUNTIME_DIR=/run/user DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/bus
        /lib/systemd/systemd --user --unit=dbus.service >/run/log 2>&1 &
        manager=$!
        until busctl --user status org.freedesktop.systemd1 >/dev/null 2>&1; do
            kill -0 $manager 2>/dev/null || { cat /run/log >&2; exit 77; }
        done
        sh "$0"
    ' "$1"
status=$?
find "$cgroup" -depth -type d -exec rmdir {} +
exit $status
"#;

/// Runs a file of shell commands, in which `systemd-run --user` works. Returns the reason if this machine cannot.
pub fn run(script: &Path) -> Result<Output, String> {
    let mut shell = Command::new("timeout");
    shell.args(["--kill-after=1", "120", "sh", "-c", SCRIPT, "sh"]).arg(script).stdin(Stdio::null());
    let output = shell.output().map_err(|error| format!("timeout: {error}"))?;
    if output.status.code() == Some(77) {
        return Err(format!("no service manager: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(output)
}
