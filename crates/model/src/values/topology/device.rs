//! Block and network devices: their memory nodes and interrupts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::id_set::{CpuId, CpuSet, NodeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Block,
    Network,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name in /sys/block or /sys/class/net.
    pub name: String,
    pub kind: DeviceKind,
    /// Bus address of the parent device, such as `0000:01:00.0` or `virtio3`.
    pub bus: Option<String>,
    /// Local memory node; `None` if the system does not report one.
    pub node: Option<NodeId>,
    /// Interrupts in ascending order.
    pub interrupts: Vec<Interrupt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    pub number: u32,
    /// Name in /proc/interrupts, such as `virtio0-req.0`.
    pub name: String,
    /// CPUs that may handle it.
    pub affinity: CpuSet,
    /// CPUs that handle it now.
    pub effective: CpuSet,
    #[serde(default, skip_serializing_if = "Movability::is_unknown")]
    pub movability: Movability,
}

/// Whether the affinity of an interrupt can be changed from user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Movability {
    /// The kernel reports it only to root, and not in every container.
    #[default]
    Unknown,
    Movable,
    /// The kernel spreads the device's queues over the CPUs and rejects changes of the affinity.
    Managed,
}

impl Movability {
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }

    /// Returns `movable`, `managed` or `not known`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "not known",
            Self::Movable => "movable",
            Self::Managed => "managed",
        }
    }
}

/// Counts of each interrupt since boot, by number and CPU; CPUs with a count of zero are omitted.
pub type InterruptCounts = BTreeMap<u32, BTreeMap<CpuId, u64>>;
