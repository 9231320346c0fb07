//! `nearfar place`: a request becomes a plan whose cells are the candidates (`request`), the state of the race
//! determines the next block and the end (`state`), and a result describes the outcome (`result`). All depend only on
//! the plan and the stored trials, so an interrupted race resumes in the same state.

mod request;
mod result;
mod state;

pub use request::{Objective, PlaceRequest};
pub use result::{Claim, Metric, PlaceResult, PlacementText, RankingRow};
pub use state::RaceState;

use serde::{Deserialize, Serialize};

use crate::placements::candidates::Stages;
use crate::stats::racing::Rules;

/// Makes a plan a race: its cells are candidates, and the first is the baseline `kernel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RacePlan {
    pub rules: Rules,
    /// Candidates of the first and of the second stage.
    pub stages: Stages,
    /// Number of all placements, in digits, because it may exceed any number type.
    pub raw_placements: String,
    /// Steps of the reduction from the raw placements to the candidates.
    pub steps: Vec<ReductionStep>,
}

/// The version of the text that [`RacePlan::key_text`] returns. Increment it when the text must change on purpose:
/// unfinished races of the previous version then no longer resume.
const KEY_VERSION: u32 = 2;

impl RacePlan {
    /// Returns the text for the race in a plan's key. The steps are not part of it: they only explain.
    ///
    /// Stored hashes depend on this text, so it must not follow renames of types, fields or variants.
    pub(crate) fn key_text(&self) -> String {
        let Self { rules, stages, raw_placements, steps: _ } = self;
        let (rules, stages) = (rules.key_text(), stages.key_text());
        format!("race {KEY_VERSION}\n{rules}\n{stages}\nraw placements: {raw_placements}")
    }
}

/// One step of the reduction from the raw placements to the candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReductionStep {
    /// Number of placements after the step, in digits; `None` for notes.
    pub count: Option<String>,
    pub text: String,
}
