//! Settings that a run changes to have a quiet machine: which there are, what was changed, and what has to be done to
//! have it as it was. Must not know how a setting is read or written.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A setting that can be made quiet for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TunedSetting {
    /// The daemon that moves interrupts is paused.
    Irqbalance,
    /// Simultaneous multithreading is off.
    Smt,
    /// The frequency governor is `performance`.
    Governor,
    /// No frequency above the nominal one.
    Turbo,
    /// No transparent huge pages. `never` and not `madvise`: every trial then has pages of one size, and khugepaged
    /// does not run beside it.
    Thp,
    /// The kernel moves no pages between nodes on its own.
    NumaBalancing,
    /// Addresses are the same in every process.
    Aslr,
    /// Idle cpus wake up at once.
    CStates,
}

impl TunedSetting {
    /// All, in the order in which they are changed; they are put back in reverse. The daemon is first, since it answers
    /// to cpus that go away; SMT comes before what exists once per cpu, so that cpus which are gone keep their own.
    pub const ALL: [Self; 8] = [
        Self::Irqbalance,
        Self::Smt,
        Self::Governor,
        Self::Turbo,
        Self::Thp,
        Self::NumaBalancing,
        Self::Aslr,
        Self::CStates,
    ];

    /// Its name on the command line and in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Irqbalance => "irqbalance",
            Self::Smt => "smt",
            Self::Governor => "governor",
            Self::Turbo => "turbo",
            Self::Thp => "thp",
            Self::NumaBalancing => "numa-balancing",
            Self::Aslr => "aslr",
            Self::CStates => "c-states",
        }
    }

    /// What a list such as `thp,aslr` asks for, each once and in the order of [`Self::ALL`]; `all` is all of them.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut wanted = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match Self::ALL.iter().find(|setting| setting.name() == name) {
                Some(setting) => wanted.push(*setting),
                None if name == "all" => wanted.extend(Self::ALL),
                None => {
                    let names: Vec<&str> = Self::ALL.iter().map(|setting| setting.name()).collect();
                    return Err(format!("'{name}' cannot be made quiet; there are {} and all", names.join(", ")));
                }
            }
        }
        if wanted.is_empty() {
            return Err("the list is empty".into());
        }
        wanted.sort_unstable();
        wanted.dedup();
        Ok(wanted)
    }
}

/// What holds a setting's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingTarget {
    /// A file of the kernel, without the slash before `sys` or `proc`.
    File(String),
    /// A process; its value is `running` or `paused`.
    Process {
        /// Its id.
        pid: u32,
        /// When it began, in ticks since boot: another process may have the id by now.
        started: u64,
    },
    /// The interrupts that an irqbalance leaves alone: `38 39`, or `NONE`.
    Banned {
        /// Its process's id.
        pid: u32,
        /// When that began, as above.
        started: u64,
    },
    /// A loop device that is swapped to; its value is `on` or `off`.
    Swap {
        /// `/dev/loop0`.
        device: String,
        /// The kernel's name for the file behind it: another file may be there by now.
        backing: String,
    },
    /// A cgroup of ours; its value is `there` or `absent`.
    Group(String),
    /// What a cgroup of version 2 gives the groups below it; its value is `on` or `off`.
    Controller {
        /// The group, without the slash before `sys`.
        group: String,
        /// `memory`.
        name: String,
    },
}

/// One change, as the journal has it: one line of JSON. Fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Which setting: a name of [`TunedSetting`]. Text, so that a journal of another version can be read.
    pub setting: String,
    /// Where its value is.
    #[serde(flatten)]
    pub target: SettingTarget,
    /// The value that was found.
    pub old: String,
    /// The value that we wrote.
    pub new: String,
    /// Other values that we may have written since: an interrupt goes where each trial wants it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The kernel's id of the boot during which it was changed: these settings do not survive a restart.
    #[serde(default)]
    pub boot: Option<String>,
}

/// What there is now in the place of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrentValue {
    /// This value.
    Value(String),
    /// The file or the process is not there.
    Gone,
    /// It cannot be read, for this reason.
    Unreadable(String),
}

