//! Two stages, for more candidates than are worth racing at once: first a few shapes under the policies that interact
//! with the shape, then those that the survivors of the first point to.
//!
//! All survivors and not the winner alone: among 222 candidates, many of them equal, the winner alone led to the best or
//! within 1 % of it in 94 % of simulated races, all survivors in 99.5 %, for a third more trials.

use std::collections::BTreeSet;

use super::{Fate, Race, State, interim};

/// Above this many candidates staging saves trials (20 to 47 % at 183), below it costs some (20 to 60 % at 40 and
/// less), at the same accuracy.
const AT_ONCE: usize = 100;

#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Who comes in after each survivor of this stage; nobody where there is no other stage.
    pub next: Option<Vec<Vec<usize>>>,
    /// The block with which this stage began.
    pub from: usize,
    /// Who won the stage before.
    pub winner: Option<usize>,
}

/// Who races first, and what comes after.
pub(super) fn first(first_stage: &[bool], second_stage: impl Fn(usize) -> Vec<usize>) -> (Vec<usize>, Stage) {
    let count = first_stage.len();
    let runs_first = |candidate: &usize| count <= AT_ONCE || *candidate == 0 || first_stage[*candidate];
    let field: Vec<usize> = (0..count).filter(runs_first).collect();
    // Only who runs first can survive the first stage.
    let fields = |candidate: usize| if runs_first(&candidate) { second_stage(candidate) } else { Vec::new() };
    let next = (field.len() < count).then(|| (0..count).map(fields).collect());
    (field, Stage { next, from: 0, winner: None })
}

impl Race {
    /// Where the first of two stages has ended with a leader, lets the second in: who comes after any of those whom the
    /// first could not tell apart. They stay, who was dropped stays out, but the kernel's choice comes back.
    pub(super) fn begin_second_stage(&mut self) {
        let ended = matches!(self.state, State::Resolved | State::OnlyOneLeft | State::OutOfBlocks);
        let Some(winner) = self.leader().filter(|_| ended) else { return };
        let Some(next) = self.stage.next.take() else { return };
        let field = self.second_field(&next);
        // Nobody new but the kernel's choice that was beaten: the answer stands.
        if field.iter().all(|candidate| *candidate == 0 || self.active.contains(candidate)) {
            return;
        }
        self.stage = Stage { next: None, from: self.rows.len(), winner: Some(winner) };
        self.enter(field);
        self.state = State::Racing;
    }

    fn second_field(&self, next: &[Vec<usize>]) -> Vec<usize> {
        // The kernel's choice has no shape: where nobody else is left, the best of the others shows where to look.
        let mut guides: Vec<usize> = self.active.iter().copied().filter(|candidate| *candidate != 0).collect();
        if guides.is_empty() {
            guides.extend(self.best_placed());
        }
        let fits: BTreeSet<usize> = guides.iter().flat_map(|guide| next[*guide].iter().copied()).collect();
        let may = |candidate: &usize| self.fates[*candidate] == Fate::Waiting && fits.contains(candidate);
        (0..self.fates.len())
            .filter(|candidate| *candidate == 0 || self.active.contains(candidate) || may(candidate))
            .collect()
    }

    /// Of all that ran but the kernel's choice the one with the smallest median.
    fn best_placed(&self) -> Option<usize> {
        let median = |candidate: &usize| {
            let values: Vec<f64> = self.rows.iter().filter_map(|row| row[*candidate]).collect();
            if values.is_empty() { f64::INFINITY } else { interim::middle(values) }
        };
        let ran = (1..self.fates.len()).filter(|candidate| median(candidate).is_finite());
        ran.min_by(|one, other| median(one).total_cmp(&median(other)))
    }
}
