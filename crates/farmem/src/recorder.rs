//! Records every page fault of a program in kernel mode. Must not know what follows from a fault.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::cgroup::MemoryCgroup;
use model::values::units::Bytes;

use crate::faults::FaultSource;
use crate::trace::{Record, Trace};

/// Maximum delay of a poll: first accesses fill a ring within milliseconds.
const PACE: Duration = Duration::from_millis(2);

pub(crate) struct FaultRecorder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl FaultRecorder {
    /// Starts recording. `sense` was opened on the thread that will fork the program, and samples each fault.
    pub(crate) fn start(mut sense: FaultSource, group: MemoryCgroup, dram: Bytes, trace: Trace) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ended, began) = (stop.clone(), Instant::now());
        let poll = move || {
            sense.watch_minor(true);
            let mut last = false;
            while !last {
                // Faults sampled before the end are still recorded.
                last = ended.load(Ordering::Relaxed);
                sense.wait(PACE);
                let mut trace = trace.open();
                sense.drain(|seen| trace.add(&seen.record()));
                let used = group.usage().map_or(dram.0, |usage| usage.0);
                trace.add(&Record::Look {
                    now: began.elapsed().as_nanos() as u64,
                    headroom: dram.0 as i64 - used as i64,
                });
            }
        };
        Ok(Self { stop, thread: std::thread::Builder::new().name("far-watch".into()).spawn(poll)? })
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}
