//! Two stages, for more candidates than are worth racing at once: first a few shapes under the policies that interact
//! with the shape, then the winner's shape under every policy and every shape under the winner's policy.

use super::{Fate, Race, State};

/// Above this many candidates staging saves trials (20 to 47 % at 183), below it costs some (20 to 60 % at 40 and
/// less), at the same accuracy.
const AT_ONCE: usize = 100;

/// What the stages need to know of a candidate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrant {
    pub first_stage: bool,
    pub shape: usize,
    pub policy: usize,
}

/// Where a race is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// Whether another stage follows.
    pub more: bool,
    /// The block with which this stage began.
    pub from: usize,
    /// Who won the stage before.
    pub winner: Option<usize>,
}

impl Stage {
    pub fn first(entrants: &[Entrant]) -> Self {
        Self { more: entrants.len() > AT_ONCE, from: 0, winner: None }
    }
}

/// Who races first.
pub(super) fn first_field(entrants: &[Entrant]) -> Vec<usize> {
    let at_once = entrants.len() <= AT_ONCE;
    (0..entrants.len()).filter(|candidate| at_once || *candidate == 0 || entrants[*candidate].first_stage).collect()
}

impl Race {
    /// Where the first of two stages has ended with a leader, lets the second in. Who was dropped stays out, but the
    /// kernel's choice comes back.
    pub(super) fn begin_second_stage(&mut self) {
        let ended = matches!(self.state, State::Resolved | State::OnlyOneLeft | State::OutOfBlocks);
        if !ended || !self.stage.more {
            return;
        }
        let Some(winner) = self.leader() else { return };
        let field = self.second_field(winner);
        // Only the winner, or the winner and the kernel's choice that it has beaten: the answer stands.
        if field.iter().all(|candidate| *candidate == 0 || *candidate == winner) {
            return;
        }
        self.stage = Stage { more: false, from: self.rows.len(), winner: Some(winner) };
        self.enter(field);
        self.state = State::Racing;
    }

    fn second_field(&self, winner: usize) -> Vec<usize> {
        // The kernel's choice has no shape: where it won, the best of the others shows where to look.
        let guide = if winner == 0 { self.best_placed() } else { Some(winner) };
        let fits = |candidate: usize| {
            let (entrant, guide) = (self.entrants[candidate], guide.map(|guide| self.entrants[guide]));
            guide.is_some_and(|guide| entrant.shape == guide.shape || entrant.policy == guide.policy)
        };
        let may = |candidate: usize| matches!(self.fates[candidate], Fate::Waiting | Fate::Running);
        (0..self.entrants.len())
            .filter(|candidate| *candidate == 0 || *candidate == winner || (may(*candidate) && fits(*candidate)))
            .collect()
    }

    /// The candidate with the smallest median that is not the kernel's choice: of those still in, else of all that ran.
    fn best_placed(&self) -> Option<usize> {
        let median = |candidate: &usize| {
            let values: Vec<f64> = self.rows.iter().filter_map(|row| row[*candidate]).collect();
            if values.is_empty() { f64::INFINITY } else { super::look::middle(values) }
        };
        let best = |candidates: &mut dyn Iterator<Item = usize>| {
            candidates.filter(|candidate| *candidate != 0).min_by(|one, other| median(one).total_cmp(&median(other)))
        };
        let ran = |candidate: &usize| median(candidate).is_finite();
        best(&mut self.active.iter().copied()).or_else(|| best(&mut (0..self.entrants.len()).filter(ran)))
    }
}
