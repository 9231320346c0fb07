//! The conclusion about the winner, from the state of the search and the fresh pairs.

use serde::Serialize;

use super::RaceState;
use super::gain::Gain;
use crate::stats::racing::{ConfirmResult, Confirmation, Race, RankClaim, State};
use crate::values::record::EndReason;

/// A search is undecided if its pairs and its trials together do not exclude a gain of this size, in percent.
const UNDECIDED_GAIN_PERCENT: f64 = 15.0;

/// Conclusion about the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is better than the baseline.
    Better,
    /// It is probably better than the baseline: search and fresh pairs agree, but the pairs are too few to prove it.
    Likely,
    /// No placement exceeds the baseline by more than the indifference.
    KernelIsBest,
    /// No difference between the best candidate and the baseline was found.
    NoDifferenceSeen,
    /// The model's favourite. The budget did not allow any fresh pairs.
    Provisional,
    /// Too much noise, or too little time, for a conclusion.
    Inconclusive,
    /// The program failed in most of its runs, so its results mean nothing.
    ProgramFails,
    /// The baseline has no valid trial, so there is no comparison.
    NoReference,
    /// The search has not ended.
    Unfinished,
}

impl Claim {
    /// Whether there is an answer to apply or to save.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Better | Self::Likely | Self::KernelIsBest | Self::NoDifferenceSeen)
    }

    /// Whether the winner is the baseline.
    pub fn keeps_baseline(self) -> bool {
        matches!(self, Self::KernelIsBest | Self::NoDifferenceSeen)
    }

    /// Returns the claim of a search or race in its present state.
    pub(super) fn of(state: &RaceState<'_>, confirmed: Option<Confirmation>) -> Self {
        if state.end_reason() == Some(EndReason::NoReference) {
            return Self::NoReference;
        }
        if state.end_reason().is_none() {
            return Self::Unfinished;
        }
        if state.tally().program_failures().is_some_and(|failures| failures.most) {
            return Self::ProgramFails;
        }
        let has_search = state.plan().race.as_ref().is_some_and(|race| race.search.is_some());
        if has_search { of_search(state, confirmed) } else { of_race(state, confirmed) }
    }

    /// Returns the claim of the fresh pairs of a search. They are few: if they show no difference, the trials of the
    /// search count too.
    pub fn of_pairs(confirmed: &Confirmation, gain: &Gain) -> Self {
        match confirmed.verdict {
            ConfirmResult::Faster => Self::Better,
            ConfirmResult::Slower => Self::KernelIsBest,
            ConfirmResult::NoDifferenceSeen { .. } if gain.is_likely() => Self::Likely,
            ConfirmResult::NoDifferenceSeen { .. } if gain.excluded_percent() <= UNDECIDED_GAIN_PERCENT => {
                Self::NoDifferenceSeen
            }
            ConfirmResult::NoDifferenceSeen { .. } => Self::Inconclusive,
        }
    }
}

/// The claim of a search with fresh pairs, which are unbiased: a candidate that led by chance is not better.
fn of_search(state: &RaceState<'_>, confirmed: Option<Confirmation>) -> Claim {
    let Some(confirmed) = confirmed else {
        return match (state.leader(), state.challenger()) {
            // There is no other candidate.
            (Some(0), None) => Claim::KernelIsBest,
            (Some(0), Some(_)) if all_others_are_worse(state) => Claim::KernelIsBest,
            (_, Some(_)) => Claim::Provisional,
            _ => Claim::Inconclusive,
        };
    };
    Claim::of_pairs(&confirmed, &Gain::of(state, &confirmed))
}

/// Whether the race shows that every candidate except its leader is worse. Its intervals are simultaneous, and the baseline
/// was not chosen by its values, so this needs no fresh pairs.
fn all_others_are_worse(state: &RaceState<'_>) -> bool {
    let standings = state.standings();
    let is_worse = |word: &RankClaim| matches!(word, RankClaim::Worse { .. } | RankClaim::TooSlow { .. });
    !standings.is_empty() && standings.iter().all(|one| one.word == RankClaim::Leads || is_worse(&one.word))
}

/// The claim of a race of all candidates, without a search.
fn of_race(state: &RaceState<'_>, confirmed: Option<Confirmation>) -> Claim {
    let race_state = state.race().map_or(State::Racing, Race::state);
    let resolved = race_state.is_resolved();
    match race_state {
        State::NoReference | State::NobodyLeft => return Claim::NoReference,
        State::Racing => return Claim::Inconclusive,
        _ => {}
    }
    match confirmed.map(|confirmed| confirmed.verdict) {
        Some(ConfirmResult::Faster) => Claim::Better,
        Some(ConfirmResult::Slower) if resolved => Claim::KernelIsBest,
        Some(ConfirmResult::NoDifferenceSeen { wide: false }) if resolved => Claim::NoDifferenceSeen,
        None if resolved && state.leader() == Some(0) => Claim::KernelIsBest,
        _ => Claim::Inconclusive,
    }
}
