//! A temporary directory for tests whose processes can outlive them. If a test fails, its processes are killed and its
//! expansions removed, whose swap the whole machine would use.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than killed processes take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Processes of the test have its path in their command line or environment. The undo journal is in `state`.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `nearfar restore`. Returns false if it failed, for example because processes of the test still run.
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
            let start = Instant::now();
            while !self.restore() && start.elapsed() < EXIT_TIMEOUT {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Kills the processes that have the path of a directory in their command line or environment.
pub fn kill_all_with(dir: &Path) {
    let dir = dir.as_os_str().as_encoded_bytes();
    let has = |pid: u32, file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(dir.len()).any(|bytes| bytes == dir)
    };
    for pid in processes().into_iter().filter(|pid| has(*pid, "cmdline") || has(*pid, "environ")) {
        signal("KILL", pid);
    }
}

pub fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Sends a signal to a process. It is not an error if the process has exited.
pub fn signal(name: &str, pid: u32) {
    // kill(1) fails if the process has just exited.
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
}
