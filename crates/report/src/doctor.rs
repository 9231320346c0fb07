//! A diagnosis as text: each problem, its effect, and the fix.

use model::analysis::doctor::{Diagnosis, Problem, ProblemGroup};

use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// Longer lines are hard to read.
const WIDTH_MAX: usize = 100;
const INDENT: &str = "  ";
const DEEPER: &str = "      ";

/// The problems by group, then the checks that passed.
pub fn diagnosis(diagnosis: &Diagnosis, look: &TextStyle) -> String {
    let mut lines = Vec::new();
    for (group, heading) in [
        (ProblemGroup::Disturbs, "Disturbs measurements on this machine"),
        (ProblemGroup::CannotMeasure, "Cannot be measured or set"),
        (ProblemGroup::ExpandRequirement, "Missing for nearfar expand"),
    ] {
        let complaints: Vec<&Problem> =
            diagnosis.problems.iter().filter(|complaint| complaint.group == group).collect();
        let none = if complaints.is_empty() { ": nothing found" } else { "" };
        lines.extend(indented(&format!("{heading}{none}"), Tone::Strong, "", look));
        complaints.into_iter().for_each(|complaint| lines.extend(paragraph(complaint, look)));
        lines.push(String::new());
    }
    if !diagnosis.ok.is_empty() {
        let well = format!("Checked, no problem: {}", diagnosis.ok.join(", "));
        lines.extend(indented(&well, Tone::Quiet, "", look));
    }
    finished(&lines.join("\n"), look)
}

fn paragraph(complaint: &Problem, look: &TextStyle) -> Vec<String> {
    let found = format!("{}: {}", complaint.key, clean(&complaint.found));
    let tone = if complaint.group == ProblemGroup::Disturbs { Tone::Warning } else { Tone::Plain };
    let mut lines = indented(&found, tone, INDENT, look);
    lines.extend(indented(&format!("effect: {}", complaint.effect), Tone::Quiet, DEEPER, look));
    lines.extend(indented(&format!("fix: {}", complaint.fix), Tone::Quiet, DEEPER, look));
    // Never wrapped, so that it can be copied.
    lines.extend(complaint.command.map(|command| format!("{DEEPER}$ {command}")));
    lines
}

fn indented(text: &str, tone: Tone, indent: &str, look: &TextStyle) -> Vec<String> {
    let room = look.width.min(WIDTH_MAX).saturating_sub(indent.len());
    wrapped(&with_symbol(text, tone), room, room).into_iter().map(|line| format!("{indent}{line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(key: &'static str, group: ProblemGroup, command: Option<&'static str>) -> Problem {
        Problem { key, group, found: "a\u{1b}[31m fact".into(), effect: "an effect", fix: "a fix", command }
    }

    #[test]
    fn a_diagnosis_is_its_groups_and_the_rest() {
        let sick = Diagnosis {
            problems: vec![complaint("thp", ProblemGroup::Disturbs, Some("nearfar restore"))],
            ok: vec!["load", "smt"],
        };
        let look = TextStyle { width: 40, ascii: false, colour: false };
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
        assert_eq!(diagnosis(&sick, &look), expected);
        let coloured = diagnosis(&sick, &TextStyle { colour: true, ..look });
        assert!(coloured.contains("\u{1b}[") && coloured.contains("$ nearfar restore"));
    }
}
