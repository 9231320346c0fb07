//! Reads and writes of a file or a disk: requests per second, bandwidth and latency.
//!
//! Measures: requests of one size, from when they are due until they complete, for a given time or number of bytes, and
//! the CPU time that they take. Each thread keeps `iodepth` requests in flight. `direct` bypasses the page cache.
//! Does NOT measure opening files, or operations on many files. Without `direct`, it measures the page cache once that
//! holds the file.
//! Definition: as fio's read, write, randread, randwrite, rw and randrw with `ioengine`, `bs`, `iodepth`, `direct`,
//! `time_based` or `size`, `ramp_time`, `rate_iops`.
//! Must never write to existing data unless `allow-overwrite` names it, and never to a device or file in use
//! (`safety`).

mod advice;
mod aio;
mod buffers;
mod clock;
mod cpu_load;
mod data;
mod disk;
mod external_file;
mod mmap;
mod offsets;
mod options;
mod pace;
mod parameters;
mod preadv2;
mod psync;
mod queue;
mod read_back;
mod ring;
mod safety;
mod sync;
mod tally;
mod target;
#[cfg(test)]
mod tests;
mod verify;
mod worker;
mod zipf;

use std::collections::BTreeMap;

use model::values::id_set::NodeId;
use model::values::workload::Parameters;

use super::arena::Arena;
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::random::Random;
use crate::team::{self, Worker};
use buffers::Buffers;
use cpu_load::Load;
pub(crate) use external_file::ExternalFile;
use mmap::Mapping;
use offsets::Offsets;
use options::{IoEngine, Options};
pub(crate) use options::{has_writes, mixes};
pub(crate) use parameters::describe;
use ring::UringQueue;
pub(crate) use tally::FILE_SERIES;
use tally::IoStats;
use target::IoTarget;
use worker::{IoPlan, WorkerState};

const SECTOR: usize = 512;

/// Result of one thread: its statistics and the nodes of its buffers.
struct ThreadResult {
    tally: IoStats,
    pages: BTreeMap<NodeId, u64>,
}

/// Rejects parameters that are invalid on any machine.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    Options::read(parameters).map(drop)
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let options = Options::read(&job.parameters).map_err(Failure::Failed)?;
    options.check_combination().map_err(Failure::Failed)?;
    let tasks = tasks(job, &options)?;
    let load = Load::new(job.threads);
    let team =
        team::run(job, |worker| one_thread(job, Assignment::new(&tasks, job.threads, worker.index), &load, worker))?;
    job.meanwhile.record(load.cpu_times());
    for task in &tasks {
        task.target.unchanged()?;
        if let Some(written) = &task.written {
            read_back::read_back(task.seed, job, &task.options, &task.target, written)?;
        }
    }
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    let (tallies, pages): (Vec<IoStats>, Vec<_>) =
        team.results.into_iter().map(|done| (done.tally, done.pages)).unzip();
    pages.iter().for_each(|pages| tally::add_pages(&mut output.pages, pages));
    tally::report(&tallies, &options, &mut output)?;
    if tasks.len() > 1 {
        tally::report_files(&tallies, tasks.len(), &mut output)?;
    }
    push_qualifiers(&tasks, &mut output)?;
    Ok(output)
}

/// Creates one plan per file. Each has a separate seed, so that a block from another file is detected.
fn tasks(job: &TrialContext, options: &Options) -> Result<Vec<IoPlan>, Failure> {
    let each = options.each_file().map_err(Failure::Failed)?;
    if job.threads < each.len() {
        let (files, threads) = (each.len(), job.threads);
        let reason = format!("{files} files need at least {files} threads, but there are {threads}");
        return Err(Failure::Failed(format!("{reason}; hint: --threads {files}")));
    }
    let one = |(index, options): (usize, Options)| {
        let seed = job.seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let target = IoTarget::open(seed, &options)?;
        target.check_disk(&options)?;
        IoPlan::new(options, target, seed)
    };
    each.into_iter().enumerate().map(one).collect()
}

/// The plan of one thread, and its index among the threads with the same plan.
#[derive(Clone, Copy)]
struct Assignment<'t> {
    task: &'t IoPlan,
    index: usize,
    threads: usize,
}

