//! Placements of running services that are kept: applies them, lists them and undoes them. Each has a directory with its
//! undo journal, its description, and the nodes that its memory had. Must not depend on arguments.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use files::NewFile;
use machine::interrupt::{Routes, affinities};
use machine::residency::{inspect, numa_balancing_is_on};
use machine::service_memory::{Destination, ServiceMemory};
use machine::service_threads::{FoundMask, Mask, ServiceThreads};
use machine::undo::{self, AppliedSettings, SettingsRoot};
use model::analysis::live::{
    AppliedChange, AppliedFinding, AppliedPlacement, MovedMemory, UndonePlacement, permanent_lines,
};
use model::analysis::residency::NodeBytes;
use model::values::id_set::CpuSet;
use model::values::undo::{CpusetOwner, CpusetResource, Restored, ServiceProcesses, SettingTarget};
use model::values::units::Bytes;

use crate::app::run_guard::{BAN_HINT, exclude_from_irqbalance, failure};
use crate::error::{CliError, CliStatus};

/// The description of an applied placement.
const DESCRIPTION: &str = "placement.json";
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;
/// Where the memory was.
const PAGES: &str = "pages";

/// Receives the size of the memory that was checked, and of all memory.
pub type MoveObserver<'a> = dyn FnMut(Bytes, Bytes) + 'a;

/// A placement to be applied.
pub struct ApplyRequest {
    pub placement: AppliedPlacement,
    pub threads: ServiceThreads,
    pub found: FoundMask,
    /// Where its memory shall be; `None` if it stays.
    pub destination: Option<Destination>,
    /// Whether interrupts may be excluded from irqbalance.
    pub ban_irqbalance: bool,
}

/// An applied placement with its directory.
pub struct Applied {
    pub placement: AppliedPlacement,
    site: SettingsRoot,
}

impl Applied {
    /// Returns all applied placements.
    ///
    /// # Errors
    /// If a description cannot be read.
    pub fn all(site: &SettingsRoot) -> Result<Vec<Self>, CliError> {
        let mut all = Vec::new();
        for site in site.applied() {
            let path = site.state.join(DESCRIPTION);
            // Killed before its first change.
            if !path.exists() {
                continue;
            }
            let cannot_read = |why: String| CliError::failure(format!("cannot read {}: {why}", path.display()));
            files::check_dir(&site.state).map_err(|error| cannot_read(error.to_string()))?;
            let text =
                files::read_text(&path, DESCRIPTION_BYTES_MAX).map_err(|error| cannot_read(error.to_string()))?;
            let placement = serde_json::from_str(&text).map_err(|error| cannot_read(error.to_string()))?;
            all.push(Self { placement, site });
        }
        Ok(all)
    }

    /// Returns those of a service.
    pub fn of(site: &SettingsRoot, processes: &ServiceProcesses) -> Result<Vec<Self>, CliError> {
        Ok(Self::all(site)?.into_iter().filter(|applied| applied.placement.processes == *processes).collect())
    }

    /// Records where the memory of a service is before an experiment moves it. Returns the record with its directory.
    ///
    /// # Errors
    /// If the memory cannot be inspected, or the record cannot be written.
    pub fn begin_experiment(
        site: &SettingsRoot,
        placement: AppliedPlacement,
        threads: &ServiceThreads,
    ) -> Result<(Self, ServiceMemory), CliError> {
        let cannot_begin = |error: std::io::Error| CliError::failure(format!("cannot record its memory: {error}"));
        let applied = Self { placement, site: site.new_applied().map_err(cannot_begin)? };
        files::create_dirs(&applied.site.state).map_err(cannot_begin)?;
        applied.write_description()?;
        let memory = ServiceMemory::of(&pids(threads)).map_err(CliError::failure)?;
        memory.write(&applied.pages()).map_err(cannot_begin)?;
        Ok((applied, memory))
    }

    /// Moves the memory of services back that experiments have moved, and that were killed. None may be running.
    ///
    /// # Errors
    /// As [`Self::undo`].
    pub fn undo_experiments(site: &SettingsRoot) -> Result<Vec<UndonePlacement>, CliError> {
        let experiments = Self::all(site)?.into_iter().filter(|applied| applied.placement.is_experiment);
        experiments.map(|applied| applied.undo(&AtomicBool::new(false), &mut |_, _| ())).collect()
    }

