//! Parses reports of other programs (`tests/reports`; its README lists their origin): format detection, figures, and
//! the rejection of damaged reports. A truncated report yields an error or a subset of its figures, never other
//! figures.

use std::fmt::Write as _;

use model::analysis::compare::compare_table;
use model::import::reports::{FORMATS, ImportedReport, NamedReport, detect, find, join, read};
use model::values::comparison::{Difference, Replication};
use model::values::record::ImportedRow;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

macro_rules! samples {
    ($($format:literal $file:literal),* $(,)?) => {
        [$(($format, $file, include_str!(concat!("reports/", $file)))),*]
    };
}

/// Format, file name and text of each valid report.
const SAMPLES: [(&str, &str, &str); 35] = samples![
    "unixbench" "unixbench-5.1.3.txt",
    "openssl" "openssl-1.1.1w.txt",
    "openssl" "openssl-1.1.1w-evp.txt",
    "openssl" "openssl-1.1.1w-bytes-stderr.txt",
    "openssl" "openssl-3.0.22.txt",
    "openssl" "openssl-3.0.22-evp-bytes-stderr.txt",
    "openssl" "openssl-3.0.22-public-key.txt",
    "openssl" "openssl-3.0.22-multi.txt",
    "openssl" "openssl-3.0.22-mr.txt",
    "openssl" "openssl-3.6.3-evp.txt",
    "openssl" "openssl-3.6.3-public-key.txt",
    "sysbench" "sysbench-1.0.20-cpu.txt",
    "sysbench" "sysbench-1.0.20-threads.txt",
    "sysbench" "sysbench-1.0.20-mutex.txt",
    "sysbench" "sysbench-1.0.20-memory-read.txt",
    "sysbench" "sysbench-1.0.20-memory-write.txt",
    "sysbench" "sysbench-1.0.20-fileio-rndrw.txt",
    "sysbench" "sysbench-1.0.20-fileio-seqrd.txt",
    "sysbench" "sysbench-1.1.0-cpu.txt",
    "sysbench" "sysbench-1.1.0-threads.txt",
    "sysbench" "sysbench-1.1.0-mutex.txt",
    "sysbench" "sysbench-1.1.0-memory-write.txt",
    "fio" "fio-3.33.json",
    "fio" "fio-3.33-group.json",
    "hyperfine" "hyperfine-1.15.0.json",
    "hyperfine" "hyperfine-1.15.0-parameters.json",
    "phoronix" "phoronix-10.8.6.xml",
    "geekbench" "geekbench-5.4.2.txt",
    "geekbench" "geekbench-6.3.0.txt",
    "geekbench" "geekbench-6.json",
    "geekbench" "geekbench-6.html",
    "stream" "stream-5.10.txt",
    "hpl" "hpcc-1.5.0.txt",
    "hpl" "hpl-2.3.txt",
    "hyperfine" "hyperfine-1.20.0.json",
];

fn text(file: &str) -> &'static str {
    SAMPLES.iter().find(|(_, name, _)| *name == file).expect("a sample").2
}

fn parsed(format: &str, text: &str) -> Result<ImportedReport, String> {
    read(find(format).expect("a format"), text).map_err(|error| {
        let line = error.line.map_or(String::new(), |line| format!("line {line}: "));
        format!("{line}{} / {}", error.what, error.hint.unwrap_or_default())
    })
}

fn sample(file: &str) -> ImportedReport {
    let (format, _, text) = SAMPLES.iter().find(|(_, name, _)| *name == file).expect("a sample");
    parsed(format, text).expect("the sample is valid")
}

#[test]
fn format_is_detected_by_content() {
    for (format, file, text) in SAMPLES {
        let found = detect(text).unwrap_or_else(|error| panic!("{file}: {}", error.what));
        assert_eq!(found.name, format, "{file}");
        assert_eq!(detect(&text.replace('\n', "\r\n")).unwrap().name, format, "{file} with CRLF line ends");
        assert_eq!(parsed(format, &text.replace('\n', "\r\n")).as_ref(), Ok(&sample(file)), "{file}");
    }
}

/// All rows of all samples, one per line, for comparison with the files by hand.
#[test]
fn parsed_figures_match_the_files() {
    let mut all = String::new();
    for (_, file, _) in SAMPLES {
        let report = sample(file);
        writeln!(all, "{file} {:?}", report.columns).unwrap();
        for row in &report.rows {
            let ImportedRow { test, metric, unit, better, values, samples, .. } = row;
            let counts: Vec<usize> = samples.iter().map(Vec::len).collect();
            let counts = if counts.is_empty() { String::new() } else { format!(" of {counts:?} samples") };
            writeln!(all, "  {test} | {metric} {better:?} {values:?} {unit}{counts}").unwrap();
        }
        report.facts.iter().for_each(|(key, value)| writeln!(all, "  {key}: {value}").unwrap());
        report.notes.iter().for_each(|note| writeln!(all, "  note: {note}").unwrap());
    }
    insta::assert_snapshot!(all);
}

