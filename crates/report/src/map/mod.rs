//! What a machine is, shown five ways: for reading, as JSON, as numactl's twin, as a picture.

mod cores;
mod interrupts;
mod json;
pub mod measured;
mod numactl;
mod outline;
mod svg;
mod text;

pub use interrupts::interrupts;
pub use json::json;
pub use numactl::{numactl, numactl_measured};
pub use svg::svg;
pub use text::text;

pub(crate) use text::fact_text;
