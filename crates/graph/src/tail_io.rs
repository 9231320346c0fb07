//! Lists of TAIL that are not in DRAM: which are wanted, read together where they lie close to each other, many reads under way
//! while the search goes on. Knows no file: who calls gives a way to the bytes ([`TailReader`]) for each thread.

use std::fmt;

use crate::coded::{PADDING, PIECE_BYTES, PaddedList};
use crate::layout::Layout;
use crate::level::CorruptList;

/// Reads begin and end at multiples of this.
pub const PAGE_BYTES: u64 = 4096;
/// The most bytes of one read: a piece of the largest size that begins in the middle of a page.
pub const READ_BYTES_MAX: usize = PIECE_BYTES + PAGE_BYTES as usize;
/// So many bytes behind a read must be there, whatever is in them.
pub const READ_PADDING: usize = PADDING;

/// Reads are made longer by lists that begin within so many bytes behind them: one larger read is quicker than two.
const GAP_BYTES: u64 = 12 << 10;
/// Lists of one read at most, for which there is room without asking for memory in a search.
const LISTS_MAX: usize = 4096;
/// Reads are handed over together, so many at a time, for each time takes the kernel a while; at once where none is under way.
const TOGETHER: usize = 8;

/// A thread's way to the bytes of TAIL. Only the thread that made it uses it.
pub trait TailReader: Send {
    /// How many reads can be under way, each under a number of its own below this.
    fn queue_depth(&self) -> usize;

    /// Bytes of memory that it has for what is read.
    fn bytes(&self) -> usize;

    /// Puts a read, of [`READ_BYTES_MAX`] at most, into the queue, under a number that no read under way has.
    fn read(&mut self, number: usize, offset: u64, bytes: usize);

    /// Begins with what is in the queue.
    fn hand_over(&mut self);

    /// How many reads have ended and are still to be taken.
    fn ended(&mut self) -> usize;

    /// Calls with each read that has ended and its bytes, [`READ_PADDING`] more behind them; waits for one if asked. Gives how many have
    /// ended, well or not, and the first failure.
    fn take(&mut self, wait: bool, with: &mut dyn FnMut(usize, &[u8])) -> (usize, Result<(), String>);
}

pub(crate) struct ReadChunk<'g> {
    /// Whose lists are to be searched in it.
    pub(crate) ranks: &'g [u32],
    bytes: &'g [u8],
    /// Of the first byte in TAIL.
    offset: u64,
    /// Where it is not whole lists but this piece of one.
    piece: Option<(u64, usize)>,
}

impl ReadChunk<'_> {
    /// A rank's list, or the piece of it that was read.
    #[inline(always)]
    pub(crate) fn list(&self, layout: &Layout, rank: u32) -> PaddedList<'_> {
        let (from, length) = self.piece.unwrap_or_else(|| layout.index.list(rank));
        PaddedList::new(self.bytes, (from - self.offset) as usize, length)
    }
}

/// Why lists were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    Read(String),
    /// It gave something else than was written.
    List(CorruptList),
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(why) => f.write_str(why),
            Self::List(CorruptList { rank }) => {
                write!(
                    f,
                    "what was read for the neighbours of rank {rank} is not what was written: the disk changed it"
                )
            }
        }
    }
}

/// What is done with what was read.
pub(crate) type OnRead<'t> = dyn FnMut(&ReadChunk<'_>) -> Result<(), CorruptList> + 't;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    pub lists: u64,
}

pub(crate) struct PendingReads {
    fetch: Box<dyn TailReader>,
    reads: Vec<InFlightRead>,
    free: Vec<usize>,
    /// The read that may still become longer.
    open: Option<usize>,
    /// Put into the queue and not handed over.
    queued: usize,
    under_way: usize,
    io: IoCounts,
}

#[derive(Default)]
struct InFlightRead {
    from: u64,
    to: u64,
    ranks: Vec<u32>,
    piece: Option<(u64, usize)>,
}

impl PendingReads {
    pub(crate) fn new(fetch: Box<dyn TailReader>) -> Self {
        let places = fetch.queue_depth();
        let reads = (0..places)
            .map(|_| InFlightRead { ranks: Vec::with_capacity(LISTS_MAX), ..InFlightRead::default() })
            .collect();
        Self { fetch, reads, free: (0..places).collect(), open: None, queued: 0, under_way: 0, io: IoCounts::default() }
    }

    /// Bytes of memory for reads, and for what they are to give.
    pub(crate) fn bytes(&self) -> usize {
        self.fetch.bytes() + self.reads.len() * LISTS_MAX * size_of::<u32>()
    }

    /// What was read since this was asked last.
    pub(crate) fn io(&mut self) -> IoCounts {
        std::mem::take(&mut self.io)
    }

    /// Wants the lists of these ranks, best in ascending order; waits where there is no room for more reads.
    pub(crate) fn request(&mut self, layout: &Layout, ranks: &[u32], then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        let mut wanted = self.request_some(layout, ranks, then)?;
        while wanted < ranks.len() {
            self.wait(then)?;
            wanted += self.request_some(layout, &ranks[wanted..], then)?;
        }
        Ok(())
    }

