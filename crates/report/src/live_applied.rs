//! Placements that were applied to running services, as text.

use model::analysis::live::{
    AppliedChange, AppliedFinding, AppliedState, MovedMemory, UndonePlacement, interrupt_cpus,
};
use model::values::shell::quote_argv;
use model::values::undo::{CpusetOwner, CpusetResource, RestoreStatus, SettingTarget, UNLIMITED};

use crate::style::{TextStyle, Tone, clean, paragraph, with_symbol};

/// The state of an applied placement, the memory that was moved, and how to keep or undo it.
pub fn change(change: &AppliedChange, style: &TextStyle) -> String {
    let placement = &change.finding.placement;
    let mut out = findings(std::slice::from_ref(&change.finding), style);
    if let Some(moved) = &change.moved {
        out += &paragraph(&moved_text(moved, "moved"), style);
    }
    if let Some(memory) = &placement.memory {
        let new = if memory.is_limited {
            format!("New memory can only be on {}", memory.nodes.described())
        } else {
            "New memory follows the memory policy of the program: by default it is on the node of the thread that uses it first".into()
        };
        out += &paragraph(&new, style);
    }
    out += &match &placement.cpuset {
        None => String::new(),
        Some(CpusetOwner::Unit(unit)) => paragraph(
            &format!("systemd limits {} until the next boot, also after a restart of the service", clean(unit)),
            style,
        ),
        Some(CpusetOwner::Cgroup(_)) => paragraph("New processes in its cgroup have the same limits", style),
    };
    if change.numa_balancing {
        let text = "Automatic NUMA balancing is on (kernel.numa_balancing) and may move pages back";
        out += &paragraph(&with_symbol(text, Tone::Warning), style);
    }
    let options = clean(&quote_argv(&placement.options));
    out += &paragraph(&format!("Undo it with nearfar live undo {options}"), style);
    if let [first, rest @ ..] = change.permanent.as_slice() {
        let event = if placement.is_kept_by_systemd() { "reboot" } else { "restart of the service" };
        out += &format!("\nTo keep it after a {event}:\n\n");
        out += &format!("    {}\n", clean(first));
        out += &rest.iter().map(|line| format!("        {}\n", clean(line))).collect::<String>();
    }
    if !change.interrupt_lines.is_empty() {
        out += "\nTo place its interrupts again after a reboot:\n\n";
        out += &change.interrupt_lines.iter().map(|line| format!("    {}\n", clean(line))).collect::<String>();
    }
    out
}

/// `memory: 3.1GiB of 3.2GiB moved in 18.2 s`.
fn moved_text(moved: &MovedMemory, verb: &str) -> String {
    let MovedMemory { planned, moved, seconds, is_interrupted } = moved;
    let end = if *is_interrupted { ", then interrupted" } else { "" };
    match planned.0 {
        0 => format!("memory: nothing had to be {verb}"),
        _ if planned == moved => format!("memory: {planned} {verb} in {seconds:.1} s{end}"),
        _ => format!("memory: {moved} of {planned} {verb} in {seconds:.1} s{end}; the rest is in use or was freed"),
    }
}

/// One sentence per applied placement.
pub fn findings(found: &[AppliedFinding], style: &TextStyle) -> String {
    if found.is_empty() {
        return "No placement is applied.\n".into();
    }
    found.iter().map(|finding| paragraph(&sentence(finding), style)).collect()
}

