//! Reading and writing what holds a setting's value: a file of the kernel, or a process that can be paused. A process
//! is paused by SIGSTOP: that needs no service manager, loses nothing of what the process knows, and is undone by one
//! signal; irqbalance's list of what it leaves alone; swap on a loop device; a cgroup, and what it gives those below it. Must not know the journal.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use model::values::undo::{CurrentValue, SettingTarget};
use rustix::process::{Pid, Signal, kill_process};

use crate::{cgroup, irqbalance, swap, sysfs};

/// The value of a process that runs.
pub(crate) const RUNNING: &str = "running";
/// The value of a process that was paused.
pub(crate) const PAUSED: &str = "paused";

/// The value of swap that is used.
pub const ON: &str = "on";
/// The value of swap that is not.
pub const OFF: &str = "off";
/// The value of a group that is there.
pub const THERE: &str = "there";
/// The value of one that is not.
pub const ABSENT: &str = "absent";

/// A signal to stop or to go on takes effect when the process is next on a cpu.
const SIGNAL_TIME: Duration = Duration::from_secs(2);

pub(crate) fn read(root: &Path, target: &SettingTarget) -> CurrentValue {
    match target {
        SettingTarget::File(path) => match sysfs::read_text(root, path) {
            Ok(text) => CurrentValue::Value(sysfs::selected(&text).into()),
            Err(error) if error.kind() == ErrorKind::NotFound => CurrentValue::Gone,
            Err(error) => CurrentValue::Unreadable(error.to_string()),
        },
        SettingTarget::Process { pid, started } => match process(root, *pid) {
            Some((state, began)) if began == *started && state != 'Z' && state != 'X' => {
                CurrentValue::Value(if state == 'T' { PAUSED } else { RUNNING }.into())
            }
            _ => CurrentValue::Gone,
        },
        SettingTarget::Banned { pid, started } => match process(root, *pid) {
            Some(('T', began)) if began == *started => {
                CurrentValue::Unreadable("it is paused and does not answer".into())
            }
            Some((_, began)) if began == *started && root == Path::new("/") => irqbalance::banned(*pid)
                .map_or_else(|error| CurrentValue::Unreadable(error.to_string()), CurrentValue::Value),
            _ => CurrentValue::Gone,
        },
        SettingTarget::Swap { device, backing } => match swap_is_on(root, device, backing) {
            Ok(on) => CurrentValue::Value(if on { ON } else { OFF }.into()),
            Err(error) => CurrentValue::Unreadable(error.to_string()),
        },
        SettingTarget::Group(path) => CurrentValue::Value(if root.join(path).is_dir() { THERE } else { ABSENT }.into()),
        SettingTarget::Controller { group, name } => {
            match sysfs::read_text(root, &format!("{group}/{}", cgroup::CONTROL)) {
                Ok(text) => CurrentValue::Value(if cgroup::supports(&text, name) { ON } else { OFF }.into()),
                Err(error) if error.kind() == ErrorKind::NotFound => CurrentValue::Gone,
                Err(error) => CurrentValue::Unreadable(error.to_string()),
            }
        }
    }
}

/// Whether this file, and not another that has the device by now, is swapped to.
fn swap_is_on(root: &Path, device: &str, backing: &str) -> io::Result<bool> {
    let device = Path::new(device);
    Ok(swap::backing(root, device).as_deref() == Some(backing) && swap::is_on(root, device)?)
}

/// Makes or takes away a group; one with processes in it cannot go.
fn write_group(root: &Path, path: &str, value: &str) -> io::Result<()> {
    let folder = root.join(path);
    if value == THERE {
        return std::fs::create_dir(folder);
    }
    std::fs::remove_dir(&folder).map_err(|error| match cgroup::processes(&folder).first() {
        Some(pid) => io::Error::other(format!("process {pid} is still in it; end it first")),
        None => error,
    })
}

/// Has a group give a controller to those below it, or not any more. The kernel takes `+memory` and shows `memory`; the plain
/// file of a recorded tree has to be written as it is shown.
fn write_controller(root: &Path, group: &str, name: &str, on: bool) -> io::Result<()> {
    let path = format!("{group}/{}", cgroup::CONTROL);
    if root == Path::new("/") {
        return write_file(root, &path, &format!("{}{name}", if on { '+' } else { '-' }));
    }
    let text = sysfs::read_text(root, &path)?;
    let others = text.split_whitespace().filter(|word| *word != name);
    let shown: Vec<&str> = others.chain(on.then_some(name)).collect();
    write_file(root, &path, &shown.join(" "))
}

/// State and start of a process, in ticks since boot; none when it is gone.
pub(crate) fn process(root: &Path, pid: u32) -> Option<(char, u64)> {
    let text = sysfs::read_text(root, &format!("proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses; the state behind it is field 3 of proc(5), the start 22.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.first()?.chars().next()?, fields.get(22 - 3)?.parse().ok()?))
}

/// Writes a value. That the kernel took it is seen by reading it back.
pub(crate) fn write(root: &Path, target: &SettingTarget, value: &str) -> io::Result<()> {
    match target {
        SettingTarget::File(path) => write_file(root, path, value),
        SettingTarget::Banned { pid, .. } => irqbalance::ban(*pid, value),
        // A recorded tree has no devices.
        SettingTarget::Swap { .. } if root != Path::new("/") => Err(io::Error::from(ErrorKind::Unsupported)),
        SettingTarget::Swap { device, .. } if value == ON => swap::on(Path::new(device)),
        SettingTarget::Swap { device, .. } => swap::off(Path::new(device)),
        SettingTarget::Group(path) => write_group(root, path, value),
        SettingTarget::Controller { group, name } => write_controller(root, group, name, value == ON),
        SettingTarget::Process { pid, .. } => {
            // A recorded tree has no processes, and its numbers belong to somebody else here.
            if root != Path::new("/") {
                return Err(io::Error::from(ErrorKind::Unsupported));
            }
            let whom = i32::try_from(*pid).ok().and_then(Pid::from_raw).ok_or(ErrorKind::InvalidInput)?;
            kill_process(whom, if value == PAUSED { Signal::STOP } else { Signal::CONT })?;
            let end = Instant::now() + SIGNAL_TIME;
            while read(root, target) != CurrentValue::Value(value.into()) && Instant::now() < end {
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
