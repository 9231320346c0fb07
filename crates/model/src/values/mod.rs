//! Plain values: units, sets, topology, settings, workloads, placements of a trial, plans, records.
//! Must not depend on `analysis`, `experiments`, `import`, `placements` or `sharing`.

pub mod calendar;
pub mod capture;
pub mod command_number;
pub mod comparison;
pub mod compressibility;
pub mod csv_text;
pub mod id_set;
pub mod live_metric;
pub mod machine_class;
pub mod placement;
pub mod plan;
pub mod program;
pub mod record;
pub mod settings;
pub mod shell;
pub mod stamp;
pub mod suggest;
pub mod topology;
pub mod trial;
pub mod undo;
pub mod units;
pub mod workload;
