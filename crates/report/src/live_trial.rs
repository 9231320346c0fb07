//! The result of an experiment on a running service, as text.

use model::analysis::live::{
    CpuUse, FreshPairs, GuardViolation, LiveAnswer, LiveMemoryNodes, LivePeriod, LivePlacement, LiveTrial,
    interrupt_cpus,
};
use model::stats::switchback::{ArmId, Change, DropReason, NoClaim, Outcome};

use crate::grid::{CellKind, Grid, GridCell};
use crate::number::{percent_size, significant};
use crate::style::{TextStyle, Tone, clean, paragraph, with_symbol};

/// Title of the column with memory nodes.
const MEMORY: &str = "memory";
/// Title of the column with the CPUs of interrupts.
const INTERRUPTS: &str = "interrupts";

/// The answer, the placements, and what the figures mean.
pub fn live_trial(trial: &LiveTrial, style: &TextStyle) -> String {
    let mut out = live_answer(trial, style);
    out += &so_far(trial).map_or_else(String::new, |text| paragraph(&text, style));
    out += &format!("\n{}", grid(trial).terminal(style));
    out += "\n";
    out += &notes(trial).iter().map(|note| paragraph(note, style)).collect::<String>();
    out
}

/// The answer alone, as a paragraph.
pub fn live_answer(trial: &LiveTrial, style: &TextStyle) -> String {
    let (answer, tone) = answer(trial);
    paragraph(&with_symbol(&answer, tone), style)
}

/// `+3.1 % [+2.0, +4.2]`.
fn change_text(change: &Change) -> String {
    let percent = |value: f64| format!("{:+.1}", 100.0 * value);
    format!("{} % [{}, {}]", percent(change.value), percent(change.interval.low), percent(change.interval.high))
}

fn name(trial: &LiveTrial, arm: ArmId) -> String {
    trial.placement(arm).map_or_else(|| "?".into(), |placement| clean(&placement.name))
}

/// The answer in words, and whether it is good news.
pub(crate) fn answer(trial: &LiveTrial) -> (String, Tone) {
    let subject = clean(&trial.subject);
    match &trial.answer {
        LiveAnswer::Ended(outcome) => ended(trial, &subject, outcome),
        LiveAnswer::CarriedOver { arm, carry_over } => {
            let text = format!(
                "{subject}: no claim. Its {} still changed by {:+.1} % in the periods of {}, after {:.1} s: the periods of one placement depend on the previous one",
                clean(&trial.quantity),
                100.0 * carry_over.change,
                name(trial, *arm),
                trial.wash_out_s.unwrap_or_default()
            );
            (text, Tone::Warning)
        }
        LiveAnswer::NotSettled { longest_period_s } => {
            let text = format!(
                "{subject}: no claim. Its {} does not settle within {longest_period_s:.0} s after a change of the placement",
                clean(&trial.quantity)
            );
            (text, Tone::Warning)
        }
        LiveAnswer::BudgetTooShort { change_s, needed } => {
            let text = format!(
                "{subject}: no claim. Each change of the placement moves memory for {change_s:.1} s, so that the budget allows too few periods; use at least --budget {needed}"
            );
            (text, Tone::Warning)
        }
        LiveAnswer::Stopped { reason } => (format!("{subject}: no claim: {}", clean(reason)), Tone::Warning),
        LiveAnswer::Unfinished => (format!("{subject}: no answer yet"), Tone::Plain),
    }
}

/// Describes the fresh pairs so far, if there is no answer.
pub(crate) fn so_far(trial: &LiveTrial) -> Option<String> {
    let FreshPairs { arm, complete, planned, change } = trial.fresh_pairs.as_ref()?;
    let (arm, quantity) = (name(trial, *arm), clean(&trial.quantity));
    let pairs = format!("{complete} of {planned} fresh pairs of periods");
    Some(match change {
        Some(change) => format!(
            "Provisional: {arm} changes its {quantity} by {}, in {pairs}. The interval holds only for a complete experiment",
            change_text(change)
        ),
        None => format!("{arm} was being compared with the placement found: {pairs}, too few for an interval"),
    })
}

