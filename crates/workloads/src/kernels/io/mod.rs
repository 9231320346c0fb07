//! Requests to a file or a disk: how many a second, how many bytes, how long each takes.
//!
//! Measures: whole reads and writes of one size, from when they are due until they are done, each thread with so many
//! under way at once, for a span of time or so many bytes; and the processor time that they take. With `direct` the page
//! cache is left out.
//! Does NOT measure opening, or what a file system does for many files; without `direct` it measures the page cache as
//! soon as that holds the file.
//! Definition: as fio's read, write, randread, randwrite, rw and randrw with `ioengine`, `bs`, `iodepth`, `direct`,
//! `time_based` or `size`, `ramp_time`, `rate_iops`.
//! Must never write to what was there before, unless `allow-overwrite` names it, and never to what is in use (`safety`).

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
pub(crate) use options::{asks_to_write, mixes};
pub(crate) use parameters::describe;
use ring::UringQueue;
pub(crate) use tally::FILE_SERIES;
use tally::IoStats;
use target::IoTarget;
use worker::{IoPlan, WorkerState};

const SECTOR: usize = 512;

/// What one thread did, and where its buffers were.
struct Done {
    tally: IoStats,
    pages: BTreeMap<NodeId, u64>,
}

/// What is wrong with parameters whatever the machine.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    Options::read(parameters).map(drop)
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let options = Options::read(&job.parameters).map_err(Failure::Failed)?;
    options.possible().map_err(Failure::Failed)?;
    let tasks = tasks(job, &options)?;
    let load = Load::new(job.threads);
    let crew = team::run(job, |member| one_thread(job, Part::of(&tasks, job.threads, member.index), &load, member))?;
    job.meanwhile.record(load.seen());
    for task in &tasks {
        task.target.unchanged()?;
        if let Some(written) = &task.written {
            verify::read_back(task.seed, job, &task.options, &task.target, written)?;
        }
    }
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    let (tallies, pages): (Vec<IoStats>, Vec<_>) =
        crew.results.into_iter().map(|done| (done.tally, done.pages)).unzip();
    pages.iter().for_each(|pages| tally::add_pages(&mut measured.pages, pages));
    tally::report(&tallies, &options, &mut measured)?;
    if tasks.len() > 1 {
        tally::report_files(&tallies, tasks.len(), &mut measured)?;
    }
    note(&tasks, &mut measured)?;
    Ok(measured)
}

/// One for each file. Each has a seed of its own, so that a block that came from another file is found.
fn tasks(job: &TrialContext, options: &Options) -> Result<Vec<IoPlan>, Failure> {
    let each = options.each_file().map_err(Failure::Failed)?;
    if job.threads < each.len() {
        let (files, threads) = (each.len(), job.threads);
        let why = format!("{files} files need a thread each, and there are {threads}");
        return Err(Failure::Failed(format!("{why}; hint: --threads {files}")));
    }
    let one = |(index, options): (usize, Options)| {
        let seed = job.seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let target = IoTarget::open(seed, &options)?;
        target.suits(&options)?;
        IoPlan::new(options, target, seed)
    };
    each.into_iter().enumerate().map(one).collect()
}

/// What one thread has to do, and its place among those that do it with it.
#[derive(Clone, Copy)]
struct Part<'t> {
    task: &'t IoPlan,
    index: usize,
    threads: usize,
}

impl<'t> Part<'t> {
    fn of(tasks: &'t [IoPlan], threads: usize, thread: usize) -> Self {
        let (files, file) = (tasks.len(), thread % tasks.len());
        Self { task: &tasks[file], index: thread / files, threads: (threads - file).div_ceil(files) }
    }
}

/// No metrics: what makes a result say less than it seems to. docs/reference/workload-io.md has them.
fn note(tasks: &[IoPlan], measured: &mut KernelOutput) -> Result<(), Failure> {
    if tasks.iter().any(|task| task.target.is_on_virtual_disk()) {
        measured.push("virtual-disk", 1.0)?;
    }
    // Of several files the worst one.
    let unwritten = tasks.iter().filter_map(|task| task.target.unwritten_percent()).reduce(f64::max);
    if let Some(percent) = unwritten {
        measured.push("unwritten-percent", percent)?;
    }
    if !tasks[0].options.direct
        && let Some(memory) = memory_bytes()
    {
        let bytes: u64 = tasks.iter().map(|task| task.target.bytes).sum();
        measured.push("percent-of-memory", 100.0 * bytes as f64 / memory as f64)?;
    }
    Ok(())
}

/// All of this machine's memory: what a page cache could hold at most.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn one_thread(job: &TrialContext, part: Part<'_>, load: &Load, member: &Worker<'_>) -> Result<Done, Failure> {
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
    timed(member, load, &mut work)?;
    let tally = work.tally;
    Ok(Done { tally, pages: arena.pages_by_node()? })
}

/// Makes what the engine needs, then works.
fn timed(member: &Worker<'_>, load: &Load, work: &mut WorkerState<'_>) -> Result<(), Failure> {
    let (task, file) = (work.task, work.file);
    let options = &task.options;
    match options.engine {
        IoEngine::IoUring => {
            let mut ring = ring::make(options)?;
            let mut ring = UringQueue::new(&mut ring, options, file, &work.buffers)?;
            load.around(member, || queue::run(work, &mut ring))
        }
        IoEngine::Libaio => {
            let mut aio = aio::Aio::new(options.depth, options.block, file)?;
            load.around(member, || queue::run(work, &mut aio))
        }
        IoEngine::Psync => load.around(member, || sync::run(work, psync::transfer(file))),
        IoEngine::Preadv2 => load.around(member, || sync::run(work, preadv2::transfer(file, options.iopoll))),
        IoEngine::Mmap => {
            let mut mapping = Mapping::new(file, task.target.bytes, options.writes(), options.spread)?;
            load.around(member, || sync::run(work, mapping.transfer()))
        }
    }
}

/// What a call gave: bytes, or its error below zero.
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

    /// A job at smoke size with these parameters.
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
