//! Snapshots of all renderings, and properties that every rendering must have.
#![allow(clippy::unwrap_used, reason = "a test may panic; clippy excuses only functions with #[test]")]

mod fixture;
mod machines;
mod maps;
mod pages;
mod races;
mod surveys;
mod tables;
