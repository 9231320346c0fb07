//! A program's memory expanded beyond a budget of DRAM: a cgroup that bounds it, swap on a file that takes the rest, and,
//! with the steered engine, a pilot. Everything is in the undo journal before it is done and goes when this is ended or
//! dropped. Must not know what program it is for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use machine::cgroup::{self, GroupUsage, MemoryCgroup};
use machine::swap::{self, LARGE_FOLIOS, LoopDevice};
use machine::undo::{AppliedSettings, SettingsRoot};
use model::analysis::doctor::refusal;
use model::values::undo::{GROUP_PREFIX, Restored, SettingTarget};
use model::values::units::{Bytes, Nanos};

use crate::array::{Access, FarFile, FarLocation, fill_with_zeros};
use crate::controller::{ControllerStats, PagingController};
use crate::faults::FaultSource;
use crate::predict::Tuning;
use crate::recorder::FaultRecorder;
use crate::trace::{Header, Trace};
use crate::{Unavailable, swap_check};

/// The name of these changes in the journal.
const SETTING: &str = "expand";
/// What was killed is gone within this, unless it waits in the kernel.
const KILL_TIME: Duration = Duration::from_secs(5);
/// Less than this is too little for any program's own code and stack, and for the kernel to choose from.
pub const DRAM_MIN: Bytes = Bytes(8 << 20);
/// Far memory that holds more than half of its size has the kernel give up copies of what is also in DRAM.
const FAR_TIMES_DRAM: u64 = 4;
const FAR_MIN: u64 = 1 << 30;

/// Who decides what is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingMode {
    /// The pilot, ahead of and behind the program.
    Steered,
    /// The kernel's own swap, as it is set.
    Plain,
}

/// How much memory of which kind a program gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpansionLimits {
    /// At most this much DRAM.
    pub dram: Bytes,
    /// Who decides what is where.
    pub engine: PagingMode,
    /// The folder of the file that takes the rest.
    pub folder: PathBuf,
    pub far: Bytes,
    /// Whether it is overwritten at the end.
    pub shred: bool,
    /// Whether far memory may be on a disk that is not encrypted where swap is.
    pub allow_unencrypted: bool,
}

impl ExpansionLimits {
    /// Steered, with as much far memory as such a budget usually needs, where this machine keeps large temporary files.
    pub fn of(dram: Bytes) -> Self {
        Self {
            dram,
            engine: PagingMode::Steered,
            folder: "/var/tmp".into(),
            far: Bytes((dram.0 * FAR_TIMES_DRAM).max(FAR_MIN)),
            shred: false,
            allow_unencrypted: false,
        }
    }
}

/// What a program holds and what was done for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpansionStatus {
    pub held: GroupUsage,
    /// Processes of it that the kernel has killed because memory ran out.
    pub killed: u64,
    /// Read from far memory.
    pub far_read: Bytes,
    pub far_written: Bytes,
    /// What the pilot did; none without one.
    pub piloted: Option<ControllerStats>,
}

/// An expansion that is set up.
pub struct Expansion {
    group: MemoryCgroup,
    dram: Bytes,
    pilot: Option<PagingController>,
    /// Where nobody steers and faults are recorded.
    watch: Option<FaultRecorder>,
    /// None once everything is taken away.
    changed: Option<AppliedSettings>,
    site: SettingsRoot,
    /// Kept open for the end only: to be overwritten.
    file: Option<(File, Bytes)>,
    device: Option<LoopDevice>,
}

impl Expansion {
    /// Sets everything up. To be called on the thread that will fork the program, which enters through
    /// [`Expansion::cgroup_procs`] before it does anything else. `site` is this expansion's own.
    pub fn start(budget: &ExpansionLimits, site: &SettingsRoot) -> Result<Self, Unavailable> {
        Self::start_recorded(budget, site, None)
    }

