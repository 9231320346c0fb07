//! Measures the quality of fleet surveys on synthetic fleets: rate of false alarms, detection rate of planted
//! differences, and coverage of the intervals.
//!
//!   cargo bench -p model --bench survey -- [--surveys 1000] [--only null|power]
//!
//! Exit status 1 if false alarms are significantly more frequent than stated, or coverage is too low. `cargo test` runs
//! a smoke size. Must not depend on the implementation of the survey.

mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::analysis::survey::{FALSE_ALARMS_PERCENT, LevelChange, OutlierSide, RunTime, Survey};
use model::values::workload::Better;
use world::{Fleet, Plant, WEATHERS, Weather, surveyed};

/// Number of threads: two, because the smallest build machine has two CPUs.
const WORKERS: usize = 2;
/// First seed. No constant of the survey was tuned on this or a later seed.
const FIRST_SEED: u64 = 1_000_000;
/// Tolerance of the false-alarm rate, in standard errors.
const ERRORS: f64 = 3.0;
/// Minimum coverage of 95 % intervals, which is lower because detected changes tend to be overestimated.
const COVERAGE_MIN: f64 = 0.85;

struct Settings {
    surveys: usize,
    only: String,
    smoke: bool,
}

fn main() -> ExitCode {
    let settings = match settings(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut met = true;
    if settings.only != "power" {
        met &= false_alarms(&settings);
    }
    if settings.only != "null" {
        met &= detection(&settings);
    }
    if met || settings.smoke { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn settings(words: impl Iterator<Item = String>) -> Result<Settings, String> {
    let words: Vec<String> = words.collect();
    // Only `cargo bench` passes --bench; the arguments of `cargo test` are for tests.
    let smoke = !words.iter().any(|word| word == "--bench");
    let mut words = words.into_iter().filter(|word| !smoke && word != "--bench");
    let mut settings = Settings { surveys: if smoke { 2 } else { 1000 }, only: String::new(), smoke };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--surveys" => settings.surveys = value()?.parse().map_err(|_| "--surveys needs a number")?,
            "--only" => settings.only = value()?,
            other => return Err(format!("survey: unknown argument '{other}'; see the head of main.rs")),
        }
    }
    Ok(settings)
}

/// Runs surveys concurrently and returns a value of each, in the order of the seeds.
fn each<T: Send>(fleet: &Fleet, surveys: usize, get: impl Fn(&Survey) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= surveys {
                return found;
            }
            found.push((at, get(&surveyed(fleet, FIRST_SEED + at as u64))));
        }
    };
    let mut found = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a survey does not panic")).collect::<Vec<_>>()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, found)| found).collect()
}

fn percent(of: usize, all: usize) -> f64 {
    100.0 * of as f64 / all as f64
}

