//! A memory cgroup of our own: how much DRAM those in it may have, how much they have, and how much of theirs is in swap;
//! both versions of the kernel's interface. Must not know who is put into it or why.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, ErrorKind, PipeWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use model::values::units::{Bytes, Nanos};

use crate::proc::parse_pressure;
use crate::{syscall, sysfs};

/// Which interface the memory controller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `memory.limit_in_bytes`.
    V1,
    /// `memory.max`.
    V2,
}

/// Where groups for memory can be made, or why nowhere.
pub fn site(root: &Path) -> Result<(Version, PathBuf), String> {
    let (version, mount) = sysfs::memory_mount(root)
        .ok_or("this kernel has no memory controller, or no cgroup file system is mounted (/sys/fs/cgroup)")?;
    if version == Version::V2 {
        let controllers = std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
        if !supports(&controllers, CONTROLLER) {
            return Err("cgroup version 2 is mounted without its memory controller (cgroup_disable=memory?)".into());
        }
    }
    Ok((version, mount))
}

/// Whether a group could be made, as far as that is seen without making one.
pub fn is_supported(root: &Path) -> Result<(), String> {
    let (version, mount) = site(root)?;
    let shown = mount.display();
    rustix::fs::access(&mount, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| format!("no memory cgroup can be made in {shown}: {}", io::Error::from(errno)))?;
    let holds = |name: &str, what: &dyn Fn(&str) -> bool| {
        std::fs::read_to_string(mount.join(name)).is_ok_and(|text| what(&text))
    };
    let is_off = version == Version::V2 && !holds(CONTROL, &|text| supports(text, CONTROLLER));
    // The root of all groups has no type, and may have both.
    if is_off && mount.join("cgroup.type").exists() && holds("cgroup.procs", &|text| !text.trim().is_empty()) {
        return Err(format!("{shown} gives its groups no memory controller while processes are in it itself"));
    }
    Ok(())
}

/// What a group of version 2 gives the groups below it.
pub(crate) const CONTROL: &str = "cgroup.subtree_control";
/// The controller that this file is about.
pub const CONTROLLER: &str = "memory";

pub(crate) fn supports(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|name| name == word)
}

/// A group that is there.
#[derive(Debug)]
pub struct MemoryCgroup {
    version: Version,
    folder: PathBuf,
    usage: File,
    stat: File,
}

/// What a group holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Memory without a file behind it, in DRAM.
    pub anonymous: Bytes,
    /// Files mapped or cached, in DRAM; shared memory is among them.
    pub file: Bytes,
    pub swap: Bytes,
    /// Page faults that waited for a disk, since the group was made.
    pub major_faults: u64,
}

impl MemoryCgroup {
    pub fn open(version: Version, folder: &Path) -> io::Result<Self> {
        let usage = match version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        Ok(Self {
            version,
            folder: folder.into(),
            usage: File::open(folder.join(usage))?,
            stat: File::open(folder.join("memory.stat"))?,
        })
    }

