//! A survey as text, Markdown and the sentences of the page: outliers, changes, and associated facts.

mod grids;
mod text;

use model::analysis::survey::{MachineClass, Survey};

pub(crate) use grids::{facts_grid, machines_grid, points_grid, tests_grid};
pub(crate) use text::{changes, false_alarm_note, standings};

use crate::claim_text::ClaimText;
use crate::grid::{Grid, markdown_text};
use crate::stamp;
use crate::style::{TextStyle, Tone, clean, paragraph, with_symbol};

pub fn text(survey: &Survey, style: &TextStyle) -> String {
    let stamps = stamp::terminal(&stamp::of(survey.stamp), style);
    let mut parts: Vec<String> = Some(stamps).filter(|stamps| !stamps.is_empty()).into_iter().collect();
    for class in &survey.classes {
        let sentences = sentences(class);
        let sentences: String = sentences.iter().map(|sentence| paragraph(&toned(sentence), style)).collect();
        let tables: String = tables(class)
            .iter()
            .map(|(title, grid)| {
                format!("\n{}{}", paragraph(&with_symbol(title, Tone::Strong), style), grid.terminal(style))
            })
            .collect();
        parts.push(paragraph(&with_symbol(&heading(class), Tone::Strong), style) + &sentences + &tables);
    }
    parts.push(paragraph(&false_alarm_note(survey), style));
    parts.join("\n")
}

pub fn markdown(survey: &Survey) -> String {
    let stamps = stamp::markdown(&stamp::of(survey.stamp));
    let mut parts: Vec<String> = Some(stamps).filter(|stamps| !stamps.is_empty()).into_iter().collect();
    for class in &survey.classes {
        parts.push(format!("## {}\n", markdown_text(&heading(class))));
        parts.push(sentences(class).iter().map(|sentence| format!("- {}\n", markdown_text(&sentence.text))).collect());
        parts.extend(tables(class).iter().map(|(title, grid)| format!("### {title}\n\n{}", grid.markdown())));
    }
    parts.push(format!("{}\n", markdown_text(&false_alarm_note(survey))));
    parts.join("\n")
}

/// The name of a class and its number of machines.
pub(crate) fn heading(class: &MachineClass) -> String {
    let count = class.machines.len();
    format!("{}: {count} {}", clean(&class.name), if count == 1 { "machine" } else { "machines" })
}

fn sentences(class: &MachineClass) -> Vec<ClaimText> {
    standings(class).into_iter().chain(changes(class)).collect()
}

fn tables(class: &MachineClass) -> Vec<(&'static str, Grid)> {
    let mut tables = vec![("Machines", machines_grid(class))];
    for (title, facts) in [
        ("Facts of machines worse than their class", &class.facts_of_worse),
        ("Facts of machines better than their class", &class.facts_of_better),
    ] {
        if !facts.is_empty() {
            tables.push((title, facts_grid(facts, ["of these", "of the others"])));
        }
    }
    tables
}

fn toned(sentence: &ClaimText) -> String {
    let tone = match sentence.better {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    };
    with_symbol(&sentence.text, tone)
}
