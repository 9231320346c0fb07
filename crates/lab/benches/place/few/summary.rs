//! Tables and targets of the answers of few trials. Must not know how answers are computed.

use model::analysis::place::Claim;
use model::stats::racing::Confirmation;
use model::stats::search::Missed;

use super::BUDGETS;
use super::truth::{Group, Kind};
use crate::table::quantile;

/// The answer of one method in one run, for one budget.
pub struct Answer {
    pub group: Group,
    pub kind: Kind,
    pub method: Method,
    pub budget: usize,
    /// Distance from the best candidate (logarithm).
    pub regret: f64,
    /// True difference to the baseline (logarithm).
    pub change: f64,
    /// The distance of the final answer from the best candidate (logarithm), and its stated bounds.
    pub stated: Option<(f64, Missed)>,
    pub confirmed: Option<Confirmation>,
    /// The claim, if there are pairs.
    pub claim: Option<Claim>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Search,
    Race,
    Random,
    Halving,
}

/// Name of a testbed, its number of candidates, its answers.
pub type Results = (&'static str, usize, Vec<Answer>);

const METHODS: [(Method, &str); 4] =
    [(Method::Search, "search"), (Method::Race, "race"), (Method::Random, "random"), (Method::Halving, "halving")];
const GROUPS: [Group; 5] = [Group::Product, Group::Structured, Group::Trees, Group::Wrong, Group::Nothing];

/// Targets for programs, in percent.
struct Target {
    budget: usize,
    /// Shares within 2 and 5 % of the best, for up to [`FEW_CANDIDATES`] candidates and for more.
    few: [f64; 2],
    many: [f64; 2],
    /// Share within 5 % in the worst kind.
    worst: f64,
    /// 99th percentile of regret.
    regret: f64,
}

const TARGETS: [Target; 4] = [
    Target { budget: 20, few: [72.0, 90.0], many: [72.0, 82.0], worst: 70.0, regret: f64::INFINITY },
    Target { budget: 40, few: [88.0, 97.0], many: [84.0, 92.0], worst: 85.0, regret: 15.0 },
    Target { budget: 60, few: [92.0, 98.0], many: [88.0, 95.0], worst: 90.0, regret: 8.0 },
    Target { budget: 100, few: [96.0, 99.5], many: [93.0, 98.0], worst: 96.0, regret: 4.0 },
];
const FEW_CANDIDATES: usize = 450;
/// Fewer candidates do not show whether a search finds anything.
const CANDIDATES_MIN: usize = 30;
/// Name, and minimum and maximum number of candidates, of the machines with a common target.
const FIELDS: [(&str, usize, usize); 2] =
    [("up to 450 candidates", CANDIDATES_MIN, FEW_CANDIDATES), ("more candidates", FEW_CANDIDATES + 1, usize::MAX)];

/// Prints all results. Returns true if the targets are met.
pub fn print(results: &[Results], brief: bool) -> bool {
    for (name, candidates, answers) in results {
        print_bed(name, *candidates, answers, brief);
    }
    print_methods(results);
    let mut met = true;
    println!("targets");
    for target in &TARGETS {
        met &= print_budget(results, target);
    }
    met & print_honesty(results)
}

fn print_bed(name: &str, candidates: usize, answers: &[Answer], brief: bool) {
    for group in GROUPS.into_iter().filter(|group| answers.iter().any(|one| one.group == *group)) {
        for (method, title) in METHODS {
            let of = |budget: usize| {
                let chosen: Vec<&Answer> = answers
                    .iter()
                    .filter(|one| one.group == group && one.method == method && one.budget == budget)
                    .collect();
                format!(
                    "{:>3.0}/{:>3.0}/{:>3.0} {:>5.1} {:>5.1}",
                    within(&chosen, 0.01),
                    within(&chosen, 0.02),
                    within(&chosen, 0.05),
                    regret_at(&chosen, 0.9),
                    regret_at(&chosen, 0.99)
                )
            };
            let budgets: Vec<String> = BUDGETS.into_iter().map(of).collect();
            println!("{name:20} {candidates:>5} {:10} {title:8} | {}", group.name(), budgets.join(" | "));
        }
    }
    if !brief {
        print_kinds(answers);
    }
}

/// The share within 2 and 5 % of each kind, and the share of runs in which the stated bound of the miss holds.
fn print_kinds(answers: &[Answer]) {
    let searches = || answers.iter().filter(|one| one.method == Method::Search);
    let mut kinds: Vec<Kind> = searches().map(|one| one.kind).collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let of = |budget: usize| {
            let chosen: Vec<&Answer> = searches().filter(|one| one.kind == kind && one.budget == budget).collect();
            let bound = bound_holds(chosen.iter().copied());
            format!("{:>3.0}/{:>3.0} {bound:>4.0}", within(&chosen, 0.02), within(&chosen, 0.05))
        };
        println!("    {:32} {}", format!("{kind:?}"), BUDGETS.map(of).join("  "));
    }
}