fn sentence(finding: &AppliedFinding) -> String {
    let placement = &finding.placement;
    let (subject, cpus) = (clean(&placement.subject), placement.cpus.described());
    let memory = placement.memory.as_ref().zip(finding.memory_percent);
    let memory =
        memory.map(|(memory, percent)| format!("{percent:.0} % of its memory is on {}", memory.nodes.described()));
    let again = clean(&placement.apply_command());
    let threads = finding.threads;
    match finding.state {
        AppliedState::InEffect => {
            let threads = format!("{threads} {} may run on {cpus}", plural(threads, "thread"));
            let devices: Vec<String> = placement.devices().into_iter().map(clean).collect();
            let interrupts = interrupt_cpus(&placement.interrupts)
                .map(|cpus| format!("interrupts of {} are assigned to {}", devices.join(", "), cpus.described()));
            let all: Vec<String> = [Some(threads), interrupts, memory].into_iter().flatten().collect();
            with_symbol(&format!("{subject}: in effect: {}", all.join(", ")), Tone::Good)
        }
        AppliedState::ThreadsLost => {
            let elsewhere = finding.threads_elsewhere;
            let text = format!(
                "{subject}: lost: {elsewhere} of {threads} {} may leave {cpus}, for example after a restart. Apply it again: {again}",
                plural(threads, "thread")
            );
            with_symbol(&text, Tone::Warning)
        }
        AppliedState::InterruptsLost => {
            let lost = finding.interrupts_elsewhere.iter();
            let lost: Vec<String> = lost
                .map(|route| format!("{} ({} of {})", route.number, clean(&route.name), clean(&route.device)))
                .collect();
            let (noun, lost) = (plural(lost.len(), "interrupt"), lost.join(", "));
            let text = format!(
                "{subject}: lost: {noun} {lost} may arrive on other CPUs, for example because irqbalance has moved them. Apply it again: {again}"
            );
            with_symbol(&text, Tone::Warning)
        }
        AppliedState::MemoryLost => {
            let before = placement.memory.as_ref().map_or(0.0, |memory| memory.percent);
            let text = format!(
                "{subject}: lost: only {}, after {before:.0} %. Apply it again: {again}",
                memory.unwrap_or_default()
            );
            with_symbol(&text, Tone::Warning)
        }
        AppliedState::GainLost => {
            let options = clean(&quote_argv(&placement.options));
            let text = format!(
                "{subject}: in effect, but no longer better than the placement before. Undo it with nearfar live undo {options}"
            );
            with_symbol(&text, Tone::Warning)
        }
        AppliedState::Ended if placement.is_kept_by_systemd() => {
            format!("{subject}: does not run; systemd places it on {cpus} when it starts")
        }
        AppliedState::Ended => format!("{subject}: has ended"),
    }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.into() } else { format!("{noun}s") }
}

/// One paragraph per placement that was undone.
pub fn undone(undone: &[UndonePlacement], style: &TextStyle) -> String {
    if undone.is_empty() {
        return "No placement is applied.\n".into();
    }
    undone.iter().map(|undone| paragraph(&undone_text(undone), style)).collect()
}

fn undone_text(undone: &UndonePlacement) -> String {
    let subject = clean(&undone.subject);
    let affinity = undone.restored.iter().map(|restored| match (&restored.outcome, &restored.change.target) {
        (RestoreStatus::Ended, SettingTarget::Affinity(_)) => "has ended".to_owned(),
        (RestoreStatus::Restored, SettingTarget::Affinity(_)) => {
            format!("its threads may run on {} again", clean(&restored.change.old))
        }
        (RestoreStatus::Restored, SettingTarget::Cpuset { resource, .. }) => {
            let (what, all) = match resource {
                CpusetResource::Cpus => ("its threads may run on", "all CPUs"),
                CpusetResource::MemoryNodes => ("its memory may be on", "all nodes"),
            };
            let old = &restored.change.old;
            format!("{what} {} again", if old == UNLIMITED { all.into() } else { clean(old) })
        }
        _ => {
            let text = restored.to_string();
            clean(text.strip_prefix(&format!("{}: ", undone.subject)).unwrap_or(&text))
        }
    });
    let memory = undone.moved.iter().map(|moved| moved_text(moved, "moved back"));
    let all: Vec<String> = affinity.chain(memory).collect();
    let tone = if undone.is_settled { Tone::Good } else { Tone::Warning };
    let all = if all.is_empty() { "nothing was left to undo".to_owned() } else { all.join("; ") };
    with_symbol(&format!("{subject}: {all}"), tone)
}

#[cfg(test)]
mod tests {
    use model::analysis::live::{AppliedMemory, AppliedPlacement};
    use model::values::id_set::{CpuSet, NodeSet};
    use model::values::placement::Route;
    use model::values::undo::{Restored, ServiceProcesses, SettingChange};
    use model::values::units::Bytes;

    use super::*;

    fn finding(state: AppliedState) -> AppliedFinding {
        let nodes = NodeSet::parse_list("1").unwrap();
        AppliedFinding {
            placement: AppliedPlacement {
                subject: "unit redis".into(),
                options: vec!["--unit".into(), "redis".into()],
                processes: processes(),
                placement: "node:1".into(),
                cpus: CpuSet::parse_list("6-11").unwrap(),
                pinned: Vec::new(),
                memory: Some(AppliedMemory { nodes, percent: 98.4, is_limited: false }),
                cpuset: None,
                interrupts: vec![route()],
                is_experiment: false,
            },
            state,
            threads: 12,
            threads_elsewhere: 3,
            interrupts_elsewhere: vec![route()],
            memory_percent: Some(71.2),
            gain: None,
        }
    }

