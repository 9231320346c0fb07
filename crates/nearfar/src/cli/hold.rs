//! The flags by which a run has the machine for itself, and those of `nearfar restore`.

use std::path::PathBuf;

use clap::Args;
use model::values::undo::TunedSetting;

use super::TextOrJson;

/// Having the machine for oneself while trials run.
#[derive(Args, Debug)]
pub struct HoldArgs {
    /// Change system settings for the run and put them back after it: governor, turbo, smt, thp, numa-balancing, aslr,
    /// irqbalance, c-states; `all` is what this machine has
    #[arg(long, value_name = "LIST", value_parser = list, conflicts_with = "sim", help_heading = "The machine")]
    pub quieten: Option<Quieten>,
    /// Tell irqbalance for the run to leave the interrupts alone that placements send somewhere
    #[arg(long, conflicts_with = "sim", help_heading = "The machine")]
    pub ban_irqbalance: bool,
    /// Wait while another nearfar measures on this machine
    #[arg(long, help_heading = "The machine")]
    pub wait: bool,
    /// Where the system settings are, for tests.
    #[arg(long, value_name = "DIR", hide = true)]
    pub settings_root: Option<PathBuf>,
}

/// What to make quiet.
#[derive(Clone, Debug)]
pub struct Quieten(pub Vec<TunedSetting>);

fn list(text: &str) -> Result<Quieten, String> {
    TunedSetting::parse_list(text).map(Quieten)
}

/// `nearfar restore`
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Also over what somebody else has set since
    #[arg(long)]
    pub force: bool,
    /// Forget what cannot be put back, and what somebody else has set since: it stays as it is
    #[arg(long, conflicts_with = "force")]
    pub forget: bool,
    /// How to show what was done
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// Where the system settings are, for tests.
    #[arg(long, value_name = "DIR", hide = true)]
    pub settings_root: Option<PathBuf>,
}