    /// Applies a placement. If this fails or is interrupted, everything is as before.
    ///
    /// # Errors
    /// If the journal cannot be written, or if the kernel refuses.
    pub fn apply(
        site: &SettingsRoot,
        request: ApplyRequest,
        stop: &AtomicBool,
        observe: &mut MoveObserver<'_>,
    ) -> Result<AppliedChange, CliError> {
        let ApplyRequest { placement, threads, found, destination, ban_irqbalance } = request;
        let site = site.new_applied().map_err(|error| CliError::failure(format!("cannot apply it: {error}")))?;
        let mut applied = Self { placement, site };
        let changed = applied.change(&threads, &found, destination.as_ref(), ban_irqbalance, stop, observe);
        let (moved, is_interrupted) = match changed {
            Ok(moved) => (moved, moved.is_some_and(|moved| moved.is_interrupted)),
            Err(error) => return Err(applied.give_up(error)),
        };
        if is_interrupted {
            return Err(applied.give_up(CliError::with(CliStatus::Interrupted, "interrupted")));
        }
        let memory = applied.memory_now();
        let percent = applied.placement.memory.as_ref().zip(memory.as_ref());
        let percent = percent.and_then(|(applied, now)| now.percent_on(&applied.nodes)).unwrap_or_default();
        if let Some(memory) = &mut applied.placement.memory {
            memory.percent = percent;
        }
        applied.write_description()?;
        let AppliedPlacement { options, cpus, memory: on, .. } = &applied.placement;
        let permanent = permanent_lines(options, cpus, on.as_ref().map(|memory| &memory.nodes));
        let interrupt_lines = applied.placement.interrupt_lines();
        let numa_balancing = moved.is_some() && applied.placement.limited_nodes().is_none() && numa_balancing_is_on();
        Ok(AppliedChange {
            finding: applied.judge_with(memory.as_ref()),
            moved,
            numa_balancing,
            permanent,
            interrupt_lines,
        })
    }

    /// Changes the affinity of threads and interrupts, then the memory: new pages are then on the new nodes already.
    fn change(
        &self,
        threads: &ServiceThreads,
        found: &FoundMask,
        destination: Option<&Destination>,
        ban_irqbalance: bool,
        stop: &AtomicBool,
        observe: &mut MoveObserver<'_>,
    ) -> Result<Option<MovedMemory>, CliError> {
        let (subject, to) = (&self.placement.subject, Mask::Only(self.placement.cpus.clone()));
        let cannot_apply = |error: std::io::Error| {
            CliError::with(CliStatus::of_io(&error), format!("{subject}: the placement cannot be applied: {error}"))
        };
        let mut settings = AppliedSettings::begin(&self.site).map_err(|error| failure(&error))?;
        let (cpuset, moves_threads) = (self.placement.cpuset.as_ref(), found.cpus != self.placement.cpus);
        let replaces_affinity = moves_threads && cpuset.is_none();
        if replaces_affinity {
            let target = SettingTarget::Affinity(threads.processes().clone());
            settings.journal_values(subject, target, &[to.to_string()]).map_err(|error| failure(&error))?;
        }
        let interrupts = &self.placement.interrupts;
        exclude_from_irqbalance(&mut settings, &interrupts.iter().collect::<Vec<_>>(), ban_irqbalance, BAN_HINT)?;
        let routes = Routes::journal_values(&mut settings, interrupts.iter()).map_err(|error| failure(&error))?;
        // After the journal, which creates the directory.
        files::create_dirs(&self.site.state).map_err(cannot_apply)?;
        self.write_description()?;
        let from = [Mask::Only(found.cpus.clone())];
        let place = || if replaces_affinity { threads.replace(&from, &to) } else { Ok(0) };
        place().map_err(cannot_apply)?;
        if let Some(owner) = cpuset.filter(|_| moves_threads) {
            self.limit(&mut settings, owner, CpusetResource::Cpus, &self.placement.cpus.to_string())?;
            self.check_limit(threads)?;
        }
        routes.send(interrupts).map_err(|error| CliError::failure(format!("{subject}: {error}")))?;
        let moved = match destination {
            Some(destination) => Some(self.move_memory(threads, destination, stop, observe)?),
            None => None,
        };
        // Catches threads that were created meanwhile.
        place().map_err(cannot_apply)?;
        // After the memory was moved: the kernel would do it at once, and the service would wait.
        if let Some((owner, nodes)) = cpuset.zip(self.placement.limited_nodes()) {
            self.limit(&mut settings, owner, CpusetResource::MemoryNodes, &nodes.to_string())?;
        }
        settings.keep();
        Ok(moved)
    }

    fn limit(
        &self,
        settings: &mut AppliedSettings,
        owner: &CpusetOwner,
        resource: CpusetResource,
        list: &str,
    ) -> Result<(), CliError> {
        let target = SettingTarget::Cpuset { owner: owner.clone(), resource };
        settings.set(&self.placement.subject, target, list).map(|_| ()).map_err(|error| failure(&error))
    }

    /// Checks that the cpuset has an effect: a cgroup above may exclude all of its CPUs.
    fn check_limit(&self, threads: &ServiceThreads) -> Result<(), CliError> {
        let AppliedPlacement { subject, cpus, .. } = &self.placement;
        match threads.masks().into_values().find(|mask| !mask.is_subset(cpus)) {
            Some(mask) => Err(CliError::failure(format!(
                "{subject}: its cpuset allows {}, but its threads may run on {}",
                cpus.described(),
                mask.described()
            ))
            .hint("a cgroup above it may exclude these CPUs: see cpuset.cpus.effective in its directory")),
            None => Ok(()),
        }
    }

