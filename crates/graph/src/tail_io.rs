//! Reads tail lists that are not in DRAM: combines requests for nearby lists, and keeps many reads in flight while the
//! search continues. Must not depend on files: the caller provides a reader ([`TailReader`]) for each thread.

use std::fmt;

use crate::coded::{PADDING, PIECE_BYTES, PaddedList};
use crate::layout::Layout;
use crate::level::CorruptList;

/// Alignment of reads.
pub const PAGE_BYTES: u64 = 4096;
/// Maximum size of a read: the largest piece, beginning in the middle of a page.
pub const READ_BYTES_MAX: usize = PIECE_BYTES + PAGE_BYTES as usize;
/// Bytes after a read that must be readable; their contents do not matter.
pub const READ_PADDING: usize = PADDING;

/// A read is extended by a list that begins within this many bytes after it, because one larger read is faster than
/// two.
const GAP_BYTES: u64 = 12 << 10;
/// Maximum number of lists per read; memory for them is allocated before the search.
const LISTS_MAX: usize = 4096;
/// Reads are submitted in batches of this size to reduce system calls; at once if none is in flight.
const BATCH: usize = 8;

/// A thread's reader of tail lists. Only the thread that created it uses it.
pub trait TailReader: Send {
    /// Returns the maximum number of reads in flight. Each has an identifier below this number.
    fn queue_depth(&self) -> usize;

    /// Returns the size of its read buffers in bytes.
    fn bytes(&self) -> usize;

    /// Queues a read of at most [`READ_BYTES_MAX`] bytes, with an identifier that no read in flight has.
    fn read(&mut self, number: usize, offset: u64, bytes: usize);

    /// Submits the queued reads.
    fn submit(&mut self);

    /// Returns the number of completed reads that `take` has not returned yet.
    fn ended(&mut self) -> usize;

    /// Calls `with` for each completed read with its bytes, followed by [`READ_PADDING`] more; waits for one if `wait`
    /// is set. Returns the number of completed reads, failed ones included, and the first failure.
    fn take(&mut self, wait: bool, with: &mut dyn FnMut(usize, &[u8])) -> (usize, Result<(), String>);
}

pub(crate) struct ReadChunk<'g> {
    /// Ranks whose lists are in this chunk.
    pub(crate) ranks: &'g [u32],
    bytes: &'g [u8],
    /// Offset of the first byte in the tail lists.
    offset: u64,
    /// Set if the chunk is a piece of one list instead of whole lists.
    piece: Option<(u64, usize)>,
}

impl ReadChunk<'_> {
    /// Returns a rank's list, or the piece of it that was read.
    #[inline(always)]
    pub(crate) fn list(&self, layout: &Layout, rank: u32) -> PaddedList<'_> {
        let (from, length) = self.piece.unwrap_or_else(|| layout.index.list(rank));
        PaddedList::new(self.bytes, (from - self.offset) as usize, length)
    }
}

/// Reason why lists could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadFailure {
    Read(String),
    /// The data differs from the data written.
    List(CorruptList),
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(why) => f.write_str(why),
            Self::List(CorruptList { rank }) => {
                write!(
                    f,
                    "the data read for the neighbours of rank {rank} differs from the data written: the disk is faulty"
                )
            }
        }
    }
}

/// Callback for each completed read.
pub(crate) type OnRead<'t> = dyn FnMut(&ReadChunk<'_>) -> Result<(), CorruptList> + 't;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    pub reads: u64,
    pub bytes: u64,
    pub lists: u64,
}

