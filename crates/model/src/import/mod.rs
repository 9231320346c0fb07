//! Parsers of other tools' results. Must not read files.

pub mod alias;
pub mod reports;
pub mod unixbench;
