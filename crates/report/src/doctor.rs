//! A diagnosis as text: each problem, its effect, and the fix.

use model::analysis::doctor::{Diagnosis, Problem, ProblemGroup};

use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// Longer lines are hard to read.
const WIDTH_MAX: usize = 100;
const INDENT: &str = "  ";
const DEEPER: &str = "      ";

/// The problems by group, then the checks that passed.
pub fn diagnosis(diagnosis: &Diagnosis, style: &TextStyle) -> String {
    let mut lines = Vec::new();
    for (group, heading) in [
        (ProblemGroup::Disturbs, "Disturbs measurements on this machine"),
        (ProblemGroup::CannotMeasure, "Cannot be measured or set"),
        (ProblemGroup::ExpandRequirement, "Missing for nearfar expand"),
    ] {
        let complaints: Vec<&Problem> =
            diagnosis.problems.iter().filter(|complaint| complaint.group == group).collect();
        let none = if complaints.is_empty() { ": nothing found" } else { "" };
        lines.extend(indented(&format!("{heading}{none}"), Tone::Strong, "", style));
        complaints.into_iter().for_each(|complaint| lines.extend(paragraph(complaint, style)));
        lines.push(String::new());
    }
    if !diagnosis.ok.is_empty() {
        let well = format!("Checked, no problem: {}", diagnosis.ok.join(", "));
        lines.extend(indented(&well, Tone::Quiet, "", style));
    }
    finished(&lines.join("\n"), style)
}

fn paragraph(complaint: &Problem, style: &TextStyle) -> Vec<String> {
    let found = format!("{}: {}", complaint.key, clean(&complaint.found));
    let tone = if complaint.group == ProblemGroup::Disturbs { Tone::Warning } else { Tone::Plain };
    let mut lines = indented(&found, tone, INDENT, style);
    lines.extend(indented(&format!("effect: {}", complaint.effect), Tone::Quiet, DEEPER, style));
    lines.extend(indented(&format!("fix: {}", complaint.fix), Tone::Quiet, DEEPER, style));
    // Never wrapped, so that it can be copied.
    lines.extend(complaint.command.map(|command| format!("{DEEPER}$ {command}")));
    lines
}

fn indented(text: &str, tone: Tone, indent: &str, style: &TextStyle) -> Vec<String> {
    let space = style.width.min(WIDTH_MAX).saturating_sub(indent.len());
    wrapped(&with_symbol(text, tone), space, space).into_iter().map(|line| format!("{indent}{line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(key: &'static str, group: ProblemGroup, command: Option<&'static str>) -> Problem {
        Problem { key, group, found: "a\u{1b}[31m fact".into(), effect: "an effect", fix: "a fix", command }
    }

    #[test]
    fn diagnosis_lists_problems_by_group_then_passed_checks() {
        let sick = Diagnosis {
            problems: vec![complaint("thp", ProblemGroup::Disturbs, Some("nearfar restore"))],
            ok: vec!["load", "smt"],
        };
        let style = TextStyle { width: 40, ascii: false, colour: false };
        let expected = "\
Disturbs measurements on this machine
  thp: a\u{fffd}[31m fact
      effect: an effect
      fix: a fix
      $ nearfar restore

Cannot be measured or set: nothing found

Missing for nearfar expand: nothing
found

Checked, no problem: load, smt";
        assert_eq!(diagnosis(&sick, &style), expected);
        let coloured = diagnosis(&sick, &TextStyle { colour: true, ..style });
        assert!(coloured.contains("\u{1b}[") && coloured.contains("$ nearfar restore"));
    }
}
