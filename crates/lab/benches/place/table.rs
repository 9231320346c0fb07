//! Summarises outcomes in a table and compares them with the targets. Must not know how outcomes are computed.

use crate::noise::Weather;
use crate::rules::Found;
use model::stats::racing::ConfirmResult;

/// Relative distance from the best within which an answer counts as right.
const RIGHT: f64 = 0.01;

/// One seed of one world.
pub struct Outcome {
    pub truth: Vec<f64>,
    /// `None` if the race found no winner.
    pub found: Option<Found>,
    pub halving: Option<Found>,
}

pub struct Row {
    pub machine: String,
    pub program: String,
    pub candidates: usize,
    /// Number of trials to measure every candidate to 1 % relative to the baseline.
    pub exhaustive: f64,
    pub outcomes: Vec<Outcome>,
}

impl Outcome {
    fn best(&self) -> f64 {
        self.truth.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Relative distance of the winner from the best; infinite without a winner.
    fn regret(&self, found: Option<&Found>) -> f64 {
        found.map_or(f64::INFINITY, |found| self.truth[found.winner] - self.best())
    }

    /// Whether the reported interval covers the true effect; `None` if no interval was reported.
    fn covered(&self) -> Option<bool> {
        let found = self.found.as_ref()?;
        let confirmed = found.confirmed.as_ref()?;
        let truth = 100.0 * (self.truth[found.winner] - self.truth[0]).exp_m1();
        Some(confirmed.ci_low <= truth && truth <= confirmed.ci_high)
    }

    /// Whether it claims a gain that does not exist.
    fn false_gain(&self) -> bool {
        let claim = |found: &Found| found.confirmed.as_ref().is_some_and(|one| one.verdict == ConfirmResult::Faster);
        self.found.as_ref().is_some_and(|found| claim(found) && self.truth[found.winner] >= self.truth[0])
    }
}

impl Row {
    fn share(&self, of: impl Fn(&Outcome) -> bool) -> f64 {
        100.0 * self.outcomes.iter().filter(|outcome| of(outcome)).count() as f64 / self.outcomes.len() as f64
    }

    fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().map(of).sum::<f64>() / self.outcomes.len() as f64
    }

    fn mostly_ties(&self) -> bool {
        self.ties() > 50.0
    }

    /// Number of trials in percent of measuring every candidate.
    fn cost(&self, of: impl Fn(&Found) -> usize) -> f64 {
        let trials = self.mean(|outcome| outcome.found.as_ref().map_or(0.0, |found| of(found) as f64));
        100.0 * trials / self.exhaustive
    }

    fn right(&self) -> f64 {
        self.share(|outcome| outcome.regret(outcome.found.as_ref()) <= RIGHT)
    }

    fn halving_right(&self) -> f64 {
        self.share(|outcome| outcome.regret(outcome.halving.as_ref()) <= RIGHT)
    }

    fn halving_cost(&self) -> f64 {
        let trials = self.mean(|outcome| outcome.halving.as_ref().map_or(0.0, |found| found.all_trials as f64));
        100.0 * trials / self.exhaustive
    }

    /// Percentage of candidates within 1 % of the best.
    fn ties(&self) -> f64 {
        let ties = |outcome: &Outcome| {
            let near = outcome.truth.iter().filter(|value| **value - outcome.best() <= RIGHT).count();
            near as f64 / outcome.truth.len() as f64
        };
        100.0 * self.mean(ties)
    }
}

/// Number of blocks after which the difference of two equally noisy candidates is known to 1 %.
pub fn strict_blocks(noise: f64) -> usize {
    // With this many blocks, the t quantile is close to 2.
    ((2.0 * noise * 2f64.sqrt() / 0.01).powi(2).ceil() as usize).max(5)
}

pub fn quantile(mut values: Vec<f64>, at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 * at).ceil() as usize).clamp(1, values.len().max(1)) - 1)
        .copied()
        .unwrap_or(f64::NAN)
}

fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

