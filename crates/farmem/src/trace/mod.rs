//! Encoding of recorded page faults: samples, the times at which they were read, and the advice given then. Pure. Must
//! not know files or predictions.
//!
//! # The format, version 2
//!
//! The bytes `nearfar-faults`, the byte 2, then numbers. A number is encoded as groups of seven bits, lowest first, one
//! per byte; the eighth bit is set in all bytes but the last. A signed number n is encoded as 2n, or -2n-1 if negative.
//! The first four numbers are: page size in bytes, DRAM in bytes, number of minor faults per sampled one, and 1 if the
//! program ran in steered mode, else 0. Records follow to the end. The first number of a record is its kind plus eight
//! times a value:
//!
//! | kind | value | then |
//! |---|---|---|
//! | 0 minor fault, 1 major fault | source | signed, address minus that of the source's previous fault, initially 0 |
//! | 2 source, numbered from 0 in order of appearance | process | thread, address of the instruction |
//! | 3 a process ended or executed another program | process | |
//! | 4 lost samples | count | |
//! | 5 poll that read the faults above | microseconds since the last poll | signed, pages before the budget is short |
//! | 6 pages to prefetch | 0, or 1 plus far pages | process, signed first page minus that of the last advice, pages |
//! | 7 pages to evict | pages | process, signed first page as above |
//!
//! Version 1, which is read too, has the page of a fault instead of its address.

mod file;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

pub use self::file::Trace;
use crate::predict::{Advice, Fault, Order};

const MAGIC: &[u8] = b"nearfar-faults";
const VERSION: u8 = 2;
const KIND_BITS: u32 = 3;

/// Conditions of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Page size in bytes.
    pub page: u64,
    /// DRAM limit of the program, in bytes.
    pub dram: u64,
    /// One in this many minor faults was sampled.
    pub minor_period: u64,
    /// Whether the program ran in steered mode, so that pages were prefetched.
    pub steered: bool,
}

/// A record of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A page fault; in version 1 its address is that of the page.
    Fault(Fault),
    /// A process ended, or executed another program.
    Gone(u32),
    /// Number of lost samples.
    Lost(u64),
    /// A poll: nanoseconds since the start, in whole microseconds, and the bytes that the program may allocate before
    /// its budget is short.
    Look {
        now: u64,
        /// Rounded to whole pages.
        headroom: i64,
    },
    Fetch {
        process: u32,
        range: Range<u64>,
        /// Number of far pages, if it was checked.
        far: Option<u64>,
    },
    PageOut {
        process: u32,
        range: Range<u64>,
    },
}

impl Record {
    /// An advice and, if checked, the number of far pages.
    pub(crate) fn of_order(order: &Order, far: Option<u64>) -> Vec<Self> {
        let process = order.process;
        match &order.advice {
            Advice::Fetch(range) => vec![Self::Fetch { process, range: range.clone(), far }],
            Advice::FetchEach(ranges) => {
                ranges.iter().map(|range| Self::Fetch { process, range: range.clone(), far }).collect()
            }
            Advice::PageOut(range) => vec![Self::PageOut { process, range: range.clone() }],
        }
    }
}

/// Encodes records.
#[derive(Debug)]
pub struct Encoder {
    page: u64,
    /// Process, thread and instruction to number and last address.
    sources: HashMap<(u32, u32, u64), (u64, u64)>,
    last: Last,
}

/// The state that both sides derive numbers from.
#[derive(Debug, Default)]
struct Last {
    now_us: u64,
    ordered: u64,
}

impl Encoder {
    /// Appends the header to `bytes`.
    pub fn begin(header: &Header, bytes: &mut Vec<u8>) -> Self {
        bytes.extend(MAGIC);
        bytes.push(VERSION);
        for number in [header.page, header.dram, header.minor_period, u64::from(header.steered)] {
            put(bytes, number);
        }
        Self { page: header.page, sources: HashMap::new(), last: Last::default() }
    }

    /// Appends a record to `bytes`.
    pub fn add(&mut self, record: &Record, bytes: &mut Vec<u8>) {
        match record {
            Record::Fault(fault) => self.add_fault(fault, bytes),
            Record::Gone(process) => put_kind(bytes, 3, (*process).into()),
            Record::Lost(count) => put_kind(bytes, 4, *count),
            Record::Look { now, headroom } => {
                put_kind(bytes, 5, (now / 1000).saturating_sub(self.last.now_us));
                put_signed(bytes, headroom / self.page as i64);
                self.last.now_us = self.last.now_us.max(now / 1000);
            }
            Record::Fetch { process, range, far } => {
                put_kind(bytes, 6, far.map_or(0, |far| far + 1));
                self.add_first(*process, range, bytes);
                put(bytes, self.pages(range));
            }
            Record::PageOut { process, range } => {
                put_kind(bytes, 7, self.pages(range));
                self.add_first(*process, range, bytes);
            }
        }
    }

