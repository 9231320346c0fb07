//! Faults injected into a simulated machine: the program is killed, the disk is full, a CPU goes offline, a child
//! process hangs, a placement is violated, a trial is stopped.

use model::values::id_set::CpuId;
use model::values::trial::{Trial, TrialOutcome, TrialStatus};
use model::values::units::{Bytes, Nanos};

/// Faults to inject; none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Abort, as after SIGKILL, once this process has stored this many trials.
    pub kill_after: Option<u32>,
    /// Maximum size of the results file. The caller that opens the store sets it.
    pub disk: Option<Bytes>,
    /// CPU that goes offline, and the measured block at whose start it does.
    pub lost_cpu: Option<(CpuId, u32)>,
    /// Fraction of trials that never end, 0 to 1.
    pub never_ends: f64,
    /// Fraction of pinned trials that run on another CPU, 0 to 1.
    pub escapes: f64,
    /// Fraction of trials that are stopped for a quarter of their time, 0 to 1.
    pub stops: f64,
}

impl Faults {
    /// Reads `kill-after=7,disk=200KiB,lost-cpu=3@2,never-ends=0.01,escapes=0.05,stops=0.1`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let invalid = || format!("invalid value '{value}' for fault '{name}'");
            let share = || value.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(invalid);
            match name {
                "kill-after" => faults.kill_after = Some(value.parse().map_err(|_| invalid())?),
                "disk" => faults.disk = Some(Bytes::parse(value).map_err(|_| invalid())?),
                "lost-cpu" => {
                    let (cpu, block) = value.split_once('@').ok_or_else(invalid)?;
                    faults.lost_cpu =
                        Some((CpuId(cpu.parse().map_err(|_| invalid())?), block.parse().map_err(|_| invalid())?));
                }
                "never-ends" => faults.never_ends = share()?,
                "escapes" => faults.escapes = share()?,
                "stops" => faults.stops = share()?,
                _ => {
                    let names = "kill-after, disk, lost-cpu, never-ends, escapes, stops";
                    return Err(format!("unknown fault '{name}'; known faults: {names}"));
                }
            }
        }
        Ok(faults)
    }

    /// Aborts without clean-up if the configured number of trials is stored.
    pub fn kill_after_stored(&self, stored: u32) {
        if self.kill_after == Some(stored) {
            std::process::abort();
        }
    }

    /// Applies the faults to the outcome of a trial.
    pub fn inject(&self, trial: &Trial, seed: u64, outcome: &mut TrialOutcome) {
        let chance = seed as f64 / u64::MAX as f64;
        if chance < self.never_ends {
            outcome.status = TrialStatus::timed_out(trial.time_limit);
            outcome.samples.clear();
            outcome.took = trial.time_limit;
        } else if chance < self.never_ends + self.escapes && trial.placement.is_pinned() {
            // The CPU after the highest bound one is outside the placement.
            let beyond = trial.placement.bindings.iter().map(|cpu| cpu.0).max().unwrap_or(0) + 1;
            outcome.evidence.cpus_seen.insert(CpuId(beyond));
        } else if 1.0 - chance < self.stops {
            outcome.evidence.stopped = Some(Nanos(outcome.evidence.wall.0 / 4));
        }
        if let Some((cpu, block)) = self.lost_cpu
            && trial.block >= block
            && let Some(mask) = outcome.evidence.mask_at_start.as_mut()
        {
            mask.remove(cpu);
        }
    }
}