fn worst(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

/// Prints the results of all worlds. Returns true if the targets of this experiment are met.
pub fn print(what: &str, weather: Weather, budget: Option<f64>, rows: &[Row], brief: bool) -> bool {
    let seeds = rows.first().map_or(0, |row| row.outcomes.len());
    let of_budget = budget.map_or(String::new(), |part| format!(", budget {:.0} % of strict", 100.0 * part));
    println!("\n{what}: noise {:.0} %{of_budget}, {seeds} seeds each", 100.0 * weather.noise);
    if !brief {
        print_rows(rows);
    }
    let all = || rows.iter().flat_map(|row| &row.outcomes);
    let regrets: Vec<f64> = all().map(|outcome| 100.0 * outcome.regret(outcome.found.as_ref())).collect();
    let covered: Vec<bool> = all().filter_map(Outcome::covered).collect();
    let coverage = 100.0 * covered.iter().filter(|one| **one).count() as f64 / covered.len().max(1) as f64;
    let mean_right = rows.iter().map(Row::right).sum::<f64>() / rows.len() as f64;
    let worst_right = -worst(rows.iter().map(|row| -row.right()));
    let total = |row: &Row| row.cost(|found| found.all_trials);
    let search = |row: &Row| row.cost(|found| found.search_trials);
    println!(
        "place: right {mean_right:.1} % (worst world {worst_right:.1}), regret 99th percentile {:.2} %, largest {:.1} %; \
         search {:.0} % of exhaustive (worst {:.0}), with confirmation {:.0} % (worst {:.0}); interval covers {coverage:.1} % of {}; \
         false gains {:.1} %",
        quantile(regrets.clone(), 0.99),
        worst(regrets.iter().copied()),
        median(rows.iter().map(search).collect()),
        worst(rows.iter().map(search)),
        median(rows.iter().map(total).collect()),
        worst(rows.iter().map(total)),
        covered.len(),
        100.0 * all().filter(|outcome| outcome.false_gain()).count() as f64 / all().count() as f64,
    );
    let of_estimate = |row: &Row| {
        row.mean(|outcome| outcome.found.as_ref().map_or(0.0, |found| found.all_trials as f64 / found.estimate as f64))
    };
    println!(
        "trials are {:.1} times the estimate (worlds from {:.1} to {:.1})",
        median(rows.iter().map(of_estimate).collect()),
        -worst(rows.iter().map(|row| -of_estimate(row))),
        worst(rows.iter().map(of_estimate)),
    );
    if rows.iter().any(|row| row.outcomes.iter().any(|outcome| outcome.halving.is_some())) {
        println!(
            "halving: right {:.1} % (worst world {:.1}); {:.0} % of exhaustive (worst {:.0}), without confirmation",
            rows.iter().map(Row::halving_right).sum::<f64>() / rows.len() as f64,
            -worst(rows.iter().map(|row| -row.halving_right())),
            median(rows.iter().map(Row::halving_cost).collect()),
            worst(rows.iter().map(Row::halving_cost)),
        );
    }
    let targets =
        Targets { rows, mean_right, worst_right, regret: quantile(regrets, 0.99), coverage, covered: covered.len() };
    targets.print(what, weather)
}

fn print_rows(rows: &[Row]) {
    println!(
        "{:16} {:10} {:>4} {:>5} {:>8} | {:>6} {:>6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>5} | {:>6} {:>7}",
        "machine",
        "program",
        "K",
        "ties%",
        "exhaust",
        "right",
        "p99",
        "search%",
        "+conf%",
        "blocks",
        "cover",
        "open%",
        "wide%",
        "halv.",
        "halv.%"
    );
    for row in rows {
        let regrets = row.outcomes.iter().map(|outcome| 100.0 * outcome.regret(outcome.found.as_ref())).collect();
        let covered: Vec<bool> = row.outcomes.iter().filter_map(Outcome::covered).collect();
        let coverage = 100.0 * covered.iter().filter(|one| **one).count() as f64 / covered.len() as f64;
        let blocks = row.mean(|outcome| outcome.found.as_ref().map_or(0.0, |found| f64::from(found.blocks)));
        let open = row.share(|outcome| {
            outcome.found.as_ref().is_none_or(|found| found.state.is_some_and(|state| !state.is_resolved()))
        });
        let wide = row.share(|outcome| {
            let confirmed = outcome.found.as_ref().and_then(|found| found.confirmed.as_ref());
            confirmed.is_some_and(|one| one.verdict == ConfirmResult::NoDifferenceSeen { wide: true })
        });
        println!(
            "{:16} {:10} {:>4} {:>5.1} {:>8.0} | {:>6.1} {:>6.2} {:>7.1} {:>7.1} {:>6.1} {:>6.1} {:>6.1} {:>5.1} | {:>6.1} {:>7.1}",
            row.machine,
            row.program,
            row.candidates,
            row.ties(),
            row.exhaustive,
            row.right(),
            quantile(regrets, 0.99),
            row.cost(|found| found.search_trials),
            row.cost(|found| found.all_trials),
            blocks,
            coverage,
            open,
            wide,
            row.halving_right(),
            row.halving_cost(),
        );
    }
}

/// The values with a target.
struct Targets<'a> {
    rows: &'a [Row],
    mean_right: f64,
    worst_right: f64,
    regret: f64,
    coverage: f64,
    covered: usize,
}

impl Targets<'_> {
    fn print(&self, what: &str, weather: Weather) -> bool {
        let mut met = true;
        let mut target = |name: &str, value: String, ok: bool| {
            met &= ok;
            println!("  {:6} {name}: {value}", if ok { "ok" } else { "MISSED" });
        };
        if what == "budget" {
            return true;
        }
        target(
            "right or within 1 % in >= 95 % of the seeds of every world",
            format!("{:.1}", self.worst_right),
            self.worst_right >= 95.0,
        );
        target("and in >= 99 % overall", format!("{:.2}", self.mean_right), self.mean_right >= 99.0);
        target("99th percentile of regret <= 1.5 %", format!("{:.2}", self.regret), self.regret <= 1.5);
        if self.covered >= 2000 {
            target(
                "intervals cover 93 to 97 %",
                format!("{:.1} of {}", self.coverage, self.covered),
                (93.0..=97.0).contains(&self.coverage),
            );
        } else {
            println!(
                "  -      intervals cover 93 to 97 %: {:.1}, but {} runs are too few to judge",
                self.coverage, self.covered
            );
        }
        if what == "main" && weather.noise > 0.015 {
            let cost = |row: &&Row| row.cost(|found| found.all_trials);
            let counted = || self.rows.iter().filter(|row| !row.mostly_ties());
            let many = worst(counted().filter(|row| row.candidates >= 30).map(|row| cost(&row)));
            let any = worst(counted().map(|row| cost(&row)));
            target(
                "search and confirmation <= 25 % of exhaustive for 30 candidates or more",
                format!("worst {many:.1}"),
                many <= 25.0,
            );
            target("and <= 40 % for any", format!("worst {any:.1}"), any <= 40.0);
            let ties = self.rows.iter().filter(|row| row.mostly_ties()).count();
            println!("         (not counted: {ties} worlds in which most candidates tie)");
            // Has no target: its candidates differ.
            println!(
                "  the Python prototype at 3 %: right 99.3 % (worst 96.5), regret 0.9 %, search 5 % (worst 18), \
                 with confirmation 9 % (worst 31), interval covers 95.6 %"
            );
        }
        met
    }
}