fn ended(trial: &LiveTrial, subject: &str, outcome: &Outcome) -> (String, Tone) {
    let quantity = clean(&trial.quantity);
    let pairs = |change: &Change| format!("{} fresh pairs of periods", change.blocks);
    match outcome {
        Outcome::Gain { arm, change } => {
            let (arm, by, pairs) = (name(trial, *arm), change_text(change), pairs(change));
            (format!("{subject}: {arm} changes its {quantity} by {by}, in {pairs}"), Tone::Good)
        }
        Outcome::Loss { arm, change } => {
            let (arm, by, pairs) = (name(trial, *arm), change_text(change), pairs(change));
            let text = format!(
                "{subject}: no placement is better than the one found; the best of them, {arm}, changes the {quantity} by {by}, in {pairs}"
            );
            (text, Tone::Good)
        }
        Outcome::NoDifferenceSeen { arm, change, excluded_gain } => {
            let text = format!(
                "{subject}: no difference seen between {} and the placement found: {}, in {}. A gain of more than {:.1} % is excluded",
                name(trial, *arm),
                change_text(change),
                pairs(change),
                100.0 * excluded_gain
            );
            (text, Tone::Plain)
        }
        Outcome::NoAlternatives => (format!("{subject}: no claim: no other placement is left"), Tone::Warning),
        Outcome::NoClaim { reason } => (format!("{subject}: no claim: {}", no_claim(reason)), Tone::Warning),
    }
}

fn no_claim(reason: &NoClaim) -> String {
    match reason {
        NoClaim::TooFewBlocks { .. } => format!("{reason}; a longer --budget allows more"),
        NoClaim::InvalidValue { .. } | NoClaim::OutOfRange => reason.to_string(),
    }
}

pub(crate) fn grid(trial: &LiveTrial) -> Grid {
    let mut grid = Grid::new(&[
        "placement",
        "CPUs",
        MEMORY,
        INTERRUPTS,
        &trial.quantity,
        "periods",
        "in the race",
        "others",
        "waiting",
        "left",
    ])
    .numbers(&[&trial.quantity, "periods", "in the race", "others", "waiting"])
    .holding(CellKind::Text, &["CPUs", MEMORY, INTERRUPTS, "left"]);
    for (at, placement) in trial.placements.iter().enumerate() {
        let arm = ArmId(at as u32);
        let (rate, periods) = trial.rate(arm);
        let used = trial.cpu_use(arm);
        let change = trial.race.iter().find(|(other, _)| *other == arm).and_then(|(_, change)| change.as_ref());
        let left = trial.dropped.iter().find(|dropped| dropped.arm == arm).map(|dropped| match dropped.reason {
            DropReason::Worse => "worse",
            DropReason::NotProven => "not verified",
            DropReason::Withdrawn => "guard violated",
        });
        grid.rows.push(vec![
            GridCell::plain(&placement.name),
            GridCell::plain(&placement.cpus.to_string()),
            GridCell::plain(&memory(placement)),
            GridCell::plain(&interrupts(placement)),
            GridCell::plain(
                &rate.map_or_else(|| "–".into(), |rate| format!("{}{}", significant(rate), clean(&trial.unit))),
            ),
            GridCell::plain(&periods.to_string()),
            GridCell::plain(&change.map_or_else(|| "–".into(), change_text)),
            GridCell::plain(&used.map_or_else(|| "–".into(), |(used, cpus)| share_of(used.others, cpus))),
            GridCell::plain(&used.map_or_else(|| "–".into(), |(used, _)| format!("{:.1}", used.waiting))),
            GridCell::plain(left.unwrap_or_default()),
        ]);
    }
    let (mut has_memory, mut has_interrupts) = (false, false);
    for placement in &trial.placements {
        has_memory |= placement.memory.is_some();
        has_interrupts |= interrupt_cpus(&placement.interrupts).is_some();
    }
    let grid = if has_memory { grid } else { grid.without(MEMORY) };
    if has_interrupts { grid } else { grid.without(INTERRUPTS) }
}

/// `CPUs 4-7` or `as found`.
fn interrupts(placement: &LivePlacement) -> String {
    interrupt_cpus(&placement.interrupts).map_or_else(|| "as found".into(), |cpus| cpus.described())
}

/// `node 1`, `interleaved over nodes 0-1` or `as found`.
fn memory(placement: &LivePlacement) -> String {
    match &placement.memory {
        None => "as found".into(),
        Some(LiveMemoryNodes { nodes, interleaved: false }) => nodes.described(),
        Some(LiveMemoryNodes { nodes, interleaved: true }) => format!("interleaved over {}", nodes.described()),
    }
}

