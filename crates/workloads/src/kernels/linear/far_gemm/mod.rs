//! GEMM on matrices that DRAM does not hold: C = A B, all three n x n in a far file, with a bounded number of bytes in DRAM.
//!
//! Measures: floating-point operations per second, 2 n^3, from the first thread's start until C is in the file and the disk has said
//! so (fdatasync). Every byte of A and B comes from the file past the page cache, and C goes there once; `io-wait` says
//! how long the slowest thread waited for that, `read` and `written` how much it was.
//! Does NOT measure making A and B and packing them into the file, which happens before (`pack-time`), nor a BLAS library on mapped
//! memory: the schedule is ours (see `shape`), the arithmetic the library's, one call of it for each panel and thread. The
//! budget holds the super-tile of C and the panels; the library's own buffers (some 30 MiB a thread) come on top, as
//! they do in DRAM.
//! Definition: DGEMM and SGEMM as in `gemm`; C-stationary blocking for two levels of memory (Hong and Kung 1981).
//! Checked in every trial: Freivalds' test of all of C as read back from the file, with three random vectors and A and B as
//! they were made (not as they were read), and dot products of some elements of every part of C in twice the precision. The
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

/// All requests of a panel are under way at once: who multiplies hands none over. More than this a disk's queue does not hold.
const DEPTH: u32 = 128;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "far-gemm".into(),
        summary: "matrix product of matrices that lie in a file, with a bounded number of bytes in DRAM".into(),
        about: "Operations per second (2 n^3, in 10^9) of C = A B with all three matrices in a file: a super-tile of C stays in \
                DRAM while panels of A and B are read ahead past the page cache, and is written once. Making the \
                matrices is not counted. The arithmetic is a BLAS library's (OpenBLAS). The result is checked. MB are \
                10^6 bytes."
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
                about: "the most bytes of DRAM for the super-tile of C and the panels",
                kind: ParameterKind::Size { min: Bytes(4 << 10), max: Bytes(1 << 43) },
                default: Some("64MiB"),
                smoke: Some("768KiB"),
            },
            Parameter {
                name: "folder",
                about: "where the file lies: a folder on a disk, memory:FOLDER for one that is not, or auto for what NEARFAR_FAR \
                        names, else /var/tmp or /tmp",
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
                about: "the most bytes of one request to the disk",
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

/// Whether the budget is enough at all; with more threads a little more may be needed.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    cut(parameters, 1).map(drop)
}

fn cut(parameters: &Parameters, threads: usize) -> Result<Tiling, String> {
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
    /// Where both panels of A begin, and both of B.
    panels: [*mut u8; 4],
    /// Where each thread's part of a super-tile begins.
    addresses: Vec<*mut u8>,
    seed: u64,
    sums: Sums,
    element: std::marker::PhantomData<T>,
}

// SAFETY: the addresses are of the near memory, which this value holds; following them is unsafe and says who may.
#[allow(unsafe_code)]
unsafe impl<T: Sync> Sync for GemmContext<'_, T> {}

/// What a thread brings back.
struct ThreadResult {
    lap: TimedSpan,
    pack_seconds: f64,
    traffic: TransferStats,
    /// How long it waited for the other threads' panels.
    met_seconds: f64,
    /// How long the disk took to say that it has C.
    sync_seconds: f64,
}

fn multiply<T: Element>(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let shape = cut(&job.parameters, job.threads).map_err(Failure::Failed)?;
    let n = shape.n;
    let blas = Blas::load(job)?;
    let of_n = |error: &FarError| too_large(n, failure(error));
    let place = FarLocation::parse(job.parameters.text("folder")).map_err(|error| failure(&error))?;
    let file = FarFile::new(&place, shape.far_bytes(), Access::Direct).map_err(|error| of_n(&error))?;
    let placed = PlacedMemory::new(shape.near_bytes(), &job.memory, HugePages::Wanted);
    let (near, all) = NearArena::new(placed.map_err(|error| arena::failure(&error))?);
    let lent = lend(&shape, all);
    let work: GemmContext<'_, T> = GemmContext {
        blas: &blas,
        file: Arc::new(file),
        near,
        mover: MoverSettings {
            transfer_bytes: job.parameters.size("transfer") / shape::UNIT * shape::UNIT,
            depth: DEPTH,
        },
        panels: std::array::from_fn(|panel| lent[0].shares[panel].address()),
        addresses: lent.iter().map(|lent| lent.part.address()).collect(),
        seed: job.seed,
        sums: Sums::new(n, job.seed),
        element: std::marker::PhantomData,
        shape,
    };
    let lent: Vec<Mutex<Option<ThreadBuffers>>> = lent.into_iter().map(|lent| Mutex::new(Some(lent))).collect();
    let crew = team::run(job, |member| {
        let lent = lent[member.index].lock().unwrap_or_else(PoisonError::into_inner).take();
        one_thread(GemmThread::new(member, &work, lent.expect("each thread takes its own, once"))?)
    })?;
    compare::<T>(&work.sums, n)?;
    report(job, crew, n, pages(&work.near)?)
}

