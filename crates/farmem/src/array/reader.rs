//! Many small reads of a far file at once, in whatever order they end, each into a place of its own: for a search that wants a few
//! kilobytes here and there while it goes on. A [`super::Mover`] moves whole buffers, in the order in which they are asked for.
#![allow(unsafe_code)]

use std::slice;
use std::sync::Arc;

use machine::memory::{HugePages, PlacedMemory};
use model::placements::placement::MemoryPolicy;

use super::buffers::{Buffer, NearArena};
use super::mover::outcome;
use super::ring::{FileRing, Transfer, passes};
use super::{Access, FarError, FarFile};

/// Reads one file, for the thread that made it.
pub struct Reader {
    ring: FileRing,
    file: Arc<FarFile>,
    near: NearArena,
    /// Nobody looks at it but through `near`.
    _all: Buffer,
    place_bytes: usize,
    padding: usize,
    /// By number; none where no read is under way.
    flying: Vec<Option<(Transfer, u32)>>,
    answers: Vec<(u64, i32)>,
}

impl Reader {
    /// So many reads at once, each of so many bytes at most; behind the bytes of each there are at least `padding` more, whatever
    /// is in them.
    pub fn new(
        file: Arc<FarFile>,
        places: usize,
        bytes: usize,
        padding: usize,
        policy: &MemoryPolicy,
    ) -> Result<Self, FarError> {
        assert!(file.access() == Access::Direct, "a reader goes past the page cache");
        assert!(places > 0 && bytes.is_multiple_of(file.alignment()));
        let place_bytes = (bytes + padding).next_multiple_of(file.alignment());
        let (near, all) = NearArena::new(PlacedMemory::new(places * place_bytes, policy, HugePages::System)?);
        let ring = FileRing::new(&file, &near, u32::try_from(places).expect("places are few"))?;
        let flying = vec![None; places];
        Ok(Self { ring, file, near, _all: all, place_bytes, padding, flying, answers: Vec::with_capacity(places) })
    }

    /// How many reads can be under way.
    pub fn places(&self) -> usize {
        self.flying.len()
    }

    /// Bytes of DRAM for what is read.
    pub fn near_bytes(&self) -> usize {
        self.places() * self.place_bytes
    }

    /// Puts a read into the queue, under a number below `places` that no read under way has.
    pub fn read(&mut self, number: usize, offset: u64, bytes: usize) {
        let unit = self.file.alignment();
        assert!(self.flying[number].is_none(), "read {number} is under way");
        assert!(bytes > 0 && bytes + self.padding <= self.place_bytes, "a place has no room for {bytes} bytes");
        assert!(
            offset.is_multiple_of(unit as u64) && bytes.is_multiple_of(unit),
            "{bytes} bytes at {offset}: multiples of {unit}"
        );
        assert!(offset + bytes as u64 <= self.file.bytes() as u64, "{bytes} bytes at {offset} lie beyond the far file");
        let transfer = Transfer { write: false, near: number * self.place_bytes, offset, bytes };
        self.put(number, transfer, 0);
    }

    /// Begins with what is in the queue.
    pub fn submit(&mut self) {
        self.ring.submit(false);
    }

    /// How many reads have ended and were not taken.
    pub fn ended(&mut self) -> usize {
        self.ring.waiting()
    }