    fn route() -> Route {
        Route { device: "eth0".into(), number: 38, name: "eth0-rx-0".into(), cpus: CpuSet::parse_list("6").unwrap() }
    }

    fn processes() -> ServiceProcesses {
        ServiceProcesses::Cgroup("sys/fs/cgroup/system.slice/redis.service".into())
    }

    fn style() -> TextStyle {
        TextStyle { width: 100, ascii: false, colour: false }
    }

    #[test]
    fn change_is_rendered() {
        let moved =
            MovedMemory { planned: Bytes(4 << 30), moved: Bytes(3 << 30), seconds: 18.24, is_interrupted: false };
        let permanent = ["systemctl edit redis", "[Service]", "CPUAffinity=6-11"].map(str::to_owned).to_vec();
        let finding = finding(AppliedState::InEffect);
        let interrupt_lines = finding.placement.interrupt_lines();
        let change = AppliedChange { finding, moved: Some(moved), numa_balancing: true, permanent, interrupt_lines };
        insta::assert_snapshot!("live_applied", super::change(&change, &style()));
    }

    #[test]
    fn limits_are_described() {
        let limited = |cpuset: CpusetOwner, state| {
            let mut finding = finding(state);
            finding.placement.cpuset = Some(cpuset);
            finding.placement.memory.iter_mut().for_each(|memory| memory.is_limited = true);
            let (moved, permanent) = (None, vec!["systemctl edit redis".into()]);
            super::change(
                &AppliedChange { finding, moved, numa_balancing: false, permanent, interrupt_lines: Vec::new() },
                &style(),
            )
        };
        let unit = CpusetOwner::Unit("redis.service".into());
        let texts = [
            limited(unit.clone(), AppliedState::InEffect),
            limited(unit, AppliedState::Ended),
            limited(CpusetOwner::Cgroup("sys/fs/cgroup/db".into()), AppliedState::InEffect),
        ];
        insta::assert_snapshot!("live_limited", texts.join("\n"));
    }

    #[test]
    fn every_state_has_a_sentence() {
        let states = [
            AppliedState::InEffect,
            AppliedState::ThreadsLost,
            AppliedState::InterruptsLost,
            AppliedState::MemoryLost,
            AppliedState::GainLost,
            AppliedState::Ended,
        ];
        insta::assert_snapshot!("live_watch", findings(&states.map(finding), &style()));
        assert_eq!(findings(&[], &style()), "No placement is applied.\n");
    }

    #[test]
    fn undone_placements_are_rendered() {
        let change = SettingChange {
            setting: "unit redis".into(),
            target: SettingTarget::Affinity(processes()),
            old: "all allowed CPUs".into(),
            new: "6-11".into(),
            also: Vec::new(),
            boot: None,
        };
        let with = |outcomes: Vec<RestoreStatus>, moved: Option<u64>, is_settled| UndonePlacement {
            subject: "unit redis".into(),
            restored: outcomes.into_iter().map(|outcome| Restored { change: change.clone(), outcome }).collect(),
            moved: moved.map(|planned| MovedMemory {
                planned: Bytes(planned),
                moved: Bytes(planned),
                ..Default::default()
            }),
            is_settled,
        };
        let cpuset = |resource, old: &str, new: &str| {
            let target = SettingTarget::Cpuset { owner: CpusetOwner::Unit("redis.service".into()), resource };
            let change = SettingChange { target, old: old.into(), new: new.into(), ..change.clone() };
            Restored { change, outcome: RestoreStatus::Restored }
        };
        let limits =
            vec![cpuset(CpusetResource::MemoryNodes, UNLIMITED, "1"), cpuset(CpusetResource::Cpus, "0-11", "6-11")];
        let failed = RestoreStatus::Failed { why: "the kernel refuses".into(), not_permitted: true };
        let all = [
            with(vec![RestoreStatus::Restored], Some(3 << 30), true),
            with(vec![RestoreStatus::Ended], Some(0), true),
            with(vec![failed], None, false),
            with(Vec::new(), None, true),
            UndonePlacement { restored: limits, ..with(Vec::new(), None, true) },
        ];
        insta::assert_snapshot!("live_undo", undone(&all, &style()));
    }
}
