//! Results, comparisons and lists as tables: for the terminal, as Markdown and as CSV.

mod columns;
mod comparison;
mod comparison_csv;
mod efficiency;
mod forecast;
mod index;
mod lists;
mod load;
mod prediction;
mod race;
mod run;
mod size;

use model::values::csv_text::without_formula;

pub use comparison::{comparison, comparison_html, comparison_markdown, comparison_markdown_with, comparison_with};
pub use comparison_csv::comparison_csv;
pub use efficiency::{efficiency, efficiency_markdown};
pub use forecast::{dry_run, forecast};
pub use index::{index, index_csv, index_html, index_markdown};
pub use lists::{
    PolicyLines, experiments, live_experiments, placements, plan, policies, restored, runs, trials, workloads,
};
pub use load::cpu_load;
pub use prediction::prediction;
pub use race::{answer, explanation, ranking, standing};
pub use run::{Metrics, run, run_csv, run_markdown};
pub use size::size;

pub(crate) use comparison::{caption, comparison_grid, headnotes, long_grid, means};
pub(crate) use efficiency::{EFFICIENCY, efficiency_grid};
pub(crate) use index::{caption as index_caption, index_grid, index_notes};
pub(crate) use lists::{ending, live_ending};
pub(crate) use load::{load_grid, pages_grid};
pub(crate) use run::{
    caveats_grid, headed_grid, heading, invalid_trials_grid, machine, run_grid, section, skipped_grid,
};
pub(crate) use size::size_grid;

/// Writes rows as CSV; fields with commas, quotes or line feeds are quoted, and none is a formula.
pub(crate) fn csv_text(rows: &[Vec<String>]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer
            .write_record(row.iter().map(|field| without_formula(field).into_owned()))
            .expect("rows have equal lengths, and writing to memory cannot fail");
    }
    let bytes = writer.into_inner().expect("memory can be flushed");
    String::from_utf8(bytes).expect("fields are text")
}

/// Unrounded. Empty if absent.
pub(crate) fn csv_number(number: Option<f64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}
