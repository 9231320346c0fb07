//! Reads the kernel's files about processes and CPU activity. Every reader takes the directory that contains `proc` and
//! `sys`, and every parser takes text, so that tests can use recorded files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use model::analysis::residency::FileSystem;
use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::trial::{CpuTime, FILE_BYTES_MIN, FileKind};
use model::values::units::{Bytes, Nanos};

use crate::{cpu_times, sysfs};

/// Maximum number of bytes read of `numa_maps`; further mappings of a process are ignored.
const NUMA_MAPS_BYTES_MAX: u64 = 8 << 20;
/// Maximum number of descriptors of a process that are read.
const OPEN_FILES_MAX: usize = 256;
/// Maximum number of processes whose mappings are searched for files.
const PROCESSES_MAX: usize = 1024;
/// Counters of pages that were moved to a lower memory tier, by cause. Linux 5.15 has the first two; later versions added
/// the others.
const DEMOTED: [&str; 4] = ["pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgdemote_proactive"];
/// Counter of pages that were moved to a higher memory tier; Linux 5.18 introduced it.
const PROMOTED: [&str; 1] = ["pgpromote_success"];

/// Counters of the whole machine since boot, or the reason why they cannot be read.
pub(crate) struct MemoryCounters(Result<String, String>);

impl MemoryCounters {
    /// Returns the number of processes killed by the OOM killer; Linux 4.13 introduced this counter.
    pub(crate) fn oom_kills(&self) -> Result<u64, String> {
        self.sum(&["oom_kill"])
    }

    /// Returns the number of pages that were moved to a higher memory tier.
    pub(crate) fn pages_promoted(&self) -> Result<u64, String> {
        self.sum(&PROMOTED)
    }

    /// Returns the number of pages that were moved to a lower memory tier.
    pub(crate) fn pages_demoted(&self) -> Result<u64, String> {
        self.sum(&DEMOTED)
    }

    fn sum(&self, names: &[&str]) -> Result<u64, String> {
        parse_vmstat(self.0.as_ref()?, names).ok_or_else(|| format!("/proc/vmstat has no {}", names.join(" or ")))
    }
}

/// Directory that contains `proc` and `sys`.
#[derive(Clone, Debug)]
pub(crate) struct Proc {
    root: PathBuf,
}

/// Fields of /proc/PID/task/TID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadStat {
    /// `R`: runs or waits for a CPU. `Z`: dead and not yet reaped.
    pub state: char,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// Time of its start, in clock ticks since boot.
    pub started: u64,
    /// CPU on which it runs or ran last.
    pub cpu: CpuId,
}

/// Numbers of resident pages of the base size, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumaPages {
    /// Memory that is not backed by a file on a disk; the memory policy applies to it.
    pub anonymous: BTreeMap<NodeId, u64>,
    /// Page cache, placed by the policy of the process that first read the file.
    pub file: BTreeMap<NodeId, u64>,
    /// The pages of `file` by kind and path of the file.
    pub files: BTreeMap<(FileKind, String), BTreeMap<NodeId, u64>>,
}

impl NumaPages {
    pub(crate) fn anonymous_count(&self) -> u64 {
        self.anonymous.values().sum()
    }

    /// Adds the pages of another process.
    pub(crate) fn add(&mut self, other: &Self) {
        for (node, pages) in &other.anonymous {
            *self.anonymous.entry(*node).or_insert(0) += pages;
        }
        for (node, pages) in &other.file {
            *self.file.entry(*node).or_insert(0) += pages;
        }
        for (file, by_node) in &other.files {
            let sum = self.files.entry(file.clone()).or_default();
            by_node.iter().for_each(|(node, pages)| *sum.entry(*node).or_insert(0) += pages);
        }
    }
}

