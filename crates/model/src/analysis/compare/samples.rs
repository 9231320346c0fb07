//! Samples of a row in one column, with what pairs them: the run and the block in which they were measured.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::ColumnValue;

/// A sample with its origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSample {
    /// Index of the run; samples of different runs are never paired.
    pub(super) run: usize,
    pub(super) block: u32,
    pub(super) value: f64,
}

/// All samples of a row in one column.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnSamples(pub(super) Vec<BlockSample>);

impl ColumnSamples {
    pub(super) fn of(entries: &[&ColumnValue<'_>]) -> Self {
        let of_entry =
            |entry: &&ColumnValue<'_>| Self::of_blocks(entry.run, &entry.metric.blocks, &entry.metric.samples).0;
        Self(entries.iter().flat_map(of_entry).collect())
    }

    /// Samples of one run with their blocks.
    pub(super) fn of_blocks(run: usize, blocks: &[u32], values: &[f64]) -> Self {
        let sample = |(block, value): (&u32, &f64)| BlockSample { run, block: *block, value: *value };
        Self(blocks.iter().zip(values).map(sample).collect())
    }

    /// Samples of another program, in the order of its repetitions. `run` must differ from that of all other columns.
    pub(super) fn of_program(run: usize, values: &[f64]) -> Self {
        let sample = |(block, value): (u32, &f64)| BlockSample { run, block, value: *value };
        Self((0..).zip(values).map(sample).collect())
    }

    pub(super) fn values(&self) -> Vec<f64> {
        self.0.iter().map(|sample| sample.value).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the values of the baseline and of the candidate in the blocks that both have. `None` if the sides are not
    /// of the same runs, or a side has several samples of a block.
    pub(super) fn pairs(baseline: &Self, candidate: &Self) -> Option<(Vec<f64>, Vec<f64>)> {
        let runs = |side: &Self| side.0.iter().map(|sample| sample.run).collect::<BTreeSet<usize>>();
        let (own, other) = (baseline.by_block()?, candidate.by_block()?);
        let pairs = other.iter().filter_map(|(block, value)| Some((*own.get(block)?, *value)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        (runs(baseline) == runs(candidate) && !pairs.is_empty()).then(|| pairs.into_iter().unzip())
    }

    /// Returns the samples by run and block; `None` if a block occurs twice.
    pub(super) fn by_block(&self) -> Option<BTreeMap<(usize, u32), f64>> {
        let blocks: BTreeMap<(usize, u32), f64> =
            self.0.iter().map(|sample| ((sample.run, sample.block), sample.value)).collect();
        (blocks.len() == self.0.len()).then_some(blocks)
    }
}
