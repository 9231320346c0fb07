//! Block and network devices: where they hang and which interrupts they raise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, CpuSet, NodeId};

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Block,
    Network,
}

/// A block or network device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name under /sys/block or /sys/class/net.
    pub name: String,
    pub kind: DeviceKind,
    /// The bus address of the device that it hangs on, such as `0000:01:00.0` or `virtio3`.
    pub bus: Option<String>,
    /// The memory node next to it, where the system knows one.
    pub node: Option<NodeId>,
    /// Its interrupts, lowest number first.
    pub interrupts: Vec<Interrupt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    pub number: u32,
    /// Its name in /proc/interrupts, such as `virtio0-req.0`.
    pub name: String,
    /// Cpus that may take it.
    pub affinity: CpuSet,
    /// Cpus that take it now.
    pub effective: CpuSet,
    /// Whether its affinity can be changed.
    #[serde(default, skip_serializing_if = "Movability::is_unknown")]
    pub movability: Movability,
}

/// Whether an interrupt's affinity can be changed from outside the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Movability {
    /// The kernel tells only root, and not in every container.
    #[default]
    Unknown,
    Movable,
    /// The kernel spreads the device's queues over the cpus itself and lets nobody move them.
    Managed,
}

impl Movability {
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }

    /// `movable`, `managed`, or `not known`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Unknown => "not known",
            Self::Movable => "movable",
            Self::Managed => "managed",
        }
    }
}

/// How often each interrupt came since boot, by number and cpu; cpus that took none are left out.
pub type InterruptCounts = BTreeMap<u32, BTreeMap<CpuId, u64>>;
