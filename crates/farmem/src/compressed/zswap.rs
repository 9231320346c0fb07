//! Turns the kernel's compressed memory (zswap) for a cgroup on and off, as the judge decides. Must not know which pages are
//! evicted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::cgroup::MemoryCgroup;
use model::values::units::Bytes;

use super::counters;
use super::judge::{TierChange, TierJudge};

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The thread that turns zswap on and off. It ends when this is dropped.
pub(crate) struct ZswapSwitch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ZswapSwitch {
    /// Starts the thread. `dram` is the largest DRAM of compressed pages, and `disks` the swap devices for all others.
    pub(crate) fn start(group: MemoryCgroup, dram: Bytes, disks: Vec<PathBuf>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (is_stopped, mut judge, began) = (stop.clone(), TierJudge::new(false), Instant::now());
        let run = move || {
            while !is_stopped.load(Ordering::Relaxed) {
                std::thread::sleep(POLL_INTERVAL);
                if !judge.is_due(began.elapsed()) {
                    continue;
                }
                let loaded = group.compressed().unwrap_or_default().traffic.loaded;
                // Without permission, pages go where they went before.
                let _ = match judge.review(counters(&group, &disks, began.elapsed(), loaded)) {
                    TierChange::None => Ok(()),
                    TierChange::Compress => group.limit_compressed(dram),
                    TierChange::Stop => group.limit_compressed(Bytes(0)),
                };
            }
        };
        let thread = std::thread::Builder::new().name("far-zswap".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ZswapSwitch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
