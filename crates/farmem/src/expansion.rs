//! An expansion: a cgroup with a DRAM limit, swap on a file for the rest and, in steered mode, the paging controller
//! around one program. Every change is in the undo journal before it is made, and is undone when the expansion is ended
//! or dropped. Must not know the program.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use machine::cgroup::{self, CompressedUse, GroupUsage, MemoryCgroup};
use machine::expand_probes::{self, Compressor};
use machine::swap::{self, LARGE_FOLIOS, LoopDevice, ZSWAP};
use machine::undo::{AppliedSettings, SettingsRoot};
use machine::zram::ZramDevice;
use model::analysis::doctor::refusal;
use model::values::undo::{GROUP_PREFIX, Restored, SettingTarget};
use model::values::units::{Bytes, Nanos};

use crate::array::{Access, FarFile, FarLocation, fill_with_zeros};
use crate::compressed::{CompressedTier, TierOptions, TierState, ZswapSwitch, create_areas, zswap_max};
use crate::controller::{ControllerStats, PagingController};
use crate::faults::FaultSource;
use crate::predict::Tuning;
use crate::recorder::FaultRecorder;
use crate::trace::{Header, Trace};
use crate::{Unavailable, swap_check};

/// Name of these changes in the journal.
const SETTING: &str = "expand";
/// Time within which killed processes are gone, unless they wait in the kernel.
const KILL_TIME: Duration = Duration::from_secs(5);
/// Minimum limit: less does not hold the code and stack of a program, and gives the kernel nothing to choose from.
pub const DRAM_MIN: Bytes = Bytes(8 << 20);
/// If more than half of far memory is used, the kernel frees the copies of pages that are also in DRAM.
const FAR_TIMES_DRAM: u64 = 4;
const FAR_MIN: u64 = 1 << 30;

/// How pages are chosen for eviction and prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingMode {
    /// By the paging controller, ahead of and behind the program.
    Steered,
    /// By the kernel's own swap, with its present settings.
    Plain,
}

/// Whether evicted pages may stay in DRAM, compressed, before they go to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionMode {
    Never,
    /// Once the program waits for the disk, and for as long as compression makes it wait less; never if the kernel
    /// cannot.
    Auto,
    Always,
}

/// Memory limits of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpansionLimits {
    /// Maximum DRAM.
    pub dram: Bytes,
    /// How pages are chosen for eviction and prefetch.
    pub engine: PagingMode,
    /// Directory of the swap file.
    pub directory: PathBuf,
    pub far: Bytes,
    /// Whether the file is overwritten at the end.
    pub shred: bool,
    /// Whether far memory may be on an unencrypted disk if all swap is encrypted.
    pub allow_unencrypted: bool,
    pub compressed: CompressionMode,
}

impl ExpansionLimits {
    /// Returns limits in steered mode, with the far memory that such a budget usually needs, in the directory for large
    /// temporary files.
    pub fn of(dram: Bytes) -> Self {
        Self {
            dram,
            engine: PagingMode::Steered,
            directory: "/var/tmp".into(),
            far: Bytes((dram.0 * FAR_TIMES_DRAM).max(FAR_MIN)),
            shred: false,
            allow_unencrypted: false,
            compressed: CompressionMode::Never,
        }
    }
}

/// Memory use of a program, and statistics of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpansionStatus {
    pub held: GroupUsage,
    /// Processes that the kernel killed because memory ran out.
    pub killed: u64,
    /// Bytes read from far memory.
    pub far_read: Bytes,
    pub far_written: Bytes,
    /// Statistics of the controller; `None` without one.
    pub piloted: Option<ControllerStats>,
    /// CPU time of the thread that evicts to zram; `None` without one.
    pub compressing_cpu: Option<Duration>,
    /// Pages that are kept compressed; `None` if the kernel has no zswap that counts towards the limit, and zram is not used.
    pub compressed: Option<CompressedUse>,
}