#[test]
fn wrong_format_returns_an_error_with_the_detected_format() {
    for (format, file, text) in SAMPLES {
        for other in FORMATS.iter().filter(|other| other.name != format) {
            let error = parsed(other.name, text).expect_err(file);
            assert!(error.contains(&format!("the detected format is {format}")), "{file} as {}: {error}", other.name);
        }
    }
}

/// Returns whether all values of a report are in the complete report.
fn is_subset(part: &ImportedReport, whole: &ImportedReport) -> bool {
    part.rows.iter().all(|row| {
        let same =
            |other: &&ImportedRow| (&other.test, &other.metric, &other.unit) == (&row.test, &row.metric, &row.unit);
        let Some(other) = whole.rows.iter().find(same) else { return false };
        part.columns.iter().zip(&row.values).all(|(column, value)| {
            let at = whole.columns.iter().position(|other| other == column);
            value.is_none() || at.is_some_and(|at| other.values[at] == *value)
        })
    })
}

#[test]
fn truncated_report_returns_an_error_or_a_subset() {
    for (format, file, text) in SAMPLES {
        let whole = sample(file);
        let step = if text.len() < 4000 { 1 } else { 7 };
        for end in (0..text.len()).step_by(step).filter(|end| text.is_char_boundary(*end)) {
            if let Ok(part) = parsed(format, &text[..end]) {
                assert!(is_subset(&part, &whole), "{file} truncated at {end}: {part:?}");
            }
        }
    }
}

#[test]
fn report_without_a_line_returns_an_error_or_a_subset() {
    for (format, file, text) in SAMPLES {
        let lines: Vec<&str> = text.lines().collect();
        for left_out in 0..lines.len() {
            let without: Vec<&str> =
                lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
            if let Ok(part) = parsed(format, &without.join("\n")) {
                // Some lines name the number of copies or the test of the lines below them.
                let is_header =
                    ["unixbench", "phoronix", "fio", "hyperfine"].contains(&format) || lines[left_out].contains("sign");
                assert!(is_header || is_subset(&part, &sample(file)), "{file} without {:?}: {part:?}", lines[left_out]);
            }
        }
    }
}

/// Figures that a report contains redundantly are checked against each other.
#[test]
fn contradictory_figures_return_errors() {
    let changed = [
        ("stream-5.10.txt", "43022.6", "48022.6", "but the time gives"),
        ("hpcc-1.5.0.txt", "9.459e+00", "9.959e+00", "but size and time give"),
        ("hpcc-1.5.0.txt", "0.0035319 ...... PASSED", "0.0035319 ...... FAILED", "the residual check failed"),
        (
            "geekbench-6.3.0.txt",
            "  Multi-Core Score              2994",
            "  Multi-Core Score              2194",
            "the partial scores give 2994",
        ),
        (
            "geekbench-5.4.2.txt",
            "Integer Score                  955",
            "Integer Score                  995",
            "the partial scores give",
        ),
        ("geekbench-6.json", "\"multicore_score\": 2994", "\"multicore_score\": 2494", "has another score"),
        ("hyperfine-1.15.0-parameters.json", "0.02724039606", "0.02784039606", "its times give"),
        ("fio-3.33.json", "\"iops\" : 19750.124938", "\"iops\" : 16750.124938", "but count and time give"),
        ("sysbench-1.1.0-mutex.txt", "2.2402", "2.3402", "events and time give 2.2402"),
        ("phoronix-10.8.6.xml", "<Value>168<", "<Value>178<", "the mean of its runs is"),
        ("stream-5.10.txt", "Solution Validates", "Failed Validation", "the validation of STREAM failed"),
    ];
    for (file, old, new, expected) in changed {
        let (format, _, text) = SAMPLES.iter().find(|(_, name, _)| *name == file).unwrap();
        assert!(text.contains(old), "{file} has no {old}");
        let error = parsed(format, &text.replacen(old, new, 1)).expect_err(file);
        assert!(error.contains(expected), "{file}: {error}");
    }
}

#[test]
fn unsupported_version_returns_an_error_with_the_version() {
    let versions = [
        ("openssl-3.0.22.txt", "version: 3.0.22", "version: 4.0.1", "unsupported version 4.0.1"),
        ("openssl-1.1.1w.txt", "OpenSSL 1.1.1w", "OpenSSL 1.0.2k-fips", "unsupported version 1.0.2k-fips"),
        ("sysbench-1.0.20-cpu.txt", "sysbench 1.0.20", "sysbench 1.2.0", "'sysbench 1.2.0"),
        ("fio-3.33.json", "fio-3.33", "fio-2.21", "version 'fio-2.21'"),
        ("geekbench-6.3.0.txt", "Geekbench 6.3.0", "Geekbench 7.0.0", "unsupported version 7.0.0"),
        ("stream-5.10.txt", "5.10 $", "5.9 $", "5.9 $"),
        ("hpl-2.3.txt", "HPLinpack 2.3", "HPLinpack 1.0", "HPLinpack 1.0"),
        ("unixbench-5.1.3.txt", "Version 5.1.3", "Version 6.0.0", "version 6.0.0"),
    ];
    for (file, old, new, expected) in versions {
        let (format, _, text) = SAMPLES.iter().find(|(_, name, _)| *name == file).unwrap();
        let error = parsed(format, &text.replacen(old, new, 1)).expect_err(file);
        assert!(error.contains(expected), "{file}: {error}");
    }
}