    /// Wants the first of these, as many as there is room for without waiting (but for a list in many pieces), and gives how many.
    pub(crate) fn request_some(
        &mut self,
        layout: &Layout,
        ranks: &[u32],
        then: &mut OnRead<'_>,
    ) -> Result<usize, ReadFailure> {
        for (place, rank) in ranks.iter().enumerate() {
            let (from, length) = layout.index.list(*rank);
            if length > PIECE_BYTES {
                self.request_pieces(layout, *rank, then)?;
            } else if !self.try_request(from, length, *rank) {
                self.begin_all();
                return Ok(place);
            }
            self.io.lists += 1;
        }
        Ok(ranks.len())
    }

    /// Has this list read with the open read or a new one, if there is room.
    fn try_request(&mut self, from: u64, length: usize, rank: u32) -> bool {
        let (first, end) = (from / PAGE_BYTES * PAGE_BYTES, (from + length as u64).next_multiple_of(PAGE_BYTES));
        if let Some(number) = self.open {
            let read = &mut self.reads[number];
            let near = first >= read.from && first <= read.to + GAP_BYTES;
            if near && end - read.from <= PIECE_BYTES as u64 && read.ranks.len() < LISTS_MAX {
                read.to = read.to.max(end);
                read.ranks.push(rank);
                return true;
            }
        }
        let is_room = !self.free.is_empty();
        if is_room {
            self.open(first, end, rank, None);
        }
        is_room
    }

    /// Takes what has ended, without waiting.
    pub(crate) fn poll(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        if self.under_way == 0 {
            self.close();
        }
        if self.under_way > self.queued { self.take(false, then) } else { Ok(()) }
    }

    /// Whether something is under way, or has ended and is still to be taken.
    pub(crate) fn is_waiting(&self) -> bool {
        self.under_way > 0
    }

    /// Whether nobody would have to wait for what is under way.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.under_way == 0 || self.fetch.ended() >= self.under_way
    }

    /// Has everything under way that was wanted, takes what has ended, and leaves the rest for later.
    pub(crate) fn leave(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        self.begin_all();
        self.take(false, then)
    }

    /// Reads everything that was wanted.
    pub(crate) fn finish(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        self.begin_all();
        while self.under_way > 0 {
            self.take(true, then)?;
        }
        Ok(())
    }

    /// After a failure: waits for all reads and forgets them.
    pub(crate) fn give_up(&mut self) {
        self.open = None;
        self.hand_over();
        while self.under_way > 0 {
            let (ended, _) = self.fetch.take(true, &mut |_, _| {});
            self.under_way -= ended;
        }
        self.free = (0..self.reads.len()).collect();
    }

    /// Waits for a read, if there is one, with everything under way that was wanted.
    pub(crate) fn wait(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        self.begin_all();
        self.take(true, then)
    }

    fn begin_all(&mut self) {
        self.close();
        self.hand_over();
    }

    fn request_pieces(&mut self, layout: &Layout, rank: u32, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        let place = layout.long_lists.binary_search_by_key(&rank, |list| list.0).expect("long lists are noted");
        for border in layout.long_lists[place].1.windows(2) {
            while self.free.is_empty() {
                self.wait(then)?;
            }
            let (first, end) = (border[0] / PAGE_BYTES * PAGE_BYTES, border[1].next_multiple_of(PAGE_BYTES));
            self.open(first, end, rank, Some((border[0], (border[1] - border[0]) as usize)));
        }
        self.close();
        Ok(())
    }

    /// A new read, when the one before will become no longer; there is room.
    fn open(&mut self, from: u64, to: u64, rank: u32, piece: Option<(u64, usize)>) {
        self.close();
        let number = self.free.pop().expect("one is free");
        let read = &mut self.reads[number];
        (read.from, read.to, read.piece) = (from, to, piece);
        read.ranks.clear();
        read.ranks.push(rank);
        self.open = Some(number);
    }

    /// Puts the open read into the queue.
    fn close(&mut self) {
        let Some(number) = self.open.take() else { return };
        let InFlightRead { from, to, .. } = self.reads[number];
        self.fetch.read(number, from, (to - from) as usize);
        self.io.reads += 1;
        self.io.bytes += to - from;
        self.under_way += 1;
        self.queued += 1;
        if self.queued >= TOGETHER || self.queued == self.under_way {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.queued > 0 {
            self.fetch.hand_over();
            self.queued = 0;
        }
    }

    /// What has ended, if anything is under way.
    fn take(&mut self, wait: bool, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        if self.under_way == 0 {
            return Ok(());
        }
        let Self { fetch, reads, free, .. } = self;
        let mut lost = None;
        let (ended, result) = fetch.take(wait, &mut |number, bytes| {
            let InFlightRead { from, to, ranks, piece } = &reads[number];
            assert!(bytes.len() >= (to - from) as usize + PADDING, "a read has bytes behind it");
            if lost.is_none() {
                lost = then(&ReadChunk { ranks, bytes, offset: *from, piece: *piece }).err();
            }
            free.push(number);
        });
        self.under_way -= ended;
        result.map_err(ReadFailure::Read)?;
        lost.map_or(Ok(()), |list| Err(ReadFailure::List(list)))
    }
}
