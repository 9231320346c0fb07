//! Converts the searches of a trial to the fields of the Graph500's output, and to samples per root.

use graph::{Harmonic, IoCounts, PAGE_BYTES, Quartiles, TreeStats};
use model::values::workload::{Better, MetricSpec};

use crate::describe::{Metric, metrics as specs};
use crate::job::{Failure, KernelOutput};

pub(super) struct Searched {
    pub(super) seconds: f64,
    pub(super) reached: TreeStats,
    /// Disk reads of the search.
    pub(super) io: IoCounts,
    /// Seconds of the validation.
    pub(super) validation: f64,
}

/// Metrics besides the harmonic mean and its deviation.
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

/// Adds the disk reads of every search and their statistics.
pub(super) fn push_io(output: &mut KernelOutput, searched: &[Searched]) -> Result<(), Failure> {
    for Searched { io, .. } in searched {
        output.push("far_reads", io.reads as f64)?;
        output.push("far_pages", (io.bytes / PAGE_BYTES) as f64)?;
        output.push("far_bytes", io.bytes as f64)?;
        output.push("far_lists", io.lists as f64)?;
    }
    let mean =
        |of: fn(&IoCounts) -> u64| searched.iter().map(|one| of(&one.io) as f64).sum::<f64>() / searched.len() as f64;
    output.push("far_mean_reads", mean(|io| io.reads))?;
    output.push("far_mean_pages", mean(|io| io.bytes / PAGE_BYTES))?;
    output.push("far_mean_bytes", mean(|io| io.bytes))
}

/// Adds the samples of every search and their statistics.
pub(super) fn push(output: &mut KernelOutput, searched: &[Searched]) -> Result<(), Failure> {
    let rate = |one: &Searched| one.reached.tuples_without_loops as f64 / one.seconds;
    let rates: Vec<f64> = searched.iter().map(rate).collect();
    let seconds: Vec<f64> = searched.iter().map(|one| one.seconds).collect();
    let validations: Vec<f64> = searched.iter().map(|one| one.validation).collect();
    for (one, rate) in searched.iter().zip(&rates) {
        output.push("TEPS", *rate)?;
        output.push("time", one.seconds)?;
        output.push("nedge", one.reached.tuples_without_loops as f64)?;
        output.push("nedge_with_loops", one.reached.tuples as f64)?;
        output.push("levels", one.reached.levels as f64)?;
    }
    let none = || Failure::Failed("no root to search from".into());
    let harmonic = Harmonic::of(&rates).ok_or_else(none)?;
    output.push("harmonic_mean_TEPS", harmonic.mean)?;
    output.push("harmonic_stddev_TEPS", harmonic.stddev)?;
    for (name, values) in [("TEPS", &rates), ("time", &seconds)] {
        let of = Quartiles::of(values).ok_or_else(none)?;
        output.push(&format!("min_{name}"), of.min)?;
        output.push(&format!("firstquartile_{name}"), of.first)?;
        output.push(&format!("median_{name}"), of.median)?;
        output.push(&format!("thirdquartile_{name}"), of.third)?;
        output.push(&format!("max_{name}"), of.max)?;
        if name == "time" {
            output.push("mean_time", of.mean)?;
            output.push("stddev_time", of.stddev)?;
        }
    }
    output.push("mean_validate", Quartiles::of(&validations).ok_or_else(none)?.mean)
}
