//! Evaluates answers of 20, 40, 60 and 100 trials, confirmation included: the search (`model::stats::search`, not a copy),
//! the race with the same number of trials, random search and successive halving. The prior of the search never has
//! programs of the kind that is tested.

mod like;
mod rivals;
mod summary;
mod testbed;
mod truth;
mod worlds;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use model::analysis::place::{Claim, Gain};
use model::stats::racing::{ConfirmPlan, Confirmation, INDIFFERENCE, KILL_FACTOR, confirm_moderated};
use model::stats::search::{Prior, Search, confirm_pairs};
use model::values::plan::{RaceRules, stream};
use model::values::workload::Better;

use crate::noise::{Machine, Random, Weather};
use crate::{Settings, in_parallel, rules};
use summary::{Answer, Method};
use testbed::Testbed;
use truth::{Group, Kind};

/// Budgets in trials.
const BUDGETS: [usize; 4] = [20, 40, 60, 100];

/// The values of `--what`.
pub const EXPERIMENTS: [&str; 6] = ["few", "few-wrong", "few-nothing", "few-like", "few-cost", "few-worlds"];

/// Runs the experiments of `--what few`. Returns true if their targets are met.
pub fn run(what: &str, settings: &Settings) -> bool {
    let (testbeds, skipped) = testbed::testbeds(settings);
    let groups: &[Group] = match what {
        "few" => &[Group::Product, Group::Structured, Group::Trees],
        "few-wrong" => &[Group::Wrong],
        "few-nothing" => &[Group::Nothing],
        "few-like" => {
            like::print(&testbeds, settings);
            return true;
        }
        "few-worlds" => {
            worlds::print(&testbeds, settings);
            return true;
        }
        "few-cost" => {
            testbeds.iter().for_each(cost);
            return true;
        }
        other => {
            println!("place: unknown experiment '{other}'");
            return false;
        }
    };
    let mut met = true;
    for unexplained in &settings.unexplained {
        for noise in &settings.noises {
            let weather = Weather::fair(*noise);
            println!("\n{what}: noise {:.0} %, unexplained {:.1} %", 100.0 * noise, 100.0 * unexplained);
            let runs = |testbed: &Testbed| {
                (testbed.name, testbed.placements.len(), answers(testbed, groups, settings, weather, *unexplained))
            };
            let results: Vec<_> = testbeds.iter().map(runs).collect();
            met &= summary::print(&results, settings.brief);
        }
    }
    if skipped > 0 {
        println!("\n{skipped} machines skipped");
    }
    met
}

/// The answers of all methods for all kinds of a testbed.
fn answers(
    testbed: &Testbed,
    groups: &[Group],
    settings: &Settings,
    weather: Weather,
    unexplained: f64,
) -> Vec<Answer> {
    let kinds: Vec<Kind> = groups.iter().flat_map(|group| group.kinds(testbed)).collect();
    let priors = Priors { testbed, known: Mutex::new(BTreeMap::new()) };
    let jobs: Vec<(Kind, usize)> =
        kinds.iter().flat_map(|kind| (0..settings.seeds).map(move |seed| (*kind, seed))).collect();
    let one = |index: usize| {
        let (kind, seed) = jobs[index];
        Run::new(testbed, kind, settings.first_seed + seed, weather, unexplained).answers(&priors)
    };
    in_parallel(jobs.len(), one).into_iter().flatten().collect()
}

/// Priors by excluded kind and by number of threads, because they take longer than a search.
struct Priors<'a> {
    testbed: &'a Testbed,
    known: Mutex<BTreeMap<(Kind, usize), Arc<Prior>>>,
}

impl Priors<'_> {
    fn of(&self, kind: Kind, threads: usize) -> Arc<Prior> {
        let known = self.known.lock().expect("no worker panicked").get(&(kind, threads)).cloned();
        known.unwrap_or_else(|| {
            let prior = Arc::new(self.testbed.prior(kind, threads));
            self.known.lock().expect("no worker panicked").insert((kind, threads), prior.clone());
            prior
        })
    }
}

/// One seed of one world.
struct Run<'a> {
    testbed: &'a Testbed,
    kind: Kind,
    seed: usize,
    weather: Weather,
    truth: Vec<f64>,
    threads: usize,
}

impl<'a> Run<'a> {
    fn new(testbed: &'a Testbed, kind: Kind, seed: usize, weather: Weather, unexplained: f64) -> Self {
        let mut random = Random::new(stream(seed as u64, &format!("few {} {kind:?} truth", testbed.name)));
        let (truth, threads) = truth::draw(testbed, kind, unexplained, &mut random);
        Self { testbed, kind, seed, weather, truth, threads }
    }

    /// Number of threads that a warm-up trial shows. It is 0, for any number, unless the command chooses it.
    fn shown_threads(&self) -> usize {
        if self.testbed.is_own() { self.threads } else { 0 }
    }

    fn random(&self, purpose: &str) -> Random {
        let Self { testbed, kind, seed, weather, .. } = self;
        Random::new(stream(*seed as u64, &format!("few {} {kind:?} {:.3} {purpose}", testbed.name, weather.noise)))
    }

    fn machine(&self, purpose: &str) -> Machine {
        Machine::new(self.truth.clone(), self.weather, self.random(purpose))
    }

