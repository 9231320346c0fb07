//! Sets the interrupt affinities of placements and verifies them: all values are journalled before the first write,
//! each affinity is read back, and interrupts are counted by CPU. Must not depend on policies.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::values::id_set::{CpuId, CpuSet};
use model::values::placement::Route;
use model::values::topology::InterruptCounts;
use model::values::trial::{DeviceInterrupt, Evidence};
use model::values::undo::{CurrentValue, SettingTarget};

use crate::sysfs;
use crate::undo::{self, AppliedSettings, ChangeError};

/// Name of the setting in the journal.
const SETTING: &str = "interrupt";
/// Time within which the kernel reports a new affinity. While it moves an interrupt that arrives meanwhile, it reports the
/// previous one.
const REPORTED_WITHIN: Duration = Duration::from_millis(100);
const REPORT_POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Interrupts that a run may move, each with its original affinity. Can be created only by journalling them.
#[derive(Clone, Debug)]
pub struct Routes {
    root: PathBuf,
    /// Affinity in the kernel's notation, by interrupt number.
    original: BTreeMap<u32, String>,
}

/// An interrupt affinity that cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The kernel manages the affinity of this interrupt.
    #[error("{0}")]
    Managed(String),
    #[error("{0}")]
    Refused(String),
}

/// Counts and affinities of interrupts from the start of a trial.
#[derive(Clone, Debug)]
pub struct InterruptMonitor {
    root: PathBuf,
    before: Result<InterruptCounts, String>,
    interrupts: Vec<DeviceInterrupt>,
}

impl Routes {
    /// Journals every affinity that the run may write, and writes none. An interrupt that keeps its affinity needs no
    /// entry.
    pub fn journal_values<'a>(
        changed: &mut AppliedSettings,
        routes: impl Iterator<Item = &'a Route>,
    ) -> Result<Self, ChangeError> {
        let mut requested: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for route in routes.filter(|route| route.is_placed()) {
            let lists = requested.entry(route.number).or_default();
            let list = route.cpus.to_string();
            if !lists.contains(&list) {
                lists.push(list);
            }
        }
        let root = changed.root().to_path_buf();
        let mut original = BTreeMap::new();
        for (number, lists) in requested {
            original.insert(number, changed.journal_values(SETTING, target(number), &lists)?);
        }
        Ok(Self { root, original })
    }

    /// Sets the journalled interrupts to the affinities of a trial's placement, and all others of them to their
    /// original affinities.
    pub fn send(&self, routes: &[Route]) -> Result<(), RouteError> {
        for (number, original) in &self.original {
            let route = routes.iter().find(|route| route.number == *number && route.is_placed());
            let list = route.map_or_else(|| original.clone(), |route| route.cpus.to_string());
            self.send_one(*number, &list)?;
        }
        Ok(())
    }

    fn send_one(&self, number: u32, list: &str) -> Result<(), RouteError> {
        let target = target(number);
        let now = || undo::read(&self.root, &target);
        if now() == CurrentValue::Value(list.into()) {
            return Ok(());
        }
        undo::write(&self.root, &target, list).map_err(|error| refused(number, list, &error))?;
        let began = Instant::now();
        loop {
            match now() {
                CurrentValue::Value(value) if value == list => return Ok(()),
                other if began.elapsed() >= REPORTED_WITHIN => {
                    return Err(RouteError::Refused(format!(
                        "interrupt {number}: the kernel accepted cpus {list}, but reports {}",
                        undo::shown(&other)
                    )));
                }
                _ => std::thread::sleep(REPORT_POLL_INTERVAL),
            }
        }
    }
}

fn target(number: u32) -> SettingTarget {
    SettingTarget::File(format!("proc/irq/{number}/smp_affinity_list"))
}

fn refused(number: u32, list: &str, error: &io::Error) -> RouteError {
    let what = format!("cannot move interrupt {number} to cpus {list}: {error}");
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EIO) => {
            RouteError::Managed(format!("{what}: it is managed: the kernel sets its affinity and permits no change"))
        }
        _ if error.kind() == ErrorKind::InvalidInput => RouteError::Refused(format!("{what}: none of them is online")),
        _ => RouteError::Refused(what),
    }
}

impl InterruptMonitor {
    /// Reads these interrupts before a trial. `root` is the root of the routes, or `/` if no interrupt is moved.
    pub fn begin(root: PathBuf, routes: &[Route]) -> Self {
        let interrupt = |route: &Route| DeviceInterrupt {
            device: route.device.clone(),
            number: route.number,
            name: route.name.clone(),
            affinity_at_start: affinity(&root, route.number, "smp_affinity_list"),
            effective_at_start: affinity(&root, route.number, "effective_affinity_list"),
            ..DeviceInterrupt::default()
        };
        let interrupts = routes.iter().map(interrupt).collect();
        Self { before: counts(&root), root, interrupts }
    }

    /// Reads the interrupts again, and records the differences in the evidence of a trial.
    pub fn explain(self, evidence: &mut Evidence) {
        if self.interrupts.is_empty() {
            return;
        }
        let (interrupts, counted) = self.observed();
        if let Err(why) = counted {
            evidence.unavailable.insert("device_interrupts".into(), why);
        }
        evidence.device_interrupts = interrupts;
    }

    /// Reads the interrupts again. Returns the differences, and an error if they could not be counted.
    pub fn observed(self) -> (Vec<DeviceInterrupt>, Result<(), String>) {
        let Self { root, before, mut interrupts } = self;
        let counted = before.and_then(|before| {
            let after = counts(&root)?;
            interrupts.iter_mut().for_each(|one| one.arrived = arrived(one.number, &before, &after));
            Ok(())
        });
        for one in &mut interrupts {
            one.affinity_at_end = affinity(&root, one.number, "smp_affinity_list");
            one.effective_at_end = affinity(&root, one.number, "effective_affinity_list");
        }
        (interrupts, counted)
    }
}

