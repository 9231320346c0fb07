//! A temporary directory for tests whose programs may outlive them: after a failed test, it kills these processes and
//! restores system settings such as an expansion's swap device.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Timeout for killed processes to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Owns the processes with its path on their command line or in their environment; their undo journal is in `state`.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `nearfar restore`. Returns whether it succeeded; it fails while a process that changed settings runs.
    pub fn restore(&self) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("restore").env("NEARFAR_STATE", self.path().join("state"));
        command.output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            kill_all_with(self.path());
            let began = Instant::now();
            while !self.restore() && began.elapsed() < EXIT_TIMEOUT {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Kills the processes that have this path on their command line or in their environment.
pub fn kill_all_with(dir: &Path) {
    let dir = dir.as_os_str().as_encoded_bytes();
    let has = |pid: u32, file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(dir.len()).any(|window| window == dir)
    };
    for pid in processes().into_iter().filter(|pid| has(*pid, "cmdline") || has(*pid, "environ")) {
        signal("KILL", pid);
    }
}

pub fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub fn signal(name: &str, pid: u32) {
    // Fails if the process has just ended.
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
}
