//! How much slower a command is with less DRAM, and how much it needs to be as fast as with all of it. Takes what a plan of
//! budgets measured; must not know how a budget is kept.

use serde::Serialize;

use crate::comparison::Comparison;
use crate::plan::Cell;
use crate::units::Bytes;
use crate::workload::Better;

/// A command's speed against its DRAM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeAnswer {
    /// What it held at most when nothing bounded it: its own memory, without files that the kernel keeps for it.
    pub need: Bytes,
    /// How much slower it may be to count as fast, percent.
    pub within_percent: f64,
    /// The budgets, smallest first, steered before plain.
    pub points: Vec<SizePoint>,
    /// The smallest steered budget from which on it is fast; none where no measured one is.
    pub enough: Option<Bytes>,
}

/// One budget.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizePoint {
    /// Bytes of DRAM.
    pub dram: Bytes,
    /// Whether swap was steered.
    pub steered: bool,
    /// How much longer it took than with all its memory near, percent; with a 95 % interval.
    pub slower_percent: f64,
    /// Its lower end.
    pub ci_low: Option<f64>,
    /// Its upper end.
    pub ci_high: Option<f64>,
}

impl SizePoint {
    fn is_within(&self, percent: f64) -> bool {
        self.steered && self.ci_high.is_some_and(|high| high <= percent)
    }
}

impl SizeAnswer {
    /// From the comparison of a plan's cells with the one without a budget.
    pub fn of(cells: &[Cell], comparison: &Comparison, need: Bytes, within_percent: f64) -> Self {
        let row = comparison.rows.iter().find(|row| row.main);
        let mut points: Vec<SizePoint> = cells
            .iter()
            .filter_map(|cell| {
                let (budget, row) = (cell.placement.budget?, row?);
                let value = row.values.get(&cell.placement.name)?;
                let slower = |change: f64| match row.better {
                    Better::Lower => change,
                    // A rate of half is twice the time.
                    Better::Higher => 100.0 * (1.0 / (1.0 + change / 100.0) - 1.0),
                };
                let (low, high) = match row.better {
                    Better::Lower => (value.ci_low, value.ci_high),
                    Better::Higher => (value.ci_high, value.ci_low),
                };
                Some(SizePoint {
                    dram: budget.dram,
                    steered: budget.steered,
                    slower_percent: slower(value.change_percent?),
                    ci_low: low.map(slower),
                    ci_high: high.map(slower),
                })
            })
            .collect();
        points.sort_by_key(|point| (point.dram, !point.steered));
        let steered = || points.iter().filter(|point| point.steered).rev();
        let enough = steered().take_while(|point| point.is_within(within_percent)).last().map(|point| point.dram);
        Self { need, within_percent, points, enough }
    }

    /// The answer in a sentence.
    pub fn sentence(&self) -> String {
        let Self { need, within_percent, enough, .. } = self;
        match enough {
            Some(enough) if enough.0 < need.0 => format!(
                "it holds {need} and needs {enough} of DRAM to be within {within_percent} % of full speed: {} less",
                Bytes(need.0 - enough.0)
            ),
            Some(enough) => format!(
                "it holds {need} and is within {within_percent} % of full speed with {enough} of DRAM, not with less"
            ),
            None => {
                format!("it holds {need}; with none of these budgets is it within {within_percent} % of full speed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::comparison::{ComparedValue, ComparisonRow};
    use crate::placement::{DramBudget, Placement};
    use crate::workload::Parameters;

    /// Budgets in GiB, whether steered, change in percent with its interval.
    fn answer(better: Better, points: &[(u64, bool, f64, f64, f64)]) -> SizeAnswer {
        let mut values = BTreeMap::new();
        let mut cells = Vec::new();
        for (gib, steered, change, low, high) in points {
            let budget = DramBudget { dram: Bytes(gib << 30), steered: *steered };
            let name = format!("kernel+{}", budget.name());
            let placement = Placement { name: name.clone(), budget: Some(budget), ..Placement::kernel(1) };
            let (workload, test, parameters) = ("command".to_string(), "command".to_string(), Parameters::default());
            cells.push(Cell { key: name.clone(), workload, test, parameters, placement });
            let value = ComparedValue {
                median: 1.0,
                change_percent: Some(*change),
                ci_low: Some(*low),
                ci_high: Some(*high),
                difference: None,
                p_value: None,
                samples: 3,
            };
            values.insert(name, value);
        }
        let row = ComparisonRow {
            test: "command".into(),
            metric: "time".into(),
            unit: "s".into(),
            better,
            main: true,
            threads: None,
            values,
        };
        let comparison = Comparison {
            by: "placement".into(),
            baseline: "kernel".into(),
            columns: Vec::new(),
            rows: vec![row],
            geomean: Vec::new(),
            notes: Vec::new(),
        };
        SizeAnswer::of(&cells, &comparison, Bytes(4 << 30), 5.0)
    }

    #[test]
    fn the_smallest_budget_from_which_on_it_is_fast_is_enough() {
        let found = answer(
            Better::Lower,
            &[
                (1, true, 80.0, 70.0, 90.0),
                (2, true, 2.0, 1.0, 4.0),
                (3, true, 1.0, -1.0, 3.0),
                (2, false, 300.0, 280.0, 310.0),
            ],
        );
        assert_eq!(found.enough, Some(Bytes(2 << 30)));
        assert!(
            found.sentence().contains("needs 2GiB of DRAM to be within 5 % of full speed: 2GiB less"),
            "{}",
            found.sentence()
        );
        let order: Vec<_> = found.points.iter().map(|point| (point.dram.0 >> 30, point.steered)).collect();
        assert_eq!(order, [(1, true), (2, true), (2, false), (3, true)]);
    }

    #[test]
    fn a_lucky_small_budget_below_a_slow_one_is_not_enough() {
        let found =
            answer(Better::Lower, &[(1, true, 2.0, 1.0, 4.0), (2, true, 30.0, 20.0, 40.0), (3, true, 1.0, 0.0, 2.0)]);
        assert_eq!(found.enough, Some(Bytes(3 << 30)));
        let none = answer(Better::Lower, &[(1, true, 2.0, -9.0, 14.0), (2, false, 0.0, -1.0, 1.0)]);
        assert_eq!(none.enough, None, "an interval that is too wide proves nothing, nor does plain swap");
    }

    #[test]
    fn half_the_rate_is_twice_the_time() {
        let found = answer(Better::Higher, &[(1, true, -50.0, -60.0, -40.0)]);
        let point = &found.points[0];
        assert!((point.slower_percent - 100.0).abs() < 1e-9);
        assert!((point.ci_low.unwrap() - 66.666).abs() < 0.01 && (point.ci_high.unwrap() - 150.0).abs() < 1e-9);
    }
}