/// Prints the false-alarm rates, and returns whether they are within the stated limit.
fn false_alarms(settings: &Settings) -> bool {
    println!(
        "\nfalse alarms, percent of {} surveys of machines without differences; limit: {FALSE_ALARMS_PERCENT}",
        settings.surveys
    );
    println!(
        "{:<12} {:>8} {:>7} {:>6} {:>9} {:>8} {:>6}",
        "noise", "machines", "rounds", "tests", "outlier", "change", "either"
    );
    let limit = FALSE_ALARMS_PERCENT / 100.0;
    let most = 100.0 * (limit + ERRORS * (limit * (1.0 - limit) / settings.surveys as f64).sqrt());
    let mut met = true;
    for weather in WEATHERS {
        for (machines, rounds, tests) in [(8, 1, 4), (20, 1, 4), (20, 12, 4), (60, 1, 1), (8, 30, 4)] {
            let fleet = Fleet { weather, machines, rounds, tests, plant: None };
            let alarms = each(&fleet, settings.surveys, |survey| {
                let classes = || survey.classes.iter();
                let out = classes().flat_map(|class| &class.machines).any(|machine| machine.stands_out.is_some());
                // With seasonal drift, a change of the whole class is real, but a change of one machine is not.
                let is_false = |change: &&LevelChange| weather != Weather::Drift || change.machine.is_some();
                (out, classes().flat_map(|class| &class.changes).any(|change| is_false(&change)))
            });
            let count =
                |of: fn(&(bool, bool)) -> bool| percent(alarms.iter().filter(|one| of(one)).count(), alarms.len());
            let either = count(|one| one.0 || one.1);
            // With bursts and one run per machine, slow machines and slow days are indistinguishable: no limit is
            // stated.
            let limited = !(weather == Weather::Bursts && rounds == 1);
            let fine = either <= most || !limited;
            println!(
                "{:<12} {machines:>8} {rounds:>7} {tests:>6} {:>9.1} {:>8.1} {either:>6.1}{}",
                format!("{weather:?}"),
                count(|one| one.0),
                count(|one| one.1),
                if !limited {
                    "  no limit: one run per machine"
                } else if fine {
                    ""
                } else {
                    "  MISSED"
                }
            );
            met &= fine;
        }
    }
    met
}

/// Prints the detection rates, and returns whether false detections and coverage are within their limits.
fn detection(settings: &Settings) -> bool {
    println!(
        "\ndetection, percent of {} surveys; standard deviation {} % between machines and 0.8 % between days",
        settings.surveys,
        100.0 * world::MACHINE_SD
    );
    println!("{:<58} {:>5} {:>12} {:>8} {:>10} {:>9}", "difference", "found", "others", "fact", "place", "size");
    let mut met = true;
    let slow = |machines, tests, slower| Plant { machines, tests, slower, from: 0 };
    for (machines, rounds, tests, plant) in [
        (20, 1, 4, slow(1, 4, 0.03)),
        (20, 1, 4, slow(1, 4, 0.05)),
        (20, 1, 4, slow(1, 1, 0.05)),
        (20, 1, 4, slow(1, 1, 0.10)),
        (20, 4, 4, slow(1, 4, 0.05)),
        (20, 1, 4, slow(3, 4, 0.05)),
        (8, 1, 4, slow(1, 4, 0.05)),
        (100, 1, 4, slow(3, 4, 0.05)),
    ] {
        let fleet = Fleet { weather: Weather::LogNormal, machines, rounds, tests, plant: Some(plant) };
        met &= outliers(&fleet, plant, settings);
    }
    for (machines, rounds, plant) in [
        (20, 12, Plant { machines: 1, tests: 4, slower: 0.03, from: 8 }),
        (20, 12, Plant { machines: 1, tests: 4, slower: 0.05, from: 9 }),
        (20, 12, Plant { machines: 1, tests: 1, slower: 0.05, from: 6 }),
        (1, 30, Plant { machines: 1, tests: 4, slower: 0.05, from: 20 }),
        (20, 12, Plant { machines: 20, tests: 4, slower: 0.03, from: 6 }),
        (20, 26, Plant { machines: 20, tests: 4, slower: 0.02, from: 13 }),
    ] {
        let fleet = Fleet { weather: Weather::LogNormal, machines, rounds, tests: 4, plant: Some(plant) };
        met &= changes(&fleet, plant, settings);
    }
    met
}

fn outliers(fleet: &Fleet, plant: Plant, settings: &Settings) -> bool {
    let found = each(fleet, settings.surveys, |survey| {
        let class = &survey.classes[0];
        let out = |at: usize| class.machines[at].stands_out == Some(OutlierSide::Worse);
        let others = class.machines[plant.machines..].iter().any(|machine| machine.stands_out.is_some());
        let fact = class.facts_of_worse.first().is_some_and(|fact| fact.key == "cpu.microcode" && fact.value == "0x1");
        Detection { planted: (0..plant.machines).all(out), others, fact, place: None, size: None }
    });
    let runs = if fleet.rounds == 1 { "1 run".to_string() } else { format!("{} runs", fleet.rounds) };
    let name = format!(
        "{} of {} machines {:.0} % slower in {} of {} tests, {runs}",
        plant.machines,
        fleet.machines,
        100.0 * plant.slower,
        plant.tests,
        fleet.tests
    );
    print_row(&name, &found)
}

