//! Caveats that limit the interpretation of a cell's result, from samples that workloads record for this purpose, and
//! from the order of the results. They do not affect the verdicts of the trials.

use super::MetricFinding;
use crate::stats::statistics::{autocorrelation, median};
use crate::values::trial::Sample;

/// A series of a workload, and a function that returns the caveat for its median, if any.
type Caveat = (&'static str, fn(f64) -> Option<String>);

/// Series that the workload `io` records.
const CAVEATS: [Caveat; 3] = [
    ("percent-of-memory", |percent| {
        let text = || {
            format!(
                "the file is {percent:.0} % of memory: requests may be served by the page cache instead of the disk"
            )
        };
        (percent < 100.0).then(text)
    }),
    ("unwritten-percent", |percent| {
        let text = || format!("{percent:.0} % of the file was never written: reading it does not access the disk");
        (percent > 0.0).then(text)
    }),
    ("virtual-disk", |is_virtual| {
        (is_virtual > 0.0).then(|| "the disk is virtual: its host may serve requests from memory".into())
    }),
];

/// Samples of the series with caveats, of the counted trials of a cell.
#[derive(Debug, Default)]
pub(super) struct CaveatSamples([Vec<f64>; CAVEATS.len()]);

impl CaveatSamples {
    pub(super) fn add(&mut self, samples: &[Sample]) {
        for ((name, _), series) in CAVEATS.iter().zip(&mut self.0) {
            series.extend(samples.iter().filter(|sample| sample.series == *name).map(|sample| sample.value));
        }
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        CAVEATS.iter().zip(&self.0).filter_map(|((_, words), series)| words(median(series)?)).collect()
    }
}

/// Returns the caveat of a metric whose successive trials resemble each other.
pub(super) fn autocorrelated(metric: &MetricFinding) -> Option<String> {
    let coefficient = autocorrelation(&metric.samples)?;
    let text = "the interval is about this run, and too narrow for what differs over time";
    Some(format!("{}: successive trials resemble each other (autocorrelation {coefficient:.1}): {text}", metric.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveats_depend_on_bounds_and_name_the_value() {
        let words = |name: &str, value: f64| CAVEATS.iter().find(|(own, _)| *own == name).unwrap().1(value);
        assert_eq!(words("percent-of-memory", 100.0), None);
        assert!(words("percent-of-memory", 4.2).unwrap().starts_with("the file is 4 % of memory"));
        assert_eq!(words("unwritten-percent", 0.0), None);
        assert!(words("unwritten-percent", 37.0).unwrap().starts_with("37 % of the file was never written"));
        assert!(words("virtual-disk", 1.0).is_some());
    }
}
