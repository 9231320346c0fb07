//! A file that records faults while a program runs. Errors are reported at the end and do not disturb the program.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Encoder, Header, Record};

/// The file, shared by all clones.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Open>>);

#[derive(Debug)]
pub(crate) struct Open {
    file: BufWriter<File>,
    /// `None` before the program starts.
    encoder: Option<Encoder>,
    bytes: Vec<u8>,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
}

impl Trace {
    /// Creates or truncates the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(files::create(&files::followed(path)?)?);
        Ok(Self(Arc::new(Mutex::new(Open { file, encoder: None, bytes: vec![], failed: None }))))
    }

    /// Writes the remaining records. Returns the first error of any write.
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

    /// Adds several records.
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
    fn added_records_are_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let trace = Trace::create(&path).unwrap();
        trace.begin(&HEADER);
        trace.open().add(&Record::Gone(5));
        trace.finish().unwrap();
        let bytes = std::fs::read(path).unwrap();
        let records: Result<Vec<_>, _> = Decoder::begin(&bytes).unwrap().collect();
        assert_eq!(records, Ok(vec![Record::Gone(5)]));
    }

    #[test]
    fn full_disk_is_reported_at_the_end() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return println!("skipped: full_disk_is_reported_at_the_end: /dev/full is missing");
        }
        let trace = Trace::create(full).unwrap();
        trace.begin(&HEADER);
        (0..100_000).for_each(|process| trace.open().add(&Record::Gone(process)));
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
