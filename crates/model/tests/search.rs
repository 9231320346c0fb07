//! Searches on model machines with simulated programs: replay, blocks, drops, honesty, small sets of candidates.

mod machines;

use std::sync::Arc;

use machines::model;
use model::placements::candidates::{SearchSpace, Threads, candidates, features, machine_features};
use model::stats::racing::{End, Lap};
use model::stats::search::{Features, Prior, Random, Search, log_times};
use model::values::placement::Placement;
use model::values::plan::{ProgramKind, SearchPlan, ThreadChoice};
use model::values::workload::Better;

/// The candidates of a machine.
struct Field {
    plan: SearchPlan,
    placements: Vec<Placement>,
    features: Features,
}

fn field(machine: &str, threads: Threads) -> Field {
    let topology = model(machine);
    let placements = candidates(&topology, &SearchSpace { threads, ..SearchSpace::default() }).unwrap().placements;
    let choice = match threads {
        Threads::Fixed(_) => ThreadChoice::Fixed,
        Threads::Searched => ThreadChoice::Searched,
        Threads::Unspecified => ThreadChoice::Command,
    };
    let plan = SearchPlan::new(choice, machine_features(&topology));
    let features = features(&plan, &placements, None);
    Field { plan, placements, features }
}

impl Field {
    fn prior(&self) -> Arc<Prior> {
        Arc::new(Prior::new(&self.plan, &self.features))
    }

    fn truth(&self, kind: ProgramKind, seed: u64) -> Vec<f64> {
        let table = &self.features.tables[self.features.tables.len() / 2];
        let times = log_times(kind, &self.features, table, &mut Random::new(seed, "truth"));
        times.iter().map(|time| time - times[0]).collect()
    }
}

/// A block in which the candidates take their true times, with noise that depends on the seed, block and candidate.
fn laps(search: &Search, block: &[usize], truth: &[f64], noise: f64, seed: u64) -> Vec<(usize, Lap)> {
    let lap = |candidate: &usize| {
        let mut random = Random::new(seed, &format!("noise {} {candidate}", search.blocks()));
        (*candidate, Lap::Value((truth[*candidate] + noise * random.normal()).exp()))
    };
    block.iter().map(lap).collect()
}

/// Runs a search until it ends or has used its trials. Returns it with its blocks.
fn run(prior: &Arc<Prior>, truth: &[f64], trials: usize, seed: u64) -> (Search, Vec<Vec<(usize, Lap)>>) {
    let mut search = Search::new(prior.clone(), Better::Lower);
    let mut blocks = Vec::new();
    loop {
        let block = search.next_block(trials.saturating_sub(search.trials()));
        if block.is_empty() {
            break;
        }
        blocks.push(laps(&search, &block, truth, 0.02, seed));
        search.push(blocks.last().unwrap());
    }
    search.end(End::Budget);
    (search, blocks)
}

fn regret(search: &Search, truth: &[f64]) -> f64 {
    truth[search.leader().unwrap()] - truth.iter().copied().fold(f64::INFINITY, f64::min)
}

#[test]
fn search_finds_good_candidates_of_simulated_programs() {
    let field = field("xeon-e5-2640-x2", Threads::Searched);
    let prior = field.prior();
    let (mut good, mut runs) = (0, 0);
    for kind in [ProgramKind::Sharing, ProgramKind::Bandwidth, ProgramKind::Serial, ProgramKind::Lock] {
        for seed in 0..3 {
            let truth = field.truth(kind, seed);
            let (search, _) = run(&prior, &truth, 32, seed);
            runs += 1;
            good += u32::from(regret(&search, &truth) < 0.05);
            println!("{kind:?} {seed}: regret {:.3}, {:?}", regret(&search, &truth), search.missed());
        }
    }
    assert!(good * 10 >= runs * 8, "{good} of {runs} of {} candidates", field.placements.len());
}