pub(crate) fn notes(trial: &LiveTrial) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(period), Some(wash_out)) = (trial.period_s, trial.wash_out_s) {
        notes.push(format!(
            "{}: periods of {period:.1} s, of which the first {wash_out:.1} s do not count. Effects that take longer than a period are not seen",
            clean(&trial.metric)
        ));
    }
    if let Some((memory, seconds)) = trial.moved_memory() {
        notes
            .push(format!("Up to {memory} of memory was moved at the begin of a period, in {seconds:.1} s on average"));
    }
    if trial.cpu_use(ArmId::BASELINE).is_some() {
        notes.push(
            "Others: share of the placement's CPUs that other programs used; waiting: threads of the service that waited for a CPU, on average"
                .into(),
        );
    }
    notes.extend(interrupts_note(trial));
    notes.extend(trial.violations.iter().map(|violation| violation_note(trial, violation)));
    notes.extend(unproven_note(trial));
    notes.extend(load_note(trial, "other programs, including clients on this machine", CpuUse::has_others, |used| {
        used.others
    }));
    notes.extend(load_note(trial, "the hypervisor", CpuUse::has_steal, |used| used.stolen));
    match trial.pinned_threads {
        0 => {}
        1 => notes.push("1 thread is bound by the program itself and was not changed".into()),
        more => notes.push(format!("{more} threads are bound by the program itself and were not changed")),
    }
    notes
}

/// `Interrupts of eth0: 12 000/s (as found), 11 800/s (node:1)`.
fn interrupts_note(trial: &LiveTrial) -> Option<String> {
    let arms = (0..trial.placements.len() as u32).map(ArmId);
    let rates: Vec<(ArmId, f64)> = arms.filter_map(|arm| Some((arm, trial.interrupt_rate(arm)?))).collect();
    let devices: Vec<String> = trial.devices().into_iter().map(clean).collect();
    let devices = devices.join(", ");
    if rates.is_empty() {
        return None;
    }
    if rates.iter().all(|(_, rate)| *rate == 0.0) {
        return Some(format!("No interrupt of {devices} arrived, so that its CPUs make no difference"));
    }
    let rate = |(arm, rate): &(ArmId, f64)| format!("{}/s ({})", significant(*rate), name(trial, *arm));
    let rates: Vec<String> = rates.iter().map(rate).collect();
    Some(format!("Interrupts of {devices}: {}", rates.join(", ")))
}

/// `2 periods do not count, the first after 83.2 s: thread 8 of process 7 may run on CPU 3`.
fn unproven_note(trial: &LiveTrial) -> Option<String> {
    let unproven: Vec<&LivePeriod> = trial.unproven().collect();
    let first = unproven.first()?;
    let (at_s, reason) = (first.at_s, clean(first.unproven.as_deref().unwrap_or("no value")));
    Some(match unproven.len() {
        1 => format!("1 period does not count, after {at_s:.1} s: {reason}"),
        more => format!("{more} periods do not count, the first after {at_s:.1} s: {reason}"),
    })
}

/// `34 %` of a number of CPUs.
fn share_of(used: f64, cpus: usize) -> String {
    format!("{} %", percent_size(100.0 * used / cpus as f64))
}

/// `CPU time taken by the hypervisor: 7 % (as found), 0.1 % (node:1). The result may differ under another load`, if the share
/// is high under any placement.
fn load_note(
    trial: &LiveTrial,
    by: &str,
    is_much: fn(&CpuUse, usize) -> bool,
    part: fn(&CpuUse) -> f64,
) -> Option<String> {
    let arms = (0..trial.placements.len() as u32).map(ArmId);
    let used: Vec<(ArmId, CpuUse, usize)> =
        arms.filter_map(|arm| trial.cpu_use(arm).map(|(used, cpus)| (arm, used, cpus))).collect();
    if !used.iter().any(|(_, used, cpus)| is_much(used, *cpus)) {
        return None;
    }
    let of_arm =
        |(arm, used, cpus): &(ArmId, CpuUse, usize)| format!("{} ({})", share_of(part(used), *cpus), name(trial, *arm));
    let shares: Vec<String> = used.iter().map(of_arm).collect();
    Some(format!("CPU time taken by {by}: {}. The result may differ under another load", shares.join(", ")))
}