/// What has to be done about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreAction {
    /// Write the old value.
    Write,
    /// Nothing, for this reason.
    Nothing(RestoreStatus),
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum RestoreStatus {
    /// The old value was written and read back.
    #[serde(rename = "put-back")]
    PutBack,
    /// The old value was there already: the setting had not been written yet, or it was put back by hand.
    #[serde(rename = "was-back")]
    WasBack,
    /// The machine was started anew since then, so that nothing of ours is in force.
    Restarted,
    /// The process has ended or the device is gone, so that there is nothing to put back.
    Ended,
    /// Others need it by now, and the last of them puts it back.
    StillNeeded,
    /// Somebody else has changed it since then; left as it is.
    #[serde(rename = "left-foreign")]
    LeftForeign {
        /// The value now.
        #[serde(rename = "present")]
        present: String,
    },
    /// It could not be put back.
    Failed {
        /// The kernel's answer.
        #[serde(rename = "why")]
        why: String,
        /// Whether it was a matter of permission.
        not_permitted: bool,
    },
}

/// A change and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The change.
    #[serde(flatten)]
    pub change: SettingChange,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: RestoreStatus,
}

impl Restored {
    /// Whether nothing of this change is left, so that the journal may forget it.
    pub fn is_settled(&self) -> bool {
        !matches!(self.outcome, RestoreStatus::LeftForeign { .. } | RestoreStatus::Failed { .. })
    }
}

/// Decides what to do about a change. The old value is written only over ours; `force` writes it over anything.
pub fn step(change: &SettingChange, present: &CurrentValue, boot: Option<&str>, force: bool) -> RestoreAction {
    let restarted = change.boot.as_deref().zip(boot).is_some_and(|(then, now)| then != now);
    let failed = |why: &str| RestoreAction::Nothing(RestoreStatus::Failed { why: why.into(), not_permitted: false });
    if !change.target.is_a_setting() {
        return failed("the journal names what is no setting of the kernel");
    }
    match present {
        CurrentValue::Value(value) if *value == change.old => RestoreAction::Nothing(RestoreStatus::WasBack),
        CurrentValue::Gone if change.target.comes_and_goes() => RestoreAction::Nothing(RestoreStatus::Ended),
        // A process of this boot is not the one that was meant, even with its number and age.
        _ if restarted && (!force || change.target.is_of_a_boot()) => RestoreAction::Nothing(RestoreStatus::Restarted),
        CurrentValue::Value(value) if *value == change.new || change.also.contains(value) || force => {
            RestoreAction::Write
        }
        CurrentValue::Value(value) => RestoreAction::Nothing(RestoreStatus::LeftForeign { present: value.clone() }),
        CurrentValue::Gone => failed("it is not there any more"),
        CurrentValue::Unreadable(why) => failed(why),
    }
}

impl SettingTarget {
    /// Whether it may be gone for good, as a process or the interrupt of a disk that was unplugged.
    fn comes_and_goes(&self) -> bool {
        self.is_of_a_process() || matches!(self, Self::File(path) if path.starts_with("proc/irq/"))
    }

    /// Whether none of it is left after a restart, whatever has its name then.
    fn is_of_a_boot(&self) -> bool {
        self.is_of_a_process() || matches!(self, Self::Swap { .. } | Self::Group(_) | Self::Controller { .. })
    }

    fn is_of_a_process(&self) -> bool {
        matches!(self, Self::Process { .. } | Self::Banned { .. })
    }

    /// Whether it is what we may have changed. Root writes what a journal says: one that somebody else could write must
    /// not name any other file.
    fn is_a_setting(&self) -> bool {
        match self {
            Self::File(path) => {
                (path.starts_with("sys/") || path.starts_with("proc/")) && path.split('/').all(|part| part != "..")
            }
            Self::Process { .. } | Self::Banned { .. } => true,
            Self::Swap { device, .. } => {
                let number = device.strip_prefix("/dev/loop");
                number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            }
            Self::Group(path) => {
                let ours = path.rsplit('/').next().is_some_and(|name| name.starts_with(GROUP_PREFIX));
                ours && path.starts_with("sys/fs/cgroup/") && path.split('/').all(|part| part != "..")
            }
            Self::Controller { group, name } => {
                let is_cgroup = group == "sys/fs/cgroup" || group.starts_with("sys/fs/cgroup/");
                name == "memory" && is_cgroup && group.split('/').all(|part| part != "..")
            }
        }
    }
}

