//! The result of a gate as text, as Markdown for a pull request, and as `JUnit` XML for a CI server.

use model::analysis::gate::{GateCommand, GateResult, GateVerdict, PAIRS_MAX, StoredBaseline};
use model::values::record::RunRecord;

use crate::grid::{Grid, GridCell, markdown_text};
use crate::number::{Digits, percent_interval, percent_size};
use crate::stamp;
use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// For the terminal: the verdict, how it was reached, and the two commands.
pub fn text(record: &RunRecord, result: &GateResult, style: &TextStyle) -> String {
    let line = |text: &str, tone| {
        let lines = wrapped(&with_symbol(text, tone), style.width, style.width);
        lines.iter().map(|line| format!("{}\n", finished(line, style))).collect::<String>()
    };
    let mut out = stamp::terminal(&stamp::of_run(record), style);
    out += &line(&headline(result), tone(result.verdict));
    for sentence in sentences(result) {
        out += &line(&sentence, Tone::Plain);
    }
    format!("{out}\n{}", grid(result).terminal(style))
}

/// Markdown for the comment or the summary of a pull request.
pub fn markdown(record: &RunRecord, result: &GateResult) -> String {
    let sentences: String =
        sentences(result).iter().map(|sentence| format!("\n{}\n", markdown_text(sentence))).collect();
    let (headline, table) = (markdown_text(&headline(result)), grid(result).markdown());
    format!("{}**{headline}**\n{sentences}\n{table}", stamp::markdown(&stamp::of_run(record)))
}

/// `JUnit` XML with one test case: a failure if the candidate is slower than allowed, an error if the commands have no
/// verdict, and skipped if it is undecided.
pub fn junit(record: &RunRecord, result: &GateResult) -> String {
    let count = |verdict| u8::from(result.verdict == verdict);
    let message = xml(&headline(result));
    let details = xml(&[stamp::of_run(record), sentences(result)].concat().join("\n"));
    let outcome = match result.verdict {
        GateVerdict::Passed => String::new(),
        GateVerdict::Failed => format!("    <failure message=\"{message}\">{details}</failure>\n"),
        GateVerdict::Invalid => format!("    <error message=\"{message}\">{details}</error>\n"),
        GateVerdict::Undecided => format!("    <skipped message=\"{message}\"/>\n"),
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"nearfar gate\" tests=\"1\" failures=\"{}\" \
         errors=\"{}\" skipped=\"{}\">\n  <testcase classname=\"nearfar gate\" name=\"{}\">\n{outcome}    \
         <system-out>{message}\n{details}</system-out>\n  </testcase>\n</testsuite>\n",
        count(GateVerdict::Failed),
        count(GateVerdict::Invalid),
        count(GateVerdict::Undecided),
        xml(&clean(&result.candidate.name)),
    )
}

fn tone(verdict: GateVerdict) -> Tone {
    match verdict {
        GateVerdict::Passed => Tone::Good,
        GateVerdict::Failed | GateVerdict::Invalid => Tone::Bad,
        GateVerdict::Undecided => Tone::Warning,
    }
}

fn headline(result: &GateResult) -> String {
    let GateResult { baseline, candidate, max_slower_percent: allowed, .. } = result;
    let allowed = format!("{} %", percent_size(*allowed));
    let change = change(result);
    match result.verdict {
        GateVerdict::Passed => format!("passed: {change}; {allowed} is allowed"),
        GateVerdict::Failed => format!("failed: {change}; {allowed} is allowed"),
        GateVerdict::Undecided => format!("undecided within {}: {change}; {allowed} is allowed", result.budget),
        GateVerdict::Invalid => {
            let worst = [baseline, candidate].into_iter().max_by(|one, other| invalid(one).total_cmp(&invalid(other)));
            let worst = worst.expect("there are two");
            let all = worst.verdicts.valid + worst.verdicts.suspect + worst.verdicts.invalid;
            let why = worst.reason.as_ref().map_or(String::new(), |reason| format!(": {}", clean(reason)));
            format!("no verdict: {} of {all} trials of {} are invalid{why}", worst.verdicts.invalid, name(worst))
        }
    }
}

/// Fraction of invalid trials.
fn invalid(command: &GateCommand) -> f64 {
    let verdicts = command.verdicts;
    f64::from(verdicts.invalid) / f64::from((verdicts.valid + verdicts.suspect + verdicts.invalid).max(1))
}

