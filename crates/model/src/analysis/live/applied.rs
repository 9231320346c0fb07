//! A placement that was applied to a running service: what was applied, and whether it is still in effect. Must not depend
//! on how a service is observed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{LiveAnswer, LiveId};
use crate::analysis::residency::NodeBytes;
use crate::placements::placement::interrupt_lines;
use crate::stats::switchback::Outcome;
use crate::values::id_set::{CpuSet, NodeSet};
use crate::values::placement::Route;
use crate::values::shell::quote_argv;
use crate::values::undo::{CpusetOwner, CpusetResource, Restored, ServiceProcesses};
use crate::values::units::Bytes;

/// Part of the memory that may leave its nodes before the placement counts as lost, in percent of the memory.
const MEMORY_LOST_PERCENT: f64 = 10.0;

/// A placement that was applied. It is stored next to the undo journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppliedPlacement {
    /// `unit redis`.
    pub subject: String,
    /// The options that name the service.
    pub options: Vec<String>,
    pub processes: ServiceProcesses,
    /// As it was requested.
    pub placement: String,
    /// CPUs of all threads, except those with one of the affinities `pinned`, which the program had set itself.
    pub cpus: CpuSet,
    pub pinned: Vec<CpuSet>,
    /// `None` if the placement names no memory.
    pub memory: Option<AppliedMemory>,
    /// The cpuset that limits the threads to `cpus`; `None`: the affinity of each thread does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<CpusetOwner>,
    /// Interrupts that it places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Route>,
    /// Whether it is that of an experiment, which moves the memory only for a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_experiment: bool,
}

/// Where the memory is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppliedMemory {
    pub nodes: NodeSet,
    /// Percentage of the memory that was on these nodes afterwards.
    pub percent: f64,
    /// Whether the cpuset limits new memory to these nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_limited: bool,
}

/// Whether an applied placement is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppliedState {
    InEffect,
    /// Threads may run on other CPUs, for example because the service was restarted.
    ThreadsLost,
    /// Interrupts may be handled by other CPUs, for example because irqbalance has moved them.
    InterruptsLost,
    /// Memory is on other nodes.
    MemoryLost,
    /// It is in effect, but no longer better than the placement before.
    GainLost,
    /// The service has no processes.
    Ended,
}

/// An applied placement as it was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AppliedFinding {
    #[serde(flatten)]
    pub placement: AppliedPlacement,
    pub state: AppliedState,
    pub threads: usize,
    /// Threads that may run on other CPUs.
    pub threads_elsewhere: usize,
    /// Interrupts of the placement that have another affinity, or that no longer exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupts_elsewhere: Vec<Route>,
    /// Percentage of the memory on the nodes of the placement; `None` if it names none, or if it cannot be inspected.
    pub memory_percent: Option<f64>,
    /// `None` if the gain was not measured again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<GainCheck>,
}

/// Comparison of an applied placement with the one before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GainCheck {
    pub experiment: LiveId,
    pub answer: LiveAnswer,
}

impl AppliedState {
    /// Whether something must be done.
    pub fn is_lost(self) -> bool {
        !matches!(self, Self::InEffect | Self::Ended)
    }
}

impl AppliedFinding {
    /// Adds a comparison with the placement before. Without an answer, nothing is known about the gain.
    pub fn add_gain(&mut self, gain: GainCheck) {
        let is_known = |outcome: &Outcome| matches!(outcome, Outcome::Loss { .. } | Outcome::NoDifferenceSeen { .. });
        let is_gone = matches!(&gain.answer, LiveAnswer::Ended(outcome) if is_known(outcome));
        if is_gone && self.state == AppliedState::InEffect {
            self.state = AppliedState::GainLost;
        }
        self.gain = Some(gain);
    }
}

impl AppliedPlacement {
    /// Returns the command that applies it again.
    pub fn apply_command(&self) -> String {
        let mut words = ["nearfar", "live", "apply"].map(str::to_owned).to_vec();
        words.extend(self.options.clone());
        words.extend(self.devices().into_iter().flat_map(|device| ["--device".into(), device.to_owned()]));
        words.extend(["--placement".into(), self.placement.clone()]);
        quote_argv(&words)
    }

