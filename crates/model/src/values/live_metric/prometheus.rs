//! The text exposition format of Prometheus: the sum of the series that a selector matches. Must not depend on how the text
//! is fetched.
//!
//! Parsers on crates.io: `prometheus-parse` needs chrono and a third version of itertools, and the licence of
//! `openmetrics-parser` (LGPL) is not allowed here.

/// A name and the labels that a series must have: `http_requests_total{code="200"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesSelector {
    name: String,
    labels: Vec<(String, String)>,
}

/// Type that the exporter declares for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    Counter,
    Gauge,
    /// Not declared, or a series of a histogram or summary.
    Other,
}

/// Sum of the matching series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesSum {
    pub sum: f64,
    /// Number of series.
    pub series: usize,
    pub kind: SeriesKind,
}

impl SeriesSelector {
    /// Parses a name, or a name with labels.
    ///
    /// # Errors
    /// If the text is not a selector of this form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("'{text}' is not the name of a series");
        let (name, rest) = split_name(text).ok_or_else(invalid)?;
        let (labels, rest) = if rest.trim_start().starts_with('{') {
            split_labels(rest).ok_or_else(invalid)?
        } else {
            (Vec::new(), rest)
        };
        if rest.trim().is_empty() { Ok(Self { name: name.into(), labels }) } else { Err(invalid()) }
    }

    /// Returns the sum of the matching series in the text of an exporter; `None` if no series matches. A value that is not
    /// a number makes the sum NaN.
    pub fn sum(&self, text: &str) -> Option<SeriesSum> {
        let values: Vec<f64> = text.lines().filter_map(|line| self.value(line)).collect();
        let kind = text.lines().find_map(|line| self.kind(line)).unwrap_or(SeriesKind::Other);
        (!values.is_empty()).then(|| SeriesSum { sum: values.iter().sum(), series: values.len(), kind })
    }

    /// Returns the value of a line of a matching series.
    fn value(&self, line: &str) -> Option<f64> {
        let (name, rest) = split_name(line.trim_start())?;
        if name != self.name {
            return None;
        }
        let (labels, rest) = if rest.trim_start().starts_with('{') { split_labels(rest)? } else { (Vec::new(), rest) };
        // A time stamp or an exemplar may follow.
        let value = rest.split_whitespace().next()?;
        self.labels.iter().all(|label| labels.contains(label)).then(|| value.parse().unwrap_or(f64::NAN))
    }

    fn kind(&self, line: &str) -> Option<SeriesKind> {
        let mut words = line.strip_prefix('#')?.split_whitespace();
        // In OpenMetrics, the declared name of a counter lacks the suffix of its series.
        let is_declared = |name: &str| name == self.name || Some(name) == self.name.strip_suffix("_total");
        let is_type = words.next() == Some("TYPE") && words.next().is_some_and(is_declared);
        is_type.then(|| match words.next() {
            Some("counter") => SeriesKind::Counter,
            Some("gauge") => SeriesKind::Gauge,
            _ => SeriesKind::Other,
        })
    }
}

/// `http_requests_total{code="200"}`.
impl std::fmt::Display for SeriesSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        f.write_str(&self.name)?;
        if labels.is_empty() { Ok(()) } else { write!(f, "{{{}}}", labels.join(",")) }
    }
}

/// Splits the name of a series or label from the rest.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == ':';
    let (name, rest) = text.split_at(text.find(|char| !is_part(char)).unwrap_or(text.len()));
    (!name.is_empty() && !name.starts_with(|char: char| char.is_ascii_digit())).then_some((name, rest))
}

/// Splits `{NAME="VALUE",…}` from the rest. Values have the escapes `\\`, `\"` and `\n`.
fn split_labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut rest = text.trim_start().strip_prefix('{')?.trim_start();
    let mut labels = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = split_name(rest)?;
        let quoted = after.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        let (value, after) = split_quoted(quoted)?;
        labels.push((name.to_owned(), value));
        let after = after.trim_start();
        rest = after.strip_prefix(',').unwrap_or(after).trim_start();
    }
}

/// Splits the text up to the closing quote from the rest.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXPORTED: &str = "\
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000
http_requests_total{method=\"post\",code=\"400\"}    3 1395066363000
http_requests_total_wrong 9
# TYPE request_seconds summary
request_seconds{quantile=\"0.99\"} 0.0125
request_seconds_sum 8953.332
request_seconds_count 27892
msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9
# TYPE up gauge
up 1
  indented { a = \"b\" , } +Inf
not_a_number NaN
# TYPE jobs counter
jobs_total 17 # {trace_id=\"KOO5S4vxi0o\"} 0.67
broken{a=\"b 1
";

    fn sum(selector: &str) -> Option<(f64, usize, SeriesKind)> {
        let found = SeriesSelector::parse(selector).unwrap_or_else(|error| panic!("{error}")).sum(EXPORTED)?;
        Some((found.sum, found.series, found.kind))
    }

    #[test]
    fn matching_series_are_summed() {
        assert_eq!(sum("http_requests_total"), Some((1030.0, 2, SeriesKind::Counter)));
        assert_eq!(sum("http_requests_total{}"), Some((1030.0, 2, SeriesKind::Counter)));
        assert_eq!(sum("http_requests_total{code=\"400\"}"), Some((3.0, 1, SeriesKind::Counter)));
        assert_eq!(sum("http_requests_total{code=\"400\",method=\"get\"}"), None);
        assert_eq!(sum("http_requests"), None, "a prefix is another name");
        assert_eq!(sum("request_seconds{quantile=\"0.99\"}"), Some((0.0125, 1, SeriesKind::Other)));
        assert_eq!(sum("request_seconds_count"), Some((27892.0, 1, SeriesKind::Other)));
        assert_eq!(sum("msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\"}").map(|found| found.1), Some(1));
        assert_eq!(sum("up"), Some((1.0, 1, SeriesKind::Gauge)));
        assert_eq!(sum("indented{a=\"b\"}"), Some((f64::INFINITY, 1, SeriesKind::Other)));
        assert_eq!(sum("jobs_total"), Some((17.0, 1, SeriesKind::Counter)), "OpenMetrics");
        assert!(sum("not_a_number").is_some_and(|found| found.0.is_nan()));
        assert_eq!(sum("broken"), None);
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for text in ["", "1a", "a b", "a{", "a{b}", "a{b=c}", "a{b=\"c\"", "a{b=\"c\"}d", "a{b=\"c\\", "{a=\"b\"}"] {
            assert!(SeriesSelector::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_label_value_is_found(value in any::<String>()) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            // A line ends at a line feed only, but `lines` also removes a carriage return before it.
            let text = format!("other{{a=\"{escaped}\"}} 1\nname{{x=\"y\",a=\"{escaped}\"}} 2\n");
            let selector = SeriesSelector { name: "name".into(), labels: vec![("a".into(), value)] };
            prop_assert_eq!(selector.sum(&text).map(|found| found.sum), Some(2.0));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = SeriesSelector::parse(&text);
            let _ = SeriesSelector::parse("name").unwrap().sum(&format!("name{text}"));
        }
    }
}