/// An expansion in effect.
pub struct Expansion {
    group: MemoryCgroup,
    dram: Bytes,
    pilot: Option<PagingController>,
    /// Recorder of faults in kernel mode.
    watch: Option<FaultRecorder>,
    /// Compressed memory that the kernel does not charge to the cgroup.
    tier: Option<CompressedTier>,
    /// Decides whether the kernel compresses, if that is not fixed.
    zswap: Option<ZswapSwitch>,
    /// `None` once everything is undone.
    changed: Option<AppliedSettings>,
    site: SettingsRoot,
    /// Empty once everything is undone.
    disks: Vec<FarDisk>,
    /// Whether the files are overwritten at the end.
    is_shredded: bool,
}

/// A swap area on a file without a name.
struct FarDisk {
    device: LoopDevice,
    file: File,
    size: Bytes,
}

impl FarDisk {
    fn attach(directory: &Path, size: Bytes) -> Result<Self, Unavailable> {
        let page = crate::page_bytes();
        let place = FarLocation::parse(&directory.to_string_lossy())?;
        let file = FarFile::new(&place, size.0 as usize, Access::Mapped)?.into_file();
        swap::format(&file, size.0, page)
            .map_err(|error| Unavailable::io("cannot write the header of far memory", &error))?;
        let device = LoopDevice::attach(&file, page as u32).map_err(|error| {
            Unavailable::io("cannot create a loop device for far memory", &error)
                .with_hint("run as root; the kernel needs loop devices (modprobe loop)")
        })?;
        Ok(Self { device, file, size })
    }
}

impl Expansion {
    /// Sets up an expansion. `parent` is the process that will fork the program; `None` if the calling thread will. The program
    /// enters through [`Expansion::cgroup_procs`] before it does anything else. `site` must be used by this expansion only.
    pub fn start(budget: &ExpansionLimits, site: &SettingsRoot, parent: Option<u32>) -> Result<Self, Unavailable> {
        Self::set_up(budget, site, parent, None)
    }

    /// Sets up an expansion whose program the calling thread will fork, and records page faults: those that the controller
    /// samples, or in kernel mode each one, which slows the program down.
    pub fn start_recorded(
        budget: &ExpansionLimits,
        site: &SettingsRoot,
        trace: Option<Trace>,
    ) -> Result<Self, Unavailable> {
        Self::set_up(budget, site, None, trace)
    }

    fn set_up(
        budget: &ExpansionLimits,
        site: &SettingsRoot,
        parent: Option<u32>,
        trace: Option<Trace>,
    ) -> Result<Self, Unavailable> {
        check(budget, site)?;
        let page = crate::page_bytes();
        let compressor = compressor(budget, site);
        let disks = attach_disks(budget, compressor)?;
        // Before the first change: opening the fault source fails without permission.
        let steered = budget.engine == PagingMode::Steered;
        let minor_period = if steered { Tuning::for_dram(budget.dram.0, page).minor_period } else { 1 };
        let sense = (steered || trace.is_some()).then(|| open_sense(minor_period, parent)).transpose()?;
        let mut changed = AppliedSettings::begin(site)?;
        let mut folios = None;
        if steered {
            for disk in &disks {
                disk.device
                    .no_seeks()
                    .map_err(|error| Unavailable::io("cannot configure the queue of the far memory device", &error))?;
            }
            // Kernels without such folios use single pages. From zram, a fault would read whole folios.
            if compressor != Some(Compressor::Zram) || budget.compressed == CompressionMode::Auto {
                folios = swap::large_folios(&site.root);
                let _ = changed.set_together(SETTING, SettingTarget::File(LARGE_FOLIOS.into()), "always");
            }
        }
        for FarDisk { device, .. } in &disks {
            let swap =
                SettingTarget::Swap { device: device.device().display().to_string(), backing: device.backing().into() };
            changed.set(SETTING, swap, machine::undo::ON)?;
        }
        // Before the cgroup: the undo journal removes it first, and its memory with it.
        let areas = create_tier(budget, compressor, &mut changed)?;
        let group = make_group(&mut changed, site)?;
        let dram =
            group.limit(budget.dram).map_err(|error| Unavailable::io("cannot limit the memory of a cgroup", &error))?;
        limit_compressed(budget, compressor, &group, &mut changed)?;
        if let Some(trace) = &trace {
            trace.begin(&Header { page, dram: dram.0, minor_period, steered });
        }
        let options = TierOptions {
            dram,
            disks: paths(&disks),
            from_start: budget.compressed == CompressionMode::Always,
            guards: !steered,
            folios,
        };
        let tier = areas.map(|areas| start_tier(areas, &group, options)).transpose()?;
        let tier_state = tier.as_ref().map(CompressedTier::state);
        let (pilot, watch) = match (sense, trace) {
            (None, _) => (None, None),
            (Some(sense), trace) if steered => {
                (Some(start_controller(sense, &group, Tuning::for_dram(dram.0, page), tier_state, trace)?), None)
            }
            (Some(sense), trace) => (None, trace.map(|trace| record(sense, &group, dram, trace)).transpose()?),
        };
        let is_switched = compressor == Some(Compressor::Zswap) && budget.compressed == CompressionMode::Auto;
        let zswap = is_switched.then(|| start_switch(&group, budget.dram, paths(&disks))).transpose()?;
        Ok(Self {
            group,
            dram,
            pilot,
            watch,
            tier,
            zswap,
            changed: Some(changed),
            site: site.clone(),
            disks,
            is_shredded: budget.shred,
        })
    }

