//! Diagnoses problems that would disturb measurements on a machine, and measurements that it does not support. Must not
//! depend on how the facts are read.

mod checks;
mod expand;

pub use expand::{ExpandProbes, refusal};

use serde::Serialize;

use crate::values::settings::Settings;
use crate::values::undo::SettingChange;
use crate::values::units::Bytes;

/// Facts about a machine besides its settings; an error is the reason why a fact is unavailable.
#[derive(Clone, Debug, PartialEq)]
pub struct Probes {
    /// CPU load while probing.
    pub load: Result<Load, String>,
    /// Number of thermal throttling events since boot.
    pub throttled: Result<u64, String>,
    /// Free disk space for results.
    pub free: Result<Bytes, String>,
    /// Whether the irqbalance daemon runs and is not paused.
    pub irqbalance: bool,
    /// Settings that an interrupted run did not restore.
    pub pending_restores: Result<Vec<SettingChange>, String>,
    /// Whether this process runs as root.
    pub root: bool,
    /// Availability of hardware counters.
    pub counters: Counters,
    /// Number of nodes with memory; `None` if unknown.
    pub nodes: Option<usize>,
    /// Whether the kernel reports the memory node of a page (`move_pages`).
    pub page_nodes: Result<(), String>,
    /// Whether it reports that of a cached page of a file (`MADV_POPULATE_READ`).
    pub cached_page_nodes: Result<(), String>,
    /// Whether copies of programs may be mounted, or the reason why not.
    pub text_copies: Result<(), String>,
    /// Whether the kernel has the memory policy.
    pub weighted_interleave: bool,
    /// Probes of the requirements of `nearfar expand`.
    pub expand: ExpandProbes,
    /// Interrupts managed by the kernel, whose affinity cannot be changed.
    pub managed_interrupts: Vec<String>,
}

/// Availability of hardware counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counters {
    Work,
    /// Not permitted, with the error of the kernel.
    Forbidden(String),
    /// Not available, with the error of the kernel.
    Missing(String),
}

/// Total load of all online CPUs, in thousandths of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Time that was not idle, while this process slept.
    pub busy_milli: u64,
    /// Time that the hypervisor took.
    pub steal_milli: u64,
    pub cpus: u64,
}

/// Category of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemGroup {
    /// Would disturb a measurement.
    #[serde(rename = "spoils")]
    Disturbs,
    /// A fact or setting that is unavailable on this machine.
    CannotMeasure,
    /// A missing requirement of `nearfar expand`.
    #[serde(rename = "expand-lacks")]
    ExpandRequirement,
}

/// A finding of `nearfar doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub key: &'static str,
    pub group: ProblemGroup,
    #[serde(rename = "found")]
    pub found: String,
    /// Effect on measurements.
    pub effect: &'static str,
    /// Recommended action.
    pub fix: &'static str,
    /// Shell command for the action, if one exists.
    pub command: Option<&'static str>,
}

/// Result of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Problems in descending order of priority.
    #[serde(rename = "problems")]
    pub problems: Vec<Problem>,
    /// Keys of the checks that passed.
    #[serde(rename = "ok")]
    pub ok: Vec<&'static str>,
}

/// Runs all checks.
pub fn diagnose(settings: &Settings, probes: &Probes) -> Diagnosis {
    let mut diagnosis = Diagnosis { problems: Vec::new(), ok: Vec::new() };
    for check in &checks::CHECKS {
        match (check.run)(settings, probes) {
            // An unavailable fact is neither a problem nor ok; another check reports it if it matters.
            None => {}
            Some(None) => diagnosis.ok.push(check.key),
            Some(Some(found)) => diagnosis.problems.push(Problem {
                key: check.key,
                group: check.group,
                found,
                effect: check.effect,
                fix: check.fix,
                command: check.command,
            }),
        }
    }
    for (key, problem) in expand::run(&probes.expand) {
        match problem {
            None => diagnosis.ok.push(key),
            Some(problem) => diagnosis.problems.push(problem),
        }
    }
    diagnosis
}

#[cfg(test)]
mod tests;
