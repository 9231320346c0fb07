//! Samples of a row in one column, with what pairs them: the run and the block in which they were measured.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::ColumnValue;
use super::history::{CellState, History};
use crate::analysis::finding::MetricFinding;

/// A sample with its origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSample {
    /// Index of the run; samples of different runs are never paired.
    pub(super) run: usize,
    pub(super) block: u32,
    pub(super) value: f64,
    pub(super) is_suspect: bool,
}

/// All samples of a row in one column.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnSamples {
    samples: Vec<BlockSample>,
    /// Cells of the samples, whose other runs are their history. Empty for imported samples.
    pub(super) cells: BTreeSet<CellState>,
}

impl ColumnSamples {
    pub(super) fn of(entries: &[&ColumnValue<'_>], history: &History<'_>) -> Self {
        let samples = entries.iter().flat_map(|entry| Self::of_metric(entry.run, entry.metric).samples).collect();
        Self { samples, cells: entries.iter().map(|entry| history.cell(entry)).collect() }
    }

    /// Samples of one run with their blocks.
    pub(super) fn of_metric(run: usize, metric: &MetricFinding) -> Self {
        let suspect = metric.suspect.iter().copied().chain(std::iter::repeat(false));
        let values = metric.blocks.iter().zip(&metric.samples).zip(suspect);
        let sample = |((block, value), is_suspect): ((&u32, &f64), bool)| BlockSample {
            run,
            block: *block,
            value: *value,
            is_suspect,
        };
        Self { samples: values.map(sample).collect(), cells: BTreeSet::new() }
    }

    /// Samples of another program, in the order of its repetitions. `run` must differ from that of all other columns.
    pub(super) fn of_program(run: usize, values: &[f64]) -> Self {
        let sample = |(block, value): (u32, &f64)| BlockSample { run, block, value: *value, is_suspect: false };
        Self { samples: (0..).zip(values).map(sample).collect(), cells: BTreeSet::new() }
    }

    pub(super) fn values(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.value).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Number of samples of suspect trials.
    pub(super) fn suspect(&self) -> usize {
        self.samples.iter().filter(|sample| sample.is_suspect).count()
    }

    pub(super) fn runs(&self) -> BTreeSet<usize> {
        self.samples.iter().map(|sample| sample.run).collect()
    }

    /// Returns the samples of each run in their order.
    pub(super) fn by_run(&self) -> BTreeMap<usize, Vec<f64>> {
        let mut runs: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for sample in &self.samples {
            runs.entry(sample.run).or_default().push(sample.value);
        }
        runs
    }

    /// Returns the values of the baseline and of the candidate in the blocks that both have. `None` if the sides are not
    /// of the same runs, or a side has several samples of a block.
    pub(super) fn pairs(baseline: &Self, candidate: &Self) -> Option<(Vec<f64>, Vec<f64>)> {
        let (own, other) = (baseline.by_block()?, candidate.by_block()?);
        let mut own = own.iter().peekable();
        let pairs = other.iter().filter_map(|(block, value)| {
            while own.next_if(|(own_block, _)| own_block < block).is_some() {}
            own.next_if(|(own_block, _)| own_block == block).map(|(_, own_value)| (*own_value, *value))
        });
        let pairs: Vec<(f64, f64)> = pairs.collect();
        (baseline.runs() == candidate.runs() && !pairs.is_empty()).then(|| pairs.into_iter().unzip())
    }

    /// Returns the samples sorted by run and block; `None` if a block occurs twice.
    pub(super) fn by_block(&self) -> Option<Vec<((usize, u32), f64)>> {
        let mut blocks: Vec<((usize, u32), f64)> =
            self.samples.iter().map(|sample| ((sample.run, sample.block), sample.value)).collect();
        blocks.sort_by_key(|(block, _)| *block);
        blocks.windows(2).all(|pair| pair[0].0 != pair[1].0).then_some(blocks)
    }
}
