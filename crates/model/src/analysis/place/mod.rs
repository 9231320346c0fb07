//! What `nearfar place` asks and answers: a question makes a plan whose cells are the candidates (`question`), a course
//! says which block of it runs next and when it is over (`course`), an answer says what came out (`answer`). All of them
//! follow from the plan and the stored trials alone, so a race that was cut off goes on as if nothing had happened.

mod request;
mod result;
mod state;

pub use request::{Objective, PlaceRequest};
pub use result::{Claim, Metric, PlaceResult, PlacementText, RankingRow};
pub use state::RaceState;

use serde::{Deserialize, Serialize};

use crate::placements::candidates::Stages;
use crate::stats::racing::Rules;

/// What makes a plan a race: its cells are candidates, the first of them the kernel's choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RacePlan {
    pub rules: Rules,
    /// Who runs first, and who follows.
    pub stages: Stages,
    /// How many placements there are in all, in digits: it may be beyond any number type.
    pub raw_placements: String,
    /// How they became so few.
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

/// One step from the raw placements to the candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReductionStep {
    /// How many there are after it, in digits; none for a remark.
    pub count: Option<String>,
    /// What it is, in words.
    pub text: String,
}
