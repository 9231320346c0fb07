//! Parts of pages that only a server sends: the navigation, the progress of a run, the list of runs, the form for
//! comparisons, and error pages. Must not depend on the server's URLs and events, which it passes in.

use askama::Template;
use model::analysis::live::LiveSummary;
use model::values::record::{ImportedTable, RunSummary, VerdictCounts};

use super::{SCRIPT, STYLE, unbroken};
use crate::number::date;
use crate::stamp;
use crate::style::clean;
use crate::table::{ending, live_ending};

/// The last script of pages that show a run in progress: updates the page.
pub const LIVE_SCRIPT: &str = include_str!("../../templates/live.js");

/// The header of a page that a server sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedHeader {
    /// The URL of the same content as JSON.
    pub json: Option<String>,
    /// The URL of the event stream, if the content may change.
    pub events: Option<String>,
    /// The progress as text. Empty if it does not apply.
    pub standing: String,
}

/// A run in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLine<'a> {
    pub summary: &'a RunSummary,
    /// Expected total number of trials. `None` if the run has ended.
    pub expected: Option<usize>,
    /// Its result in one sentence.
    pub answer: Option<String>,
}

#[derive(Clone, Debug)]
pub struct RunsPage<'a> {
    /// In order from newest to oldest.
    pub runs: Vec<RunLine<'a>>,
    pub tables: Vec<&'a ImportedTable>,
    /// Experiments on running services, the newest first.
    pub live: Vec<&'a LiveSummary>,
    pub runs_all: usize,
    /// The number of the page with newer runs, and of the page with older ones.
    pub newer: Option<usize>,
    pub older: Option<usize>,
    pub served: ServedHeader,
    /// The program and its version.
    pub generated_by: String,
}

/// The form for a comparison with its current values.
#[derive(Clone, Debug, Default)]
pub struct CompareForm {
    /// The runs to choose from, newest first: id, label, and whether it is selected.
    pub runs: Vec<(String, String, bool)>,
    /// The meaning of the columns; empty for the default of the experiment.
    pub by: String,
    /// The column that others are compared with; empty for the default.
    pub baseline: String,
    /// Why the requested comparison is impossible.
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
        live: page.live.iter().map(|live| live_row(live)).collect(),
        runs_all: page.runs_all,
        newer: page.newer,
        older: page.older,
        served: &page.served,
        script_live: LIVE_SCRIPT,
        style: STYLE,
        script: SCRIPT,
        generated_by: clean(&page.generated_by),
    }
    .render()
    .expect("the template renders")
}

/// An error page: the status, the error and a hint.
pub fn error_page(title: &str, what: &str, hint: Option<&str>, home: bool) -> String {
    let (title, what, hint) = (clean(title), clean(what), hint.map(clean));
    ErrorPage { title, what, hint, home, style: STYLE }.render().expect("the template renders")
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
    live: Vec<LiveRow>,
    runs_all: usize,
    newer: Option<usize>,
    older: Option<usize>,
    served: &'a ServedHeader,
    script_live: &'static str,
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

/// An experiment on a running service.
struct LiveRow {
    id: String,
    subject: String,
    /// Metric, periods and end.
    words: String,
}

#[derive(Template)]
#[template(path = "error_page.html")]
struct ErrorPage {
    title: String,
    what: String,
    hint: Option<String>,
    home: bool,
    style: &'static str,
}

fn row(line: &RunLine<'_>) -> RunRow {
    let summary = line.summary;
    let (state, _) = ending(summary.ended);
    RunRow {
        id: clean(&summary.id.0),
        experiment: clean(&summary.experiment),
        simulated: !summary.stamp().is_empty(),
        machine: clean(&stamp::machine(summary)),
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

fn live_row(live: &LiveSummary) -> LiveRow {
    let (ended, _) = live_ending(live);
    let words = format!("{}, {} periods, {ended}, {}", clean(&live.metric), live.periods, date(live.started_unix_ms));
    LiveRow { id: clean(&live.id.0), subject: clean(&live.subject), words }
}

/// `57 valid, 1 suspect`.
fn worth(verdicts: VerdictCounts) -> String {
    let VerdictCounts { valid, suspect, invalid } = verdicts;
    let counts =
        [(valid, "valid"), (suspect, "suspect"), (invalid, "invalid")].into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    if words.is_empty() { "none yet".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_urls_are_encoded_as_one_value() {
        assert_eq!(query("table", "ryzen-2600"), "?table=ryzen-2600");
        assert_eq!(query("table", "a b&by=x#ü"), "?table=a%20b%26by%3Dx%23%C3%BC");
    }

    #[test]
    fn error_messages_are_escaped() {
        let page = error_page("404 Not Found", "no run '<b>'", None, true);
        assert!(!page.contains("<b>") && page.contains("&#60;b&#62;"), "{page}");
    }
}
