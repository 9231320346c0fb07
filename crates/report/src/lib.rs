//! Findings, topologies and records as text, Markdown, CSV, JSON, HTML and SVG. Must not compute: every number
//! shown here was computed by `model`; rounding, wording, layout and pixels are what this crate decides.
#![forbid(unsafe_code)]

mod grid;
pub mod html;
pub mod json;
mod look;
pub mod map;
pub mod number;
mod sentence;
pub mod table;

pub use look::Look;
pub use sentence::{Sentence, sentences};
