//! Exclusive use of the machine during a run: the machine lock, tuned settings and signal handlers, all released
//! however the run ends. Must not depend on the workload.
//!
//! Only one real run at a time on a machine. Test: `second_run_is_refused_or_waits` (tests/hold.rs).

use std::cell::{RefCell, RefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use machine::frequency::{self, FREQUENCY};
use machine::interrupt::{Routes, ban_irqbalance};
use machine::lock::{LockError, MachineLock};
use machine::service_threads::{Mask, ServiceThreads};
use machine::tune::{TuneOutcome, apply, irqbalance_runs, preview};
use machine::undo::{self, AppliedSettings, ChangeError, SettingsRoot};
use model::analysis::live::LivePlacement;
use model::values::placement::Route;
use model::values::plan::Plan;
use model::values::undo::{Restored, SettingTarget, TunedSetting};
use model::values::units::Kilohertz;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::unregister;
use signal_hook::{SigId, flag};

use crate::error::{CliError, CliStatus};

/// Directory of the undo journal. It is the same for all users, because settings belong to the machine, and not in
/// /run, which a power failure empties.
const STATE: &str = "/var/lib/nearfar";

/// How to place interrupts next to irqbalance.
pub const BAN_HINT: &str = "exclude these interrupts with --ban-irqbalance";
const PLAN_HINT: &str = "exclude these interrupts with --ban-irqbalance, or pause irqbalance with --quieten irqbalance";

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How to use the machine exclusively.
#[derive(Default)]
pub struct GuardRequest {
    /// Settings to change during the run.
    pub quieten: Option<Vec<TunedSetting>>,
    /// Clock of all CPUs during the run.
    pub fix_frequency: Option<Kilohertz>,
    /// Whether placed interrupts may be excluded from irqbalance.
    pub ban_irqbalance: bool,
    /// Wait for another measurement to finish.
    pub wait: bool,
    /// Root directory of the system settings, for tests.
    pub settings_root: Option<PathBuf>,
    /// Suppress progress messages.
    pub quiet: bool,
}

impl GuardRequest {
    fn changes_settings(&self) -> bool {
        self.quieten.is_some() || self.fix_frequency.is_some()
    }
}

/// Exclusive use of the machine during a run. Dropping it restores the settings, then releases the machine lock.
pub struct RunGuard {
    /// Set by a signal that ends the run.
    pub stop: Arc<AtomicBool>,
    signals: Signals,
    /// Changed settings; interrupt affinities are added once the plan is known.
    changed: RefCell<Option<AppliedSettings>>,
    /// `None` for a simulated machine.
    site: Option<SettingsRoot>,
    /// Whether placed interrupts may be excluded from irqbalance.
    ban_irqbalance: bool,
    quiet: bool,
    _lock: Option<MachineLock>,
}

impl RunGuard {
    /// Acquires the machine for a run and returns it with the result of `prepare`. Runs `prepare` before waiting for
    /// the lock and changing settings, so that invalid arguments fail first, and again if either happened.
    pub fn acquire<T>(
        request: &GuardRequest,
        simulated: bool,
        prepare: impl Fn() -> Result<T, CliError>,
    ) -> Result<(Self, T), CliError> {
        workloads::remove_stale_trial_dirs();
        // Before `prepare`, which may create directories, and before the first setting changes: a signal then leaves time
        // to remove and restore them.
        let signals = Signals::watch(request.changes_settings())?;
        if simulated {
            let guard = Self::new(signals, None, None, request);
            return Ok((guard, prepare()?));
        }
        let lock = try_lock()?;
        let mut prepared = prepare()?;
        let waited = lock.is_err();
        let lock = match lock {
            Ok(lock) => lock,
            Err(owner) => wait(&owner, request.wait, &signals.stop)?,
        };
        if let Some(owner) = lock.concurrent().filter(|_| !request.quiet) {
            message!("warning: {owner} is measuring on this machine too; the runs may disturb each other");
        }
        let site = site(request.settings_root.as_deref());
        let changed = tune(request, &site)?;
        let has_changes = changed.as_ref().is_some_and(AppliedSettings::has_changes);
        let guard = Self::new(signals, Some((site, lock)), changed, request);
        if waited || has_changes {
            prepared = prepare()?;
        }
        Ok((guard, prepared))
    }

    fn new(
        signals: Signals,
        machine: Option<(SettingsRoot, MachineLock)>,
        changed: Option<AppliedSettings>,
        request: &GuardRequest,
    ) -> Self {
        let (site, lock) = machine.unzip();
        Self {
            stop: signals.stop.clone(),
            signals,
            changed: RefCell::new(changed),
            site,
            ban_irqbalance: request.ban_irqbalance,
            quiet: request.quiet,
            _lock: lock,
        }
    }

    /// Journals the affinities of the interrupts that a plan places. `None` if the plan places none.
    pub fn routes(&self, plan: &Plan) -> Result<Option<Routes>, CliError> {
        self.journal_routes(plan.cells.iter().flat_map(|cell| &cell.placement.interrupts), PLAN_HINT)
    }

    /// Journals the affinities of interrupts that the placements of a service set. `None` if they set none.
    pub fn live_routes(&self, placements: &[LivePlacement]) -> Result<Option<Routes>, CliError> {
        self.journal_routes(placements.iter().flat_map(|placement| &placement.interrupts), BAN_HINT)
    }

    /// Journals affinities of interrupts. `hint` helps if irqbalance would move them.
    fn journal_routes<'a>(
        &self,
        routes: impl Iterator<Item = &'a Route>,
        hint: &str,
    ) -> Result<Option<Routes>, CliError> {
        let moved: Vec<&Route> = routes.filter(|route| route.is_placed()).collect();
        let Some(site) = self.site.as_ref().filter(|_| !moved.is_empty()) else { return Ok(None) };
        let mut changed = self.changes(site)?;
        exclude_from_irqbalance(&mut changed, &moved, self.ban_irqbalance, hint)?;
        Routes::journal_values(&mut changed, moved.into_iter()).map(Some).map_err(|error| failure(&error))
    }

    /// Journals affinities that the threads of a service may get. They are restored with the other settings.
    pub fn journal_affinities(&self, threads: &ServiceThreads, masks: &[Mask]) -> Result<(), CliError> {
        let site = self.site.as_ref().ok_or_else(|| CliError::failure("a simulated machine has no services"))?;
        let (target, masks) = (SettingTarget::Affinity(threads.processes().clone()), masks.iter().map(Mask::to_string));
        let journalled = self.changes(site)?.journal_values("affinity", target, &masks.collect::<Vec<_>>());
        journalled.map(drop).map_err(|error| failure(&error))
    }

    /// Returns the changed settings, from now on with a journal.
    fn changes(&self, site: &SettingsRoot) -> Result<RefMut<'_, AppliedSettings>, CliError> {
        let mut changed = self.changed.borrow_mut();
        if changed.is_none() {
            self.signals.defer_exit();
            restore_pending(site, self.quiet)?;
            *changed = Some(AppliedSettings::begin(site).map_err(|error| failure(&error))?);
        }
        Ok(RefMut::map(changed, |changed| changed.as_mut().expect("it was set")))
    }

    /// Releases the machine, and prints the settings that could not be restored.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if let Some(changed) = self.changed.take() {
            print_unsettled(&changed.restore());
        }
        // A trial that was killed cannot remove its own.
        workloads::remove_stale_trial_dirs();
        EXITS_AT_ONCE.store(true, Ordering::Relaxed);
    }
}

