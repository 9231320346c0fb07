//! Having the machine for oneself while trials run: one run at a time, settings made quiet where that was asked for, and
//! all of it given back however the run ends. Must not know what is measured.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use machine::interrupt::{Routes, ban_irqbalance};
use machine::lock::{LockError, MachineLock};
use machine::tune::{TuneOutcome, apply, irqbalance_runs};
use machine::undo::{self, AppliedSettings, ChangeError, SettingsRoot};
use model::values::plan::Plan;
use model::values::undo::{Restored, TunedSetting};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::unregister;
use signal_hook::{SigId, flag};

use crate::cli;
use crate::error::{CliError, CliStatus};

/// Where the journal of changed settings is kept. Settings are the machine's and not a user's, so this is one place for
/// all; and not /run, which a loss of power empties.
const STATE: &str = "/var/lib/nearfar";

/// How often somebody who waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The machine, held for a run. Dropping it gives everything back, settings before the turn.
pub struct RunGuard {
    /// Set when somebody wants the run to end.
    pub stop: Arc<AtomicBool>,
    signals: Signals,
    /// Settings that are changed now; interrupts may join those of `--apply` when a plan is known.
    changed: RefCell<Option<AppliedSettings>>,
    /// Where settings are; none of a simulated machine, which has none.
    site: Option<SettingsRoot>,
    /// Whether irqbalance may be told to leave interrupts alone.
    ban_irqbalance: bool,
    quiet: bool,
    _turn: Option<MachineLock>,
}

impl RunGuard {
    /// Takes the machine for a run, together with what `prepare` makes of it: prepared under the hold, and anew when
    /// somebody was waited for or a setting was changed since. A mistake in the wishes is told before anything is
    /// changed or waited for.
    pub fn acquire<T>(
        flags: &cli::HoldArgs,
        common: &cli::GlobalArgs,
        simulated: bool,
        prepare: impl Fn() -> Result<T, CliError>,
    ) -> Result<(Self, T), CliError> {
        if simulated {
            let signals = Signals::watch(flags.quieten.is_some())?;
            let hold = Self::new(signals, None, None, flags, common);
            return Ok((hold, prepare()?));
        }
        let turn = take_turn()?;
        let mut prepared = prepare()?;
        // Before the first setting is changed: from here on a signal leaves time to put it back.
        let signals = Signals::watch(flags.quieten.is_some())?;
        let waited = turn.is_err();
        let turn = match turn {
            Ok(turn) => turn,
            Err(owner) => wait(&owner, flags.wait, &signals.stop)?,
        };
        let site = site(flags.settings_root.as_deref());
        let changed = make_quiet(flags.quieten.as_ref().map(|list| &list.0[..]), &site, common.quiet)?;
        let anything = changed.as_ref().is_some_and(AppliedSettings::has_changes);
        let hold = Self::new(signals, Some((site, turn)), changed, flags, common);
        if waited || anything {
            prepared = prepare()?;
        }
        Ok((hold, prepared))
    }

    fn new(
        signals: Signals,
        machine: Option<(SettingsRoot, MachineLock)>,
        changed: Option<AppliedSettings>,
        flags: &cli::HoldArgs,
        common: &cli::GlobalArgs,
    ) -> Self {
        let (site, turn) = machine.unzip();
        Self {
            stop: signals.stop.clone(),
            signals,
            changed: RefCell::new(changed),
            site,
            ban_irqbalance: flags.ban_irqbalance,
            quiet: common.quiet,
            _turn: turn,
        }
    }

    /// Leave to send the interrupts that a plan names where it says, in the journal; none where it sends none.
    pub fn routes(&self, plan: &Plan) -> Result<Option<Routes>, CliError> {
        let all = || plan.cells.iter().flat_map(|cell| &cell.placement.interrupts);
        let Some(site) = self.site.as_ref().filter(|_| all().any(|route| !route.cpus.is_empty())) else {
            return Ok(None);
        };
        let mut changed = self.changed.borrow_mut();
        let changed = match &mut *changed {
            Some(changed) => changed,
            none => {
                self.signals.leave_time();
                restore_left(site, self.quiet)?;
                none.insert(AppliedSettings::begin(site).map_err(|error| failure(&error))?)
            }
        };
        if irqbalance_runs(&site.root) {
            if !self.ban_irqbalance {
                return Err(CliError::of("irqbalance runs, and moves interrupts again that this plan sends somewhere")
                    .hint(
                        "--ban-irqbalance tells it to leave them alone for the run, --quieten irqbalance pauses it",
                    ));
            }
            let numbers: Vec<u32> = all().filter(|route| !route.cpus.is_empty()).map(|route| route.number).collect();
            ban_irqbalance(changed, &numbers).map_err(|error| failure(&error))?;
        }
        Routes::journal_values(changed, all()).map(Some).map_err(|error| failure(&error))
    }

    /// Gives the machine back, and says what could not be put back as it was.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if let Some(changed) = self.changed.take() {
            say_unsettled(&changed.restore());
        }
        self.signals.ends_at_once.store(true, Ordering::Relaxed);
    }
}

/// Where this machine's settings and its journal are.
pub fn site(root: Option<&Path>) -> SettingsRoot {
    SettingsRoot { root: root.unwrap_or(Path::new("/")).into(), state: own_state().unwrap_or_else(|| STATE.into()) }
}

