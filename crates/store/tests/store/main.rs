//! Tests of the results file through its public interface: real SQLite files in temporary directories, other processes,
//! full and read-only disks, damage; and PostgreSQL servers if PostgreSQL is installed.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod child;
mod copies;
mod damage;
mod disks;
mod exports;
mod fixtures;
mod kill;
mod live;
mod locks;
mod merges;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "postgres")]
mod postgres;
mod round_trip;
mod runs;
mod saved;
mod shared;
mod watch;
