//! (being built)

pub mod capture;
pub mod child;
pub mod devices;
mod evidence;
pub mod memory;
mod mempolicy;
pub mod nodes;
mod proc;
pub mod seat;
pub mod settings;
mod syscall;
mod sysfs;
pub mod topology;