/// Returns the share of answers whose miss is not above its stated bound, in percent.
fn bound_holds<'a>(answers: impl Iterator<Item = &'a Answer>) -> f64 {
    let held: Vec<bool> =
        answers.filter_map(|one| one.stated.map(|(regret, missed)| regret.exp_m1() <= missed.bound90 + 1e-9)).collect();
    100.0 * held.iter().filter(|held| **held).count() as f64 / held.len().max(1) as f64
}

fn within(answers: &[&Answer], distance: f64) -> f64 {
    share_within(&answers.iter().map(|one| one.regret).collect::<Vec<_>>(), distance)
}

fn share_within(misses: &[f64], distance: f64) -> f64 {
    100.0 * misses.iter().filter(|miss| **miss <= distance).count() as f64 / misses.len().max(1) as f64
}

fn regret_at(answers: &[&Answer], at: f64) -> f64 {
    quantile(answers.iter().map(|one| 100.0 * one.regret).collect(), at)
}

fn print_target(name: &str, value: f64, is_met: bool) -> bool {
    println!("  {:6} {name}: {value:.1}", if is_met { "ok" } else { "MISSED" });
    is_met
}

/// Prints, for each method, the share of programs whose selected candidate is within 2 % and 5 % of the best.
fn print_methods(results: &[Results]) {
    for (name, least, most) in FIELDS {
        for (method, title) in METHODS {
            let of = |budget: usize| {
                let chosen = programs_of(method, results, budget, least, most);
                format!("{:>5.1}/{:>5.1}", within(&chosen, 0.02), within(&chosen, 0.05))
            };
            println!("{name:20} {title:8} {}", BUDGETS.map(of).join("  "));
        }
    }
}

/// The answers of searches for programs, on testbeds with this range of candidates.
fn programs(results: &[Results], budget: usize, least: usize, most: usize) -> Vec<&Answer> {
    programs_of(Method::Search, results, budget, least, most)
}

fn programs_of(method: Method, results: &[Results], budget: usize, least: usize, most: usize) -> Vec<&Answer> {
    let testbeds = results.iter().filter(|(_, candidates, _)| (least..=most).contains(candidates));
    let is_program = |one: &&Answer| matches!(one.group, Group::Product | Group::Structured);
    let fits = |one: &&Answer| one.budget == budget && one.method == method && is_program(one);
    testbeds.flat_map(|(_, _, answers)| answers.iter().filter(fits)).collect()
}

fn print_budget(results: &[Results], target: &Target) -> bool {
    let Target { budget, few, many, worst, regret } = *target;
    let mut met = true;
    for ((name, least, most), targets) in FIELDS.into_iter().zip([few, many]) {
        let chosen = programs(results, budget, least, most);
        if chosen.is_empty() {
            continue;
        }
        println!("         {budget} trials, {name}: 90th percentile of regret {:.1} %", regret_at(&chosen, 0.9));
        for (distance, target) in [(2, targets[0]), (5, targets[1])] {
            let value = within(&chosen, f64::from(distance) / 100.0);
            met &= print_target(
                &format!("{budget} trials, {name}, {} runs, within {distance} % >= {target} %", chosen.len()),
                value,
                value >= target,
            );
        }
    }
    let chosen = programs(results, budget, CANDIDATES_MIN, usize::MAX);
    if chosen.is_empty() {
        return met;
    }
    let mut kinds: Vec<Kind> = chosen.iter().map(|one| one.kind).collect();
    kinds.sort();
    kinds.dedup();
    let of_kind = |kind: Kind| {
        let of: Vec<&Answer> = chosen.iter().copied().filter(|one| one.kind == kind).collect();
        within(&of, 0.05)
    };
    let lowest = kinds.into_iter().map(of_kind).fold(f64::INFINITY, f64::min);
    met &= print_target(&format!("{budget} trials, worst kind, within 5 % >= {worst} %"), lowest, lowest >= worst);
    if regret.is_finite() {
        let value = regret_at(&chosen, 0.99);
        let name = format!("{budget} trials, 99th percentile of regret <= {regret} %");
        met &= print_target(&name, value, value <= regret);
    }
    met
}

