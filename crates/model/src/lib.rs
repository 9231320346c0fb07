//! Pure values and decisions: what a machine is, who runs where, what an experiment asks, what its
//! samples mean. Must not know files, clocks, threads, entropy or processes.
#![forbid(unsafe_code)]

pub mod id_set;
pub mod topology;
pub mod units;
