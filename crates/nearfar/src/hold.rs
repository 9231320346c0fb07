//! Having the machine for oneself while trials run: one run at a time, settings made quiet where that was asked for, and
//! all of it given back however the run ends. Must not know what is measured.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use machine::interrupt::{Routes, ban_irqbalance};
use machine::quiet::{Quieted, irqbalance_runs, quieten};
use machine::turn::{Turn, TurnError};
use machine::undo::{self, ChangeError, Changed, Site};
use model::plan::Plan;
use model::undo::{Quieting, Restored};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::unregister;
use signal_hook::{SigId, flag};

use crate::cli;
use crate::failure::{Failure, Status};

/// Where the journal of changed settings is kept. Settings are the machine's and not a user's, so this is one place for
/// all; and not /run, which a loss of power empties.
const STATE: &str = "/var/lib/nearfar";

/// How often somebody who waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The machine, held for a run. Dropping it gives everything back, settings before the turn.
pub struct Hold {
    /// Set when somebody wants the run to end.
    pub stop: Arc<AtomicBool>,
    /// How signals are answered.
    signals: Signals,
    /// Settings that are changed now; interrupts may join those of `--quieten` when a plan is known.
    changed: RefCell<Option<Changed>>,
    /// Where settings are; none of a simulated machine, which has none.
    site: Option<Site>,
    /// Whether irqbalance may be told to leave interrupts alone.
    ban_irqbalance: bool,
    quiet: bool,
    _turn: Option<Turn>,
}

impl Hold {
    /// Takes the machine for a run, together with what `prepare` makes of it: prepared under the hold, and anew when
    /// somebody was waited for or a setting was changed since. A mistake in the wishes is told before anything is
    /// changed or waited for.
    pub fn take<T>(
        flags: &cli::Hold,
        common: &cli::Common,
        simulated: bool,
        prepare: impl Fn() -> Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
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
        let anything = changed.as_ref().is_some_and(Changed::is_anything);
        let hold = Self::new(signals, Some((site, turn)), changed, flags, common);
        if waited || anything {
            prepared = prepare()?;
        }
        Ok((hold, prepared))
    }

    fn new(
        signals: Signals,
        machine: Option<(Site, Turn)>,
        changed: Option<Changed>,
        flags: &cli::Hold,
        common: &cli::Common,
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
    pub fn routes(&self, plan: &Plan) -> Result<Option<Routes>, Failure> {
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
                none.insert(Changed::begin(site).map_err(|error| failure(&error))?)
            }
        };
        if irqbalance_runs(&site.root) {
            if !self.ban_irqbalance {
                return Err(Failure::of("irqbalance runs, and moves interrupts again that this plan sends somewhere")
                    .hint(
                        "--ban-irqbalance tells it to leave them alone for the run, --quieten irqbalance pauses it",
                    ));
            }
            let numbers: Vec<u32> = all().filter(|route| !route.cpus.is_empty()).map(|route| route.number).collect();
            ban_irqbalance(changed, &numbers).map_err(|error| failure(&error))?;
        }
        Routes::announce(changed, all()).map(Some).map_err(|error| failure(&error))
    }

    /// Gives the machine back, and says what could not be put back as it was.
    pub fn give_back(self) {
        drop(self);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(changed) = self.changed.take() {
            say_unsettled(&changed.put_back());
        }
        self.signals.ends_at_once.store(true, Ordering::Relaxed);
    }
}

/// Where this machine's settings and its journal are.
pub fn site(root: Option<&Path>) -> Site {
    Site { root: root.unwrap_or(Path::new("/")).into(), state: own_state().unwrap_or_else(|| STATE.into()) }
}

/// `NEARFAR_STATE`: another folder for the journal and the lock.
fn own_state() -> Option<PathBuf> {
    std::env::var_os("NEARFAR_STATE").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The turn, or who has it.
fn take_turn() -> Result<Result<Turn, String>, Failure> {
    match Turn::take(own_state().as_deref()) {
        Ok(turn) => Ok(Ok(turn)),
        Err(TurnError::Taken(owner)) => Ok(Err(owner)),
        Err(TurnError::Io(path, error)) => Err(Failure::of(format!(
            "cannot lock {}, by which runs keep out of each other's way: {error}",
            path.display()
        ))
        .hint("NEARFAR_STATE names another folder for it")),
    }
}

/// The turn at once, or a refusal that names who has it.
pub fn turn_now() -> Result<Turn, Failure> {
    take_turn()?.map_err(|owner| taken(&owner).hint("let it end first"))
}

fn taken(owner: &str) -> Failure {
    Failure::of(format!("{owner} measures on this machine now; two at once would disturb each other"))
}

fn wait(owner: &str, may_wait: bool, stop: &AtomicBool) -> Result<Turn, Failure> {
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
    Err(Failure::with(Status::Interrupted, "interrupted while it waited for its turn"))
}

fn make_quiet(wanted: Option<&[Quieting]>, site: &Site, quiet: bool) -> Result<Option<Changed>, Failure> {
    let Some(wanted) = wanted else {
        if !quiet {
            warn_of_left(site);
        }
        return Ok(None);
    };
    restore_left(site, quiet)?;
    let mut changed = Changed::begin(site).map_err(|error| failure(&error))?;
    let done = quieten(&mut changed, wanted).map_err(|error| failure(&error))?;
    if !quiet {
        done.iter().for_each(|(setting, done)| eprintln!("{}", in_words(*setting, done)));
    }
    Ok(Some(changed))
}

/// What an interrupted run left changed is put back first, because only then is the value that is found the one to come
/// back to. What somebody else has set since is for a person to decide.
fn restore_left(site: &Site, quiet: bool) -> Result<(), Failure> {
    let restored = undo::restore(site, false).map_err(|error| failure(&error))?;
    if !quiet {
        restored.iter().for_each(|restored| eprintln!("left by an interrupted run: {restored}"));
    }
    match restored.iter().find(|restored| !restored.is_settled()) {
        None => Ok(()),
        Some(restored) => Err(Failure::of(format!("an interrupted run left settings changed: {restored}"))
            .hint("nearfar restore --force writes the old value, nearfar restore --forget leaves it as it is")),
    }
}

fn warn_of_left(site: &Site) {
    match undo::left(site) {
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

fn in_words(setting: Quieting, done: &Quieted) -> String {
    let name = setting.name();
    match done {
        Quieted::Set { old, new } => format!("{name}: {new} for this run (it was {})", old.join(", ")),
        Quieted::WasQuiet => format!("{name}: quiet already"),
        Quieted::Unavailable(why) => format!("{name}: cannot be set here: {why}"),
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
pub fn failure(error: &ChangeError) -> Failure {
    let status = if error.not_permitted { Status::NotPermitted } else { Status::Failure };
    Failure::with(status, &error.what).hint(&error.hint)
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
    fn watch(settings_change: bool) -> Result<Self, Failure> {
        let (stop, ends_at_once) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut hurry = Vec::new();
        let hang_up = (!machine::child::is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            let mut watch = || -> std::io::Result<()> {
                flag::register_conditional_shutdown(signal, Status::Interrupted as i32, ends_at_once.clone())?;
                if !settings_change {
                    hurry.push(flag::register(signal, ends_at_once.clone())?);
                }
                flag::register(signal, stop.clone()).map(|_| ())
            };
            watch().map_err(|error| Failure::of(format!("cannot watch for Ctrl-C: {error}")))?;
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
