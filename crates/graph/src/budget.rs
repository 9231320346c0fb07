//! How much DRAM a graph may take whose TAIL lies elsewhere, and how many columns of HEAD fit into it.

use model::units::{Bytes, parse_share};

use crate::degrees::Steps;
use crate::error::Error;
use crate::head::Head;
use crate::index::Index;
use crate::layout::Layout;

/// Columns at most where nobody says how many: what DRAM is left is better used for lists of hubs, which are denser than columns.
pub(crate) const COLUMNS_CHOSEN_MAX: u32 = 32;

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

/// What a graph may take, and what it is a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// All lists, coded whole.
    pub coded: Bytes,
    /// What HEAD, index and lists of hubs may take.
    pub dram: Bytes,
}

impl Budget {
    /// The columns that were asked for, or the most that fit.
    pub(crate) fn columns(&self, steps: &Steps, asked: Option<u32>) -> Result<u32, Error> {
        let fits = |columns: &u32| bytes_with(steps, *columns) <= self.dram.0;
        let found = match asked {
            Some(columns) => Some(columns).filter(fits),
            None => (1..=COLUMNS_CHOSEN_MAX).rev().find(fits),
        };
        let columns = asked.unwrap_or(1);
        let needed = Bytes(bytes_with(steps, columns));
        found.ok_or(Error::Dram { asked: self.dram, needed, columns })
    }

    /// What these leave for lists of hubs.
    pub(crate) fn left(&self, head: &Head, index: &Index) -> u64 {
        self.dram.0.saturating_sub((head.bytes() + index.bytes()) as u64)
    }
}

/// What HEAD and the index take at most with so many columns.
pub(crate) fn bytes_with(steps: &Steps, columns: u32) -> u64 {
    let rows: Vec<u32> = (0..columns).map(|column| steps.more_than(column)).collect();
    let end = Layout::columns_at(&rows).last().copied().unwrap_or(0);
    let width = Head::width(steps.ranks());
    // Differences take a quarter of a byte more than the bytes of the largest, and their number three.
    let long = (f64::from(u8::MAX) - 3.0) / (width as f64 + 0.25);
    let long = steps.more_than(columns + long as u32 - 1);
    Head::bytes_for(end, width) + Index::bytes_for(steps.more_than(columns) as usize, long as usize)
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
