//! Evaluates the racing rule of `nearfar place` on simulated worlds, compared with other rules and with the targets.
//!
//!   cargo bench -p lab --bench place -- [--what main|nothing|kernel|bursts|holes|hangs|budget|strict|regret|all
//!       |few|few-wrong|few-nothing|few-like|few-cost|few-worlds] [--seeds 200] [--noise 2,3,5] [--unexplained 0.4,1.5] [--first-seed 20000]
//!       [--topologies DIR] [--only WORLD] [--brief]
//!
//! The exit status is 1 if a target is not met. `cargo test` runs it at smoke size. Must not know how a race decides.

mod few;
mod noise;
mod regret;
mod rules;
mod table;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use machine::topology::{TopologySource, read};
use model::stats::racing::INDIFFERENCE;
use model::values::plan::RaceRules;
use model::values::plan::stream;
use model::values::topology::Topology;
use noise::{Machine, Random, Weather};
use table::{Outcome, Row};
use world::{PROGRAMS, Program, World};

/// Two, the number of CPUs of the smallest build machine.
const WORKERS: usize = 2;
/// Seeds from here on were not used to tune a constant or to choose a rule. Seeds 10000 to 10199 decided which
/// candidates enter the second stage.
const FIRST_SEED: usize = 20_000;
/// The cost of measuring every candidate varies little between seeds.
const EXHAUSTIVE_RUNS: usize = 3;

/// Name, file in the directory of topologies (or in this repository), threads.
const MACHINES: [(&str, &str, usize); 4] = [
    ("Ryzen 2600", "models/ryzen5-2600.xml", 6),
    ("EPYC 7401 2P", "corpus/v02-epyc7401-2p-nps4.xml", 16),
    ("hybrid i7-1370P", "corpus/v06-raptorlake-hybrid.xml", 8),
    ("32 sockets", "corpus/v13-model-32s-1152pu.xml", 32),
];

/// Options of the command line.
struct Settings {
    what: String,
    seeds: usize,
    noises: Vec<f64>,
    topologies: PathBuf,
    /// Only worlds whose name contains this.
    only: String,
    /// Standard deviations of differences between candidates that no model explains; only for few trials.
    unexplained: Vec<f64>,
    first_seed: usize,
    brief: bool,
    smoke: bool,
}

impl Settings {
    /// Reads a topology file of the repository, or else of `--topologies`. `None`, with a message, if it is missing.
    fn topology(&self, name: &str, file: &str) -> Option<Topology> {
        let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/topologies").join(file);
        let path = if bundled.exists() { bundled } else { self.topologies.join(file) };
        if !path.exists() {
            println!("skipped: {name}: {} is missing (--topologies DIR)", path.display());
            return None;
        }
        Some(read(&TopologySource::XmlFile(path)).expect("the topologies of the bench can be read"))
    }
}

/// One experiment: worlds, noise, and the rules of the race.
struct Setting<'a> {
    what: &'a str,
    weather: Weather,
    kernel_wins: bool,
    strict: bool,
    /// The budget as a fraction of the computed cost of measuring every candidate to the same interval.
    budget: Option<f64>,
    others: bool,
}

