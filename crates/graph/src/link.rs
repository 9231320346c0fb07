//! Communication between the shards of a graph: a trait with the three collective operations that a search needs, and
//! its implementation for threads of this process (`ThreadLink`). Must not depend on graphs or MPI, whose
//! implementation is in the command.
//!
//! A shard is one of N shares of a graph, together with the process or thread that owns it. All shards make the same
//! calls in the same order, and each call returns when every shard has made it.

use std::sync::{PoisonError, RwLock};

use crate::error::TeamStopped;
use crate::team::{Team, TeamWorker, collect};

/// A shard's connection to the others.
pub trait Link {
    /// Returns this shard's index, from 0.
    fn part(&self) -> usize;

    /// Returns the number of shards, at least one.
    fn parts(&self) -> usize;

    /// Returns the number of shards that share this machine's memory.
    fn parts_here(&self) -> usize;

    /// Sends each shard the words that `mail` has for it. Afterwards `mail` has the received words and nothing to send.
    fn exchange(&self, mail: &mut Exchange) -> Result<(), TeamStopped>;

    /// Concatenates the words of all shards in `all`; each shard has the same number of words.
    fn all_gather(&self, own: &[u64], all: &mut [u64]) -> Result<(), TeamStopped>;

    /// Combines each word with those of all other shards; each shard has the same number of words.
    fn all_reduce(&self, words: &mut [u64], how: Reduce) -> Result<(), TeamStopped>;

    fn barrier(&self) -> Result<(), TeamStopped> {
        self.all_reduce(&mut [0], Reduce::Sum)
    }
}

/// Operation that combines words of several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Min,
    Max,
}

impl Reduce {
    fn of(self, one: u64, other: u64) -> u64 {
        match self {
            Self::Sum => one + other,
            Self::Min => one.min(other),
            Self::Max => one.max(other),
        }
    }
}

/// The words that a shard sends to and receives from each other shard. Its memory is reused.
#[derive(Debug)]
pub struct Exchange {
    /// Words to send to each shard.
    pub out: Vec<Vec<u64>>,
    received: Vec<u64>,
    /// Start of each sender's words, and the end of the last.
    starts: Vec<usize>,
}

impl Exchange {
    /// Creates empty buffers for this many shards.
    pub fn new(parts: usize) -> Self {
        Self { out: vec![Vec::new(); parts], received: Vec::new(), starts: vec![0; parts + 1] }
    }

    /// Returns the words received from this shard.
    pub fn from(&self, part: usize) -> &[u64] {
        &self.received[self.starts[part]..self.starts[part + 1]]
    }

    /// Returns the words received from all shards, in the order of senders.
    pub fn received(&self) -> &[u64] {
        &self.received
    }

    /// For implementations: allocates space for this many words from each sender, to be written in the order of
    /// senders. Clears the words to send.
    pub fn receive(&mut self, counts: impl IntoIterator<Item = usize>) -> &mut [u64] {
        self.out.iter_mut().for_each(Vec::clear);
        self.starts.truncate(1);
        for count in counts {
            self.starts.push(self.starts[self.starts.len() - 1] + count);
        }
        self.received.resize(self.starts[self.starts.len() - 1], 0);
        &mut self.received
    }
}

/// Agrees on success: if one shard has failed, all return an error, which is `None` in the shards that have not failed.
pub fn reduce_results<T, E>(link: &impl Link, result: Result<T, E>) -> Result<Result<T, Option<E>>, TeamStopped> {
    let mut failed = [u64::from(result.is_err())];
    link.all_reduce(&mut failed, Reduce::Max)?;
    Ok(match result {
        Ok(_) if failed[0] > 0 => Err(None),
        other => other.map_err(Some),
    })
}

/// The words that a shard offers to the others.
type Outbox = RwLock<Vec<Vec<u64>>>;

/// A link between threads of one team.
pub struct ThreadLink<'h> {
    worker: &'h TeamWorker<'h>,
    outboxes: &'h [Outbox],
}

/// Runs the work with one shard per thread of the team. Returns the results in the order of shards.
pub fn together<C: Team, T: Send>(
    team: &C,
    work: impl Fn(&ThreadLink<'_>) -> Result<T, TeamStopped> + Sync,
) -> Result<Vec<T>, C::Error> {
    let outboxes: Vec<Outbox> = (0..team.threads()).map(|_| Outbox::default()).collect();
    collect(team, |worker| work(&ThreadLink { worker, outboxes: &outboxes }))
}

impl ThreadLink<'_> {
    /// Publishes words, calls `see` when all shards have published theirs, and takes the words back when all have read
    /// them.
    fn publish(&self, words: &mut Vec<Vec<u64>>, mut see: impl FnMut(&[Vec<u64>])) -> Result<(), TeamStopped> {
        let swap = |words: &mut Vec<Vec<u64>>| {
            std::mem::swap(
                &mut *self.outboxes[self.worker.index].write().unwrap_or_else(PoisonError::into_inner),
                words,
            );
        };
        swap(words);
        self.worker.barrier()?;
        for tray in self.outboxes {
            see(&tray.read().unwrap_or_else(PoisonError::into_inner));
        }
        self.worker.barrier()?;
        swap(words);
        Ok(())
    }
}