/// How the names of our cgroups begin.
pub const GROUP_PREFIX: &str = "nearfar-";

/// `/sys/kernel/mm/…` or `process 77`.
impl fmt::Display for SettingTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "/{path}"),
            Self::Process { pid, .. } => write!(f, "process {pid}"),
            Self::Banned { pid, .. } => write!(f, "what process {pid} leaves alone"),
            Self::Swap { device, .. } => write!(f, "swap on {device}"),
            Self::Group(path) => write!(f, "cgroup /{path}"),
            Self::Controller { group, name } => write!(f, "controller {name} below cgroup /{group}"),
        }
    }
}

/// What became of it, after the name of the setting.
impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingChange { setting, target, old, new, .. } = &self.change;
        write!(f, "{setting}: {target} ")?;
        match &self.outcome {
            RestoreStatus::PutBack => write!(f, "is {old} again (it was {new})"),
            RestoreStatus::WasBack => write!(f, "is {old}, as it was found"),
            RestoreStatus::Restarted => write!(f, "is as the restart of the machine left it (we had written {new})"),
            RestoreStatus::Ended => write!(f, "is gone"),
            RestoreStatus::StillNeeded => write!(f, "stays {new}, which others need by now (it was {old})"),
            RestoreStatus::LeftForeign { present } => {
                write!(f, "is left at {present}: somebody changed it since we wrote {new} over {old}")
            }
            RestoreStatus::Failed { why, .. } => write!(f, "is not back at {old}: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(target: SettingTarget) -> SettingChange {
        let (old, new, boot) = ("always".into(), "never".into(), Some("first".into()));
        SettingChange { setting: "thp".into(), target, old, new, also: Vec::new(), boot }
    }

    fn value(text: &str) -> CurrentValue {
        CurrentValue::Value(text.into())
    }

    #[test]
    fn the_old_value_is_written_over_ours_alone() {
        let file = change(SettingTarget::File("sys/x".into()));
        let left = |present: &str| RestoreAction::Nothing(RestoreStatus::LeftForeign { present: present.into() });
        let nothing = |why: RestoreStatus| RestoreAction::Nothing(why);
        let cases = [
            (value("never"), Some("first"), false, RestoreAction::Write),
            (value("always"), Some("first"), false, nothing(RestoreStatus::WasBack)),
            (value("always"), Some("first"), true, nothing(RestoreStatus::WasBack)),
            (value("madvise"), Some("first"), false, left("madvise")),
            (value("madvise"), Some("first"), true, RestoreAction::Write),
            (value("never"), Some("second"), false, nothing(RestoreStatus::Restarted)),
            (value("never"), Some("second"), true, RestoreAction::Write),
            (value("always"), Some("second"), false, nothing(RestoreStatus::WasBack)),
            // A kernel that does not tell: taken as the same boot.
            (value("never"), None, false, RestoreAction::Write),
        ];
        for (present, boot, force, expected) in cases {
            assert_eq!(step(&file, &present, boot, force), expected, "{present:?} {boot:?} {force}");
        }
        for present in [CurrentValue::Gone, CurrentValue::Unreadable("io".into())] {
            let step = step(&file, &present, Some("first"), false);
            assert!(matches!(step, RestoreAction::Nothing(RestoreStatus::Failed { .. })), "{step:?}");
        }
    }

    #[test]
    fn any_value_that_we_may_have_written_is_ours() {
        let also = vec!["0-1".into(), "2".into()];
        let interrupt = SettingChange { also, ..change(SettingTarget::File("proc/irq/7/smp_affinity_list".into())) };
        for (present, ours) in [("never", true), ("2", true), ("0-1", true), ("3", false)] {
            let step = step(&interrupt, &value(present), Some("first"), false);
            assert_eq!(step == RestoreAction::Write, ours, "{present}: {step:?}");
        }
        assert_eq!(
            step(&interrupt, &CurrentValue::Gone, Some("first"), false),
            RestoreAction::Nothing(RestoreStatus::Ended)
        );
    }

    #[test]
    fn a_journal_cannot_name_any_file() {
        for path in ["etc/passwd", "sys/../etc/passwd", "/etc/passwd", "proc/..", ""] {
            let step = step(&change(SettingTarget::File(path.into())), &value("never"), Some("first"), true);
            assert!(matches!(step, RestoreAction::Nothing(RestoreStatus::Failed { .. })), "{path}: {step:?}");
        }
    }

    #[test]
    fn only_our_own_groups_and_loop_devices_are_ever_taken_away() {
        let group = |path: &str| SettingTarget::Group(path.into());
        let swap = |device: &str| SettingTarget::Swap { device: device.into(), backing: String::new() };
        let refused = ["sys/fs/cgroup/system.slice", "sys/fs/cgroup/../nearfar-1", "etc/nearfar-1"].map(group);
        for target in refused.into_iter().chain(["/dev/vda", "/dev/loop", "/dev/loop0/../vda"].map(swap)) {
            let step = step(&change(target.clone()), &value("never"), Some("first"), true);
            assert!(matches!(step, RestoreAction::Nothing(RestoreStatus::Failed { .. })), "{target}: {step:?}");
        }
        for target in [group("sys/fs/cgroup/memory/nearfar-1"), swap("/dev/loop12")] {
            assert_eq!(step(&change(target.clone()), &value("never"), Some("first"), false), RestoreAction::Write);
            // After a restart something else may have the name.
            let restarted = step(&change(target), &value("never"), Some("second"), true);
            assert_eq!(restarted, RestoreAction::Nothing(RestoreStatus::Restarted));
        }
    }

    #[test]
    fn a_process_that_ended_or_is_of_another_boot_is_left_alone() {
        let process = change(SettingTarget::Process { pid: 7, started: 9 });
        let nothing = |why| RestoreAction::Nothing(why);
        assert_eq!(step(&process, &CurrentValue::Gone, Some("first"), false), nothing(RestoreStatus::Ended));
        assert_eq!(step(&process, &value("never"), Some("first"), false), RestoreAction::Write);
        for force in [false, true] {
            assert_eq!(step(&process, &value("never"), Some("second"), force), nothing(RestoreStatus::Restarted));
        }
    }

    #[test]
    fn lists_are_read_in_the_order_of_changing() {
        let names = |text| TunedSetting::parse_list(text).map(|list| list.iter().map(|q| q.name()).collect::<Vec<_>>());
        assert_eq!(names("aslr, thp,aslr").unwrap(), ["thp", "aslr"]);
        assert_eq!(names("thp,all").unwrap().len(), TunedSetting::ALL.len());
        assert!(names("thb").unwrap_err().contains("'thb' cannot be made quiet; there are irqbalance, smt"));
        assert!(names(" ,").is_err());
        assert!(TunedSetting::ALL.is_sorted());
    }

    #[test]
    fn the_form_of_a_journal_line_is_kept() {
        let cases = [
            (SettingTarget::File("sys/x".into()), r#""file":"sys/x""#),
            (SettingTarget::Process { pid: 7, started: 9 }, r#""process":{"pid":7,"started":9}"#),
            (SettingTarget::Banned { pid: 7, started: 9 }, r#""banned":{"pid":7,"started":9}"#),
            (
                SettingTarget::Swap { device: "/dev/loop0".into(), backing: "/#7".into() },
                r#""swap":{"device":"/dev/loop0","backing":"/#7"}"#,
            ),
            (SettingTarget::Group("sys/fs/cgroup/nearfar-7".into()), r#""group":"sys/fs/cgroup/nearfar-7""#),
            (
                SettingTarget::Controller { group: "sys/fs/cgroup".into(), name: "memory".into() },
                r#""controller":{"group":"sys/fs/cgroup","name":"memory"}"#,
            ),
        ];
        for (target, words) in cases {
            let change = change(target);
            let line = serde_json::to_string(&change).unwrap();
            assert_eq!(line, format!(r#"{{"setting":"thp",{words},"old":"always","new":"never","boot":"first"}}"#));
            assert_eq!(serde_json::from_str::<SettingChange>(&line).unwrap(), change);
        }
    }
}