pub(crate) struct PendingReads {
    fetch: Box<dyn TailReader>,
    reads: Vec<InFlightRead>,
    free: Vec<usize>,
    /// The read that may still be extended.
    open: Option<usize>,
    /// Reads queued but not submitted.
    queued: usize,
    in_flight: usize,
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
        Self { fetch, reads, free: (0..places).collect(), open: None, queued: 0, in_flight: 0, io: IoCounts::default() }
    }

    /// Returns the size of the read buffers and of the bookkeeping in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.fetch.bytes() + self.reads.len() * LISTS_MAX * size_of::<u32>()
    }

    /// Returns the counts since the last call.
    pub(crate) fn io(&mut self) -> IoCounts {
        std::mem::take(&mut self.io)
    }

    /// Requests the lists of these ranks, preferably in ascending order. Waits while all reads are in use.
    pub(crate) fn request(&mut self, layout: &Layout, ranks: &[u32], then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        let mut requested = self.request_some(layout, ranks, then)?;
        while requested < ranks.len() {
            self.wait(then)?;
            requested += self.request_some(layout, &ranks[requested..], then)?;
        }
        Ok(())
    }

    /// Requests the first of these lists, as many as possible without waiting (except for a list of many pieces).
    /// Returns their number.
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

    /// Adds this list to the open read or to a new one. Returns false if all reads are in use.
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
        let has_space = !self.free.is_empty();
        if has_space {
            self.open(first, end, rank, None);
        }
        has_space
    }

    /// Processes completed reads without waiting.
    pub(crate) fn poll(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        if self.in_flight == 0 {
            self.close();
        }
        if self.in_flight > self.queued { self.take(false, then) } else { Ok(()) }
    }

    /// Returns true if reads are in flight or completed reads have not been processed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.in_flight > 0
    }

    /// Returns true if waiting for the reads in flight would not block.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.in_flight == 0 || self.fetch.ended() >= self.in_flight
    }

    /// Submits all requested reads, processes completed ones, and leaves the rest for later.
    pub(crate) fn leave(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        self.begin_all();
        self.take(false, then)
    }

    /// Completes all requested reads.
    pub(crate) fn finish(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        self.begin_all();
        while self.in_flight > 0 {
            self.take(true, then)?;
        }
        Ok(())
    }

    /// Waits for all reads after a failure and discards them.
    pub(crate) fn give_up(&mut self) {
        self.open = None;
        self.submit();
        while self.in_flight > 0 {
            let (ended, _) = self.fetch.take(true, &mut |_, _| {});
            self.in_flight -= ended;
        }
        self.free = (0..self.reads.len()).collect();
    }

    /// Submits all requested reads and waits for one, if there is any.
    pub(crate) fn wait(&mut self, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        self.begin_all();
        self.take(true, then)
    }

    fn begin_all(&mut self) {
        self.close();
        self.submit();
    }

    fn request_pieces(&mut self, layout: &Layout, rank: u32, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        let place = layout.long_lists.binary_search_by_key(&rank, |list| list.0).expect("long lists are in the table");
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

    /// Starts a new read, when the previous one will not be extended. A read must be free.
    fn open(&mut self, from: u64, to: u64, rank: u32, piece: Option<(u64, usize)>) {
        self.close();
        let number = self.free.pop().expect("one is free");
        let read = &mut self.reads[number];
        (read.from, read.to, read.piece) = (from, to, piece);
        read.ranks.clear();
        read.ranks.push(rank);
        self.open = Some(number);
    }

    /// Queues the open read.
    fn close(&mut self) {
        let Some(number) = self.open.take() else { return };
        let InFlightRead { from, to, .. } = self.reads[number];
        self.fetch.read(number, from, (to - from) as usize);
        self.io.reads += 1;
        self.io.bytes += to - from;
        self.in_flight += 1;
        self.queued += 1;
        if self.queued >= BATCH || self.queued == self.in_flight {
            self.submit();
        }
    }

    fn submit(&mut self) {
        if self.queued > 0 {
            self.fetch.submit();
            self.queued = 0;
        }
    }

    /// Processes completed reads, if any are in flight.
    fn take(&mut self, wait: bool, then: &mut OnRead<'_>) -> Result<(), ReadFailure> {
        if self.in_flight == 0 {
            return Ok(());
        }
        let Self { fetch, reads, free, .. } = self;
        let mut lost = None;
        let (ended, result) = fetch.take(wait, &mut |number, bytes| {
            let InFlightRead { from, to, ranks, piece } = &reads[number];
            assert!(bytes.len() >= (to - from) as usize + PADDING, "the buffer of a read is padded");
            if lost.is_none() {
                lost = then(&ReadChunk { ranks, bytes, offset: *from, piece: *piece }).err();
            }
            free.push(number);
        });
        self.in_flight -= ended;
        result.map_err(ReadFailure::Read)?;
        lost.map_or(Ok(()), |list| Err(ReadFailure::List(list)))
    }
}
