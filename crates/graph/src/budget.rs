//! Divides the DRAM budget of a graph whose tail lists are outside DRAM.

use model::values::units::{Bytes, parse_share};

use crate::degrees::DegreeRuns;
use crate::error::Error;
use crate::head::HeadColumns;
use crate::index::Index;
use crate::layout::Layout;
use crate::prefixes::{LENGTH_MAX, PrefixCost, Prefixes};

/// Default number of columns. Most ranks find a parent in the first few, and a column is faster to read than a prefix.
pub(crate) const COLUMNS_CHOSEN: u32 = 4;

/// DRAM limit for the head columns, the index of the tail lists and the lists of hubs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dram {
    Bytes(Bytes),
    /// Percent of the size of all lists, fully encoded, without head columns.
    Percent(f64),
}

impl Dram {
    /// Parses a percentage such as `50%` or a size.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "invalid dram limit {text:?}: expected a percentage up to 100%, such as 12.5%, or a size, such as 64MiB"
            )
        };
        let read = if text.trim().ends_with('%') {
            parse_share(text).map(|share| Self::Percent(100.0 * share))
        } else {
            Bytes::parse(text).map(Self::Bytes)
        };
        read.map_err(|_| wrong())
    }

    /// Returns the limit in bytes for a graph whose encoded lists have this size.
    pub fn of(self, coded: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => Bytes((coded.0 as f64 * percent / 100.0) as u64),
        }
    }
}

/// The part of each list that is in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DramLayout {
    pub(crate) columns: u32,
    /// Maximum number of neighbours in a prefix, after those in the columns.
    pub(crate) beginnings: usize,
    pub(crate) coded: u64,
}

impl DramLayout {
    pub(crate) fn of_columns(columns: u32) -> Self {
        Self { columns, beginnings: 0, coded: 0 }
    }

    /// Returns the number of ranks whose list is not entirely in DRAM.
    pub(crate) fn lists(&self, steps: &DegreeRuns) -> usize {
        steps.more_than(self.columns + self.beginnings as u32) as usize
    }

    /// Returns the maximum size of the head columns, prefixes and index of the tail lists.
    pub(crate) fn bytes(&self, steps: &DegreeRuns) -> u64 {
        let rows: Vec<u32> = (0..self.columns).map(|column| steps.more_than(column)).collect();
        let end = Layout::columns_at(&rows).last().copied().unwrap_or(0);
        let width = HeadColumns::width(steps.ranks());
        // An encoded difference takes at most a quarter of a byte more than the width of the largest; the count takes
        // three bytes.
        let long = (f64::from(u8::MAX) - 3.0) / (width as f64 + 0.25);
        let long = steps.more_than(self.columns + long as u32 - 1);
        let index = Index::bytes_for(self.lists(steps), long as usize);
        let beginnings = match self.beginnings {
            0 => 0,
            _ => Prefixes::bytes_for(steps.more_than(self.columns) as usize, self.coded),
        };
        HeadColumns::bytes_for(end, width) + beginnings + index
    }
}

/// The DRAM limit of a graph and the size it is a percentage of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadBudget {
    pub coded: Bytes,
    /// Limit for the head columns, the index and the lists of hubs.
    pub dram: Bytes,
}

impl HeadBudget {
    /// Returns the layout with the requested number of columns, or the largest that fits. `begun` has the size of
    /// prefixes after [`COLUMNS_CHOSEN`] columns.
    pub(crate) fn shape(
        &self,
        steps: &DegreeRuns,
        asked: Option<u32>,
        begun: &PrefixCost,
    ) -> Result<DramLayout, Error> {
        let fits = |shape: &DramLayout| shape.bytes(steps) <= self.dram.0;
        let begins = |beginnings| DramLayout { columns: COLUMNS_CHOSEN, beginnings, coded: begun.bytes(beginnings) };
        let found = if let Some(columns) = asked {
            Some(DramLayout::of_columns(columns)).filter(fits)
        } else {
            let columns = (1..=COLUMNS_CHOSEN).rev().map(DramLayout::of_columns);
            (1..=LENGTH_MAX).rev().map(begins).chain(columns).find(fits)
        };
        let columns = asked.unwrap_or(1);
        let needed = Bytes(DramLayout::of_columns(columns).bytes(steps));
        found.ok_or(Error::Dram { asked: self.dram, needed, columns })
    }

    /// Returns the bytes that the head columns, prefixes and index leave for the lists of hubs.
    pub(crate) fn left(&self, steps: &DegreeRuns, shape: &DramLayout) -> u64 {
        self.dram.0.saturating_sub(shape.bytes(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dram_limits_are_parsed_from_text() {
        assert_eq!(Dram::parse("50%"), Ok(Dram::Percent(50.0)));
        assert_eq!(Dram::parse(" 12.5 %"), Ok(Dram::Percent(12.5)));
        assert_eq!(Dram::parse("64MiB"), Ok(Dram::Bytes(Bytes(64 << 20))));
        for wrong in ["", "%", "0%", "-3%", "101%", "NaN%", "inf%", "much"] {
            assert!(Dram::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Dram::Percent(12.5).of(Bytes(1000)), Bytes(125));
        assert_eq!(Dram::Bytes(Bytes(7)).of(Bytes(1000)), Bytes(7));
    }
}
