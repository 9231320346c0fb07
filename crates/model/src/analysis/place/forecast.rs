//! The use of a budget before it is spent: number of trials, expected quality of the result, cost of a firm answer.

use serde::Serialize;

use super::spending::Spending;
use super::state::firm_trials;
use crate::values::plan::Plan;
use crate::values::units::Nanos;

/// Distance from the best candidate, in percent, that nine of ten searches with this number of trials (search and
/// confirmation) stay below; for up to [`MANY`] candidates and for more. Source: docs/results/place.md, "Few trials".
const USUAL_DISTANCE: [(u64, f64, f64); 4] = [(100, 1.7, 1.6), (60, 1.9, 1.9), (40, 2.1, 2.4), (20, 4.6, 10.4)];
const MANY: usize = 450;

/// The use of a budget, if every trial takes the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BudgetForecast {
    pub candidates: usize,
    pub trial_seconds: f64,
    pub budget_seconds: f64,
    /// Number of trials that fit, with the discarded one.
    pub trials: u64,
    /// Number of pairs among them. It is 0 if the budget is too short for three.
    pub pairs: u64,
    /// The result is within this of the best candidate in nine of ten searches, in percent. `None` if too few trials
    /// fit for such a statement.
    pub within_percent: Option<f64>,
    /// Number of trials and time of a firm answer: no other candidate is likely to be better by more than 1 %.
    pub firm_trials: u64,
    pub firm_seconds: f64,
    /// Whether the maximum number of trials, not the time, limits them.
    pub by_max_trials: bool,
}

impl BudgetForecast {
    /// Returns the forecast for a plan whose trials take this time. `None` if the plan is not a race.
    pub fn assuming(plan: &Plan, trial_time: Nanos) -> Option<Self> {
        let most = plan.race.as_ref()?.rules.max_trials;
        Some(Self::new(plan, &Spending::new(plan.repeat.budget, most, trial_time), trial_time))
    }

    pub(super) fn new(plan: &Plan, spending: &Spending, trial_time: Nanos) -> Self {
        let candidates = plan.cells.len();
        let (affordable, by_max_trials) = (spending.affordable(trial_time), spending.is_limited_by_trials(trial_time));
        let trials = affordable + u64::from(spending.trials);
        let firm_trials = firm_trials(candidates) as u64;
        Self {
            candidates,
            trial_seconds: trial_time.seconds(),
            budget_seconds: spending.budget().seconds(),
            trials,
            pairs: spending.divide(None).pairs,
            within_percent: within_percent(trials, candidates),
            firm_trials,
            firm_seconds: firm_trials as f64 * trial_time.seconds(),
            by_max_trials,
        }
    }

    /// Whether the budget allows a firm answer.
    pub fn is_firm(&self) -> bool {
        self.trials >= self.firm_trials
    }
}

/// Returns the usual distance, rounded up to a whole percent.
fn within_percent(trials: u64, candidates: usize) -> Option<f64> {
    let (_, few, many) = USUAL_DISTANCE.into_iter().find(|(least, ..)| trials >= *least)?;
    Some(if candidates > MANY { many } else { few }.ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_distance_falls_with_the_number_of_trials() {
        assert_eq!(
            [10, 20, 59, 60, 1000].map(|trials| within_percent(trials, 420)),
            [None, Some(5.0), Some(3.0), Some(2.0), Some(2.0)]
        );
        for pair in USUAL_DISTANCE.windows(2) {
            assert!(pair[0].0 > pair[1].0 && pair[0].1 < pair[1].1 && pair[0].2 < pair[1].2, "{pair:?}");
        }
        assert!(within_percent(20, 1707) > within_percent(20, 420), "more candidates are harder");
    }
}
