//! Counters of the threads of a trial, accumulated over polls: migrations and run-queue wait. Does not read them.

use std::collections::HashMap;

use model::values::units::Nanos;

/// Maximum number of threads whose counters are recorded.
const THREADS_MAX: usize = 65_536;

/// Counters of a thread since its start; `None` if the kernel does not report one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadCounters {
    pub migrations: Option<u64>,
    pub run_queue_wait: Option<Nanos>,
}

/// The last counters of every thread. A thread that has ended keeps those of its last poll.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounts {
    threads: HashMap<u32, ThreadCounters>,
    /// The first process and its counters at its exec; other threads exist only in the trial.
    leader: Option<(u32, ThreadCounters)>,
}

impl ThreadCounts {
    pub(crate) fn since(leader: u32, at_exec: ThreadCounters) -> Self {
        Self { threads: HashMap::new(), leader: Some((leader, at_exec)) }
    }

    pub(crate) fn note(&mut self, tid: u32, now: ThreadCounters) {
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
            self.threads.insert(tid, now);
        }
    }

    /// Returns the migrations of all threads, or `None` if none was read.
    pub(crate) fn migrations(&self) -> Option<u64> {
        self.growth(|counters| counters.migrations).reduce(|sum, count| sum + count)
    }

    /// Returns the run-queue wait of all threads, and of the one that waited longest; `None` if none was read.
    pub(crate) fn run_queue_wait(&self) -> Option<(Nanos, Nanos)> {
        let waits = self.growth(|counters| counters.run_queue_wait.map(|wait| wait.0));
        waits.fold(None, |sum, wait| {
            let (total, longest) = sum.unwrap_or_default();
            Some((Nanos(total.0 + wait), longest.max(Nanos(wait))))
        })
    }

    fn growth(&self, counter: impl Fn(&ThreadCounters) -> Option<u64>) -> impl Iterator<Item = u64> {
        self.threads.iter().filter_map(move |(tid, now)| {
            let start = self.leader.filter(|(leader, _)| leader == tid).and_then(|(_, at_exec)| counter(&at_exec));
            Some(counter(now)?.saturating_sub(start.unwrap_or(0)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_leader_begin_at_its_exec() {
        let counters =
            |migrations, wait| ThreadCounters { migrations: Some(migrations), run_queue_wait: Some(Nanos(wait)) };
        let mut counts = ThreadCounts::since(7, counters(1, 100));
        assert_eq!((counts.migrations(), counts.run_queue_wait()), (None, None));
        counts.note(7, counters(1, 150));
        counts.note(8, counters(2, 30));
        counts.note(7, counters(3, 190));
        counts.note(9, ThreadCounters::default());
        assert_eq!(counts.migrations(), Some(4));
        assert_eq!(counts.run_queue_wait(), Some((Nanos(120), Nanos(90))));
    }
}
