//! Processes that tests examine and place.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that is ended with the test.
pub struct Running(pub Child);

impl Running {
    pub fn start(program: &str, args: &[&str]) -> Self {
        let child = Command::new(program).args(args).stdout(Stdio::null()).stdin(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{program}: {error}")))
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPUs on which a process may run.
pub fn allowed(pid: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default().trim().into()
}

/// Sends a signal, such as `-INT`.
pub fn signal(process: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &process.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// Waits until a condition holds.
pub fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
