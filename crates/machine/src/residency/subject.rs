//! Finds the processes of a unit, a container, a cgroup or a process tree.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use model::analysis::residency::{ContainerId, is_pod, is_unit};
use model::hint::Hinted;

use super::shown;
use crate::cgroup;
use crate::proc::Proc;
use crate::sysfs;

/// Maximum number of processes that are inspected.
const PROCESSES_MAX: usize = 4096;
/// Maximum number of cgroups that are searched.
const CGROUPS_MAX: usize = 65_536;

/// A unit, container or cgroup whose processes cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    #[error("no cgroup file system is mounted")]
    NoCgroups,
    #[error("no cgroup belongs to {0}")]
    NotFound(String, Option<String>),
    #[error("several cgroups belong to {what}: {}", paths.join(", "))]
    Ambiguous { what: String, paths: Vec<String> },
    #[error("cgroup {0} contains no process")]
    Empty(String),
}

impl Hinted for SubjectError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound(_, hint) => hint.clone(),
            Self::Ambiguous { paths, .. } => paths.first().map(|path| format!("name one of them: --cgroup {path}")),
            _ => None,
        }
    }
}

/// Returns the cgroup of a systemd unit.
pub fn find_unit(name: &str) -> Result<PathBuf, SubjectError> {
    find_unit_at(Path::new("/"), name)
}

/// Returns the cgroup of a container.
pub fn find_container(id: &ContainerId, text: &str) -> Result<PathBuf, SubjectError> {
    let hint = format!("use its ID, not its name: docker inspect --format '{{{{.Id}}}}' {text}");
    let what = format!("container {text}");
    one(find(Path::new("/"), &|directory| id.is_of(directory))?, what, Some(hint))
}

/// Returns the cgroup of a Kubernetes pod.
pub fn find_pod(uid: &str) -> Result<PathBuf, SubjectError> {
    let hint = "print its UID: kubectl get pod NAME -o jsonpath='{.metadata.uid}'".to_owned();
    one(find(Path::new("/"), &|directory| is_pod(directory, uid))?, format!("pod {uid}"), Some(hint))
}

fn find_unit_at(root: &Path, name: &str) -> Result<PathBuf, SubjectError> {
    let what = format!("unit {name}");
    one(find(root, &|directory| is_unit(directory, name))?, what, Some("list units with systemctl list-units".into()))
}

fn one(mut found: Vec<PathBuf>, what: String, hint: Option<String>) -> Result<PathBuf, SubjectError> {
    match found.len() {
        0 => Err(SubjectError::NotFound(what, hint)),
        1 => Ok(found.remove(0)),
        _ => Err(SubjectError::Ambiguous { what, paths: found.iter().map(|path| shown(path)).collect() }),
    }
}

/// Returns the directories whose names match, in the first hierarchy that has any.
fn find(root: &Path, matches: &dyn Fn(&str) -> bool) -> Result<Vec<PathBuf>, SubjectError> {
    let mounts = mounts(root);
    if mounts.is_empty() {
        return Err(SubjectError::NoCgroups);
    }
    let in_mount = |mount: &PathBuf| {
        let named = |path: &&PathBuf| path.file_name().is_some_and(|name| matches(&name.to_string_lossy()));
        below(mount).iter().filter(named).cloned().collect::<Vec<_>>()
    };
    Ok(mounts.iter().map(in_mount).find(|found| !found.is_empty()).unwrap_or_default())
}

/// Returns the mount points of all cgroup hierarchies: version 2 first, then that of systemd.
fn mounts(root: &Path) -> Vec<PathBuf> {
    let mountinfo = sysfs::read_text(root, "proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let order = match after.split_whitespace().next()? {
            "cgroup2" => 0,
            "cgroup" if after.contains("name=systemd") => 1,
            "cgroup" => 2,
            _ => return None,
        };
        let path = before.split_whitespace().nth(4)?;
        Some((order, root.join(path.trim_start_matches('/'))))
    };
    let mut mounts: Vec<(u8, PathBuf)> = mountinfo.lines().filter_map(mount).collect();
    mounts.sort();
    mounts.into_iter().map(|(_, path)| path).collect()
}

