//! The placement of a running service, as text.

use model::analysis::live::{AuditFinding, LiveAudit, Rights, ThreadKind};
use model::values::shell::quote_argv;

use crate::grid::{CellKind, Grid, GridCell};
use crate::number::percent_size;
use crate::residency::by_node_text;
use crate::style::{TextStyle, Tone, clean, paragraph, with_symbol};

/// Maximum number of rows; JSON has all.
const ROWS_MAX: usize = 20;

/// Findings, the command that applies what may help, threads, memory by node, and missing rights. `options` name the
/// service.
pub fn audit(subject: &str, options: &[String], audit: &LiveAudit, style: &TextStyle) -> String {
    let heading = format!(
        "{}: {} % of one CPU over {:.1} s; memory {}",
        clean(subject),
        percent_size(audit.cpu_percent),
        audit.seconds,
        by_node_text(&audit.memory.total)
    );
    let mut out = paragraph(&with_symbol(&heading, Tone::Strong), style) + "\n";
    if audit.findings.is_empty() {
        out += &paragraph(
            &with_symbol("Nothing disagrees: its threads are near its memory and rarely wait.", Tone::Good),
            style,
        );
    }
    for finding in &audit.findings {
        out += &paragraph(&with_symbol(&sentence(finding), Tone::Warning), style);
    }
    if let Some(placement) = audit.findings.iter().find_map(AuditFinding::try_placement) {
        out += &paragraph(&next_step(options, placement), style);
    }
    out += &format!("\n{}", threads_grid(&audit.threads).terminal(style));
    let notes = notes(audit);
    if !notes.is_empty() {
        out += "\n";
        out += &notes.iter().map(|note| paragraph(note, style)).collect::<String>();
    }
    out
}

/// `To move its threads and memory: nearfar live apply --unit redis --placement node:1. …`
fn next_step(options: &[String], placement: &str) -> String {
    let service = clean(&quote_argv(options));
    format!(
        "To move its threads and memory: nearfar live apply {service} --placement {placement}. To undo that: nearfar live undo {service}"
    )
}

fn sentence(finding: &AuditFinding) -> String {
    match finding {
        AuditFinding::Throttled { percent } => {
            format!(
                "A CPU quota stopped it for {} % of the time of one CPU; no placement helps against that",
                percent_size(*percent)
            )
        }
        AuditFinding::WaitsWhileCpusIdle { wait_percent, idle, are_allowed } => {
            let may = if *are_allowed { "on which they may run" } else { "on which they may not run" };
            let wait = percent_size(*wait_percent);
            let verb = if idle.len() == 1 { "was" } else { "were" };
            let idle = idle.described();
            format!("Its threads waited for a CPU for {wait} % of the time, together, while {idle} {verb} idle, {may}")
        }
        AuditFinding::OtherPrograms { cpus, percent } => format!(
            "Other programs used {} % of {}, on which it ran: look at them before its placement",
            percent_size(*percent),
            cpus.described()
        ),
        AuditFinding::RemoteMemory { percent, nodes: ran_on, try_placement } => format!(
            "{} % of its memory is remote for its threads, which ran on {}; {try_placement} may help",
            percent_size(*percent),
            ran_on.described()
        ),
        AuditFinding::SpreadOverNodes { cpu_percent, nodes: ran_on, try_placement } => format!(
            "It ran on {}, although one node has enough CPUs for the {} % of one CPU that it used; {try_placement} may help",
            ran_on.described(),
            percent_size(*cpu_percent)
        ),
        AuditFinding::PinnedThreads { threads, cpus } => {
            let (noun, verb) = if *threads == 1 { ("thread", "is") } else { ("threads", "are") };
            format!(
                "{threads} {noun} {verb} bound to {}, fewer than its other threads may use; a placement must keep that",
                cpus.described()
            )
        }
        AuditFinding::MemoryOfOtherNodes { allowed_nodes, nodes: of_cpus } => {
            format!(
                "Its memory may only be on {}, but its CPUs are on {}",
                allowed_nodes.described(),
                of_cpus.described()
            )
        }
    }
}

