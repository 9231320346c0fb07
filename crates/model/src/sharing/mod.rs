//! Anonymisation of runs and imported tables for publication.

pub mod share;
