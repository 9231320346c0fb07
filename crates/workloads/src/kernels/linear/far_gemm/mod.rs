//! GEMM on matrices that do not fit in DRAM: C = A B, all three n x n in a far file, with a bounded number of bytes in
//! DRAM.
//!
//! Measures: floating-point operations per second, 2 n^3, from the start of the first thread until C is in the file and
//! flushed (fdatasync). Every byte of A and B is read from the file with direct I/O, and C is written once. `io-wait`
//! is the time that the slowest thread waited for that; `read` and `written` are the amounts.
//! Does NOT measure creating A and B and packing them into the file, which precede the timed region (`pack-time`). Does
//! NOT measure a BLAS library on mapped memory: the schedule is implemented here (see `shape`), the arithmetic is the
//! library's, one call per panel and thread. The budget includes the super-tile of C and the panels. The library's own
//! buffers (about 30 MiB per thread) are additional, as in DRAM.
//! Definition: DGEMM and SGEMM as in `gemm`; C-stationary blocking for two levels of memory (Hong and Kung 1981).
//! Checked in every trial: Freivalds' test of all of C as read back from the file, with three random vectors and A and
//! B as generated (not as read); and dot products of some elements of every part of C in twice the precision. The
//! bounds are those of `gemm`.

mod check;
mod pack;
mod shape;
mod thread;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use farmem::array::{Access, Buffer, FarError, FarFile, FarLocation, MoverSettings, NearArena, TransferStats};
use machine::memory::{HugePages, PlacedMemory};
use model::values::id_set::NodeId;
use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, Parameters, Reduce, WorkloadSpec};

use super::blas::{Blas, N_MAX};
use super::element::Element;
use super::{blas_parameter, precision_parameter, too_large};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::kernels::arena::{self, far_failure as failure};
use crate::team::{self, TimedSpan};
use check::{Sums, compare, examine};
use pack::pack;
use shape::Tiling;
use thread::{GemmThread, ThreadBuffers};

/// Queue depth. All requests of a panel are in flight at once, because a multiplying thread submits none. A disk queue
/// holds no more.
const DEPTH: u32 = 128;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "far-gemm".into(),
        summary: "product of matrices in a file, with a bounded number of bytes in DRAM".into(),
        about:
            "Operations per second (2 n^3, in 10^9) of C = A B with all three matrices in a file. A super-tile of C \
                stays in DRAM while panels of A and B are read ahead with direct I/O, and is written once. Creating \
                the matrices is not counted. The arithmetic is a BLAS library's (OpenBLAS). The result is checked. MB \
                are 10^6 bytes."
                .into(),
        parameters: parameters([
            Parameter {
                name: "n",
                about: "rows and columns of each of the three matrices",
                kind: ParameterKind::Integer { min: 1, max: N_MAX as i64 / 2 },
                default: Some("4096"),
                smoke: Some("300"),
            },
            precision_parameter(),
            Parameter {
                name: "budget",
                about: "maximum number of bytes in DRAM for the super-tile of C and the panels",
                kind: ParameterKind::Size { min: Bytes(4 << 10), max: Bytes(1 << 43) },
                default: Some("64MiB"),
                smoke: Some("768KiB"),
            },
            Parameter {
                name: "directory",
                about: "directory of the file: on a disk, memory:DIR if it is not on one, or auto for $NEARFAR_FAR, \
                        else /var/tmp or /tmp",
                kind: ParameterKind::Text,
                default: Some("auto"),
                smoke: None,
            },
            Parameter {
                name: "depth",
                about: "columns of A and rows of B in one panel",
                kind: ParameterKind::Integer { min: 1, max: 65_536 },
                default: Some("768"),
                smoke: Some("96"),
            },
            Parameter {
                name: "transfer",
                about: "maximum size of a request to the disk",
                kind: ParameterKind::Size { min: Bytes(64 << 10), max: Bytes(16 << 20) },
                default: Some("1MiB"),
                smoke: None,
            },
            blas_parameter(),
        ]),
        metrics: metrics([
            Metric::median("gflops", "GFLOPS", Better::Higher),
            Metric::median("gflops-per-thread", "GFLOPS", Better::Higher),
            Metric::median("io-wait", "s", Better::Lower),
            Metric { name: "read", unit: "MB", better: Better::Lower, series: "read", reduce: Reduce::Median },
            Metric::median("written", "MB", Better::Lower),
            Metric::median("pack-time", "s", Better::Lower),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(6_000_000_000),
    }
}

