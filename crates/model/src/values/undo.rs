//! Tuned settings, journalled changes and the decision how to restore them. Must not depend on how a setting is read or
//! written.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::values::shell::quote_argv;
use crate::values::units::Bytes;

/// A setting that can be tuned for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TunedSetting {
    /// Pauses the irqbalance daemon.
    Irqbalance,
    /// Turns simultaneous multithreading off.
    Smt,
    /// Sets the frequency governor to `performance`.
    Governor,
    /// Turns frequencies above the nominal one off.
    Turbo,
    /// Turns transparent huge pages off. `never` rather than `madvise`: every trial then has pages of one size, and
    /// khugepaged does not run during trials.
    Thp,
    /// Turns automatic NUMA balancing off.
    NumaBalancing,
    /// Turns address space layout randomisation off.
    Aslr,
    /// Disables idle states with long wake-up latencies.
    CStates,
}

impl TunedSetting {
    /// All settings in the order in which they are applied; they are restored in reverse order. The daemon is first
    /// because it reacts to CPUs that go offline; SMT precedes the settings of individual CPUs, so that offline CPUs
    /// keep theirs.
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

    /// Returns the name on the command line and in the journal.
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

    /// Parses a list such as `thp,aslr`; `all` means every setting. The result has no duplicates and the order of
    /// [`Self::ALL`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut requested = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match Self::ALL.iter().find(|setting| setting.name() == name) {
                Some(setting) => requested.push(*setting),
                None if name == "all" => requested.extend(Self::ALL),
                None => {
                    let names: Vec<&str> = Self::ALL.iter().map(|setting| setting.name()).collect();
                    return Err(format!("unknown setting '{name}'; the settings are {} and all", names.join(", ")));
                }
            }
        }
        if requested.is_empty() {
            return Err("the list is empty".into());
        }
        requested.sort_unstable();
        requested.dedup();
        Ok(requested)
    }
}

/// Location of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingTarget {
    /// A kernel file, without the slash before `sys` or `proc`.
    File(String),
    /// A process; the value is `running` or `paused`.
    Process {
        pid: u32,
        /// Start time in ticks since boot: another process may have reused the id.
        started: u64,
    },
    /// The interrupts that an irqbalance process ignores: `38 39`, or `NONE`.
    Banned {
        pid: u32,
        /// Start time of the process in ticks since boot.
        started: u64,
    },
    /// A loop device used as swap; the value is `on` or `off`.
    Swap {
        /// `/dev/loop0`.
        device: String,
        /// The kernel's name of the backing file: another file may be attached since.
        backing: String,
    },
    /// A zram device that this program created for swap; the value is `there` or `absent`.
    Zram {
        /// `zram1`.
        name: String,
        /// Size of its uncompressed data: another program may have reused the name.
        bytes: Bytes,
    },
    /// A cgroup that this program created; the value is `there` or `absent`.
    Group(String),
    /// A controller that a cgroup v2 enables for its children; the value is `on` or `off`.
    Controller {
        /// Path of the cgroup, without the slash before `sys`.
        group: String,
        /// `memory`.
        name: String,
    },
    /// The CPU affinity of the threads of a running service; the value is [`ANY_CPU`] or a list of CPUs. Threads that had
    /// another affinity when the change was journalled are not part of it.
    Affinity(ServiceProcesses),
    /// The CPUs or memory nodes that processes may use; the value is a list, or [`UNLIMITED`].
    Cpuset { owner: CpusetOwner, resource: CpusetResource },
}

/// Value of a thread that may run on all CPUs that its cpuset allows.
pub const ANY_CPU: &str = "all allowed CPUs";

/// Value of a cpuset that excludes nothing.
pub const UNLIMITED: &str = "no limit";

/// A cgroup or unit whose cpuset limits processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpusetOwner {
    /// A cgroup of version 2: path of its directory, without the slash before `sys`.
    Cgroup(String),
    /// A systemd unit, such as `redis.service`. Its limits apply until the next boot, also after a restart of the unit.
    Unit(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpusetResource {
    Cpus,
    MemoryNodes,
}

impl CpusetResource {
    /// Returns the name of the file in the directory of a cgroup.
    pub fn file(self) -> &'static str {
        match self {
            Self::Cpus => "cpuset.cpus",
            Self::MemoryNodes => "cpuset.mems",
        }
    }

    /// Returns the property of a systemd unit: systemd.resource-control(5).
    pub fn property(self) -> &'static str {
        match self {
            Self::Cpus => "AllowedCPUs",
            Self::MemoryNodes => "AllowedMemoryNodes",
        }
    }
}

