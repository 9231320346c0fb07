//! The next step of an experiment: a race chooses one alternative, and fresh blocks of it and the baseline prove its gain.
//! Must not depend on how blocks are run.
//!
//! The best of several alternatives looks better than it is, so no block of the race counts for the claim. The number of
//! fresh blocks is fixed by the race before the first of them, so their interval is evaluated once and keeps its coverage.

use std::collections::BTreeMap;

use super::compare::positive;
use super::protocol::{BlockError, Dropped, NextStep, Outcome, Phase, Rules};
use super::race::{ANALYSE_EVERY, DropReason, deviation, drops, gain, leader};
use super::{ArmId, BLOCKS_MIN, Block, Change, NoClaim, PeriodResult, Schedule, compare};
use crate::stats::racing::planned;
use crate::values::workload::Better;

/// Largest share of the budget that the race uses, unless its first interim analysis needs more.
const RACE_SHARE: f64 = 0.5;
/// Deviation of a pair if the race cannot estimate it: that of a noisy virtual machine.
const DEVIATION_GUESS: f64 = 0.05;
/// A large effect needs no narrower interval than this share of it.
const HALF_WIDTH_SHARE: f64 = 0.25;

/// State of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Switchback {
    rules: Rules,
    blocks: Vec<Block>,
    dropped: Vec<Dropped>,
    /// Chosen alternative, with its planned number of fresh blocks.
    chosen: Option<(ArmId, usize)>,
    /// Periods that belong to no block.
    lost: usize,
}

impl Switchback {
    pub fn new(rules: Rules) -> Self {
        Self { rules, blocks: Vec::new(), dropped: Vec::new(), chosen: None, lost: 0 }
    }

    /// Returns the completed blocks in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the arms that left, in order.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// Returns the alternative that is being confirmed and the planned number of complete fresh blocks; `None` during the
    /// race.
    pub fn chosen(&self) -> Option<(ArmId, usize)> {
        self.chosen
    }

    /// Returns the number of periods so far.
    pub fn periods(&self) -> usize {
        self.blocks.iter().map(|block| block.periods.len()).sum()
    }

    /// Returns the change of each alternative in the blocks of the race. For display only: these intervals are
    /// evaluated many times, and the best of several is overestimated.
    pub fn race_changes(&self) -> BTreeMap<ArmId, Result<Change, NoClaim>> {
        let race = self.race_blocks();
        (1..=self.rules.alternatives).map(ArmId).map(|arm| (arm, compare(&race, arm))).collect()
    }

    /// Returns the change in the fresh blocks so far; `None` during the race. It is a claim only in the [`Outcome`].
    pub fn fresh_change(&self) -> Option<Result<Change, NoClaim>> {
        self.chosen.map(|(arm, _)| compare(&self.fresh_blocks(arm), arm))
    }

    /// Returns the next step. The order depends only on the seed and the number of blocks, so an interrupted block is
    /// repeated in the same order.
    pub fn next_step(&self) -> NextStep {
        let arms = self.arms();
        if arms.len() < 2 {
            return NextStep::Done(Outcome::NoAlternatives);
        }
        let Some((arm, planned)) = self.chosen else {
            // The budget holds a race and a confirmation, or the race does not begin.
            let is_possible = !self.race_must_end(&arms);
            return if is_possible { self.block(Phase::Race, &arms) } else { NextStep::Done(too_few(0)) };
        };
        let complete = complete_blocks(&self.fresh_blocks(arm), arm);
        // The service is not disturbed for blocks that cannot become a claim.
        if complete + self.periods_left() / 2 < BLOCKS_MIN {
            return NextStep::Done(too_few(complete));
        }
        if complete < planned && self.periods_left() >= 2 {
            return self.block(Phase::Confirm, &[ArmId::BASELINE, arm]);
        }
        NextStep::Done(self.outcome(arm))
    }

    /// Adds the block that [`Self::next_step`] asked for.
    ///
    /// # Errors
    ///
    /// [`BlockError`]; the state is unchanged.
    pub fn push(&mut self, block: Block) -> Result<(), BlockError> {
        let NextStep::Block { phase, order } = self.next_step() else { return Err(BlockError::NotNext) };
        let mut given: Vec<ArmId> = block.periods.iter().map(|(arm, _)| *arm).collect();
        given.sort_unstable();
        let mut expected = order;
        expected.sort_unstable();
        if block.phase != phase || given != expected {
            return Err(BlockError::NotNext);
        }
        for (arm, result) in &block.periods {
            if let PeriodResult::Value(value) = result {
                positive(*value).map_err(|_| BlockError::InvalidValue { arm: *arm, value: *value })?;
            }
        }
        self.blocks.push(block);
        if phase == Phase::Race {
            self.analyse();
        }
        Ok(())
    }

    /// Removes an alternative, such as after a violated guard. If it was being confirmed, the next best is, as far as the
    /// budget allows. The baseline and arms that have left are ignored. The reason must not depend on the metric's gain.
    pub fn withdraw(&mut self, arm: ArmId) {
        if arm != ArmId::BASELINE && self.arms().contains(&arm) {
            self.drop_arm(arm, DropReason::Withdrawn);
            if self.chosen.is_some_and(|(chosen, _)| chosen == arm) {
                self.choose();
            }
        }
    }

