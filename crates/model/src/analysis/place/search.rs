//! The search of a plan as part of its state: the model with the trials so far, and what results show of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::placements::candidates::features;
use crate::stats::racing::{BlockResult, RankClaim, State};
use crate::stats::search::{Hint, Outlook, Prior, Search, SearchClaim};
use crate::values::plan::{Plan, SearchPlan};
use crate::values::record::TrialRecord;
use crate::values::workload::Better;

/// Maximum number of candidates of a race after a search.
const SURVIVORS_MAX: usize = 100;

/// A search that has begun.
#[derive(Clone, Debug)]
pub(super) struct SearchStage {
    search: Search,
    better: Better,
    /// Sum of the logarithms of the values, and their number, by cell. Less is better.
    values: BTreeMap<usize, (f64, u32)>,
    /// Cells that ran and have never had a value.
    without_value: BTreeSet<usize>,
    /// Number of trials, and the smallest mean of a candidate relative to the baseline, after each block.
    curve: Vec<(u32, f64)>,
}

impl SearchStage {
    /// Begins the search of a plan. `warmup` are the trials of the baseline before it.
    pub fn new(plan: &Plan, search: &SearchPlan, better: Better, warmup: &[&TrialRecord]) -> Self {
        let placements = plan.cells.iter().map(|cell| &cell.placement);
        let features = features(search, placements, hint(warmup));
        let prior = Arc::new(Prior::new(search, &features));
        let (values, without_value, curve) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Self { search: Search::new(prior, better), better, values, without_value, curve }
    }

    /// Returns the cells of the next block, if the search may use this number of trials. Empty after the end.
    pub fn next_block(&self, affordable: u64) -> Vec<usize> {
        self.search.next_block(usize::try_from(affordable).unwrap_or(usize::MAX))
    }

    /// Returns how many of these trials the search should use, if the pairs can have the others in addition to their own.
    pub fn worthwhile_trials(&self, trials: u64, pairs: u64) -> u64 {
        if pairs == 0 {
            return trials;
        }
        let (all, least) = (trials + 2 * pairs, u32::try_from(pairs).unwrap_or(u32::MAX));
        let worthwhile = self.search.worthwhile_pairs(usize::try_from(all).unwrap_or(usize::MAX), least);
        all.saturating_sub(2 * u64::from(worthwhile))
    }

    pub fn push(&mut self, results: &[(usize, BlockResult)]) {
        self.search.push(results);
        for (cell, result) in results {
            if let BlockResult::Value(value) = result
                && *value > 0.0
            {
                let log = if self.better == Better::Lower { value.ln() } else { -value.ln() };
                let (sum, count) = self.values.entry(*cell).or_default();
                *sum += log;
                *count += 1;
                self.without_value.remove(cell);
            } else if !self.values.contains_key(cell) {
                self.without_value.insert(*cell);
            }
        }
        let best = self.values.keys().filter_map(|cell| self.measured(*cell)).reduce(f64::min);
        if let Some(best) = best {
            self.curve.push((self.trials(), best));
        }
    }

    /// Whether the search has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.search.state() != State::Racing
    }

    pub fn state(&self) -> State {
        self.search.state()
    }

    pub fn blocks(&self) -> u32 {
        self.search.blocks()
    }

    pub fn trials(&self) -> u32 {
        self.search.trials() as u32
    }

    pub fn abort_limit(&self) -> Option<f64> {
        self.search.abort_limit()
    }

    pub fn pair_deviation(&self) -> Option<f64> {
        self.search.pair_deviation()
    }

    /// Returns the candidate that is expected to be the best; `None` before the first value.
    pub fn leader(&self) -> Option<usize> {
        self.search.leader()
    }

    /// Returns the best candidate except the baseline, preferably one that has run. `None` if there is none.
    pub fn challenger(&self) -> Option<usize> {
        self.leader().filter(|leader| *leader != 0).or_else(|| {
            let standings = self.search.standings(&self.search.outlook());
            let measurable =
                standings.iter().filter(|one| one.candidate != 0 && !matches!(one.claim, SearchClaim::Dropped(_)));
            let ran = measurable.clone().find(|one| one.trials > 0);
            ran.or_else(|| measurable.clone().next()).map(|one| one.candidate)
        })
    }

    /// Returns the cells for a race of at most `most` candidates, in ascending order: those that the search considers the
    /// likely best, then those that may be better than expected. Candidates whose trials all failed are left out.
    pub fn survivors(&self, most: usize) -> Vec<usize> {
        let mut survivors = self.search.survivors();
        let standings = self.search.standings(&self.search.outlook());
        let mut others: Vec<_> =
            standings.iter().filter(|one| matches!(one.claim, SearchClaim::Run | SearchClaim::Predicted)).collect();
        others.sort_by(|one, other| one.prediction.low.total_cmp(&other.prediction.low));
        for other in others {
            if survivors.len() < most.min(SURVIVORS_MAX) && !survivors.contains(&other.candidate) {
                survivors.push(other.candidate);
            }
        }
        survivors.retain(|cell| *cell == 0 || !self.without_value.contains(cell));
        survivors.sort_unstable();
        survivors
    }

    /// Returns the predictions for all candidates. Takes longer than a block.
    pub fn outlook(&self) -> Outlook {
        self.search.outlook()
    }

    /// Returns the predictions after fresh pairs of the challenger and the baseline, with what this winner may miss.
    pub fn outlook_after(&self, challenger: usize, pairs: &[(f64, f64)], winner: usize) -> Outlook {
        self.search.after_pairs(challenger, pairs).outlook_of(winner)
    }

    /// Number of values of a cell.
    pub fn count(&self, cell: usize) -> u32 {
        self.values.get(&cell).map_or(0, |(_, count)| *count)
    }

    /// Mean of a candidate relative to the baseline, as a logarithm; less is better. `None` if either has no value.
    pub fn measured(&self, cell: usize) -> Option<f64> {
        let mean = |cell: usize| self.values.get(&cell).map(|(sum, count)| sum / f64::from(*count));
        (cell != 0).then(|| Some(mean(cell)? - mean(0)?)).flatten()
    }

    /// Returns the claim about each cell.
    pub fn claims(&self, outlook: &Outlook) -> Vec<RankClaim> {
        let mut claims = vec![RankClaim::NotRaced; outlook.predictions.len()];
        for standing in self.search.standings(outlook) {
            claims[standing.candidate] = match standing.claim {
                SearchClaim::Leads => RankClaim::Leads,
                SearchClaim::Run => RankClaim::Searched,
                SearchClaim::Predicted => RankClaim::NotRaced,
                SearchClaim::Dropped(claim) => claim,
            };
        }
        claims
    }

    pub fn curve(&self) -> &[(u32, f64)] {
        &self.curve
    }
}

/// Returns what the last warm-up trial shows of the number of threads; `None` if it did not observe any.
pub(super) fn hint(warmup: &[&TrialRecord]) -> Option<Hint> {
    let evidence = &warmup.last()?.outcome.evidence;
    let (threads, wall) = (evidence.threads_seen as usize, evidence.wall.seconds());
    let busy = if wall > 0.0 { evidence.cpu_time.seconds() / wall } else { 0.0 };
    (threads > 0).then_some(Hint { threads, busy })
}
