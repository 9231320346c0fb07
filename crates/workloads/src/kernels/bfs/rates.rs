//! The searches of a trial as the fields of the Graph500's output, and as samples by root.

use graph::{Harmonic, IoCounts, PAGE_BYTES, Quartiles, TreeStats};
use model::values::workload::{Better, MetricSpec};

use crate::describe::{Metric, metrics as specs};
use crate::job::{Failure, KernelOutput};

pub(super) struct Searched {
    pub(super) seconds: f64,
    pub(super) reached: TreeStats,
    /// What it read from a disk.
    pub(super) io: IoCounts,
    /// Seconds that its checks took.
    pub(super) validation: f64,
}

/// Metrics beside the harmonic mean and its deviation.
pub(super) fn metrics() -> Vec<MetricSpec> {
    let (up, down) = (Better::Higher, Better::Lower);
    let metric = Metric::median;
    specs([
        metric("min_TEPS", "TEPS", up),
        metric("firstquartile_TEPS", "TEPS", up),
        metric("median_TEPS", "TEPS", up),
        metric("thirdquartile_TEPS", "TEPS", up),
        metric("max_TEPS", "TEPS", up),
        metric("min_time", "s", down),
        metric("firstquartile_time", "s", down),
        metric("median_time", "s", down),
        metric("thirdquartile_time", "s", down),
        metric("max_time", "s", down),
        metric("mean_time", "s", down),
        metric("stddev_time", "s", down),
        metric("graph_generation", "s", down),
        metric("construction_time", "s", down),
        metric("mean_validate", "s", down),
        metric("bytes_per_edge", "B", down),
        metric("dram_used", "B", down),
        metric("memory_peak", "B", down),
        metric("far_mean_reads", "reads", down),
        metric("far_mean_pages", "pages", down),
        metric("far_mean_bytes", "B", down),
        Metric { series: "nedge", ..metric("median_nedge", "edges", up) },
        Metric { series: "nedge_with_loops", ..metric("median_nedge_with_loops", "edges", up) },
    ])
}

/// Adds what every root's search read from a disk, and what follows from all.
pub(super) fn push_io(measured: &mut KernelOutput, searched: &[Searched]) -> Result<(), Failure> {
    for Searched { io, .. } in searched {
        measured.push("far_reads", io.reads as f64)?;
        measured.push("far_pages", (io.bytes / PAGE_BYTES) as f64)?;
        measured.push("far_bytes", io.bytes as f64)?;
        measured.push("far_lists", io.lists as f64)?;
    }
    let mean =
        |of: fn(&IoCounts) -> u64| searched.iter().map(|one| of(&one.io) as f64).sum::<f64>() / searched.len() as f64;
    measured.push("far_mean_reads", mean(|io| io.reads))?;
    measured.push("far_mean_pages", mean(|io| io.bytes / PAGE_BYTES))?;
    measured.push("far_mean_bytes", mean(|io| io.bytes))
}

/// Adds the samples of every root, and what follows from all.
pub(super) fn push(measured: &mut KernelOutput, searched: &[Searched]) -> Result<(), Failure> {
    let rate = |one: &Searched| one.reached.tuples_without_loops as f64 / one.seconds;
    let rates: Vec<f64> = searched.iter().map(rate).collect();
    let seconds: Vec<f64> = searched.iter().map(|one| one.seconds).collect();
    let validations: Vec<f64> = searched.iter().map(|one| one.validation).collect();
    for (one, rate) in searched.iter().zip(&rates) {
        measured.push("TEPS", *rate)?;
        measured.push("time", one.seconds)?;
        measured.push("nedge", one.reached.tuples_without_loops as f64)?;
        measured.push("nedge_with_loops", one.reached.tuples as f64)?;
        measured.push("levels", one.reached.levels as f64)?;
    }
    let none = || Failure::Failed("there was no root to search from".into());
    let harmonic = Harmonic::of(&rates).ok_or_else(none)?;
    measured.push("harmonic_mean_TEPS", harmonic.mean)?;
    measured.push("harmonic_stddev_TEPS", harmonic.stddev)?;
    for (name, values) in [("TEPS", &rates), ("time", &seconds)] {
        let of = Quartiles::of(values).ok_or_else(none)?;
        measured.push(&format!("min_{name}"), of.min)?;
        measured.push(&format!("firstquartile_{name}"), of.first)?;
        measured.push(&format!("median_{name}"), of.median)?;
        measured.push(&format!("thirdquartile_{name}"), of.third)?;
        measured.push(&format!("max_{name}"), of.max)?;
        if name == "time" {
            measured.push("mean_time", of.mean)?;
            measured.push("stddev_time", of.stddev)?;
        }
    }
    measured.push("mean_validate", Quartiles::of(&validations).ok_or_else(none)?.mean)
}