impl Proc {
    pub(crate) fn live() -> Self {
        Self::at(Path::new("/"))
    }

    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.into() }
    }

    fn text(&self, path: &str) -> io::Result<String> {
        sysfs::read_text(&self.root, path)
    }

    /// Returns the threads of a process, or an empty list if it has ended.
    pub(crate) fn threads(&self, pid: u32) -> Vec<u32> {
        numbers_in(&self.root.join(format!("proc/{pid}/task")))
    }

    /// Returns the state of a thread, or `None` if it has ended.
    pub(crate) fn thread_stat(&self, pid: u32, tid: u32) -> Option<ThreadStat> {
        parse_thread_stat(&self.text(&format!("proc/{pid}/task/{tid}/stat")).ok()?)
    }

    /// Returns the children of a process, or `None` if the kernel has no `children` file (`CONFIG_PROC_CHILDREN`).
    pub(crate) fn children(&self, pid: u32) -> Option<Vec<u32>> {
        let of_thread = |tid: &u32| self.text(&format!("proc/{pid}/task/{tid}/children"));
        let texts: Vec<_> = self.threads(pid).iter().map(of_thread).collect();
        // Some threads may end before their file is read. If all reads fail, the kernel lacks the file.
        if !texts.is_empty() && texts.iter().all(Result::is_err) {
            return None;
        }
        Some(
            texts
                .iter()
                .flatten()
                .flat_map(|text| text.split_whitespace())
                .filter_map(|pid| pid.parse().ok())
                .collect(),
        )
    }

    /// Returns all processes of a process group, by checking every process of the machine.
    pub(crate) fn processes_of_group(&self, group: u32) -> Vec<u32> {
        let in_group = |pid: &u32| {
            let stat = self.text(&format!("proc/{pid}/stat")).ok().and_then(|text| parse_thread_stat(&text));
            stat.is_some_and(|stat| stat.group == group)
        };
        numbers_in(&self.root.join("proc")).into_iter().filter(in_group).collect()
    }

    /// Returns how often a thread has migrated between CPUs since its start.
    pub(crate) fn migrations(&self, pid: u32, tid: u32) -> Option<u64> {
        parse_migrations(&self.text(&format!("proc/{pid}/task/{tid}/sched")).ok()?)
    }

    /// Returns whether a process runs the same program as this one.
    pub(crate) fn runs_this_program(&self, pid: u32) -> bool {
        let program = |pid: u32| std::fs::read_link(self.root.join(format!("proc/{pid}/exe"))).ok();
        program(pid).is_some_and(|other| Some(other) == program(std::process::id()))
    }

    /// Returns for how long a thread has waited for a CPU since its start.
    pub(crate) fn run_queue_wait(&self, pid: u32, tid: u32) -> Option<Nanos> {
        self.thread_times(pid, tid).map(|(_, wait)| wait)
    }

    /// Returns for how long a thread has run and has waited for a CPU since its start.
    pub(crate) fn thread_times(&self, pid: u32, tid: u32) -> Option<(Nanos, Nanos)> {
        parse_schedstat(&self.text(&format!("proc/{pid}/task/{tid}/schedstat")).ok()?)
    }

    /// Returns the name of a thread, and the CPUs and memory nodes that it may use; `None` if it has ended.
    pub(crate) fn thread_limits(&self, pid: u32, tid: u32) -> Option<(String, sysfs::Allowed)> {
        let status = self.text(&format!("proc/{pid}/task/{tid}/status")).ok()?;
        let name = status.lines().find_map(|line| line.strip_prefix("Name:"))?.trim();
        Some((name.to_string(), sysfs::parse_allowed(&status)))
    }

    /// Returns the user of a process; `None` if it has ended.
    pub(crate) fn user(&self, pid: u32) -> Option<u32> {
        let status = self.text(&format!("proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
    }

    /// Returns the swapped-out memory of a process, or `None` if it has ended.
    pub(crate) fn swapped(&self, pid: u32) -> Option<Bytes> {
        sysfs::meminfo_bytes(&self.text(&format!("proc/{pid}/status")).ok()?, "VmSwap")
    }

    /// Returns the resident memory of a process, or `None` if it has ended.
    pub(crate) fn resident(&self, pid: u32) -> Option<Bytes> {
        sysfs::meminfo_bytes(&self.text(&format!("proc/{pid}/status")).ok()?, "VmRSS")
    }

    /// Returns the name of a process (comm), or `None` if it has ended.
    pub(crate) fn name(&self, pid: u32) -> Option<String> {
        self.text(&format!("proc/{pid}/comm")).ok()
    }

    /// Returns the maximum resident memory that a process has had since its exec, or `None` if it has ended.
    pub(crate) fn peak_memory(&self, pid: u32) -> Option<Bytes> {
        sysfs::meminfo_bytes(&self.text(&format!("proc/{pid}/status")).ok()?, "VmHWM")
    }

    /// Returns whether the machine uses any swap.
    pub(crate) fn has_swap(&self) -> bool {
        // The first line is a heading.
        self.text("proc/swaps").is_ok_and(|text| text.lines().count() > 1)
    }

    /// Returns the pages of a process by node. `mounts` are those of file systems in memory.
    pub(crate) fn numa_pages(&self, pid: u32, mounts: &MemoryMounts) -> io::Result<NumaPages> {
        let read = |file: &str| -> io::Result<String> {
            let mut bytes = Vec::new();
            let path = self.root.join(format!("proc/{pid}/{file}"));
            File::open(path)?.take(NUMA_MAPS_BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let numa_maps = read("numa_maps")?;
        // Few programs map such files, so `maps` is rarely needed.
        let has_some = numa_maps.lines().filter_map(mapped_file).any(|file| mounts.contain(file));
        let maps = if has_some { read("maps")? } else { String::new() };
        let shared = shared_mappings(&maps);
        let is_memory = |start: &str, file: &str| has_no_disk(file) || (shared.contains(start) && mounts.contain(file));
        let program = std::fs::read_link(self.root.join(format!("proc/{pid}/exe"))).unwrap_or_default();
        Ok(parse_numa_maps(&numa_maps, &program.to_string_lossy(), is_memory))
    }

    /// Returns the paths of the files of at least 2 MiB that a process has open for reading, at most [`OPEN_FILES_MAX`].
    pub(crate) fn open_files(&self, pid: u32) -> Vec<String> {
        let dir = self.root.join(format!("proc/{pid}/fd"));
        let is_readable = |descriptor: &u32| {
            let about = self.text(&format!("proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
            let flags = about.lines().find_map(|line| i32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
            flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_WRONLY)
        };
        let path = |descriptor: u32| {
            let path = std::fs::read_link(dir.join(descriptor.to_string())).ok()?;
            let is_large = |about: std::fs::Metadata| about.is_file() && about.len() >= FILE_BYTES_MIN;
            let is_data = path.is_absolute() && std::fs::metadata(&path).is_ok_and(is_large);
            Some(path.to_str().filter(|path| is_data && !path.starts_with("/proc/"))?.to_string())
        };
        numbers_in(&dir).into_iter().take(OPEN_FILES_MAX).filter(is_readable).filter_map(path).collect()
    }

    /// Returns which of these files are mapped by any of the first [`PROCESSES_MAX`] processes that can be inspected.
    pub(crate) fn mapped_files<'a>(&self, files: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut pids = numbers_in(&self.root.join("proc"));
        pids.sort_unstable();
        let mut mapped = BTreeSet::new();
        for pid in pids.into_iter().take(PROCESSES_MAX) {
            let maps = self.text(&format!("proc/{pid}/maps")).unwrap_or_default();
            let is_mapped = |file: &&&str| maps.lines().any(|line| line.ends_with(**file));
            mapped.extend(files.iter().filter(is_mapped));
        }
        mapped
    }

    /// Returns the mount points of the file systems whose files are memory.
    pub(crate) fn memory_mounts(&self) -> MemoryMounts {
        MemoryMounts::parse(&self.text("proc/self/mountinfo").unwrap_or_default())
    }

    /// Returns the CPU times of all online CPUs since boot.
    pub(crate) fn cpu_times(&self) -> Result<BTreeMap<CpuId, CpuTime>, String> {
        cpu_times::read(&self.root)
    }

    /// Returns the time since boot for which at least one thread waited for `cpu` or `memory`.
    pub(crate) fn pressure(&self, of: &str) -> Result<Nanos, String> {
        let text =
            self.text(&format!("proc/pressure/{of}")).map_err(|error| format!("/proc/pressure/{of}: {error}"))?;
        parse_pressure(&text).ok_or_else(|| format!("/proc/pressure/{of} has no 'some' line"))
    }

    /// Returns the number of interrupts of all kinds on these CPUs since boot.
    pub(crate) fn interrupts(&self, cpus: &CpuSet) -> Result<u64, String> {
        let text = self.text("proc/interrupts").map_err(|error| format!("/proc/interrupts: {error}"))?;
        parse_interrupts(&text, cpus).ok_or_else(|| format!("/proc/interrupts has no column for CPUs {cpus}"))
    }

    /// Reads the memory counters of the kernel once for all of them: the kernel adds up those of all CPUs.
    pub(crate) fn memory_counters(&self) -> MemoryCounters {
        MemoryCounters(self.text("proc/vmstat").map_err(|error| format!("/proc/vmstat: {error}")))
    }

    /// Returns the current frequency of a CPU.
    pub(crate) fn frequency_khz(&self, cpu: CpuId) -> Result<u64, String> {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        let text = self.text(&path).map_err(|error| format!("/{path}: {error}"))?;
        text.parse().map_err(|_| format!("/{path} contains '{text}', which is not a number"))
    }

    /// Returns the memory nodes of these CPUs, without nodes that have no memory.
    pub(crate) fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        let nodes = self.memory_nodes().unwrap_or_default();
        let node_cpus = |node| sysfs::read_list(&self.root, &format!("sys/devices/system/node/node{node}/cpulist"));
        nodes.iter().filter(|node| node_cpus(*node).is_some_and(|list: CpuSet| list.intersects(cpus))).collect()
    }

    /// Returns the nodes that have memory, or `None` if the kernel has no NUMA support.
    pub(crate) fn memory_nodes(&self) -> Option<NodeSet> {
        sysfs::read_list(&self.root, "sys/devices/system/node/has_memory")
    }

    /// Returns the number of nodes that have memory, or `None` if the kernel has no NUMA support.
    pub(crate) fn memory_node_count(&self) -> Option<usize> {
        self.memory_nodes().map(|nodes| nodes.len())
    }
}

/// All mount points with the kind of their file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryMounts(Vec<(String, FileSystem)>);

impl MemoryMounts {
    /// The kernel escapes spaces in mount points as in the file names of `numa_maps`.
    fn parse(mountinfo: &str) -> Self {
        let mount = |line: &str| {
            let (before, after) = line.split_once(" - ")?;
            let system = match after.split_whitespace().next()? {
                "hugetlbfs" => FileSystem::HugePages,
                "tmpfs" | "ramfs" | "rootfs" => FileSystem::Memory,
                _ => FileSystem::Disk,
            };
            Some((before.split_whitespace().nth(4)?.to_owned(), system))
        };
        Self(mountinfo.lines().filter_map(mount).collect())
    }

    /// Returns whether the file is in memory.
    fn contain(&self, file: &str) -> bool {
        self.file_system(file) != FileSystem::Disk
    }

    /// Returns the kind of the innermost mount that contains the file; of several on one mount point, the last.
    pub(crate) fn file_system(&self, file: &str) -> FileSystem {
        let contains = |mount: &str| match file.strip_prefix(mount) {
            Some(rest) => mount.ends_with('/') || rest.is_empty() || rest.starts_with('/'),
            None => false,
        };
        let innermost = self.0.iter().filter(|(mount, _)| contains(mount)).max_by_key(|(mount, _)| mount.len());
        innermost.map_or(FileSystem::Disk, |(_, system)| *system)
    }
}

/// Returns the start addresses of the shared mappings in `maps`, as text.
fn shared_mappings(maps: &str) -> BTreeSet<&str> {
    let shared = |line: &'_ str| line.split_whitespace().nth(1).is_some_and(|mode| mode.ends_with('s'));
    maps.lines().filter(|line| shared(line)).filter_map(|line| Some(line.split_once('-')?.0)).collect()
}

fn mapped_file(line: &str) -> Option<&str> {
    line.split_whitespace().find_map(|word| word.strip_prefix("file="))
}

fn numbers_in(dir: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Counts fields from the last parenthesis, because the name may contain spaces and parentheses.
fn parse_thread_stat(text: &str) -> Option<ThreadStat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // proc(5) counts from 1; the state, directly after the name, is field 3.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(ThreadStat {
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        started: field(22)?.parse().ok()?,
        cpu: CpuId(field(39)?.parse().ok()?),
    })
}

/// Returns the sum of the named counters that are present.
fn parse_vmstat(text: &str, names: &[&str]) -> Option<u64> {
    let count = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        names.contains(&name).then(|| count.trim().parse::<u64>().ok()).flatten()
    };
    text.lines().filter_map(count).reduce(u64::saturating_add)
}

