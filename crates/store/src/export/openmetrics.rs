//! Exports a run as metrics in the text format of OpenMetrics 1.0, which Prometheus and the textfile collector of its
//! `node_exporter` also read. Names and units follow Prometheus' conventions: base units, the unit last. There are no
//! time stamps, which the textfile collector rejects, and only gauges, the only fitting type of both formats.

use model::analysis::finding::{CellFinding, MetricFinding, RunFinding};
use model::values::record::RunRecord;
use model::values::workload::Better;

use super::families::{MetricFamilies, label};

pub(super) fn text(record: &RunRecord, finding: &RunFinding) -> String {
    let mut families = MetricFamilies::default();
    about(record, &mut families);
    for cell in &finding.cells {
        let labels = cell_labels(record, cell);
        for metric in &cell.metrics {
            measured(cell, metric, &labels, &mut families);
        }
        let verdicts =
            [("valid", cell.verdicts.valid), ("suspect", cell.verdicts.suspect), ("invalid", cell.verdicts.invalid)];
        for (verdict, count) in verdicts {
            let help = "Measured trials by verdict; the placement of invalid trials was not verified.";
            let labels = format!("{labels},{}", label("verdict", verdict));
            families.add("nearfar_trials", help, "", labels, f64::from(count));
        }
    }
    families.text() + "# EOF\n"
}

fn about(record: &RunRecord, families: &mut MetricFamilies) {
    let fact = |key: &str| record.machine.settings.get(key).unwrap_or_default();
    let labels = [
        label("experiment", &record.plan.experiment),
        label("run", &record.id.0),
        label("host", record.host.as_deref().unwrap_or_default()),
        label("cpu", fact("cpu.model")),
        label("kernel", fact("kernel.release")),
        label("simulated", record.simulated.as_deref().unwrap_or_default()),
        label("version", &record.program),
        label("smoke", &record.stamp().smoke.to_string()),
    ];
    families.add("nearfar_run_info", "The run that the other values are from.", "", labels.join(","), 1.0);
    let started = record.started_unix_ms as f64 / 1000.0;
    let help = "Start time of the run in seconds since 1970.";
    families.add("nearfar_run_start_timestamp_seconds", help, "seconds", labels[0].clone(), started);
}

fn cell_labels(record: &RunRecord, cell: &CellFinding) -> String {
    // Empty parameters carry no information, and labels are stored with every sample.
    let nonempty = cell.parameters.iter().filter(|(_, value)| !value.is_empty());
    let parameters: Vec<String> = nonempty.map(|(name, value)| format!("{name}={value}")).collect();
    [
        label("experiment", &record.plan.experiment),
        label("workload", &cell.workload),
        label("test", &cell.test),
        label("placement", &cell.placement),
        label("threads", &cell.threads.to_string()),
        label("cpus", &cell.cpus),
        label("memory", &cell.memory),
        label("parameters", &parameters.join(" ")),
    ]
    .join(",")
}

/// The median and the ends of its interval are separate metrics, because they must not be summed.
fn measured(cell: &CellFinding, metric: &MetricFinding, labels: &str, families: &mut MetricFamilies) {
    let (unit, factor) = base_unit(&metric.unit);
    let better = if metric.better == Better::Higher { "more" } else { "less" };
    let stem = format!("nearfar_{}_{}", plain(&cell.workload), plain(&metric.name));
    let figures = [
        ("", "median over trials", metric.median),
        ("_ci_low", "lower end of the 95 % interval of the median", metric.ci_low),
        ("_ci_high", "upper end of the 95 % interval of the median", metric.ci_high),
    ];
    for (suffix, kind, value) in figures {
        let Some(value) = value else { continue };
        let tail = if unit.is_empty() { String::new() } else { format!("_{unit}") };
        let help = format!("{} of workload {}, {kind}; {better} is better.", metric.name, cell.workload);
        families.add(&format!("{stem}{suffix}{tail}"), &help, &unit, labels.to_string(), value * factor);
    }
}

/// The Prometheus base unit for one of our units, as used in names, and the factor of the conversion.
fn base_unit(unit: &str) -> (String, f64) {
    const KIB: f64 = 1024.0;
    let rate = "bytes_per_second";
    let (name, factor) = match unit {
        "s" => ("seconds", 1.0),
        "ms" => ("seconds", 1e-3),
        "us" | "µs" => ("seconds", 1e-6),
        "ns" => ("seconds", 1e-9),
        "B" => ("bytes", 1.0),
        "KiB" => ("bytes", KIB),
        "MiB" => ("bytes", KIB * KIB),
        "GiB" => ("bytes", KIB * KIB * KIB),
        "kB/s" => (rate, 1e3),
        "MB/s" => (rate, 1e6),
        "GB/s" => (rate, 1e9),
        // UnixBench counts blocks of 1024 bytes.
        "KiB/s" | "KBps" => (rate, KIB),
        "MiB/s" => (rate, KIB * KIB),
        "GiB/s" => (rate, KIB * KIB * KIB),
        "Gbit/s" => (rate, 1e9 / 8.0),
        "GFLOPS" => ("flops", 1e9),
        "GUPS" => ("updates_per_second", 1e9),
        "MWIPS" => ("whetstone_instructions_per_second", 1e6),
        "lps" => ("loops_per_second", 1.0),
        "lpm" => ("loops_per_second", 1.0 / 60.0),
        "%" => ("ratio", 0.01),
        other => {
            let counted = other.strip_suffix("/s").map(|noun| format!("{}_per_second", plain(noun)));
            return (counted.unwrap_or_else(|| plain(other)), 1.0);
        }
    };
    (name.into(), factor)
}

/// Converts to a component of a metric name: lower-case letters, digits and underscores.
fn plain(text: &str) -> String {
    let mapped: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    mapped.trim_matches('_').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_to_base_units() {
        let check = |unit: &str, name: &str, factor: f64| assert_eq!(base_unit(unit), (name.into(), factor), "{unit}");
        check("ns", "seconds", 1e-9);
        check("MB/s", "bytes_per_second", 1e6);
        check("Gbit/s", "bytes_per_second", 125e6);
        check("events/s", "events_per_second", 1.0);
        check("op/s", "op_per_second", 1.0);
        check("cpus", "cpus", 1.0);
        check("", "", 1.0);
    }
}
