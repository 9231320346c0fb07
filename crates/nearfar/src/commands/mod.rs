//! The commands, one per file. A command converts arguments, calls other modules and prints the result.

pub mod bfs;
pub mod compare;
pub mod doctor;
pub mod expand;
pub mod export;
pub mod files;
pub mod fleet;
pub mod gate;
pub mod graph;
pub mod import;
pub mod internal;
pub mod list;
pub mod manual;
pub mod map;
pub mod measure;
pub mod place;
pub mod placements;
pub mod report;
pub mod residency;
pub mod restore;
pub mod run;
pub mod serve;
pub mod share;
pub mod show;
pub mod size;
pub mod survey;