    /// The file to which the first process writes `0` before it executes the program.
    pub fn cgroup_procs(&self) -> Result<File, Unavailable> {
        self.group.entrance().map_err(|error| Unavailable::io("cannot open cgroup.procs of a cgroup", &error))
    }

    /// The DRAM limit as the kernel rounded it.
    pub fn dram(&self) -> Bytes {
        self.dram
    }

    /// DRAM in use: anonymous and shared memory, mapped files, page tables and other kernel memory, but not files that
    /// are only cached.
    pub fn own_memory(&self) -> Bytes {
        let usage = self.group.usage().unwrap_or_default();
        let cache = self.group.held().unwrap_or_default().unused_cache();
        Bytes(usage.0.saturating_sub(cache.0))
    }

    /// DRAM that compressed pages use.
    pub fn pool(&self) -> Bytes {
        self.compressed().unwrap_or_default().dram
    }

    fn compressed(&self) -> Option<CompressedUse> {
        self.tier.as_ref().map(|tier| tier.state().used()).or_else(|| self.group.compressed())
    }

    /// The processes in the cgroup.
    pub fn processes(&self) -> Vec<u32> {
        self.group.processes()
    }

    /// Kills all processes in the cgroup and waits until they are gone.
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
        let traffic = self.disks.iter().map(|disk| disk.device.traffic());
        let (far_read, far_written) = traffic
            .fold((Bytes(0), Bytes(0)), |sum, (read, written)| (Bytes(sum.0.0 + read.0), Bytes(sum.1.0 + written.0)));
        ExpansionStatus {
            far_read,
            far_written,
            held: self.group.held().unwrap_or_default(),
            killed: self.group.killed(),
            piloted: self.pilot.as_ref().map(PagingController::stats),
            compressing_cpu: self.tier.as_ref().map(|tier| tier.state().cpu()),
            compressed: self.compressed(),
        }
    }

    /// Returns the swap areas of others that the kernel fills before this expansion's or in turn with it.
    pub fn other_swap(&self) -> Vec<String> {
        let compressed = self.tier.iter().flat_map(|tier| tier.areas().to_vec());
        let own: Vec<PathBuf> = paths(&self.disks).into_iter().chain(compressed).collect();
        swap::other_areas(&self.site.root, &own).unwrap_or_default()
    }

    /// Total time for which processes waited for memory ([`MemoryCgroup::stalled`]).
    pub fn stalled(&self) -> Option<Nanos> {
        self.group.stalled()
    }

    /// Undoes all changes. Fails while a process is in the cgroup.
    pub fn stop(mut self) -> (ExpansionStatus, Vec<Restored>) {
        let mut state = self.state();
        state.piloted = self.pilot.take().map(PagingController::stop);
        self.watch.take().into_iter().for_each(FaultRecorder::stop);
        drop(self.zswap.take());
        if let Some(tier) = &mut self.tier {
            state.compressed = Some(tier.stop());
        }
        let restored = self.undo_changes();
        (state, restored)
    }

    fn undo_changes(&mut self) -> Vec<Restored> {
        let restored = self.changed.take().map(AppliedSettings::restore).unwrap_or_default();
        // The directory of its journal; it remains if it is not empty.
        let _ = std::fs::remove_dir(&self.site.state);
        for FarDisk { device, file, size } in self.disks.drain(..) {
            drop(device);
            if self.is_shredded {
                // A file that could not be overwritten is deleted nevertheless.
                let _ = fill_with_zeros(&file, size.0 as usize);
            }
        }
        restored
    }
}

