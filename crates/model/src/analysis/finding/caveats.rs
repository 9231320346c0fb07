//! Caveats that limit the interpretation of a cell's result, from samples that workloads record for this purpose. They
//! do not affect the verdicts of the trials.

use crate::stats::statistics::median;
use crate::values::record::TrialRecord;

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

/// Returns the caveats of the counted trials of a cell.
pub(super) fn caveats(counted: &[&&TrialRecord]) -> Vec<String> {
    let series = |name: &str| -> Vec<f64> {
        let samples = counted.iter().flat_map(|record| &record.outcome.samples);
        samples.filter(|sample| sample.series == name).map(|sample| sample.value).collect()
    };
    CAVEATS.iter().filter_map(|(name, words)| words(median(&series(name))?)).collect()
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
