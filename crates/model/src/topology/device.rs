//! Block and network devices: where they hang and which interrupts they raise.

use serde::{Deserialize, Serialize};

use crate::id_set::{CpuSet, NodeId};

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A disk.
    Block,
    /// A network interface.
    Network,
}

/// A block or network device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name under /sys/block or /sys/class/net.
    pub name: String,
    /// What it is for.
    pub kind: DeviceKind,
    /// The bus address of the device that it hangs on, such as `0000:01:00.0` or `virtio3`.
    pub bus: Option<String>,
    /// The memory node next to it, where the system knows one.
    pub node: Option<NodeId>,
    /// Its interrupts, lowest number first.
    pub interrupts: Vec<Interrupt>,
}

/// One interrupt line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The system's number.
    pub number: u32,
    /// Its name in /proc/interrupts, such as `virtio0-req.0`.
    pub name: String,
    /// Cpus that may take it.
    pub affinity: CpuSet,
    /// Cpus that take it now.
    pub effective: CpuSet,
}