    fn answers(&self, priors: &Priors<'_>) -> Vec<Answer> {
        let mut answers = self.search(&priors.of(self.kind, self.shown_threads()));
        let count = self.truth.len();
        for budget in BUDGETS {
            let trials = search_trials(budget);
            let purpose = |rival: &str| format!("{rival} {budget}");
            let rules = RaceRules { indifference: INDIFFERENCE, strict: false, max_trials: Some(budget) };
            let race = rules::place(&mut self.machine(&purpose("race")), &self.testbed.stages, rules, self.seed as u64);
            // Without a leader, the user keeps the baseline.
            answers.push(self.answer(Method::Race, budget, race.map_or(0, |found| found.winner)));
            let mut random = self.random(&purpose("choice"));
            let found = rivals::random_search(&mut self.machine(&purpose("random")), count, trials, &mut random);
            answers.push(self.answer(Method::Random, budget, found));
            let found = rivals::halving(&mut self.machine(&purpose("halving")), count, trials, &mut random);
            answers.push(self.answer(Method::Halving, budget, found));
        }
        answers
    }

    /// One search with an answer at the end of each budget.
    fn search(&self, prior: &Arc<Prior>) -> Vec<Answer> {
        let mut machine = self.machine("search");
        let mut search = Search::new(prior.clone(), Better::Lower);
        let mut limit = KILL_FACTOR * machine.block(&[0])[0].exp();
        let mut answers = Vec::new();
        for budget in BUDGETS {
            loop {
                let block = next_block(&search, budget);
                if block.is_empty() {
                    break;
                }
                search.push(&machine.results(&block, Some(limit)));
                limit = search.abort_limit().unwrap_or(limit);
            }
            let winner = search.leader().unwrap_or(0);
            let count = confirm_pairs(budget).max((budget.saturating_sub(search.trials()) / 2) as u32);
            let pairs = if winner == 0 { Vec::new() } else { self.pairs(winner, budget, count) };
            let confirmed = self.confirm(&search, &pairs, count);
            let claim = confirmed.as_ref().map(|confirmed| {
                let predicted = search.outlook().predictions[winner];
                Claim::of_pairs(confirmed, &Gain::new(confirmed, Better::Lower, Some(&predicted)))
            });
            let kept = if claim.is_some_and(Claim::keeps_baseline) { 0 } else { winner };
            let after = search.after_pairs(winner, &pairs).outlook_of(kept).missed;
            let stated = after.map(|missed| (self.answer(Method::Search, budget, kept).regret, missed));
            answers.push(Answer { stated, confirmed, claim, ..self.answer(Method::Search, budget, winner) });
        }
        answers
    }

    /// Returns fresh pairs of a candidate and the baseline.
    fn pairs(&self, winner: usize, budget: usize, count: u32) -> Vec<(f64, f64)> {
        self.machine(&format!("pairs {budget}")).pairs(winner, count)
    }

    fn confirm(&self, search: &Search, pairs: &[(f64, f64)], count: u32) -> Option<Confirmation> {
        let planned = ConfirmPlan { pairs: count, half_width: INDIFFERENCE };
        confirm_moderated(Better::Lower, pairs, planned, self.seed as u64, search.pair_deviation())
    }

    fn answer(&self, method: Method, budget: usize, winner: usize) -> Answer {
        let best = self.truth.iter().copied().fold(f64::INFINITY, f64::min);
        Answer {
            group: self.kind.group(),
            kind: self.kind,
            method,
            budget,
            regret: self.truth[winner] - best,
            change: self.truth[winner] - self.truth[0],
            stated: None,
            confirmed: None,
            claim: None,
        }
    }
}

/// The next block of a search that leaves the worthwhile pairs of a budget.
fn next_block(search: &Search, budget: usize) -> Vec<usize> {
    let left = budget.saturating_sub(search.trials());
    let pairs = search.worthwhile_pairs(left, confirm_pairs(budget));
    search.next_block(left.saturating_sub(2 * pairs as usize))
}

/// Trials of a rival within a budget; the others confirm its winner.
fn search_trials(budget: usize) -> usize {
    budget - 2 * confirm_pairs(budget) as usize
}

/// Prints the time of the decisions of one search, and the memory of the process.
fn cost(testbed: &Testbed) {
    let begin = Instant::now();
    let prior = Arc::new(testbed.prior(Kind::Nothing, 0));
    let prepared = begin.elapsed();
    let run = Run::new(testbed, Kind::usual(), 0, Weather::fair(0.03), 0.004);
    let mut machine = run.machine("cost");
    let mut search = Search::new(prior, Better::Lower);
    let mut slowest = 0.0f64;
    loop {
        let before = Instant::now();
        let block = next_block(&search, 100);
        let chosen = before.elapsed();
        if block.is_empty() {
            break;
        }
        let results = machine.results(&block, None);
        let before = Instant::now();
        search.push(&results);
        slowest = slowest.max((chosen + before.elapsed()).as_secs_f64());
    }
    let before = Instant::now();
    let outlook = search.outlook();
    println!(
        "{:20} {:>5} candidates: preparation {:.2} s, slowest block {:.1} ms, outlook {:.1} ms, peak memory {} MB",
        testbed.name,
        outlook.predictions.len(),
        prepared.as_secs_f64(),
        1e3 * slowest,
        1e3 * before.elapsed().as_secs_f64(),
        peak_megabytes().map_or_else(|| "?".into(), |peak| peak.to_string()),
    );
}

/// The peak memory of this process, including the topologies of all machines.
fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}