impl Drop for Expansion {
    fn drop(&mut self) {
        let _ = self.pilot.take().map(PagingController::stop);
        self.watch.take().into_iter().for_each(FaultRecorder::stop);
        drop(self.zswap.take());
        let _ = self.tier.as_mut().map(CompressedTier::stop);
        // Callers that need the result call `stop`; settings that are not restored stay in the journal.
        let _ = self.undo_changes();
    }
}

fn check(budget: &ExpansionLimits, site: &SettingsRoot) -> Result<(), Unavailable> {
    if budget.dram.0 < DRAM_MIN.0 {
        return Err(Unavailable::new(format!("a DRAM limit of {} is too small for any program", budget.dram))
            .with_hint(format!("use at least {DRAM_MIN}")));
    }
    let probes = expand_probes::read(&site.root);
    if let Some(problem) =
        refusal(&probes, budget.engine == PagingMode::Steered, budget.compressed == CompressionMode::Always)
    {
        let command = problem.command.map_or(String::new(), |command| format!(": {command}"));
        return Err(Unavailable {
            what: problem.found,
            hint: Some(format!("{}{command}", problem.fix)),
            not_permitted: true,
        });
    }
    swap_check::check(&budget.directory)?;
    if !budget.allow_unencrypted && swap_check::would_leave_encryption(&site.root, &budget.directory) {
        let dir = budget.directory.display();
        return Err(Unavailable::new(format!(
            "far memory in '{dir}' would be unencrypted, but all swap of this machine is encrypted"
        ))
        .with_hint("use --far-path on an encrypted disk, or pass --allow-unencrypted"));
    }
    Ok(())
}

/// Creates far memory on disk, in two parts if pages may move from disk: while one is emptied, the other is in use.
fn attach_disks(budget: &ExpansionLimits, compressor: Option<Compressor>) -> Result<Vec<FarDisk>, Unavailable> {
    let (page, parts) = (crate::page_bytes(), if compressor == Some(Compressor::Zram) { 2 } else { 1 });
    let size = Bytes(budget.far.0 / parts / page * page);
    (0..parts).map(|_| FarDisk::attach(&budget.directory, size)).collect()
}

fn paths(disks: &[FarDisk]) -> Vec<PathBuf> {
    disks.iter().map(|disk| disk.device.device().into()).collect()
}

fn open_sense(minor_period: u64, parent: Option<u32>) -> Result<FaultSource, Unavailable> {
    FaultSource::open(minor_period, parent).map_err(|error| {
        Unavailable::io("cannot sample page faults (perf_event_open)", &error)
            .with_hint("run as root outside restricted containers, or use --engine kernel")
    })
}

