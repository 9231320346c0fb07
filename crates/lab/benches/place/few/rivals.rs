//! Rules that a search is compared with: random search, and successive halving of a random subset. Must not know the true
//! times.

use crate::noise::{Machine, Random};

const BLOCK: usize = 7;

/// Runs each candidate at most once, in random order and in blocks with the baseline. Returns the best by its measured mean.
pub fn random_search(machine: &mut Machine, count: usize, trials: usize, random: &mut Random) -> usize {
    let mut order: Vec<usize> = (1..count).collect();
    random.shuffle(&mut order);
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); count];
    let mut used = 0;
    while used < trials {
        let size = BLOCK.min(trials - used);
        let next = |_| order.pop().unwrap_or_else(|| 1 + random.below(count - 1));
        let block: Vec<usize> = std::iter::once(0).chain((1..size).map(next)).collect();
        let times = machine.block(&block);
        block.iter().zip(times).for_each(|(candidate, time)| values[*candidate].push(time));
        used += size;
    }
    best(&values)
}

/// Begins with as many random candidates as the rounds can pay, and keeps the better half after each round.
pub fn halving(machine: &mut Machine, count: usize, trials: usize, random: &mut Random) -> usize {
    let rounds = ((trials as f64 / 3.0).log2() as usize).max(2);
    let mut order: Vec<usize> = (1..count).collect();
    random.shuffle(&mut order);
    let first = (trials / rounds).clamp(2, count);
    let mut active: Vec<usize> = std::iter::once(0).chain(order.into_iter().take(first - 1)).collect();
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); count];
    let mut used = 0;
    while used < trials && active.len() > 1 {
        for _ in 0..(trials / rounds / active.len()).max(1) {
            let block: Vec<usize> = active.iter().copied().take(trials - used).collect();
            if block.is_empty() {
                break;
            }
            let times = machine.block(&block);
            block.iter().zip(times).for_each(|(candidate, time)| values[*candidate].push(time));
            used += block.len();
        }
        let mean = |one: &usize| mean(&values[*one]);
        active.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
        active.truncate(active.len().div_ceil(2));
    }
    active[0]
}

fn best(values: &[Vec<f64>]) -> usize {
    (0..values.len()).min_by(|one, other| mean(&values[*one]).total_cmp(&mean(&values[*other]))).unwrap_or(0)
}

/// Infinite without a value.
fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { f64::INFINITY } else { values.iter().sum::<f64>() / values.len() as f64 }
}