/// Parses the total of the `some` line of a pressure file: the time for which at least one thread waited.
pub(crate) fn parse_pressure(text: &str) -> Option<Nanos> {
    pressure_total(text, "some ")
}

/// Parses the total of the `full` line of a pressure file: the time for which all threads waited that were not idle.
pub(crate) fn parse_full_pressure(text: &str) -> Option<Nanos> {
    pressure_total(text, "full ")
}

fn pressure_total(text: &str, kind: &str) -> Option<Nanos> {
    let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Nanos(total.parse::<u64>().ok()?.saturating_mul(1000)))
}

fn parse_interrupts(text: &str, cpus: &CpuSet) -> Option<u64> {
    let mut lines = text.lines();
    // Only online CPUs have a column; the heading lists their numbers.
    let columns: Vec<bool> = lines
        .next()?
        .split_whitespace()
        .map(|word| {
            word.strip_prefix("CPU").and_then(|number| number.parse().ok()).is_some_and(|n| cpus.contains(CpuId(n)))
        })
        .collect();
    if !columns.contains(&true) {
        return None;
    }
    let mut sum = 0;
    for line in lines {
        let Some((_, counts)) = line.split_once(':') else { continue };
        let counts: Vec<u64> =
            counts.split_whitespace().map_while(|word| word.parse().ok()).take(columns.len()).collect();
        // ERR and MIS have one number for the whole machine, and are ignored.
        if counts.len() == columns.len() {
            sum += counts.iter().zip(&columns).filter(|(_, selected)| **selected).map(|(count, _)| count).sum::<u64>();
        }
    }
    Some(sum)
}

