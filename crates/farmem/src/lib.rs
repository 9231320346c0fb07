//! Memory beyond DRAM: arrays in a file, and the kernel's swap, controlled from outside. Must not depend on
//! experiments, workloads or results.
//!
//! Data flows one way: `faults` reads page faults, `predict` decides what follows from them, `advise` advises the
//! kernel; `controller` connects the three, within the limits of the governor (`predict/governor`), and `expansion`
//! sets up the cgroup and swap. Faults and advice can be recorded (`trace`), also in kernel mode (`recorder`).
//!
//! # Invariants
//!
//! - **The controller only advises the kernel.** If it is killed, the program loses no data, and `nearfar restore`
//!   removes its cgroup and swap device. Tests: `nearfar/tests/expand`.
//! - **Decisions are pure.** `predict` uses no clock and no system call. Its tests replay generated streams, and page
//!   faults of real programs (`predict/traces`, recorded by `expand --trace`), against a model of memory.
//! - **A program finds its own bytes**, whatever it does with its mappings. Tests: `tests/operations`, and in both
//!   modes `nearfar/tests/operations.rs`.
//! - **A far array loses no data.** A failed transfer is an error, and data that could not be written are kept. Test:
//!   `every_failed_transfer_is_reported_and_loses_nothing` (array/tests.rs).
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]

mod advise;
pub mod array;
mod compressed;
mod controller;
mod expansion;
mod faults;
pub mod predict;
mod recorder;
mod rescue;
mod swap_check;
pub mod trace;

use std::fmt;
use std::io;

use machine::undo::ChangeError;
use model::hint::Hinted;

pub use controller::ControllerStats;
pub use expansion::{CompressionMode, DRAM_MIN, Expansion, ExpansionLimits, ExpansionStatus, PagingMode};

/// Page size in bytes.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The reason why far memory is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    /// The operation, its object and the kernel's error.
    pub what: String,
    /// The next step, if known.
    pub hint: Option<String>,
    /// Whether permission was missing.
    pub not_permitted: bool,
}

impl Unavailable {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, not_permitted: false }
    }

    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let not_permitted = error.kind() == io::ErrorKind::PermissionDenied;
        Self { what: format!("{what}: {error}"), hint: None, not_permitted }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Hinted for Unavailable {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl From<array::FarError> for Unavailable {
    fn from(error: array::FarError) -> Self {
        Self { hint: error.hint(), not_permitted: false, what: error.to_string() }
    }
}

impl From<ChangeError> for Unavailable {
    fn from(error: ChangeError) -> Self {
        Self { what: error.what, hint: Some(error.hint), not_permitted: error.not_permitted }
    }
}