/// The cgroup's name is unique on a machine: a process creates several expansions, one after the other.
fn make_group(changed: &mut AppliedSettings, site: &SettingsRoot) -> Result<MemoryCgroup, Unavailable> {
    let (version, mount) = cgroup::site(&site.root).map_err(Unavailable::new)?;
    let below = |dir: &Path| dir.strip_prefix(&site.root).unwrap_or(dir).display().to_string();
    if version == cgroup::Version::V2 {
        let controller = SettingTarget::Controller { group: below(&mount), name: cgroup::CONTROLLER.into() };
        changed.set_together(SETTING, controller, machine::undo::ON)?;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let name = format!("{GROUP_PREFIX}{}-{:x}", std::process::id(), since);
    let dir = mount.join(name);
    changed.set(SETTING, SettingTarget::Group(below(&dir)), machine::undo::THERE)?;
    MemoryCgroup::open(version, &dir).map_err(|error| Unavailable::io("cannot read the memory use of a cgroup", &error))
}

/// Returns the part of the kernel that keeps evicted pages compressed; `None` if none may. [`check`] has refused kernels that
/// cannot but must.
fn compressor(budget: &ExpansionLimits, site: &SettingsRoot) -> Option<Compressor> {
    let machine = rustix::system::sysinfo();
    // A limit beyond the memory of this machine evicts nothing.
    let is_limited = budget.dram.0 <= machine.totalram as u64 * u64::from(machine.mem_unit);
    let may_compress = is_limited && budget.compressed != CompressionMode::Never;
    may_compress.then(|| expand_probes::compressor(&site.root).ok()).flatten()
}

/// Creates compressed areas if the kernel has no compressed memory that counts towards the limit.
fn create_tier(
    budget: &ExpansionLimits,
    compressor: Option<Compressor>,
    changed: &mut AppliedSettings,
) -> Result<Option<Vec<ZramDevice>>, Unavailable> {
    if compressor != Some(Compressor::Zram) {
        return Ok(None);
    }
    Ok(Some(create_areas(SETTING, budget.dram, changed)?))
}

fn start_tier(
    areas: Vec<ZramDevice>,
    group: &MemoryCgroup,
    options: TierOptions,
) -> Result<CompressedTier, Unavailable> {
    CompressedTier::start(areas, again(group)?, options)
        .map_err(|error| Unavailable::io("cannot start a thread", &error))
}

fn start_switch(group: &MemoryCgroup, dram: Bytes, disks: Vec<PathBuf>) -> Result<ZswapSwitch, Unavailable> {
    ZswapSwitch::start(again(group)?, zswap_max(dram), disks)
        .map_err(|error| Unavailable::io("cannot start a thread", &error))
}

/// Lets the kernel keep evicted pages compressed in zswap, or forbids it: zswap may be on for the whole machine, and far memory
/// would then be DRAM.
fn limit_compressed(
    budget: &ExpansionLimits,
    compressor: Option<Compressor>,
    group: &MemoryCgroup,
    changed: &mut AppliedSettings,
) -> Result<(), Unavailable> {
    let is_compressed = compressor == Some(Compressor::Zswap);
    let begins = is_compressed && budget.compressed == CompressionMode::Always;
    let share = if begins { zswap_max(budget.dram) } else { Bytes(0) };
    match group.limit_compressed(share) {
        Err(error) if error.kind() != ErrorKind::NotFound || is_compressed => {
            return Err(Unavailable::io("cannot limit the compressed memory of a cgroup (memory.zswap.max)", &error)
                .with_hint("use Linux 5.19 or newer with cgroup version 2"));
        }
        _ => {}
    }
    if is_compressed {
        changed.set_together(SETTING, SettingTarget::File(ZSWAP.into()), "Y")?;
    }
    Ok(())
}

fn start_controller(
    sense: FaultSource,
    group: &MemoryCgroup,
    tuning: Tuning,
    tier: Option<Arc<TierState>>,
    trace: Option<Trace>,
) -> Result<PagingController, Unavailable> {
    PagingController::start(sense, again(group)?, tuning, tier, trace)
        .map_err(|error| Unavailable::io("cannot start a thread", &error))
}

fn record(sense: FaultSource, group: &MemoryCgroup, dram: Bytes, trace: Trace) -> Result<FaultRecorder, Unavailable> {
    FaultRecorder::start(sense, again(group)?, dram, trace)
        .map_err(|error| Unavailable::io("cannot start a thread", &error))
}

fn again(group: &MemoryCgroup) -> Result<MemoryCgroup, Unavailable> {
    group.again().map_err(|error| Unavailable::io("cannot read the memory use of a cgroup", &error))
}
