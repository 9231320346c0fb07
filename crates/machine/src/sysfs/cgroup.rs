//! The limits that our cgroup and its ancestors set, in version 1 and version 2 of the interface.

use std::path::{Path, PathBuf};

use model::values::undo::GROUP_PREFIX;
use model::values::units::Bytes;

use super::read_text;
use crate::cgroup::Version;

/// What the cgroups above us allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgroupLimits {
    /// `v1` or `v2`, by which of them has the memory controller.
    pub version: &'static str,
    pub cpu_quota_milli: Limit<u64>,
    pub memory: Limit<Bytes>,
    /// Swap alone, not memory plus swap.
    pub swap: Limit<Bytes>,
    /// Lists as the kernel writes them; none where there is no cpuset controller.
    pub cpus: Option<String>,
    pub memory_nodes: Option<String>,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit<T> {
    None,
    At(T),
}

impl<T> Limit<T> {
    /// The limit in other words.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Limit<U> {
        match self {
            Self::None => Limit::None,
            Self::At(value) => Limit::At(convert(value)),
        }
    }
}

/// Version 1 writes "no limit" as the largest multiple of a page below 2^63; no machine has this much.
const UNLIMITED_FROM: u64 = 1 << 62;

/// Our limits; none where no cgroup file system is mounted.
pub(crate) fn limits(root: &Path) -> Option<CgroupLimits> {
    let memberships = read_text(root, "proc/self/cgroup").ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    let place = |controller: &str| place(root, &memberships, &mounts, controller);
    let unified = place("");
    let memory_v1 = place("memory");
    if unified.is_none() && memory_v1.is_none() {
        return None;
    }
    let version = if memory_v1.is_some() { "v1" } else { "v2" };
    let cpu = place("cpu").or_else(|| unified.clone());
    let memory = memory_v1.or_else(|| unified.clone());
    let cpuset = place("cpuset").or(unified);
    let list = |names: [&str; 2]| cpuset.as_ref().and_then(|place| first_list(place, names));
    Some(CgroupLimits {
        version,
        cpu_quota_milli: lowest(cpu.as_ref(), cpu_quota),
        memory: lowest(memory.as_ref(), |folder| bytes(folder, &["memory.max", "memory.limit_in_bytes"])),
        swap: lowest(memory.as_ref(), |folder| bytes(folder, &["memory.swap.max"])),
        cpus: list(["cpuset.cpus.effective", "cpuset.effective_cpus"]),
        memory_nodes: list(["cpuset.mems.effective", "cpuset.effective_mems"]),
    })
}

/// Where one hierarchy is mounted, and our group in it.
#[derive(Clone, Debug)]
struct CgroupMount {
    mount: PathBuf,
    group: PathBuf,
}

impl CgroupMount {
    /// Our group and its ancestors up to the mount point: every one of them limits us.
    fn chain(&self) -> impl Iterator<Item = &Path> {
        self.group.ancestors().take_while(|folder| folder.starts_with(&self.mount))
    }
}

/// Our place in the hierarchy of a version-1 controller, or in that of version 2 for the empty name.
fn place(root: &Path, memberships: &str, mounts: &str, controller: &str) -> Option<CgroupMount> {
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
        let right = if controller.is_empty() { kind == "cgroup2" } else { kind == "cgroup" && in_list(after.nth(1)?) };
        right.then(|| {
            let mount = root.join(mount.trim_start_matches('/'));
            // In a container the mount may begin at our own group, or below it.
            let inside = path.strip_prefix(mount_root).unwrap_or(path).trim_start_matches('/');
            let group = mount.join(inside);
            CgroupMount { group: if group.is_dir() { group } else { mount.clone() }, mount }
        })
    })
}

fn lowest<T: Ord + Copy>(place: Option<&CgroupMount>, read: impl Fn(&Path) -> Option<T>) -> Limit<T> {
    place.and_then(|place| place.chain().filter_map(read).min()).map_or(Limit::None, Limit::At)
}

fn bytes(folder: &Path, names: &[&str]) -> Option<Bytes> {
    let value = names.iter().find_map(|name| read_text(folder, name).ok())?.parse().ok()?;
    (value < UNLIMITED_FROM).then_some(Bytes(value))
}

/// Where the memory controller is mounted, and in which version; a hierarchy of version 2 may be mounted without it.
pub(crate) fn memory_mount(root: &Path) -> Option<(Version, PathBuf)> {
    let memberships = read_text(root, "proc/self/cgroup").ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    let mount = |controller: &str| Some(place(root, &memberships, &mounts, controller)?.mount);
    let first = mount("memory").map(|mount| (Version::V1, mount));
    first.or_else(|| mount("").map(|mount| (Version::V2, mount)))
}

