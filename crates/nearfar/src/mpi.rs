//! Connects the shards of a distributed graph by MPI, one shard per rank. Compiled only with the feature `mpi`.
//!
//! All ranks make the same calls in the same order, so a rank that fails alone would leave the others waiting.
//! Therefore ranks agree on failures (`graph::reduce_results`), and a panic aborts the job. If a rank is killed, the
//! launcher ends the others. Errors within MPI abort the job with a message, which is MPI's default.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use graph::{Exchange, Link, Reduce, TeamStopped};
use mpi::Count;
use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use crate::error::{CliError, CliStatus, CommandResult};

pub struct World {
    all: SimpleCommunicator,
    part: usize,
    parts: usize,
    parts_here: usize,
    /// Send buffer: the words for each receiver, in the order of the ranks.
    packed: RefCell<Vec<u64>>,
    /// Finalises MPI on drop. It must be the last field.
    _universe: Universe,
}

/// Runs `work` on this rank. All ranks exit with the same status, and one rank prints the error. `Err(None)` is a
/// failure of another rank.
pub fn run(work: impl FnOnce(&World) -> Result<(), Option<CliError>>) -> CommandResult {
    let world = World::new()?;
    // Unwind safe, because the job is aborted after a panic.
    match catch_unwind(AssertUnwindSafe(|| conclude(&world, work(&world)))) {
        Ok(status) => Ok(status),
        Err(_) => world.all.abort(CliStatus::Failure as i32),
    }
}

/// Prints on the first rank only, and returns the exit status of all ranks.
pub fn once(print: impl FnOnce() -> std::io::Result<()>, status: i32) -> ExitCode {
    let result = run(|world| {
        if world.part == 0 {
            // A failure to print cannot be reported.
            let _ = print();
        }
        Ok(())
    });
    result.map_or_else(|failure| failure.print(), |_| ExitCode::from(status as u8))
}

/// Prints the error on one rank, and then waits for all: launchers kill all ranks when the first exits with a failure.
fn conclude(world: &World, result: Result<(), Option<CliError>>) -> ExitCode {
    let failure = result.err();
    let status =
        failure.as_ref().map_or(0, |failure| failure.as_ref().map_or(CliStatus::Failure, CliError::status) as u64);
    let has_error = failure.as_ref().is_some_and(Option::is_some);
    let (mut worst, mut reporter) = ([status], [if has_error { world.part as u64 } else { u64::MAX }]);
    world.reduce(&mut worst, Reduce::Max);
    world.reduce(&mut reporter, Reduce::Min);
    if let Some(failure) = failure.flatten().filter(|_| reporter[0] == world.part as u64) {
        failure.print();
    }
    world.all.barrier();
    ExitCode::from(worst[0] as u8)
}

impl World {
    fn new() -> Result<Self, CliError> {
        let universe = mpi::initialize().ok_or_else(|| CliError::failure("MPI was started twice"))?;
        let all = universe.world();
        let (part, parts) = (all.rank() as usize, all.size() as usize);
        let parts_here = all.split_shared(0).size() as usize;
        Ok(Self { all, part, parts, parts_here, packed: RefCell::default(), _universe: universe })
    }

    fn reduce(&self, words: &mut [u64], reduction: Reduce) {
        let operation = match reduction {
            Reduce::Sum => SystemOperation::sum(),
            Reduce::Min => SystemOperation::min(),
            Reduce::Max => SystemOperation::max(),
        };
        let own = words.to_vec();
        self.all.all_reduce_into(&own[..], words, operation);
    }
}

/// Converts a length to MPI's 31-bit count. No exchange is longer: each vertex occurs at most once per shard.
fn count(words: usize) -> Count {
    Count::try_from(words).expect("an exchange has fewer words than MPI can count")
}

/// Returns the offset of each of several adjacent pieces.
fn offsets(counts: &[Count]) -> Vec<Count> {
    let mut end = 0;
    let begin = |length: &Count| {
        end += *length as usize;
        count(end - *length as usize)
    };
    counts.iter().map(begin).collect()
}

impl Link for World {
    fn part(&self) -> usize {
        self.part
    }

    fn parts(&self) -> usize {
        self.parts
    }

    fn parts_here(&self) -> usize {
        self.parts_here
    }

    fn exchange(&self, mail: &mut Exchange) -> Result<(), TeamStopped> {
        let send_counts: Vec<Count> = mail.out.iter().map(|words| count(words.len())).collect();
        let mut receive_counts = vec![0; self.parts];
        self.all.all_to_all_into(&send_counts[..], &mut receive_counts[..]);
        let mut packed = self.packed.borrow_mut();
        packed.clear();
        mail.out.iter().for_each(|words| packed.extend_from_slice(words));
        let buffer = mail.receive(receive_counts.iter().map(|words| *words as usize));
        let (from, to) = (offsets(&send_counts), offsets(&receive_counts));
        let sent = Partition::new(&packed[..], send_counts, from);
        let mut received = PartitionMut::new(buffer, receive_counts, to);
        self.all.all_to_all_varcount_into(&sent, &mut received);
        Ok(())
    }

    fn all_gather(&self, own: &[u64], all: &mut [u64]) -> Result<(), TeamStopped> {
        self.all.all_gather_into(own, all);
        Ok(())
    }

    fn all_reduce(&self, words: &mut [u64], how: Reduce) -> Result<(), TeamStopped> {
        self.reduce(words, how);
        Ok(())
    }
}
