//! This Linux box: what it is, where a process of it sits, where its memory lies, and what disturbed it. All unsafe code
//! and all system calls of that are here. Must not know experiments, workloads or results.

pub mod apart;
pub mod capture;
pub mod child;
pub mod cpu_times;
pub mod devices;
mod evidence;
pub mod expand_signs;
pub mod group;
pub mod interrupt;
mod irqbalance;
pub mod leftovers;
pub mod memory;
mod mempolicy;
pub mod modest;
pub mod nodes;
pub mod perf;
mod proc;
pub mod quiet;
pub mod seat;
pub mod secret;
pub mod settings;
pub mod signs;
pub mod swap;
mod syscall;
mod sysfs;
pub mod thread_time;
pub mod topology;
pub mod turn;
pub mod undo;
pub mod wrapped;
