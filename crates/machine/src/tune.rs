//! Making this machine quiet: which file or process holds each setting, and the value that disturbs a measurement least.
//! Must not know how changes are undone: that is [`crate::undo`].

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

/// What was done about a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuneOutcome {
    /// It was another value and is quiet now.
    Set {
        /// The values that were found, each once.
        old: Vec<String>,
        new: String,
    },
    WasQuiet,
    /// This machine has no such setting, for this reason.
    Unavailable(String),
}

/// Where a setting's value is, and the quiet one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SettingSource {
    Targets(Vec<SettingTarget>, &'static str),
    /// `/dev/cpu_dma_latency`, which asks for as long as it is open.
    Latency,
}

/// Makes these settings quiet, in their order. On an error what was changed is put back when `changed` is dropped.
pub fn apply(
    changed: &mut AppliedSettings,
    wanted: &[TunedSetting],
) -> Result<Vec<(TunedSetting, TuneOutcome)>, ChangeError> {
    wanted.iter().map(|setting| Ok((*setting, quieten_one(changed, *setting)?))).collect()
}

fn quieten_one(changed: &mut AppliedSettings, setting: TunedSetting) -> Result<TuneOutcome, ChangeError> {
    match knob(changed.root(), setting) {
        Err(why) => Ok(TuneOutcome::Unavailable(why)),
        Ok(SettingSource::Latency) => {
            let (file, old_us) = open_latency(changed.root())?;
            changed.hold(file);
            Ok(TuneOutcome::Set { old: vec![format!("at most {old_us} us")], new: "at most 0 us".into() })
        }
        Ok(SettingSource::Targets(targets, new)) => {
            let mut old = Vec::new();
            for target in targets {
                old.extend(changed.set(setting.name(), target, new)?);
            }
            old.sort_unstable();
            old.dedup();
            Ok(if old.is_empty() { TuneOutcome::WasQuiet } else { TuneOutcome::Set { old, new: new.into() } })
        }
    }
}

/// What to write where; an error is why this machine has no such setting.
fn knob(root: &Path, setting: TunedSetting) -> Result<SettingSource, String> {
    let has = |path: &str| root.join(path).exists();
    let file = |path: &str, value: &'static str, missing: &str| {
        if has(path) { Ok(one(path, value)) } else { Err(missing.to_owned()) }
    };
    match setting {
        TunedSetting::Irqbalance => irqbalance(root),
        TunedSetting::Smt => smt(root),
        TunedSetting::Governor => governors(root),
        // Intel's switch says no; everybody else's says yes.
        TunedSetting::Turbo if has(&format!("{CPU}/intel_pstate/no_turbo")) => {
            Ok(one(&format!("{CPU}/intel_pstate/no_turbo"), "1"))
        }
        TunedSetting::Turbo => file(&format!("{CPU}/cpufreq/boost"), "0", "no driver that switches it"),
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
        Ok("notsupported") => Err("these cores have one thread each".into()),
        Ok("notimplemented") => Err("this kernel cannot switch SMT".into()),
        Ok("forceoff") => Ok(SettingSource::Targets(Vec::new(), "off")),
        Ok(_) => Ok(one(&path, "off")),
    }
}

fn governors(root: &Path) -> Result<SettingSource, String> {
    let folder = format!("{CPU}/cpufreq");
    let policies = sysfs::names(&root.join(&folder)).into_iter().filter(|name| name.starts_with("policy"));
    let files: Vec<String> = policies
        .map(|name| format!("{folder}/{name}"))
        .filter(|policy| root.join(policy).join("scaling_governor").exists())
        .collect();
    if files.is_empty() {
        return Err("no cpufreq driver: the frequency is not in this kernel's hands".into());
    }
    // Where the kernel does not list them, writing will tell.
    let offers = |policy: &String| {
        let offered = sysfs::read_text(root, &format!("{policy}/scaling_available_governors"));
        offered.map_or(true, |offered| offered.split_whitespace().any(|name| name == "performance"))
    };
    if !files.iter().any(offers) {
        return Err("the driver has no governor 'performance'".into());
    }
    let target = |policy: String| SettingTarget::File(format!("{policy}/scaling_governor"));
    Ok(SettingSource::Targets(files.into_iter().filter(offers).map(target).collect(), "performance"))
}

/// Every process of this name; it calls itself so, whoever started it.
fn irqbalance(root: &Path) -> Result<SettingSource, String> {
    let targets: Vec<SettingTarget> =
        irqbalances(root).into_iter().map(|(pid, started)| SettingTarget::Process { pid, started }).collect();
    if targets.is_empty() { Err("it does not run".into()) } else { Ok(SettingSource::Targets(targets, undo::PAUSED)) }
}

/// Id and start of each.
pub(crate) fn irqbalances(root: &Path) -> Vec<(u32, u64)> {
    let is_it = |pid: &u32| sysfs::read_text(root, &format!("proc/{pid}/comm")).is_ok_and(|name| name == "irqbalance");
    let pids = sysfs::names(&root.join("proc")).into_iter().filter_map(|name| name.parse().ok()).filter(is_it);
    pids.filter_map(|pid| Some((pid, undo::process(root, pid)?.1))).collect()
}

/// Whether the daemon that moves interrupts runs and is not paused.
pub fn irqbalance_runs(root: &Path) -> bool {
    let Ok(SettingSource::Targets(targets, _)) = irqbalance(root) else { return false };
    targets.iter().any(|target| undo::read(root, target) == CurrentValue::Value(undo::RUNNING.into()))
}

