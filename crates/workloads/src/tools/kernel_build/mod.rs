//! Builds a Linux kernel, a widely known measure of compile time.
//!
//! Measures: seconds of `make -j THREADS vmlinux` for this machine's architecture, in an empty build directory (O=),
//! after an untimed `make tinyconfig` or `defconfig`. The number of jobs equals the placement's threads; together they
//! may use its CPUs. The load consists of short-lived compiler processes that read from the page cache: much
//! computation, many small files. Does NOT compare versions of kernels or of compilers. The build is removed after each
//! trial.
//! If there is no kernel source, `source=auto` builds a small generated program (`small`). Its metric has a different
//! name, so that its results cannot be mistaken for those of a kernel. The first trial may read the source from a disk;
//! later trials do not.
//! Every trial verifies that make succeeds, that object files exist and that vmlinux is an ELF file; for the small
//! program, that it prints the expected number.

mod small;
mod source;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, Parameters, WorkloadSpec};

use super::{cache, installed, process};
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::scratch::{Scratch, io_failure};
use source::KernelTree;

/// Programs required for the build, and their Debian packages.
const FOR_SMALL: [(&str, &str); 3] = [("make", "make"), ("gcc", "gcc"), ("ld", "binutils")];
const FOR_KERNEL: [(&str, &str); 6] =
    [("flex", "flex"), ("bison", "bison"), ("bc", "bc"), ("perl", "perl"), ("tar", "tar"), ("xz", "xz-utils")];
/// `defconfig` builds a tool that reads ELF files.
const LIBELF: (&str, &str) = ("/usr/include/gelf.h", "libelf-dev");
/// Minimum number of object files. The smallest kernel has several hundred.
const OBJECTS_MIN: u64 = 100;
/// Maximum directory depth, deeper than any source tree. Symbolic links are not followed.
const DEPTH_MAX: u32 = 64;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "kernel-build".into(),
        summary: "compilation of a Linux kernel: seconds of make -j with the placement's threads".into(),
        about: "Seconds of `make vmlinux` in an empty build directory, after configuration. The source is a directory, a \
                tar file or Debian's package linux-source; without any, a small generated program is built, which has a \
                separate metric. A build takes minutes, defconfig more: see --time-limit and docs/guides/programs.md."
            .into(),
        parameters: all_parameters(),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(120_000_000_000),
    }
}

fn all_parameters() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "source",
            about: "a directory or tar file; debian: /usr/src/linux-source-*; small: generated program; auto: debian, else small",
            kind: ParameterKind::Text,
            default: Some("auto"),
            smoke: Some("small"),
        },
        Parameter {
            name: "config",
            about: "target of the kernel's makefile that configures it",
            kind: choice(&["tinyconfig", "defconfig"]),
            default: Some("tinyconfig"),
            smoke: None,
        },
        Parameter {
            name: "files",
            about: "number of files of the small program",
            kind: ParameterKind::Integer { min: 1, max: 100_000 },
            default: Some("100"),
            smoke: Some("4"),
        },
        Parameter {
            name: "directory",
            about: "directory of unpacked sources and builds; empty for the system's temporary directory",
            kind: ParameterKind::Text,
            default: Some(""),
            smoke: None,
        },
    ])
}

fn all_metrics() -> Vec<MetricSpec> {
    metrics([
        Metric::median("build", "s", Better::Lower),
        Metric::median("build-small", "s", Better::Lower),
        Metric::median("objects", "files", Better::Higher),
    ])
}

/// The result of a build.
struct Built {
    elapsed: Duration,
    objects: u64,
}

pub(crate) fn missing(parameters: &Parameters) -> Option<String> {
    let needed =
        source::of(parameters.text("source")).and_then(|source| need_programs(&source, parameters.text("config")));
    needed.err()?.unavailable().map(str::to_string)
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let source = source::of(job.parameters.text("source"))?;
    need_programs(&source, job.parameters.text("config"))?;
    let dir: PathBuf = match job.parameters.text("directory") {
        "" => std::env::temp_dir(),
        dir => dir.into(),
    };
    let scratch = Scratch::new(&dir)?;
    let mut measured = KernelOutput::default();
    let (series, built) = match source {
        KernelTree::Kernel(path) => {
            let path = source::unpacked(&path, &cache::cache_dir(&dir)?, &scratch)?;
            ("build", kernel(job, &path, &scratch)?)
        }
        KernelTree::Small => ("build-small", small_program(job, &scratch)?),
    };
    measured.push(series, built.elapsed.as_secs_f64())?;
    measured.push("objects", built.objects as f64)?;
    Ok(measured)
}

/// Reports all missing programs at once, so that one command installs them.
fn need_programs(source: &KernelTree, config: &str) -> Result<(), Failure> {
    let mut needed = FOR_SMALL.to_vec();
    let mut missing = Vec::new();
    if *source != KernelTree::Small {
        needed.extend(FOR_KERNEL);
        missing.extend((config == "defconfig" && !Path::new(LIBELF.0).exists()).then_some(LIBELF));
    }
    missing.extend(needed.into_iter().filter(|(program, package)| installed::require(program, package).is_err()));
    if missing.is_empty() {
        return Ok(());
    }
    let list = |part: fn(&(&str, &str)) -> String| missing.iter().map(part).collect::<Vec<_>>();
    let (programs, packages) = (list(|(program, _)| (*program).into()), list(|(_, package)| (*package).into()));
    let (programs, packages) = (programs.join(", "), packages.join(" "));
    Err(Failure::Unavailable(format!("building needs {programs}; hint: apt-get install {packages}")))
}

