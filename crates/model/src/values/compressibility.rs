//! Measured compressibility of the memory of a program.

use serde::{Deserialize, Serialize};

use super::units::Bytes;

/// Size after compression of the pages of a program that can be paged out, estimated from a random sample of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compressibility {
    /// Name of the algorithm. Each page is compressed separately.
    pub algorithm: String,
    /// All kinds of memory together.
    pub total: CompressedShare,
    /// The largest kind first.
    pub kinds: Vec<KindShare>,
}

/// Size after compression of one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindShare {
    /// Such as `heap` or `shared memory`.
    pub kind: String,
    #[serde(flatten)]
    pub share: CompressedShare,
}

/// Size after compression in percent of the size before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompressedShare {
    /// Memory in pages that can be paged out, at the time of the sample.
    pub bytes: Bytes,
    /// Number of pages in the sample.
    pub pages: u64,
    pub percent: f64,
    /// Interval that contains the value for all pages with a probability of at least 95 %.
    pub ci_low: f64,
    pub ci_high: f64,
    /// Pages of zeros in percent; the kernel stores no data for them.
    pub zero_percent: f64,
    /// Pages that compression does not shrink, in percent.
    pub incompressible_percent: f64,
}