    /// Counts the time of an incomplete block, in periods, as part of the budget: a block in which a guard was violated is
    /// not pushed. No arm may have an advantage from this: whether a block is incomplete must not depend on its values.
    pub fn lose(&mut self, periods: usize) {
        self.lost += periods;
        if self.chosen.is_none() && !self.blocks.is_empty() && self.race_must_end(&self.arms()) {
            self.choose();
        }
    }

    /// Returns the arms in the experiment, the baseline first.
    fn arms(&self) -> Vec<ArmId> {
        let has_left = |arm: &ArmId| self.dropped.iter().any(|dropped| dropped.arm == *arm);
        (0..=self.rules.alternatives).map(ArmId).filter(|arm| !has_left(arm)).collect()
    }

    fn block(&self, phase: Phase, arms: &[ArmId]) -> NextStep {
        let order = Schedule { seed: self.rules.seed }.order(self.blocks.len() as u32, arms);
        NextStep::Block { phase, order }
    }

    fn periods_left(&self) -> usize {
        self.rules.periods_max.saturating_sub(self.used())
    }

    fn used(&self) -> usize {
        self.periods() + self.lost
    }

    /// Analyses the race after a block: drops arms, and ends it if one alternative is left or the budget requires it.
    fn analyse(&mut self) {
        let race = self.race_blocks();
        if race.len().is_multiple_of(ANALYSE_EVERY) {
            for (arm, reason) in drops(&race, &self.arms(), self.rules.better) {
                self.drop_arm(arm, reason);
            }
        }
        let arms = self.arms();
        if arms.len() == 2 && race.len() >= ANALYSE_EVERY || self.race_must_end(&arms) {
            self.choose();
        }
    }

    /// Whether the race has used its share of the budget, or another block would leave too little for a confirmation.
    fn race_must_end(&self, arms: &[ArmId]) -> bool {
        let with_next = self.used() + arms.len();
        let share = (RACE_SHARE * self.rules.periods_max as f64) as usize;
        let shortest = ANALYSE_EVERY * (self.rules.alternatives as usize + 1);
        self.rules.periods_max < self.rules.periods_min()
            || with_next > share.max(shortest)
            || with_next + 2 * BLOCKS_MIN > self.rules.periods_max
    }

    fn drop_arm(&mut self, arm: ArmId, reason: DropReason) {
        self.dropped.push(Dropped { arm, reason, after_blocks: self.blocks.len() });
    }

    /// Chooses the best alternative, and plans its fresh blocks from the deviation and the effect in the race.
    fn choose(&mut self) {
        let race = self.race_blocks();
        let alternatives: Vec<ArmId> = self.arms().into_iter().filter(|arm| *arm != ArmId::BASELINE).collect();
        self.chosen = leader(&race, &alternatives, self.rules.better).map(|arm| {
            let effect = gain(&race, arm, ArmId::BASELINE, self.rules.better);
            let wide = if effect.is_finite() { HALF_WIDTH_SHARE * effect.abs() } else { 0.0 };
            let half_width = self.rules.half_width.max(wide);
            let pairs = planned(deviation(&race, arm).unwrap_or(DEVIATION_GUESS), half_width).pairs as usize;
            (arm, pairs.min(self.periods_left() / 2).max(BLOCKS_MIN))
        });
    }

    fn outcome(&self, arm: ArmId) -> Outcome {
        let change = match compare(&self.fresh_blocks(arm), arm) {
            Ok(change) => change,
            Err(reason) => return Outcome::NoClaim { reason },
        };
        let is_higher = self.rules.better == Better::Higher;
        if change.interval.contains(0.0) {
            let end = if is_higher { change.interval.high } else { -change.interval.low };
            return Outcome::NoDifferenceSeen { arm, change, excluded_gain: end.max(0.0) };
        }
        if (change.interval.low > 0.0) == is_higher {
            Outcome::Gain { arm, change }
        } else {
            Outcome::Loss { arm, change }
        }
    }

    fn race_blocks(&self) -> Vec<Block> {
        self.blocks.iter().filter(|block| block.phase == Phase::Race).cloned().collect()
    }

    /// Returns the fresh blocks of an arm.
    fn fresh_blocks(&self, arm: ArmId) -> Vec<Block> {
        let is_fresh =
            |block: &&Block| block.phase == Phase::Confirm && block.periods.iter().any(|(other, _)| *other == arm);
        self.blocks.iter().filter(is_fresh).cloned().collect()
    }
}

fn complete_blocks(blocks: &[Block], arm: ArmId) -> usize {
    blocks.iter().filter(|block| block.value(arm).is_some() && block.value(ArmId::BASELINE).is_some()).count()
}

fn too_few(complete: usize) -> Outcome {
    Outcome::NoClaim { reason: NoClaim::TooFewBlocks { complete, needed: BLOCKS_MIN } }
}