fn main() -> ExitCode {
    let settings = match settings(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if settings.smoke {
        // The tests check that everything runs; two seeds do not show whether a target is met.
        few::EXPERIMENTS.iter().for_each(|what| _ = few::run(what, &settings));
    } else if settings.what.starts_with("few") {
        return if few::run(&settings.what, &settings) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (machines, skipped) = machines(&settings);
    let mut worlds = worlds(&machines);
    worlds.retain(|world| world.name().contains(&settings.only));
    let mut met = true;
    let experiments: Vec<&str> = match settings.what.as_str() {
        "all" => vec!["main", "nothing", "kernel", "bursts", "holes", "hangs", "budget", "strict", "regret"],
        one => vec![one],
    };
    for what in experiments {
        if what == "regret" {
            regret(&machines);
        } else {
            met &= experiment(what, &settings, &worlds);
        }
    }
    if skipped > 0 {
        println!("\n{skipped} machines skipped");
    }
    if met || settings.smoke { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn settings(words: impl Iterator<Item = String>) -> Result<Settings, String> {
    let words: Vec<String> = words.collect();
    // `cargo bench` passes `--bench`; `cargo test` does not, and its arguments are for tests.
    let smoke = !words.iter().any(|word| word == "--bench");
    let mut words = words.into_iter().filter(|word| !smoke && word != "--bench");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let default = repository.join("../shared/topologies");
    let mut settings = Settings {
        what: "main".into(),
        seeds: 200,
        noises: vec![0.02, 0.03, 0.05],
        topologies: std::env::var_os("NEARFAR_TOPOLOGIES").map_or(default, PathBuf::from),
        only: String::new(),
        unexplained: vec![0.004],
        first_seed: FIRST_SEED,
        brief: false,
        smoke,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--brief" => settings.brief = true,
            "--only" => settings.only = value()?,
            "--what" => settings.what = value()?,
            "--topologies" => settings.topologies = value()?.into(),
            "--seeds" => settings.seeds = value()?.parse().map_err(|_| "--seeds needs a number")?,
            "--first-seed" => settings.first_seed = value()?.parse().map_err(|_| "--first-seed needs a number")?,
            "--noise" => settings.noises = fractions(&value()?)?,
            "--unexplained" => settings.unexplained = fractions(&value()?)?,
            other => return Err(format!("place: unknown word '{other}'; see the first lines of its main.rs")),
        }
    }
    if settings.smoke {
        (settings.seeds, settings.noises) = (2, vec![0.03]);
    }
    Ok(settings)
}

fn fractions(text: &str) -> Result<Vec<f64>, String> {
    let percents: Result<Vec<f64>, _> = text.split(',').map(str::parse::<f64>).collect();
    let percents = percents.map_err(|_| format!("'{text}' is not a list of percents such as 2,3,5"))?;
    Ok(percents.iter().map(|percent| percent / 100.0).collect())
}

/// A topology from a file, and the number of threads of its programs.
struct OnFile {
    name: &'static str,
    topology: Topology,
    threads: usize,
}

/// The machines, and the number of those whose file is missing. At smoke size, only the small one.
fn machines(settings: &Settings) -> (Vec<OnFile>, usize) {
    let (mut machines, mut skipped) = (Vec::new(), 0);
    for (name, file, threads) in MACHINES.into_iter().take(if settings.smoke { 1 } else { MACHINES.len() }) {
        match settings.topology(name, file) {
            Some(topology) => machines.push(OnFile { name, topology, threads }),
            None => skipped += 1,
        }
    }
    (machines, skipped)
}

fn worlds(machines: &[OnFile]) -> Vec<World> {
    let all = machines.iter().flat_map(|machine| PROGRAMS.map(|program| (machine, program)));
    let world = |(OnFile { name, topology, threads }, program): (&OnFile, _)| {
        World::new(name, topology, program, *threads).expect("the wish is valid")
    };
    all.map(world).collect()
}

/// Regret of the candidate set; it has no target.
fn regret(machines: &[OnFile]) {
    println!("\nregret of the candidate set");
    for OnFile { name, topology, threads } in machines {
        // A search over the number of threads has no neighbours.
        for program in PROGRAMS.into_iter().filter(|program| *program != Program::Few) {
            regret::print(name, topology, program, *threads).expect("the wish is valid");
        }
    }
}

/// Runs and prints one experiment. Returns true if its targets are met.
fn experiment(what: &str, settings: &Settings, worlds: &[World]) -> bool {
    let middle = [settings.noises[settings.noises.len() / 2]];
    let nothing = [World::null(40)];
    let plain = |noise: f64| Setting {
        what,
        weather: Weather::fair(noise),
        kernel_wins: false,
        strict: false,
        budget: None,
        others: false,
    };
    match what {
        "main" => {
            let others = |noise| Setting { others: true, ..plain(noise) };
            settings.noises.iter().fold(true, |met, noise| run(settings, worlds, &others(*noise)) & met)
        }
        "nothing" => run(settings, &nothing, &plain(middle[0])),
        "kernel" => run(settings, worlds, &Setting { kernel_wins: true, ..plain(middle[0]) }),
        "strict" => run(settings, worlds, &Setting { strict: true, ..plain(middle[0]) }),
        "bursts" => {
            let weather = Weather { bursts_in_time: true, ..Weather::fair(middle[0]) };
            run(settings, worlds, &Setting { weather, ..plain(middle[0]) })
        }
        "holes" => {
            let weather = Weather { not_proven: 0.2, ..Weather::fair(middle[0]) };
            run(settings, worlds, &Setting { weather, ..plain(middle[0]) })
        }
        "hangs" => {
            let weather = Weather { hangs: 0.01, ..Weather::fair(middle[0]) };
            run(settings, worlds, &Setting { weather, ..plain(middle[0]) })
        }
        "budget" => [0.05, 0.10, 0.15, 0.25, 0.5]
            .iter()
            .fold(true, |met, part| run(settings, worlds, &Setting { budget: Some(*part), ..plain(middle[0]) }) & met),
        other => {
            println!("place: unknown experiment '{other}'");
            false
        }
    }
}

fn run(settings: &Settings, worlds: &[World], setting: &Setting<'_>) -> bool {
    let rows: Vec<Row> = worlds.iter().map(|world| row(settings.seeds, world, setting)).collect();
    table::print(setting.what, setting.weather, setting.budget, &rows, settings.brief)
}

/// Runs the seeds of one world.
fn row(seeds: usize, world: &World, setting: &Setting<'_>) -> Row {
    let outcomes = in_parallel(seeds, |index| one(world, setting, FIRST_SEED + index));
    let exhaustive = |run: usize| {
        let (mut machine, ..) = machine(world, setting, run);
        rules::exhaustive(&mut machine, world.len(), INDIFFERENCE) as f64
    };
    Row {
        machine: world.machine.clone(),
        program: world.program.clone(),
        candidates: world.len(),
        exhaustive: (0..EXHAUSTIVE_RUNS).map(exhaustive).sum::<f64>() / EXHAUSTIVE_RUNS as f64,
        outcomes,
    }
}

/// Computes all results on several threads. They do not depend on the number of threads.
fn in_parallel<T: Send>(count: usize, compute: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let result = compute(index);
                    results.lock().expect("no worker panicked").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no worker panicked");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The machine and the true times of one seed; identical for every rule.
fn machine(world: &World, setting: &Setting<'_>, seed: usize) -> (Machine, Vec<f64>) {
    let purpose = |of: &str| stream(seed as u64, &format!("{} {:.3} {of}", world.name(), setting.weather.noise));
    let mut random = Random::new(purpose("truth"));
    let truth =
        if setting.kernel_wins { world.truth_where_the_kernel_wins(&mut random) } else { world.truth(&mut random) };
    (Machine::new(truth.clone(), setting.weather, Random::new(purpose("noise"))), truth)
}

fn one(world: &World, setting: &Setting<'_>, seed: usize) -> Outcome {
    let (mut place, truth) = machine(world, setting, seed);
    let strict_trials = (world.len() * table::strict_blocks(setting.weather.noise)) as f64;
    let rules = RaceRules {
        indifference: INDIFFERENCE,
        strict: setting.strict,
        max_trials: setting.budget.map(|part| (part * strict_trials) as usize),
    };
    let found = rules::place(&mut place, &world.candidates, rules, seed as u64);
    let halving = setting.others.then(|| rules::halving(&mut machine(world, setting, seed).0, world.len()));
    Outcome { truth, found, halving }
}
