//! Reads the limits of the current cgroup and its ancestors, for cgroup v1 and v2.

use std::path::{Path, PathBuf};

use model::values::id_set::CpuSet;
use model::values::undo::GROUP_PREFIX;
use model::values::units::{Bytes, Nanos};

use super::read_text;
use crate::cgroup::Version;

/// Limits of the current cgroup and its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgroupLimits {
    /// `v1` or `v2`: the version that has the memory controller.
    pub version: &'static str,
    pub cpu_quota_milli: Limit<u64>,
    pub memory: Limit<Bytes>,
    /// Limit of swap alone, not of memory plus swap.
    pub swap: Limit<Bytes>,
    /// List in the kernel's notation; `None` without a cpuset controller.
    pub cpus: Option<String>,
    /// As `cpus`.
    pub memory_nodes: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit<T> {
    None,
    At(T),
}

impl<T> Limit<T> {
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Limit<U> {
        match self {
            Self::None => Limit::None,
            Self::At(value) => Limit::At(convert(value)),
        }
    }
}

/// Version 1 writes "no limit" as the largest multiple of the page size below 2^63; no machine has this much memory.
const UNLIMITED_FROM: u64 = 1 << 62;

/// Reads the limits, or returns `None` if no cgroup file system is mounted.
pub(crate) fn limits(root: &Path) -> Option<CgroupLimits> {
    let memberships = read_text(root, "proc/self/cgroup").ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    let mount = |controller: &str| find_mount(root, &memberships, &mounts, controller);
    let unified = mount("");
    let memory_v1 = mount("memory");
    if unified.is_none() && memory_v1.is_none() {
        return None;
    }
    let version = if memory_v1.is_some() { "v1" } else { "v2" };
    let cpu = mount("cpu").or_else(|| unified.clone());
    let memory = memory_v1.or_else(|| unified.clone());
    let cpuset = mount("cpuset").or(unified);
    let list = |names: [&str; 2]| cpuset.as_ref().and_then(|mount| first_list(mount, names));
    Some(CgroupLimits {
        version,
        cpu_quota_milli: lowest(cpu.as_ref(), cpu_quota),
        memory: lowest(memory.as_ref(), |group| bytes(group, &["memory.max", "memory.limit_in_bytes"])),
        swap: lowest(memory.as_ref(), |group| bytes(group, &["memory.swap.max"])),
        cpus: list(["cpuset.cpus.effective", "cpuset.effective_cpus"]),
        memory_nodes: list(["cpuset.mems.effective", "cpuset.effective_mems"]),
    })
}

/// Returns the CPUs that the cpuset of a process allows; `None` without a cpuset controller.
pub(crate) fn cpuset_of(root: &Path, pid: u32) -> Option<CpuSet> {
    let memberships = read_text(root, &format!("proc/{pid}/cgroup")).ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    let mount = ["cpuset", ""].iter().find_map(|controller| find_mount(root, &memberships, &mounts, controller))?;
    CpuSet::parse_list(&first_list(&mount, ["cpuset.cpus.effective", "cpuset.effective_cpus"])?).ok()
}

/// Returns the current cgroup of the v2 hierarchy, or `None` if it is not mounted.
pub(crate) fn unified_group(root: &Path) -> Option<PathBuf> {
    unified_group_of(root, "self")
}

/// Returns the cgroup of a process in the v2 hierarchy, or `None` if it is not mounted.
pub(crate) fn unified_group_of(root: &Path, process: &str) -> Option<PathBuf> {
    let memberships = read_text(root, &format!("proc/{process}/cgroup")).ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    find_mount(root, &memberships, &mounts, "").map(|mount| mount.group)
}

/// Returns the time for which the CPU quota of each cgroup, from the current one to the root, has stopped its CPUs, summed
/// over the CPUs. Empty if no cgroup can have a quota.
///
/// # Errors
/// If no cgroup file system is mounted.
pub(crate) fn throttled(root: &Path) -> Result<Vec<Nanos>, String> {
    throttled_of(root, "self")
}

/// Like [`throttled`], for the cgroup of a process: its id, or `self`.
pub(crate) fn throttled_of(root: &Path, process: &str) -> Result<Vec<Nanos>, String> {
    let read = |path: &str| read_text(root, path).map_err(|error| format!("/{path}: {error}"));
    let (memberships, mounts) = (read(&format!("proc/{process}/cgroup"))?, read("proc/self/mountinfo")?);
    let mount = ["cpu", ""].iter().find_map(|controller| find_mount(root, &memberships, &mounts, controller));
    let mount = mount.ok_or("no cgroup file system is mounted")?;
    Ok(mount.chain().filter_map(|group| parse_throttled(&read_text(group, "cpu.stat").ok()?)).collect())
}

