//! Memory beyond DRAM: arrays over a file, and the kernel's swap steered from outside. Must not know experiments,
//! workloads or results.
//!
//! Steering goes one way: `sense` sees page faults, `predict` says what follows from them, `act` advises the kernel;
//! `pilot` has the three together, and `expansion` sets up what they need. What was seen and
//! ordered can be recorded (`trace`), also of a program that is not steered (`watch`).

mod advise;
pub mod array;
mod controller;
mod expansion;
mod faults;
pub mod predict;
mod recorder;
mod swap_check;
pub mod trace;

use std::fmt;
use std::io;

use machine::undo::ChangeError;

pub use controller::ControllerStats;
pub use expansion::{DRAM_MIN, Expansion, ExpansionLimits, ExpansionStatus, PagingMode};

/// Bytes of a page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Why there is no far memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What, on what, and the kernel's answer.
    pub what: String,
    /// The next step, where one is known.
    pub hint: Option<String>,
    /// Whether it was a matter of permission.
    pub not_permitted: bool,
}

impl Unavailable {
    pub(crate) fn unavailable(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, not_permitted: false }
    }

    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let not_permitted = error.kind() == io::ErrorKind::PermissionDenied;
        Self { what: format!("{what}: {error}"), hint: None, not_permitted }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Unavailable {}

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
