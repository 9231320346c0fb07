//! Reads and writes the values of settings: kernel files, processes to pause, irqbalance's ignored interrupts, swap on
//! loop devices, zram devices, cgroups and their controllers, cpusets and affinities of running services. Processes are paused by SIGSTOP,
//! which needs no service manager, preserves their state and is undone by one signal. Must not depend on the journal.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use model::values::undo::{CurrentValue, SettingChange, SettingTarget};
use rustix::process::{Pid, Signal, kill_process};

use crate::service_threads::{Mask, ServiceThreads};
use crate::{cgroup, cpuset, irqbalance, swap, sysfs, zram};

/// Value of a running process.
pub(crate) const RUNNING: &str = "running";
/// Value of a paused process.
pub(crate) const PAUSED: &str = "paused";

/// Value of swap or a controller in use.
pub const ON: &str = "on";
/// Value of swap or a controller not in use.
pub const OFF: &str = "off";
/// Value of an existing cgroup or device.
pub const THERE: &str = "there";
/// Value of a cgroup or device that does not exist.
pub const ABSENT: &str = "absent";

/// Timeout for SIGSTOP and SIGCONT, which take effect when the process is next scheduled.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn read(root: &Path, target: &SettingTarget) -> CurrentValue {
    match target {
        SettingTarget::File(path) => match sysfs::read_text(root, path) {
            Ok(text) => CurrentValue::Value(sysfs::selected(&text).into()),
            Err(error) if error.kind() == ErrorKind::NotFound => CurrentValue::Gone,
            Err(error) => CurrentValue::Unreadable(error.to_string()),
        },
        SettingTarget::Process { pid, started } => match process(root, *pid) {
            Some((state, start)) if start == *started && state != 'Z' && state != 'X' => {
                CurrentValue::Value(if state == 'T' { PAUSED } else { RUNNING }.into())
            }
            _ => CurrentValue::Gone,
        },
        SettingTarget::Banned { pid, started } => match process(root, *pid) {
            Some(('T', start)) if start == *started => {
                CurrentValue::Unreadable("irqbalance is paused and does not respond".into())
            }
            Some((_, start)) if start == *started && root == Path::new("/") => irqbalance::banned(*pid)
                .map_or_else(|error| CurrentValue::Unreadable(error.to_string()), CurrentValue::Value),
            _ => CurrentValue::Gone,
        },
        SettingTarget::Swap { device, backing } => match swap_is_on(root, device, backing) {
            Ok(on) => CurrentValue::Value(if on { ON } else { OFF }.into()),
            Err(error) => CurrentValue::Unreadable(error.to_string()),
        },
        SettingTarget::Zram { name, bytes } => {
            CurrentValue::Value(if zram::exists(root, name, *bytes) { THERE } else { ABSENT }.into())
        }
        // A recorded tree has no processes.
        SettingTarget::Affinity(_) if root != Path::new("/") => CurrentValue::Gone,
        SettingTarget::Affinity(processes) => match ServiceThreads::new(processes.clone()).found() {
            Some(found) => CurrentValue::Value(found.mask.to_string()),
            None => CurrentValue::Gone,
        },
        SettingTarget::Cpuset { owner, resource } => cpuset::read(root, owner, *resource),
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

/// Returns whether the device is in use as swap and still backed by this file.
fn swap_is_on(root: &Path, device: &str, backing: &str) -> io::Result<bool> {
    let device = Path::new(device);
    Ok(swap::backing(root, device).as_deref() == Some(backing) && swap::is_on(root, device)?)
}

/// Creates or removes a cgroup; it cannot be removed while it contains processes.
fn write_group(root: &Path, path: &str, value: &str) -> io::Result<()> {
    let dir = root.join(path);
    if value == THERE {
        return std::fs::create_dir(dir);
    }
    std::fs::remove_dir(&dir).map_err(|error| match cgroup::processes(&dir).first() {
        Some(pid) => io::Error::other(format!("process {pid} is still in it; end it first")),
        None => error,
    })
}

/// Enables or disables a controller for the children of a cgroup. The kernel accepts `+memory` and reports `memory`;
/// the plain file of a recorded tree must be written in the form in which it is read.
fn write_controller(root: &Path, group: &str, name: &str, on: bool) -> io::Result<()> {
    let path = format!("{group}/{}", cgroup::CONTROL);
    if root == Path::new("/") {
        return write_file(root, &path, &format!("{}{name}", if on { '+' } else { '-' }));
    }
    let text = sysfs::read_text(root, &path)?;
    let others = text.split_whitespace().filter(|word| *word != name);
    let names: Vec<&str> = others.chain(on.then_some(name)).collect();
    write_file(root, &path, &names.join(" "))
}

/// Returns the state of a process and its start in ticks since boot, or `None` if it has ended.
pub(crate) fn process(root: &Path, pid: u32) -> Option<(char, u64)> {
    let text = sysfs::read_text(root, &format!("proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces and parentheses; proc(5) numbers the state after it 3, the start 22.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.first()?.chars().next()?, fields.get(22 - 3)?.parse().ok()?))
}

/// Writes a value. The caller must read it back to check that the kernel has accepted it.
pub(crate) fn write(root: &Path, target: &SettingTarget, value: &str) -> io::Result<()> {
    match target {
        SettingTarget::File(path) => write_file(root, path, value),
        SettingTarget::Banned { pid, .. } => irqbalance::ban(*pid, value),
        // A recorded tree has no devices.
        SettingTarget::Swap { .. } | SettingTarget::Zram { .. } if root != Path::new("/") => {
            Err(io::Error::from(ErrorKind::Unsupported))
        }
        SettingTarget::Swap { device, .. } if value == ON => swap::on(Path::new(device), swap::PRIORITY),
        SettingTarget::Swap { device, .. } => swap::off(Path::new(device)),
        SettingTarget::Zram { name, bytes } if value == THERE => zram::create(root, name, *bytes),
        SettingTarget::Zram { name, .. } => zram::remove(root, name),
        // Which threads to change depends on the values that were written: see `write_old`.
        SettingTarget::Affinity(_) => Err(io::Error::from(ErrorKind::Unsupported)),
        SettingTarget::Cpuset { owner, resource } => cpuset::write(root, owner, *resource, value),
        SettingTarget::Group(path) => write_group(root, path, value),
        SettingTarget::Controller { group, name } => write_controller(root, group, name, value == ON),
        SettingTarget::Process { pid, .. } => {
            // A recorded tree has no processes, and its PIDs belong to other processes on this machine.
            if root != Path::new("/") {
                return Err(io::Error::from(ErrorKind::Unsupported));
            }
            let process = i32::try_from(*pid).ok().and_then(Pid::from_raw).ok_or(ErrorKind::InvalidInput)?;
            kill_process(process, if value == PAUSED { Signal::STOP } else { Signal::CONT })?;
            let end = Instant::now() + SIGNAL_TIMEOUT;
            while read(root, target) != CurrentValue::Value(value.into()) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    }
}

/// Returns the current value of a changed setting. Threads of a service are judged one by one: as long as one has an
/// affinity that was written, the change is in effect, whatever the others have.
pub(super) fn read_changed(root: &Path, change: &SettingChange) -> CurrentValue {
    match &change.target {
        SettingTarget::Affinity(processes) if root == Path::new("/") => {
            let masks = ServiceThreads::new(processes.clone()).masks();
            if masks.is_empty() {
                return CurrentValue::Gone;
            }
            let written = written_masks(change);
            let changed = masks.values().map(|mask| Mask::Only(mask.clone())).find(|mask| written.contains(mask));
            CurrentValue::Value(changed.map_or_else(|| change.old.clone(), |mask| mask.to_string()))
        }
        target => read(root, target),
    }
}

/// Writes the old value of a changed setting.
pub(super) fn write_old(root: &Path, change: &SettingChange) -> io::Result<()> {
    match &change.target {
        SettingTarget::Affinity(processes) if root == Path::new("/") => {
            let old = Mask::parse(&change.old).map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
            ServiceThreads::new(processes.clone()).replace_for_good(&written_masks(change), &old)
        }
        target => write(root, target, &change.old),
    }
}

fn written_masks(change: &SettingChange) -> Vec<Mask> {
    std::iter::once(&change.new).chain(&change.also).filter_map(|text| Mask::parse(text).ok()).collect()
}

fn write_file(root: &Path, path: &str, value: &str) -> io::Result<()> {
    let path = root.join(path);
    // Never created: a missing file means that the setting does not exist.
    let mut file = OpenOptions::new().write(true).open(&path)?;
    if root == Path::new("/") {
        return file.write_all(value.as_bytes());
    }
    // The kernel writes values atomically; the plain file of a recorded tree must be replaced to have the same effect.
    let partial = path.with_extension("partial");
    std::fs::write(&partial, value)?;
    std::fs::rename(partial, path)
}

/// Returns whether the error means a missing permission, which root or another container may have.
pub(super) fn is_permission(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}