impl CpusetOwner {
    /// Returns the command that sets a limit.
    pub fn command(&self, resource: CpusetResource, list: &str) -> String {
        match self {
            Self::Cgroup(path) => format!("echo {list} >/{path}/{}", resource.file()),
            Self::Unit(name) => quote_argv(&[
                "systemctl",
                "set-property",
                "--runtime",
                name,
                &format!("{}={list}", resource.property()),
            ]),
        }
    }
}

/// The processes of a running service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceProcesses {
    /// A process and its descendants.
    Tree {
        pid: u32,
        /// Start time in ticks since boot: another process may have reused the id.
        started: u64,
    },
    /// The processes in a cgroup and the cgroups below it: path of its directory, without the slash before `sys`.
    Cgroup(String),
}

/// One change in the journal: one line of JSON. Fields may be added but not renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Name of a [`TunedSetting`]. Text, so that journals of other versions can be read.
    pub setting: String,
    #[serde(flatten)]
    pub target: SettingTarget,
    /// Value before the change.
    pub old: String,
    /// Value that was written.
    pub new: String,
    /// Other values that may have been written since: each trial may set another interrupt affinity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Boot id of the kernel at the time of the change: these settings do not survive a reboot.
    #[serde(default)]
    pub boot: Option<String>,
}

/// Current state of a changed setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrentValue {
    Value(String),
    /// The file or process does not exist.
    Gone,
    /// The value cannot be read, for this reason.
    Unreadable(String),
}

/// Decision about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreAction {
    /// Write the old value.
    Write,
    /// Do nothing, for this reason.
    Nothing(RestoreStatus),
}

/// Result of restoring a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum RestoreStatus {
    /// The old value was written and read back.
    #[serde(rename = "put-back")]
    Restored,
    /// The old value would be written: nothing was changed.
    Planned,
    /// The setting already had its old value: it was not written yet, or was restored by hand.
    #[serde(rename = "was-back")]
    AlreadyRestored,
    /// The machine was rebooted since, so none of the changes is in effect.
    Restarted,
    /// The process has ended or the device is gone, so there is nothing to restore.
    Ended,
    /// Another run needs the setting; the last such run restores it.
    StillNeeded,
    /// Another program changed the setting since; it is left unchanged.
    #[serde(rename = "left-foreign")]
    ChangedByOther {
        #[serde(rename = "present")]
        present: String,
    },
    /// The setting could not be restored.
    Failed {
        /// Error of the kernel.
        #[serde(rename = "why")]
        why: String,
        /// Whether the cause is a missing permission.
        not_permitted: bool,
    },
}

/// A change with the result of restoring it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    #[serde(flatten)]
    pub change: SettingChange,
    #[serde(flatten)]
    pub outcome: RestoreStatus,
}

impl Restored {
    /// Whether the change is no longer in effect, so that its journal entry can be removed.
    pub fn is_settled(&self) -> bool {
        !matches!(self.outcome, RestoreStatus::ChangedByOther { .. } | RestoreStatus::Failed { .. })
    }
}

/// Decides how to restore a change. The old value replaces only values that this program wrote; `force` replaces any
/// value.
pub fn restore_action(
    change: &SettingChange,
    present: &CurrentValue,
    boot: Option<&str>,
    force: bool,
) -> RestoreAction {
    let restarted = change.boot.as_deref().zip(boot).is_some_and(|(then, now)| then != now);
    let failed = |why: &str| RestoreAction::Nothing(RestoreStatus::Failed { why: why.into(), not_permitted: false });
    if !change.target.is_allowed() {
        return failed("the journal entry does not name a kernel setting");
    }
    match present {
        CurrentValue::Value(value) if *value == change.old => RestoreAction::Nothing(RestoreStatus::AlreadyRestored),
        CurrentValue::Gone if change.target.can_disappear() => RestoreAction::Nothing(RestoreStatus::Ended),
        // After a reboot, a process with the same id and start time is another process.
        _ if restarted && (!force || change.target.is_removed_by_reboot()) => {
            RestoreAction::Nothing(RestoreStatus::Restarted)
        }
        CurrentValue::Value(value) if *value == change.new || change.also.contains(value) || force => {
            RestoreAction::Write
        }
        CurrentValue::Value(value) => RestoreAction::Nothing(RestoreStatus::ChangedByOther { present: value.clone() }),
        CurrentValue::Gone => failed("it no longer exists"),
        CurrentValue::Unreadable(why) => failed(why),
    }
}

