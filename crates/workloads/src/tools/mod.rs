//! Adapters: which command line runs another program, and how to read what it printed.

pub(crate) mod command;
mod installed;
pub(crate) mod sysbench;
pub(crate) mod unixbench;