    /// The same, and records the page faults that are seen: as the pilot sees them where there is one, else each one,
    /// which takes time of the program's.
    pub fn start_recorded(
        budget: &ExpansionLimits,
        site: &SettingsRoot,
        trace: Option<Trace>,
    ) -> Result<Self, Unavailable> {
        check(budget, site)?;
        let page = crate::page_bytes();
        let far = Bytes(budget.far.0 / page * page);
        let place = FarLocation::parse(&budget.folder.to_string_lossy())?;
        let file = FarFile::new(&place, far.0 as usize, Access::Mapped)?.into_file();
        swap::format(&file, far.0, page)
            .map_err(|error| Unavailable::io("cannot write the header of far memory", &error))?;
        let device = LoopDevice::attach(&file, page as u32).map_err(|error| {
            Unavailable::io("cannot make a device of the file for far memory (loop)", &error)
                .hint("root may, where the kernel has loop devices (modprobe loop)")
        })?;
        // Before the first change: what watches the program is what fails without permission.
        let steered = budget.engine == PagingMode::Steered;
        let minor_period = if steered { Tuning::for_dram(budget.dram.0, page).minor_period } else { 1 };
        let sense = (steered || trace.is_some()).then(|| open_sense(minor_period)).transpose()?;
        let mut changed = AppliedSettings::begin(site)?;
        if steered {
            device
                .no_seeks()
                .map_err(|error| Unavailable::io("cannot set the queue of far memory's device", &error))?;
            // Where the kernel has no such folios, single pages do.
            let _ = changed.set_together(SETTING, SettingTarget::File(LARGE_FOLIOS.into()), "always");
        }
        let swap =
            SettingTarget::Swap { device: device.device().display().to_string(), backing: device.backing().into() };
        changed.set(SETTING, swap, machine::undo::ON)?;
        let group = make_group(&mut changed, site)?;
        let dram =
            group.limit(budget.dram).map_err(|error| Unavailable::io("cannot bound the memory of a cgroup", &error))?;
        if let Some(trace) = &trace {
            trace.begin(&Header { page, dram: dram.0, minor_period, steered });
        }
        let (pilot, watch) = match (sense, trace) {
            (None, _) => (None, None),
            (Some(sense), trace) if steered => {
                (Some(take_off(sense, &group, Tuning::for_dram(dram.0, page), trace)?), None)
            }
            (Some(sense), trace) => (None, trace.map(|trace| look_on(sense, &group, dram, trace)).transpose()?),
        };
        let file = budget.shred.then_some((file, far));
        Ok(Self { group, dram, pilot, watch, changed: Some(changed), site: site.clone(), file, device: Some(device) })
    }

    /// What the program's first process writes `0` into before it becomes the program.
    pub fn cgroup_procs(&self) -> Result<File, Unavailable> {
        self.group.entrance().map_err(|error| Unavailable::io("cannot open the entrance of a cgroup", &error))
    }

    /// The DRAM that it may have, as the kernel took it.
    pub fn dram(&self) -> Bytes {
        self.dram
    }

    /// What it holds of DRAM without the files that the kernel keeps for it: page tables are among it.
    pub fn own_memory(&self) -> Bytes {
        let usage = self.group.usage().unwrap_or_default();
        let file = self.group.held().unwrap_or_default().file;
        Bytes(usage.0.saturating_sub(file.0))
    }

    /// The processes that are in it.
    pub fn processes(&self) -> Vec<u32> {
        self.group.processes()
    }

