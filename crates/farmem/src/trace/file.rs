//! A file that faults are recorded in while a program runs. Trouble with it is told at the end and disturbs nobody before.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Encoder, Header, Record};

/// The file; all copies are the same one.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Open>>);

#[derive(Debug)]
pub(crate) struct Open {
    file: BufWriter<File>,
    /// None before the program begins.
    encoder: Option<Encoder>,
    bytes: Vec<u8>,
    /// The first trouble; nothing is written after it.
    failed: Option<io::Error>,
}

impl Trace {
    /// Makes the file, or empties it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        Ok(Self(Arc::new(Mutex::new(Open { file, encoder: None, bytes: vec![], failed: None }))))
    }

    /// Writes what is left, and says whether everything was written.
    pub fn finish(&self) -> io::Result<()> {
        let mut open = self.open();
        match open.failed.take() {
            Some(error) => Err(error),
            None => open.file.flush(),
        }
    }

    pub(crate) fn begin(&self, header: &Header) {
        let mut open = self.open();
        let mut bytes = Vec::new();
        open.encoder = Some(Encoder::begin(header, &mut bytes));
        open.write(&bytes);
    }

    /// For several records in a row.
    pub(crate) fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    pub(crate) fn add(&mut self, record: &Record) {
        let Some(encoder) = &mut self.encoder else { return };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        encoder.add(record, &mut bytes);
        self.write(&bytes);
        self.bytes = bytes;
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Decoder;

    const HEADER: Header = Header { page: 4096, dram: 1 << 24, minor_period: 1, steered: false };

    #[test]
    fn what_was_added_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let trace = Trace::create(&path).unwrap();
        trace.begin(&HEADER);
        trace.open().add(&Record::Gone(5));
        trace.finish().unwrap();
        let bytes = std::fs::read(path).unwrap();
        let records: Result<Vec<_>, _> = Decoder::begin(&bytes).unwrap().collect();
        assert_eq!(records, Ok(vec![Record::Gone(5)]));
    }

    #[test]
    fn a_full_disk_is_said_at_the_end() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return println!("skipped: a_full_disk_is_said_at_the_end: there is no /dev/full");
        }
        let trace = Trace::create(full).unwrap();
        trace.begin(&HEADER);
        (0..100_000).for_each(|process| trace.open().add(&Record::Gone(process)));
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
