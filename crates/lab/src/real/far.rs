//! Runs the program of a trial with a DRAM limit, in an expansion of `farmem`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use farmem::{Expansion, ExpansionLimits, PagingMode, Unavailable};
use machine::undo::SettingsRoot;
use model::values::placement::DramBudget;
use model::values::trial::{DramBudgetUse, Trial, TrialStatus};
use model::values::units::{Bytes, Nanos};
use workloads::with_hint;

use super::page_cache::UsedFiles;
use super::run_tool;

/// A limit larger than the memory of any machine.
const ALL: Bytes = Bytes(1 << 50);
/// Swap of an expansion without a limit, which pages nothing out.
const PROBE_FAR: Bytes = Bytes(16 << 20);
/// Interval between two samples of a command's memory use.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Location of far memory and of system settings for trials with a DRAM budget.
#[derive(Clone, Debug)]
pub struct FarConfig {
    /// The directory of the swap file.
    pub directory: PathBuf,
    /// Root directory of settings and their undo journal.
    pub site: SettingsRoot,
}

/// Sets up an expansion. Call it on the thread that will start the program.
pub(super) fn begin(budget: DramBudget, far: &FarConfig) -> Result<(Expansion, Arc<File>), TrialStatus> {
    let engine = if budget.steered { PagingMode::Steered } else { PagingMode::Plain };
    let budget = ExpansionLimits {
        engine,
        directory: far.directory.clone(),
        compressed: budget.compressed,
        ..ExpansionLimits::of(budget.dram)
    };
    let expansion = Expansion::start(&budget, &far.site.own()).map_err(|error| status(&error))?;
    let entrance = expansion.cgroup_procs().map_err(|error| status(&error))?;
    Ok((expansion, Arc::new(entrance)))
}

/// Ends an expansion, kills the processes that are left in it, and returns its memory use.
pub(super) fn end(expansion: Expansion) -> Result<DramBudgetUse, TrialStatus> {
    let dram = expansion.dram();
    expansion.kill_all();
    let other_swap = expansion.other_swap();
    let (state, restored) = expansion.stop();
    if let Some(left) = restored.iter().find(|restored| !restored.is_settled()) {
        return Err(TrialStatus::Failed(format!("{left}; hint: nearfar restore tries again")));
    }
    Ok(DramBudgetUse {
        dram,
        read: state.far_read,
        written: state.far_written,
        killed: state.killed,
        prefetched: state.piloted.map(|piloted| Bytes(piloted.counts.fetched * farmem::page_bytes())),
        controller_cpu: state.piloted.map(|piloted| Nanos((piloted.cpu * 1e9) as u64)),
        compressed: state.compressed.map(|compressed| compressed.traffic),
        other_swap,
    })
}

/// Measures the peak memory of the server of a trial or, without one, of its command, without a limit. The page cache
/// is not included. The trial is one of a tool.
pub fn required(trial: &Trial, far: &FarConfig, stop: &AtomicBool, on_wait: fn(&str)) -> Result<Bytes, TrialStatus> {
    let unbounded = ExpansionLimits {
        engine: PagingMode::Plain,
        directory: far.directory.clone(),
        far: PROBE_FAR,
        ..ExpansionLimits::of(ALL)
    };
    let expansion = Expansion::start(&unbounded, &far.site.own()).map_err(|error| status(&error))?;
    let entrance = expansion.cgroup_procs().map(Arc::new).map_err(|error| status(&error))?;
    let over = AtomicBool::new(false);
    let (outcome, peak) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| peak_memory(&expansion, &over));
        let outcome = run_tool(trial, stop, trial.time_limit, Some(entrance), &UsedFiles::default(), on_wait);
        over.store(true, Ordering::Relaxed);
        (outcome, sampler.join().expect("sampling does not panic"))
    });
    end(expansion)?;
    match outcome?.status {
        TrialStatus::Completed => Ok(peak),
        TrialStatus::Failed(why) => Err(TrialStatus::Failed(format!("without a DRAM limit: {why}"))),
        other => Err(other),
    }
}

fn peak_memory(expansion: &Expansion, over: &AtomicBool) -> Bytes {
    let mut peak = Bytes::default();
    while !over.load(Ordering::Relaxed) {
        peak = peak.max(expansion.own_memory());
        std::thread::sleep(POLL_INTERVAL);
    }
    peak
}

fn status(error: &Unavailable) -> TrialStatus {
    let message = with_hint(error);
    if error.not_permitted { TrialStatus::Unavailable(message) } else { TrialStatus::Failed(message) }
}
