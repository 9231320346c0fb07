//! File copy: the rate of small reads and writes through the page cache of a directory's file system.
//!
//! Measures: KiB per second read from one file and written to another through a buffer; both files restart at their
//! beginning when the end is reached. With the defaults of UnixBench the files fit in memory many times over, so the
//! result is the cost of the page cache. Write-back to the disk during the test disturbs the result. Does NOT measure a
//! disk.
//! Definition: UnixBench's buffers of 256, 1024 and 4096 bytes with files of 500, 2000 and 8000 KiB. All copies of
//! version 5.1.3 use the same two files, so they wait for each other; in version 6, each copy has its own files.
//! Before the timed region, the first file is written and read once; the original does each for two seconds.

use std::path::{Path, PathBuf};

use model::values::workload::{ParameterKind, WorkloadSpec};

use super::copies::{self, Program};
use super::{Test, check, kernel_output, time_ns};
use crate::describe::{Parameter, choice, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::scratch::{Scratch, io_failure};

const KIB: f64 = 1024.0;

pub(crate) fn describe() -> WorkloadSpec {
    super::describe(Test {
        name: "file-copy",
        summary: "small reads and writes: repeated copies of one file to another",
        about: "KiB per second from one file to another through a buffer, all copies together, in the page cache of \
                the directory's file system. Does not measure a disk.",
        unit: "KBps",
        parameters: parameters([
            Parameter {
                name: "buffer",
                about: "bytes per read and write",
                kind: choice(&["256", "1024", "4096"]),
                default: Some("1024"),
                smoke: None,
            },
            Parameter {
                name: "blocks",
                about: "size of the file in KiB; 0 is UnixBench's size for this buffer: 500, 2000 or 8000",
                kind: ParameterKind::Integer { min: 0, max: 1 << 20 },
                default: Some("0"),
                smoke: None,
            },
            Parameter {
                name: "files",
                about: "shared: all copies use the same two files, as in version 5.1.3; own: each copy has its own",
                kind: choice(&["shared", "own"]),
                default: Some("shared"),
                smoke: None,
            },
            Parameter {
                name: "directory",
                about: "directory of the files; empty for the system's temporary directory",
                kind: ParameterKind::Text,
                default: Some(""),
                smoke: None,
            },
        ]),
    })
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let scratch = Scratch::new(&directory(job))?;
    let file = scratch.program("program", copies::SYSTEM)?;
    let buffer = job.parameters.text("buffer");
    let blocks = blocks(buffer, job.parameters.size("blocks"));
    let own = job.parameters.text("files") == "own";
    let pair = |index: usize| {
        let number = if own { index } else { 0 };
        [scratch.path(&format!("from-{number}")), scratch.path(&format!("to-{number}"))]
    };
    let copies = copies::run_each(job, |index| {
        let [from, to] = pair(index);
        let args =
            ["copy".into(), time_ns(job).into(), buffer.into(), blocks.to_string().into(), from.into(), to.into()];
        Program { file: &file, dir: Path::new("/"), args: args.into() }
    })?;
    check(&copies.copies, &[], "file copy")?;
    for index in 0..if own { job.threads } else { 1 } {
        check_files(&pair(index), blocks)?;
    }
    kernel_output(copies, 1.0 / KIB)
}

fn directory(job: &TrialContext) -> PathBuf {
    match job.parameters.text("directory") {
        "" => std::env::temp_dir(),
        path => path.into(),
    }
}

/// Returns the size of the file in KiB: the given one, or UnixBench's 500, 2000 or 8000 KiB, which depends on the
/// buffer.
fn blocks(buffer: &str, given: usize) -> usize {
    match (given, buffer) {
        (0, "256") => 500,
        (0, "1024") => 2000,
        (0, _) => 8000,
        (given, _) => given,
    }
}

/// Verifies that the first file has its size, and that the second is a copy of its beginning.
fn check_files([from, to]: &[PathBuf; 2], blocks: usize) -> Result<(), Failure> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| io_failure("read", path, &error));
    let (source, copied) = (read(from)?, read(to)?);
    if source.len() == blocks * 1024 && !copied.is_empty() && source.starts_with(&copied) {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "the second file ({} bytes) is not a copy of the first ({} bytes)",
        copied.len(),
        source.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_with_every_buffer_and_both_kinds_of_files() {
        for (buffer, files) in [("256", "shared"), ("1024", "own"), ("4096", "shared")] {
            let mut job = TrialContext { threads: 2, ..job_for_tests("file-copy") };
            set(&mut job, "buffer", buffer);
            set(&mut job, "files", files);
            check_smoke("file-copy", &run(&job).unwrap());
        }
    }

    #[test]
    fn wrong_copy_returns_an_error() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let files = [scratch.file("from", &[1; 2048]).unwrap(), scratch.file("to", &[1; 1000]).unwrap()];
        assert_eq!(check_files(&files, 2), Ok(()));
        assert!(check_files(&files, 3).is_err());
        for wrong in [vec![2; 1000], vec![1; 3000], Vec::new()] {
            scratch.file("to", &wrong).unwrap();
            assert!(check_files(&files, 2).is_err(), "{} bytes", wrong.len());
        }
    }

    #[test]
    fn missing_directory_is_unavailable() {
        let mut job = job_for_tests("file-copy");
        set(&mut job, "directory", "/nowhere");
        let failure = run(&job).unwrap_err();
        assert!(matches!(&failure, Failure::Unavailable(reason) if reason.contains("/nowhere")), "{failure}");
    }
}
