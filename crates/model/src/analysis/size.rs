//! Slowdown of a command with less DRAM, and the DRAM that it needs to be as fast as without a limit. Uses the results
//! of a plan with budgets; must not enforce them.

use serde::Serialize;

use crate::stats::statistics::TRIALS_MIN;
use crate::values::comparison::{Comparison, ComparisonRow};
use crate::values::plan::{Cell, Plan, SizePlan};
use crate::values::program::program_name;
use crate::values::units::Bytes;
use crate::values::workload::{Better, Value};

/// Speed of a command by budget of DRAM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeAnswer {
    /// Name of the program that has the limit, the server if there is one.
    pub program: String,
    /// Name of the metric that shows the slowdown.
    pub metric: String,
    /// As in [`SizePlan`].
    pub need: Bytes,
    /// As in [`SizePlan`].
    pub within_percent: f64,
    /// The budgets, smallest first, managed before plain.
    pub points: Vec<SizePoint>,
    /// The smallest managed budget such that it and all larger ones are fast enough; `None` if no measured budget is.
    /// If only plain swap was measured, the smallest plain one.
    pub enough: Option<Bytes>,
    /// The smallest plain budget such that it and all larger ones are fast enough.
    pub enough_plain: Option<Bytes>,
    /// Difference between its memory and the sufficient budget; `None` if nothing is saved.
    pub saves: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizePoint {
    pub dram: Bytes,
    pub steered: bool,
    /// Increase of the time compared with unlimited DRAM, in percent, with a 95 % interval.
    pub slower_percent: f64,
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
}

impl SizePoint {
    fn is_within(&self, percent: f64) -> bool {
        self.ci_high.is_some_and(|high| high <= percent)
    }

    fn is_slower(&self, percent: f64) -> bool {
        self.ci_low.is_some_and(|low| low > percent)
    }
}

impl SizeAnswer {
    /// Returns the result from the comparison with the unlimited cell. `None` if the plan has another purpose.
    pub fn of(plan: &Plan, comparison: &Comparison) -> Option<Self> {
        let SizePlan { need, within_percent } = plan.size?;
        let row = comparison.rows.iter().find(|row| row.main);
        let points = plan.cells.iter().filter_map(|cell| point(cell, row?));
        let mut points: Vec<SizePoint> = points.collect();
        points.sort_by_key(|point| (point.dram, !point.steered));
        let smallest = |steered: bool| {
            let own = points.iter().filter(|point| point.steered == steered).rev();
            own.take_while(|point| point.is_within(within_percent)).last().map(|point| point.dram)
        };
        let enough_plain = smallest(false);
        let enough = if is_steered(&points) { smallest(true) } else { enough_plain };
        let saves = enough.map(|enough| Bytes(need.0.saturating_sub(enough.0))).filter(|saved| saved.0 > 0);
        let metric = row.map(|row| row.metric.clone()).unwrap_or_default();
        Some(Self { program: program(plan), metric, need, within_percent, points, enough, enough_plain, saves })
    }

    /// Describes the result in one sentence.
    pub fn sentence(&self) -> String {
        let Self { program, need, within_percent, enough, saves, .. } = self;
        let swap = if is_steered(&self.points) { "" } else { " with the kernel's own swap" };
        let is_open = self.is_open(is_steered(&self.points), *enough);
        match (enough, saves) {
            _ if self.points.is_empty() => format!("{program} uses {need}; no trial with a budget is valid"),
            _ if self.points.iter().all(|point| point.ci_high.is_none()) => {
                format!(
                    "{program} uses {need}; too few runs to determine which budgets are sufficient: at least {TRIALS_MIN} are required"
                )
            }
            (Some(enough), Some(saves)) => format!(
                "{program} uses {need} and needs {}{enough} of DRAM{swap} to be within {within_percent} % of full speed; that \
                 saves {saves}, {:.0} % of its memory",
                if is_open { "at most " } else { "" },
                100.0 * saves.0 as f64 / need.0.max(1) as f64
            ),
            (Some(enough), None) => format!(
                "{program} uses {need} and is within {within_percent} % of full speed{swap} with {enough} of DRAM{}",
                if is_open { "; whether less is sufficient is unresolved" } else { ", but not with less" },
            ),
            (None, _) if is_open => format!(
                "{program} uses {need}; its runs vary too much to determine whether one of these budgets is within \
                 {within_percent} % of full speed{swap}: more runs (-r) may show it"
            ),
            (None, _) => format!(
                "{program} uses {need}; with none of these budgets is it within {within_percent} % of full speed{swap}"
            ),
        }
    }

