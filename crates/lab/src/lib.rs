//! A plan goes in, stored trials come out. Decides the order of things: which trial next, when it is enough,
//! what is repeated, what is given up, where a run that was cut off goes on. Must not know hwloc, SQL or HTML.
#![forbid(unsafe_code)]

pub mod executor;
pub mod history;
mod race;
pub mod real;
pub mod run;
mod runner;
pub mod sim;