    fn add_fault(&mut self, fault: &Fault, bytes: &mut Vec<u8>) {
        let new = self.sources.len() as u64;
        let (source, last) = self.sources.entry((fault.process, fault.thread, fault.instruction)).or_insert((new, 0));
        if *source == new {
            put_kind(bytes, 2, fault.process.into());
            put(bytes, fault.thread.into());
            put(bytes, fault.instruction);
        }
        put_kind(bytes, fault.major.into(), *source);
        put_signed(bytes, fault.address.wrapping_sub(*last) as i64);
        *last = fault.address;
    }

    fn add_first(&mut self, process: u32, range: &Range<u64>, bytes: &mut Vec<u8>) {
        let first = range.start / self.page;
        put(bytes, process.into());
        put_signed(bytes, first.wrapping_sub(self.last.ordered) as i64);
        self.last.ordered = first;
    }

    fn pages(&self, range: &Range<u64>) -> u64 {
        (range.end - range.start) / self.page
    }
}

/// The reason why bytes are not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a fault trace: {what} at byte {at}")]
pub struct Damaged {
    /// Offset in bytes.
    pub at: usize,
    pub what: &'static str,
}

/// Decodes records; ends at the end of the bytes or with the first error.
#[derive(Debug)]
pub struct Decoder<'a> {
    pub header: Header,
    bytes: &'a [u8],
    at: usize,
    /// As in the encoder, by number; each with its last fault.
    sources: Vec<Fault>,
    /// Unit of a fault's number, in bytes.
    unit: u64,
    last: Last,
    failed: bool,
}

impl<'a> Decoder<'a> {
    pub fn begin(bytes: &'a [u8]) -> Result<Self, Damaged> {
        if !bytes.starts_with(MAGIC) {
            return Err(Damaged { at: 0, what: "wrong magic bytes" });
        }
        let version = bytes.get(MAGIC.len()).copied();
        if !matches!(version, Some(1 | VERSION)) {
            return Err(Damaged { at: MAGIC.len(), what: "unknown version" });
        }
        let header = Header { page: 0, dram: 0, minor_period: 0, steered: false };
        let (at, last) = (MAGIC.len() + 1, Last::default());
        let mut decoder = Self { header, bytes, at, sources: vec![], unit: 1, last, failed: false };
        let (page, dram, minor_period, steered) =
            (decoder.number()?, decoder.number()?, decoder.number()?, decoder.number()? != 0);
        if !page.is_power_of_two() || page < 512 {
            return Err(Damaged { at, what: "invalid page size" });
        }
        decoder.unit = if version == Some(1) { page } else { 1 };
        decoder.header = Header { page, dram, minor_period, steered };
        Ok(decoder)
    }

    fn record(&mut self) -> Result<Record, Damaged> {
        loop {
            let (at, first) = (self.at, self.number()?);
            let (kind, value) = (first & ((1 << KIND_BITS) - 1), first >> KIND_BITS);
            let narrow = |number: u64| u32::try_from(number).map_err(|_| Damaged { at, what: "number too large" });
            return Ok(match kind {
                0 | 1 => {
                    let step = self.signed()?;
                    let known = self.sources.get_mut(value as usize);
                    let fault = known.ok_or(Damaged { at, what: "fault without source" })?;
                    fault.address = fault.address.wrapping_add((step as u64).wrapping_mul(self.unit));
                    fault.major = kind == 1;
                    Record::Fault(*fault)
                }
                2 => {
                    let (process, thread, instruction) = (narrow(value)?, narrow(self.number()?)?, self.number()?);
                    self.sources.push(Fault { process, thread, instruction, address: 0, major: false });
                    continue;
                }
                3 => Record::Gone(narrow(value)?),
                4 => Record::Lost(value),
                5 => {
                    self.last.now_us = self.last.now_us.wrapping_add(value);
                    let headroom = self.signed()?.wrapping_mul(self.header.page as i64);
                    Record::Look { now: self.last.now_us.wrapping_mul(1000), headroom }
                }
                6 => {
                    let (process, first, pages) = (narrow(self.number()?)?, self.first()?, self.number()?);
                    Record::Fetch { process, range: self.range(first, pages), far: value.checked_sub(1) }
                }
                _ => {
                    let (process, first) = (narrow(self.number()?)?, self.first()?);
                    Record::PageOut { process, range: self.range(first, value) }
                }
            });
        }
    }

    fn first(&mut self) -> Result<u64, Damaged> {
        self.last.ordered = self.last.ordered.wrapping_add(self.signed()? as u64);
        Ok(self.last.ordered)
    }

    fn range(&self, first: u64, pages: u64) -> Range<u64> {
        let start = first.wrapping_mul(self.header.page);
        start..start.wrapping_add(pages.wrapping_mul(self.header.page))
    }

    fn number(&mut self) -> Result<u64, Damaged> {
        let begun = self.at;
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(Damaged { at: begun, what: "truncated" })?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged { at: begun, what: "number too large" })
    }

    fn signed(&mut self) -> Result<i64, Damaged> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Record, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.at >= self.bytes.len() {
            return None;
        }
        let record = self.record();
        self.failed = record.is_err();
        Some(record)
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, (number << 1 ^ number >> 63) as u64);
}

fn put_kind(bytes: &mut Vec<u8>, kind: u64, value: u64) {
    put(bytes, value << KIND_BITS | kind);
}