impl SettingTarget {
    /// Whether it can disappear for good, such as a process or the interrupt of an unplugged disk.
    pub fn can_disappear(&self) -> bool {
        self.is_process()
            || matches!(self, Self::Cpuset { .. })
            || matches!(self, Self::File(path) if path.starts_with("proc/irq/"))
    }

    /// Whether a reboot removes it, even if something else has the same name afterwards.
    fn is_removed_by_reboot(&self) -> bool {
        self.is_process()
            || matches!(
                self,
                Self::Swap { .. } | Self::Zram { .. } | Self::Group(_) | Self::Controller { .. } | Self::Cpuset { .. }
            )
    }

    fn is_process(&self) -> bool {
        matches!(self, Self::Process { .. } | Self::Banned { .. } | Self::Affinity(_))
    }

    /// Whether this program may have changed it. The journal is applied as root, so a journal that others could write
    /// must not be able to name arbitrary files.
    fn is_allowed(&self) -> bool {
        match self {
            Self::File(path) => {
                (path.starts_with("sys/") || path.starts_with("proc/")) && path.split('/').all(|part| part != "..")
            }
            Self::Process { .. } | Self::Banned { .. } | Self::Affinity(ServiceProcesses::Tree { .. }) => true,
            Self::Swap { device, .. } => device.strip_prefix("/dev/loop").is_some_and(is_number),
            Self::Zram { name, .. } => name.strip_prefix("zram").is_some_and(is_number),
            Self::Group(path) => {
                let ours = path.rsplit('/').next().is_some_and(|name| name.starts_with(GROUP_PREFIX));
                ours && path.starts_with("sys/fs/cgroup/") && path.split('/').all(|part| part != "..")
            }
            Self::Controller { group, name } => {
                let is_cgroup = group == "sys/fs/cgroup" || group.starts_with("sys/fs/cgroup/");
                name == "memory" && is_cgroup && group.split('/').all(|part| part != "..")
            }
            Self::Affinity(ServiceProcesses::Cgroup(path)) | Self::Cpuset { owner: CpusetOwner::Cgroup(path), .. } => {
                path.starts_with("sys/fs/cgroup/") && path.split('/').all(|part| part != "..")
            }
            Self::Cpuset { owner: CpusetOwner::Unit(name), .. } => !name.is_empty() && !name.contains('/'),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Prefix of the names of cgroups that this program creates.
pub const GROUP_PREFIX: &str = "nearfar-";

/// `/sys/kernel/mm/…` or `process 77`.
impl fmt::Display for SettingTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "/{path}"),
            Self::Process { pid, .. } => write!(f, "process {pid}"),
            Self::Banned { pid, .. } => write!(f, "interrupts ignored by process {pid}"),
            Self::Swap { device, .. } => write!(f, "swap on {device}"),
            Self::Zram { name, .. } => write!(f, "device /dev/{name}"),
            Self::Group(path) => write!(f, "cgroup /{path}"),
            Self::Controller { group, name } => write!(f, "controller {name} below cgroup /{group}"),
            Self::Affinity(ServiceProcesses::Tree { pid, .. }) => write!(f, "threads of process {pid}"),
            Self::Affinity(ServiceProcesses::Cgroup(path)) => write!(f, "threads in cgroup /{path}"),
            Self::Cpuset { owner, resource } => {
                let resource = match resource {
                    CpusetResource::Cpus => "CPUs",
                    CpusetResource::MemoryNodes => "memory nodes",
                };
                match owner {
                    CpusetOwner::Cgroup(path) => write!(f, "{resource} of cgroup /{path}"),
                    CpusetOwner::Unit(name) => write!(f, "{resource} of {name}"),
                }
            }
        }
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingChange { setting, target, old, new, .. } = &self.change;
        write!(f, "{setting}: {target} ")?;
        match &self.outcome {
            RestoreStatus::Restored => write!(f, "restored to {old} (was {new})"),
            RestoreStatus::Planned => write!(f, "would be restored to {old} (is {new})"),
            RestoreStatus::AlreadyRestored => write!(f, "already has its old value {old}"),
            RestoreStatus::Restarted => write!(f, "was reset by a reboot (was {new})"),
            RestoreStatus::Ended => write!(f, "no longer exists"),
            RestoreStatus::StillNeeded => write!(f, "stays {new}, because another run needs it (was {old})"),
            RestoreStatus::ChangedByOther { present } => {
                write!(f, "left at {present}: another program changed it after nearfar replaced {old} by {new}")
            }
            RestoreStatus::Failed { why, .. } => write!(f, "could not be restored to {old}: {why}"),
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
    fn old_value_replaces_only_values_written_by_us() {
        let file = change(SettingTarget::File("sys/x".into()));
        let foreign = |present: &str| RestoreAction::Nothing(RestoreStatus::ChangedByOther { present: present.into() });
        let nothing = |why: RestoreStatus| RestoreAction::Nothing(why);
        let cases = [
            (value("never"), Some("first"), false, RestoreAction::Write),
            (value("always"), Some("first"), false, nothing(RestoreStatus::AlreadyRestored)),
            (value("always"), Some("first"), true, nothing(RestoreStatus::AlreadyRestored)),
            (value("madvise"), Some("first"), false, foreign("madvise")),
            (value("madvise"), Some("first"), true, RestoreAction::Write),
            (value("never"), Some("second"), false, nothing(RestoreStatus::Restarted)),
            (value("never"), Some("second"), true, RestoreAction::Write),
            (value("always"), Some("second"), false, nothing(RestoreStatus::AlreadyRestored)),
            // Without a boot id, the same boot is assumed.
            (value("never"), None, false, RestoreAction::Write),
        ];
        for (present, boot, force, expected) in cases {
            assert_eq!(restore_action(&file, &present, boot, force), expected, "{present:?} {boot:?} {force}");
        }
        for present in [CurrentValue::Gone, CurrentValue::Unreadable("io".into())] {
            let step = restore_action(&file, &present, Some("first"), false);
            assert!(matches!(step, RestoreAction::Nothing(RestoreStatus::Failed { .. })), "{step:?}");
        }
    }

    #[test]
    fn all_journalled_values_count_as_written_by_us() {
        let also = vec!["0-1".into(), "2".into()];
        let interrupt = SettingChange { also, ..change(SettingTarget::File("proc/irq/7/smp_affinity_list".into())) };
        for (present, ours) in [("never", true), ("2", true), ("0-1", true), ("3", false)] {
            let step = restore_action(&interrupt, &value(present), Some("first"), false);
            assert_eq!(step == RestoreAction::Write, ours, "{present}: {step:?}");
        }
        assert_eq!(
            restore_action(&interrupt, &CurrentValue::Gone, Some("first"), false),
            RestoreAction::Nothing(RestoreStatus::Ended)
        );
    }

    #[test]
    fn journal_entries_cannot_name_arbitrary_files() {
        for path in ["etc/passwd", "sys/../etc/passwd", "/etc/passwd", "proc/..", ""] {
            let step = restore_action(&change(SettingTarget::File(path.into())), &value("never"), Some("first"), true);
            assert!(matches!(step, RestoreAction::Nothing(RestoreStatus::Failed { .. })), "{path}: {step:?}");
        }
    }

    #[test]
    fn restore_removes_only_own_cgroups_and_devices() {
        let group = |path: &str| SettingTarget::Group(path.into());
        let swap = |device: &str| SettingTarget::Swap { device: device.into(), backing: String::new() };
        let refused = ["sys/fs/cgroup/system.slice", "sys/fs/cgroup/../nearfar-1", "etc/nearfar-1"].map(group);
        let zram = |name: &str| SettingTarget::Zram { name: name.into(), bytes: Bytes(4096) };
        let devices = ["/dev/vda", "/dev/loop", "/dev/loop0/../vda"].map(swap);
        for target in refused.into_iter().chain(devices).chain(["loop0", "zram", "zram/../vda"].map(zram)) {
            let step = restore_action(&change(target.clone()), &value("never"), Some("first"), true);
            assert!(matches!(step, RestoreAction::Nothing(RestoreStatus::Failed { .. })), "{target}: {step:?}");
        }
        for target in [group("sys/fs/cgroup/memory/nearfar-1"), swap("/dev/loop12"), zram("zram1")] {
            assert_eq!(
                restore_action(&change(target.clone()), &value("never"), Some("first"), false),
                RestoreAction::Write
            );
            // After a reboot something else may have the name.
            let restarted = restore_action(&change(target), &value("never"), Some("second"), true);
            assert_eq!(restarted, RestoreAction::Nothing(RestoreStatus::Restarted));
        }
    }

    fn cpuset(owner: CpusetOwner) -> SettingTarget {
        SettingTarget::Cpuset { owner, resource: CpusetResource::Cpus }
    }

    #[test]
    fn limits_of_units_and_cgroups_end_with_them() {
        let (unit, cgroup) =
            (|name: &str| CpusetOwner::Unit(name.into()), |path: &str| CpusetOwner::Cgroup(path.into()));
        for owner in [unit("db.service"), cgroup("sys/fs/cgroup/db")] {
            let change = change(cpuset(owner));
            let action =
                |present: CurrentValue, boot: &str, force| restore_action(&change, &present, Some(boot), force);
            assert_eq!(action(value("never"), "first", false), RestoreAction::Write);
            assert_eq!(action(CurrentValue::Gone, "first", false), RestoreAction::Nothing(RestoreStatus::Ended));
            assert_eq!(action(value("never"), "second", true), RestoreAction::Nothing(RestoreStatus::Restarted));
        }
        for owner in [unit(""), unit("../db.service"), cgroup("sys/fs/cgroup/../db"), cgroup("etc/db")] {
            let step = restore_action(&change(cpuset(owner)), &value("never"), Some("first"), true);
            assert!(matches!(step, RestoreAction::Nothing(RestoreStatus::Failed { .. })), "{step:?}");
        }
    }

    #[test]
    fn ended_processes_and_other_boots_are_left_alone() {
        let process = change(SettingTarget::Process { pid: 7, started: 9 });
        let nothing = |why| RestoreAction::Nothing(why);
        assert_eq!(restore_action(&process, &CurrentValue::Gone, Some("first"), false), nothing(RestoreStatus::Ended));
        assert_eq!(restore_action(&process, &value("never"), Some("first"), false), RestoreAction::Write);
        for force in [false, true] {
            assert_eq!(
                restore_action(&process, &value("never"), Some("second"), force),
                nothing(RestoreStatus::Restarted)
            );
        }
    }

    #[test]
    fn parsed_lists_are_in_the_order_of_application() {
        let names = |text| TunedSetting::parse_list(text).map(|list| list.iter().map(|q| q.name()).collect::<Vec<_>>());
        assert_eq!(names("aslr, thp,aslr").unwrap(), ["thp", "aslr"]);
        assert_eq!(names("thp,all").unwrap().len(), TunedSetting::ALL.len());
        assert!(names("thb").unwrap_err().contains("unknown setting 'thb'; the settings are irqbalance, smt"));
        assert!(names(" ,").is_err());
        assert!(TunedSetting::ALL.is_sorted());
    }

    #[test]
    fn journal_line_format_is_stable() {
        let cases = [
            (SettingTarget::File("sys/x".into()), r#""file":"sys/x""#),
            (SettingTarget::Process { pid: 7, started: 9 }, r#""process":{"pid":7,"started":9}"#),
            (SettingTarget::Banned { pid: 7, started: 9 }, r#""banned":{"pid":7,"started":9}"#),
            (
                SettingTarget::Swap { device: "/dev/loop0".into(), backing: "/#7".into() },
                r#""swap":{"device":"/dev/loop0","backing":"/#7"}"#,
            ),
            (
                SettingTarget::Zram { name: "zram1".into(), bytes: Bytes(4096) },
                r#""zram":{"name":"zram1","bytes":4096}"#,
            ),
            (SettingTarget::Group("sys/fs/cgroup/nearfar-7".into()), r#""group":"sys/fs/cgroup/nearfar-7""#),
            (
                SettingTarget::Controller { group: "sys/fs/cgroup".into(), name: "memory".into() },
                r#""controller":{"group":"sys/fs/cgroup","name":"memory"}"#,
            ),
            (
                cpuset(CpusetOwner::Unit("db.service".into())),
                r#""cpuset":{"owner":{"unit":"db.service"},"resource":"cpus"}"#,
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
