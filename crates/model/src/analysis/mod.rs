//! Conclusions from stored trials: findings, comparisons, races, budgets, surveys, problems of a machine.

pub mod compare;
pub mod curves;
pub mod doctor;
pub mod finding;
pub mod gate;
pub mod live;
pub mod place;
pub mod residency;
pub mod size;
pub mod survey;
