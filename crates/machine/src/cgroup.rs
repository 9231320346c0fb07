//! A memory cgroup: its DRAM limit, DRAM and swap use, and out-of-memory handling, for cgroup v1 and v2. Must not
//! depend on the processes that run in it.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, ErrorKind, PipeWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use model::values::trial::CompressedTraffic;
use model::values::units::{Bytes, Nanos};

use crate::proc::parse_pressure;
use crate::{syscall, sysfs};

/// Version of the memory controller's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `memory.limit_in_bytes`.
    V1,
    /// `memory.max`.
    V2,
}

/// Returns the mount point of the memory controller, or the reason why there is none.
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

/// Checks whether a memory cgroup can be created, without creating one.
pub fn is_supported(root: &Path) -> Result<(), String> {
    let (version, mount) = site(root)?;
    let shown = mount.display();
    rustix::fs::access(&mount, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| format!("cannot create a memory cgroup in {shown}: {}", io::Error::from(errno)))?;
    let matches = |name: &str, test: &dyn Fn(&str) -> bool| {
        std::fs::read_to_string(mount.join(name)).is_ok_and(|text| test(&text))
    };
    let is_off = version == Version::V2 && !matches(CONTROL, &|text| supports(text, CONTROLLER));
    // The root cgroup has no type, and may have both processes and controllers for its children.
    if is_off && mount.join("cgroup.type").exists() && matches("cgroup.procs", &|text| !text.trim().is_empty()) {
        return Err(format!("{shown} contains processes, so it cannot enable the memory controller for children"));
    }
    Ok(())
}

/// File of a v2 cgroup that lists the controllers enabled for its children.
pub(crate) const CONTROL: &str = "cgroup.subtree_control";
/// Name of the memory controller.
pub const CONTROLLER: &str = "memory";

pub(crate) fn supports(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|name| name == word)
}

/// An existing memory cgroup.
#[derive(Debug)]
pub struct MemoryCgroup {
    version: Version,
    dir: PathBuf,
    usage: File,
    stat: File,
}

/// Memory that a cgroup uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Anonymous memory in DRAM.
    pub anonymous: Bytes,
    /// Mapped or cached files in DRAM, including shared memory.
    pub file: Bytes,
    /// The part of `file` that is shared memory or a file in tmpfs, which a disk does not back.
    pub shared: Bytes,
    /// The part of `file` that processes have mapped.
    pub mapped: Bytes,
    pub swap: Bytes,
    /// Page faults that waited for a disk, since the cgroup was created.
    pub major_faults: u64,
}

/// Pages of a cgroup that are kept compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressedUse {
    /// DRAM that they use.
    pub dram: Bytes,
    /// Their size before compression.
    pub held: Bytes,
    /// Their size after compression, without the space between them; `None` if the kernel does not report it.
    pub packed: Option<Bytes>,
    pub traffic: CompressedTraffic,
}

/// Evicted pages of memory that were used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refaults {
    pub all: u64,
    /// Those that would still be in DRAM if the limit were about 50 % higher.
    pub recent: u64,
}

impl GroupUsage {
    /// Cached files that no process has mapped; at most that, because shared memory may be mapped or not.
    pub fn unused_cache(&self) -> Bytes {
        Bytes(self.file.0.saturating_sub(self.shared.0.max(self.mapped.0)))
    }
}

impl MemoryCgroup {
    pub fn open(version: Version, dir: &Path) -> io::Result<Self> {
        let usage = match version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        Ok(Self {
            version,
            dir: dir.into(),
            usage: File::open(dir.join(usage))?,
            stat: File::open(dir.join("memory.stat"))?,
        })
    }

