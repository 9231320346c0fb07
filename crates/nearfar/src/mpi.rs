//! Ranks of MPI as parts of a graph. The only file that knows MPI; it is in builds with the feature `mpi` alone.
//!
//! Ranks make the same calls in the same order, so one that fails by itself would leave the others waiting: failures are agreed on
//! (`graph::reduce_results`), a panic ends the whole job, and a rank that is killed is the launcher's to notice, which ends the others.
//! An error within MPI ends the job too: that is MPI's default, and it says what it was.

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
    /// What is sent, receiver by receiver.
    packed: RefCell<Vec<u64>>,
    /// Ends MPI when it goes, after all else.
    _universe: Universe,
}

/// Does the work as one rank of all. What went wrong is said by one rank alone, and all end with the same status. A failure without a
/// reason is another rank's.
pub fn run(work: impl FnOnce(&World) -> Result<(), Option<CliError>>) -> CommandResult {
    let world = World::new()?;
    // What is not told on is not used after a panic: the job ends.
    match catch_unwind(AssertUnwindSafe(|| conclude(&world, work(&world)))) {
        Ok(status) => Ok(status),
        Err(_) => world.all.abort(CliStatus::Failure as i32),
    }
}

/// Says something by one rank of all, and gives the status with which all end.
pub fn once(say: impl FnOnce() -> std::io::Result<()>, status: i32) -> ExitCode {
    let said = run(|world| {
        if world.part == 0 {
            // There is nobody to tell that it cannot be said.
            let _ = say();
        }
        Ok(())
    });
    said.map_or_else(|failure| failure.print(), |_| ExitCode::from(status as u8))
}

/// Waits for all, so that no rank ends before it is said why: launchers end all when the first ends with a failure.
fn conclude(world: &World, result: Result<(), Option<CliError>>) -> ExitCode {
    let failure = result.err();
    let status =
        failure.as_ref().map_or(0, |failure| failure.as_ref().map_or(CliStatus::Failure, CliError::status) as u64);
    let knows = failure.as_ref().is_some_and(Option::is_some);
    let (mut worst, mut speaker) = ([status], [if knows { world.part as u64 } else { u64::MAX }]);
    world.reduce(&mut worst, Reduce::Max);
    world.reduce(&mut speaker, Reduce::Min);
    if let Some(failure) = failure.flatten().filter(|_| speaker[0] == world.part as u64) {
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

    fn reduce(&self, words: &mut [u64], how: Reduce) {
        let operation = match how {
            Reduce::Sum => SystemOperation::sum(),
            Reduce::Min => SystemOperation::min(),
            Reduce::Max => SystemOperation::max(),
        };
        let own = words.to_vec();
        self.all.all_reduce_into(&own[..], words, operation);
    }
}

/// MPI counts in 31 bits. No exchange has as many words: a vertex of the graph is in one at most once for each part.
fn count(words: usize) -> Count {
    Count::try_from(words).expect("an exchange has fewer words than MPI can count")
}

/// Where each of several neighbouring pieces begins.
fn starts(counts: &[Count]) -> Vec<Count> {
    let mut end = 0;
    let begin = |one: &Count| {
        end += *one as usize;
        count(end - *one as usize)
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
        let going: Vec<Count> = mail.out.iter().map(|words| count(words.len())).collect();
        let mut coming = vec![0; self.parts];
        self.all.all_to_all_into(&going[..], &mut coming[..]);
        let mut packed = self.packed.borrow_mut();
        packed.clear();
        mail.out.iter().for_each(|words| packed.extend_from_slice(words));
        let room = mail.receive(coming.iter().map(|words| *words as usize));
        let (from, to) = (starts(&going), starts(&coming));
        let sent = Partition::new(&packed[..], going, from);
        let mut received = PartitionMut::new(room, coming, to);
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
