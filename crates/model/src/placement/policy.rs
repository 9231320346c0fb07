//! Named policies: what each makes of a machine.

use serde::Serialize;

use super::Placement;
use crate::topology::Topology;

/// A policy as `nearfar list policies` shows it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PolicyInfo {
    /// Its name; `node:N` stands for one name per node.
    pub name: &'static str,
    /// What it makes, one line.
    pub about: &'static str,
}

/// What a policy makes of this machine, or why it cannot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// The policy's name.
    pub policy: String,
    /// The placement, or the reason why this machine lacks it.
    pub placement: Result<Placement, String>,
}

/// Every policy, in the order in which people read them.
pub const POLICIES: &[PolicyInfo] = &[];

/// One policy (or a combination `SEATS+MEMORY`) on this machine.
pub fn offer(_topology: &Topology, _policy: &str, _threads: usize) -> Result<Placement, String> {
    Err("not yet".into())
}

/// Every policy on this machine.
pub fn offer_all(_topology: &Topology, _threads: usize) -> Vec<Offer> {
    Vec::new()
}
