//! Tunes this machine for low noise: finds the file or process of each setting and applies the value that disturbs
//! measurements least. Must not restore settings: [`crate::undo`] does.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use model::values::undo::{CurrentValue, SettingTarget, TunedSetting};

use crate::sysfs;
use crate::undo::{self, AppliedSettings, ChangeError};

const CPU: &str = "sys/devices/system/cpu";
const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const LATENCY: &str = "dev/cpu_dma_latency";
const NO_LATENCY: &str = "at most 0 us";

/// Result of tuning a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuneOutcome {
    Set {
        /// Distinct previous values. The list is empty if they are not known before the change.
        old: Vec<String>,
        new: String,
    },
    /// The setting already had the tuned value.
    WasQuiet,
    /// This machine does not have the setting, for this reason.
    Unavailable(String),
}

/// Location of a setting, and its tuned value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SettingSource {
    Targets(Vec<SettingTarget>, &'static str),
    /// `/dev/cpu_dma_latency`; a request lasts as long as the file is open.
    Latency,
}

/// Applies the tuned values of these settings in order. After an error, dropping `changed` restores the settings.
pub fn apply(
    changed: &mut AppliedSettings,
    settings: &[TunedSetting],
) -> Result<Vec<(TunedSetting, TuneOutcome)>, ChangeError> {
    settings.iter().map(|setting| Ok((*setting, apply_one(changed, *setting)?))).collect()
}

/// Returns what [`apply`] would do, without changing anything.
pub fn preview(root: &Path, settings: &[TunedSetting]) -> Vec<(TunedSetting, TuneOutcome)> {
    settings.iter().map(|setting| (*setting, preview_one(root, *setting))).collect()
}

fn preview_one(root: &Path, setting: TunedSetting) -> TuneOutcome {
    match source_of(root, setting) {
        Err(why) => TuneOutcome::Unavailable(why),
        Ok(SettingSource::Latency) => TuneOutcome::Set { old: Vec::new(), new: NO_LATENCY.into() },
        Ok(SettingSource::Targets(targets, new)) => {
            let other = |target: &SettingTarget| match undo::read(root, target) {
                CurrentValue::Value(value) if value == new => None,
                current => Some(undo::shown(&current)),
            };
            outcome(targets.iter().filter_map(other).collect(), new)
        }
    }
}

/// Returns the result of a setting whose targets had these other values.
fn outcome(mut old: Vec<String>, new: &str) -> TuneOutcome {
    old.sort_unstable();
    old.dedup();
    if old.is_empty() { TuneOutcome::WasQuiet } else { TuneOutcome::Set { old, new: new.into() } }
}

fn apply_one(changed: &mut AppliedSettings, setting: TunedSetting) -> Result<TuneOutcome, ChangeError> {
    match source_of(changed.root(), setting) {
        Err(why) => Ok(TuneOutcome::Unavailable(why)),
        Ok(SettingSource::Latency) => {
            let (file, old_us) = open_latency(changed.root())?;
            changed.hold(file);
            Ok(TuneOutcome::Set { old: vec![format!("at most {old_us} us")], new: NO_LATENCY.into() })
        }
        Ok(SettingSource::Targets(targets, new)) => {
            let mut old = Vec::new();
            for target in targets {
                old.extend(changed.set(setting.name(), target, new)?);
            }
            Ok(outcome(old, new))
        }
    }
}

/// Returns the location and tuned value of a setting, or the reason why this machine does not have it.
fn source_of(root: &Path, setting: TunedSetting) -> Result<SettingSource, String> {
    let has = |path: &str| root.join(path).exists();
    let file = |path: &str, value: &'static str, missing: &str| {
        if has(path) { Ok(one(path, value)) } else { Err(missing.to_owned()) }
    };
    match setting {
        TunedSetting::Irqbalance => irqbalance(root),
        TunedSetting::Smt => smt(root),
        TunedSetting::Governor => governors(root),
        // Intel's switch disables turbo; that of other drivers enables it.
        TunedSetting::Turbo if has(&format!("{CPU}/intel_pstate/no_turbo")) => {
            Ok(one(&format!("{CPU}/intel_pstate/no_turbo"), "1"))
        }
        TunedSetting::Turbo => file(&format!("{CPU}/cpufreq/boost"), "0", "no frequency driver that can switch it"),
        TunedSetting::Thp => file(THP, "never", "this kernel has no transparent huge pages"),
        TunedSetting::NumaBalancing => {
            file("proc/sys/kernel/numa_balancing", "0", "this kernel is built without NUMA balancing")
        }
        TunedSetting::Aslr => file("proc/sys/kernel/randomize_va_space", "0", "no /proc/sys/kernel/randomize_va_space"),
        TunedSetting::CStates => c_states(root),
    }
}

fn one(path: &str, value: &'static str) -> SettingSource {
    SettingSource::Targets(vec![SettingTarget::File(path.into())], value)
}