/// Returns the growth between two readings of [`throttled`]: that of the cgroup with the most. `None` for empty readings.
pub(crate) fn throttled_between(before: &[Nanos], after: &[Nanos]) -> Option<Nanos> {
    before.iter().zip(after).map(|(before, after)| Nanos(after.0.saturating_sub(before.0))).max()
}

/// Version 1 counts nanoseconds, version 2 microseconds.
fn parse_throttled(cpu_stat: &str) -> Option<Nanos> {
    let value = |name: &str| cpu_stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let micros = || value("throttled_usec ").map(|micros| micros.saturating_mul(1000));
    value("throttled_time ").or_else(micros).map(Nanos)
}

/// Mount point of a hierarchy, and the directory of the current cgroup in it.
#[derive(Clone, Debug)]
struct CgroupMount {
    mount: PathBuf,
    group: PathBuf,
}

impl CgroupMount {
    /// Returns the current cgroup and its ancestors up to the mount point. The limits of all of them apply.
    fn chain(&self) -> impl Iterator<Item = &Path> {
        self.group.ancestors().take_while(|group| group.starts_with(&self.mount))
    }
}

/// Finds the hierarchy of a v1 controller or, for an empty name, the v2 hierarchy.
fn find_mount(root: &Path, memberships: &str, mounts: &str, controller: &str) -> Option<CgroupMount> {
    let in_list = |list: &str| list.split(',').any(|name| name == controller);
    let path = memberships.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        in_list(controllers).then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split_whitespace().skip(3);
        let (mount_root, mount) = (before.next()?, before.next()?);
        let mut after = after.split_whitespace();
        let kind = after.next()?;
        let is_match =
            if controller.is_empty() { kind == "cgroup2" } else { kind == "cgroup" && in_list(after.nth(1)?) };
        is_match.then(|| {
            let mount = root.join(mount.trim_start_matches('/'));
            // In a container the root of the mount may be the current cgroup or a descendant of it.
            let relative = path.strip_prefix(mount_root).unwrap_or(path).trim_start_matches('/');
            let group = mount.join(relative);
            CgroupMount { group: if group.is_dir() { group } else { mount.clone() }, mount }
        })
    })
}

fn lowest<T: Ord + Copy>(mount: Option<&CgroupMount>, read: impl Fn(&Path) -> Option<T>) -> Limit<T> {
    mount.and_then(|mount| mount.chain().filter_map(read).min()).map_or(Limit::None, Limit::At)
}

fn bytes(group: &Path, names: &[&str]) -> Option<Bytes> {
    let value = names.iter().find_map(|name| read_text(group, name).ok())?.parse().ok()?;
    (value < UNLIMITED_FROM).then_some(Bytes(value))
}

/// Returns the version and mount point of the memory controller. A v2 hierarchy may be mounted without the controller.
pub(crate) fn memory_mount(root: &Path) -> Option<(Version, PathBuf)> {
    let memberships = read_text(root, "proc/self/cgroup").ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    let mount = |controller: &str| Some(find_mount(root, &memberships, &mounts, controller)?.mount);
    let first = mount("memory").map(|mount| (Version::V1, mount));
    first.or_else(|| mount("").map(|mount| (Version::V2, mount)))
}

/// Returns the cgroup, among the current one and its ancestors, with the least memory left, and that amount; `None` if
/// none of them limits memory. Page cache counts as free, because the kernel reclaims it under pressure.
pub(crate) fn available_memory(root: &Path) -> Option<(PathBuf, Bytes)> {
    let memberships = read_text(root, "proc/self/cgroup").ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    let mount = ["memory", ""].iter().find_map(|controller| find_mount(root, &memberships, &mounts, controller))?;
    // A cgroup that this program created limits near memory only; the remaining memory is far.
    let is_expansion =
        |group: &&Path| group.file_name().is_some_and(|name| name.to_string_lossy().starts_with(GROUP_PREFIX));
    let groups = mount.chain().filter(|group| !is_expansion(group));
    let available = groups.filter_map(|group| Some((group.to_owned(), available_in(group)?)));
    available.min_by_key(|(_, bytes)| *bytes)
}

fn available_in(group: &Path) -> Option<Bytes> {
    let limit = bytes(group, &["memory.max", "memory.limit_in_bytes"])?;
    let used = bytes(group, &["memory.current", "memory.usage_in_bytes"])?;
    let stat = read_text(group, "memory.stat").unwrap_or_default();
    let value =
        |key: &str| stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse::<u64>().ok());
    // Version 1 has both names, but only those with `total_` include descendants.
    let of = |name: &str| value(&format!("total_{name}")).or_else(|| value(name)).unwrap_or(0);
    let cache = of("inactive_file").saturating_add(of("active_file"));
    Some(Bytes(limit.0.saturating_sub(used.0.saturating_sub(cache))))
}

