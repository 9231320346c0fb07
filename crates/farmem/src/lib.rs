//! Memory beyond DRAM: arrays over a file, and the kernel's swap steered from outside. Must not know experiments,
//! workloads or results.

pub mod array;
