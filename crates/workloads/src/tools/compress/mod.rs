//! Compresses and decompresses a file with zstd, xz, bzip3, pigz or gzip at their default levels.
//!
//! Measures: MB (10^6 bytes) of uncompressed data per second of a program's wall time, including its start, and the
//! compression ratio. The program reads a file from the page cache and writes another into it, so no disk is measured,
//! but concurrent writeback may disturb. Does NOT compare programs at equal ratios.
//! The programs split the data into blocks, and only as many threads work as there are blocks: 24 MiB each for xz, 16
//! MiB for bzip3, 8 MiB for zstd, 1/8 MiB for pigz. The default size is four xz blocks. zstd and gzip decompress with
//! one thread, and gzip compresses with one: placements with more threads cannot be measured. pigz decompresses with
//! one thread and uses others for reading, writing and checking.
//! Every trial verifies, outside the timed region, that the decompressed file equals the corpus byte for byte.

mod corpus;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, Parameters, WorkloadSpec};

use super::{cache, installed, process};
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::scratch::{Scratch, io_failure};
use corpus::Corpus;

/// Thread count for compressed files that trials with other thread counts decompress. It is two, because xz writes
/// blocks that can be decompressed in parallel only with more than one thread.
const THREADS_TO_PREPARE: usize = 2;

struct Program {
    name: &'static str,
    package: &'static str,
    /// The option for the thread count, which precedes the number. `None` for single-threaded programs.
    threads: Option<&'static str>,
    /// Whether it decompresses with more than one thread.
    unpacks_in_parallel: bool,
    /// File name extension. Some programs require it.
    suffix: &'static str,
    /// Options to decompress the file that follows to standard output, without messages.
    pack: &'static [&'static str],
    unpack: &'static [&'static str],
}

static PROGRAMS: [Program; 5] = [
    Program {
        name: "zstd",
        package: "zstd",
        threads: Some("-T"),
        unpacks_in_parallel: false,
        suffix: "zst",
        pack: &["-q", "-c"],
        unpack: &["-q", "-d", "-c"],
    },
    Program {
        name: "xz",
        package: "xz-utils",
        threads: Some("-T"),
        unpacks_in_parallel: true,
        suffix: "xz",
        pack: &["-q", "-c"],
        unpack: &["-q", "-d", "-c"],
    },
    Program {
        name: "bzip3",
        package: "bzip3",
        threads: Some("-j"),
        unpacks_in_parallel: true,
        suffix: "bz3",
        pack: &["-e", "-c"],
        unpack: &["-d", "-c"],
    },
    Program {
        name: "pigz",
        package: "pigz",
        threads: Some("-p"),
        unpacks_in_parallel: true,
        suffix: "gz",
        pack: &["-q", "-c"],
        unpack: &["-q", "-d", "-c"],
    },
    Program {
        name: "gzip",
        package: "gzip",
        threads: None,
        unpacks_in_parallel: false,
        suffix: "gz",
        pack: &["-q", "-c"],
        unpack: &["-q", "-d", "-c"],
    },
];

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "compress".into(),
        summary: "compression or decompression of a file by zstd, xz, bzip3, pigz or gzip".into(),
        about:
            "MB/s of uncompressed data and the ratio, at the program's default level with the placement's threads. The \
                file is generated, identically on all machines, or set by `corpus`, and is in the page cache. Every trial \
                verifies the decompressed data. gzip and decompression by zstd use one thread. See docs/guides/programs.md."
                .into(),
        parameters: all_parameters(),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(2_000_000_000),
    }
}

fn all_parameters() -> Vec<ParameterSpec> {
    let text = |name, about| Parameter { name, about, kind: ParameterKind::Text, default: Some(""), smoke: None };
    parameters([
        Parameter {
            name: "program",
            about: "program to run, at its default level",
            kind: ParameterKind::Choice(PROGRAMS.iter().map(|program| program.name.into()).collect()),
            default: Some("zstd"),
            smoke: None,
        },
        Parameter {
            name: "direction",
            about: "compress, or decompress a file compressed by the same program",
            kind: choice(&["compress", "decompress"]),
            default: Some("compress"),
            smoke: None,
        },
        Parameter {
            name: "size",
            about: "size of the generated file",
            kind: ParameterKind::Size { min: Bytes(1), max: Bytes(1 << 40) },
            default: Some("96MiB"),
            smoke: Some("1MiB"),
        },
        Parameter {
            name: "seed",
            about: "seed of the generated file",
            kind: ParameterKind::Integer { min: 0, max: i64::MAX },
            default: Some("1"),
            smoke: None,
        },
        text("corpus", "file to compress; empty for a generated one"),
        text("directory", "directory of the files; empty for the system's temporary directory"),
    ])
}

