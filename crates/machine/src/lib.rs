//! (being built)

pub mod capture;
pub mod devices;
pub mod child;
mod evidence;
pub mod memory;
mod mempolicy;
mod proc;
pub mod seat;
pub mod settings;
mod syscall;
mod sysfs;
pub mod topology;
