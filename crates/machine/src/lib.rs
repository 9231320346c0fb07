//! The Linux host: hardware and settings, CPU affinity and memory placement of processes, and observed disturbances.
//! Its unsafe code and system calls are in this crate. Must not depend on experiments, workloads or results.
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]

pub mod affinity;
pub mod capture;
pub mod cgroup;
pub mod child;
pub mod command_output;
pub mod cpu_times;
pub mod cpuset;
mod descendants;
pub mod detach;
pub mod devices;
mod evidence;
pub mod expand_probes;
mod file_mapping;
pub mod foreground;
pub mod frequency;
pub mod interleave_weights;
pub mod interrupt;
mod irqbalance;
pub mod java;
pub mod live;
pub mod lock;
pub mod log_lines;
pub mod memory;
mod mempolicy;
pub mod nodes;
pub mod page_cache;
pub mod pagemap_scan;
pub mod perf;
pub mod priority;
pub mod probes;
mod proc;
pub mod residency;
pub mod service_memory;
pub mod service_threads;
pub mod service_usage;
pub mod settings;
pub mod stale;
pub mod swap;
mod syscall;

pub use syscall::SyscallError;
mod sysfs;
pub mod tcp_requests;
pub mod text_copy;
mod thread_counts;
pub mod thread_time;
pub mod token;
pub mod topology;
mod trial_cgroup;
pub mod tune;
pub mod undo;
pub mod zram;
