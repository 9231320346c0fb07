//! Reports of other programs against what those programs wrote (tests/reports, whose README says how each was made): the
//! figures that come out, that each is found by its content, and that a report which was cut or changed is refused or
//! says less, but never something else.

use std::fmt::Write as _;

use model::analysis::compare::compare_table;
use model::import::reports::{FORMATS, ImportedReport, NamedReport, detect, find, join, read};
use model::values::record::ImportedRow;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

macro_rules! samples {
    ($($format:literal $file:literal),* $(,)?) => {
        [$(($format, $file, include_str!(concat!("reports/", $file)))),*]
    };
}

/// Format, file and text of every report that can be read.
const SAMPLES: [(&str, &str, &str); 31] = samples![
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
    parsed(format, text).expect("it is read")
}

#[test]
fn every_report_is_found_by_its_content_alone() {
    for (format, file, text) in SAMPLES {
        let found = detect(text).unwrap_or_else(|error| panic!("{file}: {}", error.what));
        assert_eq!(found.name, format, "{file}");
        assert_eq!(detect(&text.replace('\n', "\r\n")).unwrap().name, format, "{file} with the line ends of Windows");
        assert_eq!(parsed(format, &text.replace('\n', "\r\n")).as_ref(), Ok(&sample(file)), "{file}");
    }
}