    /// Kills what is in it, and waits until nothing is.
    pub fn kill_all(&self) {
        let until = Instant::now() + KILL_TIME;
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > until {
                return;
            }
            left.iter().for_each(|pid| machine::foreground::send(*pid, libc::SIGKILL));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn state(&self) -> ExpansionStatus {
        let (far_read, far_written) = self.device.as_ref().map(LoopDevice::traffic).unwrap_or_default();
        ExpansionStatus {
            far_read,
            far_written,
            held: self.group.held().unwrap_or_default(),
            killed: self.group.killed(),
            piloted: self.pilot.as_ref().map(PagingController::piloted),
        }
    }

    /// For how long somebody had to wait for memory since the kernel counts ([`MemoryCgroup::stalled`]).
    pub fn stalled(&self) -> Option<Nanos> {
        self.group.stalled()
    }

    /// Takes everything away again, which fails while a process is in it.
    pub fn stop(mut self) -> (ExpansionStatus, Vec<Restored>) {
        let mut state = self.state();
        state.piloted = self.pilot.take().map(PagingController::stop);
        self.watch.take().into_iter().for_each(FaultRecorder::stop);
        let restored = self.take_away();
        (state, restored)
    }

    fn take_away(&mut self) -> Vec<Restored> {
        let restored = self.changed.take().map(AppliedSettings::restore).unwrap_or_default();
        // The folder of its journal, which stays while something is in it.
        let _ = std::fs::remove_dir(&self.site.state);
        drop(self.device.take());
        if let Some((file, bytes)) = self.file.take() {
            // What could not be overwritten is gone from the file system all the same.
            let _ = fill_with_zeros(&file, bytes.0 as usize);
        }
        restored
    }
}

impl Drop for Expansion {
    fn drop(&mut self) {
        let _ = self.pilot.take().map(PagingController::stop);
        self.watch.take().into_iter().for_each(FaultRecorder::stop);
        // Whoever wants to know calls `end`; what is not back is in the journal.
        let _ = self.take_away();
    }
}

fn check(budget: &ExpansionLimits, site: &SettingsRoot) -> Result<(), Unavailable> {
    if budget.dram.0 < DRAM_MIN.0 {
        return Err(Unavailable::unavailable(format!("{} of DRAM are too little for any program", budget.dram))
            .hint(format!("give it at least {DRAM_MIN}")));
    }
    let signs = machine::expand_probes::read(&site.root);
    if let Some(lack) = refusal(&signs, budget.engine == PagingMode::Steered) {
        let command = lack.command.map_or(String::new(), |command| format!(": {command}"));
        return Err(Unavailable {
            what: lack.found,
            hint: Some(format!("{}{command}", lack.fix)),
            not_permitted: true,
        });
    }
    swap_check::check(&budget.folder)?;
    if !budget.allow_unencrypted && swap_check::would_leave_encryption(&site.root, &budget.folder) {
        let folder = budget.folder.display();
        return Err(Unavailable::unavailable(format!(
            "this machine swaps to encrypted disks alone, and {folder} is not on one: what the program has in memory could be read there later"
        ))
        .hint("--far-file names a folder on an encrypted disk; --allow-unencrypted does it all the same"));
    }
    Ok(())
}

fn open_sense(minor_period: u64) -> Result<FaultSource, Unavailable> {
    FaultSource::open(minor_period).map_err(|error| {
        Unavailable::io("cannot watch page faults (perf_event_open)", &error)
            .hint("root may, unless the kernel or the container forbids it; --engine plain does without")
    })
}

/// The group's name is not used twice on a machine: a process makes several, one after the other.
fn make_group(changed: &mut AppliedSettings, site: &SettingsRoot) -> Result<MemoryCgroup, Unavailable> {
    let (version, mount) = cgroup::site(&site.root).map_err(Unavailable::unavailable)?;
    let below = |folder: &Path| folder.strip_prefix(&site.root).unwrap_or(folder).display().to_string();
    if version == cgroup::Version::V2 {
        let controller = SettingTarget::Controller { group: below(&mount), name: cgroup::CONTROLLER.into() };
        changed.set_together(SETTING, controller, machine::undo::ON)?;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let name = format!("{GROUP_PREFIX}{}-{:x}", std::process::id(), since);
    let folder = mount.join(name);
    changed.set(SETTING, SettingTarget::Group(below(&folder)), machine::undo::THERE)?;
    MemoryCgroup::open(version, &folder).map_err(|error| Unavailable::io("cannot read what a cgroup holds", &error))
}

fn take_off(
    sense: FaultSource,
    group: &MemoryCgroup,
    tuning: Tuning,
    trace: Option<Trace>,
) -> Result<PagingController, Unavailable> {
    PagingController::start(sense, again(group)?, tuning, trace)
        .map_err(|error| Unavailable::io("cannot start a thread", &error))
}

fn look_on(sense: FaultSource, group: &MemoryCgroup, dram: Bytes, trace: Trace) -> Result<FaultRecorder, Unavailable> {
    FaultRecorder::start(sense, again(group)?, dram, trace)
        .map_err(|error| Unavailable::io("cannot start a thread", &error))
}

fn again(group: &MemoryCgroup) -> Result<MemoryCgroup, Unavailable> {
    group.again().map_err(|error| Unavailable::io("cannot read what a cgroup holds", &error))
}