    /// Returns the nodes to which its cpuset limits new memory.
    pub fn limited_nodes(&self) -> Option<&NodeSet> {
        self.memory.as_ref().filter(|memory| memory.is_limited).map(|memory| &memory.nodes)
    }

    /// Returns whether systemd enforces the placement, so that it survives a restart of the service.
    pub fn is_kept_by_systemd(&self) -> bool {
        matches!(self.cpuset, Some(CpusetOwner::Unit(_)))
    }

    /// Returns the commands that limit the service by its cpuset, with those for its CPUs if they change.
    pub fn cpuset_commands(&self, with_cpus: bool) -> Vec<String> {
        let Some(owner) = &self.cpuset else { return Vec::new() };
        let nodes = self.limited_nodes().map(|nodes| owner.command(CpusetResource::MemoryNodes, &nodes.to_string()));
        let cpus = with_cpus.then(|| owner.command(CpusetResource::Cpus, &self.cpus.to_string()));
        cpus.into_iter().chain(nodes).collect()
    }

    /// Returns shell commands that place its interrupts.
    pub fn interrupt_lines(&self) -> Vec<String> {
        interrupt_lines(&self.interrupts).iter().flat_map(|lines| lines.lines()).map(str::to_owned).collect()
    }

    /// Returns the devices whose interrupts it places.
    pub fn devices(&self) -> BTreeSet<&str> {
        self.interrupts.iter().map(|route| route.device.as_str()).collect()
    }

    /// Judges the affinity of each thread, that of each interrupt by number, and the memory by node if it could be inspected.
    pub fn judge(
        self,
        masks: &[CpuSet],
        interrupts: &BTreeMap<u32, CpuSet>,
        memory: Option<&NodeBytes>,
    ) -> AppliedFinding {
        let is_misrouted = |route: &&Route| interrupts.get(&route.number) != Some(&route.cpus);
        let interrupts_elsewhere: Vec<Route> = self.interrupts.iter().filter(is_misrouted).cloned().collect();
        let is_elsewhere = |mask: &&CpuSet| !mask.is_subset(&self.cpus) && !self.pinned.contains(mask);
        let threads_elsewhere = masks.iter().filter(is_elsewhere).count();
        let memory_percent = self.memory.as_ref().zip(memory).and_then(|(applied, now)| now.percent_on(&applied.nodes));
        let is_lost = |applied: &AppliedMemory| {
            memory_percent.is_some_and(|percent| percent < applied.percent - MEMORY_LOST_PERCENT)
        };
        let state = match () {
            () if masks.is_empty() => AppliedState::Ended,
            () if threads_elsewhere > 0 => AppliedState::ThreadsLost,
            () if !interrupts_elsewhere.is_empty() => AppliedState::InterruptsLost,
            () if self.memory.as_ref().is_some_and(is_lost) => AppliedState::MemoryLost,
            () => AppliedState::InEffect,
        };
        AppliedFinding {
            placement: self,
            state,
            threads: masks.len(),
            threads_elsewhere,
            interrupts_elsewhere,
            memory_percent,
            gain: None,
        }
    }
}

/// Result of applying a placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AppliedChange {
    #[serde(flatten)]
    pub finding: AppliedFinding,
    /// `None` if the placement names no memory.
    pub moved: Option<MovedMemory>,
    /// Whether automatic NUMA balancing is on and may move the pages back.
    pub numa_balancing: bool,
    /// Lines that make it permanent, if there are any.
    pub permanent: Vec<String>,
    /// Commands that place its interrupts again after a reboot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupt_lines: Vec<String>,
}

/// Memory that was moved between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MovedMemory {
    /// Memory that was elsewhere.
    pub planned: Bytes,
    /// Memory that was found on its node afterwards.
    pub moved: Bytes,
    pub seconds: f64,
    /// Whether it was interrupted.
    pub is_interrupted: bool,
}

/// Result of undoing an applied placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UndonePlacement {
    pub subject: String,
    pub restored: Vec<Restored>,
    /// Memory that was moved back; `None` if none had been moved.
    pub moved: Option<MovedMemory>,
    /// Whether nothing is left to undo.
    pub is_settled: bool,
}

