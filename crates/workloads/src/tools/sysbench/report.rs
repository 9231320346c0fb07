//! Parses the report of sysbench 1.0 or 1.1 line by line. Must not depend on how sysbench was started.

/// The values of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SysbenchOutput {
    pub threads: u64,
    pub total_time_s: f64,
    pub events: f64,
    pub min_ms: f64,
    pub average_ms: f64,
    pub max_ms: f64,
    pub p95_ms: f64,
    /// Only for test `memory`, unless it only counts operations.
    pub mib_per_s: Option<f64>,
}

/// Parses the report of this test. An error quotes the line.
pub(super) fn read(test: &str, output: &str) -> Result<SysbenchOutput, String> {
    check_version(output)?;
    // The reports of other tests contain it too, so the marker of this test is also required.
    let mark = match test {
        "cpu" => "Prime numbers limit:",
        "memory" => "Running memory speed test",
        _ => "Initializing worker threads...",
    };
    if !output.lines().any(|line| line.starts_with(mark)) {
        return Err(format!("it is not of test {test}: no line begins with '{mark}'"));
    }
    let report = SysbenchOutput {
        threads: number(output, "Number of threads:", "")? as u64,
        total_time_s: number(output, time_title(output), "s")?,
        events: number(output, "total number of events:", "")?,
        min_ms: number(output, "min:", "")?,
        average_ms: number(output, "avg:", "")?,
        max_ms: number(output, "max:", "")?,
        p95_ms: number(output, "95th percentile:", "")?,
        mib_per_s: if test == "memory" { transferred(output)? } else { None },
    };
    if report.total_time_s > 0.0 && report.events > 0.0 {
        return Ok(report);
    }
    Err(format!("{} events in {} s are not a valid run", report.events, report.total_time_s))
}

/// Returns the title of the total time, which version 1.1 has renamed.
fn time_title(output: &str) -> &'static str {
    if output.starts_with("sysbench 1.1.") { "time elapsed:" } else { "total time:" }
}

/// Version 0.4 prints different lines, and the format after 1.1 is unknown.
fn check_version(output: &str) -> Result<(), String> {
    let first = output.lines().next().unwrap_or_default();
    match first.strip_prefix("sysbench ").and_then(|rest| rest.split_whitespace().next()) {
        Some(version) if version.starts_with("1.0.") || version.starts_with("1.1.") => Ok(()),
        _ => Err(format!("line 1 '{first}' does not name sysbench 1.0 or 1.1, the supported versions")),
    }
}

/// Returns the number after this name at the beginning of its line.
fn number(output: &str, name: &str, unit: &str) -> Result<f64, String> {
    let mut lines = output.lines().enumerate().filter_map(|(index, line)| {
        let rest = line.trim_start().strip_prefix(name)?;
        Some((index + 1, line, rest.trim()))
    });
    let (at, line, value) = lines.next().ok_or_else(|| format!("it has no line '{name}'"))?;
    if let Some((other, ..)) = lines.next() {
        return Err(format!("lines {at} and {other} are both '{name}'"));
    }
    parse(value.strip_suffix(unit)).ok_or_else(|| format!("line {at} '{}' has no number", line.trim()))
}

/// Parses `9268.33 MiB transferred (4623.06 MiB/sec)`. The line is absent if nothing is read or written.
fn transferred(output: &str) -> Result<Option<f64>, String> {
    let Some((index, line)) = output.lines().enumerate().find(|(_, line)| line.contains("transferred")) else {
        let counts_only = output.lines().any(|line| line.trim() == "operation: none");
        return if counts_only { Ok(None) } else { Err("it has no line 'MiB transferred'".into()) };
    };
    let rate = line.split_once(" MiB transferred (").and_then(|(_, rest)| parse(rest.strip_suffix(" MiB/sec)")));
    rate.map(Some).ok_or_else(|| format!("line {} '{line}' has no MiB/sec", index + 1))
}

fn parse(text: Option<&str>) -> Option<f64> {
    text?.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &str = include_str!("reports/memory-1.0.20.txt");

    #[test]
    fn reports_of_all_tests_are_parsed() {
        let cases = [
            ("threads", include_str!("reports/threads-1.0.20.txt"), 2),
            ("mutex", include_str!("reports/mutex-1.0.20.txt"), 2),
            ("mutex", include_str!("reports/mutex-1.1.0.txt"), 64),
            ("cpu", include_str!("reports/cpu-1.0.20.txt"), 2),
            ("memory", MEMORY, 2),
            ("memory", include_str!("reports/memory-none-1.0.20.txt"), 1),
        ];
        for (test, output, threads) in cases {
            let report = read(test, output).unwrap();
            assert_eq!(report.threads, threads, "{test}");
            assert!(report.events >= 2.0 && report.max_ms > 0.0, "{test} {report:?}");
            assert_eq!(report.mib_per_s.is_some(), test == "memory" && threads == 2, "{test}");
        }
    }

    #[test]
    fn values_match_their_lines() {
        let report = read("cpu", include_str!("reports/cpu-1.0.20.txt")).unwrap();
        let expected = SysbenchOutput {
            threads: 2,
            total_time_s: 1.0041,
            events: 2569.0,
            min_ms: 0.19,
            average_ms: 0.78,
            max_ms: 20.24,
            p95_ms: 3.13,
            mib_per_s: None,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn unknown_content_is_reported_with_its_line() {
        let cases = [
            (MEMORY.replace("sysbench 1.0.20", "sysbench 2.0.0"), "line 1 'sysbench 2.0.0"),
            (String::new(), "line 1 ''"),
            (MEMORY.replace("total time: ", "total time: about"), "has no number"),
            (MEMORY.replace("95th percentile:", "99th percentile:"), "no line '95th percentile:'"),
            (MEMORY.replace("MiB/sec)", "GiB/sec)"), "has no MiB/sec"),
            (MEMORY.replace("transferred", "moved"), "no line 'MiB transferred'"),
            (MEMORY.replace("Running memory", "Running file"), "not of test memory"),
            (format!("{MEMORY}\nmax: 3\n"), "are both 'max:'"),
        ];
        for (output, expected) in cases {
            let why = read("memory", &output).unwrap_err();
            assert!(why.contains(expected), "{expected}: {why}");
        }
    }
}