/// The distance of the answers from the best candidate. Unlike that of the leader, it includes gains that the pairs did not
/// confirm.
fn print_answers(of_programs: &[&Answer]) {
    let misses: Vec<f64> = of_programs.iter().filter_map(|one| one.stated.map(|(regret, _)| regret.exp_m1())).collect();
    let near = |distance: f64| share_within(&misses, distance);
    if !misses.is_empty() {
        println!("         answers within 2, 3, 5 %: {:.1}, {:.1}, {:.1} %", near(0.02), near(0.03), near(0.05));
    }
}

/// Coverage of the interval, false gains, and the stated miss.
fn print_honesty(results: &[Results]) -> bool {
    let searches: Vec<&Answer> =
        results.iter().flat_map(|(_, _, answers)| answers).filter(|one| one.method == Method::Search).collect();
    let mut met = true;
    for budget in BUDGETS {
        let chosen: Vec<&&Answer> = searches.iter().filter(|one| one.budget == budget).collect();
        let confirmed: Vec<(&Confirmation, f64)> =
            chosen.iter().filter_map(|one| Some((one.confirmed.as_ref()?, 100.0 * one.change.exp_m1()))).collect();
        let share = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
        let covers = confirmed.iter().filter(|(one, change)| one.ci_low <= *change && *change <= one.ci_high).count();
        let without_gain: Vec<&&&Answer> = chosen.iter().filter(|one| one.change >= -1e-9).collect();
        let claims = |of: &[&&&Answer], claim: Claim| of.iter().filter(|one| one.claim == Some(claim)).count();
        let stated: Vec<(f64, Missed)> =
            chosen.iter().filter_map(|one| one.stated.map(|(regret, missed)| (regret.exp_m1(), missed))).collect();
        let coverage = share(covers, confirmed.len());
        let name = format!("{budget} trials, {} intervals cover 93 to 97 %", confirmed.len());
        met &= print_target(&name, coverage, (93.0..=97.0).contains(&coverage));
        let value = share(claims(&without_gain, Claim::Better), without_gain.len());
        let name = format!("{budget} trials, false gains of {} runs <= 3 %", without_gain.len());
        met &= print_target(&name, value, value <= 3.0);
        let value = share(claims(&without_gain, Claim::Likely), without_gain.len());
        println!("         called a likely gain without any: {value:.1} %");
        let with_pairs: Vec<&&&Answer> = chosen.iter().filter(|one| one.claim.is_some()).collect();
        let [undecided, likely] =
            [Claim::Inconclusive, Claim::Likely].map(|claim| share(claims(&with_pairs, claim), with_pairs.len()));
        println!(
            "         of {} answers with pairs: {undecided:.1} % undecided, {likely:.1} % likely",
            with_pairs.len()
        );
        let value = bound_holds(chosen.iter().copied().copied());
        let name = format!("{budget} trials, stated bound of the miss holds in 88 to 96 %");
        met &= print_target(&name, value, (88.0..=96.0).contains(&value));
        print_answers(&programs(results, budget, CANDIDATES_MIN, usize::MAX));
        let mean = |of: &dyn Fn(&(f64, Missed)) -> f64| {
            100.0 * stated.iter().map(of).sum::<f64>() / stated.len().max(1) as f64
        };
        println!("         stated miss {:.1} % on average, true {:.1} %", mean(&|one| one.1.mean), mean(&|one| one.0));
    }
    met
}
