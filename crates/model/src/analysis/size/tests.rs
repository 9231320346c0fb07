//! Tests of the answer of `nearfar size`.

use std::collections::BTreeMap;

use super::*;
use crate::analysis::finding::{BudgetFinding, MetricFinding};
use crate::values::comparison::{ComparedValue, ComparisonRow};
use crate::values::compressibility::{CompressedShare, KindShare};
use crate::values::placement::{DramBudget, Placement};
use crate::values::plan::StoppingRule;
use crate::values::units::Nanos;
use crate::values::workload::Parameters;

/// Budgets in GiB, whether steered, change in percent with its interval.
fn answer(better: Better, points: &[(u64, bool, f64, f64, f64)]) -> SizeAnswer {
    let uncompressed = |(gib, steered, change, low, high): &(u64, bool, f64, f64, f64)| {
        (*gib, tier(*steered, false), *change, *low, *high)
    };
    let points: Vec<_> = points.iter().map(uncompressed).collect();
    answer_in_tiers(better, &points)
}

fn tier(steered: bool, compressed: bool) -> SizeTier {
    SizeTier { steered, compressed }
}

/// As [`answer`], with the tier of each budget. Compressed pages use 300 MiB, and the command 2 s of CPU time, 1 s
/// without a limit; the controller takes 1 s.
fn answer_in_tiers(better: Better, points: &[(u64, SizeTier, f64, f64, f64)]) -> SizeAnswer {
    let (plan, comparison) = measured(better, points);
    SizeAnswer::of(&plan, &finding(&plan), &comparison).expect("the plan measures budgets")
}

