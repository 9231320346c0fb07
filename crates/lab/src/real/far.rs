//! A trial's program on its budget of DRAM, for as long as it runs. How that is done is for `farmem`.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use farmem::{Expansion, ExpansionLimits, PagingMode, Unavailable};
use machine::child::{Exit, SpawnSpec};
use machine::undo::SettingsRoot;
use model::placements::placement::DramBudget;
use model::values::trial::{DramBudgetUse, TrialStatus};
use model::values::units::{Bytes, Nanos};
use workloads::{CommandLine, with_hint};

use super::{bare, run_to_its_end};

/// More than any machine has: bounds nothing.
const ALL: Bytes = Bytes(1 << 50);
/// Nothing goes far in a command that nothing bounds.
const PROBE_FAR: Bytes = Bytes(16 << 20);
/// How often it is looked what a command holds.
const LOOK: Duration = Duration::from_millis(2);

/// Where trials with a budget of DRAM keep what does not fit, and what they change.
#[derive(Clone, Debug)]
pub struct FarConfig {
    /// The folder of the file for far memory.
    pub folder: PathBuf,
    /// Where settings and their journal are.
    pub site: SettingsRoot,
}

/// Sets up a budget; to be called on the thread that will start the program.
pub(super) fn begin(budget: DramBudget, far: &FarConfig) -> Result<(Expansion, Arc<File>), TrialStatus> {
    let engine = if budget.steered { PagingMode::Steered } else { PagingMode::Plain };
    let budget = ExpansionLimits { engine, folder: far.folder.clone(), ..ExpansionLimits::of(budget.dram) };
    let expansion = Expansion::start(&budget, &far.site.own()).map_err(|refused| status(&refused))?;
    let entrance = expansion.cgroup_procs().map_err(|refused| status(&refused))?;
    Ok((expansion, Arc::new(entrance)))
}

/// Takes it away again, with whatever the program left running, and says what became of it.
pub(super) fn end(expansion: Expansion) -> Result<DramBudgetUse, TrialStatus> {
    let dram = expansion.dram();
    expansion.kill_all();
    let (state, restored) = expansion.stop();
    if let Some(left) = restored.iter().find(|restored| !restored.is_settled()) {
        return Err(TrialStatus::Failed(format!("{left}; hint: nearfar restore tries again")));
    }
    Ok(DramBudgetUse {
        dram,
        read: state.far_read,
        written: state.far_written,
        killed: state.killed,
        fetched: state.piloted.map(|piloted| Bytes(piloted.counts.fetched * farmem::page_bytes())),
        pilot_cpu: state.piloted.map(|piloted| Nanos((piloted.cpu * 1e9) as u64)),
    })
}

/// What a command holds at most when nothing bounds it: its own memory, without files that the kernel keeps for it.
pub fn required(argv: &[String], far: &FarConfig, time_limit: Nanos, stop: &AtomicBool) -> Result<Bytes, TrialStatus> {
    let unbounded = ExpansionLimits {
        engine: PagingMode::Plain,
        folder: far.folder.clone(),
        far: PROBE_FAR,
        ..ExpansionLimits::of(ALL)
    };
    let expansion = Expansion::start(&unbounded, &far.site.own()).map_err(|refused| status(&refused))?;
    let entrance = expansion.cgroup_procs().map(Arc::new).map_err(|refused| status(&refused))?;
    let line = CommandLine { argv: argv.to_vec(), environment: BTreeMap::new() };
    let launch = SpawnSpec { time_limit, entrance: Some(entrance), ..bare(&line) };
    let over = AtomicBool::new(false);
    let (finished, most) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| most_held(&expansion, &over));
        let finished = run_to_its_end(&launch, &[stop]);
        over.store(true, Ordering::Relaxed);
        (finished, looking.join().expect("looking has no reason to panic"))
    });
    end(expansion)?;
    let finished = finished?;
    if finished.exit == Exit::Code(0) {
        return Ok(most);
    }
    Err(TrialStatus::Failed(format!("without a budget it ended with {}", finished.stderr_tail())))
}

fn most_held(expansion: &Expansion, over: &AtomicBool) -> Bytes {
    let mut most = Bytes::default();
    while !over.load(Ordering::Relaxed) {
        most = most.max(expansion.own_memory());
        std::thread::sleep(LOOK);
    }
    most
}

fn status(refused: &Unavailable) -> TrialStatus {
    let words = with_hint(refused, refused.hint.as_deref());
    if refused.not_permitted { TrialStatus::Unavailable(words) } else { TrialStatus::Failed(words) }
}