fn report(
    job: &TrialContext,
    crew: team::TeamResult<ThreadResult>,
    n: usize,
    pages: BTreeMap<NodeId, u64>,
) -> Result<KernelOutput, Failure> {
    let done = crew.results;
    let mut measured = KernelOutput { thread_seats: crew.seats, pages, ..KernelOutput::default() };
    let gflops = 2.0 * (n as f64).powi(3) / TimedSpan::seconds_of_all(done.iter().map(|done| done.lap)) / 1e9;
    let largest = |of: fn(&ThreadResult) -> f64| done.iter().map(of).fold(0.0, f64::max);
    let sum = |of: fn(&ThreadResult) -> u64| done.iter().map(of).sum::<u64>() as f64 / 1e6;
    measured.push("gflops", gflops)?;
    measured.push("gflops-per-thread", gflops / job.threads as f64)?;
    measured.push("io-wait", largest(|done| done.traffic.waited.as_secs_f64()))?;
    measured.push("read", sum(|done| done.traffic.read))?;
    measured.push("written", sum(|done| done.traffic.written))?;
    measured.push("pack-time", largest(|done| done.pack_seconds))?;
    // Where the rest of the time went, for whoever looks at the samples.
    measured.push("thread-wait", largest(|done| done.met_seconds))?;
    measured.push("sync-time", largest(|done| done.sync_seconds))?;
    Ok(measured)
}

/// As an arena does it: a kernel without NUMA tells nothing.
fn pages(near: &NearArena) -> Result<BTreeMap<NodeId, u64>, Failure> {
    arena::pages(near.pages_by_node(arena::PAGES_ASKED_MAX))
}

/// Cuts the near memory: both panels of A, both of B, then the threads' parts of C.
fn lend(shape: &Tiling, mut all: Buffer) -> Vec<ThreadBuffers> {
    let mut cut = |bytes: usize| {
        let rest = all.split_off(bytes);
        std::mem::replace(&mut all, rest)
    };
    let mut panels = [shape.a_bytes(), shape.a_bytes(), shape.b_bytes(), shape.b_bytes()].map(&mut cut);
    let parts: Vec<Buffer> = (0..shape.parts.len()).map(|thread| cut(shape.part_bytes(thread))).collect();
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

fn one_thread<T: Element>(mut lane: GemmThread<'_, T>) -> Result<ThreadResult, Failure> {
    let member = lane.member;
    lane.work.blas.alone()?;
    let begun = Instant::now();
    pack(&mut lane)?;
    let pack_seconds = begun.elapsed().as_secs_f64();
    let before = lane.mover.traffic();
    let mut sync_seconds = 0.0;
    let lap = member.timed(|| {
        member.barrier()?;
        let start = Instant::now();
        lane.multiply()?;
        let multiplied = Instant::now();
        lane.work.file.sync().map_err(|error| failure(&error))?;
        sync_seconds = multiplied.elapsed().as_secs_f64();
        Ok(TimedSpan { start, end: Instant::now() })
    })?;
    let after = lane.mover.traffic();
    // What a thread of another part still writes would be read before it is there.
    member.barrier()?;
    examine(&mut lane)?;
    let traffic = TransferStats {
        read: after.read - before.read,
        written: after.written - before.written,
        waited: after.waited.saturating_sub(before.waited),
    };
    Ok(ThreadResult { lap, pack_seconds, traffic, met_seconds: lane.met.as_secs_f64(), sync_seconds })
}

#[cfg(test)]
mod tests;