/// `./new is 4.2 % slower than ./old (98 % interval 3.1 to 5.4 % slower)`.
fn change(result: &GateResult) -> String {
    let (new, old) = (name(&result.candidate), name(&result.baseline));
    let Some(slower) = result.slower_percent else {
        let what = if result.stored.is_some() { "no interval for" } else { "no pair of" };
        return format!("{what} {new} and {old}");
    };
    let is_time = result.metric == "wall";
    let [worse, better] = if is_time { ["slower", "faster"] } else { ["worse", "better"] };
    let direction = if slower < 0.0 { better } else { worse };
    let metric = if is_time { String::new() } else { format!(" in {}", clean(&result.metric)) };
    let confidence = Digits::default().percent(100.0 - 200.0 * result.error_rate, 0.0);
    let confidence = confidence.trim_end_matches(".0");
    let interval = match (result.ci_low, result.ci_high) {
        (Some(low), Some(high)) => format!("{confidence} % interval {} % {worse}", percent_interval(low, high, slower)),
        _ => format!("no {confidence} % interval yet"),
    };
    format!("{new} is {} % {direction} than {old}{metric} ({interval})", percent_size(slower))
}

/// Pairs, placement and error rate behind the verdict, and disturbed trials.
fn sentences(result: &GateResult) -> Vec<String> {
    let mut sentences = basis(result);
    sentences.extend(result.pairs_needed.map(|needed| more_pairs(result.pairs, needed)));
    let commands = [&result.baseline, &result.candidate];
    let suspect: u32 = commands.iter().map(|command| command.verdicts.suspect).sum();
    let all: u32 = commands.iter().map(|command| command.verdicts.valid + command.verdicts.suspect).sum();
    if suspect > 0 {
        let reason = commands.iter().find_map(|command| command.reason.as_ref());
        let reason = reason.map_or(String::new(), |reason| format!(": {}", clean(reason)));
        sentences.push(format!("{suspect} of {all} trials were disturbed{reason}"));
    }
    sentences
}

/// States the number of pairs that an undecided gate would need, with two significant digits.
fn more_pairs(pairs: usize, needed: u64) -> String {
    if needed > u64::from(PAIRS_MAX) {
        return format!(
            "more than the maximum of {PAIRS_MAX} pairs would be needed if the difference and the noise stayed the same: \
             allow a larger slowdown, or reduce the noise"
        );
    }
    let unit = 10_u64.pow(needed.max(10).ilog10() - 1);
    let rounded = (needed + unit / 2) / unit * unit;
    format!(
        "about {rounded} pairs would be needed if the difference and the noise stayed the same: {:.1} times as many",
        needed as f64 / pairs as f64
    )
}

/// The trials behind the verdict, and its error rate.
fn basis(result: &GateResult) -> Vec<String> {
    let (rate, placement) = (percent_size(100.0 * result.error_rate), clean(&result.placement));
    let Some(stored) = &result.stored else {
        return vec![format!(
            "{} pairs in random order under placement {placement}; each verdict is false with a probability of at most \
             {rate} %",
            result.pairs
        )];
    };
    let StoredBaseline { trials, candidate_trials, other_runs, .. } = stored;
    let runs = if stored.runs.len() == 1 { "run" } else { "runs" };
    let compared = format!(
        "{candidate_trials} trials under placement {placement} against {trials} trials of {runs} {}",
        clean(&stored.runs.join(", "))
    );
    let known = match result.slower_percent {
        Some(_) => format!(
            "not in turn, so the interval contains the differences between runs, which {other_runs} other runs show; each \
             verdict is false with a probability of at most {rate} % if the machine has not changed"
        ),
        None => {
            "how much runs differ on this machine is not known: repeat the baseline in at least two more runs".into()
        }
    };
    let notes = stored.notes.iter().map(|note| clean(note));
    [format!("{compared}; {known}")].into_iter().chain(notes).collect()
}

fn grid(result: &GateResult) -> Grid {
    let median = format!("median {}", clean(&result.metric));
    let titles = ["command", &median, "valid", "suspect", "invalid"];
    let mut grid = Grid::new(&titles).numbers(&titles[1..]);
    grid.rows = [&result.baseline, &result.candidate].map(|command| row(command, &result.unit)).to_vec();
    grid
}

fn row(command: &GateCommand, unit: &str) -> Vec<GridCell> {
    let verdicts = command.verdicts;
    let median = command.median.map_or("none".into(), |median| format!("{} {unit}", Digits::default().value(median)));
    vec![
        GridCell::plain(&name(command)),
        GridCell::plain(median.trim_end()),
        GridCell::plain(&verdicts.valid.to_string()),
        GridCell::plain(&verdicts.suspect.to_string()),
        GridCell::plain(&verdicts.invalid.to_string()),
    ]
}

