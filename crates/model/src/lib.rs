//! Pure values and decisions: topologies, placements, experiments, plans, statistics and analyses.
//! Must not depend on files, clocks, threads, entropy or processes.
//!
//! # Invariants
//!
//! - No clock, files, threads, environment or entropy: `clippy.toml` of this crate disallows them.
//! - Two placements are one candidate exactly if a permutation of equivalent parts maps one to the other. Tests of
//!   `candidates::orbits` compare with all permutations of small machines.
//! - The reported difference between a race's winner and the baseline comes from fresh pairs only (`Role::Confirm`).
//!   Its coverage: `cargo bench -p lab --bench place`.
//! - An interrupt counts as placed only if it arrived on the requested CPUs. Tests of `trial::verdict::routes`.
//! - In surveys of machines that do not differ, the rate of false alarms is at most the stated one. Test:
//!   `false_alarm_rate_stays_below_the_bound` (tests/survey.rs); `cargo bench -p model --bench survey` draws a
//!   thousand surveys of each kind of noise.
//! - A shared run contains no host name, path, address, serial number or command line; a setting or parameter that is
//!   not known to be harmless is private (`share`). Tests: store/tests/store/shared.rs.
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]
#![forbid(unsafe_code)]
pub mod analysis;
pub mod experiments;
pub mod hint;
pub mod import;
pub mod placements;
pub mod sharing;
pub mod stats;
pub mod values;
