//! Limits the processes of a service to CPUs and memory nodes: by the cpuset of its cgroup, or, for a unit, by systemd,
//! which would overwrite other changes of its cgroup. New processes have the same limits. Must not depend on the journal.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use model::values::id_set::CpuSet;
use model::values::undo::{CpusetOwner, CpusetResource, CurrentValue, ServiceProcesses, UNLIMITED};

use crate::cgroup;
use crate::command_output::output_within;
use crate::sysfs;

/// Time limit for a command of systemd.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for systemd to pass a property on to the kernel, and interval between checks.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(5);
const EFFECT_POLL: Duration = Duration::from_millis(10);
/// Where cgroups of version 2 are mounted, without the slash before `sys`.
const MOUNT: &str = "sys/fs/cgroup";
/// Exists if systemd is the init system.
const SYSTEMD: &str = "run/systemd/system";
const UNIT_SUFFIXES: [&str; 3] = [".service", ".scope", ".slice"];

/// Returns what limits the processes of a service; `None` without a cpuset of cgroup version 2 that can be changed, and
/// for units of users, whose service manager is another one.
pub fn owner_of(processes: &ServiceProcesses) -> Option<CpusetOwner> {
    let owner = owner_at(Path::new("/"), processes)?;
    matches!(read(Path::new("/"), &owner, CpusetResource::Cpus), CurrentValue::Value(_)).then_some(owner)
}

fn owner_at(root: &Path, processes: &ServiceProcesses) -> Option<CpusetOwner> {
    let ServiceProcesses::Cgroup(path) = processes else { return None };
    let controllers = sysfs::read_text(root, &format!("{MOUNT}/cgroup.controllers")).ok()?;
    let below = path.strip_prefix(MOUNT)?.strip_prefix('/')?;
    let name = below.rsplit('/').next()?;
    if !cgroup::supports(&controllers, "cpuset") || below.split('/').any(|part| part.starts_with("user@")) {
        return None;
    }
    if root.join(SYSTEMD).is_dir() && UNIT_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        return Some(CpusetOwner::Unit(name.into()));
    }
    let has_cpuset = root.join(path).join(CpusetResource::Cpus.file()).exists();
    has_cpuset.then(|| CpusetOwner::Cgroup(path.clone()))
}

pub(crate) fn read(root: &Path, owner: &CpusetOwner, resource: CpusetResource) -> CurrentValue {
    let unreadable = |why: String| CurrentValue::Unreadable(why);
    match owner {
        // A recorded tree has no service manager.
        CpusetOwner::Unit(_) if root != Path::new("/") => CurrentValue::Gone,
        CpusetOwner::Unit(name) => match properties(name, &["LoadState", resource.property()]).as_deref() {
            Ok([state, _]) if state == "not-found" => CurrentValue::Gone,
            Ok([_, list]) => parse(list).map_or_else(unreadable, CurrentValue::Value),
            Ok(_) => unreadable(format!("systemd has no property {}", resource.property())),
            Err(why) => unreadable(why.clone()),
        },
        CpusetOwner::Cgroup(path) => match sysfs::read_text(root, &format!("{path}/{}", resource.file())) {
            Ok(list) if !list.is_empty() && effective_above(root, path, resource).is_subset(&parsed(&list)) => {
                CurrentValue::Value(UNLIMITED.into())
            }
            Ok(list) => parse(&list).map_or_else(unreadable, CurrentValue::Value),
            Err(error) if error.kind() == io::ErrorKind::NotFound => CurrentValue::Gone,
            Err(error) => unreadable(error.to_string()),
        },
    }
}

/// Sets a limit, and waits until it is in effect.
pub(crate) fn write(root: &Path, owner: &CpusetOwner, resource: CpusetResource, value: &str) -> io::Result<()> {
    match owner {
        CpusetOwner::Unit(_) if root != Path::new("/") => Err(io::Error::from(io::ErrorKind::Unsupported)),
        CpusetOwner::Unit(name) => {
            let list = if value == UNLIMITED { "" } else { value };
            let setting = format!("{}={list}", resource.property());
            let argv = ["systemctl", "set-property", "--runtime", "--", name, &setting];
            output_within(&argv.map(str::to_owned), COMMAND_TIMEOUT).map_err(io::Error::other)?;
            pass_on(name, resource, value)
        }
        CpusetOwner::Cgroup(path) if value == UNLIMITED => release(root, path, resource),
        CpusetOwner::Cgroup(path) => write_file(root, path, resource, value),
    }
}

/// Removes a limit. While there are processes, some kernels (6.1, for example) refuse to empty the list, but not to allow
/// everything.
fn release(root: &Path, path: &str, resource: CpusetResource) -> io::Result<()> {
    write_file(root, path, resource, &effective_above(root, path, resource).to_string())?;
    let _ = write_file(root, path, resource, "");
    Ok(())
}

fn write_file(root: &Path, path: &str, resource: CpusetResource, list: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(root.join(path).join(resource.file()))?;
    // A line feed, because the kernel ignores a write of nothing.
    file.write_all(format!("{list}\n").as_bytes())
}

/// Returns the CPUs or nodes that the cgroup above allows.
fn effective_above(root: &Path, path: &str, resource: CpusetResource) -> CpuSet {
    let above = path.rsplit_once('/').map_or(MOUNT, |(above, _)| above);
    let list = sysfs::read_text(root, &format!("{above}/{}.effective", resource.file()));
    parsed(&list.unwrap_or_default())
}