fn smt(root: &Path) -> Result<SettingSource, String> {
    let path = format!("{CPU}/smt/control");
    match sysfs::read_text(root, &path).as_deref() {
        Err(_) => Err("this kernel has no switch for SMT".into()),
        Ok("notsupported") => Err("the cores have one thread each".into()),
        Ok("notimplemented") => Err("this kernel cannot switch SMT".into()),
        Ok("forceoff") => Ok(SettingSource::Targets(Vec::new(), "off")),
        Ok(_) => Ok(one(&path, "off")),
    }
}

fn governors(root: &Path) -> Result<SettingSource, String> {
    let cpufreq = format!("{CPU}/cpufreq");
    let policies = sysfs::names(&root.join(&cpufreq)).into_iter().filter(|name| name.starts_with("policy"));
    let files: Vec<String> = policies
        .map(|name| format!("{cpufreq}/{name}"))
        .filter(|policy| root.join(policy).join("scaling_governor").exists())
        .collect();
    if files.is_empty() {
        return Err("no cpufreq driver: this kernel does not control the frequency".into());
    }
    // If the kernel does not list the governors, the write reports an error.
    let has_performance = |policy: &String| {
        let available = sysfs::read_text(root, &format!("{policy}/scaling_available_governors"));
        available.map_or(true, |names| names.split_whitespace().any(|name| name == "performance"))
    };
    if !files.iter().any(has_performance) {
        return Err("the driver has no governor 'performance'".into());
    }
    let target = |policy: String| SettingTarget::File(format!("{policy}/scaling_governor"));
    Ok(SettingSource::Targets(files.into_iter().filter(has_performance).map(target).collect(), "performance"))
}

/// Finds every irqbalance process by its name, regardless of its parent.
fn irqbalance(root: &Path) -> Result<SettingSource, String> {
    let targets: Vec<SettingTarget> =
        irqbalances(root).into_iter().map(|(pid, started)| SettingTarget::Process { pid, started }).collect();
    if targets.is_empty() { Err("not running".into()) } else { Ok(SettingSource::Targets(targets, undo::PAUSED)) }
}

/// Returns the PID and start time of each irqbalance process.
pub(crate) fn irqbalances(root: &Path) -> Vec<(u32, u64)> {
    let named = |pid: &u32| sysfs::read_text(root, &format!("proc/{pid}/comm")).is_ok_and(|name| name == "irqbalance");
    let pids = sysfs::names(&root.join("proc")).into_iter().filter_map(|name| name.parse().ok()).filter(named);
    pids.filter_map(|pid| Some((pid, undo::process(root, pid)?.1))).collect()
}

/// Returns whether irqbalance, which moves interrupts, is running and not paused.
pub fn irqbalance_runs(root: &Path) -> bool {
    let Ok(SettingSource::Targets(targets, _)) = irqbalance(root) else { return false };
    targets.iter().any(|target| undo::read(root, target) == CurrentValue::Value(undo::RUNNING.into()))
}

fn c_states(root: &Path) -> Result<SettingSource, String> {
    if !root.join(LATENCY).exists() {
        return Err("no /dev/cpu_dma_latency".into());
    }
    // Without a driver there is only one idle state, regardless of the requested latency.
    match sysfs::read_text(root, &format!("{CPU}/cpuidle/current_driver")).as_deref() {
        Err(_) | Ok("none" | "") => Err("this kernel does not control idle states".into()),
        Ok(_) => Ok(SettingSource::Latency),
    }
}