fn name(command: &GateCommand) -> String {
    clean(&command.name)
}

/// Escapes text for XML, with quotes; `clean` has replaced characters that XML forbids.
fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use model::values::record::VerdictCounts;
    use model::values::units::Nanos;
    use model::values::workload::Better;

    use super::*;

    fn result(verdict: GateVerdict) -> GateResult {
        let command = |name: &str, median| GateCommand {
            name: name.into(),
            median: Some(median),
            verdicts: VerdictCounts { valid: 40, suspect: 2, invalid: 0 },
            reason: Some("other programs used <CPU 0>".into()),
        };
        GateResult {
            verdict,
            metric: "wall".into(),
            unit: "s".into(),
            better: Better::Lower,
            placement: "one-core".into(),
            baseline: command("./old", 0.5),
            candidate: command("./new \"a&b\"", 0.521),
            pairs: 42,
            pairs_needed: None,
            stored: None,
            slower_percent: Some(4.2),
            ci_low: Some(3.1),
            ci_high: Some(5.4),
            max_slower_percent: 3.0,
            error_rate: 0.01,
            budget: Nanos(120_000_000_000),
        }
    }

    #[test]
    fn sentences_state_change_limit_and_error_rate() {
        assert_eq!(
            headline(&result(GateVerdict::Failed)),
            "failed: ./new \"a&b\" is 4.2 % slower than ./old (98 % interval 3.1 to 5.4 % slower); 3.0 % is allowed"
        );
        let faster = GateResult {
            slower_percent: Some(-1.0),
            ci_low: None,
            metric: "tps".into(),
            ..result(GateVerdict::Undecided)
        };
        assert_eq!(
            headline(&faster),
            "undecided within 2m00s: ./new \"a&b\" is 1.0 % better than ./old in tps (no 98 % interval yet); 3.0 % is allowed"
        );
        assert_eq!(
            sentences(&result(GateVerdict::Passed)),
            [
                "42 pairs in random order under placement one-core; each verdict is false with a probability of at most 1.0 %",
                "4 of 84 trials were disturbed: other programs used <CPU 0>",
            ]
        );
        let undecided = |needed| {
            sentences(&GateResult { pairs_needed: Some(needed), ..result(GateVerdict::Undecided) }).swap_remove(1)
        };
        assert_eq!(
            undecided(1036),
            "about 1000 pairs would be needed if the difference and the noise stayed the same: 24.7 times as many"
        );
        assert!(undecided(45).starts_with("about 45 pairs") && undecided(9).starts_with("about 9 pairs"));
        for many in [2001, u64::MAX] {
            assert!(undecided(many).starts_with("more than the maximum of 2000 pairs"), "{}", undecided(many));
        }
        let mut invalid = result(GateVerdict::Invalid);
        invalid.candidate.verdicts = VerdictCounts { valid: 1, suspect: 0, invalid: 3 };
        invalid.candidate.reason = Some("it ended with exit status 7".into());
        assert_eq!(
            headline(&invalid),
            "no verdict: 3 of 4 trials of ./new \"a&b\" are invalid: it ended with exit status 7"
        );
    }

    #[test]
    fn stored_baseline_has_sentences_with_runs_and_limits() {
        let runs = vec!["a1".into(), "b2".into()];
        let notes = vec!["kernel.release differs: 6.1 and 6.12".into()];
        let stored = StoredBaseline { runs, trials: 24, candidate_trials: 12, other_runs: 5, notes };
        let known = GateResult { pairs: 0, stored: Some(stored.clone()), ..result(GateVerdict::Failed) };
        let sentences = basis(&known);
        assert_eq!(
            sentences[0],
            "12 trials under placement one-core against 24 trials of runs a1, b2; not in turn, so the interval contains the \
             differences between runs, which 5 other runs show; each verdict is false with a probability of at most 1.0 % \
             if the machine has not changed"
        );
        assert_eq!(sentences[1], "kernel.release differs: 6.1 and 6.12");
        let unknown = GateResult { slower_percent: None, verdict: GateVerdict::Undecided, ..known };
        assert!(basis(&unknown)[0].ends_with("repeat the baseline in at least two more runs"), "{:?}", basis(&unknown));
        assert!(headline(&unknown).contains("no interval for ./new"), "{}", headline(&unknown));
    }

    #[test]
    fn names_are_escaped_in_xml() {
        assert_eq!(xml("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