impl Link for ThreadLink<'_> {
    fn part(&self) -> usize {
        self.worker.index
    }

    fn parts(&self) -> usize {
        self.worker.of
    }

    fn parts_here(&self) -> usize {
        self.worker.of
    }

    fn exchange(&self, mail: &mut Exchange) -> Result<(), TeamStopped> {
        let mut out = std::mem::take(&mut mail.out);
        let (mut received, mut counts) = (std::mem::take(&mut mail.received), Vec::with_capacity(self.worker.of));
        received.clear();
        self.publish(&mut out, |words| {
            received.extend_from_slice(&words[self.worker.index]);
            counts.push(words[self.worker.index].len());
        })?;
        (mail.out, mail.received) = (out, received);
        mail.receive(counts);
        Ok(())
    }

    fn all_gather(&self, own: &[u64], all: &mut [u64]) -> Result<(), TeamStopped> {
        let mut rest = all;
        self.publish(&mut vec![own.to_vec()], |words| {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(words[0].len());
            here.copy_from_slice(&words[0]);
            rest = after;
        })
    }

    fn all_reduce(&self, words: &mut [u64], how: Reduce) -> Result<(), TeamStopped> {
        let mut reduced: Option<Vec<u64>> = None;
        self.publish(&mut vec![words.to_vec()], |published| match &mut reduced {
            None => reduced = Some(published[0].clone()),
            Some(reduced) => reduced.iter_mut().zip(&published[0]).for_each(|(one, other)| *one = how.of(*one, *other)),
        })?;
        words.copy_from_slice(&reduced.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::team::PlainTeam;

    #[test]
    fn exchanged_words_reach_their_receiver() {
        for parts in [1, 2, 5] {
            let received = together(&PlainTeam(parts), |link| {
                let mut mail = Exchange::new(parts);
                let mut received = Vec::new();
                for round in 0..3_u64 {
                    // As many words as the receiver's index, with different values in each round.
                    for to in 0..parts {
                        mail.out[to].extend(vec![round * 100 + link.part() as u64 * 10 + to as u64; to]);
                    }
                    link.exchange(&mut mail)?;
                    assert!(mail.out.iter().all(Vec::is_empty));
                    received.push((0..parts).map(|from| mail.from(from).to_vec()).collect::<Vec<_>>());
                    assert_eq!(mail.received().len(), parts * link.part());
                }
                Ok(received)
            });
            for (me, rounds) in received.unwrap().iter().enumerate() {
                for (round, received) in rounds.iter().enumerate() {
                    for (from, words) in received.iter().enumerate() {
                        assert_eq!(*words, vec![(round * 100 + from * 10 + me) as u64; me]);
                    }
                }
            }
        }
    }

    #[test]
    fn gathered_and_reduced_words_are_equal_in_all_shards() {
        let known = together(&PlainTeam(3), |link| {
            let part = link.part() as u64;
            let mut all = [0; 6];
            link.all_gather(&[part, part * part], &mut all)?;
            let reduced = [Reduce::Sum, Reduce::Min, Reduce::Max].map(|how| {
                let mut words = [part + 1, 7 - part];
                link.all_reduce(&mut words, how).map(|()| words)
            });
            Ok((all, reduced.map(Result::unwrap_or_default)))
        });
        for (all, reduced) in known.unwrap() {
            assert_eq!(all, [0, 0, 1, 1, 2, 4]);
            assert_eq!(reduced, [[6, 18], [1, 5], [3, 7]]);
        }
    }

    #[test]
    fn a_failure_in_one_shard_is_returned_by_all() {
        let results = together(&PlainTeam(3), |link| {
            let result = if link.part() == 1 { Err("broken") } else { Ok(5) };
            Ok((reduce_results(link, result)?, reduce_results::<_, ()>(link, Ok(6))?))
        });
        let fine = Ok(6);
        assert_eq!(results.unwrap(), [(Err(None), fine), (Err(Some("broken")), fine), (Err(None), fine)]);
    }

    #[test]
    fn a_shard_that_exits_stops_all() {
        let left = together(&PlainTeam(3), |link| if link.part() == 2 { Err(TeamStopped) } else { link.barrier() });
        assert_eq!(left, Err(Error::Stopped));
    }
}