    fn move_memory(
        &self,
        threads: &ServiceThreads,
        destination: &Destination,
        stop: &AtomicBool,
        observe: &mut MoveObserver<'_>,
    ) -> Result<MovedMemory, CliError> {
        let subject = &self.placement.subject;
        let memory = ServiceMemory::of(&pids(threads)).map_err(CliError::failure)?;
        let path = self.pages();
        memory.write(&path).map_err(|error| CliError::failure(format!("cannot write {}: {error}", path.display())))?;
        let all = memory.bytes();
        memory.move_to(destination, stop, &mut |done| observe(done, all)).map_err(|error| {
            CliError::with(CliStatus::of_io(&error), format!("{subject}: its memory cannot be moved: {error}"))
                .hint("its cpuset must allow the nodes: see Mems_allowed_list in /proc/PID/status")
        })
    }

    fn pages(&self) -> PathBuf {
        self.site.state.join(PAGES)
    }

    fn write_description(&self) -> Result<(), CliError> {
        let path = self.site.state.join(DESCRIPTION);
        let text = serde_json::to_string(&self.placement).expect("text and numbers are JSON");
        let write = || {
            let new = NewFile::create(&path)?;
            new.file().write_all(text.as_bytes())?;
            new.replace()
        };
        write().map_err(|error: std::io::Error| CliError::failure(format!("cannot write {}: {error}", path.display())))
    }

    /// Undoes all changes made so far, and returns the error.
    fn give_up(self, error: CliError) -> CliError {
        let subject = self.placement.subject.clone();
        match self.undo(&AtomicBool::new(false), &mut |_, _| ()) {
            Ok(undone) if undone.is_settled => error,
            _ => error.hint(format!("{subject} is not restored yet: run nearfar live undo --all")),
        }
    }

    /// Restores the affinity, and moves the memory back. What cannot be undone now can be undone later.
    ///
    /// # Errors
    /// If the journal cannot be read, or if the kernel refuses.
    pub fn undo(self, stop: &AtomicBool, observe: &mut MoveObserver<'_>) -> Result<UndonePlacement, CliError> {
        let subject = self.placement.subject.clone();
        let restored = undo::restore(&self.site, false).map_err(|error| failure(&error))?;
        let cannot_move = |error: std::io::Error| {
            CliError::with(CliStatus::of_io(&error), format!("{subject}: its memory cannot be moved back: {error}"))
        };
        let path = self.pages();
        let moved = if path.exists() {
            let memory = ServiceMemory::read(&path).map_err(cannot_move)?;
            let all = memory.bytes();
            let moved = memory.move_to(&Destination::AsListed, stop, &mut |done| observe(done, all));
            Some(moved.map_err(cannot_move)?)
        } else {
            None
        };
        let is_interrupted = moved.is_some_and(|moved| moved.is_interrupted);
        let is_settled = !is_interrupted && restored.iter().all(Restored::is_settled);
        if is_settled {
            self.remove()
                .map_err(|error| CliError::failure(format!("cannot remove {}: {error}", self.site.state.display())))?;
        }
        Ok(UndonePlacement { subject, restored, moved, is_settled })
    }

    /// Removes its directory, of which the journal is gone.
    fn remove(&self) -> std::io::Result<()> {
        for path in [self.pages(), self.site.state.join(DESCRIPTION)] {
            std::fs::remove_file(path).or_else(ignore_missing)?;
        }
        std::fs::remove_dir(&self.site.state).or_else(ignore_missing)
    }

    /// Finds out whether it is in effect.
    pub fn judge(self) -> AppliedFinding {
        let memory = self.memory_now();
        self.judge_with(memory.as_ref())
    }

    /// Does the same, with the memory by node.
    fn judge_with(self, memory: Option<&NodeBytes>) -> AppliedFinding {
        let masks: Vec<CpuSet> = self.threads().masks().into_values().collect();
        let numbers = self.placement.interrupts.iter().map(|route| route.number);
        let interrupts = affinities(&self.site.root, numbers);
        self.placement.judge(&masks, &interrupts, memory)
    }

    /// Returns the memory by node, if the placement names memory and it can be inspected.
    fn memory_now(&self) -> Option<NodeBytes> {
        self.placement.memory.as_ref()?;
        Some(inspect(&pids(&self.threads())).ok()?.total)
    }

    fn threads(&self) -> ServiceThreads {
        ServiceThreads::new(self.placement.processes.clone())
    }
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

pub(super) fn pids(threads: &ServiceThreads) -> Vec<u32> {
    let pids: BTreeSet<u32> = threads.masks().into_keys().map(|(pid, _)| pid).collect();
    pids.into_iter().collect()
}
