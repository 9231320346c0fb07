//! What makes a cell's result say less than it seems to, from samples that workloads keep for that and that are no metrics.
//! The trials are worth what their verdicts say all the same: they measured what was asked.

use crate::stats::statistics::median;
use crate::values::record::TrialRecord;

/// A series of a workload, what its median must not be, and the words with it.
type Caveat = (&'static str, fn(f64) -> Option<String>);

/// Series that `io` keeps.
const CAVEATS: [Caveat; 3] = [
    ("percent-of-memory", |percent| {
        let words = || format!("the file is {percent:.0} % of memory: the page cache may answer and not the disk");
        (percent < 100.0).then(words)
    }),
    ("unwritten-percent", |percent| {
        let words = || format!("{percent:.0} % of the file were never written: no disk is asked for them");
        (percent > 0.0).then(words)
    }),
    ("virtual-disk", |is_virtual| {
        (is_virtual > 0.0).then(|| "the disk is virtual: its host may answer from memory".into())
    }),
];

/// Those of the counted trials of a cell.
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
    fn each_caveat_has_its_bound_and_its_number() {
        let words = |name: &str, value: f64| CAVEATS.iter().find(|(own, _)| *own == name).unwrap().1(value);
        assert_eq!(words("percent-of-memory", 100.0), None);
        assert!(words("percent-of-memory", 4.2).unwrap().starts_with("the file is 4 % of memory"));
        assert_eq!(words("unwritten-percent", 0.0), None);
        assert!(words("unwritten-percent", 37.0).unwrap().starts_with("37 % of the file were never written"));
        assert!(words("virtual-disk", 1.0).is_some());
    }
}
