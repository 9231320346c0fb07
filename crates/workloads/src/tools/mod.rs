//! Adapters: which command line runs another program, and how to read what it printed.

pub(crate) mod command;
pub(crate) mod unixbench;