    /// Opens the same cgroup again, for another thread.
    pub fn again(&self) -> io::Result<Self> {
        Self::open(self.version, &self.dir)
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Limits its DRAM but not its swap. Returns the limit that the kernel reports, rounded to whole pages.
    pub fn limit(&self, dram: Bytes) -> io::Result<Bytes> {
        let name = match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        let path = self.dir.join(name);
        std::fs::write(&path, dram.0.to_string())?;
        let limit = std::fs::read_to_string(&path)?;
        limit.trim().parse().map(Bytes).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Limits its DRAM below [`Self::limit`], which the kernel's memory for compressed pages does not count. The kernel
    /// frees memory before this returns; version 2 slows processes above this limit down instead of killing them.
    ///
    /// # Errors
    /// `ResourceBusy` if not enough memory could be freed.
    pub fn lower_limit(&self, dram: Bytes) -> io::Result<()> {
        let name = match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.high",
        };
        std::fs::write(self.dir.join(name), dram.0.to_string())
    }

    /// Evicts this much of its memory, so that its processes find free DRAM and do not have to evict pages themselves. `limit`
    /// is its present limit, and remains.
    ///
    /// # Errors
    /// If not enough memory could be freed, or if the kernel cannot do so (cgroup version 2 before Linux 5.19).
    pub fn evict(&self, bytes: Bytes, limit: Bytes) -> io::Result<()> {
        if self.version == Version::V2 {
            return std::fs::write(self.dir.join("memory.reclaim"), bytes.0.to_string());
        }
        self.lower_limit(Bytes(limit.0.saturating_sub(bytes.0)))?;
        self.lower_limit(limit)
    }

    /// Returns the DRAM in use, of all kinds together.
    pub fn usage(&self) -> io::Result<Bytes> {
        let text = read_again(&self.usage)?;
        text.trim().parse().map(Bytes).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Returns the memory in use by kind.
    pub fn held(&self) -> io::Result<GroupUsage> {
        let text = read_again(&self.stat)?;
        let value = |name: &str| Bytes(counter(&text, name).unwrap_or(0));
        Ok(match self.version {
            // Totals include child cgroups, which a program may create.
            Version::V1 => GroupUsage {
                anonymous: value("total_rss"),
                file: value("total_cache"),
                shared: value("total_shmem"),
                mapped: value("total_mapped_file"),
                swap: value("total_swap"),
                major_faults: value("total_pgmajfault").0,
            },
            Version::V2 => {
                let swap = std::fs::read_to_string(self.dir.join("memory.swap.current")).unwrap_or_default();
                let swap = Bytes(swap.trim().parse().unwrap_or(0));
                GroupUsage {
                    anonymous: value("anon"),
                    file: value("file"),
                    shared: value("shmem"),
                    mapped: value("file_mapped"),
                    swap,
                    major_faults: value("pgmajfault").0,
                }
            }
        })
    }

    /// Limits the DRAM in which its evicted pages are kept compressed (zswap). That DRAM counts towards [`Self::limit`].
    ///
    /// # Errors
    /// `NotFound` if the kernel has no zswap that counts: cgroup version 1, or before Linux 5.19.
    pub fn limit_compressed(&self, dram: Bytes) -> io::Result<()> {
        let path = self.dir.join("memory.zswap.max");
        // The directory of a version 1 cgroup would accept a new file in a recorded tree only.
        if self.version == Version::V1 || !path.exists() {
            return Err(ErrorKind::NotFound.into());
        }
        std::fs::write(path, dram.0.to_string())
    }

    /// Returns its compressed pages; `None` if the kernel has no zswap that counts towards the limit.
    pub fn compressed(&self) -> Option<CompressedUse> {
        if self.version == Version::V1 {
            return None;
        }
        let text = read_again(&self.stat).ok()?;
        let value = |name: &str| counter(&text, name);
        let page = rustix::param::page_size() as u64;
        let pages = |name: &str| Bytes(value(name).unwrap_or(0) * page);
        Some(CompressedUse {
            dram: Bytes(value("zswap")?),
            held: Bytes(value("zswapped").unwrap_or(0)),
            packed: None,
            traffic: CompressedTraffic {
                stored: pages("zswpout"),
                loaded: pages("zswpin"),
                written_back: pages("zswpwb"),
                dram_max: None,
            },
        })
    }

    /// Returns the evicted pages that were used again so far. Version 2 counts those of this cgroup, version 1 those of the
    /// whole machine.
    pub fn refaults(&self) -> Refaults {
        let path = match self.version {
            Version::V1 => "/proc/vmstat".into(),
            Version::V2 => self.dir.join("memory.stat"),
        };
        refaults(&std::fs::read_to_string(path).unwrap_or_default())
    }

    /// Returns the total time for which at least one thread waited for memory, or `None` if the kernel does not report
    /// it. Version 2 counts the threads of this cgroup, version 1 all threads of the machine.
    pub fn stalled(&self) -> Option<Nanos> {
        let path = match self.version {
            Version::V1 => "/proc/pressure/memory".into(),
            Version::V2 => self.dir.join("memory.pressure"),
        };
        parse_pressure(&std::fs::read_to_string(path).ok()?)
    }

    /// Returns the number of its processes that the kernel's OOM killer has killed.
    pub fn killed(&self) -> u64 {
        let name = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = std::fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        counter(&text, "oom_kill").unwrap_or(0)
    }

    /// Guards the cgroup against the OOM killer until the result is dropped; `None` if the kernel does not permit it.
    pub fn guard_oom(&self) -> Option<OomGuard> {
        OomGuard::begin(self).ok()
    }

    /// Returns whether a process in it is suspended for lack of memory; always false in version 2.
    pub fn is_waiting(&self) -> bool {
        if self.version == Version::V2 {
            return false;
        }
        let text = std::fs::read_to_string(self.dir.join("memory.oom_control")).unwrap_or_default();
        text.lines().any(|line| line.trim() == "under_oom 1")
    }

    pub fn processes(&self) -> Vec<u32> {
        processes(&self.dir)
    }

    /// Opens the file into which a process writes `0` to join the cgroup.
    pub fn entrance(&self) -> io::Result<File> {
        File::options().write(true).open(self.dir.join("cgroup.procs"))
    }
}

/// Values of `memory.oom_control`: whether processes that find no memory are suspended, or one is killed.
const SUSPEND: &[u8] = b"1";
const KILL: &[u8] = b"0";
/// Values of `memory.memsw.limit_in_bytes`, the limit for DRAM and swap together. Both are beyond any machine.
const MOST_SWAP: &[u8] = b"4611686018427387904";
const ANY_SWAP: &CStr = c"-1";

/// Guards a cgroup against the OOM killer while this process evicts its pages. In version 1, a process that finds no
/// free memory is suspended: the kernel would kill it if all pages were used recently, however much swap is free. If
/// this process is killed, a watchdog process lifts the limit, so that the program's work is not lost.
#[derive(Debug)]
pub struct OomGuard {
    /// Contains `1` while processes without free memory are suspended.
    control: Option<File>,
    /// Limit for DRAM and swap together. Each increase makes suspended processes look for free memory.
    with_swap: Option<File>,
    /// Receives one byte on a normal end; if it is closed without one, this process was killed.
    alive: PipeWriter,
    watchdog: u32,
}

impl OomGuard {
    fn begin(group: &MemoryCgroup) -> io::Result<Self> {
        let open = |name: &str| File::options().write(true).open(group.dir.join(name));
        let (limit, unlimited, control) = match group.version {
            Version::V1 => (open("memory.limit_in_bytes")?, c"-1", Some(open("memory.oom_control")?)),
            Version::V2 => (open("memory.max")?, c"max", None),
        };
        // Missing if the kernel does not account for swap.
        let with_swap = control.as_ref().and_then(|_| open("memory.memsw.limit_in_bytes").ok());
        let (ended, alive) = std::io::pipe()?;
        // The limit for both first, because it must not be the lower one.
        let mut on_kill: Vec<(&File, &CStr)> = with_swap.iter().map(|both| (both, ANY_SWAP)).collect();
        on_kill.push((&limit, unlimited));
        on_kill.extend(control.iter().map(|control| (control, c"0")));
        let watchdog = syscall::keep_open(&ended, -1, &on_kill)?;
        let mut guard = Self { control, with_swap, alive, watchdog };
        if let Some(control) = &mut guard.control {
            control.write_all(SUSPEND)?;
        }
        Ok(guard)
    }

    /// Lets suspended processes look for free memory again. Some kernels (Linux 6.18) do not when memory becomes free.
    /// Those that find none are suspended again.
    ///
    /// # Errors
    /// If the cgroup no longer exists.
    pub fn wake(&mut self) -> io::Result<()> {
        if let Some(both) = &mut self.with_swap {
            both.write_all(MOST_SWAP)?;
            return both.write_all(ANY_SWAP.to_bytes());
        }
        let Some(control) = &mut self.control else { return Ok(()) };
        // In between, the kernel may kill a process that finds none.
        control.write_all(KILL)?;
        control.write_all(SUSPEND)
    }
}

impl Drop for OomGuard {
    fn drop(&mut self) {
        // Errors mean that the cgroup or the watchdog no longer exists: nothing remains to be done.
        let _ = self.control.as_mut().map(|control| control.write_all(KILL));
        let _ = self.alive.write_all(b".");
        let _ = syscall::wait_for_child(self.watchdog);
    }
}

/// Returns the processes in a cgroup, or an empty list if it does not exist.
pub(crate) fn processes(dir: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Returns the value of a line such as `oom_kill 2`.
fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
}

fn refaults(text: &str) -> Refaults {
    let value = |name: &str| counter(text, name).unwrap_or(0);
    Refaults { all: value("workingset_refault_anon"), recent: value("workingset_activate_anon") }
}

/// Reads a kernel file again from its start.
fn read_again(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; 8192];
    let length = file.read_at(&mut bytes, 0)?;
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn usage_is_read_in_both_versions() {
        let dir = tree(&[
            ("one/memory.usage_in_bytes", "12288\n"),
            (
                "one/memory.stat",
                "cache 1\nrss 2\nswap 3\ntotal_cache 4096\ntotal_rss 8192\ntotal_shmem 2048\ntotal_mapped_file 1024\n\
                 total_swap 65536\ntotal_pgmajfault 5\n",
            ),
            ("one/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("one/cgroup.procs", "7\n9\n"),
            ("two/memory.current", "12288\n"),
            ("two/memory.stat", "anon 8192\nfile 4096\nkernel 0\nshmem 2048\nfile_mapped 1024\npgmajfault 5\n"),
            ("two/memory.swap.current", "65536\n"),
            ("two/memory.events", "low 0\noom 3\noom_kill 2\n"),
            ("two/cgroup.procs", "7\n9\n"),
        ]);
        for (version, name) in [(Version::V1, "one"), (Version::V2, "two")] {
            let group = MemoryCgroup::open(version, &dir.path().join(name)).unwrap();
            let held = GroupUsage {
                anonymous: Bytes(8192),
                file: Bytes(4096),
                shared: Bytes(2048),
                mapped: Bytes(1024),
                swap: Bytes(65536),
                major_faults: 5,
            };
            assert_eq!(held.unused_cache(), Bytes(2048));
            assert_eq!((group.usage().unwrap(), group.held().unwrap()), (Bytes(12288), held), "{name}");
            assert_eq!((group.killed(), group.processes()), (2, vec![7, 9]), "{name}");
            assert_eq!(group.compressed(), None, "{name}");
            assert_eq!(group.limit_compressed(Bytes(1)).unwrap_err().kind(), ErrorKind::NotFound, "{name}");
        }
    }

    #[test]
    fn suspended_processes_are_woken_but_not_killed() {
        let skip = |reason: &str| println!("skipped: suspended_processes_are_woken_but_not_killed: {reason}");
        let Ok((Version::V1, mount)) = site(Path::new("/")) else { return skip("no cgroup version 1") };
        let dir = mount.join(format!("nearfar-test-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&dir) {
            return skip(&error.to_string());
        }
        if !dir.join("memory.memsw.limit_in_bytes").exists() {
            std::fs::remove_dir(&dir).unwrap();
            return skip("the kernel does not account for swap");
        }
        let group = MemoryCgroup::open(Version::V1, &dir).unwrap();
        group.limit(Bytes(16 << 20)).unwrap();
        std::fs::write(dir.join("memory.swappiness"), "0").unwrap();
        let mut guard = group.guard_oom().unwrap();
        // It uses the memory in user mode: system calls that find no memory are not suspended, but fail.
        let program = "BEGIN { x = \"a\"; while (length(x) < 33554432) x = x x; print length(x) }";
        let enter = format!("echo $$ >{}; exec awk '{program}'", dir.join("cgroup.procs").display());
        let program = Command::new("sh").args(["-c", &enter]).stdout(Stdio::piped()).spawn().unwrap();
        let wait_until_suspended = || {
            while !group.is_waiting() && group.killed() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for _ in 0..3000 {
            wait_until_suspended();
            guard.wake().unwrap();
        }
        group.limit(Bytes(256 << 20)).unwrap();
        let (output, killed) = (program.wait_with_output().unwrap(), group.killed());
        drop(guard);
        std::fs::remove_dir(&dir).unwrap();
        assert_eq!((killed, String::from_utf8(output.stdout).unwrap().trim()), (0, "33554432"));
    }

    #[test]
    fn pages_that_were_used_again_are_counted() {
        let text = "workingset_refault_anon 7\nworkingset_refault_file 9\nworkingset_activate_anon 5\n";
        assert_eq!(refaults(text), Refaults { all: 7, recent: 5 });
        assert_eq!(refaults("anon 8192\n"), Refaults::default(), "before Linux 5.9");
    }

    #[test]
    fn compressed_pages_are_read_and_limited() {
        let stat = "anon 8192\nzswap 4096\nzswapped 16384\nzswpin 1\nzswpout 5\nzswpwb 2\n";
        let dir = tree(&[("memory.current", "1\n"), ("memory.stat", stat), ("memory.zswap.max", "max\n")]);
        let group = MemoryCgroup::open(Version::V2, dir.path()).unwrap();
        let page = rustix::param::page_size() as u64;
        let traffic = CompressedTraffic {
            stored: Bytes(5 * page),
            loaded: Bytes(page),
            written_back: Bytes(2 * page),
            dram_max: None,
        };
        let expected = CompressedUse { dram: Bytes(4096), held: Bytes(16384), packed: None, traffic };
        assert_eq!(group.compressed(), Some(expected));
        group.limit_compressed(Bytes(65536)).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("memory.zswap.max")).unwrap(), "65536");
    }

    #[test]
    fn missing_memory_controller_returns_an_error() {
        assert!(site(Path::new("/nowhere")).unwrap_err().contains("no memory controller"));
        let dir = tree(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu io\n"),
        ]);
        assert!(site(dir.path()).unwrap_err().contains("without its memory controller"));
    }

    #[test]
    fn cgroup_with_processes_that_cannot_have_children_is_detected() {
        let root = |control: &str, procs: &str| {
            tree(&[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
                ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
                ("sys/fs/cgroup/cgroup.type", "domain\n"),
                ("sys/fs/cgroup/cgroup.subtree_control", control),
                ("sys/fs/cgroup/cgroup.procs", procs),
            ])
        };
        assert_eq!(is_supported(root("cpu memory\n", "1\n").path()), Ok(()));
        assert_eq!(is_supported(root("", "").path()), Ok(()));
        let why = is_supported(root("cpu\n", "1\n").path()).unwrap_err();
        assert!(why.contains("cannot enable the memory controller"), "{why}");
    }
}