/// Excludes interrupts from irqbalance, if it runs, before they are placed.
///
/// # Errors
/// If it may not be changed. `hint` names the option that permits it.
pub fn exclude_from_irqbalance(
    changed: &mut AppliedSettings,
    moved: &[&Route],
    is_permitted: bool,
    hint: &str,
) -> Result<(), CliError> {
    if moved.is_empty() || !irqbalance_runs(changed.root()) {
        return Ok(());
    }
    if !is_permitted {
        return Err(CliError::failure("irqbalance is running and would move the interrupts that are placed").hint(hint));
    }
    let numbers: Vec<u32> = moved.iter().map(|route| route.number).collect();
    ban_irqbalance(changed, &numbers).map_err(|error| failure(&error))
}

/// Returns the roots of this machine's settings and of the undo journal.
pub fn site(root: Option<&Path>) -> SettingsRoot {
    SettingsRoot {
        root: root.unwrap_or(Path::new("/")).into(),
        state: state_override().unwrap_or_else(|| STATE.into()),
    }
}

/// Returns `NEARFAR_STATE`, which replaces the directories of the journal and the lock.
fn state_override() -> Option<PathBuf> {
    std::env::var_os("NEARFAR_STATE").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Returns the machine lock, or a description of its owner.
fn try_lock() -> Result<Result<MachineLock, String>, CliError> {
    match MachineLock::acquire(state_override().as_deref()) {
        Ok(lock) => Ok(Ok(lock)),
        Err(LockError::Held(owner)) => Ok(Err(owner)),
        Err(LockError::Io(path, error)) => {
            Err(CliError::failure(format!("cannot acquire the machine lock {}: {error}", path.display()))
                .hint("choose another directory with NEARFAR_STATE"))
        }
    }
}

/// Acquires the machine lock without waiting. The error names its owner.
pub fn lock_now() -> Result<MachineLock, CliError> {
    try_lock()?.map_err(|owner| held_by(&owner).hint("wait until it has ended"))
}

fn held_by(owner: &str) -> CliError {
    CliError::failure(format!("{owner} is measuring on this machine; concurrent measurements would disturb each other"))
}

fn wait(owner: &str, may_wait: bool, stop: &AtomicBool) -> Result<MachineLock, CliError> {
    if !may_wait {
        return Err(held_by(owner).hint("wait for it with --wait"));
    }
    message!("waiting for {owner}");
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOCK_POLL_INTERVAL);
        if let Ok(lock) = try_lock()? {
            return Ok(lock);
        }
    }
    Err(CliError::with(CliStatus::Interrupted, "interrupted while waiting for the machine lock"))
}