    /// Calls with the number of each read that has ended well, its bytes and the padding behind them; waits for one if asked. Gives how
    /// many have ended, well or not, and the first failure.
    pub fn reap(&mut self, wait: bool, mut with: impl FnMut(usize, &[u8])) -> (usize, Result<(), FarError>) {
        let (mut ended, mut result) = (0, Ok(()));
        loop {
            if wait && ended == 0 && !self.ring.spin_for_completion() {
                self.ring.submit(true);
            } else {
                self.ring.look();
            }
            self.collect();
            let mut again = false;
            let mut answers = std::mem::take(&mut self.answers);
            for (number, answer) in answers.drain(..) {
                let number = number as usize;
                let (transfer, tries) = self.flying[number].take().expect("answers come to reads that are under way");
                if passes(answer, tries) {
                    self.put(number, transfer, tries + 1);
                    again = true;
                    continue;
                }
                ended += 1;
                match outcome(&transfer, answer) {
                    Ok(()) => with(number, self.place(number, transfer.bytes)),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            // With the room that it has.
            self.answers = answers;
            if again {
                self.ring.submit(false);
            }
            if !wait || ended > 0 || self.flying.iter().all(Option::is_none) {
                return (ended, result);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn plan_fault(&mut self, plan: super::tests::FaultPlan) {
        self.ring.fault = plan;
    }

    pub fn file(&self) -> &FarFile {
        &self.file
    }

    fn put(&mut self, number: usize, transfer: Transfer, tries: u32) {
        self.flying[number] = Some((transfer, tries));
        // SAFETY: the place belongs to this number, whose read is the only one of it; the reader keeps the near memory; there
        // are as many numbers as the ring is deep.
        unsafe { self.ring.put(number as u64, transfer) };
    }

    /// The answers that have come.
    fn collect(&mut self) {
        let Self { ring, answers, .. } = self;
        ring.answers(|number, result| answers.push((number, result)));
    }

    /// What a read that has ended gave, with its padding.
    fn place(&self, number: usize, bytes: usize) -> &[u8] {
        let start = self.near.start().wrapping_add(number * self.place_bytes);
        // SAFETY: the place lies in the near memory, has room for both, and no read of it is under way.
        unsafe { slice::from_raw_parts(start, bytes + self.padding) }
    }
}

impl Drop for Reader {
    /// The kernel may still be at work on places.
    fn drop(&mut self) {
        while self.flying.iter().any(Option::is_some) {
            self.ring.submit(true);
            let flying = &mut self.flying;
            self.ring.answers(|number, _| flying[number as usize] = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::super::tests::{Fault, FaultPlan, folder};
    use super::*;

    const BYTES: usize = 64 << 10;
    const PLACES: usize = 5;

    /// A file whose every 8 bytes say where they are.
    fn reader() -> Option<Reader> {
        let (_folder, place) = folder()?;
        let file = FarFile::new(&place, 40 * BYTES, Access::Direct);
        let file = file.map_err(|error| println!("skipped: {error}")).ok()?;
        let numbers: Vec<u8> = (0..file.bytes() as u64 / 8).flat_map(u64::to_ne_bytes).collect();
        // Through the page cache, under another open file.
        let path = format!("/proc/self/fd/{}", file.file().as_raw_fd());
        std::fs::write(path, numbers).unwrap();
        let reader = Reader::new(Arc::new(file), PLACES, BYTES, 128, &MemoryPolicy::Kernel);
        reader.map_err(|error| println!("skipped: {error}")).ok()
    }

    fn number(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn reads_end_in_any_order_each_with_its_own_bytes() {
        let Some(mut reader) = reader() else { return };
        assert_eq!((reader.places(), reader.near_bytes()), (PLACES, PLACES * (BYTES + 4096)));
        let mut wanted: Vec<(u64, usize)> =
            (0..200_u64).map(|read| (read * 7919 % 600 * 4096, 4096 * (1 + read as usize % 16))).collect();
        let (mut free, mut under_way, mut seen) = ((0..PLACES).collect::<Vec<_>>(), vec![(0, 0); PLACES], 0);
        while seen < 200 {
            while let (Some(slot), Some(read)) = (free.last(), wanted.last()) {
                reader.read(*slot, read.0, read.1);
                under_way[*slot] = *read;
                free.pop();
                wanted.pop();
            }
            reader.submit();
            let (ended, result) = reader.reap(seen % 2 == 0, |slot, bytes| {
                let (offset, length) = under_way[slot];
                assert_eq!(bytes.len(), length + 128);
                assert_eq!(
                    (number(bytes, 0), number(bytes, length - 8)),
                    (offset / 8, (offset + length as u64) / 8 - 1)
                );
                free.push(slot);
            });
            result.unwrap();
            seen += ended;
        }
    }

    #[test]
    fn failures_and_short_reads_are_told_and_the_others_end_well() {
        for (fault, expected) in [
            (Fault::Errno(libc::EIO), "cannot read 64KiB at byte 65536 of the far file: Input/output error"),
            (Fault::Short, "cannot read 64KiB at byte 65536 of the far file: only 32KiB were moved"),
        ] {
            let Some(mut reader) = reader() else { return };
            reader.plan_fault(FaultPlan { at: Some(1), fault: Some(fault), ..FaultPlan::default() });
            (0..PLACES).for_each(|place| reader.read(place, (place * BYTES) as u64, BYTES));
            reader.submit();
            let (mut well, mut ended, mut failure) = (Vec::new(), 0, None);
            while ended < PLACES {
                let (some, result) = reader.reap(true, |place, _| well.push(place));
                ended += some;
                failure = failure.or(result.err());
            }
            well.sort_unstable();
            assert_eq!(well, [0, 2, 3, 4]);
            assert!(failure.unwrap().to_string().starts_with(expected), "{fault:?}");
        }
    }

    #[test]
    fn what_the_kernel_could_not_begin_is_given_to_it_again() {
        let Some(mut reader) = reader() else { return };
        reader.plan_fault(FaultPlan { at: Some(0), fault: Some(Fault::Errno(libc::EAGAIN)), ..FaultPlan::default() });
        reader.read(3, 4096, 4096);
        let mut seen = None;
        let (ended, result) = reader.reap(true, |place, bytes| seen = Some((place, number(bytes, 0))));
        assert_eq!((ended, result, seen), (1, Ok(()), Some((3, 512))));
    }

    #[test]
    fn a_file_that_was_cut_gives_an_error() {
        let Some(mut reader) = reader() else { return };
        reader.file.file().set_len(6144).unwrap();
        reader.read(0, 0, 8192);
        let (ended, result) = reader.reap(true, |_, _| panic!("nothing was read whole"));
        assert!(ended == 1 && matches!(&result, Err(FarError::Short { moved: ..8192, .. })), "{result:?}");
    }
}
