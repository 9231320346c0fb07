//! Runs the program of a trial with a DRAM limit, in an expansion of `farmem`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farmem::{CompressionMode, Expansion, ExpansionLimits, ExpansionStatus, PagingMode, Unavailable};
use machine::child;
use machine::undo::SettingsRoot;
use model::values::compressibility::Compressibility;
use model::values::placement::DramBudget;
use model::values::trial::{CompressedTraffic, DramBudgetUse, Trial, TrialStatus};
use model::values::units::{Bytes, Nanos};
use workloads::with_hint;

use super::page_cache::UsedFiles;
use super::{compressibility, run_tool};

/// A limit larger than the memory of any machine.
const ALL: Bytes = Bytes(1 << 50);
/// Swap of an expansion without a limit, which pages nothing out.
const PROBE_FAR: Bytes = Bytes(16 << 20);
/// Interval between two samples of a command's memory use.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Interval between two samples of the DRAM that compressed pages use, in measured trials: rarer, to disturb them less.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Location of far memory and of system settings for trials with a DRAM budget.
#[derive(Clone, Debug)]
pub struct FarConfig {
    /// The directory of the swap file.
    pub directory: PathBuf,
    /// Root directory of settings and their undo journal.
    pub site: SettingsRoot,
}

/// Sets up an expansion. Call it on the thread that will run the trial.
pub(super) fn begin(budget: DramBudget, far: &FarConfig) -> Result<(Expansion, Arc<File>), TrialStatus> {
    let engine = if budget.steered { PagingMode::Steered } else { PagingMode::Plain };
    let budget = ExpansionLimits {
        engine,
        directory: far.directory.clone(),
        compressed: compression(budget.compressed),
        ..ExpansionLimits::of(budget.dram)
    };
    let parent = child::starter_pid().map_err(|error| TrialStatus::Failed(format!("fork: {error}")))?;
    let expansion = Expansion::start(&budget, &far.site.own(), Some(parent)).map_err(|error| status(&error))?;
    let entrance = expansion.cgroup_procs().map_err(|error| status(&error))?;
    Ok((expansion, Arc::new(entrance)))
}

/// Runs a trial in an expansion. Returns its result, and the peak of the DRAM that compressed pages used.
pub(super) fn with_pool_peak<T>(expansion: &Expansion, budget: DramBudget, run: impl FnOnce() -> T) -> (T, Bytes) {
    if !budget.compressed {
        return (run(), Bytes(0));
    }
    let peak = AtomicU64::new(0);
    let result = with_sampler(POOL_POLL_INTERVAL, || peak.fetch_max(expansion.pool().0, Ordering::Relaxed), run);
    (result, Bytes(peak.into_inner()))
}

/// Calls `sample` repeatedly on another thread while `run` runs.
fn with_sampler<S, T>(interval: Duration, mut sample: impl FnMut() -> S + Send, run: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                sample();
                std::thread::sleep(interval);
            }
        });
        let result = run();
        over.store(true, Ordering::Relaxed);
        result
    })
}

/// Ends an expansion, kills the processes that are left in it, and returns its memory use. `pool_peak` is the peak of the
/// DRAM that compressed pages used.
pub(super) fn end(expansion: Expansion, pool_peak: Bytes) -> Result<DramBudgetUse, TrialStatus> {
    let dram = expansion.dram();
    expansion.kill_all();
    let other_swap = expansion.other_swap();
    let (state, restored) = expansion.stop();
    if let Some(left) = restored.iter().find(|restored| !restored.is_settled()) {
        return Err(TrialStatus::Failed(format!("{left}; hint: nearfar restore tries again")));
    }
    Ok(DramBudgetUse {
        dram,
        read: state.far_read,
        written: state.far_written,
        killed: state.killed,
        prefetched: state.piloted.map(|piloted| Bytes(piloted.counts.fetched * farmem::page_bytes())),
        controller_cpu: controller_cpu(&state),
        compressed: state.compressed.map(|used| CompressedTraffic { dram_max: Some(pool_peak), ..used.traffic }),
        other_swap,
    })
}

/// Returns the CPU time of the paging controller and of the thread that evicts to zram; `None` without a controller.
fn controller_cpu(state: &ExpansionStatus) -> Option<Nanos> {
    let steering = Duration::from_secs_f64(state.piloted?.cpu);
    Some(Nanos((steering + state.compressing_cpu.unwrap_or_default()).as_nanos() as u64))
}

/// Memory of a program without a limit.
#[derive(Debug)]
pub struct RequiredMemory {
    /// Its peak, without the page cache.
    pub peak: Bytes,
    /// At half of the peak or more; `None` if the program ended before it could be sampled there.
    pub compressibility: Option<Compressibility>,
}

fn compression(is_compressed: bool) -> CompressionMode {
    if is_compressed { CompressionMode::Always } else { CompressionMode::Never }
}