/// Rejects a budget that is too small for one thread; more threads may need slightly more.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    tiling(parameters, 1).map(drop)
}

fn tiling(parameters: &Parameters, threads: usize) -> Result<Tiling, String> {
    let element = if parameters.text("precision") == "fp32" { 4 } else { 8 };
    let budget = Bytes(parameters.size("budget") as u64);
    Tiling::new(parameters.size("n"), element, parameters.size("depth"), budget, threads)
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    match job.parameters.text("precision") {
        "fp32" => multiply::<f32>(job),
        _ => multiply::<f64>(job),
    }
}

struct GemmContext<'w, T> {
    blas: &'w Blas,
    shape: Tiling,
    file: Arc<FarFile>,
    near: NearArena,
    mover: MoverSettings,
    /// Start addresses of both panels of A, then of both panels of B.
    panels: [*mut u8; 4],
    /// Start address of each thread's part of a super-tile.
    addresses: Vec<*mut u8>,
    seed: u64,
    sums: Sums,
    element: std::marker::PhantomData<T>,
}

// SAFETY: the addresses point into the near memory that this value holds; dereferencing them is unsafe and has its own
// conditions.
#[allow(unsafe_code)]
unsafe impl<T: Sync> Sync for GemmContext<'_, T> {}

/// Result of one thread.
struct ThreadResult {
    lap: TimedSpan,
    pack_seconds: f64,
    traffic: TransferStats,
    /// Time waiting for the panels of other threads.
    barrier_seconds: f64,
    /// Time of the final fdatasync.
    sync_seconds: f64,
}

fn multiply<T: Element>(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let shape = tiling(&job.parameters, job.threads).map_err(Failure::Failed)?;
    let n = shape.n;
    let blas = Blas::load(job)?;
    let of_n = |error: &FarError| too_large(n, failure(error));
    let place = FarLocation::parse(job.parameters.text("directory")).map_err(|error| failure(&error))?;
    let file = FarFile::new(&place, shape.far_bytes(), Access::Direct).map_err(|error| of_n(&error))?;
    let placed = PlacedMemory::new(shape.near_bytes(), &job.memory, HugePages::Wanted);
    let (near, all) = NearArena::new(placed.map_err(|error| arena::failure(&error))?);
    let buffers = split_buffers(&shape, all);
    let work: GemmContext<'_, T> = GemmContext {
        blas: &blas,
        file: Arc::new(file),
        near,
        mover: MoverSettings {
            transfer_bytes: job.parameters.size("transfer") / shape::UNIT * shape::UNIT,
            depth: DEPTH,
        },
        panels: std::array::from_fn(|panel| buffers[0].shares[panel].address()),
        addresses: buffers.iter().map(|buffers| buffers.part.address()).collect(),
        seed: job.seed,
        sums: Sums::new(n, job.seed),
        element: std::marker::PhantomData,
        shape,
    };
    let buffers: Vec<Mutex<Option<ThreadBuffers>>> =
        buffers.into_iter().map(|buffers| Mutex::new(Some(buffers))).collect();
    let team = team::run(job, |worker| {
        let buffers = buffers[worker.index].lock().unwrap_or_else(PoisonError::into_inner).take();
        one_thread(GemmThread::new(worker, &work, buffers.expect("each thread takes its buffers once"))?)
    })?;
    compare::<T>(&work.sums, n)?;
    report(job, team, n, pages(&work.near)?)
}