    /// Describes the budget that the kernel's own swap needs, if it was measured together with managed swap.
    pub fn plain_sentence(&self) -> Option<String> {
        let has_plain = self.points.iter().any(|point| !point.steered && point.ci_high.is_some());
        let is_both = is_steered(&self.points) && has_plain;
        is_both.then(|| match (self.enough_plain, self.is_open(false, self.enough_plain)) {
            (Some(enough), false) => format!("with the kernel's own swap it needs {enough}"),
            (Some(enough), true) => format!("with the kernel's own swap it needs at most {enough}"),
            (None, false) => "with the kernel's own swap none of these budgets is sufficient".into(),
            (None, true) => "with the kernel's own swap it is unresolved whether one of them is sufficient".into(),
        })
    }

    /// Whether a smaller budget may be sufficient, too: the interval of the next smaller one does not exclude it.
    fn is_open(&self, steered: bool, enough: Option<Bytes>) -> bool {
        let own = self.points.iter().filter(|point| point.steered == steered);
        let next = own.rev().find(|point| enough.is_none_or(|enough| point.dram < enough));
        next.is_some_and(|point| !point.is_slower(self.within_percent))
    }
}

/// Returns the name of the program that has the limit.
fn program(plan: &Plan) -> String {
    let words = |name: &str| match plan.cells.first()?.parameters.0.get(name)? {
        Value::Text(text) => serde_json::from_str::<Vec<String>>(text).ok(),
        _ => None,
    };
    let argv = words("server").or_else(|| words("argv")).unwrap_or_default();
    program_name(&argv).to_string()
}

fn is_steered(points: &[SizePoint]) -> bool {
    points.iter().any(|point| point.steered)
}

