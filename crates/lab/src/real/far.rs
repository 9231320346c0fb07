//! A trial's program on its budget of DRAM, for as long as it runs. How that is done is for `farmem`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use farmem::{Budget, Engine, Expansion, Refused};
use machine::undo::Site;
use model::placement::DramBudget;
use model::trial::{FarMemory, Status};
use model::units::{Bytes, Nanos};

use super::with_hint;

/// Where trials with a budget of DRAM keep what does not fit, and what they change.
#[derive(Clone, Debug)]
pub struct FarSite {
    /// The folder of the file for far memory.
    pub folder: PathBuf,
    /// Where settings and their journal are.
    pub site: Site,
}

/// Sets up a budget; to be called on the thread that will start the program.
pub(super) fn begin(budget: DramBudget, far: &FarSite) -> Result<(Expansion, Arc<File>), Status> {
    let engine = if budget.steered { Engine::Steered } else { Engine::Plain };
    let budget = Budget { engine, folder: far.folder.clone(), ..Budget::of(budget.dram) };
    let expansion = Expansion::begin(&budget, &far.site.own()).map_err(|refused| status(&refused))?;
    let entrance = expansion.entrance().map_err(|refused| status(&refused))?;
    Ok((expansion, Arc::new(entrance)))
}

/// Takes it away again, with whatever the program left running, and says what became of it.
pub(super) fn end(expansion: Expansion) -> Result<FarMemory, Status> {
    let dram = expansion.dram();
    expansion.kill_all();
    let (state, restored) = expansion.end();
    if let Some(left) = restored.iter().find(|restored| !restored.is_settled()) {
        return Err(Status::Failed(format!("{left}; hint: nearfar restore tries again")));
    }
    Ok(FarMemory {
        dram,
        read: state.far_read,
        written: state.far_written,
        killed: state.killed,
        fetched: state.piloted.map(|piloted| Bytes(piloted.counts.fetched * farmem::page_bytes())),
        pilot_cpu: state.piloted.map(|piloted| Nanos((piloted.cpu * 1e9) as u64)),
    })
}

fn status(refused: &Refused) -> Status {
    let words = with_hint(refused, refused.hint.as_deref());
    if refused.not_permitted { Status::Unavailable(words) } else { Status::Failed(words) }
}