/// Parses `running waiting slices`, in ns.
fn parse_schedstat(text: &str) -> Option<(Nanos, Nanos)> {
    let mut times = text.split_whitespace().map(|word| word.parse().ok().map(Nanos));
    Some((times.next()??, times.next()??))
}

fn parse_migrations(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

/// Parses `numa_maps`. Each line is one mapping: address, policy, then fields such as `file=...`, `anon=3`, `N0=3`,
/// `kernelpagesize_kB=4`.
///
/// Written pages of a private file mapping are anonymous copies. For a mapping with both kinds, the kernel reports the
/// number of copies and the number of pages on each node, but not which of these are copies. With F file pages in the
/// mapping, all pages on a node except F must be copies and count as anonymous; the rest count as file pages.
///
/// Some file systems (tmpfs, the root of the NUMA guest) have their own memory policy, which overrides that of the
/// process even for copies; such copies count as file pages. The stack has the policy of the process.
///
/// `program` is the path of the executable file. `is_memory` returns whether a mapping, by its start address and file,
/// is shared memory, which counts as anonymous.
fn parse_numa_maps(text: &str, program: &str, is_memory: impl Fn(&str, &str) -> bool) -> NumaPages {
    let process_policy = text.lines().find(|line| line.split_whitespace().any(|word| word == "stack")).and_then(policy);
    let mut pages = NumaPages::default();
    for line in text.lines() {
        let fields = || line.split_whitespace().skip(2);
        let number =
            |key: &str| fields().find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse::<u64>().ok());
        let by_node: Vec<(NodeId, u64)> = fields().filter_map(node_and_pages).collect();
        let total: u64 = by_node.iter().map(|(_, pages)| pages).sum();
        let start = line.split_whitespace().next().unwrap_or_default();
        let on_disk = mapped_file(line).is_some_and(|file| !is_memory(start, file));
        let copies =
            if process_policy.is_some() && policy(line) != process_policy { 0 } else { number("anon").unwrap_or(0) };
        let of_file = if on_disk { total.saturating_sub(copies) } else { 0 };
        // The kernel counts hugetlb pages individually, and transparent huge pages in base pages.
        let per_page = (number("kernelpagesize_kB").unwrap_or(4) / base_page_kib()).max(1);
        let mut by_file = (of_file > 0).then(|| {
            let path = unescaped(mapped_file(line).unwrap_or_default());
            pages.files.entry((file_kind(&path, program), path)).or_default()
        });
        for (node, count) in by_node {
            let file = count.min(of_file);
            if let Some(by_node) = by_file.as_mut().filter(|_| file > 0) {
                *by_node.entry(node).or_insert(0) += file * per_page;
            }
            for (into, count) in [(&mut pages.anonymous, count - file), (&mut pages.file, file)] {
                if count > 0 {
                    *into.entry(node).or_insert(0) += count * per_page;
                }
            }
        }
    }
    pages
}

