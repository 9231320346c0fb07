//! Parses experiment files and fio job files, and expands them into plans for a machine.

pub mod experiment;