impl Routes {
    pub fn root(&self) -> PathBuf {
        self.root.clone()
    }
}

/// Returns the CPUs that may handle each of these interrupts; those that do not exist are missing.
pub fn affinities(root: &Path, numbers: impl Iterator<Item = u32>) -> BTreeMap<u32, CpuSet> {
    let of = |number| Some((number, sysfs::read_list(root, &format!("proc/irq/{number}/smp_affinity_list"))?));
    numbers.filter_map(of).collect()
}

fn counts(root: &Path) -> Result<InterruptCounts, String> {
    sysfs::interrupt_counts(root).map_err(|error| format!("/proc/interrupts: {error}"))
}

fn affinity(root: &Path, number: u32, name: &str) -> CpuSet {
    sysfs::read_list(root, &format!("proc/irq/{number}/{name}")).unwrap_or_default()
}

fn arrived(number: u32, before: &InterruptCounts, after: &InterruptCounts) -> BTreeMap<CpuId, u64> {
    let earlier = |cpu: &CpuId| before.get(&number).and_then(|counts| counts.get(cpu)).copied().unwrap_or(0);
    let grown = |(cpu, count): (&CpuId, &u64)| (*cpu, count.saturating_sub(earlier(cpu)));
    let after = after.get(&number).into_iter().flatten();
    after.map(grown).filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;
    use crate::undo::SettingsRoot;

    const SEVEN: &str = "proc/irq/7/smp_affinity_list";
    const EIGHT: &str = "proc/irq/8/smp_affinity_list";

    fn route(number: u32, list: &str) -> Route {
        Route { device: "sda".into(), number, name: "xhci".into(), cpus: CpuSet::parse_list(list).unwrap() }
    }

    #[test]
    fn trials_move_interrupts_and_restore_reverts_them() {
        let dir =
            tree(&[(SEVEN, "0-3\n"), (EIGHT, "2\n"), ("proc/interrupts", "   CPU0 CPU1\n 7: 5 9 MSI 1-edge x\n")]);
        let site = SettingsRoot { root: dir.path().into(), state: dir.path().join("state") };
        let value = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap().trim().to_string();
        let mut changed = AppliedSettings::begin(&site).unwrap();
        let cells = [route(7, "1"), route(7, ""), route(8, "2"), route(7, "0,2"), route(9, "")];
        let routes = Routes::journal_values(&mut changed, cells.iter()).unwrap();
        let journal = std::fs::read_to_string(dir.path().join("state/undo.journal")).unwrap();
        assert_eq!(journal.lines().count(), 1, "8 keeps its affinity: {journal}");
        assert_eq!(value(SEVEN), "0-3", "journalled but not written");
        routes.send(&cells[..1]).unwrap();
        assert_eq!(value(SEVEN), "1");
        routes.send(&cells[3..4]).unwrap();
        assert_eq!(value(SEVEN), "0,2");
        routes.send(&[]).unwrap();
        assert_eq!(value(SEVEN), "0-3", "a trial without a route has the original affinity");
        routes.send(&cells[3..4]).unwrap();
        let monitor = InterruptMonitor::begin(routes.root(), &cells[3..4]);
        std::fs::write(dir.path().join("proc/interrupts"), "   CPU0 CPU1\n 7: 6 9 MSI 1-edge x\n").unwrap();
        let mut evidence = Evidence::default();
        monitor.explain(&mut evidence);
        let seen = &evidence.device_interrupts[0];
        assert_eq!((seen.affinity_at_end.to_string(), &seen.arrived), ("0,2".into(), &[(CpuId(0), 1)].into()));
        assert_eq!(changed.restore().len(), 1);
        assert_eq!((value(SEVEN), value(EIGHT)), ("0-3".into(), "2".into()));
    }

    #[test]
    fn only_journalled_values_are_restored_after_a_kill() {
        for (left, back) in [("1", "0-3"), ("0,2", "0-3"), ("3", "3")] {
            let dir = tree(&[(SEVEN, "0-3\n")]);
            let site = SettingsRoot { root: dir.path().into(), state: dir.path().join("state") };
            let mut changed = AppliedSettings::begin(&site).unwrap();
            Routes::journal_values(&mut changed, [route(7, "1"), route(7, "0,2")].iter()).unwrap();
            std::mem::forget(changed);
            std::fs::write(dir.path().join(SEVEN), left).unwrap();
            let restored = undo::restore(&site, false).unwrap();
            assert_eq!(restored[0].is_settled(), back == "0-3", "{restored:?}");
            assert_eq!(std::fs::read_to_string(dir.path().join(SEVEN)).unwrap().trim(), back);
        }
    }

    #[test]
    fn moving_a_managed_interrupt_reports_that_it_is_managed() {
        let root = std::path::Path::new("/");
        let managed = sysfs::interrupt_lines(root)
            .into_iter()
            .find(|line| super::super::movability(root, line.number) == model::values::topology::Movability::Managed);
        let Some(line) = managed else { return println!("skipped: no interrupt here is known to be managed") };
        let original = sysfs::read_text(root, &format!("proc/irq/{}/smp_affinity_list", line.number)).unwrap();
        let routes = Routes { root: root.into(), original: [(line.number, original.clone())].into() };
        let first = CpuSet::parse_list(&original).unwrap().first().unwrap();
        let error = routes.send(&[route(line.number, &first.to_string())]).unwrap_err();
        assert!(matches!(&error, RouteError::Managed(why) if why.contains("it is managed")), "{error:?}");
    }
}
