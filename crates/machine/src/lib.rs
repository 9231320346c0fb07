//! (being built)

pub mod capture;
pub mod devices;
pub mod memory;
mod mempolicy;
pub mod seat;
pub mod settings;
mod syscall;
mod sysfs;
pub mod topology;