fn report(
    job: &TrialContext,
    team: team::TeamResult<ThreadResult>,
    n: usize,
    pages: BTreeMap<NodeId, u64>,
) -> Result<KernelOutput, Failure> {
    let done = team.results;
    let mut output = KernelOutput { thread_seats: team.seats, pages, ..KernelOutput::default() };
    let gflops = 2.0 * (n as f64).powi(3) / TimedSpan::seconds_of_all(done.iter().map(|done| done.lap)) / 1e9;
    let largest = |of: fn(&ThreadResult) -> f64| done.iter().map(of).fold(0.0, f64::max);
    let sum = |of: fn(&ThreadResult) -> u64| done.iter().map(of).sum::<u64>() as f64 / 1e6;
    output.push("gflops", gflops)?;
    output.push("gflops-per-thread", gflops / job.threads as f64)?;
    output.push("io-wait", largest(|done| done.traffic.waited.as_secs_f64()))?;
    output.push("read", sum(|done| done.traffic.read))?;
    output.push("written", sum(|done| done.traffic.written))?;
    output.push("pack-time", largest(|done| done.pack_seconds))?;
    // The rest of the elapsed time, for analysis of the raw samples.
    output.push("thread-wait", largest(|done| done.barrier_seconds))?;
    output.push("sync-time", largest(|done| done.sync_seconds))?;
    Ok(output)
}

/// Returns the pages by node, like an arena: empty if the Linux kernel has no NUMA support.
fn pages(near: &NearArena) -> Result<BTreeMap<NodeId, u64>, Failure> {
    arena::pages(near.pages_by_node(arena::PAGES_QUERIED_MAX))
}

/// Splits the near memory: both panels of A, both of B, then the threads' parts of C.
fn split_buffers(shape: &Tiling, mut all: Buffer) -> Vec<ThreadBuffers> {
    let mut tiling = |bytes: usize| {
        let rest = all.split_off(bytes);
        std::mem::replace(&mut all, rest)
    };
    let mut panels = [shape.a_bytes(), shape.a_bytes(), shape.b_bytes(), shape.b_bytes()].map(&mut tiling);
    let parts: Vec<Buffer> = (0..shape.parts.len()).map(|thread| tiling(shape.part_bytes(thread))).collect();
    let share = |panel: &mut Buffer, borders: &[usize], thread: usize| {
        let rest = panel.split_off(borders[thread + 1] - borders[thread]);
        std::mem::replace(panel, rest)
    };
    let (a, b) = (shape.shares(shape.a_bytes()), shape.shares(shape.b_bytes()));
    let borders = [&a, &a, &b, &b];
    let shares = |thread: usize, panels: &mut [Buffer; 4]| -> [Buffer; 4] {
        std::array::from_fn(|index| share(&mut panels[index], borders[index], thread))
    };
    parts
        .into_iter()
        .enumerate()
        .map(|(thread, part)| ThreadBuffers { shares: shares(thread, &mut panels), part })
        .collect()
}

fn one_thread<T: Element>(mut thread: GemmThread<'_, T>) -> Result<ThreadResult, Failure> {
    let worker = thread.worker;
    thread.work.blas.set_single_thread()?;
    let start = Instant::now();
    pack(&mut thread)?;
    let pack_seconds = start.elapsed().as_secs_f64();
    let before = thread.mover.traffic();
    let mut sync_seconds = 0.0;
    let lap = worker.timed(|| {
        worker.barrier()?;
        let start = Instant::now();
        thread.multiply()?;
        let multiplied = Instant::now();
        thread.work.file.sync().map_err(|error| failure(&error))?;
        sync_seconds = multiplied.elapsed().as_secs_f64();
        Ok(TimedSpan { start, end: Instant::now() })
    })?;
    let after = thread.mover.traffic();
    // A part that another thread still writes must not be read yet.
    worker.barrier()?;
    examine(&mut thread)?;
    let traffic = TransferStats {
        read: after.read - before.read,
        written: after.written - before.written,
        waited: after.waited.saturating_sub(before.waited),
    };
    Ok(ThreadResult { lap, pack_seconds, traffic, barrier_seconds: thread.barrier_time.as_secs_f64(), sync_seconds })
}

#[cfg(test)]
mod tests;