/// Returns `make` without variables set by an outer make, a shell or a cross-compilation environment.
fn make() -> Command {
    let mut make = Command::new("make");
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "CC", "LLVM", "O"] {
        make.env_remove(name);
    }
    make.arg("-s").stdout(Stdio::null());
    make
}

fn kernel(job: &TrialContext, source: &Path, scratch: &Scratch) -> Result<Built, Failure> {
    let built = new_build_dir(scratch)?;
    let make = |words: &[&str]| {
        let mut make = make();
        make.arg("-C").arg(source).arg(format!("O={}", built.display())).args(words);
        make
    };
    let config = job.parameters.text("config");
    process::run(make(&[config]), &format!("make {config}"), scratch)?;
    let before = count_objects(&built, 0)?;
    let jobs = format!("-j{}", job.threads);
    let elapsed = process::run(make(&[&jobs, "vmlinux"]), "make vmlinux", scratch)?;
    // Programs compiled during configuration are not part of the build.
    let objects = count_objects(&built, 0)?.saturating_sub(before);
    check_kernel(&built.join("vmlinux"), objects)?;
    Ok(Built { elapsed, objects })
}

fn small_program(job: &TrialContext, scratch: &Scratch) -> Result<Built, Failure> {
    let source = scratch.path("source");
    std::fs::create_dir(&source).map_err(|error| io_failure("create", &source, &error))?;
    let files = job.parameters.size("files");
    let expected = small::write(&source, files)?;
    let built = new_build_dir(scratch)?;
    let mut make = make();
    make.arg("-C").arg(&built).arg("-f").arg(source.join("Makefile"));
    make.arg(format!("SOURCE={}", source.display())).arg(format!("-j{}", job.threads));
    let elapsed = process::run(make, "make", scratch)?;
    let objects = count_objects(&built, 0)?;
    check_small(&built.join("program"), expected, objects, files as u64 + 1)?;
    Ok(Built { elapsed, objects })
}

fn new_build_dir(scratch: &Scratch) -> Result<PathBuf, Failure> {
    let built = scratch.path("built");
    std::fs::create_dir(&built).map_err(|error| io_failure("create", &built, &error))?;
    Ok(built)
}

/// Counts the object files in a directory and its subdirectories.
fn count_objects(dir: &Path, depth: u32) -> Result<u64, Failure> {
    let wrong = |error: std::io::Error| io_failure("list", dir, &error);
    let mut count = 0;
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let kind = entry.file_type().map_err(wrong)?;
        if kind.is_dir() && depth < DEPTH_MAX {
            count += count_objects(&entry.path(), depth + 1)?;
        }
        count += u64::from(kind.is_file() && entry.path().extension().is_some_and(|end| end == "o"));
    }
    Ok(count)
}

/// Verifies that a kernel was built from many object files.
fn check_kernel(vmlinux: &Path, objects: u64) -> Result<(), Failure> {
    let content = std::fs::read(vmlinux).map_err(|error| Failure::Failed(format!("cannot read vmlinux: {error}")))?;
    if !content.starts_with(b"\x7fELF") {
        return Err(Failure::Failed("vmlinux is not an ELF file".into()));
    }
    if objects < OBJECTS_MIN {
        return Err(Failure::Failed(format!(
            "only {objects} object files were built; a kernel has at least {OBJECTS_MIN}"
        )));
    }
    Ok(())
}

/// Verifies that the program contains all its files and computes the expected value.
fn check_small(program: &Path, expected: u64, objects: u64, files: u64) -> Result<(), Failure> {
    let output =
        Command::new(program).stdin(Stdio::null()).output().map_err(|error| io_failure("run", program, &error))?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if printed == expected.to_string() && objects == files {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "the small program printed '{printed}' instead of {expected}; it has {objects} object files, expected {files}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;

    fn small_job(threads: usize, dir: &Path) -> TrialContext {
        let mut job = TrialContext { threads, ..job_for_tests("kernel-build") };
        crate::kernels::set(&mut job, "directory", dir.to_str().unwrap());
        job
    }

    #[test]
    fn small_program_is_built_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        for threads in [1, 2] {
            let measured = run(&small_job(threads, dir.path())).unwrap();
            let values: Vec<(&str, f64)> =
                measured.samples.iter().map(|sample| (sample.series.as_str(), sample.value)).collect();
            assert!(matches!(values[..], [("build-small", elapsed), ("objects", 5.0)] if elapsed > 0.0), "{values:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn incomplete_builds_return_errors() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path()).unwrap();
        let program = scratch.program("program", b"#!/bin/sh\necho 7\n").unwrap();
        assert_eq!(check_small(&program, 7, 3, 3), Ok(()));
        assert!(check_small(&program, 8, 3, 3).is_err());
        assert!(check_small(&program, 7, 2, 3).is_err());
        let elf = scratch.file("vmlinux", b"\x7fELF and more").unwrap();
        assert_eq!(check_kernel(&elf, 500), Ok(()));
        assert!(check_kernel(&elf, 3).unwrap_err().to_string().contains("only 3 object files"));
        assert!(check_kernel(&program, 500).unwrap_err().to_string().contains("not an ELF file"));
        assert!(check_kernel(&scratch.path("none"), 500).unwrap_err().to_string().contains("cannot read vmlinux"));
    }

    #[test]
    fn objects_are_counted_in_all_subdirectories() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for name in ["x.o", "a/y.o", "a/b/z.o", "a/b/z.c", "a/o"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(count_objects(dir.path(), 0), Ok(3));
    }
}