fn measured(better: Better, points: &[(u64, SizeTier, f64, f64, f64)]) -> (Plan, Comparison) {
    let mut values = BTreeMap::new();
    let mut cells = vec![cell(Placement::kernel(1))];
    for (gib, tier, change, low, high) in points {
        let budget = DramBudget { dram: Bytes(gib << 30), steered: tier.steered, compressed: tier.compressed };
        let name = format!("kernel+{}", budget.name());
        cells.push(cell(Placement { name: name.clone(), budget: Some(budget), ..Placement::kernel(1) }));
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
    (plan(cells), comparison)
}

fn cell(placement: Placement) -> Cell {
    let argv = Value::Text(r#"["setpriv", "--reuid=web", "app"]"#.into());
    Cell {
        key: placement.name.clone(),
        workload: "command".into(),
        test: "command".into(),
        parameters: Parameters([("argv".to_string(), argv)].into()),
        placement,
        main: None,
        outside_means: false,
    }
}

fn finding(plan: &Plan) -> RunFinding {
    let cells = plan.cells.iter().map(|cell| {
        let budget = cell.placement.budget;
        let metric = MetricFinding {
            name: "cpu-time".into(),
            unit: "s".into(),
            better: Better::Lower,
            median: Some(if budget.is_some() { 2.0 } else { 1.0 }),
            ci_low: None,
            ci_high: None,
            best: None,
            mean: None,
            samples: Vec::new(),
            blocks: Vec::new(),
            trials: Vec::new(),
            suspect: Vec::new(),
        };
        let spent = |budget: DramBudget| BudgetFinding {
            // Kernels with compression report 0 for cells without it.
            compressed_dram: Some(Bytes(if budget.compressed { 300 << 20 } else { 0 })),
            controller_cpu: budget.steered.then_some(Nanos(1_000_000_000)),
        };
        CellFinding {
            placement: cell.placement.name.clone(),
            metrics: vec![metric],
            budget: budget.map(spent),
            ..CellFinding::default()
        }
    });
    RunFinding { cells: cells.collect(), skipped: Vec::new(), passes: false }
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
        size: Some(SizePlan { need: Bytes(4 << 30), within_percent: 5.0, compressibility: None }),
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
    let others = found.other_sentences();
    let [plain] = &others[..] else { panic!("one other tier: {others:?}") };
    assert!(plain.contains("none of these budgets is sufficient"), "{plain}");
    let order: Vec<_> = found.points.iter().map(|point| (point.dram.0 >> 30, point.tier.steered)).collect();
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
    assert!(wide.other_sentences()[0].contains("unresolved"), "{:?}", wide.other_sentences());
    let slow = answer(Better::Lower, &[(1, true, 9.0, -5.0, 40.0), (2, true, 30.0, 20.0, 40.0)]);
    assert!(slow.sentence().contains("with none of these budgets"), "{}", slow.sentence());
    let steps =
        [(1, true, 9.0, 3.0, 15.0), (2, true, 2.0, 1.0, 4.0), (1, false, 6.0, 2.0, 9.0), (2, false, 1.0, 0.0, 2.0)];
    let some = answer(Better::Lower, &steps);
    assert!(some.sentence().contains("needs at most 2GiB of DRAM"), "{}", some.sentence());
    assert!(some.other_sentences()[0].ends_with("needs at most 2GiB"), "{:?}", some.other_sentences());
    let all = answer(Better::Lower, &[(2, true, 9.0, 3.0, 15.0), (4, true, 1.0, 0.0, 2.0)]);
    assert!(all.sentence().ends_with("whether less is sufficient is unresolved"), "{}", all.sentence());
}

#[test]
fn plain_swap_alone_gives_the_answer() {
    let found = answer(Better::Lower, &[(2, false, 2.0, 1.0, 4.0), (4, false, 1.0, 0.0, 2.0)]);
    assert_eq!((found.enough, found.other_sentences()), (Some(Bytes(2 << 30)), Vec::new()));
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

#[test]
fn plans_with_another_purpose_have_no_answer() {
    let (plan, comparison) = measured(Better::Lower, &[(1, tier(true, false), 1.0, 0.0, 2.0)]);
    assert_eq!(SizeAnswer::of(&Plan { size: None, ..plan.clone() }, &finding(&plan), &comparison), None);
}

/// The tier that needs least is in the first sentence, the others follow.
#[test]
fn compressed_tier_is_the_answer_if_it_needs_less() {
    let points = [
        (1, tier(true, true), 3.0, 2.0, 4.0),
        (2, tier(true, true), 2.0, 1.0, 3.0),
        (1, tier(true, false), 30.0, 20.0, 40.0),
        (2, tier(true, false), 2.0, 1.0, 3.0),
        (1, tier(false, true), 30.0, 20.0, 40.0),
        (2, tier(false, true), 2.0, 1.0, 3.0),
        (1, tier(false, false), 90.0, 80.0, 95.0),
        (2, tier(false, false), 60.0, 50.0, 70.0),
    ];
    let found = answer_in_tiers(Better::Lower, &points);
    assert_eq!(
        found.sentence(),
        "app uses 4GiB and needs 1GiB of DRAM (compressed pages use 300MiB of it) to be within 5 % of full speed; that \
         saves 3GiB, 75 % of its memory"
    );
    let others = [
        "without compression it needs 2GiB",
        "with the kernel's own swap none of these budgets is sufficient",
        "with the kernel's own swap and compression it needs 2GiB",
    ];
    assert_eq!(found.other_sentences(), others);
    assert_eq!((found.enough, found.enough_plain), (Some(Bytes(1 << 30)), None));
    let order: Vec<_> = found.points.iter().take(4).map(|point| (point.tier.steered, point.tier.compressed)).collect();
    assert_eq!(order, [(true, false), (true, true), (false, false), (false, true)]);
}

#[test]
fn compressed_tier_is_not_the_answer_if_it_needs_as_much() {
    let points = [(1, tier(true, true), 3.0, 2.0, 4.0), (1, tier(true, false), 3.0, 2.0, 4.0)];
    let found = answer_in_tiers(Better::Lower, &points);
    assert!(found.sentence().contains("needs 1GiB of DRAM to be within"), "{}", found.sentence());
    assert_eq!(found.other_sentences(), ["with compression it needs 1GiB"]);
    let kernel = answer_in_tiers(Better::Lower, &[(1, tier(false, true), 3.0, 2.0, 4.0)]);
    let words = "needs 1GiB of DRAM with the kernel's own swap (compressed pages use 300MiB of it) to be within";
    assert!(kernel.sentence().contains(words), "{}", kernel.sentence());
}

#[test]
fn cost_in_cpu_time_includes_that_of_the_controller() {
    let points = [(1, tier(true, true), 3.0, 2.0, 4.0), (1, tier(false, false), 3.0, 2.0, 4.0)];
    let (mut plan, comparison) = measured(Better::Lower, &points);
    let found = SizeAnswer::of(&plan, &finding(&plan), &comparison).unwrap();
    let costs: Vec<_> = found.points.iter().map(|point| (point.compressed_dram, point.cpu_percent)).collect();
    assert_eq!(costs, [(Some(Bytes(300 << 20)), Some(200.0)), (None, Some(100.0))]);
    // The CPU time of a load is not that of its server.
    for cell in &mut plan.cells {
        cell.parameters.0.insert("server".into(), Value::Text(r#"["server"]"#.into()));
    }
    let found = SizeAnswer::of(&plan, &finding(&plan), &comparison).unwrap();
    assert!(found.points.iter().all(|point| point.cpu_percent.is_none()));
}

#[test]
fn compressibility_is_described_by_kind() {
    let mut found = answer(Better::Lower, &[(1, true, 3.0, 2.0, 4.0)]);
    assert_eq!(found.compressibility_sentence(), None);
    let share = |mib: u64, percent: f64| CompressedShare {
        bytes: Bytes(mib << 20),
        pages: 2048,
        percent,
        ci_low: percent - 3.0,
        ci_high: percent + 3.0,
        zero_percent: 12.4,
        incompressible_percent: 2.6,
    };
    let kind = |kind: &str, share| KindShare { kind: kind.into(), share };
    let kinds = vec![kind("anonymous", share(700, 38.0)), kind("heap", share(300, 60.0)), kind("stack", share(1, 9.0))];
    found.compressibility = Some(Compressibility { algorithm: "LZ4".into(), total: share(1001, 44.6), kinds });
    assert_eq!(
        found.compressibility_sentence().unwrap(),
        "near its peak, its memory compresses to 45 % (95 % interval 42 to 48 %) with LZ4; 700MiB of anonymous to 38 %, \
         300MiB of heap to 60 %; 12 % of its pages are zeros, 3 % do not compress"
    );
}
