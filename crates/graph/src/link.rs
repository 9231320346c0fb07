//! How the parts of a graph talk to each other: the three exchanges that a search needs, whoever carries them, and one carrier,
//! threads of this process (`ThreadLink`). Must not know graphs, nor MPI: that carrier is the command's.
//!
//! A part is one of N shares of a graph together with the process or thread that has it. All parts make the same calls in the same
//! order, and each call returns when every part has made it.

use std::sync::{PoisonError, RwLock};

use crate::team::{Team, TeamStopped, TeamWorker, collect};

/// A part's way to the others.
pub trait Link {
    /// Which one, from 0.
    fn part(&self) -> usize;

    /// How many there are, at least one.
    fn parts(&self) -> usize;

    /// How many of them share this machine's memory.
    fn parts_here(&self) -> usize;

    /// Brings each part the words that `mail` has for it; `mail` then has what came and nothing to send.
    fn exchange(&self, mail: &mut Exchange) -> Result<(), TeamStopped>;

    /// Writes the words of all parts one after the other into `all`; each part has as many.
    fn all_gather(&self, own: &[u64], all: &mut [u64]) -> Result<(), TeamStopped>;

    /// Makes each word that of all parts together; each part has as many.
    fn all_reduce(&self, words: &mut [u64], how: Reduce) -> Result<(), TeamStopped>;

    fn barrier(&self) -> Result<(), TeamStopped> {
        self.all_reduce(&mut [0], Reduce::Sum)
    }
}

/// How words of several parts become one.
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

/// What a part sends to each, and what came from each. Memory is kept from one exchange to the next.
#[derive(Debug)]
pub struct Exchange {
    /// Words for each part, to be filled.
    pub out: Vec<Vec<u64>>,
    received: Vec<u64>,
    /// Where each sender's words begin, and the end of the last.
    starts: Vec<usize>,
}

impl Exchange {
    /// For so many parts; empty.
    pub fn new(parts: usize) -> Self {
        Self { out: vec![Vec::new(); parts], received: Vec::new(), starts: vec![0; parts + 1] }
    }

    /// What came from this part.
    pub fn from(&self, part: usize) -> &[u64] {
        &self.received[self.starts[part]..self.starts[part + 1]]
    }

    /// What came from all, sender by sender.
    pub fn received(&self) -> &[u64] {
        &self.received
    }

    /// For carriers: room for so many words of each sender, which are to be written there one sender after the other. What was
    /// to be sent is forgotten.
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

/// Whether all parts may go on: when one has failed none does, and those that have not failed themselves get none as the reason.
pub fn reduce_results<T, E>(link: &impl Link, result: Result<T, E>) -> Result<Result<T, Option<E>>, TeamStopped> {
    let mut failed = [u64::from(result.is_err())];
    link.all_reduce(&mut failed, Reduce::Max)?;
    Ok(match result {
        Ok(_) if failed[0] > 0 => Err(None),
        other => other.map_err(Some),
    })
}

/// What a part has laid out for the others.
type Outbox = RwLock<Vec<Vec<u64>>>;

/// Parts that are threads of one crew.
pub struct ThreadLink<'h> {
    hand: &'h TeamWorker<'h>,
    trays: &'h [Outbox],
}

/// Does the work with as many parts as a crew has threads, and gives what each returns, in their order.
pub fn together<C: Team, T: Send>(
    crew: &C,
    work: impl Fn(&ThreadLink<'_>) -> Result<T, TeamStopped> + Sync,
) -> Result<Vec<T>, C::Error> {
    let trays: Vec<Outbox> = (0..crew.threads()).map(|_| Outbox::default()).collect();
    collect(crew, |hand| work(&ThreadLink { hand, trays: &trays }))
}

impl ThreadLink<'_> {
    /// Lays out words, hands over what all have laid out when all have, and takes it back when all have seen it.
    fn lay_out(&self, words: &mut Vec<Vec<u64>>, mut see: impl FnMut(&[Vec<u64>])) -> Result<(), TeamStopped> {
        let swap = |words: &mut Vec<Vec<u64>>| {
            std::mem::swap(&mut *self.trays[self.hand.index].write().unwrap_or_else(PoisonError::into_inner), words);
        };
        swap(words);
        self.hand.barrier()?;
        for tray in self.trays {
            see(&tray.read().unwrap_or_else(PoisonError::into_inner));
        }
        self.hand.barrier()?;
        swap(words);
        Ok(())
    }
}

