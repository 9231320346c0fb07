//! The candidates of the next block: the baseline in some blocks, the expected best, the best of draws of the posterior,
//! and random candidates that the model does not select. Must not depend on how the posterior is computed.

use super::random::Random;
use super::{RACE_AFTER, Search};

/// Usual number of trials of a block.
const BLOCK: usize = 7;
/// Every third block contains the baseline: in every block, it would use a seventh of the trials.
const BASELINE_EVERY: usize = 3;
/// Probability that a block contains a random candidate that was never run, in case the model is wrong.
const INSURANCE: f64 = 0.3;
/// Number of blocks before exploration begins: by then, the posterior mostly repeats the candidates that it prefers.
const BLOCKS_BEFORE_EXPLORING: usize = 4;
/// Maximum number of candidates that a block explores: random ones that were never run.
const EXPLORED_MAX: f64 = 5.0;
/// With more candidates per trial than this, blocks explore less, because a random candidate is rarely better.
const COVERED_PER_TRIAL: f64 = 1.5;
/// Number of draws per trial of a block; several draws may have the same best candidate.
const DRAWS_PER_TRIAL: usize = 4;

/// Returns the candidates of the next block in ascending order.
pub(super) fn choose(search: &Search, affordable: usize) -> Vec<usize> {
    let size = size(affordable).min(search.active().count());
    if size < 2 {
        return Vec::new();
    }
    let mut random = Random::new(search.prior.seed, &format!("block {}", search.blocks));
    let mut block = Block { search, size, affordable, members: Vec::new() };
    if search.blocks.is_multiple_of(BASELINE_EVERY) {
        block.add(0);
    }
    if search.observations.is_empty() {
        block.begin(&mut random);
    } else {
        block.follow_posterior(&mut random);
    }
    block.fill(&mut random);
    block.members.sort_unstable();
    block.members
}

/// Returns the size of the next block, such that the last one ends with the budget.
fn size(affordable: usize) -> usize {
    let blocks = ((affordable as f64 / BLOCK as f64).round() as usize).max(1);
    affordable.div_ceil(blocks)
}

struct Block<'a> {
    search: &'a Search,
    size: usize,
    affordable: usize,
    members: Vec<usize>,
}

impl Block<'_> {
    fn add(&mut self, candidate: usize) {
        let has_room = self.members.len() < self.size && !self.members.contains(&candidate);
        if has_room && self.search.is_active(candidate) {
            self.members.push(candidate);
        }
    }

    /// The first block: one candidate for each of several numbers of threads if it is searched, and otherwise the best
    /// candidates of simulated programs.
    fn begin(&mut self, random: &mut Random) {
        for candidate in self.ladder() {
            self.add(candidate);
        }
        let favourites = &self.search.prior.favourites;
        for _ in 0..DRAWS_PER_TRIAL * self.size {
            if !favourites.is_empty() {
                self.add(favourites[random.below(favourites.len())]);
            }
        }
    }

    /// Returns candidates with evenly spaced numbers of threads (by their logarithms), each the best of its number in
    /// the mean of all simulated programs. Empty if the number is not searched.
    fn ladder(&self) -> Vec<usize> {
        let Some(threads) = &self.search.prior.threads else { return Vec::new() };
        let mean = &self.search.posterior.mean;
        let mut numbers: Vec<usize> = threads[1..].to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let steps = (self.size - self.members.len()).min(numbers.len());
        let rung = |step: usize| numbers[step * (numbers.len() - 1) / (steps - 1).max(1)];
        let best = |number: usize| {
            let of_number = self.search.active().filter(move |one| *one > 0 && threads[*one] == number);
            of_number.min_by(|one, other| mean[*one].total_cmp(&mean[*other]))
        };
        (0..steps).filter_map(|step| best(rung(step))).collect()
    }

    fn follow_posterior(&mut self, random: &mut Random) {
        let search = self.search;
        if let Some(leader) = search.expected_best() {
            self.add(leader);
        }
        let untried = usize::from(random.chance(INSURANCE)) + self.explored();
        for _ in 0..untried {
            self.add_untried(random);
        }
        for draw in search.posterior.draws(&search.prior, DRAWS_PER_TRIAL * self.size, random) {
            let best = search.active().min_by(|one, other| draw[*one].total_cmp(&draw[*other]));
            self.add(best.unwrap_or(0));
            if self.members.len() == self.size {
                break;
            }
        }
    }

    /// Returns the number of candidates that the block explores. It grows with each block, but more slowly if there are too few
    /// trials to run most candidates. The last block explores none, because no later block could repeat a good one.
    fn explored(&self) -> usize {
        let search = self.search;
        let blocks = search.blocks.saturating_sub(BLOCKS_BEFORE_EXPLORING);
        if blocks == 0 || self.affordable <= self.size {
            return 0;
        }
        let trials = search.trials.saturating_add(self.affordable).min(RACE_AFTER);
        let coverage = COVERED_PER_TRIAL * trials as f64 / search.dropped.len() as f64;
        let growth = search.prior.rules.exploration * coverage.min(1.0);
        (growth * blocks as f64).min(EXPLORED_MAX) as usize
    }

    fn add_untried(&mut self, random: &mut Random) {
        let search = self.search;
        let untried = |one: &usize| search.counts[*one].blocks == 0 && !self.members.contains(one);
        let untried: Vec<usize> = search.active().filter(untried).collect();
        if !untried.is_empty() {
            self.add(untried[random.below(untried.len())]);
        }
    }

    /// Fills the block in the order of the expected times; without any assumption, at random.
    fn fill(&mut self, random: &mut Random) {
        let mean = &self.search.posterior.mean;
        let mut ranked: Vec<(f64, f64, usize)> =
            self.search.active().map(|candidate| (mean[candidate], random.unit(), candidate)).collect();
        ranked.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        ranked.into_iter().for_each(|(_, _, candidate)| self.add(candidate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_block_ends_with_the_budget() {
        for (affordable, expected) in [
            (0, vec![]),
            (5, vec![5]),
            (9, vec![9]),
            (14, vec![7, 7]),
            (32, vec![7, 7, 6, 6, 6]),
            (48, vec![7, 7, 7, 7, 7, 7, 6]),
        ] {
            let mut left = affordable;
            let mut sizes = Vec::new();
            while left > 0 {
                sizes.push(size(left));
                left -= size(left);
            }
            assert_eq!(sizes, expected, "{affordable}");
        }
    }
}
