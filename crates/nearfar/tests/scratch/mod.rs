//! A scratch folder for tests that start programs which outlive them: a test that fails leaves no process behind, and none of an
//! expansion's swap, which would be everybody's.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than killed programs take to be gone.
const GONE_MAX: Duration = Duration::from_secs(20);

/// Whose processes have it on their command line or in their environment, and whose journal is in `state`.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a scratch folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Puts the machine back; gives whether that was done, for it is refused until its processes are gone.
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
            while !self.restore() && began.elapsed() < GONE_MAX {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Ends the processes that have a folder on their command line or in their environment.
pub fn kill_all_with(folder: &Path) {
    let folder = folder.as_os_str().as_encoded_bytes();
    let has = |pid: u32, file: &str| {
        let words = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        words.windows(folder.len()).any(|words| words == folder)
    };
    for pid in processes().into_iter().filter(|pid| has(*pid, "cmdline") || has(*pid, "environ")) {
        signal("KILL", pid);
    }
}

pub fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Sends a signal to one process.
pub fn signal(name: &str, pid: u32) {
    // One that has ended just before needs none.
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
}