fn all_metrics() -> Vec<MetricSpec> {
    metrics([
        Metric::median("throughput", "MB/s", Better::Higher),
        Metric::median("ratio", "", Better::Higher),
        Metric::median("wall", "s", Better::Lower),
    ])
}

/// A missing corpus is an error that can be reported before the run.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    let corpus = parameters.text("corpus");
    if corpus.is_empty() {
        return Ok(());
    }
    match std::fs::metadata(corpus) {
        Ok(found) if !found.is_file() => Err(format!("corpus {corpus} is not a file")),
        Ok(found) if found.len() == 0 => Err(format!("corpus {corpus} is empty")),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("corpus {corpus}: {error}")),
    }
}

pub(crate) fn missing(parameters: &Parameters) -> Option<String> {
    let program = program(parameters);
    installed::missing(program.name, program.package)
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let program = program(&job.parameters);
    let unpacks = job.parameters.text("direction") == "decompress";
    check_threads(program, unpacks, job.threads)?;
    installed::require(program.name, program.package)?;
    let dir = match job.parameters.text("directory") {
        "" => std::env::temp_dir(),
        dir => dir.into(),
    };
    let cache = cache::cache_dir(&dir)?;
    let corpus = corpus::of(job, &cache)?;
    let scratch = Scratch::new(&dir)?;
    let (elapsed, packed) = if unpacks {
        let packed = prepared(program, &corpus, &cache, &scratch)?;
        let output = scratch.path("output");
        let elapsed = process::run(command(program, true, job.threads, &packed, &output)?, program.name, &scratch)?;
        let file = File::open(&output).map_err(|error| io_failure("read", &output, &error))?;
        corpus::compare(&corpus, file)?;
        (elapsed, packed)
    } else {
        let output = scratch.path(&format!("output.{}", program.suffix));
        let elapsed =
            process::run(command(program, false, job.threads, &corpus.path, &output)?, program.name, &scratch)?;
        check_round_trip(program, &output, &corpus)?;
        (elapsed, output)
    };
    let seconds = elapsed.as_secs_f64();
    let mut measured = KernelOutput::default();
    measured.push("throughput", corpus.bytes as f64 / seconds / 1e6)?;
    measured.push("ratio", corpus.bytes as f64 / size(&packed)? as f64)?;
    measured.push("wall", seconds)?;
    Ok(measured)
}

fn program(parameters: &Parameters) -> &'static Program {
    let name = parameters.text("program");
    PROGRAMS.iter().find(|program| program.name == name).expect("`program` is one of the choices")
}

fn check_threads(program: &Program, unpacks: bool, threads: usize) -> Result<(), Failure> {
    let alone = if unpacks { !program.unpacks_in_parallel } else { program.threads.is_none() };
    if threads == 1 || !alone {
        return Ok(());
    }
    let does = if unpacks { "decompresses" } else { "compresses" };
    let hint = "hint: a placement of one thread, such as --threads 1";
    Err(Failure::Unavailable(format!("{} {does} with one thread, not {threads}; {hint}", program.name)))
}

/// Returns a command that reads one file and writes another.
fn command(program: &Program, unpacks: bool, threads: usize, input: &Path, output: &Path) -> Result<Command, Failure> {
    let file = File::create(output).map_err(|error| io_failure("create", output, &error))?;
    let mut command = Command::new(program.name);
    // Environment variables with default options would change the measurement.
    for name in ["ZSTD_CLEVEL", "ZSTD_NBTHREADS", "XZ_DEFAULTS", "XZ_OPT", "GZIP", "PIGZ"] {
        command.env_remove(name);
    }
    command.args(if unpacks { program.unpack } else { program.pack });
    if let Some(option) = program.threads {
        // bzip3 accepts the number only as a separate word.
        let words =
            if option == "-T" { vec![format!("-T{threads}")] } else { vec![option.into(), threads.to_string()] };
        command.args(words);
    }
    command.arg(input).stdout(file);
    Ok(command)
}

