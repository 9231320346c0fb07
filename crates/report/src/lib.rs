//! Renders findings, topologies and records as text, Markdown, CSV, JSON, HTML and SVG. Decides rounding, wording and
//! layout only.
//!
//! # Invariants
//!
//! - This crate computes nothing: it depends only on `model`, so text, JSON and HTML show the same values.
//! - A report reads the same without its script, and the script formats numbers as the program does.
//!   Tests: nearfar/tests/looks/script.rs.
//! - A report fetches nothing, does not scroll sideways on a phone, and is readable in light, dark and printed form and
//!   with a screen reader. Tests: nearfar/tests/looks, in Chromium (`make looks`).
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]
#![forbid(unsafe_code)]
#![allow(
    clippy::format_collect,
    clippy::format_push_string,
    reason = "this crate makes short texts from parts, where a format! reads better than a write! into a buffer"
)]

mod answer;
mod axis;
pub mod changes;
mod claim_text;
mod comparison_notes;
pub mod doctor;
mod figure_style;
mod frame;
pub mod gate;
mod grid;
pub mod html;
pub mod index_figure;
pub mod json;
pub mod live;
pub mod live_applied;
mod live_trial;
pub mod map;
pub mod number;
mod race;
pub mod residency;
mod stamp;
mod style;
pub mod survey;
mod svg;
pub mod table;

pub use claim_text::{ClaimText, in_words, sentences};
pub use figure_style::{FigureStyle, Theme, source};
pub use live_trial::{live_answer, live_trial};
pub use stamp::machine;
pub use style::TextStyle;
