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
pub mod doctor;
mod frame;
mod grid;
pub mod html;
pub mod json;
mod look;
pub mod map;
pub mod number;
mod picture;
mod race;
mod sentence;
pub mod survey;
pub mod table;

pub use look::Look;
pub use sentence::{Sentence, in_words, sentences};