/// Returns the corpus compressed by the program. It is created once for each version of the program.
fn prepared(program: &Program, corpus: &Corpus, cache: &Path, scratch: &Scratch) -> Result<PathBuf, Failure> {
    let version = Command::new(program.name).arg("--version").output();
    let version = version.map_err(|error| io_failure("run", program.name.as_ref(), &error))?;
    let words = [version.stdout, version.stderr].concat();
    let version = words.iter().fold(0u64, |digest, byte| digest.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let name = format!("{:016x}-{}-{version:016x}.{}", corpus.digest, corpus.bytes, program.suffix);
    let packed = cache::get_or_create(cache, &name, |path| {
        let command = command(program, false, THREADS_TO_PREPARE, &corpus.path, path)?;
        process::run(command, program.name, scratch).map(drop)
    })?;
    // Read it to load it into the page cache, even if it was created long ago.
    std::fs::read(&packed).map_err(|error| io_failure("read", &packed, &error))?;
    Ok(packed)
}

/// Decompresses a file and compares the output with the corpus as a stream.
fn check_round_trip(program: &Program, packed: &Path, corpus: &Corpus) -> Result<(), Failure> {
    let mut command = Command::new(program.name);
    command.args(program.unpack).arg(packed).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| io_failure("run", program.name.as_ref(), &error))?;
    let compared = corpus::compare(corpus, child.stdout.take().expect("its output is piped"));
    let status = child.wait().map_err(|error| io_failure("wait for", program.name.as_ref(), &error))?;
    compared?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Failed(format!("{} ended with {status} when decompressing its own output", program.name)))
}

fn size(path: &Path) -> Result<u64, Failure> {
    std::fs::metadata(path).map(|found| found.len()).map_err(|error| io_failure("inspect", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests};

    fn job(program: &str, direction: &str, threads: usize, dir: &Path) -> TrialContext {
        let mut job = TrialContext { threads, ..job_for_tests("compress") };
        for (name, text) in [("program", program), ("direction", direction), ("directory", dir.to_str().unwrap())] {
            crate::kernels::set(&mut job, name, text);
        }
        job
    }

    #[test]
    fn every_program_restores_the_corpus() {
        let dir = tempfile::tempdir().unwrap();
        for program in &PROGRAMS {
            if let Err(why) = installed::require(program.name, program.package) {
                println!("skipped: {}: {why}", program.name);
                continue;
            }
            for (direction, threads) in [("compress", 1), ("decompress", 1), ("compress", 2), ("decompress", 2)] {
                match run(&job(program.name, direction, threads, dir.path())) {
                    Ok(measured) => {
                        check_smoke("compress", &measured);
                        let ratio = measured.samples[1].value;
                        assert!((1.5..6.0).contains(&ratio), "{} {ratio}", program.name);
                    }
                    Err(Failure::Unavailable(why)) => {
                        assert!(threads == 2 && why.contains("with one thread, not 2"), "{why}");
                    }
                    Err(why) => panic!("{} {direction} x {threads}: {why}", program.name),
                }
            }
        }
        // Only the cache remains.
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn wrong_decompressed_data_fails_the_trial() {
        let dir = tempfile::tempdir().unwrap();
        let job = job("gzip", "decompress", 1, dir.path());
        run(&job).unwrap();
        let cache = cache::cache_dir(dir.path()).unwrap();
        let entries = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        let packed = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "gz")).unwrap();
        let other = dir.path().join("other");
        std::fs::write(&other, "something else").unwrap();
        let output = Command::new("gzip").arg("-c").arg(&other).output().unwrap();
        std::fs::write(&packed, output.stdout).unwrap();
        assert!(run(&job).unwrap_err().to_string().contains("at byte 0"));
        std::fs::write(&packed, "no gzip").unwrap();
        assert!(run(&job).unwrap_err().to_string().contains("gzip failed with"));
    }

    #[test]
    fn single_threaded_programs_refuse_more_threads() {
        let program = |name| PROGRAMS.iter().find(|program| program.name == name).unwrap();
        assert_eq!(check_threads(program("gzip"), false, 1), Ok(()));
        assert_eq!(check_threads(program("zstd"), false, 8), Ok(()));
        assert_eq!(check_threads(program("xz"), true, 8), Ok(()));
        for (name, unpacks) in [("gzip", false), ("gzip", true), ("zstd", true)] {
            assert!(matches!(check_threads(program(name), unpacks, 2), Err(Failure::Unavailable(_))), "{name}");
        }
    }

    #[test]
    fn invalid_corpus_is_reported_before_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job("zstd", "compress", 1, dir.path());
        assert_eq!(check(&job.parameters), Ok(()));
        for (corpus, expected) in [("/no/such", "/no/such"), ("/tmp", "not a file"), ("/dev/null", "not a file")] {
            crate::kernels::set(&mut job, "corpus", corpus);
            assert!(check(&job.parameters).unwrap_err().contains(expected), "{corpus}");
        }
    }
}
