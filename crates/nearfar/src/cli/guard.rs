//! Arguments about exclusive use of the machine and its settings, and those of `nearfar restore`.

use std::path::PathBuf;

use clap::Args;
use model::values::undo::TunedSetting;
use model::values::units::Kilohertz;

use super::TextOrJson;

/// Exclusive use of the machine during the trials.
#[derive(Args, Debug)]
#[command(next_help_heading = "Machine")]
pub struct GuardArgs {
    /// Change settings during the run and restore them: governor, turbo, smt, thp, numa-balancing, aslr, irqbalance,
    /// c-states, all
    #[arg(long, value_name = "LIST", value_parser = list, conflicts_with = "sim")]
    pub quieten: Option<Quieten>,
    /// Fix the clock of all CPUs at FREQ during the run, such as 3.6GHz
    #[arg(long, value_name = "FREQ", value_parser = Kilohertz::parse, conflicts_with = "sim")]
    pub fix_frequency: Option<Kilohertz>,
    /// Exclude placed interrupts from irqbalance during the run
    #[arg(long, conflicts_with = "sim")]
    pub ban_irqbalance: bool,
    /// Wait for another Nearfar measurement to finish
    #[arg(long)]
    pub wait: bool,
    /// Root directory of the system settings, for tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub settings_root: Option<PathBuf>,
}

/// The settings to change during a run.
#[derive(Clone, Debug)]
pub struct Quieten(pub Vec<TunedSetting>);

fn list(text: &str) -> Result<Quieten, String> {
    TunedSetting::parse_list(text).map(Quieten)
}

/// `nearfar restore`
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Also restore settings that another program has changed since
    #[arg(long)]
    pub force: bool,
    /// Keep the present values of settings that cannot be restored, and drop their records
    #[arg(long, conflicts_with = "force")]
    pub forget: bool,
    /// Print what would be restored; change nothing
    #[arg(long, conflicts_with = "forget")]
    pub dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// Root directory of the system settings, for tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub settings_root: Option<PathBuf>,
}
