//! Topologies and measured maps in all formats: text, JSON, CSV, the output of numactl, SVG.

mod cores;
mod interrupts;
mod json;
pub mod measured;
mod numactl;
mod outline;
mod svg;
mod text;
pub mod weights;

pub use interrupts::interrupts;
pub use json::json;
pub use numactl::{numactl, numactl_measured};
pub use svg::svg;
pub use text::text;

pub(crate) use text::fact_text;
