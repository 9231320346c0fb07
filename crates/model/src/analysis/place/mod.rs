//! `nearfar place`: a request becomes a plan whose cells are the candidates (`request`), the state of the race
//! determines the next block and the end (`state`), and a result describes the outcome (`result`). All depend only on
//! the plan and the stored trials, so an interrupted race resumes in the same state.

mod request;
mod result;
mod state;

pub use request::{Objective, PlaceRequest};
pub use result::{Claim, Metric, PlaceResult, PlacementText, RankingRow};
pub use state::RaceState;