/// Measures the memory of the server of a trial or, without one, of its command, without a limit. The trial is one of a
/// tool. If `compressed`, compressed memory has to be available, although it is not used.
pub fn required(
    trial: &Trial,
    far: &FarConfig,
    compressed: bool,
    stop: &AtomicBool,
    on_wait: fn(&str),
) -> Result<RequiredMemory, TrialStatus> {
    let unbounded = ExpansionLimits {
        engine: PagingMode::Plain,
        directory: far.directory.clone(),
        far: PROBE_FAR,
        compressed: compression(compressed),
        ..ExpansionLimits::of(ALL)
    };
    let expansion = Expansion::start(&unbounded, &far.site.own(), None).map_err(|error| status(&error))?;
    let entrance = expansion.cgroup_procs().map(Arc::new).map_err(|error| status(&error))?;
    let peak = AtomicU64::new(0);
    let mut pages = PageSampler::new(&expansion);
    let outcome = with_sampler(
        POLL_INTERVAL,
        || peak.fetch_max(expansion.own_memory().0, Ordering::Relaxed),
        // Another thread, because a sample takes longer than a peak may last.
        || {
            with_sampler(
                POLL_INTERVAL,
                || pages.poll(),
                || run_tool(trial, stop, trial.time_limit, Some(entrance), &UsedFiles::default(), on_wait),
            )
        },
    );
    let (peak, sampled) = (Bytes(peak.into_inner()), pages.latest);
    end(expansion, Bytes(0))?;
    match outcome?.status {
        TrialStatus::Completed => {
            let is_near_peak = |sampled: &Compressibility| 2 * sampled.total.bytes.0 >= peak.0;
            Ok(RequiredMemory { peak, compressibility: sampled.filter(is_near_peak) })
        }
        TrialStatus::Failed(why) => Err(TrialStatus::Failed(format!("without a DRAM limit: {why}"))),
        other => Err(other),
    }
}

/// Samples the pages of a program while its memory is near the peak.
struct PageSampler<'a> {
    expansion: &'a Expansion,
    started: Instant,
    peak: Bytes,
    /// Memory and time of the latest sample.
    sampled: (Bytes, Duration),
    latest: Option<Compressibility>,
}

impl<'a> PageSampler<'a> {
    fn new(expansion: &'a Expansion) -> Self {
        let (peak, sampled) = (Bytes(0), (Bytes(0), Duration::ZERO));
        Self { expansion, started: Instant::now(), peak, sampled, latest: None }
    }

    fn poll(&mut self) {
        let (memory, elapsed) = (self.expansion.own_memory(), self.started.elapsed());
        self.peak = self.peak.max(memory);
        if !is_due(memory, self.peak, elapsed, self.sampled) {
            return;
        }
        self.sampled = (memory, elapsed);
        self.latest = compressibility::sample(&self.expansion.processes()).or(self.latest.take());
    }
}

/// Whether another sample is due: the memory has grown by a quarter since the last one, or the run is half as long again, so
/// that its content may have changed. None is due far below the peak, for example while the program ends.
fn is_due(memory: Bytes, peak: Bytes, elapsed: Duration, sampled: (Bytes, Duration)) -> bool {
    let has_grown = memory.0 > 0 && memory.0 as f64 >= 1.25 * sampled.0.0 as f64;
    memory.0 as f64 >= 0.8 * peak.0 as f64 && (has_grown || elapsed >= sampled.1.mul_f64(1.5))
}

fn status(error: &Unavailable) -> TrialStatus {
    let message = with_hint(error);
    if error.not_permitted { TrialStatus::Unavailable(message) } else { TrialStatus::Failed(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_sampled_near_the_peak_after_growth_or_time() {
        let due = |memory, peak, seconds, sampled: (u64, u64)| {
            let sampled = (Bytes(sampled.0), Duration::from_secs(sampled.1));
            is_due(Bytes(memory), Bytes(peak), Duration::from_secs(seconds), sampled)
        };
        assert!(!due(0, 0, 0, (0, 1)), "nothing to sample");
        assert!(due(100, 100, 1, (0, 1)), "the first");
        assert!(due(125, 125, 11, (100, 10)) && !due(124, 124, 11, (100, 10)));
        assert!(due(100, 100, 15, (100, 10)) && !due(100, 100, 14, (100, 10)));
        assert!(!due(79, 100, 100, (10, 10)) && due(80, 100, 100, (10, 10)));
    }

    #[test]
    fn samples_are_taken_while_the_run_lasts() {
        let count = AtomicU64::new(0);
        let seen = with_sampler(
            Duration::ZERO,
            || count.fetch_add(1, Ordering::Relaxed),
            || {
                while count.load(Ordering::Relaxed) < 3 {
                    std::thread::yield_now();
                }
                "result"
            },
        );
        assert_eq!(seen, "result");
        assert!(count.into_inner() >= 3);
    }
}