fn cpu_quota(group: &Path) -> Option<u64> {
    let (quota, period) = if let Ok(text) = read_text(group, "cpu.max") {
        let (quota, period) = text.split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        let number = |name: &str| read_text(group, name).ok()?.parse::<u64>().ok();
        // No quota is -1, which does not parse as u64.
        (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    quota.checked_mul(1000)?.checked_div(period)
}

fn first_list(mount: &CgroupMount, names: [&str; 2]) -> Option<String> {
    names.iter().find_map(|name| read_text(&mount.group, name).ok()).filter(|list| !list.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::test_tree::tree;
    use super::*;

    const V1_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn v1_limits_are_read_next_to_a_unified_hierarchy() {
        let dir = tree(&[
            ("proc/self/cgroup", "4:memory:/a/b\n3:cpuset:/\n1:cpu,cpuacct:/a\n0::/\n"),
            ("proc/self/mountinfo", V1_MOUNTS),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-1\n"),
            ("sys/fs/cgroup/cpuset/cpuset.effective_mems", "0\n"),
        ]);
        let limits = limits(dir.path()).unwrap();
        let expected = CgroupLimits {
            version: "v1",
            cpu_quota_milli: Limit::At(1500),
            memory: Limit::At(Bytes(1 << 20)),
            swap: Limit::None,
            cpus: Some("0-1".into()),
            memory_nodes: Some("0".into()),
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn v2_limit_is_the_lowest_of_the_ancestors() {
        let dir = tree(&[
            ("proc/self/cgroup", "0::/user.slice/run.scope\n"),
            ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/run.scope/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/run.scope/memory.max", "4096\n"),
            ("sys/fs/cgroup/user.slice/run.scope/memory.swap.max", "0\n"),
            ("sys/fs/cgroup/user.slice/run.scope/cpuset.cpus.effective", "0-3\n"),
        ]);
        let limits = limits(dir.path()).unwrap();
        assert_eq!((limits.version, limits.cpu_quota_milli), ("v2", Limit::At(500)));
        assert_eq!((limits.memory, limits.swap), (Limit::At(Bytes(4096)), Limit::At(Bytes(0))));
        assert_eq!((limits.cpus.as_deref(), limits.memory_nodes), (Some("0-3"), None));
    }

    #[test]
    fn cgroup_of_a_container_is_the_mount_root() {
        let dir = tree(&[
            ("proc/self/cgroup", "0::/docker/abc\n"),
            ("proc/self/mountinfo", "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
            ("sys/fs/cgroup/memory.max", "8192\n"),
        ]);
        let limits = limits(dir.path()).unwrap();
        assert_eq!(limits.memory, Limit::At(Bytes(8192)));
        assert_eq!(limits.cpu_quota_milli, Limit::None);
    }

    #[test]
    fn tightest_cgroup_determines_the_available_memory() {
        let dir = tree(&[
            ("proc/self/cgroup", "4:memory:/a/b\n"),
            ("proc/self/mountinfo", V1_MOUNTS),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1000000\n"),
            ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "400000\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "900000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "700000\n"),
            (
                "sys/fs/cgroup/memory/a/memory.stat",
                "inactive_file 1\ntotal_inactive_file 30000\ntotal_active_file 5000\n",
            ),
        ]);
        let expected = (dir.path().join("sys/fs/cgroup/memory/a"), Bytes(235_000));
        assert_eq!(available_memory(dir.path()), Some(expected));
        assert_eq!(available_memory(Path::new("/nowhere")), None);
    }

    #[test]
    fn throttled_time_is_read_in_both_versions() {
        let v1 = tree(&[
            ("proc/self/cgroup", "4:memory:/\n1:cpu,cpuacct:/a\n0::/b\n"),
            ("proc/self/mountinfo", V1_MOUNTS),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 240000000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
            ("sys/fs/cgroup/unified/b/cpu.stat", "usage_usec 5\n"),
        ]);
        assert_eq!(throttled(v1.path()), Ok(vec![Nanos(240_000_000), Nanos(0)]));
        assert_eq!(unified_group(v1.path()), Some(v1.path().join("sys/fs/cgroup/unified/b")));
        let v2 = tree(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
            ("sys/fs/cgroup/a/cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 70000\n"),
            ("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\nnr_throttled 0\nthrottled_usec 0\n"),
        ]);
        assert_eq!(throttled(v2.path()), Ok(vec![Nanos(0), Nanos(70_000_000)]));
        assert!(throttled(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn invalid_values_are_ignored() {
        let dir = tree(&[("cpu.max", "100 0"), ("memory.max", "-1"), ("v1", "9223372036854771712")]);
        assert_eq!(bytes(dir.path(), &["v1"]), None);
        assert_eq!(cpu_quota(dir.path()), None);
        assert_eq!(bytes(dir.path(), &["memory.max"]), None);
        assert!(limits(Path::new("/nowhere")).is_none());
    }
}
