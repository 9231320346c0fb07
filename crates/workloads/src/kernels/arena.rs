//! The memory that a kernel measures: placed by the trial's policy, in the pages that a parameter names, and
//! counted by node afterwards.

use std::collections::BTreeMap;

use crate::standin::memory::{HugePages, PlacedMemory};
use model::id_set::NodeId;
use model::workload::ParameterKind;

use crate::describe::Parameter;
use crate::job::{Failure, Job};

/// Asking the kernel about a page costs some 100 ns, so of large memory this many pages spread over it are asked about.
const PAGES_ASKED_MAX: usize = 1 << 16;

/// Placed memory.
pub(super) struct Arena(PlacedMemory);

/// The parameter that [`Arena::new`] reads.
pub(super) fn huge_pages_parameter() -> Parameter {
    Parameter {
        name: "huge-pages",
        about: "transparent huge pages: asked for, forbidden, or as the system is set",
        kind: ParameterKind::Choice(vec!["yes".into(), "no".into(), "system".into()]),
        default: Some("yes"),
        smoke: None,
    }
}

impl Arena {
    /// Memory for a kernel with the parameter `huge-pages`.
    pub(super) fn new(job: &Job, bytes: usize) -> Result<Self, Failure> {
        let huge_pages = match job.parameters.text("huge-pages") {
            "yes" => HugePages::Wanted,
            "no" => HugePages::Never,
            _ => HugePages::System,
        };
        Self::with_pages(job, bytes, huge_pages)
    }

    /// Memory in ordinary pages, for a kernel that uses a line or two.
    pub(super) fn small(job: &Job, bytes: usize) -> Result<Self, Failure> {
        Self::with_pages(job, bytes, HugePages::Never)
    }

    fn with_pages(job: &Job, bytes: usize, huge_pages: HugePages) -> Result<Self, Failure> {
        PlacedMemory::new(bytes, &job.memory, huge_pages).map(Self).map_err(|error| Failure::Failed(error.to_string()))
    }

    pub(super) fn as_f64(&mut self) -> &mut [f64] {
        self.0.as_mut_slice()
    }

    pub(super) fn as_u64(&mut self) -> &mut [u64] {
        self.0.as_mut_slice()
    }

    /// Where the pages are now.
    pub(super) fn pages_by_node(&self) -> Result<BTreeMap<NodeId, u64>, Failure> {
        self.0.pages_by_node(PAGES_ASKED_MAX).map_err(|error| Failure::Failed(error.to_string()))
    }
}
