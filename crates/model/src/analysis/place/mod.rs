//! `nearfar place`: a request becomes a plan whose cells are the candidates (`request`), the state of the search
//! determines the next block and the end (`state`), and a result describes the outcome (`result`). All depend only on
//! the plan and the stored trials, so an interrupted search resumes in the same state.

mod apply;
mod block_result;
mod claim;
mod earlier;
mod file_race;
mod file_use;
mod file_variants;
mod forecast;
mod gain;
mod outlook;
mod placed_files;
mod prediction;
mod request;
mod result;
mod search;
mod spending;
mod state;
mod tally;

pub use claim::Claim;
pub use earlier::EarlierRun;
pub use file_race::{FileOutcome, FileRace, NextFileRace};
pub use file_use::FileUse;
pub use forecast::BudgetForecast;
pub use gain::Gain;
pub use outlook::{CurvePoint, LikelyCandidate, Outlook, PercentRange, ThreadEffect};
pub use prediction::{MeasuredProgram, PlacePrediction, PredictedRow, PredictionError};
pub use request::{MetricLabel, Objective, PlaceRequest, PriorChoice};
pub use result::{MeasuredValue, Metric, PlaceResult, PlacementText, RankingRow};
pub use state::{RaceState, firm_trials};
pub use tally::ProgramFailures;
