//! What people read, as snapshots, and what must never happen in it.
#![allow(clippy::unwrap_used, reason = "a test may panic; clippy excuses only functions with #[test]")]

mod fixture;
mod machines;
mod maps;
mod pages;
mod races;
mod surveys;
mod tables;