impl Link for ThreadLink<'_> {
    fn part(&self) -> usize {
        self.hand.index
    }

    fn parts(&self) -> usize {
        self.hand.of
    }

    fn parts_here(&self) -> usize {
        self.hand.of
    }

    fn exchange(&self, mail: &mut Exchange) -> Result<(), TeamStopped> {
        let mut out = std::mem::take(&mut mail.out);
        let (mut came, mut counts) = (std::mem::take(&mut mail.received), Vec::with_capacity(self.hand.of));
        came.clear();
        self.lay_out(&mut out, |words| {
            came.extend_from_slice(&words[self.hand.index]);
            counts.push(words[self.hand.index].len());
        })?;
        (mail.out, mail.received) = (out, came);
        mail.receive(counts);
        Ok(())
    }

    fn all_gather(&self, own: &[u64], all: &mut [u64]) -> Result<(), TeamStopped> {
        let mut rest = all;
        self.lay_out(&mut vec![own.to_vec()], |words| {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(words[0].len());
            here.copy_from_slice(&words[0]);
            rest = after;
        })
    }

    fn all_reduce(&self, words: &mut [u64], how: Reduce) -> Result<(), TeamStopped> {
        let mut reduced: Option<Vec<u64>> = None;
        self.lay_out(&mut vec![words.to_vec()], |laid| match &mut reduced {
            None => reduced = Some(laid[0].clone()),
            Some(reduced) => reduced.iter_mut().zip(&laid[0]).for_each(|(one, other)| *one = how.of(*one, *other)),
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
    fn words_come_to_whom_they_are_for() {
        for parts in [1, 2, 5] {
            let came = together(&PlainTeam(parts), |link| {
                let mut mail = Exchange::new(parts);
                let mut came = Vec::new();
                for round in 0..3_u64 {
                    // As many words as the receiver's number, round by round others.
                    for to in 0..parts {
                        mail.out[to].extend(vec![round * 100 + link.part() as u64 * 10 + to as u64; to]);
                    }
                    link.exchange(&mut mail)?;
                    assert!(mail.out.iter().all(Vec::is_empty));
                    came.push((0..parts).map(|from| mail.from(from).to_vec()).collect::<Vec<_>>());
                    assert_eq!(mail.received().len(), parts * link.part());
                }
                Ok(came)
            });
            for (me, rounds) in came.unwrap().iter().enumerate() {
                for (round, came) in rounds.iter().enumerate() {
                    for (from, words) in came.iter().enumerate() {
                        assert_eq!(*words, vec![(round * 100 + from * 10 + me) as u64; me]);
                    }
                }
            }
        }
    }

    #[test]
    fn all_know_the_words_of_all() {
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
    fn one_that_fails_holds_all() {
        let results = together(&PlainTeam(3), |link| {
            let result = if link.part() == 1 { Err("broken") } else { Ok(5) };
            Ok((reduce_results(link, result)?, reduce_results::<_, ()>(link, Ok(6))?))
        });
        let fine = Ok(6);
        assert_eq!(results.unwrap(), [(Err(None), fine), (Err(Some("broken")), fine), (Err(None), fine)]);
    }

    #[test]
    fn one_that_leaves_stops_all() {
        let left = together(&PlainTeam(3), |link| if link.part() == 2 { Err(TeamStopped) } else { link.barrier() });
        assert_eq!(left, Err(Error::Stopped));
    }
}
