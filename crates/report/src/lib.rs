//! Findings, topologies and records as text, Markdown, CSV, JSON, HTML and SVG. Must not compute: every number
//! shown here was computed by `model`; rounding, wording, layout and pixels are what this crate decides.
#![forbid(unsafe_code)]
#![allow(
    clippy::format_collect,
    clippy::format_push_string,
    reason = "this crate makes short texts from parts, where a format! reads better than a write! into a buffer"
)]

mod axis;
pub mod changes;
mod claim_text;
pub mod doctor;
mod frame;
mod grid;
pub mod html;
pub mod json;
pub mod map;
pub mod number;
mod race;
mod style;
pub mod survey;
mod svg;
pub mod table;

pub use claim_text::{ClaimText, in_words, sentences};
pub use style::TextStyle;
