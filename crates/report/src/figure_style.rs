//! The style of standalone figures: a theme, a heading and a line with the source of the values. Decides colours and
//! wording only.

use model::values::calendar::utc_date;
use model::values::record::RunRecord;

use crate::style::clean;

/// Colours of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Light or dark as the reader's system, by a media query. Programs without media queries show it light.
    #[default]
    Auto,
    Light,
    Dark,
}

/// The theme and the source line of a standalone figure.
#[derive(Clone, Debug, Default)]
pub struct FigureStyle {
    pub theme: Theme,
    /// Machines, kernels, dates and version behind the values.
    pub source: String,
}

/// The colours of a theme: literal ones, which every program understands, or CSS variables.
pub(crate) struct Palette {
    pub(crate) ink: &'static str,
    pub(crate) quiet: &'static str,
    pub(crate) line: &'static str,
    pub(crate) paper: &'static str,
    pub(crate) good: &'static str,
    pub(crate) bad: &'static str,
    /// Whether the variables must be defined, light and dark.
    pub(crate) is_auto: bool,
}

pub(crate) const LIGHT: Palette = Palette {
    ink: "#1d2329",
    quiet: "#5a6672",
    line: "#d5dbe1",
    paper: "#fff",
    good: "#00664a",
    bad: "#a53b00",
    is_auto: false,
};

pub(crate) const DARK: Palette = Palette {
    ink: "#e4e8ec",
    quiet: "#9aa6b2",
    line: "#36404a",
    paper: "#161b20",
    good: "#4cc9a0",
    bad: "#f39a63",
    is_auto: false,
};

const AUTO: Palette = Palette {
    ink: "var(--ink)",
    quiet: "var(--quiet)",
    line: "var(--line)",
    paper: "var(--paper)",
    good: "var(--good)",
    bad: "var(--bad)",
    is_auto: true,
};

impl Theme {
    pub(crate) fn palette(self) -> Palette {
        match self {
            Self::Auto => AUTO,
            Self::Light => LIGHT,
            Self::Dark => DARK,
        }
    }
}

impl Palette {
    /// The definitions of the variables: `--ink:#fff;…`.
    pub(crate) fn variables(&self) -> String {
        let Self { ink, quiet, line, paper, good, bad, .. } = self;
        format!("--ink:{ink};--quiet:{quiet};--line:{line};--paper:{paper};--good:{good};--bad:{bad};")
    }
}

/// `Ryzen 5 2600, Linux 6.1.0, 2026-11-27, nearfar 0.1.0`: the source of the values of runs.
pub fn source<'a>(records: impl IntoIterator<Item = &'a RunRecord>, tables: &[String]) -> String {
    let mut parts: [Vec<String>; 4] = Default::default();
    for record in records {
        let model = || record.machine.settings.get("cpu.model").map(str::to_string);
        let simulated = record.simulated.as_ref().map(|machine| format!("simulated {machine}"));
        let machine = simulated.or_else(|| record.host.clone()).or_else(model).unwrap_or("unknown machine".into());
        let kernel = record.machine.settings.get("kernel.release").map(|release| format!("Linux {release}"));
        let facts = [
            Some(machine),
            kernel,
            Some(utc_date(record.started_unix_ms)),
            Some(format!("nearfar {}", record.program)),
        ];
        for (part, fact) in parts.iter_mut().zip(facts) {
            part.extend(fact.filter(|fact| !part.contains(fact)));
        }
    }
    let tables = tables.iter().map(|table| format!("imported table {table}"));
    let listed = parts.iter().map(|part| summary(part)).filter(|part| !part.is_empty()).chain(tables);
    clean(&listed.collect::<Vec<_>>().join(", "))
}

/// All of a few values, or the first and the number of others.
fn summary(values: &[String]) -> String {
    const LISTED_MAX: usize = 3;
    match values {
        [first, rest @ ..] if rest.len() >= LISTED_MAX => format!("{first} and {} others", rest.len()),
        values => values.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_themes_need_no_variables() {
        for theme in [Theme::Light, Theme::Dark] {
            assert!(!theme.palette().variables().contains("var("), "{theme:?}");
        }
        assert!(Theme::Auto.palette().is_auto);
    }

    #[test]
    fn many_machines_are_counted() {
        let names = |count: usize| summary(&(1..=count).map(|index| format!("m{index}")).collect::<Vec<_>>());
        assert_eq!([names(0), names(2), names(5)], ["", "m1, m2", "m1 and 4 others"]);
    }
}
