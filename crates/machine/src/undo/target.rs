//! Reading and writing what holds a setting's value: a file of the kernel, or a process that can be paused. A process
//! is paused by SIGSTOP: that needs no service manager, loses nothing of what the process knows, and is undone by one
//! signal; irqbalance's list of what it leaves alone. Must not know the journal.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use model::undo::{Present, Target};
use rustix::process::{Pid, Signal, kill_process};

use crate::{irqbalance, sysfs};

/// The value of a process that runs.
pub(crate) const RUNNING: &str = "running";
/// The value of a process that was paused.
pub(crate) const PAUSED: &str = "paused";

/// A signal to stop or to go on takes effect when the process is next on a cpu.
const SIGNAL_TIME: Duration = Duration::from_secs(2);

/// The value now.
pub(crate) fn read(root: &Path, target: &Target) -> Present {
    match target {
        Target::File(path) => match sysfs::read_text(root, path) {
            Ok(text) => Present::Value(sysfs::selected(&text).into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Present::Gone,
            Err(error) => Present::Unreadable(error.to_string()),
        },
        Target::Process { pid, started } => match process(root, *pid) {
            Some((state, began)) if began == *started && state != 'Z' && state != 'X' => {
                Present::Value(if state == 'T' { PAUSED } else { RUNNING }.into())
            }
            _ => Present::Gone,
        },
        Target::Banned { pid, started } => match process(root, *pid) {
            Some(('T', began)) if began == *started => Present::Unreadable("it is paused and does not answer".into()),
            Some((_, began)) if began == *started && root == Path::new("/") => {
                irqbalance::banned(*pid).map_or_else(|error| Present::Unreadable(error.to_string()), Present::Value)
            }
            _ => Present::Gone,
        },
    }
}

/// State and start of a process, in ticks since boot; none when it is gone.
pub(crate) fn process(root: &Path, pid: u32) -> Option<(char, u64)> {
    let text = sysfs::read_text(root, &format!("proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses; the state behind it is field 3 of proc(5), the start 22.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.first()?.chars().next()?, fields.get(22 - 3)?.parse().ok()?))
}

/// Writes a value. That the kernel took it is seen by reading it back.
pub(crate) fn write(root: &Path, target: &Target, value: &str) -> io::Result<()> {
    match target {
        Target::File(path) => write_file(root, path, value),
        Target::Banned { pid, .. } => irqbalance::ban(*pid, value),
        Target::Process { pid, .. } => {
            // A recorded tree has no processes, and its numbers belong to somebody else here.
            if root != Path::new("/") {
                return Err(io::Error::from(ErrorKind::Unsupported));
            }
            let whom = i32::try_from(*pid).ok().and_then(Pid::from_raw).ok_or(ErrorKind::InvalidInput)?;
            kill_process(whom, if value == PAUSED { Signal::STOP } else { Signal::CONT })?;
            let end = Instant::now() + SIGNAL_TIME;
            while read(root, target) != Present::Value(value.into()) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    }
}

fn write_file(root: &Path, path: &str, value: &str) -> io::Result<()> {
    let path = root.join(path);
    // Never created: a setting that is not there is not ours to make.
    let mut file = OpenOptions::new().write(true).open(&path)?;
    if root == Path::new("/") {
        return file.write_all(value.as_bytes());
    }
    // The kernel takes a value at once or not at all; the plain file of a recorded tree has to be replaced for that.
    let partial = path.with_extension("partial");
    std::fs::write(&partial, value)?;
    std::fs::rename(partial, path)
}

/// Whether root, or another container, would have been allowed to.
pub(super) fn is_permission(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}
