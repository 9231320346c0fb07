//! What on a machine would spoil a measurement, and what cannot be measured on it: facts in, complaints out, each with
//! its reason, its effect and the fix. Must not know how the facts were read.

mod checks;
mod expand;

pub use expand::{ExpandProbes, refusal};

use serde::Serialize;

use crate::values::settings::Settings;
use crate::values::undo::SettingChange;
use crate::values::units::Bytes;

/// What is known of a machine beside its settings; an error is why it cannot be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Probes {
    /// What the cpus did while we looked.
    pub load: Result<Load, String>,
    /// How often cpus were slowed down for heat since boot.
    pub throttled: Result<u64, String>,
    /// Room for results.
    pub free: Result<Bytes, String>,
    /// Whether the daemon that moves interrupts runs and is not paused.
    pub irqbalance: bool,
    /// Settings that an interrupted run left changed.
    pub left: Result<Vec<SettingChange>, String>,
    /// Whether we are root.
    pub root: bool,
    /// Whether the hardware counts cycles for us.
    pub counters: Counters,
    /// Memory nodes with memory.
    pub nodes: Option<usize>,
    /// What `nearfar expand` would find.
    pub expand: ExpandProbes,
    /// Interrupts that the kernel has spread over the cpus itself and lets nobody move.
    pub managed_interrupts: Vec<String>,
}

/// Whether the hardware counts for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counters {
    /// It does.
    Work,
    /// The kernel does not permit it: its answer.
    Forbidden(String),
    /// There are none: the kernel's answer.
    Missing(String),
}

/// What all online cpus together did, in thousandths of one cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Anything but idle; we slept.
    pub busy_milli: u64,
    /// The hypervisor ran somebody else.
    pub steal_milli: u64,
    /// Online cpus.
    pub cpus: u64,
}

/// What a complaint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemGroup {
    /// It would spoil a measurement.
    #[serde(rename = "spoils")]
    Disturbs,
    /// It cannot be measured or set here.
    CannotMeasure,
    /// `nearfar expand` does without it, or cannot.
    #[serde(rename = "expand-lacks")]
    ExpandRequirement,
}

/// Something that is not as a measurement wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// A stable name.
    pub key: &'static str,
    /// What it is about.
    pub group: ProblemGroup,
    /// What was found.
    #[serde(rename = "found")]
    pub found: String,
    /// What it does to a measurement.
    pub effect: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// A line to paste that does it, where there is one.
    pub command: Option<&'static str>,
}

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What is not well, in the order in which it is worth looking at.
    #[serde(rename = "problems")]
    pub complaints: Vec<Problem>,
    /// The names of what is well.
    #[serde(rename = "ok")]
    pub well: Vec<&'static str>,
}

/// Looks at everything.
pub fn diagnose(settings: &Settings, signs: &Probes) -> Diagnosis {
    let mut diagnosis = Diagnosis { complaints: Vec::new(), well: Vec::new() };
    for check in &checks::CHECKS {
        match (check.look)(settings, signs) {
            // What cannot be told is neither well nor sick; where that matters another check says so.
            None => {}
            Some(None) => diagnosis.well.push(check.key),
            Some(Some(found)) => diagnosis.complaints.push(Problem {
                key: check.key,
                group: check.group,
                found,
                effect: check.effect,
                fix: check.fix,
                command: check.command,
            }),
        }
    }
    for (key, complaint) in expand::look(&signs.expand) {
        match complaint {
            None => diagnosis.well.push(key),
            Some(complaint) => diagnosis.complaints.push(complaint),
        }
    }
    diagnosis
}

#[cfg(test)]
mod tests;
