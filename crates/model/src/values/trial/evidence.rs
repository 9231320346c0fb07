//! Evidence: observations during a trial. Facts only; `verdict` judges them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CpuTime;
use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::units::{Bytes, Nanos};

/// Observations during one trial. A field is `None` if it cannot be observed; `unavailable` has the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The affinity mask that the kernel reported for the process before its first instruction.
    pub mask_at_start: Option<CpuSet>,
    /// Union of the affinity masks of all threads over all polls; wider than requested if the process changed its
    /// affinity.
    pub mask_at_end: Option<CpuSet>,
    /// All CPUs on which a thread was observed.
    pub cpus_seen: CpuSet,
    /// Number of polls of the threads.
    #[serde(rename = "polls", alias = "looks")]
    pub polls: u64,
    /// Maximum number of threads in one poll.
    pub threads_seen: u64,
    /// One entry per thread of a built-in kernel: requested CPU, affinity read back, CPUs on which it ran.
    #[serde(rename = "thread_bindings", alias = "thread_seats")]
    pub thread_bindings: Vec<ThreadBinding>,
    /// Resident pages of the measured memory by node: `move_pages(2)` for built-in kernels, `numa_maps` (anonymous
    /// memory) for commands.
    pub pages: BTreeMap<NodeId, u64>,
    /// Resident file-backed pages by node. A policy does not move pages that are already in the page cache.
    pub file_pages: BTreeMap<NodeId, u64>,
    /// The mapped files with the most pages in `file_pages`. Not recorded on machines with one memory node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FilePages>,
    /// Maximum number of resident pages of one of its processes, of which `pages` and `file_pages` saw a part; `None` if
    /// the kernel was asked for every page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_peak: Option<u64>,
    /// File behind the measured memory; `None` unless far memory was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<FarMemory>,
    /// Local memory nodes of the bound CPUs; `None` if unbound or not observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_nodes: Option<NodeSet>,
    /// Memory policy as reported by the kernel (`bind:0`, `default`).
    pub memory_policy: Option<String>,
    /// Migrations between CPUs after the start. Sampled at the polls unless an exact count was requested.
    pub migrations: Option<u64>,
    /// Context switches because a thread waited.
    pub switches_voluntary: Option<u64>,
    /// Context switches because a thread was preempted.
    pub switches_involuntary: Option<u64>,
    /// Page faults that read from a disk.
    pub faults_major: Option<u64>,
    /// Page faults without disk access.
    pub faults_minor: Option<u64>,
    /// Maximum swapped-out memory of the observed processes in one poll.
    pub swapped: Option<Bytes>,
    /// Number of processes on the whole machine that the OOM killer ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Memory of the whole machine that the kernel moved to a higher memory tier. `None` on a machine with one memory node.
    /// The kernel counts pages per CPU and adds up about once a second, so up to 125 pages per CPU and node may be missing,
    /// or be of the time before the trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted: Option<Bytes>,
    /// Memory of the whole machine that the kernel moved to a lower memory tier to free a higher one; otherwise as
    /// `promoted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demoted: Option<Bytes>,
    /// Time that the hypervisor took from the bound CPUs (all CPUs if unbound).
    pub steal: Option<Nanos>,
    /// CPU time on the bound CPUs (all CPUs if unbound) that was neither idle nor the trial's. The kernel counts in
    /// ticks, so it is imprecise for short trials.
    pub foreign: Option<Nanos>,
    /// Time of each CPU of the machine, over all processes: during the timed region for kernels that record it
    /// themselves (`io`), otherwise from start to exit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_times: BTreeMap<CpuId, CpuTime>,
    /// Time for which threads of the trial were ready but none of them ran on their CPU, because something else did:
    /// the mean over the CPUs in use (`full` in the `cpu.pressure` of its cgroup). Includes threads that have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_stall: Option<Nanos>,
    /// Time for which its threads were ready and waited for a CPU, also for each other: the sum over all threads seen,
    /// up to the last poll of each (/proc/PID/task/TID/schedstat).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_wait: Option<Nanos>,
    /// The run-queue wait of the thread that waited longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_wait_max: Option<Nanos>,
    /// Time for which the CPU quota of a cgroup above the trial kept its CPUs from running it, over all CPUs; of the
    /// cgroup with the longest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Nanos>,
    /// Time for which a signal or a debugger had stopped the process: exact for the first process, otherwise from poll
    /// to poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Nanos>,
    /// Growth of /proc/pressure/cpu "some" over the trial. Not judged, because it counts every thread of the machine.
    pub pressure_cpu: Option<Nanos>,
    /// Growth of /proc/pressure/memory "some" over the trial.
    pub pressure_memory: Option<Nanos>,
    /// Use of the DRAM budget; `None` without a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<DramBudgetUse>,
    /// Number of interrupts on the bound CPUs during the trial.
    pub interrupts: Option<u64>,
    /// Interrupts of the devices that the user named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_interrupts: Vec<DeviceInterrupt>,
    /// Lowest and highest frequency in kHz during the trial, of the CPU with the largest difference.
    pub frequency_khz: Option<(u64, u64)>,
    /// Files whose cached pages were moved or dropped before the trial; `None` if that was not required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheStart>,
    /// Copies of program and libraries that the command ran from; `None` if its placement requires none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_copy: Option<TextCopy>,
    /// From start to exit of the process.
    pub wall: Nanos,
    /// User and system time of the process and its reaped children.
    pub cpu_time: Nanos,
    /// Reasons for missing observations, by field name.
    pub unavailable: BTreeMap<String, String>,
    /// Evidence of the second command, such as a server, from start to stop; `None` without one. All other fields cover
    /// only the measured command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<Box<Evidence>>,
}

