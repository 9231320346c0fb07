//! Executes plans: decides which trial runs next, which are retried, when a cell is abandoned, when a run is precise
//! enough and where it resumes. Every trial is stored before the next one starts. Must not depend on hwloc, SQL or
//! HTML.
//!
//! # Invariants
//!
//! - **Resuming is a set difference.** A trial whose ID is stored is skipped, so a killed run ends with the same report
//!   as an uninterrupted one. Tests: `nearfar/tests/resume.rs`, `nearfar/tests/place.rs`.
//! - **No entropy.** All random decisions derive from the seed that is stored with the run.
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]
#![forbid(unsafe_code)]

pub mod executor;
pub mod history;
pub mod live;
pub mod progress;
mod race;
pub mod real;
pub mod run;
mod runner;
pub mod sim;