/// How much more memory our cgroup and its ancestors let us use, and the folder of the one that allows least; none
/// where none of them limits memory. What the page cache holds is given back under pressure and so counts as free.
pub(crate) fn available_memory(root: &Path) -> Option<(PathBuf, Bytes)> {
    let memberships = read_text(root, "proc/self/cgroup").ok()?;
    let mounts = read_text(root, "proc/self/mountinfo").ok()?;
    let place = ["memory", ""].iter().find_map(|controller| place(root, &memberships, &mounts, controller))?;
    // A group of our own bounds what is near; what does not fit goes far.
    let is_ours =
        |folder: &&Path| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(GROUP_PREFIX));
    let rooms =
        place.chain().filter(|folder| !is_ours(folder)).filter_map(|folder| Some((folder.to_owned(), room(folder)?)));
    rooms.min_by_key(|(_, room)| *room)
}

fn room(folder: &Path) -> Option<Bytes> {
    let limit = bytes(folder, &["memory.max", "memory.limit_in_bytes"])?;
    let used = bytes(folder, &["memory.current", "memory.usage_in_bytes"])?;
    let stat = read_text(folder, "memory.stat").unwrap_or_default();
    let value =
        |key: &str| stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse::<u64>().ok());
    // Version 1 has both words and counts descendants only in those with `total_`.
    let of = |name: &str| value(&format!("total_{name}")).or_else(|| value(name)).unwrap_or(0);
    let cache = of("inactive_file").saturating_add(of("active_file"));
    Some(Bytes(limit.0.saturating_sub(used.0.saturating_sub(cache))))
}

fn cpu_quota(folder: &Path) -> Option<u64> {
    let (quota, period) = if let Ok(text) = read_text(folder, "cpu.max") {
        let (quota, period) = text.split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        let number = |name: &str| read_text(folder, name).ok()?.parse::<u64>().ok();
        // No quota is -1, which is no u64.
        (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    quota.checked_mul(1000)?.checked_div(period)
}

fn first_list(place: &CgroupMount, names: [&str; 2]) -> Option<String> {
    names.iter().find_map(|name| read_text(&place.group, name).ok()).filter(|list| !list.is_empty())
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
    fn version_one_with_a_unified_hierarchy_beside_it() {
        let folder = tree(&[
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
        let limits = limits(folder.path()).unwrap();
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
    fn version_two_takes_the_lowest_limit_of_the_ancestors() {
        let folder = tree(&[
            ("proc/self/cgroup", "0::/user.slice/run.scope\n"),
            ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/run.scope/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/run.scope/memory.max", "4096\n"),
            ("sys/fs/cgroup/user.slice/run.scope/memory.swap.max", "0\n"),
            ("sys/fs/cgroup/user.slice/run.scope/cpuset.cpus.effective", "0-3\n"),
        ]);
        let limits = limits(folder.path()).unwrap();
        assert_eq!((limits.version, limits.cpu_quota_milli), ("v2", Limit::At(500)));
        assert_eq!((limits.memory, limits.swap), (Limit::At(Bytes(4096)), Limit::At(Bytes(0))));
        assert_eq!((limits.cpus.as_deref(), limits.memory_nodes), (Some("0-3"), None));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let folder = tree(&[
            ("proc/self/cgroup", "0::/docker/abc\n"),
            ("proc/self/mountinfo", "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
            ("sys/fs/cgroup/memory.max", "8192\n"),
        ]);
        let limits = limits(folder.path()).unwrap();
        assert_eq!(limits.memory, Limit::At(Bytes(8192)));
        assert_eq!(limits.cpu_quota_milli, Limit::None);
    }

    #[test]
    fn the_tightest_group_says_how_much_memory_is_left() {
        let folder = tree(&[
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
        let expected = (folder.path().join("sys/fs/cgroup/memory/a"), Bytes(235_000));
        assert_eq!(available_memory(folder.path()), Some(expected));
        assert_eq!(available_memory(Path::new("/nowhere")), None);
    }

    #[test]
    fn odd_values_are_no_limits() {
        let folder = tree(&[("cpu.max", "100 0"), ("memory.max", "-1"), ("v1", "9223372036854771712")]);
        assert_eq!(bytes(folder.path(), &["v1"]), None);
        assert_eq!(cpu_quota(folder.path()), None);
        assert_eq!(bytes(folder.path(), &["memory.max"]), None);
        assert!(limits(Path::new("/nowhere")).is_none());
    }
}
