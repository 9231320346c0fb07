//! The operations behind the commands and the servers: opens the store, plans, resumes or begins a run, executes it, and returns its
//! findings. Must not depend on command lines, print results or choose exit statuses.

pub mod applied;
pub mod catalogue;
pub mod compare;
pub mod exec;
pub mod experiment;
pub mod exporter;
pub mod forwarded_signals;
pub mod gate;
pub mod guard_watch;
pub mod live_interrupts;
pub mod live_memory;
pub mod live_meter;
pub mod live_service;
pub mod measure;
pub mod measured_map;
pub mod overwrite;
pub mod place;
pub mod place_context;
pub mod prediction;
pub mod race_stages;
pub mod report;
pub mod residency;
pub mod restore_guard;
pub mod results_file;
pub mod run;
pub mod run_guard;
pub mod session;
pub mod size;
pub mod stored_live;
pub mod survey;
pub mod target_machine;