/// Changes the requested settings. A setting that the machine lacks is reported before the first trial; the frequency also
/// with `--quiet`, because the figures are then of another clock than the requested one.
fn tune(request: &GuardRequest, site: &SettingsRoot) -> Result<Option<AppliedSettings>, CliError> {
    let quiet = request.quiet;
    if !request.changes_settings() {
        if !quiet {
            warn_pending(site);
        }
        return Ok(None);
    }
    restore_pending(site, quiet)?;
    detail!("undo journal: {}", site.state.display());
    let mut changed = AppliedSettings::begin(site).map_err(|error| failure(&error))?;
    let settings = request.quieten.as_deref().unwrap_or_default();
    let outcomes = apply(&mut changed, settings).map_err(|error| failure(&error))?;
    if !quiet {
        outcomes.iter().for_each(|(setting, outcome)| message!("{}", describe(setting.name(), outcome)));
    }
    // After the governor and turbo, which determine the range of frequencies.
    if let Some(frequency) = request.fix_frequency {
        let outcome = frequency::fix(&mut changed, frequency).map_err(|error| failure(&error))?;
        if !quiet || matches!(outcome, TuneOutcome::Unavailable(_)) {
            message!("{}", describe(FREQUENCY, &outcome));
        }
    }
    Ok(Some(changed))
}

/// Prints what a run with this request would change, without changing anything.
pub fn print_preview(request: &GuardRequest) {
    let root = site(request.settings_root.as_deref()).root;
    for (setting, outcome) in preview(&root, request.quieten.as_deref().unwrap_or_default()) {
        let text = match outcome {
            TuneOutcome::Set { old, new } if old.is_empty() => format!("would be {new}"),
            TuneOutcome::Set { old, new } => format!("would be {new} (it is {})", old.join(", ")),
            outcome => {
                message!("{}", describe(setting.name(), &outcome));
                continue;
            }
        };
        message!("{}: {text}", setting.name());
    }
    if let Some(frequency) = request.fix_frequency {
        message!("{FREQUENCY}: would be {frequency}");
    }
}