/// Share of remote pages from which they matter: a remote access takes about twice as long, so a tenth of them costs several
/// percent.
pub const REMOTE_SHARE_MIN: f64 = 0.1;
/// Minimum size of files whose memory node matters: smaller ones fit in the L2 cache of a core (1 to 2 MiB).
pub const FILE_BYTES_MIN: u64 = 2 << 20;
/// The same in pages of 4 KiB.
pub const FILE_PAGES_MIN: u64 = FILE_BYTES_MIN / 4096;

/// The page cache at the start of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCacheStart {
    /// Nodes that cached pages were moved to. Empty if they were dropped.
    #[serde(default, skip_serializing_if = "NodeSet::is_empty")]
    pub nodes: NodeSet,
    /// Files with the requested state.
    pub equalised: Vec<String>,
    /// Reasons why other files do not have it.
    pub not_equalised: BTreeMap<String, String>,
}

/// Copies of program text before a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextCopy {
    /// Nodes whose memory the copies were requested in.
    pub nodes: NodeSet,
    /// Programs and libraries that earlier trials were seen to run or load, and that were copied besides those that the
    /// command names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Resident pages of a mapped file by node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePages {
    pub path: String,
    pub kind: FileKind,
    pub pages: BTreeMap<NodeId, u64>,
    /// Whether processes outside the trial mapped it, too: its pages are shared by the whole system.
    pub is_shared: bool,
}

impl Evidence {
    /// Returns the number of resident pages that the command maps.
    pub fn mapped_pages(&self) -> u64 {
        self.pages.values().chain(self.file_pages.values()).sum()
    }
}

impl FilePages {
    /// Returns the number of its pages that are outside of these nodes.
    pub fn pages_outside(&self, nodes: &NodeSet) -> u64 {
        self.pages.iter().filter(|(node, _)| !nodes.contains(**node)).map(|(_, pages)| pages).sum()
    }

    /// Whether it is code: a program or a library.
    pub fn is_text(&self) -> bool {
        self.kind != FileKind::Data
    }

    /// Whether a placement concerns the file: data or the program, and large. Libraries, and programs that run elsewhere
    /// too, belong to the whole system.
    pub fn is_placeable(&self) -> bool {
        // Files without pages were open, and are large.
        let is_large = self.pages.is_empty() || self.pages.values().sum::<u64>() >= FILE_PAGES_MIN;
        self.kind != FileKind::Library && !self.is_shared && is_large
    }
}

/// Kind of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    Program,
    Library,
    Data,
}

/// Memory use of a trial with a DRAM budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DramBudgetUse {
    /// DRAM limit as read back from the kernel.
    pub dram: Bytes,
    /// Bytes read from far memory.
    pub read: Bytes,
    pub written: Bytes,
    /// Number of its processes that the OOM killer ended because far memory was full.
    pub killed: u64,
    /// Bytes that the paging controller prefetched; `None` without one.
    #[serde(rename = "prefetched", alias = "fetched", skip_serializing_if = "Option::is_none")]
    pub prefetched: Option<Bytes>,
    #[serde(rename = "controller_cpu", alias = "pilot_cpu", skip_serializing_if = "Option::is_none")]
    pub controller_cpu: Option<Nanos>,
    /// Traffic of the compressed tier; `None` if the kernel has none that counts towards the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed: Option<CompressedTraffic>,
    /// Swap areas of others that the kernel fills before this one or in turn with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_swap: Vec<String>,
}

/// Evicted pages that were kept compressed in DRAM, in bytes before compression, since the program was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompressedTraffic {
    /// Compressed.
    pub stored: Bytes,
    /// Decompressed because the program used them, or the paging controller prefetched them.
    pub loaded: Bytes,
    /// Decompressed and written to disk, to free DRAM.
    pub written_back: Bytes,
    /// Peak of the DRAM that they used, sampled during the trial; `None` in results of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram_max: Option<Bytes>,
}

/// Observations about memory that is a mapped file on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarMemory {
    pub bytes: Bytes,
    /// Bytes in shared mappings of the far file, at the expected offsets (`/proc/self/maps`).
    pub of_file: Bytes,
    /// Bytes in DRAM (the page cache) at the end of the measurement (mincore(2)); `None` if the kernel does not report
    /// it.
    pub resident: Option<Bytes>,
    pub file_system: String,
}

/// A device interrupt during a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInterrupt {
    pub device: String,
    pub number: u32,
    pub name: String,
    /// CPUs that could handle it when the trial began.
    pub affinity_at_start: CpuSet,
    /// CPUs that could handle it when the trial had ended.
    pub affinity_at_end: CpuSet,
    /// CPUs that handled it when the trial began. A new affinity may take effect only at the next interrupt.
    pub effective_at_start: CpuSet,
    /// CPUs that handled it when the trial had ended.
    pub effective_at_end: CpuSet,
    /// Number of occurrences during the trial, by CPU.
    pub arrived: BTreeMap<CpuId, u64>,
}

impl FarMemory {
    /// Adds other memory of the same trial.
    pub fn add(&mut self, other: &Self) {
        self.bytes.0 += other.bytes.0;
        self.of_file.0 += other.of_file.0;
        let both = self.resident.zip(other.resident);
        self.resident = both.map(|(one, other)| Bytes(one.0 + other.0));
        self.file_system.clone_from(&other.file_system);
    }
}

/// Binding of one worker thread of a built-in kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadBinding {
    #[serde(rename = "requested", alias = "asked")]
    pub requested: CpuId,
    /// Affinity mask as reported by the kernel.
    pub mask: CpuSet,
    /// CPU on which it ran before the timed region.
    pub before: CpuId,
    /// CPU on which it ran after the timed region.
    pub after: CpuId,
}
