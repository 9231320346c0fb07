//! Writes metrics in the subset of the text format that OpenMetrics 1.0 and Prometheus 0.0.4 share. Every metric is a
//! gauge. Must not depend on the content of metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Metrics by their names.
#[derive(Debug, Default)]
pub struct MetricFamilies(BTreeMap<String, Family>);

/// A metric with its samples by their labels. Readers reject two samples with equal labels.
#[derive(Debug, Default)]
struct Family {
    help: String,
    unit: String,
    samples: BTreeMap<String, f64>,
}

impl MetricFamilies {
    /// Adds a sample. `labels` are labels of [`label`], separated by commas; they and `unit` may be empty.
    pub fn add(&mut self, name: &str, help: &str, unit: &str, labels: String, value: f64) {
        let family = self.0.entry(name.into()).or_default();
        family.help = help.into();
        family.unit = unit.into();
        family.samples.insert(labels, value);
    }

    /// Returns the text, without the last line of OpenMetrics.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, Family { help, unit, samples }) in &self.0 {
            let help = escaped(help);
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n"); // writing to a String cannot fail
            if !unit.is_empty() {
                let _ = writeln!(out, "# UNIT {name} {unit}");
            }
            for (labels, value) in samples {
                let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        }
        out
    }
}

/// Returns a label whose value may be any text.
pub fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", escaped(value))
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_may_be_absent() {
        let mut families = MetricFamilies::default();
        families.add("b_seconds", "Time.", "seconds", String::new(), 1.5);
        families.add("a", "First\nline.", "", label("x", "q\"\\\n"), 2.0);
        let expected = "# HELP a First\\nline.\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\"} 2\n\
                        # HELP b_seconds Time.\n# TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 1.5\n";
        assert_eq!(families.text(), expected);
    }
}
