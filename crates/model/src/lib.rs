//! Pure values and decisions: what a machine is, who runs where, what an experiment asks, what its
//! samples mean. Must not know files, clocks, threads, entropy or processes.
#![forbid(unsafe_code)]
pub mod analysis;
pub mod experiments;
pub mod import;
pub mod placements;
pub mod sharing;
pub mod stats;
pub mod values;
