//! What pages have beyond a report when a server gives them out: the way to other pages, how far a run is, the list of runs,
//! the form that asks for a comparison, and what is said instead of a page. Where a page is and when it has news is the
//! server's to know.

use askama::Template;
use model::analysis::finding::VerdictCounts;
use model::values::record::{ImportedTable, RunSummary};

use super::{SCRIPT, STYLE, unbroken};
use crate::number::date;
use crate::style::clean;
use crate::table::ending;

/// Has a page that shows something under way follow it; the last script of such pages.
pub const LIVE_SCRIPT: &str = include_str!("../../templates/live.js");

/// Above a page that a server gives out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedHeader {
    /// Where the same is JSON.
    pub json: Option<String>,
    /// Where news come from, while there may be any.
    pub events: Option<String>,
    /// How far it is, in words; empty where that is no question.
    pub standing: String,
}

/// One run in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLine<'a> {
    pub summary: &'a RunSummary,
    /// Trials expected in all; none of a run that has ended.
    pub expected: Option<usize>,
    /// What it came to, in words.
    pub answer: Option<String>,
}

#[derive(Clone, Debug)]
pub struct RunsPage<'a> {
    /// The newest first.
    pub runs: Vec<RunLine<'a>>,
    pub tables: Vec<&'a ImportedTable>,
    pub runs_all: usize,
    /// The number of the page with newer ones, and of the one with older ones.
    pub newer: Option<usize>,
    pub older: Option<usize>,
    pub served: ServedHeader,
    /// The program and its version.
    pub generated_by: String,
}

/// The form that asks for a comparison, filled in.
#[derive(Clone, Debug, Default)]
pub struct CompareForm {
    /// The runs to choose from, the newest first: id, words, and whether it is chosen.
    pub runs: Vec<(String, String, bool)>,
    /// What the columns are; empty for what the experiment says.
    pub by: String,
    /// The column that others are compared with; empty for the usual one.
    pub baseline: String,
    /// What was asked cannot be compared, and why.
    pub refused: Option<String>,
}

/// The list of runs as a page.
pub fn runs(page: &RunsPage<'_>) -> String {
    let rows = page.runs.iter().map(row).collect();
    let tables = page.tables.iter().map(|table| {
        let words = format!("{} columns, {} rows", table.columns.len(), table.rows.len());
        (clean(&table.name), query("table", &table.name), words)
    });
    Runs {
        rows,
        tables: tables.collect(),
        runs_all: page.runs_all,
        newer: page.newer,
        older: page.older,
        served: &page.served,
        live: LIVE_SCRIPT,
        style: STYLE,
        script: SCRIPT,
        generated_by: clean(&page.generated_by),
    }
    .render()
    .expect("a template of values that are there renders")
}

/// What is said instead of a page: the status in words, what is wrong, and the next step.
pub fn refusal(title: &str, what: &str, hint: Option<&str>, home: bool) -> String {
    let (title, what, hint) = (clean(title), clean(what), hint.map(clean));
    ErrorPage { title, what, hint, home, style: STYLE }.render().expect("a template of values that are there renders")
}

/// `?table=two%20words`.
pub fn query(key: &str, value: &str) -> String {
    let escaped = value.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("?{key}={}", escaped.collect::<String>())
}

#[derive(Template)]
#[template(path = "runs.html")]
struct Runs<'a> {
    rows: Vec<RunRow>,
    tables: Vec<(String, String, String)>,
    runs_all: usize,
    newer: Option<usize>,
    older: Option<usize>,
    served: &'a ServedHeader,
    live: &'static str,
    style: &'static str,
    script: &'static str,
    generated_by: String,
}

struct RunRow {
    id: String,
    experiment: String,
    machine: String,
    simulated: bool,
    begun: String,
    begun_unix_ms: u64,
    trials: u32,
    done: String,
    state: &'static str,
    unfinished: bool,
    worth: String,
    answer: String,
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct ErrorPage {
    title: String,
    what: String,
    hint: Option<String>,
    home: bool,
    style: &'static str,
}

fn row(line: &RunLine<'_>) -> RunRow {
    let summary = line.summary;
    let simulated = summary.simulated.as_ref().map(|simulated| format!("simulated {simulated}"));
    let (state, _) = ending(summary.ended);
    RunRow {
        id: clean(&summary.id.0),
        experiment: clean(&summary.experiment),
        simulated: simulated.is_some(),
        machine: clean(&simulated.or_else(|| summary.host.clone()).unwrap_or("not known".into())),
        begun: date(summary.started_unix_ms),
        begun_unix_ms: summary.started_unix_ms,
        trials: summary.trials,
        done: match line.expected {
            Some(expected) => format!("{} of at most {expected}", summary.trials),
            None => summary.trials.to_string(),
        },
        state,
        unfinished: summary.ended.is_none(),
        worth: worth(summary.verdicts),
        answer: line.answer.as_deref().map(|answer| unbroken(&clean(answer))).unwrap_or_default(),
    }
}

/// `57 valid, 1 suspect`.
fn worth(verdicts: VerdictCounts) -> String {
    let VerdictCounts { valid, suspect, invalid } = verdicts;
    let counts =
        [(valid, "valid"), (suspect, "suspect"), (invalid, "invalid")].into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    if words.is_empty() { "nothing yet".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_addresses_cannot_become_more_than_a_value() {
        assert_eq!(query("table", "ryzen-2600"), "?table=ryzen-2600");
        assert_eq!(query("table", "a b&by=x#ü"), "?table=a%20b%26by%3Dx%23%C3%BC");
    }

    #[test]
    fn what_is_said_stays_text() {
        let page = refusal("404 Not Found", "there is no run '<b>'", None, true);
        assert!(!page.contains("<b>") && page.contains("&#60;b&#62;"), "{page}");
    }
}