/// One row per name and allowed CPUs.
fn threads_grid(threads: &[ThreadKind]) -> Grid {
    let mut grid = Grid::new(&["threads", "name", "may run on", "ran on CPUs", "CPU time", "waited"])
        .numbers(&["threads", "CPU time", "waited"])
        .holding(CellKind::Text, &["may run on", "ran on CPUs"]);
    for kind in threads.iter().take(ROWS_MAX) {
        grid.rows.push(vec![
            GridCell::plain(&kind.threads.to_string()),
            GridCell::plain(&kind.name),
            GridCell::plain(&kind.allowed.to_string()),
            GridCell::plain(&kind.cpus.to_string()),
            GridCell::plain(&format!("{:.1} %", kind.cpu_percent)),
            GridCell::plain(&format!("{:.1} %", kind.wait_percent)),
        ]);
    }
    grid
}

fn notes(audit: &LiveAudit) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(more) = audit.threads.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        notes.push(format!("{more} more kinds of threads; --format json lists them"));
    }
    if audit.short_lived > 0 {
        notes.push(format!("{} threads began or ended meanwhile and are not counted", audit.short_lived));
    }
    notes.extend(missing_rights(audit.rights));
    let unseen = audit.memory.unseen.iter();
    notes.extend(unseen.map(|unseen| format!("not inspected: {}: {}", clean(&unseen.what), clean(&unseen.reason))));
    notes
}

fn missing_rights(rights: Rights) -> Option<String> {
    match (rights.affinity, rights.pages) {
        (true, true) => None,
        (true, false) => {
            Some("to move pages that it shares with other processes, CAP_SYS_NICE or root is required".into())
        }
        (false, _) => Some("to change its placement, CAP_SYS_NICE or root is required".into()),
    }
}

#[cfg(test)]
mod tests {
    use model::analysis::residency::{NodeBytes, Residency, SamplingInterval, Unseen};
    use model::values::id_set::{CpuSet, NodeId, NodeSet};
    use model::values::units::Bytes;

    use super::*;

    fn cpu_set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    fn node_set(list: &str) -> NodeSet {
        NodeSet::parse_list(list).unwrap()
    }

    /// An audit with these findings.
    fn with(findings: Vec<AuditFinding>) -> String {
        let unseen = vec![Unseen { what: "process 9".into(), reason: "it ended".into() }];
        let by_node = [(NodeId(0), Bytes(3 << 30)), (NodeId(1), Bytes(1 << 30))].into();
        let total = NodeBytes { bytes: Bytes(4 << 30), by_node, ..NodeBytes::default() };
        let memory = Residency { total, ..Residency::of(&[], SamplingInterval::for_pages(1), Bytes(4096), unseen) };
        let kind = |name: &str, threads, cpu_percent| ThreadKind {
            name: name.into(),
            threads,
            allowed: cpu_set("0-11"),
            cpus: cpu_set("0,3-5"),
            cpu_percent,
            wait_percent: 2.25,
        };
        let audit = LiveAudit {
            seconds: 2.0,
            threads: vec![kind("worker", 8, 412.0), kind("log", 1, 0.04)],
            short_lived: 3,
            cpu_percent: 412.04,
            memory,
            findings,
            rights: Rights { affinity: false, pages: false },
        };
        let options = ["--unit", "db"].map(str::to_owned);
        super::audit("unit db, 2 processes", &options, &audit, &TextStyle { width: 100, ascii: false, colour: false })
    }

    #[test]
    fn audit_is_rendered() {
        let findings = vec![
            AuditFinding::Throttled { percent: 25.0 },
            AuditFinding::WaitsWhileCpusIdle { wait_percent: 60.0, idle: cpu_set("6-11"), are_allowed: true },
            AuditFinding::WaitsWhileCpusIdle { wait_percent: 8.0, idle: cpu_set("12-23"), are_allowed: false },
            AuditFinding::OtherPrograms { cpus: cpu_set("0,3-5"), percent: 48.2 },
            AuditFinding::RemoteMemory { percent: 22.0, nodes: node_set("0"), try_placement: "node:0".into() },
            AuditFinding::SpreadOverNodes {
                cpu_percent: 412.0,
                nodes: node_set("0-1"),
                try_placement: "node:1".into(),
            },
            AuditFinding::PinnedThreads { threads: 1, cpus: cpu_set("2") },
            AuditFinding::MemoryOfOtherNodes { allowed_nodes: node_set("1"), nodes: node_set("0") },
        ];
        insta::assert_snapshot!("live_audit", with(findings));
        assert!(with(Vec::new()).contains("Nothing disagrees"));
    }
}