impl<'t> Assignment<'t> {
    fn new(tasks: &'t [IoPlan], threads: usize, thread: usize) -> Self {
        let (files, file) = (tasks.len(), thread % tasks.len());
        Self { task: &tasks[file], index: thread / files, threads: (threads - file).div_ceil(files) }
    }
}

/// Adds samples that qualify the result and are not metrics. See docs/reference/workload-io.md.
fn push_qualifiers(tasks: &[IoPlan], output: &mut KernelOutput) -> Result<(), Failure> {
    if tasks.iter().any(|task| task.target.is_on_virtual_disk()) {
        output.push("virtual-disk", 1.0)?;
    }
    // For several files, the worst one.
    let unwritten = tasks.iter().filter_map(|task| task.target.unwritten_percent()).reduce(f64::max);
    if let Some(percent) = unwritten {
        output.push("unwritten-percent", percent)?;
    }
    if !tasks[0].options.direct
        && let Some(memory) = memory_bytes()
    {
        let bytes: u64 = tasks.iter().map(|task| task.target.bytes).sum();
        output.push("percent-of-memory", 100.0 * bytes as f64 / memory as f64)?;
    }
    Ok(())
}

/// Total memory of this machine: the upper limit of the page cache.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn one_thread(
    job: &TrialContext,
    part: Assignment<'_>,
    load: &Load,
    worker: &Worker<'_>,
) -> Result<ThreadResult, Failure> {
    let task = part.task;
    let options = &task.options;
    let file = task.target.handle()?;
    if !options.direct {
        advice::order(&file, options.spread);
    }
    let mut arena = Arena::small(job, buffers::blocks(options) * options.block)?;
    let mut random = Random::of_thread(!task.seed, part.index);
    let buffers = Buffers::new(&mut arena, options, &mut random);
    let places = Offsets::new(options, task.target.bytes, task.seed, part.index, part.threads);
    let parts = matches!(options.engine, IoEngine::IoUring | IoEngine::Libaio);
    let mut work = WorkerState::new(task, &file, buffers, places, parts);
    timed(worker, load, &mut work)?;
    let tally = work.stats;
    Ok(ThreadResult { tally, pages: arena.pages_by_node()? })
}

/// Sets up the engine, then runs the timed region.
fn timed(worker: &Worker<'_>, load: &Load, work: &mut WorkerState<'_>) -> Result<(), Failure> {
    let (task, file) = (work.task, work.file);
    let options = &task.options;
    match options.engine {
        IoEngine::IoUring => {
            let mut ring = ring::make(options)?;
            let mut ring = UringQueue::new(&mut ring, options, file, &work.buffers)?;
            load.measure(worker, || queue::run(work, &mut ring))
        }
        IoEngine::Libaio => {
            let mut aio = aio::Aio::new(options.depth, options.block, file)?;
            load.measure(worker, || queue::run(work, &mut aio))
        }
        IoEngine::Psync => load.measure(worker, || sync::run(work, psync::transfer(file))),
        IoEngine::Preadv2 => load.measure(worker, || sync::run(work, preadv2::transfer(file, options.iopoll))),
        IoEngine::Mmap => {
            let mut mapping = Mapping::new(file, task.target.bytes, options.writes(), options.spread)?;
            load.measure(worker, || sync::run(work, mapping.transfer()))
        }
    }
}

/// Converts the result of a system call: bytes, or the negative error number.
#[inline]
fn last_result(result: libc::ssize_t) -> i64 {
    if result >= 0 {
        return result as i64;
    }
    -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod for_tests {
    use super::{Options, Parameters, TrialContext};
    use crate::kernels::{job_for_tests, set};

    /// Returns a trial context at smoke size with these parameters.
    pub(super) fn job(pairs: &[(&str, &str)]) -> TrialContext {
        let mut job = job_for_tests("io");
        pairs.iter().for_each(|(name, text)| set(&mut job, name, text));
        job
    }

    pub(super) fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        job(pairs).parameters
    }

    pub(super) fn options(pairs: &[(&str, &str)]) -> Options {
        Options::read(&parameters(pairs)).unwrap()
    }
}