fn latency_us(file: &File) -> io::Result<i32> {
    let mut bytes = [0_u8; 4];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// Requests a wake-up latency of 0 us for as long as the returned file is open, and returns the previous latency. The
/// file contains an i32 in native byte order, at any offset.
fn open_latency(root: &Path) -> Result<(File, i32), ChangeError> {
    let open = || -> io::Result<(File, i32)> {
        let file = OpenOptions::new().read(true).write(true).open(root.join(LATENCY))?;
        let old_us = latency_us(&file)?;
        file.write_all_at(&0_i32.to_ne_bytes(), 0)?;
        match latency_us(&file)? {
            0 => Ok((file, old_us)),
            other => Err(io::Error::other(format!("the kernel accepted 0 us, but reports {other} us"))),
        }
    };
    open().map_err(|error| {
        let not_permitted = error.kind() == io::ErrorKind::PermissionDenied;
        let alternative = if not_permitted { "run as root, or " } else { "" };
        ChangeError {
            what: format!("c-states: cannot set /{LATENCY} to 0: {error}"),
            hint: format!("{alternative}leave c-states out of --quieten"),
            not_permitted,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;
    use crate::undo::SettingsRoot;

    fn files(paths: &[&str]) -> Vec<SettingTarget> {
        paths.iter().map(|path| SettingTarget::File((*path).into())).collect()
    }

    #[test]
    fn setting_sources_depend_on_the_kernel_files() {
        const NO_TURBO: &str = "sys/devices/system/cpu/intel_pstate/no_turbo";
        const BOOST: &str = "sys/devices/system/cpu/cpufreq/boost";
        const CONTROL: &str = "sys/devices/system/cpu/smt/control";
        const P0: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
        const P4: &str = "sys/devices/system/cpu/cpufreq/policy4/scaling_governor";
        const AVAILABLE: &str = "sys/devices/system/cpu/cpufreq/policy4/scaling_available_governors";
        const IDLE: &str = "sys/devices/system/cpu/cpuidle/current_driver";
        type Case<'a> = (&'a [(&'a str, &'a str)], TunedSetting, Result<SettingSource, &'a str>);
        let stat = format!("77 (irqbalance) S 1 {}4711 0", "0 ".repeat(17));
        let daemon = [("proc/77/comm", "irqbalance\n"), ("proc/77/stat", &stat), ("proc/78/comm", "bash\n")];
        let cases: &[Case] = &[
            (&[], TunedSetting::Governor, Err("no cpufreq driver")),
            (
                &[(P0, "a"), (P4, "b")],
                TunedSetting::Governor,
                Ok(SettingSource::Targets(files(&[P0, P4]), "performance")),
            ),
            (
                &[(P0, "a"), (P4, "b"), (AVAILABLE, "x y")],
                TunedSetting::Governor,
                Ok(SettingSource::Targets(files(&[P0]), "performance")),
            ),
            (&[(P4, "b"), (AVAILABLE, "x y")], TunedSetting::Governor, Err("no governor 'performance'")),
            (&[], TunedSetting::Turbo, Err("no frequency driver that can switch it")),
            (
                &[(NO_TURBO, "0"), (BOOST, "1")],
                TunedSetting::Turbo,
                Ok(SettingSource::Targets(files(&[NO_TURBO]), "1")),
            ),
            (&[(BOOST, "1")], TunedSetting::Turbo, Ok(SettingSource::Targets(files(&[BOOST]), "0"))),
            (&[], TunedSetting::Smt, Err("no switch")),
            (&[(CONTROL, "on\n")], TunedSetting::Smt, Ok(SettingSource::Targets(files(&[CONTROL]), "off"))),
            (&[(CONTROL, "notsupported\n")], TunedSetting::Smt, Err("one thread each")),
            (&[(CONTROL, "forceoff\n")], TunedSetting::Smt, Ok(SettingSource::Targets(files(&[]), "off"))),
            (&[], TunedSetting::Thp, Err("no transparent huge pages")),
            (&[(THP, "[always]")], TunedSetting::Thp, Ok(SettingSource::Targets(files(&[THP]), "never"))),
            (&[], TunedSetting::NumaBalancing, Err("built without")),
            (&[], TunedSetting::Aslr, Err("no /proc")),
            (&[], TunedSetting::Irqbalance, Err("not running")),
            (
                &daemon,
                TunedSetting::Irqbalance,
                Ok(SettingSource::Targets(vec![SettingTarget::Process { pid: 77, started: 4711 }], "paused")),
            ),
            (&[], TunedSetting::CStates, Err("no /dev/cpu_dma_latency")),
            (&[(LATENCY, "1234")], TunedSetting::CStates, Err("does not control idle states")),
            (&[(LATENCY, "1234"), (IDLE, "intel_idle")], TunedSetting::CStates, Ok(SettingSource::Latency)),
        ];
        for (files, setting, expected) in cases {
            let source = source_of(tree(files).path(), *setting);
            match (source, expected) {
                (Err(why), Err(part)) => assert!(why.contains(part), "{setting:?}: {why}"),
                (got, expected) => assert_eq!(got.as_ref().ok(), expected.as_ref().ok(), "{setting:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn settings_are_applied_and_restored() {
        let aslr = "proc/sys/kernel/randomize_va_space";
        let dir = tree(&[(THP, "[always] madvise never\n"), (aslr, "0\n"), (LATENCY, "\u{1}\u{1}\u{1}\u{1}")]);
        let site = SettingsRoot { root: dir.path().into(), state: dir.path().join("state") };
        let mut changed = AppliedSettings::begin(&site).unwrap();
        let done = apply(&mut changed, &TunedSetting::ALL).unwrap();
        let of = |setting| &done.iter().find(|(of, _)| *of == setting).unwrap().1;
        assert_eq!(*of(TunedSetting::Thp), TuneOutcome::Set { old: vec!["always".into()], new: "never".into() });
        assert_eq!(*of(TunedSetting::Aslr), TuneOutcome::WasQuiet);
        assert!(matches!(of(TunedSetting::Governor), TuneOutcome::Unavailable(why) if why.contains("cpufreq")));
        assert_eq!(std::fs::read_to_string(dir.path().join(THP)).unwrap(), "never");
        assert_eq!(changed.restore().len(), 1);
        assert_eq!(std::fs::read_to_string(dir.path().join(THP)).unwrap(), "always");
    }

    #[test]
    fn wake_up_latency_is_set_to_zero() {
        let dir = tree(&[(LATENCY, "1234")]);
        drop(open_latency(dir.path()).unwrap());
        assert_eq!(std::fs::read(dir.path().join(LATENCY)).unwrap(), [0; 4]);
        let missing = open_latency(Path::new("/nowhere")).unwrap_err();
        assert!(missing.what.contains("/dev/cpu_dma_latency") && missing.hint.contains("leave c-states out"));
        match open_latency(Path::new("/")) {
            Ok(file) => drop(file),
            Err(error) => println!("skipped: c-states: {}", error.what),
        }
    }
}