/// Restores settings that an interrupted run left changed, so that the journal records original values. A setting that
/// another program has changed since is an error, because only the user can decide about it.
fn restore_pending(site: &SettingsRoot, quiet: bool) -> Result<(), CliError> {
    let restored = undo::restore(site, false).map_err(|error| failure(&error))?;
    if !quiet {
        restored.iter().for_each(|restored| message!("after an interrupted run: {restored}"));
    }
    match restored.iter().find(|restored| !restored.is_settled()) {
        None => Ok(()),
        Some(restored) => Err(CliError::failure(format!(
            "settings changed by an interrupted run cannot be restored: {restored}"
        ))
        .hint(
            "write the old value with nearfar restore --force, or keep the present value with nearfar restore --forget",
        )),
    }
}

fn warn_pending(site: &SettingsRoot) {
    match undo::pending(site) {
        Ok(pending) => {
            for change in &pending {
                message!(
                    "nearfar: an interrupted run changed {} from {} to {}; restore it with nearfar restore",
                    change.setting,
                    change.old,
                    change.new
                );
            }
        }
        Err(error) => message!("nearfar: {}", error.what),
    }
}

fn describe(name: &str, outcome: &TuneOutcome) -> String {
    match outcome {
        TuneOutcome::Set { old, new } => format!("{name}: {new} for this run (it was {})", old.join(", ")),
        TuneOutcome::WasQuiet => format!("{name}: already set"),
        TuneOutcome::Unavailable(reason) => format!("{name}: unavailable: {reason}"),
    }
}

fn print_unsettled(restored: &[Restored]) {
    let unsettled: Vec<&Restored> = restored.iter().filter(|restored| !restored.is_settled()).collect();
    for restored in &unsettled {
        message!("nearfar: {restored}");
    }
    if !unsettled.is_empty() {
        message!("hint: retry with nearfar restore; --force also restores settings that another program has changed");
    }
}

/// Converts an error of changing a setting.
pub fn failure(error: &ChangeError) -> CliError {
    let status = if error.not_permitted { CliStatus::NotPermitted } else { CliStatus::Failure };
    CliError::with(status, &error.what).hint(&error.hint)
}

/// Whether the next signal exits at once. One for all guards, because a command may hold several one after the other, and
/// the handlers of those that have ended remain.
static EXITS_AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Handlers of SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP. The first signal ends the run. A second one
/// exits at once, but only if no settings are changed.
struct Signals {
    /// Set by the first signal.
    stop: Arc<AtomicBool>,
    /// Handlers that make the second signal exit at once.
    second: Vec<SigId>,
}

impl Signals {
    fn watch(settings_change: bool) -> Result<Self, CliError> {
        let (stop, exits_at_once) = (Arc::new(AtomicBool::new(false)), LazyLock::force(&EXITS_AT_ONCE));
        exits_at_once.store(false, Ordering::Relaxed);
        let mut second = Vec::new();
        let hang_up = (!machine::child::is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            let mut watch = || -> std::io::Result<()> {
                // First, so that a signal that arrives between these calls is not lost.
                flag::register(signal, stop.clone())?;
                flag::register_conditional_shutdown(signal, CliStatus::Interrupted as i32, exits_at_once.clone())?;
                if !settings_change {
                    second.push(flag::register(signal, exits_at_once.clone())?);
                }
                Ok(())
            };
            watch().map_err(|error| CliError::failure(format!("cannot install signal handlers: {error}")))?;
        }
        Ok(Self { stop, second })
    }

    fn ignore_second(&self) {
        self.second.iter().for_each(|id| {
            unregister(*id);
        });
    }

    /// Makes a second signal wait until settings are restored.
    fn defer_exit(&self) {
        self.ignore_second();
        EXITS_AT_ONCE.store(false, Ordering::Relaxed);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.ignore_second();
    }
}