/// All rows of all samples, one a line: what a person checks against the files.
#[test]
fn the_figures_are_those_of_the_files() {
    let mut all = String::new();
    for (_, file, _) in SAMPLES {
        let report = sample(file);
        writeln!(all, "{file} {:?}", report.columns).unwrap();
        for row in &report.rows {
            let ImportedRow { test, metric, unit, better, values, samples, .. } = row;
            let kept: Vec<usize> = samples.iter().map(Vec::len).collect();
            let kept = if kept.is_empty() { String::new() } else { format!(" of {kept:?} samples") };
            writeln!(all, "  {test} | {metric} {better:?} {values:?} {unit}{kept}").unwrap();
        }
        report.facts.iter().for_each(|(key, value)| writeln!(all, "  {key}: {value}").unwrap());
        report.notes.iter().for_each(|note| writeln!(all, "  note: {note}").unwrap());
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_format_that_was_forced_wrongly_is_refused_with_the_right_one() {
    for (format, file, text) in SAMPLES {
        for other in FORMATS.iter().filter(|other| other.name != format) {
            let error = parsed(other.name, text).expect_err(file);
            assert!(error.contains(&format!("it looks like {format}")), "{file} as {}: {error}", other.name);
        }
    }
}

/// Whether a report says nothing that the whole one does not say.
fn says_no_more(part: &ImportedReport, whole: &ImportedReport) -> bool {
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
fn a_report_cut_anywhere_is_refused_or_says_less() {
    for (format, file, text) in SAMPLES {
        let whole = sample(file);
        let step = if text.len() < 4000 { 1 } else { 7 };
        for end in (0..text.len()).step_by(step).filter(|end| text.is_char_boundary(*end)) {
            if let Ok(part) = parsed(format, &text[..end]) {
                assert!(says_no_more(&part, &whole), "{file} cut at {end}: {part:?}");
            }
        }
    }
}

#[test]
fn a_report_without_some_line_is_refused_or_says_less() {
    for (format, file, text) in SAMPLES {
        let lines: Vec<&str> = text.lines().collect();
        for left_out in 0..lines.len() {
            let without: Vec<&str> =
                lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
            if let Ok(part) = parsed(format, &without.join("\n")) {
                // What a line above says of the lines below (the number of copies, the kind of test) goes with it.
                let names_below =
                    ["unixbench", "phoronix", "fio", "hyperfine"].contains(&format) || lines[left_out].contains("sign");
                assert!(
                    names_below || says_no_more(&part, &sample(file)),
                    "{file} without {:?}: {part:?}",
                    lines[left_out]
                );
            }
        }
    }
}

/// Figures that a report has twice, in two ways, are compared: these digits cannot change unnoticed.
#[test]
fn figures_that_do_not_fit_each_other_are_refused() {
    let changed = [
        ("stream-5.10.txt", "43022.6", "48022.6", "do not fit the time"),
        ("hpcc-1.5.0.txt", "9.459e+00", "9.959e+00", "do not fit size and time"),
        ("hpcc-1.5.0.txt", "0.0035319 ...... PASSED", "0.0035319 ...... FAILED", "solved wrongly"),
        (
            "geekbench-6.3.0.txt",
            "  Multi-Core Score              2994",
            "  Multi-Core Score              2194",
            "its parts give 2994",
        ),
        (
            "geekbench-5.4.2.txt",
            "Integer Score                  955",
            "Integer Score                  995",
            "its parts give",
        ),
        ("geekbench-6.json", "\"multicore_score\": 2994", "\"multicore_score\": 2494", "says otherwise"),
        ("hyperfine-1.15.0-parameters.json", "0.02724039606", "0.02784039606", "its times give"),
        ("fio-3.33.json", "\"iops\" : 19750.124938", "\"iops\" : 16750.124938", "by its count and time"),
        ("phoronix-10.8.6.xml", "<Value>168<", "<Value>178<", "its runs give"),
        ("stream-5.10.txt", "Solution Validates", "Failed Validation", "found its own results wrong"),
    ];
    for (file, old, new, expected) in changed {
        let (format, _, text) = SAMPLES.iter().find(|(_, name, _)| *name == file).unwrap();
        assert!(text.contains(old), "{file} has no {old}");
        let error = parsed(format, &text.replacen(old, new, 1)).expect_err(file);
        assert!(error.contains(expected), "{file}: {error}");
    }
}

#[test]
fn other_versions_are_refused_by_name() {
    let versions = [
        ("openssl-3.0.22.txt", "version: 3.0.22", "version: 4.0.1", "version 4.0.1 is not known"),
        ("openssl-1.1.1w.txt", "OpenSSL 1.1.1w", "OpenSSL 1.0.2k-fips", "version 1.0.2k-fips is not known"),
        ("sysbench-1.0.20-cpu.txt", "sysbench 1.0.20", "sysbench 1.1.0", "'sysbench 1.1.0"),
        ("fio-3.33.json", "fio-3.33", "fio-2.21", "version 'fio-2.21'"),
        ("geekbench-6.3.0.txt", "Geekbench 6.3.0", "Geekbench 7.0.0", "version 7.0.0 is not known"),
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
fn what_failed_or_is_in_another_layout_is_refused_with_the_next_step() {
    let failed = parsed("fio", include_str!("reports/fio-3.33-failed.json")).unwrap_err();
    assert!(failed.contains("job 'r' failed with error 25"), "{failed}");
    let people = detect(include_str!("reports/fio-3.33-normal.txt")).err().unwrap();
    assert!(people.hint.unwrap().contains("--output-format=json"));
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
fn a_report_changed_anyhow_makes_nothing_panic_and_no_figure_that_is_none() {
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
fn the_runs_of_hyperfine_give_intervals_and_single_figures_do_not() {
    let named = |file: &str| NamedReport { column: None, file: file.into(), report: sample(file) };
    let table = join("h", vec![named("hyperfine-1.15.0.json"), named("hyperfine-1.20.0.json")]).unwrap();
    let comparison = compare_table(&table, None).unwrap();
    let [time, user, ..] = comparison.rows.as_slice() else { panic!("{comparison:?}") };
    let (time_value, user_value) = (&time.values["hyperfine-1.20.0.json"], &user.values["hyperfine-1.20.0.json"]);
    let change = time_value.change_percent.unwrap();
    assert!((time_value.ci_low.unwrap()..=time_value.ci_high.unwrap()).contains(&change), "{time_value:?}");
    assert!(time_value.difference.is_some() && time_value.samples == 12 && time.main);
    assert!(user_value.change_percent.is_some() && user_value.ci_low.is_none() && user_value.difference.is_none());
}

#[test]
fn two_runs_of_openssl_are_compared_and_what_differs_is_said() {
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