/// Returns lines that make a placement permanent for a service with these options. There are none for pods, whose CPUs the
/// kubelet chooses, and for cgroups.
pub fn permanent_lines(options: &[String], cpus: &CpuSet, nodes: Option<&NodeSet>) -> Vec<String> {
    let [option, name] = options else { return Vec::new() };
    let nodes = nodes.map(ToString::to_string);
    match option.as_str() {
        "--unit" => {
            let memory = nodes.map(|nodes| ["NUMAPolicy=bind".to_owned(), format!("NUMAMask={nodes}")]);
            let service = ["[Service]".to_owned(), format!("CPUAffinity={cpus}")];
            let head = quote_argv(&["systemctl", "edit", name]);
            std::iter::once(head).chain(service).chain(memory.into_iter().flatten()).collect()
        }
        "--container" => {
            let mut words = vec!["docker".to_owned(), "update".into(), format!("--cpuset-cpus={cpus}")];
            words.extend(nodes.map(|nodes| format!("--cpuset-mems={nodes}")));
            words.push(name.clone());
            vec![quote_argv(&words)]
        }
        "--pid" => {
            let memory = nodes.map(|nodes| format!(" -m {nodes}")).unwrap_or_default();
            vec![format!("numactl -C {cpus}{memory} -- COMMAND")]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::Interval;
    use crate::stats::switchback::{ArmId, Change};
    use crate::values::id_set::NodeId;
    use crate::values::units::Bytes;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    fn applied() -> AppliedPlacement {
        let memory = AppliedMemory { nodes: NodeSet::parse_list("1").unwrap(), percent: 98.0, is_limited: false };
        AppliedPlacement {
            subject: "unit redis".into(),
            options: vec!["--unit".into(), "redis".into()],
            processes: ServiceProcesses::Cgroup("sys/fs/cgroup/system.slice/redis.service".into()),
            placement: "node:1".into(),
            cpus: cpus("4-7"),
            pinned: vec![cpus("0")],
            memory: Some(memory),
            cpuset: None,
            interrupts: Vec::new(),
            is_experiment: false,
        }
    }

    fn on_nodes(bytes: [u64; 2]) -> NodeBytes {
        let by_node: BTreeMap<_, _> = (0..).map(NodeId).zip(bytes.map(Bytes)).collect();
        NodeBytes { bytes: Bytes(bytes.iter().sum()), by_node, ..NodeBytes::default() }
    }

    #[test]
    fn state_depends_on_threads_and_memory() {
        let (here, pinned, all) = (cpus("4-7"), cpus("0"), cpus("0-7"));
        let none = BTreeMap::new();
        let state = |masks: &[CpuSet], memory: Option<[u64; 2]>| {
            applied().judge(masks, &none, memory.map(on_nodes).as_ref()).state
        };
        assert_eq!(state(&[here.clone(), pinned.clone()], Some([10, 90])), AppliedState::InEffect);
        assert_eq!(state(&[here.clone(), cpus("5")], None), AppliedState::InEffect, "bound by the program since");
        assert_eq!(state(&[here.clone(), all], Some([0, 100])), AppliedState::ThreadsLost);
        assert_eq!(state(std::slice::from_ref(&here), Some([13, 87])), AppliedState::MemoryLost);
        assert_eq!(state(&[], None), AppliedState::Ended);
        let unbound = AppliedPlacement { memory: None, ..applied() }.judge(&[here], &none, Some(&on_nodes([100, 0])));
        assert_eq!((unbound.state, unbound.memory_percent), (AppliedState::InEffect, None));
    }

    #[test]
    fn only_an_answer_shows_that_the_gain_is_lost() {
        let interval = Interval::between(-0.01, 0.018).expect("finite");
        let change = Change { value: 0.004, interval, p_value: 0.4, blocks: 32 };
        let no_difference = Outcome::NoDifferenceSeen { arm: ArmId(1), change, excluded_gain: 0.018 };
        let answers = [
            (LiveAnswer::Ended(Outcome::Gain { arm: ArmId(1), change }), AppliedState::InEffect),
            (LiveAnswer::Ended(Outcome::Loss { arm: ArmId(1), change }), AppliedState::GainLost),
            (LiveAnswer::Ended(no_difference), AppliedState::GainLost),
            (LiveAnswer::NotSettled { longest_period_s: 8.0 }, AppliedState::InEffect),
            (LiveAnswer::Stopped { reason: "it was interrupted".into() }, AppliedState::InEffect),
        ];
        for (answer, state) in answers {
            let mut finding = applied().judge(&[cpus("4-7")], &BTreeMap::new(), None);
            finding.add_gain(GainCheck { experiment: LiveId("ab12".into()), answer: answer.clone() });
            assert_eq!(
                (finding.state, finding.state.is_lost()),
                (state, state == AppliedState::GainLost),
                "{answer:?}"
            );
        }
        let mut lost = applied().judge(&[cpus("0-7")], &BTreeMap::new(), None);
        lost.add_gain(GainCheck { experiment: LiveId("ab12".into()), answer: LiveAnswer::Unfinished });
        assert_eq!(lost.state, AppliedState::ThreadsLost);
    }

    #[test]
    fn interrupts_elsewhere_are_lost() {
        let route = |number| Route { device: "eth0".into(), number, name: "rx".into(), cpus: cpus("6") };
        let state = |found: [(u32, &str); 2]| {
            let applied = AppliedPlacement { interrupts: vec![route(38), route(39)], memory: None, ..applied() };
            let found = found.map(|(number, list)| (number, cpus(list))).into();
            let finding = applied.judge(&[cpus("4-7")], &found, None);
            (finding.state, finding.interrupts_elsewhere.iter().map(|route| route.number).collect::<Vec<_>>())
        };
        assert_eq!(state([(38, "6"), (39, "6")]), (AppliedState::InEffect, vec![]));
        assert_eq!(state([(38, "6"), (39, "0-7")]), (AppliedState::InterruptsLost, vec![39]));
        assert_eq!(state([(38, "6"), (40, "6")]), (AppliedState::InterruptsLost, vec![39]), "it no longer exists");
    }

    #[test]
    fn commands_limit_what_the_cpuset_limits() {
        let placement = |cpuset: Option<CpusetOwner>, is_limited| {
            let memory = applied().memory.map(|memory| AppliedMemory { is_limited, ..memory });
            AppliedPlacement { memory, cpuset, ..applied() }
        };
        let commands = |cpuset, is_limited| placement(cpuset, is_limited).cpuset_commands(true);
        assert_eq!(commands(None, false), [""; 0]);
        let unit = Some(CpusetOwner::Unit("redis.service".into()));
        let cpus = "systemctl set-property --runtime redis.service AllowedCPUs=4-7";
        assert_eq!(commands(unit.clone(), false), [cpus]);
        let nodes = "systemctl set-property --runtime redis.service AllowedMemoryNodes=1";
        assert_eq!(commands(unit.clone(), true), [cpus, nodes]);
        assert_eq!(placement(unit, true).cpuset_commands(false), [nodes]);
        let cgroup = Some(CpusetOwner::Cgroup("sys/fs/cgroup/db".into()));
        let files = ["echo 4-7 >/sys/fs/cgroup/db/cpuset.cpus", "echo 1 >/sys/fs/cgroup/db/cpuset.mems"];
        assert_eq!(commands(cgroup, true), files);
    }

    #[test]
    fn commands_name_the_service() {
        assert_eq!(applied().apply_command(), "nearfar live apply --unit redis --placement node:1");
        let nodes = NodeSet::parse_list("1").unwrap();
        let lines =
            |option: &str, nodes| permanent_lines(&[option.into(), "db".into()], &cpus("4-7"), nodes).join("; ");
        let unit = "systemctl edit db; [Service]; CPUAffinity=4-7; NUMAPolicy=bind; NUMAMask=1";
        assert_eq!(lines("--unit", Some(&nodes)), unit);
        assert_eq!(lines("--unit", None), "systemctl edit db; [Service]; CPUAffinity=4-7");
        assert_eq!(lines("--container", Some(&nodes)), "docker update --cpuset-cpus=4-7 --cpuset-mems=1 db");
        assert_eq!(lines("--pid", Some(&nodes)), "numactl -C 4-7 -m 1 -- COMMAND");
        assert_eq!(lines("--pod", Some(&nodes)), "");
    }
}
