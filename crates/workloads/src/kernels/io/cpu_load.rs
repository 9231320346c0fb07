//! What every cpu of the machine did while all threads measured, their ramps with it: read before the first of them may
//! begin, and after the last has ended. Making and filling a file before it is no part of that.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use machine::cpu_times;
use model::values::id_set::CpuId;
use model::values::trial::CpuTime;

use crate::job::Failure;
use crate::team::Worker;

type Reading = OnceLock<Option<BTreeMap<CpuId, CpuTime>>>;

pub(super) struct Load {
    measuring: AtomicUsize,
    before: Reading,
    after: Reading,
}

impl Load {
    pub(super) fn new(threads: usize) -> Self {
        Self { measuring: AtomicUsize::new(threads), before: OnceLock::new(), after: OnceLock::new() }
    }

    /// Runs a thread's timed region. All begin together, when the cpus have been read.
    pub(super) fn around(
        &self,
        member: &Worker<'_>,
        region: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        member.timed(|| {
            self.before.get_or_init(|| cpu_times::now().ok());
            member.barrier()?;
            region()?;
            if self.measuring.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.after.get_or_init(|| cpu_times::now().ok());
            }
            Ok(())
        })
    }

    /// What each cpu did; empty where it cannot be read.
    pub(super) fn seen(&self) -> BTreeMap<CpuId, CpuTime> {
        let [before, after] = [&self.before, &self.after].map(|reading| reading.get().and_then(Option::as_ref));
        before.zip(after).map(|(before, after)| cpu_times::between(before, after)).unwrap_or_default()
    }
}