/// `NEARFAR_STATE`: another folder for the journal and the lock.
fn own_state() -> Option<PathBuf> {
    std::env::var_os("NEARFAR_STATE").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The turn, or who has it.
fn take_turn() -> Result<Result<MachineLock, String>, CliError> {
    match MachineLock::acquire(own_state().as_deref()) {
        Ok(turn) => Ok(Ok(turn)),
        Err(LockError::Held(owner)) => Ok(Err(owner)),
        Err(LockError::Io(path, error)) => Err(CliError::of(format!(
            "cannot lock {}, by which runs keep out of each other's way: {error}",
            path.display()
        ))
        .hint("NEARFAR_STATE names another folder for it")),
    }
}

/// The turn at once, or a refusal that names who has it.
pub fn turn_now() -> Result<MachineLock, CliError> {
    take_turn()?.map_err(|owner| taken(&owner).hint("let it end first"))
}

fn taken(owner: &str) -> CliError {
    CliError::of(format!("{owner} measures on this machine now; two at once would disturb each other"))
}

fn wait(owner: &str, may_wait: bool, stop: &AtomicBool) -> Result<MachineLock, CliError> {
    if !may_wait {
        return Err(taken(owner).hint("--wait waits until it has ended"));
    }
    eprintln!("waiting for {owner}");
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_AGAIN);
        if let Ok(turn) = take_turn()? {
            return Ok(turn);
        }
    }
    Err(CliError::with(CliStatus::Interrupted, "interrupted while it waited for its turn"))
}

fn make_quiet(
    wanted: Option<&[TunedSetting]>,
    site: &SettingsRoot,
    quiet: bool,
) -> Result<Option<AppliedSettings>, CliError> {
    let Some(wanted) = wanted else {
        if !quiet {
            warn_of_left(site);
        }
        return Ok(None);
    };
    restore_left(site, quiet)?;
    let mut changed = AppliedSettings::begin(site).map_err(|error| failure(&error))?;
    let done = apply(&mut changed, wanted).map_err(|error| failure(&error))?;
    if !quiet {
        done.iter().for_each(|(setting, done)| eprintln!("{}", in_words(*setting, done)));
    }
    Ok(Some(changed))
}

/// What an interrupted run left changed is put back first, because only then is the value that is found the one to come
/// back to. What somebody else has set since is for a person to decide.
fn restore_left(site: &SettingsRoot, quiet: bool) -> Result<(), CliError> {
    let restored = undo::restore(site, false).map_err(|error| failure(&error))?;
    if !quiet {
        restored.iter().for_each(|restored| eprintln!("left by an interrupted run: {restored}"));
    }
    match restored.iter().find(|restored| !restored.is_settled()) {
        None => Ok(()),
        Some(restored) => Err(CliError::of(format!("an interrupted run left settings changed: {restored}"))
            .hint("nearfar restore --force writes the old value, nearfar restore --forget leaves it as it is")),
    }
}

fn warn_of_left(site: &SettingsRoot) {
    match undo::pending(site) {
        Ok(left) => {
            for change in &left {
                eprintln!(
                    "nearfar: an interrupted run changed {} from {} to {}; nearfar restore puts it back",
                    change.setting, change.old, change.new
                );
            }
        }
        Err(error) => eprintln!("nearfar: {}", error.what),
    }
}

fn in_words(setting: TunedSetting, done: &TuneOutcome) -> String {
    let name = setting.name();
    match done {
        TuneOutcome::Set { old, new } => format!("{name}: {new} for this run (it was {})", old.join(", ")),
        TuneOutcome::WasQuiet => format!("{name}: quiet already"),
        TuneOutcome::Unavailable(why) => format!("{name}: cannot be set here: {why}"),
    }
}

fn say_unsettled(restored: &[Restored]) {
    let unsettled: Vec<&Restored> = restored.iter().filter(|restored| !restored.is_settled()).collect();
    for restored in &unsettled {
        eprintln!("nearfar: {restored}");
    }
    if !unsettled.is_empty() {
        eprintln!("hint: nearfar restore tries again; with --force it writes the old values over anything");
    }
}

/// A setting that could not be changed, for the user.
pub fn failure(error: &ChangeError) -> CliError {
    let status = if error.not_permitted { CliStatus::NotPermitted } else { CliStatus::Failure };
    CliError::with(status, &error.what).hint(&error.hint)
}

/// What Ctrl-C, SIGTERM and, unless nohup has it ignored, a terminal that closes do. Without changed settings a second
/// one ends the program at once; with them, only after they are back.
struct Signals {
    /// Set by the first.
    stop: Arc<AtomicBool>,
    /// Whether the next ends the program at once.
    ends_at_once: Arc<AtomicBool>,
    /// What makes the second end it at once.
    hurry: Vec<SigId>,
}

impl Signals {
    fn watch(settings_change: bool) -> Result<Self, CliError> {
        let (stop, ends_at_once) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut hurry = Vec::new();
        let hang_up = (!machine::child::is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            let mut watch = || -> std::io::Result<()> {
                flag::register_conditional_shutdown(signal, CliStatus::Interrupted as i32, ends_at_once.clone())?;
                if !settings_change {
                    hurry.push(flag::register(signal, ends_at_once.clone())?);
                }
                flag::register(signal, stop.clone()).map(|_| ())
            };
            watch().map_err(|error| CliError::of(format!("cannot watch for Ctrl-C: {error}")))?;
        }
        Ok(Self { stop, ends_at_once, hurry })
    }

    /// From here on settings may be changed.
    fn leave_time(&self) {
        self.hurry.iter().for_each(|id| {
            unregister(*id);
        });
        self.ends_at_once.store(false, Ordering::Relaxed);
    }
}
