//! A trial's seated threads as the crew of a graph: thread i constructs, searches and validates on seat i.

use std::cell::RefCell;

use graph::{Crew, Hand, Stopped};
use model::trial::ThreadSeat;

use crate::job::{Failure, Job};
use crate::team;

/// The team of a job.
pub(super) struct Seated<'j> {
    job: &'j Job,
    /// The proof of the last work.
    seats: RefCell<Vec<ThreadSeat>>,
}

impl<'j> Seated<'j> {
    pub(super) fn new(job: &'j Job) -> Self {
        Self { job, seats: RefCell::default() }
    }

    /// Where the threads sat when they last worked.
    pub(super) fn seats(&self) -> Vec<ThreadSeat> {
        self.seats.borrow().clone()
    }
}

impl Crew for Seated<'_> {
    type Error = Failure;

    fn threads(&self) -> usize {
        self.job.threads
    }

    fn run(&self, work: &(dyn Fn(&Hand<'_>) -> Result<(), Stopped> + Sync)) -> Result<(), Failure> {
        let crew = team::run(self.job, |member| {
            let meet = || member.meet().map_err(|_| Stopped);
            let hand = Hand { index: member.index, of: self.job.threads, meet: &meet };
            // Why a meeting was stopped the team knows, and says so in place of this.
            member.timed(|| work(&hand).map_err(|Stopped| Failure::Failed(graph::Error::Stopped.to_string())))
        })?;
        *self.seats.borrow_mut() = crew.seats;
        Ok(())
    }
}

impl From<graph::Error> for Failure {
    fn from(error: graph::Error) -> Self {
        let hint = error.hint().map_or(String::new(), |hint| format!("; hint: {hint}"));
        let why = format!("{error}{hint}");
        match error {
            graph::Error::TooLarge { .. } | graph::Error::Memory(machine::memory::MemoryError::TooLarge { .. }) => {
                Self::Unavailable(why)
            }
            _ => Self::Failed(why),
        }
    }
}
