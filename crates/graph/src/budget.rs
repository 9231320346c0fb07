//! How much DRAM a graph may take whose TAIL lies elsewhere, and how much of each list fits into it.

use model::values::units::{Bytes, parse_share};

use crate::degrees::DegreeRuns;
use crate::error::Error;
use crate::head::HeadColumns;
use crate::index::Index;
use crate::layout::Layout;
use crate::prefixes::{LENGTH_MAX, PrefixCost, Prefixes};

/// Columns where nobody says how many: in the first ones most ranks find a parent, and a column is quicker to look at than a beginning.
pub(crate) const COLUMNS_CHOSEN: u32 = 4;

/// What HEAD, the index of TAIL and lists of hubs may take together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dram {
    /// So many bytes.
    Bytes(Bytes),
    /// Percent of what all lists take when they are coded whole, without a HEAD.
    Percent(f64),
}

impl Dram {
    /// As people write it: `50%`, or a size.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("dram is a percentage up to 100%, such as 12.5%, or a size, such as 64MiB, and not {text:?}");
        let read = if text.trim().ends_with('%') {
            parse_share(text).map(|share| Self::Percent(100.0 * share))
        } else {
            Bytes::parse(text).map(Self::Bytes)
        };
        read.map_err(|_| wrong())
    }

    /// Of a graph whose lists take so much.
    pub fn of(self, coded: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => Bytes((coded.0 as f64 * percent / 100.0) as u64),
        }
    }
}

/// What of each list is in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DramLayout {
    pub(crate) columns: u32,
    /// Neighbours after those at most.
    pub(crate) beginnings: usize,
    pub(crate) coded: u64,
}

impl DramLayout {
    pub(crate) fn of_columns(columns: u32) -> Self {
        Self { columns, beginnings: 0, coded: 0 }
    }

    /// Ranks with a list that is not whole in DRAM by itself.
    pub(crate) fn lists(&self, steps: &DegreeRuns) -> usize {
        steps.more_than(self.columns + self.beginnings as u32) as usize
    }

    /// What HEAD, beginnings and the index of TAIL take at most.
    pub(crate) fn bytes(&self, steps: &DegreeRuns) -> u64 {
        let rows: Vec<u32> = (0..self.columns).map(|column| steps.more_than(column)).collect();
        let end = Layout::columns_at(&rows).last().copied().unwrap_or(0);
        let width = HeadColumns::width(steps.ranks());
        // Differences take a quarter of a byte more than the bytes of the largest, and their number three.
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

/// What a graph may take, and what it is a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadBudget {
    pub coded: Bytes,
    /// What HEAD, index and lists of hubs may take.
    pub dram: Bytes,
}

impl HeadBudget {
    /// The columns that were asked for, or as much as fits; `begun` are beginnings after [`COLUMNS_CHOSEN`].
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

    /// What HEAD, beginnings and index leave for lists of hubs.
    pub(crate) fn left(&self, steps: &DegreeRuns, shape: &DramLayout) -> u64 {
        self.dram.0.saturating_sub(shape.bytes(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_people_write_them() {
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
