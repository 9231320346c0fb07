//! The number in the output of a program that workload `command` measures: its metric, and the name that the user gave
//! it. Must not depend on a regular expression engine; `workloads` searches the output.

use crate::values::workload::{Parameters, Value};

/// Name of the workload.
pub const COMMAND: &str = "command";

/// Metrics of the number: to minimise and to maximise.
const METRICS: [&str; 2] = ["value", "value-higher"];

/// Returns the metric of the number; `None` for other workloads, and if the parameters locate no number.
pub fn metric(workload: &str, parameters: &Parameters) -> Option<&'static str> {
    let is_set = |name: &str| matches!(parameters.0.get(name), Some(Value::Text(text)) if !text.is_empty());
    let is_located = workload == COMMAND && (is_set("metric") || is_set("metric-json"));
    let is_higher = parameters.0.get("higher-is-better") == Some(&Value::Switch(true));
    is_located.then_some(METRICS[usize::from(is_higher)])
}

/// Returns the user's name for a metric of a workload; `None` if the user did not name it.
pub fn own_name(workload: &str, parameters: &Parameters, metric: &str) -> Option<String> {
    let Some(Value::Text(expression)) = parameters.0.get("metric") else { return None };
    (workload == COMMAND && METRICS.contains(&metric)).then(|| group_name(expression)).flatten()
}

/// Returns the name of the first named group of a regular expression: `tps` of `tps = (?<tps>[0-9.]+)`.
pub fn group_name(expression: &str) -> Option<String> {
    let mut rest = expression;
    let mut is_in_class = false;
    while let Some(char) = rest.chars().next() {
        let after = &rest[char.len_utf8()..];
        rest = match char {
            // An escaped character is never the start of a group.
            '\\' => after.chars().next().map_or(after, |escaped| &after[escaped.len_utf8()..]),
            '(' if !is_in_class => {
                if let Some(named) = after.strip_prefix("?<").or_else(|| after.strip_prefix("?P<")) {
                    return named.split_once('>').map(|(name, _)| name.to_string());
                }
                after
            }
            _ => {
                is_in_class = match char {
                    '[' => true,
                    ']' => false,
                    _ => is_in_class,
                };
                after
            }
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(set: &[(&str, &str)]) -> Parameters {
        let value = |text: &str| match text {
            "true" => Value::Switch(true),
            text => Value::Text(text.into()),
        };
        Parameters(set.iter().map(|(name, text)| ((*name).into(), value(text))).collect())
    }

    #[test]
    fn name_of_the_first_named_group_is_found() {
        for (expression, expected) in [
            ("tps = (?<tps>[0-9.]+)", Some("tps")),
            ("tps = (?P<tps>[0-9.]+)", Some("tps")),
            ("rate: ([0-9.]+)", None),
            (r"\(?<b>([0-9]+)", None),
            ("[(?<b>]([0-9]+)", None),
            ("(?i)(?:é|x) (?<latency_p99>[0-9]+)", Some("latency_p99")),
            ("(?<open", None),
        ] {
            assert_eq!(group_name(expression).as_deref(), expected, "{expression}");
        }
    }

    #[test]
    fn only_the_located_number_of_a_command_has_a_name() {
        let named = parameters(&[("metric", "(?<tps>[0-9]+)"), ("higher-is-better", "true")]);
        assert_eq!(metric(COMMAND, &named), Some("value-higher"));
        assert_eq!(own_name(COMMAND, &named, "value-higher").as_deref(), Some("tps"));
        assert_eq!(own_name(COMMAND, &named, "wall"), None);
        assert_eq!((metric("fio", &named), own_name("fio", &named, "value")), (None, None));
        assert_eq!(metric(COMMAND, &parameters(&[("metric", ""), ("metric-json", "/a")])), Some("value"));
        assert_eq!(metric(COMMAND, &parameters(&[("metric", "")])), None);
    }
}