/// Result of one survey of a fleet with a planted difference.
struct Detection {
    planted: bool,
    others: bool,
    fact: bool,
    /// Whether the time span contains the change, and the interval its true size; `None` without a change.
    place: Option<bool>,
    size: Option<bool>,
}

/// Prints a row, and returns whether false detections and coverage are within their limits.
fn print_row(name: &str, found: &[Detection]) -> bool {
    let share = |of: fn(&Detection) -> bool| percent(found.iter().filter(|one| of(one)).count(), found.len());
    let coverage = |of: fn(&Detection) -> Option<bool>| {
        let known: Vec<bool> = found.iter().filter_map(of).collect();
        (!known.is_empty()).then(|| percent(known.iter().filter(|covered| **covered).count(), known.len()))
    };
    let (place, size) = (coverage(|one| one.place), coverage(|one| one.size));
    let text = |percent: Option<f64>| percent.map_or("-".into(), |percent| format!("{percent:.1}"));
    let (planted, others, fact) = (share(|one| one.planted), share(|one| one.others), share(|one| one.fact));
    println!("{name:<58} {planted:>5.1} {others:>12.1} {fact:>8.1} {:>10} {:>9}", text(place), text(size));
    others <= 2.0 * FALSE_ALARMS_PERCENT && size.is_none_or(|size| size >= 100.0 * COVERAGE_MIN)
}

fn changes(fleet: &Fleet, plant: Plant, settings: &Settings) -> bool {
    let whole = plant.machines == fleet.machines && plant.machines > 1;
    let found = each(fleet, settings.surveys, |survey| {
        let class = &survey.classes[0];
        let is_planted = |change: &&LevelChange| match &change.machine {
            None => whole,
            Some(name) => !whole && *name == class.machines[0].name,
        };
        let own = class.changes.iter().filter(is_planted).min_by(|one, other| one.p_value.total_cmp(&other.p_value));
        let others = class.changes.iter().any(|change| !is_planted(&change));
        let near = own.is_some_and(|change| {
            let round =
                |moment: &RunTime| moment.run.trim_start_matches("run-").parse::<usize>().unwrap_or(0) / fleet.machines;
            round(&change.earliest) < plant.from && plant.from <= round(&change.latest)
        });
        let held = own.and_then(|change| {
            let truth = truth(change, plant, fleet);
            Some(change.ci_low? <= truth && truth <= change.ci_high?)
        });
        let fact = own.is_some_and(|change| change.facts.first().is_some_and(|fact| fact.key == "cpu.microcode"));
        Detection { planted: own.is_some(), others, fact, place: own.map(|_| near), size: held }
    });
    let name = format!(
        "{} {:.0} % slower in {} of {} tests, from run {} of {} on",
        if whole { format!("all {} machines", fleet.machines) } else { format!("1 of {} machines", fleet.machines) },
        100.0 * plant.slower,
        plant.tests,
        fleet.tests,
        plant.from + 1,
        fleet.rounds
    );
    print_row(&name, &found)
}

/// True size of a change in percent: the planted slowdown, converted to the metric of the test.
fn truth(change: &LevelChange, plant: Plant, fleet: &Fleet) -> f64 {
    let left: f64 = 1.0 - plant.slower;
    let ratio = match (change.unit.as_str(), change.better) {
        ("", _) => left.powf(plant.tests as f64 / fleet.tests as f64),
        (_, Better::Higher) => left,
        (_, Better::Lower) => 1.0 / left,
    };
    100.0 * (ratio - 1.0)
}