/// Waits until the cgroup of a unit, if it has one, has the value of a property, which systemd passes on after it has
/// replied. A limit that the kernel does not let systemd remove is removed here.
fn pass_on(name: &str, resource: CpusetResource, value: &str) -> io::Result<()> {
    let group = properties(name, &["ControlGroup"]).map_err(io::Error::other)?.join("");
    if group.is_empty() {
        return Ok(());
    }
    let (root, path, end) = (Path::new("/"), format!("{MOUNT}{group}"), Instant::now() + EFFECT_TIMEOUT);
    let owner = CpusetOwner::Cgroup(path.clone());
    loop {
        let is_unlimited = value == UNLIMITED;
        if is_unlimited {
            // Without limits, systemd may disable the controller.
            let _ = release(root, &path, resource);
        }
        let seen = read(root, &owner, resource);
        if seen == CurrentValue::Value(value.into()) || (is_unlimited && seen == CurrentValue::Gone) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(io::Error::other(format!("systemd has accepted {value}, but has not passed it to the kernel")));
        }
        std::thread::sleep(EFFECT_POLL);
    }
}

/// Returns the values of properties of a unit, in the order of `names`.
fn properties(unit: &str, names: &[&str]) -> Result<Vec<String>, String> {
    let mut argv = vec!["systemctl".to_owned(), "show".into()];
    argv.extend(names.iter().map(|name| format!("--property={name}")));
    argv.extend(["--".into(), unit.into()]);
    let output = output_within(&argv, COMMAND_TIMEOUT)?;
    Ok(values(&output, names))
}

/// Returns the values in lines `NAME=VALUE`, in the order of `names`; names without a line are left out.
fn values(output: &str, names: &[&str]) -> Vec<String> {
    let value = |name: &&str| output.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix('='));
    names.iter().filter_map(value).map(str::to_owned).collect()
}

fn parsed(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap_or_default()
}

/// Converts a list of the kernel (`0-3,8`) or of systemd (`0-3 8`).
fn parse(list: &str) -> Result<String, String> {
    let list = list.split_whitespace().collect::<Vec<_>>().join(",");
    if list.is_empty() { Ok(UNLIMITED.into()) } else { CpuSet::parse_list(&list).map(|set| set.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    const SERVICE: &str = "sys/fs/cgroup/system.slice/db.service";

    #[test]
    fn owner_depends_on_the_hierarchy() {
        let owner = |files: &[(&str, &str)], path: &str| {
            let dir = tree(files);
            owner_at(dir.path(), &ServiceProcesses::Cgroup(path.into()))
        };
        let controllers = ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n");
        let file = ("sys/fs/cgroup/system.slice/db.service/cpuset.cpus", "\n");
        let systemd = ("run/systemd/system/empty", "");
        let cgroup = Some(CpusetOwner::Cgroup(SERVICE.into()));
        assert_eq!(owner(&[controllers, systemd], SERVICE), Some(CpusetOwner::Unit("db.service".into())));
        assert_eq!(owner(&[controllers, file], SERVICE), cgroup, "systemd does not run");
        assert_eq!(owner(&[controllers], SERVICE), None, "the controller is not enabled for it");
        assert_eq!(owner(&[("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"), systemd], SERVICE), None);
        assert_eq!(owner(&[file, systemd], SERVICE), None, "cgroup version 1");
        let users = "sys/fs/cgroup/user.slice/user@1000.service/app.slice/db.service";
        assert_eq!(owner(&[controllers, systemd], users), None, "the service manager of a user");
    }

    #[test]
    fn limits_of_cgroups_are_written_and_removed() {
        let dir = tree(&[
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
            ("sys/fs/cgroup/cpuset.mems.effective", "0-1\n"),
            ("sys/fs/cgroup/db/cpuset.cpus", "\n"),
            ("sys/fs/cgroup/db/cpuset.mems", "0\n"),
        ]);
        let owner = CpusetOwner::Cgroup("sys/fs/cgroup/db".into());
        let value = |text: &str| CurrentValue::Value(text.into());
        assert_eq!(read(dir.path(), &owner, CpusetResource::Cpus), value(UNLIMITED));
        assert_eq!(read(dir.path(), &owner, CpusetResource::MemoryNodes), value("0"));
        write(dir.path(), &owner, CpusetResource::Cpus, "4-7").unwrap();
        assert_eq!(read(dir.path(), &owner, CpusetResource::Cpus), value("4-7"));
        write(dir.path(), &owner, CpusetResource::Cpus, "0-7").unwrap();
        assert_eq!(read(dir.path(), &owner, CpusetResource::Cpus), value(UNLIMITED), "it excludes nothing");
        write(dir.path(), &owner, CpusetResource::MemoryNodes, UNLIMITED).unwrap();
        assert_eq!(read(dir.path(), &owner, CpusetResource::MemoryNodes), value(UNLIMITED));
        let gone = CpusetOwner::Cgroup("sys/fs/cgroup/web".into());
        assert_eq!(read(dir.path(), &gone, CpusetResource::Cpus), CurrentValue::Gone);
        assert!(write(dir.path(), &gone, CpusetResource::Cpus, "4-7").is_err());
    }

    #[test]
    fn properties_of_units_are_parsed() {
        let output = "AllowedCPUs=0-1 4-5\nLoadState=loaded\nAllowedMemoryNodes=\n";
        assert_eq!(values(output, &["LoadState", "AllowedCPUs"]), ["loaded", "0-1 4-5"]);
        assert_eq!(values(output, &["AllowedMemoryNodes", "Slice"]), [""]);
        assert_eq!(parse("0-1 4-5"), Ok("0-1,4-5".into()));
        assert_eq!(parse(""), Ok(UNLIMITED.into()));
        assert!(parse("all").is_err());
    }
}
