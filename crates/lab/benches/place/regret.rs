//! Regret of the candidate set: its best candidate compared with a noise-free search that moves one thread at a time.
//! The search is local, so this is a lower bound. The models are smooth, so it holds less for real machines.

use model::placements::candidates::{SearchSpace, Threads, candidates, neighbours};
use model::values::placement::Placement;
use model::values::topology::Topology;

use crate::world::{MachineModel, Program};

/// Maximum number of moves; a longer search is cycling.
const MOVES_MAX: usize = 40;

/// Prints one line.
///
/// # Errors
/// If the search space is invalid.
pub fn print(machine: &str, topology: &Topology, program: Program, threads: usize) -> Result<(), String> {
    let wish = SearchSpace { threads: Threads::Fixed(threads), ..SearchSpace::default() };
    let all = candidates(topology, &wish)?;
    let machine_model = MachineModel::new(topology);
    let time = |placement: &Placement| machine_model.log_time(placement, program);
    let placed = || all.placements.iter().zip(&all.stages.first).skip(1);
    let least = |one: f64, other: f64| one.min(other);
    let first = placed().filter(|(_, first)| **first).map(|(placement, _)| time(placement)).fold(f64::INFINITY, least);
    let best = placed().map(|(placement, _)| placement).min_by(|one, other| time(one).total_cmp(&time(other)));
    let Some(best) = best else { return Ok(()) };
    let (mut here, mut tried) = (best.clone(), 0);
    for _ in 0..MOVES_MAX {
        let around = neighbours(topology, &wish, &here)?;
        tried += around.len();
        let next = around.into_iter().min_by(|one, other| time(one).total_cmp(&time(other)));
        match next.filter(|next| time(next) < time(&here) - 1e-9) {
            Some(next) => here = next,
            None => break,
        }
    }
    println!(
        "{machine:16} {:10} family of {}: first stage +{:.1} %, family +{:.2} % against the best of {tried} neighbours",
        format!("{program:?}").to_lowercase(),
        all.placements.len(),
        100.0 * (first - time(best)).exp_m1(),
        100.0 * (time(best) - time(&here)).exp_m1(),
    );
    Ok(())
}