/// Returns the kind of a file by its name, because `numa_maps` does not contain access rights.
fn file_kind(path: &str, program: &str) -> FileKind {
    let name = path.rsplit('/').next().unwrap_or_default();
    match () {
        () if path == program => FileKind::Program,
        () if name.strip_suffix(".so").is_some() || name.contains(".so.") => FileKind::Library,
        () => FileKind::Data,
    }
}

/// Replaces the escapes of `numa_maps`, such as `\040` for a space.
fn unescaped(path: &str) -> String {
    let mut pieces = path.split('\\');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => text.extend(std::iter::once(char::from(byte)).chain(piece[3..].chars())),
            None => text.extend(std::iter::once('\\').chain(piece.chars())),
        }
    }
    text
}

fn policy(line: &str) -> Option<&str> {
    line.split_whitespace().nth(1)
}

fn base_page_kib() -> u64 {
    crate::syscall::page_bytes() as u64 / 1024
}

fn node_and_pages(word: &str) -> Option<(NodeId, u64)> {
    let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
    Some((NodeId(node.parse().ok()?), pages.parse().ok()?))
}

/// Returns whether a name is of shared memory, to which the memory policy applies as to anonymous memory.
fn has_no_disk(file: &str) -> bool {
    ["/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "/anon_hugepage"].iter().any(|prefix| file.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    fn stat_line(name: &str, state: char, parent: u32, group: u32, cpu: u32) -> String {
        // Fields 7 to 21 and 23 to 38 are irrelevant.
        let zeros = |count| vec!["0"; count].join(" ");
        format!("42 ({name}) {state} {parent} {group} 5 {} 99 {} {cpu} 0 0 0 0 0 0", zeros(15), zeros(16))
    }

    #[test]
    fn stat_is_parsed_after_any_process_name() {
        for name in ["cat", "a b", "a) R 1 (b", "((", ") S 9 9", ""] {
            let expected = ThreadStat { state: 'R', parent: 7, group: 8, session: 5, started: 99, cpu: CpuId(3) };
            assert_eq!(parse_thread_stat(&stat_line(name, 'R', 7, 8, 3)), Some(expected), "{name}");
        }
        for text in ["", "42 (cat", "42 (cat) R 1 2", "42 (cat) R x 2"] {
            assert_eq!(parse_thread_stat(text), None, "{text}");
        }
        let recorded = "1 (systemd) S 0 1 1 0 -1 4194560 39 0 88 0 8 21 0 0 20 0 1 0 7 17170432 3240 \
            18446744073709551615 1 1 0 0 0 0 671173123 4096 1260 0 0 0 17 5 0 0 0 0 0 0 0 0 0 0 0 0 0";
        assert_eq!(parse_thread_stat(recorded).unwrap().cpu, CpuId(5));
    }

    #[test]
    fn pressure_is_the_total_of_the_some_line() {
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(parse_pressure(text), Some(Nanos(1_234_000)));
        assert_eq!(parse_full_pressure(text), Some(Nanos(9_000)));
        assert_eq!(parse_pressure("full avg10=0 total=3"), None);
        assert_eq!(parse_pressure(""), None);
    }

    #[test]
    fn pages_moved_between_tiers_are_summed_over_causes() {
        let check = |vmstat: &str, promoted: Result<u64, &str>, demoted: Result<u64, &str>| {
            let dir = tree(&[("proc/vmstat", vmstat)]);
            let counters = Proc::at(dir.path()).memory_counters();
            assert_eq!(counters.pages_promoted(), promoted.map_err(String::from), "{vmstat}");
            assert_eq!(counters.pages_demoted(), demoted.map_err(String::from), "{vmstat}");
        };
        // Recorded in the NUMA guest with Linux 6.12.
        let recorded = "pgpromote_success 5192\npgpromote_candidate 5192\npgdemote_kswapd 0\npgdemote_direct 19153\n\
            pgdemote_khugepaged 0\n";
        check(recorded, Ok(5192), Ok(19153));
        // Linux 5.15 has neither a counter of promoted pages nor the later causes.
        let no_promotion = Err("/proc/vmstat has no pgpromote_success");
        check("pgdemote_kswapd 3\npgdemote_direct 40\noom_kill 9\n", no_promotion, Ok(43));
        let no_demotion =
            "/proc/vmstat has no pgdemote_kswapd or pgdemote_direct or pgdemote_khugepaged or pgdemote_proactive";
        check("oom_kill 9\n", no_promotion, Err(no_demotion));
        check("pgpromote_success x\npgdemote_direct\n", no_promotion, Err(no_demotion));
    }

    #[test]
    fn run_queue_wait_is_the_second_number() {
        let times = (Nanos(145_318_822), Nanos(174_541_000));
        assert_eq!(parse_schedstat("145318822 174541000 26\n"), Some(times));
        assert_eq!(parse_schedstat("1"), None);
    }

    /// Recorded in the NUMA guest: a shared file in a tmpfs, bound to the wrong node, counted as page cache.
    #[test]
    fn shared_files_in_memory_count_as_anonymous() {
        let mounts = MemoryMounts::parse(
            "1 0 0:2 / / rw - ext4 /dev/vda rw\n2 1 0:5 / /run rw shared:1 - tmpfs tmpfs rw\n\
            3 2 0:6 / /run/disk rw - xfs /dev/vdb rw\n",
        );
        let files = ["/run/a", "/run", "/running/a", "/run/disk/a", "/a"].map(|file| mounts.contain(file));
        assert_eq!(files, [true, true, false, false, false]);
        let maps = "7f0000000000-7f0000400000 rw-s 00000000 00:05 7 /run/a\n\
            7f1000000000-7f1000400000 rw-p 00000000 00:05 7 /run/a\n";
        let shared = shared_mappings(maps);
        let numa_maps = "7f0000000000 bind:1 file=/run/a dirty=9533 N1=9533 kernelpagesize_kB=4\n\
            7f1000000000 default file=/run/a mapped=3 N0=3 kernelpagesize_kB=4\n";
        let pages = parse_numa_maps(numa_maps, "", |start, file| shared.contains(start) && mounts.contain(file));
        assert_eq!(pages.anonymous, BTreeMap::from([(NodeId(1), 9533)]));
        assert_eq!(pages.file, BTreeMap::from([(NodeId(0), 3)]), "private mappings have the policy of the file");
    }

    #[test]
    fn interrupts_are_summed_over_cpu_columns() {
        let text = "           CPU0       CPU2       CPU3\n\
             24:          1         10        100  IO-APIC   5-edge      ACPI:Ged\n\
            LOC:       1000       2000       3000   Local timer interrupts\n\
            ERR:          7\n\
            MIS:          0\n";
        let sum = |list| parse_interrupts(text, &cpus(list));
        assert_eq!((sum("0"), sum("2"), sum("2-3"), sum("1")), (Some(1001), Some(2010), Some(5110), None));
        assert_eq!(parse_interrupts("", &cpus("0")), None);
    }

    #[test]
    fn anonymous_and_file_pages_are_counted_separately() {
        let text = "\
560f292dd000 default file=/usr/bin/cat mapped=2 N0=2 kernelpagesize_kB=4
560f292e7000 default file=/usr/bin/cat anon=1 dirty=1 active=0 N1=1 kernelpagesize_kB=4
560f292e7800 default file=/usr/bin/cat anon=3 dirty=3 N0=1 N1=3 kernelpagesize_kB=4
560f292e8000 bind:0 heap anon=300 dirty=300 N0=200 N1=100 kernelpagesize_kB=4
7f0000000000 bind:1 huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f1000000000 default file=/memfd:shared\\040memory dirty=4 N0=4 kernelpagesize_kB=4
7f2000000000 default file=/a\\040N3=5 mapped=1 N0=1 kernelpagesize_kB=4
7f3000000000 default
7ffd00000000 default stack anon=2 dirty=2 N1=2 kernelpagesize_kB=4
";
        let pages = parse_numa_maps(text, "/usr/bin/cat", |_, file| has_no_disk(file));
        let huge = 2 * 2048 / base_page_kib();
        assert_eq!(pages.anonymous, [(NodeId(0), 204), (NodeId(1), 105 + huge)].into());
        assert_eq!(pages.file, [(NodeId(0), 4), (NodeId(1), 1)].into());
        assert_eq!(pages.anonymous_count(), 309 + huge);
        let files = [
            ((FileKind::Program, "/usr/bin/cat".into()), [(NodeId(0), 3), (NodeId(1), 1)].into()),
            ((FileKind::Data, "/a N3=5".into()), [(NodeId(0), 1)].into()),
        ];
        assert_eq!(pages.files, files.into());
        assert_eq!(parse_numa_maps("nonsense N0", "", |_, file| has_no_disk(file)), NumaPages::default());
        // As in the NUMA guest, whose root is a tmpfs that prefers node 0.
        let on_tmpfs = "\
005e2000 prefer:0 file=/bin/busybox anon=3 dirty=3 active=0 N0=3 kernelpagesize_kB=4
16838000 bind:2 heap anon=3 dirty=3 active=0 N2=3 kernelpagesize_kB=4
7ffe12b8 bind:2 stack anon=4 dirty=4 active=1 N2=4 kernelpagesize_kB=4
";
        let pages = parse_numa_maps(on_tmpfs, "", |_, file| has_no_disk(file));
        assert_eq!(pages.anonymous, [(NodeId(2), 7)].into());
        assert_eq!(pages.file, [(NodeId(0), 3)].into());
    }

    #[test]
    fn kinds_of_files_are_recognised_by_their_names() {
        let kinds = ["/opt/a.so", "/lib/libc.so.6", "/opt/app", "/data/a.solo", "/data/so"]
            .map(|path| file_kind(path, "/opt/app"));
        let [data, library, program] = [FileKind::Data, FileKind::Library, FileKind::Program];
        assert_eq!(kinds, [library, library, program, data, data]);
        let names = [r"/a\040b\075", r"/a\", r"/a\9", "/ä"].map(unescaped);
        assert_eq!(names, ["/a b=", "/a\\", "/a\\9", "/ä"]);
    }

    #[test]
    fn files_of_other_processes_are_found() {
        let dir = tree(&[
            ("proc/5/maps", "7f00-7f01 r-xp 0 fe:01 9    /lib/libc.so.6\n"),
            ("proc/7/maps", "7f00-7f01 r-xp 0 fe:01 9    /lib/libz.so (deleted)\n"),
        ]);
        let files = ["/lib/libc.so.6", "/lib/libz.so", "/lib/libx.so"].into();
        assert_eq!(Proc::at(dir.path()).mapped_files(&files), ["/lib/libc.so.6"].into());
    }

    #[test]
    fn migrations_are_read_from_sched() {
        let text = "cat (25937, #threads: 1)\n-----\nse.exec_start  :  3475107.219039\nse.nr_migrations   :     12\n";
        assert_eq!(parse_migrations(text), Some(12));
        assert_eq!(parse_migrations("se.exec_start : 1"), None);
    }

    #[test]
    fn recorded_processes_are_read() {
        let dir = tree(&[
            ("proc/5/task/5/stat", stat_line("sh", 'S', 1, 5, 1)),
            ("proc/5/task/6/stat", stat_line("sh", 'R', 1, 5, 0)),
            ("proc/5/task/5/children", "7 8 \n".into()),
            ("proc/5/task/6/children", "9".into()),
            ("proc/5/stat", stat_line("sh", 'S', 1, 5, 1)),
            ("proc/7/stat", stat_line("cat", 'S', 5, 5, 1)),
            ("proc/8/stat", stat_line("cat", 'S', 5, 8, 1)),
            ("proc/8/task/8/stat", stat_line("cat", 'S', 5, 8, 1)),
            ("proc/5/status", "Name:\tsh\nVmSwap:\t      12 kB\n".into()),
            ("proc/swaps", "Filename Type Size Used Priority\n/swap file 1 0 -2\n".into()),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2400000\n".into()),
        ]);
        let proc = Proc::at(dir.path());
        let sorted = |mut pids: Vec<u32>| {
            pids.sort_unstable();
            pids
        };
        assert_eq!(sorted(proc.threads(5)), [5, 6]);
        assert_eq!(proc.thread_stat(5, 6).unwrap().cpu, CpuId(0));
        assert_eq!(proc.children(5).map(sorted), Some(vec![7, 8, 9]));
        assert_eq!(proc.children(8), None, "a kernel without the file");
        assert_eq!(proc.children(99), Some(vec![]), "a process that has ended");
        assert_eq!(sorted(proc.processes_of_group(5)), [5, 7]);
        assert_eq!(proc.swapped(5), Some(Bytes(12 << 10)));
        assert_eq!(proc.swapped(8), None);
        assert!(proc.has_swap());
        assert_eq!(proc.frequency_khz(CpuId(1)), Ok(2_400_000));
        assert!(proc.frequency_khz(CpuId(0)).unwrap_err().contains("cpu0"));
        assert!(proc.pressure("cpu").unwrap_err().starts_with("/proc/pressure/cpu: "));
        assert_eq!(proc.memory_node_count(), None);
    }
}
