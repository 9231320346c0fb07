//! Processes that tests examine and place.

use std::process::{Child, Command, Stdio};

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