fn point(cell: &Cell, row: &ComparisonRow) -> Option<SizePoint> {
    let budget = cell.placement.budget?;
    let value = row.values.get(&cell.placement.name)?;
    let slower = |change: f64| match row.better {
        Better::Lower => change,
        // Half the rate is twice the time.
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
}

/// Returns the measured memory of exactly this command with exactly this server; `None` if the plan measured another
/// one.
pub fn need_of(plan: &Plan, argv: &[String], server: Option<&[String]>) -> Option<Bytes> {
    let text = |words: &[String]| serde_json::json!(words).to_string();
    let parameters = &plan.cells.first()?.parameters.0;
    // Without a server, the parameter is empty or, in results of earlier versions, missing.
    let is = |name: &str, wanted: String| match parameters.get(name) {
        Some(Value::Text(measured)) => *measured == wanted,
        _ => wanted.is_empty(),
    };
    let is_same = is("argv", text(argv)) && is("server", server.map_or(String::new(), text));
    plan.size.filter(|_| is_same).map(|size| size.need)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::values::comparison::{ComparedValue, ComparisonRow};
    use crate::values::placement::{DramBudget, Placement};
    use crate::values::plan::StoppingRule;
    use crate::values::units::Nanos;
    use crate::values::workload::Parameters;

    /// Budgets in GiB, whether steered, change in percent with its interval.
    fn answer(better: Better, points: &[(u64, bool, f64, f64, f64)]) -> SizeAnswer {
        let mut values = BTreeMap::new();
        let mut cells = Vec::new();
        for (gib, steered, change, low, high) in points {
            let budget = DramBudget { dram: Bytes(gib << 30), steered: *steered, compressed: false };
            let name = format!("kernel+{}", budget.name());
            let placement = Placement { name: name.clone(), budget: Some(budget), ..Placement::kernel(1) };
            let (workload, test) = ("command".to_string(), "command".to_string());
            let argv = Value::Text(r#"["setpriv", "--reuid=web", "app"]"#.into());
            let parameters = Parameters([("argv".to_string(), argv)].into());
            cells.push(Cell {
                key: name.clone(),
                workload,
                test,
                parameters,
                placement,
                main: None,
                outside_means: false,
            });
            let value = ComparedValue {
                median: 1.0,
                change_percent: Some(*change),
                ci_low: Some(*low),
                ci_high: Some(*high),
                replication: None,
                difference: None,
                p_value: None,
                samples: 3,
                suspect: 0,
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
            baselines: BTreeMap::new(),
            machines: BTreeMap::new(),
            columns: Vec::new(),
            rows: vec![row],
            geomean: Vec::new(),
            efficiency: Vec::new(),
            notes: Vec::new(),
            stamp: crate::values::stamp::Stamp::default(),
        };
        let plan = plan(cells);
        assert_eq!(SizeAnswer::of(&Plan { size: None, ..plan.clone() }, &comparison), None, "another purpose");
        SizeAnswer::of(&plan, &comparison).expect("the plan measures budgets")
    }

    fn plan(cells: Vec<Cell>) -> Plan {
        let second = Nanos(1_000_000_000);
        Plan {
            experiment: "size".into(),
            question: String::new(),
            cells,
            skipped: Vec::new(),
            workloads: Vec::new(),
            repeat: StoppingRule { warmup: 0, min: 3, max: 3, precision: 0.0, budget: second, time_limit: second },
            compare_by: "placement".into(),
            baseline: Some("kernel".into()),
            efficiency: Vec::new(),
            budget_wins: false,
            race: None,
            size: Some(SizePlan { need: Bytes(4 << 30), within_percent: 5.0 }),
            gate: None,
            command: Vec::new(),
        }
    }

    #[test]
    fn single_runs_do_not_show_which_budgets_are_sufficient() {
        let mut found = answer(Better::Lower, &[(4, true, 1.0, 0.5, 1.5)]);
        assert!(!found.sentence().contains("too few runs"), "{}", found.sentence());
        (found.points[0].ci_high, found.enough) = (None, None);
        assert_eq!(
            found.sentence(),
            "app uses 4GiB; too few runs to determine which budgets are sufficient: at least 3 are required"
        );
    }

    #[test]
    fn smallest_budget_above_which_all_are_fast_is_sufficient() {
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
            found
                .sentence()
                .contains("needs 2GiB of DRAM to be within 5 % of full speed; that saves 2GiB, 50 % of its memory"),
            "{}",
            found.sentence()
        );
        assert_eq!((found.saves, found.enough_plain), (Some(Bytes(2 << 30)), None));
        let plain = found.plain_sentence().expect("both were measured");
        assert!(plain.contains("none of these budgets is sufficient"), "{plain}");
        let order: Vec<_> = found.points.iter().map(|point| (point.dram.0 >> 30, point.steered)).collect();
        assert_eq!(order, [(1, true), (2, true), (2, false), (3, true)]);
    }

    #[test]
    fn fast_budget_below_a_slow_one_is_not_sufficient() {
        let found =
            answer(Better::Lower, &[(1, true, 2.0, 1.0, 4.0), (2, true, 30.0, 20.0, 40.0), (3, true, 1.0, 0.0, 2.0)]);
        assert_eq!(found.enough, Some(Bytes(3 << 30)));
        let none = answer(Better::Lower, &[(1, true, 2.0, -9.0, 14.0), (2, false, 0.0, -1.0, 1.0)]);
        assert_eq!(none.enough, None, "neither a wide interval nor plain swap is sufficient");
    }

    #[test]
    fn budgets_with_wide_intervals_are_unresolved() {
        let wide = answer(Better::Lower, &[(8, true, 3.0, -30.0, 51.0), (8, false, -1.0, -31.0, 50.0)]);
        assert!(wide.sentence().contains("vary too much"), "{}", wide.sentence());
        assert!(wide.plain_sentence().expect("both").contains("unresolved"), "{:?}", wide.plain_sentence());
        let slow = answer(Better::Lower, &[(1, true, 9.0, -5.0, 40.0), (2, true, 30.0, 20.0, 40.0)]);
        assert!(slow.sentence().contains("with none of these budgets"), "{}", slow.sentence());
        let steps =
            [(1, true, 9.0, 3.0, 15.0), (2, true, 2.0, 1.0, 4.0), (1, false, 6.0, 2.0, 9.0), (2, false, 1.0, 0.0, 2.0)];
        let some = answer(Better::Lower, &steps);
        assert!(some.sentence().contains("needs at most 2GiB of DRAM"), "{}", some.sentence());
        assert!(some.plain_sentence().expect("both").ends_with("needs at most 2GiB"), "{:?}", some.plain_sentence());
        let all = answer(Better::Lower, &[(2, true, 9.0, 3.0, 15.0), (4, true, 1.0, 0.0, 2.0)]);
        assert!(all.sentence().ends_with("whether less is sufficient is unresolved"), "{}", all.sentence());
    }

    #[test]
    fn plain_swap_alone_gives_the_answer() {
        let found = answer(Better::Lower, &[(2, false, 2.0, 1.0, 4.0), (4, false, 1.0, 0.0, 2.0)]);
        assert_eq!((found.enough, found.plain_sentence()), (Some(Bytes(2 << 30)), None));
        assert!(found.sentence().contains("needs 2GiB of DRAM with the kernel's own swap"), "{}", found.sentence());
        let all = answer(Better::Lower, &[(4, true, 1.0, 0.0, 2.0)]);
        assert!(
            all.saves.is_none() && all.sentence().contains("with 4GiB of DRAM, but not with less"),
            "{}",
            all.sentence()
        );
        let nothing = answer(Better::Lower, &[]);
        assert!(nothing.sentence().ends_with("no trial with a budget is valid"), "{}", nothing.sentence());
    }

    #[test]
    fn memory_of_a_command_is_known_for_the_same_command_line_only() {
        let argv = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        let written = serde_json::json!(["xz", "-k", "a b"]).to_string();
        let parameters = Parameters([("argv".to_string(), Value::Text(written))].into());
        let (key, workload, test) = ("k".to_string(), "command".to_string(), "command".to_string());
        let plan = plan(vec![Cell {
            key,
            workload,
            test,
            parameters,
            placement: Placement::kernel(1),
            main: None,
            outside_means: false,
        }]);
        assert_eq!(need_of(&plan, &argv(&["xz", "-k", "a b"]), None), Some(Bytes(4 << 30)));
        assert_eq!(need_of(&plan, &argv(&["xz", "-k", "a", "b"]), None), None);
        assert_eq!(need_of(&plan, &argv(&["xz", "-k", "a b"]), Some(&argv(&["server"]))), None);
        let mut served = plan.clone();
        let server = serde_json::json!(["server", "-p", "1"]).to_string();
        served.cells[0].parameters.0.insert("server".into(), Value::Text(server));
        let need = |server: Option<&[String]>| need_of(&served, &argv(&["xz", "-k", "a b"]), server);
        assert_eq!(need(Some(&argv(&["server", "-p", "1"]))), Some(Bytes(4 << 30)));
        assert_eq!(need(Some(&argv(&["server", "-p", "2"]))), None);
        assert_eq!(need(None), None);
        assert_eq!(need_of(&Plan { size: None, ..plan }, &argv(&["xz", "-k", "a b"]), None), None);
    }

    #[test]
    fn half_the_rate_is_twice_the_time() {
        let found = answer(Better::Higher, &[(1, true, -50.0, -60.0, -40.0)]);
        let point = &found.points[0];
        assert!((point.slower_percent - 100.0).abs() < 1e-9);
        assert!((point.ci_low.unwrap() - 66.666).abs() < 0.01 && (point.ci_high.unwrap() - 150.0).abs() < 1e-9);
    }
}