    /// The same group, for another thread.
    pub fn again(&self) -> io::Result<Self> {
        Self::open(self.version, &self.folder)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bounds its DRAM; swap is not bounded. Gives the limit as the kernel took it, in whole pages.
    pub fn limit(&self, dram: Bytes) -> io::Result<Bytes> {
        let name = match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        let path = self.folder.join(name);
        std::fs::write(&path, dram.0.to_string())?;
        let taken = std::fs::read_to_string(&path)?;
        taken.trim().parse().map(Bytes).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// What it holds of DRAM, all kinds together.
    pub fn usage(&self) -> io::Result<Bytes> {
        let text = read_again(&self.usage)?;
        text.trim().parse().map(Bytes).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// What it holds, by kind.
    pub fn held(&self) -> io::Result<GroupUsage> {
        let text = read_again(&self.stat)?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            Bytes(line.and_then(|value| value.parse().ok()).unwrap_or(0))
        };
        Ok(match self.version {
            // With groups below it, which a program may make.
            Version::V1 => GroupUsage {
                anonymous: value("total_rss"),
                file: value("total_cache"),
                swap: value("total_swap"),
                major_faults: value("total_pgmajfault").0,
            },
            Version::V2 => {
                let swap = std::fs::read_to_string(self.folder.join("memory.swap.current")).unwrap_or_default();
                let swap = Bytes(swap.trim().parse().unwrap_or(0));
                GroupUsage { anonymous: value("anon"), file: value("file"), swap, major_faults: value("pgmajfault").0 }
            }
        })
    }

    /// For how long somebody had to wait for memory, in all: in version 2 one of its own threads, in version 1 anybody's on this machine. None
    /// where the kernel does not tell.
    pub fn stalled(&self) -> Option<Nanos> {
        let path = match self.version {
            Version::V1 => "/proc/pressure/memory".into(),
            Version::V2 => self.folder.join("memory.pressure"),
        };
        parse_pressure(&std::fs::read_to_string(path).ok()?)
    }

    /// How many processes in it the kernel has killed because memory ran out.
    pub fn killed(&self) -> u64 {
        let name = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Has the group looked after until what this gives is dropped. None where the kernel does not let us.
    pub fn guard_oom(&self) -> Option<OomGuard> {
        OomGuard::begin(self).ok()
    }

    /// Whether somebody in it waits for memory that is not there; in version 2 nobody does.
    pub fn is_waiting(&self) -> bool {
        if self.version == Version::V2 {
            return false;
        }
        let text = std::fs::read_to_string(self.folder.join("memory.oom_control")).unwrap_or_default();
        text.lines().any(|line| line.trim() == "under_oom 1")
    }

    pub fn processes(&self) -> Vec<u32> {
        processes(&self.folder)
    }

    /// What a process writes `0` into to enter.
    pub fn entrance(&self) -> io::Result<File> {
        File::options().write(true).open(self.folder.join("cgroup.procs"))
    }
}

/// As long as it is there, somebody makes room in a group: who finds no memory in it waits for that instead of being killed
/// (version 1 alone can). The kernel gives up and kills when all pages were used lately, however much room swap has; so when this
/// process is killed, after which nobody makes room, a process of its own lifts the limit: what the program has done is not lost.
#[derive(Debug)]
pub struct OomGuard {
    /// Who finds no memory waits while `1` stands in it.
    control: Option<File>,
    /// Has a word at the end; closed without one when we are killed, which is what the other process waits for.
    alive: PipeWriter,
    heir: u32,
}

impl OomGuard {
    fn begin(group: &MemoryCgroup) -> io::Result<Self> {
        let open = |name: &str| File::options().write(true).open(group.folder.join(name));
        let (limit, unlimited, control) = match group.version {
            Version::V1 => (open("memory.limit_in_bytes")?, c"-1", Some(open("memory.oom_control")?)),
            Version::V2 => (open("memory.max")?, c"max", None),
        };
        let (over, alive) = std::io::pipe()?;
        let mut last: Vec<(&File, &CStr)> = vec![(&limit, unlimited)];
        last.extend(control.iter().map(|control| (control, c"0")));
        let heir = syscall::keep_open(&over, -1, &last)?;
        let mut caretaker = Self { control, alive, heir };
        if let Some(control) = &mut caretaker.control {
            control.write_all(b"1")?;
        }
        Ok(caretaker)
    }
}

impl Drop for OomGuard {
    fn drop(&mut self) {
        // A group that is gone has nobody who waits, and an heir that is gone nobody to tell.
        let _ = self.control.as_mut().map(|control| control.write_all(b"0"));
        let _ = self.alive.write_all(b".");
        let _ = syscall::wait_for_child(self.heir);
    }
}

/// The processes in a group; none where it is not there.
pub(crate) fn processes(folder: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// A kernel file from its beginning, once more.
fn read_again(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; 8192];
    let length = file.read_at(&mut bytes, 0)?;
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn both_versions_say_what_a_group_holds() {
        let folder = tree(&[
            ("one/memory.usage_in_bytes", "12288\n"),
            (
                "one/memory.stat",
                "cache 1\nrss 2\nswap 3\ntotal_cache 4096\ntotal_rss 8192\ntotal_swap 65536\ntotal_pgmajfault 5\n",
            ),
            ("one/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("one/cgroup.procs", "7\n9\n"),
            ("two/memory.current", "12288\n"),
            ("two/memory.stat", "anon 8192\nfile 4096\nkernel 0\npgmajfault 5\n"),
            ("two/memory.swap.current", "65536\n"),
            ("two/memory.events", "low 0\noom 3\noom_kill 2\n"),
            ("two/cgroup.procs", "7\n9\n"),
        ]);
        for (version, name) in [(Version::V1, "one"), (Version::V2, "two")] {
            let group = MemoryCgroup::open(version, &folder.path().join(name)).unwrap();
            let held = GroupUsage { anonymous: Bytes(8192), file: Bytes(4096), swap: Bytes(65536), major_faults: 5 };
            assert_eq!((group.usage().unwrap(), group.held().unwrap()), (Bytes(12288), held), "{name}");
            assert_eq!((group.killed(), group.processes()), (2, vec![7, 9]), "{name}");
        }
    }

    #[test]
    fn a_machine_without_the_controller_says_so() {
        assert!(site(Path::new("/nowhere")).unwrap_err().contains("no memory controller"));
        let folder = tree(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu io\n"),
        ]);
        assert!(site(folder.path()).unwrap_err().contains("without its memory controller"));
    }

    #[test]
    fn a_container_that_cannot_have_groups_is_told_before_one_is_made() {
        let folder = |control: &str, procs: &str| {
            tree(&[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
                ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
                ("sys/fs/cgroup/cgroup.type", "domain\n"),
                ("sys/fs/cgroup/cgroup.subtree_control", control),
                ("sys/fs/cgroup/cgroup.procs", procs),
            ])
        };
        assert_eq!(is_supported(folder("cpu memory\n", "1\n").path()), Ok(()));
        assert_eq!(is_supported(folder("", "").path()), Ok(()));
        let why = is_supported(folder("cpu\n", "1\n").path()).unwrap_err();
        assert!(why.contains("gives its groups no memory controller"), "{why}");
    }
}
