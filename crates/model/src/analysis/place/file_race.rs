//! A second race: the winner of a search against other placements of its files and its program text. A search cannot
//! include them, because only its trials show which files a command uses.

use serde::Serialize;

use super::file_use::FileUse;
use super::file_variants::file_variants;
use super::request::PlaceRequest;
use super::result::{PlaceResult, PlacementText, RankingRow};
use super::spending::FILE_TRIALS_MIN;
use super::{Claim, RaceState};
use crate::stats::racing::Confirmation;
use crate::values::plan::Plan;
use crate::values::record::{RunRecord, TrialRecord};
use crate::values::topology::Topology;
use crate::values::units::Nanos;
use crate::values::workload::WorkloadSpec;

/// Whether other placements of the winner's files were raced, and their result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileRace {
    pub in_use: FileUse,
    #[serde(flatten)]
    pub outcome: FileOutcome,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum FileOutcome {
    /// One of them is better, and part of the winner.
    Better {
        /// The winner of the search.
        plain: Box<PlacementText>,
        /// The winner compared with it, from fresh pairs only.
        versus_plain: Box<Confirmation>,
    },
    /// None was found to be better than the winner.
    NotBetter { rows: Vec<RankingRow> },
    /// The rest of the budget is too short for a race.
    TooShort {
        /// A budget that suffices, in seconds.
        budget_seconds: f64,
    },
}

/// The second race of a result, if there is one.
pub enum NextFileRace {
    /// Its plan, and the use of files that suggests it.
    Plan(Box<Plan>, FileUse),
    /// There is no time for it.
    TooShort(FileRace),
}

impl PlaceRequest {
    /// Returns the race of the winner's files, for the result of a search. `None` if their placement cannot matter, if there are no other placements of
    /// them, or if the request excludes such a race. `copies_text` is whether this program may copy program text.
    ///
    /// # Errors
    ///
    /// If a parameter is invalid.
    pub fn file_race(
        &self,
        (record, trials): (&RunRecord, &[TrialRecord]),
        answer: &PlaceResult,
        copies_text: bool,
        (topology, spec): (&Topology, &WorkloadSpec),
    ) -> Result<Option<NextFileRace>, String> {
        let Some(state) = RaceState::replay(&record.plan, trials).filter(|_| self.places_files) else {
            return Ok(None);
        };
        let cells = &record.plan.cells;
        let name = answer.winner.as_ref().map(|winner| &winner.placement);
        // The baseline stays what the kernel makes of it.
        let winner = cells.iter().position(|cell| Some(&cell.placement.name) == name);
        let Some(winner) = winner.filter(|winner| *winner != 0) else { return Ok(None) };
        let in_use = state.placed_files().in_use(winner);
        let placement = &cells[winner].placement;
        let variants = file_variants(topology, placement, in_use, copies_text);
        if variants.is_empty() {
            return Ok(None);
        }
        let left = Nanos(self.budget.0.saturating_sub(state.spent().0));
        let price = state.price(winner);
        if left.0 / price.0.max(1) < FILE_TRIALS_MIN {
            let budget_seconds = state.spent().seconds() + FILE_TRIALS_MIN as f64 * price.seconds();
            let outcome = FileOutcome::TooShort { budget_seconds };
            return Ok(Some(NextFileRace::TooShort(FileRace { in_use, outcome })));
        }
        let request = Self { budget: left, ..self.clone() };
        let plan = request.file_plan(placement, variants, topology, spec)?;
        let plan = Plan { command: record.plan.command.clone(), ..plan };
        Ok(Some(NextFileRace::Plan(Box::new(plan), in_use)))
    }
}

impl PlaceResult {
    /// Adds the result of the race of the winner's files, whose baseline is the winner. If other files are better, they
    /// become a part of the winner, and this returns true.
    pub fn add_file_race(&mut self, files: Self, in_use: FileUse) -> bool {
        let is_better = files.claim == Claim::Better;
        let outcome = match (is_better, files.versus_kernel, self.winner.clone()) {
            (true, Some(versus_plain), Some(plain)) => {
                FileOutcome::Better { plain: Box::new(plain), versus_plain: Box::new(versus_plain) }
            }
            _ => FileOutcome::NotBetter { rows: files.standings.into_iter().filter(|row| row.cell > 0).collect() },
        };
        if is_better {
            self.winner = files.winner;
            self.lines = files.lines;
            self.second_lines = files.second_lines;
            self.command = files.command;
        }
        self.file_race = Some(FileRace { in_use, outcome });
        is_better
    }
}