/// `node:1 left after 83.2 s, because guard 'tcp:80>100' was violated (17); …`.
fn violation_note(trial: &LiveTrial, violation: &GuardViolation) -> String {
    let guard = clean(&violation.guard);
    let value = match (violation.value, &violation.error) {
        (Some(value), _) => format!("was violated ({})", significant(value)),
        (None, error) => format!("could not be read ({})", clean(error.as_deref().unwrap_or("no answer"))),
    };
    let at_s = violation.at_s;
    match violation.restored_after_s {
        Some(after_s) => format!(
            "{} left after {at_s:.1} s, because guard '{guard}' {value}; the placement found was restored within {after_s:.1} s",
            name(trial, violation.arm)
        ),
        None => {
            format!("Guard '{guard}' {value} under the placement found, after {at_s:.1} s; these periods do not count")
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use model::analysis::live::{InterruptUse, LiveEvidence, LivePhase, PlacementChange};
    use model::stats::statistics::Interval;
    use model::stats::switchback::{CarryOver, Dropped};
    use model::values::id_set::CpuSet;
    use model::values::placement::Route;
    use model::values::units::{Bytes, Nanos};
    use model::values::workload::Better;

    use super::*;

    fn change(value: f64) -> Change {
        let interval = Interval::between(value - 0.011, value + 0.012).expect("finite");
        Change { value, interval, p_value: 0.001, blocks: 32 }
    }

    /// Of `as found` and `node:0`.
    const USED: [CpuUse; 2] = [
        CpuUse { service: 4.0, others: 2.2, waiting: 0.31, stolen: 0.1 },
        CpuUse { service: 4.2, others: 0.05, waiting: 0.04, stolen: 0.0 },
    ];

    pub(crate) fn trial(answer: LiveAnswer) -> LiveTrial {
        let placement = |name: &str, cpus: &str| LivePlacement {
            name: name.into(),
            cpus: CpuSet::parse_list(cpus).expect("a list of CPUs"),
            memory: None,
            interrupts: Vec::new(),
        };
        let period = |arm, phase, rate: Option<f64>| LivePeriod {
            block: 0,
            at_s: 1.0,
            length_s: 1.6,
            arm: ArmId(arm),
            phase,
            rate,
            unproven: rate.is_none().then(|| "thread 8 of process 7 may run on CPU 3".into()),
            evidence: LiveEvidence { cpu_use: USED.get(arm as usize).copied(), ..LiveEvidence::default() },
        };
        let periods = vec![
            period(0, LivePhase::WashOut, Some(5.0)),
            period(0, LivePhase::Race, Some(37_800.0)),
            period(1, LivePhase::Race, Some(39_000.0)),
            period(2, LivePhase::Race, Some(21_400.0)),
            period(1, LivePhase::Confirm, None),
        ];
        LiveTrial {
            subject: "unit redis".into(),
            metric: "tcp:6379".into(),
            quantity: "rate".into(),
            unit: "/s".into(),
            better: Better::Higher,
            placements: vec![
                placement("as found", "0-23"),
                placement("node:0", "0-5,12-17"),
                placement("node:1", "6-11"),
            ],
            seconds: 231.0,
            wash_out_s: Some(0.6),
            period_s: Some(1.6),
            periods,
            dropped: vec![Dropped { arm: ArmId(2), reason: DropReason::Worse, after_blocks: 10 }],
            violations: Vec::new(),
            answer,
            fresh_pairs: None,
            race: vec![(ArmId(1), Some(change(0.034))), (ArmId(2), None)],
            pinned_threads: 1,
        }
    }

    fn text(answer: LiveAnswer) -> String {
        live_trial(&trial(answer), &TextStyle { width: 100, ascii: false, colour: false })
    }

    #[test]
    fn gain_is_rendered() {
        insta::assert_snapshot!(
            "live_trial",
            text(LiveAnswer::Ended(Outcome::Gain { arm: ArmId(1), change: change(0.031) }))
        );
    }

    #[test]
    fn much_use_by_others_is_noted() {
        let mut trial = trial(LiveAnswer::Unfinished);
        let notes_with =
            |trial: &LiveTrial| notes(trial).into_iter().filter(|note| note.contains("CPU time taken")).collect();
        let few: Vec<String> = notes_with(&trial);
        assert!(few.is_empty(), "2.2 of 24 CPUs are less than a tenth: {few:?}");
        for period in &mut trial.periods {
            let used = period.evidence.cpu_use.get_or_insert_default();
            (used.others, used.stolen) = (1.3 * used.others, 6.0 * used.stolen);
        }
        let many: Vec<String> = notes_with(&trial);
        insta::assert_snapshot!("live_trial_load", many.join("\n"));
        trial.wash_out_s = None;
        let unsettled: Vec<String> = notes_with(&trial);
        assert!(
            unsettled[0].ends_with(": 11.9 % (as found). The result may differ under another load"),
            "{unsettled:?}"
        );
    }

    #[test]
    fn memory_nodes_and_moved_memory_are_rendered() {
        let mut trial = trial(LiveAnswer::BudgetTooShort { change_s: 41.26, needed: Nanos(7_200_000_000_000) });
        let nodes = |list: &str| model::values::id_set::NodeSet::parse_list(list).expect("a list of nodes");
        trial.placements[1].memory = Some(LiveMemoryNodes { nodes: nodes("0"), interleaved: false });
        trial.placements[2].memory = Some(LiveMemoryNodes { nodes: nodes("0-1"), interleaved: true });
        for (period, (mib, seconds)) in trial.periods.iter_mut().zip([(512, 4.0), (0, 0.1), (700, 5.0)]) {
            let change = PlacementChange { threads: 1, seconds, memory: Some(Bytes(mib << 20)) };
            period.evidence.change = Some(change);
        }
        let style = TextStyle { width: 120, ascii: false, colour: false };
        insta::assert_snapshot!("live_trial_memory", live_trial(&trial, &style));
    }

    #[test]
    fn interrupts_of_placements_are_rendered() {
        let mut trial = trial(LiveAnswer::Unfinished);
        let route = |list: &str| Route {
            device: "eth0".into(),
            number: 38,
            name: "eth0-rx-0".into(),
            cpus: CpuSet::parse_list(list).expect("a list of CPUs"),
        };
        for (placement, list) in trial.placements.iter_mut().zip(["", "0-5", "6"]) {
            placement.interrupts = vec![route(list)];
        }
        for (period, arrived) in trial.periods.iter_mut().zip([0, 16_000, 24_000, 8]) {
            period.evidence.interrupts = Some(InterruptUse { arrived, elsewhere: 0 });
        }
        let style = TextStyle { width: 120, ascii: false, colour: false };
        insta::assert_snapshot!("live_trial_interrupts", live_trial(&trial, &style));
        trial.periods.iter_mut().for_each(|period| period.evidence.interrupts = Some(InterruptUse::default()));
        let idle = notes(&trial).join("\n");
        assert!(idle.contains("No interrupt of eth0 arrived, so that its CPUs make no difference"), "{idle}");
        assert_eq!(trial.placements[2].numactl(), "-C 6-11 irq:6");
    }

    #[test]
    fn fresh_pairs_without_an_answer_are_provisional() {
        let with = |complete, change| {
            let fresh_pairs = Some(FreshPairs { arm: ArmId(1), complete, planned: 40, change });
            so_far(&LiveTrial { fresh_pairs, ..trial(LiveAnswer::Unfinished) })
        };
        insta::assert_snapshot!(
            "live_trial_so_far",
            [with(12, None), with(24, Some(change(0.031)))].map(Option::unwrap_or_default).join("\n")
        );
        assert_eq!(so_far(&trial(LiveAnswer::Unfinished)), None);
    }

    #[test]
    fn violated_guards_are_rendered() {
        let violation = |arm, value: Result<f64, &str>| GuardViolation {
            at_s: 31.04,
            arm: ArmId(arm),
            phase: LivePhase::Race,
            guard: "command:./p99<20".into(),
            value: value.ok(),
            error: value.err().map(Into::into),
            restored_after_s: (arm > 0).then_some(0.31),
        };
        let mut trial = trial(LiveAnswer::Ended(Outcome::NoAlternatives));
        (trial.quantity, trial.unit) = ("CPU time per unit of work".into(), " s".into());
        trial.dropped.push(Dropped { arm: ArmId(1), reason: DropReason::Withdrawn, after_blocks: 11 });
        trial.violations = vec![violation(1, Ok(31.25)), violation(2, Err("no answer")), violation(0, Ok(20.0))];
        let style = TextStyle { width: 100, ascii: false, colour: false };
        insta::assert_snapshot!("live_trial_violations", live_trial(&trial, &style));
    }

    #[test]
    fn every_answer_has_a_sentence() {
        let carry_over = CarryOver { change: -0.02, interval: change(0.0).interval, periods: 40 };
        let reason = NoClaim::TooFewBlocks { complete: 3, needed: 20 };
        let (arm, change) = (ArmId(1), change(-0.002));
        let answers = [
            LiveAnswer::Ended(Outcome::Loss { arm, change }),
            LiveAnswer::Ended(Outcome::NoDifferenceSeen { arm, change, excluded_gain: 0.01 }),
            LiveAnswer::Ended(Outcome::NoAlternatives),
            LiveAnswer::Ended(Outcome::NoClaim { reason }),
            LiveAnswer::CarriedOver { arm, carry_over },
            LiveAnswer::NotSettled { longest_period_s: 8.0 },
            LiveAnswer::Stopped { reason: "it was interrupted".into() },
            LiveAnswer::Unfinished,
        ];
        let first = |answer| text(answer).split("\n\n").next().unwrap_or_default().to_owned();
        let sentences: Vec<String> = answers.into_iter().map(first).collect();
        insta::assert_snapshot!("live_trial_answers", sentences.join("\n"));
    }
}
