//! Concurrent small reads of a far file, each into its own slot of DRAM and completed in any order: for a search that
//! needs a few kilobytes at a time while it computes. A [`super::Mover`] transfers whole buffers and completes them in
//! the order of their requests.
#![allow(unsafe_code)]

use std::slice;
use std::sync::Arc;

use machine::memory::{HugePages, PlacedMemory};
use model::values::placement::MemoryPolicy;

use super::buffers::{Buffer, NearArena};
use super::mover::outcome;
use super::ring::{FileRing, Transfer, passes};
use super::{Access, FarError, FarFile};

/// Reads one file, on the thread that created it.
pub struct Reader {
    ring: FileRing,
    file: Arc<FarFile>,
    near: NearArena,
    /// Keeps the memory alive; it is accessed through `near` only.
    _all: Buffer,
    place_bytes: usize,
    padding: usize,
    /// Reads in flight by slot; `None` for a free slot.
    in_flight: Vec<Option<(Transfer, u32)>>,
    completions: Vec<(u64, i32)>,
}

impl Reader {
    /// Creates a reader with `places` concurrent reads of at most `bytes` each. Each slot has at least `padding` more
    /// bytes of undefined content behind the data.
    pub fn new(
        file: Arc<FarFile>,
        places: usize,
        bytes: usize,
        padding: usize,
        policy: &MemoryPolicy,
    ) -> Result<Self, FarError> {
        assert!(file.access() == Access::Direct, "a reader needs direct I/O");
        assert!(places > 0 && bytes.is_multiple_of(file.alignment()));
        let place_bytes = (bytes + padding).next_multiple_of(file.alignment());
        let (near, all) = NearArena::new(PlacedMemory::new(places * place_bytes, policy, HugePages::System)?);
        let ring = FileRing::new(&file, &near, u32::try_from(places).expect("the number of slots fits u32"))?;
        let in_flight = vec![None; places];
        Ok(Self {
            ring,
            file,
            near,
            _all: all,
            place_bytes,
            padding,
            in_flight,
            completions: Vec::with_capacity(places),
        })
    }

    /// Maximum number of concurrent reads.
    pub fn places(&self) -> usize {
        self.in_flight.len()
    }

    /// Size of the DRAM slots, in bytes.
    pub fn near_bytes(&self) -> usize {
        self.places() * self.place_bytes
    }

    /// Queues a read into a free slot below `places`.
    pub fn read(&mut self, number: usize, offset: u64, bytes: usize) {
        let unit = self.file.alignment();
        assert!(self.in_flight[number].is_none(), "read {number} is in flight");
        assert!(bytes > 0 && bytes + self.padding <= self.place_bytes, "{bytes} bytes exceed a slot");
        assert!(
            offset.is_multiple_of(unit as u64) && bytes.is_multiple_of(unit),
            "{bytes} bytes at {offset} are not multiples of {unit}"
        );
        assert!(offset + bytes as u64 <= self.file.bytes() as u64, "{bytes} bytes at {offset} exceed the far file");
        let transfer = Transfer { write: false, near: number * self.place_bytes, offset, bytes };
        self.put(number, transfer, 0);
    }

    /// Submits the queued reads.
    pub fn submit(&mut self) {
        self.ring.submit(false);
    }

    /// Number of completed reads that were not reaped.
    pub fn ended(&mut self) -> usize {
        self.ring.waiting()
    }