/// Returns a directory and all directories below it, without following links.
fn below(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut next) = (Vec::new(), VecDeque::from([dir.to_path_buf()]));
    while let Some(dir) = next.pop_front().filter(|_| found.len() < CGROUPS_MAX) {
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let mut children: Vec<PathBuf> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        children.sort();
        next.extend(children);
        found.push(dir);
    }
    found
}

/// Returns the directory of a cgroup, of which the path is absolute or relative to a mount point.
pub fn resolve_cgroup(path: &Path) -> Result<PathBuf, SubjectError> {
    resolve_cgroup_at(Path::new("/"), path)
}

fn resolve_cgroup_at(root: &Path, path: &Path) -> Result<PathBuf, SubjectError> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let mounts = mounts(root);
    let candidates = std::iter::once(root.join(relative)).chain(mounts.iter().map(|mount| mount.join(relative)));
    let is_cgroup = |dir: &PathBuf| dir.join("cgroup.procs").is_file();
    let what = format!("path {}", path.display());
    let hint = "use a path as in /proc/PID/cgroup, or a directory below /sys/fs/cgroup".to_owned();
    candidates.into_iter().find(is_cgroup).ok_or(SubjectError::NotFound(what, Some(hint)))
}

/// Returns the processes in a cgroup and the cgroups below it, without this one.
pub fn processes_in(dir: &Path) -> Result<Vec<u32>, SubjectError> {
    let all = below(dir).into_iter().flat_map(|dir| cgroup::processes(&dir));
    // Processes of another PID namespace are 0.
    let mut pids: Vec<u32> = all.filter(|pid| ![0, std::process::id()].contains(pid)).take(PROCESSES_MAX).collect();
    pids.sort_unstable();
    pids.dedup();
    if pids.is_empty() { Err(SubjectError::Empty(shown(dir))) } else { Ok(pids) }
}

/// Returns a process and its descendants, without this one.
pub fn descendants(pid: u32) -> Vec<u32> {
    let proc = Proc::live();
    let (mut pids, mut next) = (vec![pid], 0);
    while let Some(pid) = pids.get(next).copied().filter(|_| pids.len() < PROCESSES_MAX) {
        let children = proc.children(pid).unwrap_or_default();
        let is_new = |child: &u32| *child != std::process::id() && !pids.contains(child);
        let new: Vec<u32> = children.into_iter().filter(is_new).collect();
        pids.extend(new);
        next += 1;
    }
    pids.truncate(PROCESSES_MAX);
    pids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn units_and_cgroups_are_found_in_every_hierarchy() {
        let v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            34 31 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        let dir = tree(&[
            ("proc/self/mountinfo", v1),
            ("sys/fs/cgroup/systemd/system.slice/redis.service/cgroup.procs", "7\n0\n"),
            ("sys/fs/cgroup/systemd/system.slice/redis.service/workers/cgroup.procs", "9\n8\n"),
            ("sys/fs/cgroup/memory/system.slice/redis.service/cgroup.procs", "7\n"),
            ("sys/fs/cgroup/systemd/a.slice/twice.service/cgroup.procs", ""),
            ("sys/fs/cgroup/systemd/b.slice/twice.service/cgroup.procs", ""),
        ]);
        let redis = dir.path().join("sys/fs/cgroup/systemd/system.slice/redis.service");
        assert_eq!(find_unit_at(dir.path(), "redis"), Ok(redis.clone()));
        assert_eq!(processes_in(&redis), Ok(vec![7, 8, 9]));
        assert_eq!(
            resolve_cgroup_at(dir.path(), Path::new("/system.slice/redis.service/workers")),
            Ok(redis.join("workers"))
        );
        let error = find_unit_at(dir.path(), "twice").unwrap_err();
        assert!(error.hint().unwrap().contains("a.slice/twice.service"), "{error}");
        let error = find_unit_at(dir.path(), "mysql").unwrap_err();
        assert_eq!(error.to_string(), "no cgroup belongs to unit mysql");
        let empty = dir.path().join("sys/fs/cgroup/systemd/a.slice");
        assert!(processes_in(&empty).unwrap_err().to_string().ends_with("a.slice contains no process"));
        assert!(resolve_cgroup_at(dir.path(), Path::new("/mysql")).is_err());
        assert_eq!(find_unit_at(Path::new("/nowhere"), "redis"), Err(SubjectError::NoCgroups));
    }
}