fn c_states(root: &Path) -> Result<SettingSource, String> {
    if !root.join(LATENCY).exists() {
        return Err("no /dev/cpu_dma_latency".into());
    }
    // Without a driver there is one way to be idle, whatever is asked for.
    match sysfs::read_text(root, &format!("{CPU}/cpuidle/current_driver")).as_deref() {
        Err(_) | Ok("none" | "") => Err("no idle states in this kernel's hands".into()),
        Ok(_) => Ok(SettingSource::Latency),
    }
}

fn latency_us(file: &File) -> io::Result<i32> {
    let mut bytes = [0_u8; 4];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// Asks for a wake-up latency of 0 us for as long as the file is open, and tells what it was. The kernel takes and gives
/// an i32 of its own byte order, at any position.
fn open_latency(root: &Path) -> Result<(File, i32), ChangeError> {
    let open = || -> io::Result<(File, i32)> {
        let file = OpenOptions::new().read(true).write(true).open(root.join(LATENCY))?;
        let old_us = latency_us(&file)?;
        file.write_all_at(&0_i32.to_ne_bytes(), 0)?;
        match latency_us(&file)? {
            0 => Ok((file, old_us)),
            other => Err(io::Error::other(format!("the kernel took 0 us, but reads back {other} us"))),
        }
    };
    open().map_err(|error| {
        let not_permitted = error.kind() == io::ErrorKind::PermissionDenied;
        let who = if not_permitted { "settings are changed by root; or " } else { "" };
        ChangeError {
            what: format!("c-states: cannot hold /{LATENCY} at 0: {error}"),
            hint: format!("{who}leave c-states out of --quieten"),
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
    fn what_is_written_where_follows_from_the_files() {
        const NO_TURBO: &str = "sys/devices/system/cpu/intel_pstate/no_turbo";
        const BOOST: &str = "sys/devices/system/cpu/cpufreq/boost";
        const CONTROL: &str = "sys/devices/system/cpu/smt/control";
        const P0: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
        const P4: &str = "sys/devices/system/cpu/cpufreq/policy4/scaling_governor";
        const OFFERED: &str = "sys/devices/system/cpu/cpufreq/policy4/scaling_available_governors";
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
                &[(P0, "a"), (P4, "b"), (OFFERED, "x y")],
                TunedSetting::Governor,
                Ok(SettingSource::Targets(files(&[P0]), "performance")),
            ),
            (&[(P4, "b"), (OFFERED, "x y")], TunedSetting::Governor, Err("no governor 'performance'")),
            (&[], TunedSetting::Turbo, Err("no driver that switches it")),
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
            (&[], TunedSetting::Irqbalance, Err("does not run")),
            (
                &daemon,
                TunedSetting::Irqbalance,
                Ok(SettingSource::Targets(vec![SettingTarget::Process { pid: 77, started: 4711 }], "paused")),
            ),
            (&[], TunedSetting::CStates, Err("no /dev/cpu_dma_latency")),
            (&[(LATENCY, "1234")], TunedSetting::CStates, Err("no idle states")),
            (&[(LATENCY, "1234"), (IDLE, "intel_idle")], TunedSetting::CStates, Ok(SettingSource::Latency)),
        ];
        for (files, setting, expected) in cases {
            let knob = knob(tree(files).path(), *setting);
            match (knob, expected) {
                (Err(why), Err(part)) => assert!(why.contains(part), "{setting:?}: {why}"),
                (knob, expected) => assert_eq!(knob.as_ref().ok(), expected.as_ref().ok(), "{setting:?}: {knob:?}"),
            }
        }
    }

    #[test]
    fn a_tree_is_made_quiet_and_put_back() {
        let aslr = "proc/sys/kernel/randomize_va_space";
        let folder = tree(&[(THP, "[always] madvise never\n"), (aslr, "0\n"), (LATENCY, "\u{1}\u{1}\u{1}\u{1}")]);
        let site = SettingsRoot { root: folder.path().into(), state: folder.path().join("state") };
        let mut changed = AppliedSettings::begin(&site).unwrap();
        let done = apply(&mut changed, &TunedSetting::ALL).unwrap();
        let of = |setting| &done.iter().find(|(of, _)| *of == setting).unwrap().1;
        assert_eq!(*of(TunedSetting::Thp), TuneOutcome::Set { old: vec!["always".into()], new: "never".into() });
        assert_eq!(*of(TunedSetting::Aslr), TuneOutcome::WasQuiet);
        assert!(matches!(of(TunedSetting::Governor), TuneOutcome::Unavailable(why) if why.contains("cpufreq")));
        assert_eq!(std::fs::read_to_string(folder.path().join(THP)).unwrap(), "never");
        assert_eq!(changed.restore().len(), 1);
        assert_eq!(std::fs::read_to_string(folder.path().join(THP)).unwrap(), "always");
    }

    #[test]
    fn the_wake_up_latency_is_held_at_nothing() {
        let folder = tree(&[(LATENCY, "1234")]);
        drop(open_latency(folder.path()).unwrap());
        assert_eq!(std::fs::read(folder.path().join(LATENCY)).unwrap(), [0; 4]);
        let missing = open_latency(Path::new("/nowhere")).unwrap_err();
        assert!(missing.what.contains("/dev/cpu_dma_latency") && missing.hint.contains("leave c-states out"));
        match open_latency(Path::new("/")) {
            Ok(file) => drop(file),
            Err(error) => println!("skipped: c-states: {}", error.what),
        }
    }
}
