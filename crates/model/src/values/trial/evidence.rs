//! What was observed while a trial ran. Facts only; `verdict` weighs them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CpuTime;
use crate::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use crate::values::units::{Bytes, Nanos};

/// What was observed about one trial. A field is none when it cannot be observed here; `unavailable` says why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The affinity mask that the kernel reported for the process before its first instruction.
    pub mask_at_start: Option<CpuSet>,
    /// The affinity masks of all threads at all looks, joined; wider than asked means that it moved itself.
    pub mask_at_end: Option<CpuSet>,
    /// Every cpu on which a thread was seen.
    pub cpus_seen: CpuSet,
    /// How many times threads were looked at.
    #[serde(rename = "polls", alias = "looks")]
    pub looks: u64,
    /// The most threads seen at once.
    pub threads_seen: u64,
    /// Our own kernels prove each thread: where it was asked to sit, what it read back, where it ran.
    #[serde(rename = "thread_bindings", alias = "thread_seats")]
    pub thread_seats: Vec<ThreadBinding>,
    /// Resident pages of the measured memory by node: `move_pages(2)` for our kernels, `numa_maps`
    /// (anonymous memory) for commands.
    pub pages: BTreeMap<NodeId, u64>,
    /// Resident file-backed pages by node; a policy does not move what the page cache already holds.
    pub file_pages: BTreeMap<NodeId, u64>,
    /// What was behind the measured memory, where that was to be beyond DRAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<FarMemory>,
    /// The memory nodes of the seats' cpus; none when unseated, or not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_nodes: Option<NodeSet>,
    /// The memory policy that the kernel reported back, in its own words (`bind:0`, `default`).
    pub memory_policy: Option<String>,
    /// Moves from cpu to cpu, after the start. Sampled at the looks unless an exact count was asked for.
    pub migrations: Option<u64>,
    /// Gave up the cpu by waiting.
    pub switches_voluntary: Option<u64>,
    /// Had the cpu taken away.
    pub switches_involuntary: Option<u64>,
    /// Page faults that needed a disk.
    pub faults_major: Option<u64>,
    /// Page faults that did not.
    pub faults_minor: Option<u64>,
    /// The most swapped-out memory of the processes that a look saw.
    pub swapped: Option<Bytes>,
    /// Processes of the whole machine that the kernel killed because memory was short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Time that the hypervisor took from the seats (all cpus when unseated).
    pub steal: Option<Nanos>,
    /// Cpu time on the seats (all cpus when unseated) that was neither idle nor the trial's own. The kernel counts
    /// it in ticks, so it is rough for short trials.
    pub foreign: Option<Nanos>,
    /// What each cpu of the machine did meanwhile, whoever had it do that: of kernels that look themselves (`io`) during
    /// the timed region, of all others from start to exit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_times: BTreeMap<CpuId, CpuTime>,
    /// Growth of /proc/pressure/cpu "some" over the trial.
    pub pressure_cpu: Option<Nanos>,
    /// Growth of /proc/pressure/memory "some" over the trial.
    pub pressure_memory: Option<Nanos>,
    /// What became of its budget of DRAM; none where it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<DramBudgetUse>,
    /// Interrupts that the seats took during the trial.
    pub interrupts: Option<u64>,
    /// What became of the interrupts of the devices that the user named; empty when none was named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_interrupts: Vec<DeviceInterrupt>,
    /// Lowest and highest frequency, kHz, of that cpu on which they differed most while the trial ran on it.
    pub frequency_khz: Option<(u64, u64)>,
    /// From start to exit of the process.
    pub wall: Nanos,
    /// User and system time of the process and its waited-for children.
    pub cpu_time: Nanos,
    /// What could not be observed here, and why: field name to reason.
    pub unavailable: BTreeMap<String, String>,
    /// The same of the second command, such as a server, from its start until it was stopped; none where there was
    /// none. All other fields are of the measured command alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<Box<Evidence>>,
}

/// A trial's memory under a budget of DRAM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DramBudgetUse {
    /// The DRAM that it could have, as the kernel read it back.
    pub dram: Bytes,
    /// Read from far memory.
    pub read: Bytes,
    pub written: Bytes,
    /// Processes of it that the kernel killed because nothing more could go far.
    pub killed: u64,
    /// Bytes that the pilot had fetched ahead; none without a pilot.
    #[serde(rename = "prefetched", alias = "fetched", skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Bytes>,
    #[serde(rename = "controller_cpu", alias = "pilot_cpu", skip_serializing_if = "Option::is_none")]
    pub pilot_cpu: Option<Nanos>,
}

/// What the kernel says of memory that is a file on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarMemory {
    pub bytes: Bytes,
    /// How much of it is a shared mapping of that very file, each byte at its own place (`/proc/self/maps`).
    pub of_file: Bytes,
    /// How much was in DRAM (the page cache) when the measurement had ended (mincore(2)); none where the kernel does not tell.
    pub resident: Option<Bytes>,
    pub file_system: String,
}

/// One interrupt of a device during a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInterrupt {
    pub device: String,
    /// The system's number of the interrupt.
    pub number: u32,
    pub name: String,
    /// The cpus that could take it when the trial began.
    pub affinity_at_start: CpuSet,
    /// And when it had ended.
    pub affinity_at_end: CpuSet,
    /// The cpus that took it when the trial began. A new affinity may wait for the next interrupt.
    pub effective_at_start: CpuSet,
    /// And when it had ended.
    pub effective_at_end: CpuSet,
    /// How often it came during the trial, by cpu.
    pub arrived: BTreeMap<CpuId, u64>,
}

impl FarMemory {
    /// Together with other memory of the same trial.
    pub fn add(&mut self, other: &Self) {
        self.bytes.0 += other.bytes.0;
        self.of_file.0 += other.of_file.0;
        let both = self.resident.zip(other.resident);
        self.resident = both.map(|(one, other)| Bytes(one.0 + other.0));
        self.file_system.clone_from(&other.file_system);
    }
}

/// One worker thread of our own kernels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadBinding {
    /// Where it was asked to sit.
    #[serde(rename = "requested", alias = "asked")]
    pub asked: CpuId,
    /// The mask that the kernel reported back.
    pub mask: CpuSet,
    /// The cpu on which it was before the timed region.
    pub before: CpuId,
    /// The cpu on which it was after it.
    pub after: CpuId,
}