#[test]
fn failed_run_or_other_layout_returns_an_error_with_a_hint() {
    let failed = parsed("fio", include_str!("reports/fio-3.33-failed.json")).unwrap_err();
    assert!(failed.contains("job 'r' failed with error 25"), "{failed}");
    let default_output = detect(include_str!("reports/fio-3.33-normal.txt")).err().unwrap();
    assert!(default_output.hint.unwrap().contains("--output-format=json"));
    let (cpu, mr) = (text("sysbench-1.0.20-cpu.txt"), text("openssl-3.0.22-mr.txt"));
    assert!(parsed("sysbench", &format!("{cpu}{cpu}")).unwrap_err().contains("a second report"));
    let keys = format!("{mr}+F2:2:2048:4801.265823:79264.634146\n");
    assert!(
        parsed("openssl", &keys).unwrap_err().starts_with("line 3: ")
            && parsed("openssl", &keys).unwrap_err().contains("without -mr")
    );
    let shell = format!("{}$ exit\n", text("openssl-3.0.22.txt"));
    assert!(parsed("openssl", &shell).unwrap_err().starts_with("line 10: '$ exit'"), "{:?}", parsed("openssl", &shell));
}

#[test]
fn random_changes_never_panic_or_yield_invalid_figures() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for (format, file, text) in SAMPLES {
        for _ in 0..300 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..bytes.len());
                let to = (at + random.random_range(1..40)).min(bytes.len());
                match random.random_range(0..4) {
                    0 => bytes[at] = random.random(),
                    1 => drop(bytes.drain(at..to)),
                    2 => bytes.extend_from_within(at..to),
                    _ => bytes.insert(at, *b"0-.:e\n{\"<k".get(random.random_range(0..10)).unwrap()),
                }
            }
            let changed = String::from_utf8_lossy(&bytes);
            let _ = detect(&changed);
            let Ok(report) = parsed(format, &changed) else { continue };
            for row in &report.rows {
                assert!(row.values.iter().flatten().all(|value| value.is_finite() && *value >= 0.0), "{file}: {row:?}");
                assert!(!row.test.is_empty() && row.values.len() <= report.columns.len(), "{file}: {row:?}");
            }
        }
    }
}

#[test]
fn repeated_runs_have_intervals_and_single_figures_do_not() {
    let named = |file: &str| NamedReport { column: None, file: file.into(), report: sample(file) };
    let table = join("h", vec![named("hyperfine-1.15.0.json"), named("hyperfine-1.20.0.json")]).unwrap();
    let comparison = compare_table(&table, None).unwrap();
    let [time, user, ..] = comparison.rows.as_slice() else { panic!("{comparison:?}") };
    let (time_value, user_value) = (&time.values["hyperfine-1.20.0.json"], &user.values["hyperfine-1.20.0.json"]);
    let change = time_value.change_percent.unwrap();
    assert!((time_value.ci_low.unwrap()..=time_value.ci_high.unwrap()).contains(&change), "{time_value:?}");
    assert_eq!((time_value.replication, time_value.samples, time.main), (Some(Replication::Trials), 12, true));
    assert_ne!(time_value.difference, Some(Difference::Higher), "single runs show no difference");
    assert_ne!(time_value.difference, Some(Difference::Lower), "single runs show no difference");
    assert!(user_value.change_percent.is_some() && user_value.ci_low.is_none() && user_value.difference.is_none());
}

#[test]
fn comparison_of_two_files_notes_different_facts() {
    let named = |file: &str| NamedReport { column: None, file: file.into(), report: sample(file) };
    let table = join("o", vec![named("openssl-3.0.22-multi.txt"), named("openssl-3.6.3-evp.txt")]).unwrap();
    let comparison = compare_table(&table, None).unwrap();
    let row = comparison.rows.iter().find(|row| row.test == "aes-128-cbc 1024 bytes").unwrap();
    let change = row.values["openssl-3.6.3-evp.txt"].change_percent.unwrap();
    assert!((change - 100.0 * (1_540_379.46 / 446_511.10 - 1.0)).abs() < 1e-9, "{change}");
    assert!(
        comparison.notes[0].starts_with("OpenSSL differs: openssl-3.0.22-multi.txt 3.0.22, "),
        "{:?}",
        comparison.notes
    );
    assert!(comparison.notes[1].contains("env:~0x200000200000000"), "{:?}", comparison.notes);
}
