//! What goes wrong on a simulated machine, when asked: the program is killed, the disk is full, a cpu goes away, a
//! child never ends, a placement is not obeyed.

use model::values::id_set::CpuId;
use model::values::trial::{Outcome, Trial, TrialStatus};
use model::values::units::Bytes;

/// Faults, all off by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Die like `kill -9` when so many trials of this process are stored.
    pub kill_after: Option<u32>,
    /// The disk has room for a results file of this size; whoever opens the file has to say so to the store.
    pub disk: Option<Bytes>,
    /// This cpu goes offline when this measured block begins.
    pub lost_cpu: Option<(CpuId, u32)>,
    /// This share of the trials never ends.
    pub never_ends: f64,
    /// This share of the trials runs elsewhere than it was told.
    pub escapes: f64,
}

impl Faults {
    /// Reads `kill-after=7,disk=200KiB,lost-cpu=3@2,never-ends=0.01,escapes=0.05`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let wrong = || format!("'{value}' is not a value for the fault {name}");
            let share = || value.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(wrong);
            match name {
                "kill-after" => faults.kill_after = Some(value.parse().map_err(|_| wrong())?),
                "disk" => faults.disk = Some(Bytes::parse(value).map_err(|_| wrong())?),
                "lost-cpu" => {
                    let (cpu, block) = value.split_once('@').ok_or_else(wrong)?;
                    faults.lost_cpu =
                        Some((CpuId(cpu.parse().map_err(|_| wrong())?), block.parse().map_err(|_| wrong())?));
                }
                "never-ends" => faults.never_ends = share()?,
                "escapes" => faults.escapes = share()?,
                _ => {
                    let names = "kill-after, disk, lost-cpu, never-ends, escapes";
                    return Err(format!("'{name}' is not a fault; they are {names}"));
                }
            }
        }
        Ok(faults)
    }

    /// Dies without any clean-up when enough trials are stored: what `kill -9` leaves behind.
    pub fn kill_after_stored(&self, stored: u32) {
        if self.kill_after == Some(stored) {
            std::process::abort();
        }
    }

    /// Changes the outcome of a trial that a fault strikes.
    pub fn inject(&self, trial: &Trial, seed: u64, outcome: &mut Outcome) {
        let chance = seed as f64 / u64::MAX as f64;
        if chance < self.never_ends {
            outcome.status = TrialStatus::timed_out(trial.time_limit);
            outcome.samples.clear();
            outcome.took = trial.time_limit;
        } else if chance < self.never_ends + self.escapes && trial.placement.is_pinned() {
            // Beyond every seat there is at least the cpu after the highest.
            let beyond = trial.placement.seats.iter().map(|cpu| cpu.0).max().unwrap_or(0) + 1;
            outcome.evidence.cpus_seen.insert(CpuId(beyond));
        }
        if let Some((cpu, block)) = self.lost_cpu
            && trial.block >= block
            && let Some(mask) = outcome.evidence.mask_at_start.as_mut()
        {
            mask.remove(cpu);
        }
    }
}