    /// Calls `with` for each read that succeeded, with its slot, its bytes and the padding behind them; if `wait`,
    /// waits for at least one. Returns the number of completed reads, failed ones included, and the first failure.
    pub fn reap(&mut self, wait: bool, mut with: impl FnMut(usize, &[u8])) -> (usize, Result<(), FarError>) {
        let (mut ended, mut result) = (0, Ok(()));
        loop {
            if wait && ended == 0 && !self.ring.spin_for_completion() {
                self.ring.submit(true);
            } else {
                self.ring.run_pending();
            }
            self.collect();
            let mut again = false;
            let mut completions = std::mem::take(&mut self.completions);
            for (number, completion) in completions.drain(..) {
                let number = number as usize;
                let (transfer, tries) = self.in_flight[number].take().expect("completions belong to reads in flight");
                if passes(completion, tries) {
                    self.put(number, transfer, tries + 1);
                    again = true;
                    continue;
                }
                ended += 1;
                match outcome(&transfer, completion) {
                    Ok(()) => with(number, self.place(number, transfer.bytes)),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            // Keeps its capacity.
            self.completions = completions;
            if again {
                self.ring.submit(false);
            }
            if !wait || ended > 0 || self.in_flight.iter().all(Option::is_none) {
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
        self.in_flight[number] = Some((transfer, tries));
        // SAFETY: the slot belongs to this number, which has no other read in flight; the reader keeps the near memory
        // alive; the ring is as deep as there are numbers.
        unsafe { self.ring.put(number as u64, transfer) };
    }

    /// Collects the completions that have arrived.
    fn collect(&mut self) {
        let Self { ring, completions, .. } = self;
        ring.completions(|number, result| completions.push((number, result)));
    }

    /// The bytes of a completed read, with its padding.
    fn place(&self, number: usize, bytes: usize) -> &[u8] {
        let start = self.near.start().wrapping_add(number * self.place_bytes);
        // SAFETY: the slot is in the near memory, is large enough for both, and has no read in flight.
        unsafe { slice::from_raw_parts(start, bytes + self.padding) }
    }
}

impl Drop for Reader {
    /// Waits for reads in flight, because the kernel still writes to their slots.
    fn drop(&mut self) {
        while self.in_flight.iter().any(Option::is_some) {
            self.ring.submit(true);
            let in_flight = &mut self.in_flight;
            self.ring.completions(|number, _| in_flight[number as usize] = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::super::tests::{Fault, FaultPlan, scratch_dir};
    use super::*;

    const BYTES: usize = 64 << 10;
    const PLACES: usize = 5;

    /// A file in which every 8 bytes hold their own index.
    fn reader() -> Option<Reader> {
        let (_dir, place) = scratch_dir()?;
        let file = FarFile::new(&place, 40 * BYTES, Access::Direct);
        let file = file.map_err(|error| println!("skipped: {error}")).ok()?;
        let numbers: Vec<u8> = (0..file.bytes() as u64 / 8).flat_map(u64::to_ne_bytes).collect();
        // Written through the page cache, under another file description.
        let path = format!("/proc/self/fd/{}", file.file().as_raw_fd());
        std::fs::write(path, numbers).unwrap();
        let reader = Reader::new(Arc::new(file), PLACES, BYTES, 128, &MemoryPolicy::Kernel);
        reader.map_err(|error| println!("skipped: {error}")).ok()
    }

    fn number(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn reads_complete_in_any_order_with_their_own_bytes() {
        let Some(mut reader) = reader() else { return };
        assert_eq!((reader.places(), reader.near_bytes()), (PLACES, PLACES * (BYTES + 4096)));
        let mut requests: Vec<(u64, usize)> =
            (0..200_u64).map(|read| (read * 7919 % 600 * 4096, 4096 * (1 + read as usize % 16))).collect();
        let (mut free, mut in_flight_reads, mut seen) = ((0..PLACES).collect::<Vec<_>>(), vec![(0, 0); PLACES], 0);
        while seen < 200 {
            while let (Some(slot), Some(read)) = (free.last(), requests.last()) {
                reader.read(*slot, read.0, read.1);
                in_flight_reads[*slot] = *read;
                free.pop();
                requests.pop();
            }
            reader.submit();
            let (ended, result) = reader.reap(seen % 2 == 0, |slot, bytes| {
                let (offset, length) = in_flight_reads[slot];
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
    fn failed_and_short_reads_are_reported_others_succeed() {
        for (fault, expected) in [
            (Fault::Errno(libc::EIO), "cannot read 64KiB at byte 65536 of the far file: Input/output error"),
            (Fault::Short, "cannot read 64KiB at byte 65536 of the far file: only 32KiB were transferred"),
        ] {
            let Some(mut reader) = reader() else { return };
            reader.plan_fault(FaultPlan { at: Some(1), fault: Some(fault), ..FaultPlan::default() });
            (0..PLACES).for_each(|place| reader.read(place, (place * BYTES) as u64, BYTES));
            reader.submit();
            let (mut succeeded, mut ended, mut failure) = (Vec::new(), 0, None);
            while ended < PLACES {
                let (some, result) = reader.reap(true, |place, _| succeeded.push(place));
                ended += some;
                failure = failure.or(result.err());
            }
            succeeded.sort_unstable();
            assert_eq!(succeeded, [0, 2, 3, 4]);
            assert!(failure.unwrap().to_string().starts_with(expected), "{fault:?}");
        }
    }

    #[test]
    fn reads_rejected_with_eagain_are_resubmitted() {
        let Some(mut reader) = reader() else { return };
        reader.plan_fault(FaultPlan { at: Some(0), fault: Some(Fault::Errno(libc::EAGAIN)), ..FaultPlan::default() });
        reader.read(3, 4096, 4096);
        let mut seen = None;
        let (ended, result) = reader.reap(true, |place, bytes| seen = Some((place, number(bytes, 0))));
        assert_eq!((ended, result, seen), (1, Ok(()), Some((3, 512))));
    }

    #[test]
    fn truncated_file_returns_an_error() {
        let Some(mut reader) = reader() else { return };
        reader.file.file().set_len(6144).unwrap();
        reader.read(0, 0, 8192);
        let (ended, result) = reader.reap(true, |_, _| panic!("no read was complete"));
        assert!(ended == 1 && matches!(&result, Err(FarError::Short { moved: ..8192, .. })), "{result:?}");
    }
}
