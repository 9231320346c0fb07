//! Pure values and decisions: what a machine is, who runs where, what an experiment asks, what its
//! samples mean. Must not know files, clocks, threads, entropy or processes.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod candidates;
pub mod capture;
pub mod compare;
pub mod comparison;
pub mod doctor;
pub mod experiment;
pub mod finding;
pub mod id_set;
pub mod machine_class;
pub mod measured_map;
pub mod nearest;
pub mod place;
pub mod placement;
pub mod plan;
pub mod racing;
pub mod record;
pub mod reports;
pub mod settings;
pub mod share;
pub mod shell;
pub mod size;
pub mod statistics;
pub mod survey;
pub mod sweep;
pub mod topology;
pub mod trial;
pub mod undo;
pub mod units;
pub mod unixbench;
pub mod workload;
