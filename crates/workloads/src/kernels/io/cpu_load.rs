//! CPU times of the machine during the timed region of all threads, including the ramp: read before the first thread
//! starts and after the last one ends. Excludes creating and filling a file.

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

    /// Runs a thread's timed region. All threads start together, after the CPU times have been read.
    pub(super) fn measure(
        &self,
        worker: &Worker<'_>,
        region: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        worker.timed(|| {
            self.before.get_or_init(|| cpu_times::now().ok());
            worker.barrier()?;
            region()?;
            if self.measuring.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.after.get_or_init(|| cpu_times::now().ok());
            }
            Ok(())
        })
    }

    /// CPU times of the timed region, or an empty map if they cannot be read.
    pub(super) fn cpu_times(&self) -> BTreeMap<CpuId, CpuTime> {
        let [before, after] = [&self.before, &self.after].map(|reading| reading.get().and_then(Option::as_ref));
        before.zip(after).map(|(before, after)| cpu_times::between(before, after)).unwrap_or_default()
    }
}
