//! What a survey of many machines is worth: how often it names a machine or a change in made fleets where nothing differs, how
//! often it finds what differs, and whether its intervals hold the truth.
//!
//!   cargo bench -p model --bench survey -- [--surveys 1000] [--only null|power]
//!
//! Exit status 1 when the rate of false alarms is above what is stated by more than chance, or intervals hold the truth too
//! rarely. With the tests it runs at smoke size. Must not know how a survey decides.

mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::analysis::survey::{FALSE_ALARMS_PERCENT, LevelChange, OutlierSide, RunTime, Survey};
use model::values::workload::Better;
use world::{Fleet, Plant, WEATHERS, Weather, surveyed};

/// Two, as many as the smallest machine that builds this has.
const WORKERS: usize = 2;
/// No constant of the survey was tuned on seeds from here on.
const FIRST_SEED: u64 = 1_000_000;
/// Beyond chance: so many standard errors above what is stated.
const ERRORS: f64 = 3.0;
/// What intervals of 95 % may hold at least: a change that is found is one that chance made a little larger.
const COVERAGE_MIN: f64 = 0.85;

struct Settings {
    surveys: usize,
    only: String,
    smoke: bool,
}

fn main() -> ExitCode {
    let settings = match settings(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let mut met = true;
    if settings.only != "power" {
        met &= nulls(&settings);
    }
    if settings.only != "null" {
        met &= powers(&settings);
    }
    if met || settings.smoke { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn settings(words: impl Iterator<Item = String>) -> Result<Settings, String> {
    let words: Vec<String> = words.collect();
    // `cargo bench` says so; `cargo test` does not, and its words are for tests.
    let smoke = !words.iter().any(|word| word == "--bench");
    let mut words = words.into_iter().filter(|word| !smoke && word != "--bench");
    let mut settings = Settings { surveys: if smoke { 2 } else { 1000 }, only: String::new(), smoke };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--surveys" => settings.surveys = value()?.parse().map_err(|_| "--surveys needs a number")?,
            "--only" => settings.only = value()?,
            other => return Err(format!("survey: unknown word '{other}'; see the first lines of its main.rs")),
        }
    }
    Ok(settings)
}

/// What each of many surveys gives, in the order of their seeds.
fn each<T: Send>(fleet: &Fleet, surveys: usize, of: impl Fn(&Survey) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= surveys {
                return found;
            }
            found.push((at, of(&surveyed(fleet, FIRST_SEED + at as u64))));
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

/// Whether fleets in which nothing differs are left alone as often as is stated.
fn nulls(settings: &Settings) -> bool {
    println!(
        "\nfalse alarms, percent of {} surveys of machines that do not differ; stated: {FALSE_ALARMS_PERCENT}",
        settings.surveys
    );
    println!(
        "{:<12} {:>8} {:>7} {:>6} {:>9} {:>8} {:>6}",
        "noise", "machines", "rounds", "tests", "a machine", "a change", "either"
    );
    let stated = FALSE_ALARMS_PERCENT / 100.0;
    let most = 100.0 * (stated + ERRORS * (stated * (1.0 - stated) / settings.surveys as f64).sqrt());
    let mut met = true;
    for weather in WEATHERS {
        for (machines, rounds, tests) in [(8, 1, 4), (20, 1, 4), (20, 12, 4), (60, 1, 1), (8, 30, 4)] {
            let fleet = Fleet { weather, machines, rounds, tests, plant: None };
            let alarms = each(&fleet, settings.surveys, |survey| {
                let classes = || survey.classes.iter();
                let out = classes().flat_map(|class| &class.machines).any(|machine| machine.stands_out.is_some());
                // What the whole class does in a season is a change; that each machine has it is none.
                let own = |change: &&LevelChange| weather != Weather::Drift || change.machine.is_some();
                (out, classes().flat_map(|class| &class.changes).any(|change| own(&change)))
            });
            let count =
                |of: fn(&(bool, bool)) -> bool| percent(alarms.iter().filter(|one| of(one)).count(), alarms.len());
            let either = count(|one| one.0 || one.1);
            // Of a machine that was measured once nobody knows whether it was a bad day; the survey says so, and promises nothing.
            let promised = !(weather == Weather::Bursts && rounds == 1);
            let fine = either <= most || !promised;
            println!(
                "{:<12} {machines:>8} {rounds:>7} {tests:>6} {:>9.1} {:>8.1} {either:>6.1}{}",
                format!("{weather:?}"),
                count(|one| one.0),
                count(|one| one.1),
                if !promised {
                    "  one run each: a bad day, or a bad machine?"
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

/// How often what differs is found.
fn powers(settings: &Settings) -> bool {
    println!(
        "\nfound, percent of {} surveys; machines differ by {} % and days by 0.8 %",
        settings.surveys,
        100.0 * world::MACHINE_SD
    );
    println!(
        "{:<58} {:>5} {:>12} {:>8} {:>10} {:>9}",
        "what differs", "found", "others named", "its fact", "place held", "size held"
    );
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
        Found { itself: (0..plant.machines).all(out), others, fact, place: None, size: None }
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
    tell(&name, &found)
}

/// What one survey found of what was planted.
struct Found {
    itself: bool,
    others: bool,
    fact: bool,
    /// Whether the span in time, and the interval of the size, hold the truth.
    place: Option<bool>,
    size: Option<bool>,
}

/// Prints a line; whether nobody else is named too often and intervals hold the truth.
fn tell(name: &str, found: &[Found]) -> bool {
    let share = |of: fn(&Found) -> bool| percent(found.iter().filter(|one| of(one)).count(), found.len());
    let held = |of: fn(&Found) -> Option<bool>| {
        let known: Vec<bool> = found.iter().filter_map(of).collect();
        (!known.is_empty()).then(|| percent(known.iter().filter(|held| **held).count(), known.len()))
    };
    let (place, size) = (held(|one| one.place), held(|one| one.size));
    let text = |held: Option<f64>| held.map_or("-".into(), |held| format!("{held:.1}"));
    let (itself, others, fact) = (share(|one| one.itself), share(|one| one.others), share(|one| one.fact));
    println!("{name:<58} {itself:>5.1} {others:>12.1} {fact:>8.1} {:>10} {:>9}", text(place), text(size));
    others <= 2.0 * FALSE_ALARMS_PERCENT && size.is_none_or(|size| size >= 100.0 * COVERAGE_MIN)
}

fn changes(fleet: &Fleet, plant: Plant, settings: &Settings) -> bool {
    let whole = plant.machines == fleet.machines && plant.machines > 1;
    let found = each(fleet, settings.surveys, |survey| {
        let class = &survey.classes[0];
        let of_it = |change: &&LevelChange| match &change.machine {
            None => whole,
            Some(name) => !whole && *name == class.machines[0].name,
        };
        let own = class.changes.iter().filter(of_it).min_by(|one, other| one.p_value.total_cmp(&other.p_value));
        let others = class.changes.iter().any(|change| !of_it(&change));
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
        Found { itself: own.is_some(), others, fact, place: own.map(|_| near), size: held }
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
    tell(&name, &found)
}

/// What was planted, as it shows in a change's test, in percent.
fn truth(change: &LevelChange, plant: Plant, fleet: &Fleet) -> f64 {
    let left: f64 = 1.0 - plant.slower;
    let ratio = match (change.unit.as_str(), change.better) {
        ("", _) => left.powf(plant.tests as f64 / fleet.tests as f64),
        (_, Better::Higher) => left,
        (_, Better::Lower) => 1.0 / left,
    };
    100.0 * (ratio - 1.0)
}
