//! Experiments: what a TOML file or a fio job file asks, and the plan it becomes on a machine.

pub mod experiment;
