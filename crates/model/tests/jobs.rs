//! Parses job files of fio: the resulting cells, and errors with line numbers or notes for unsupported options.
//! `crates/nearfar/tests/fio.rs` tests that fio accepts the same files.

use std::fmt::Write;

use model::experiments::experiment::{JobFileOptions, Jobs, read_jobs};
use model::hint::Hinted;
use model::values::units::{Bytes, Nanos};
use model::values::workload::{ParameterKind, ParameterSpec, WorkloadSpec};
use proptest::prelude::*;

const STORAGE: &str = include_str!("jobs/storage.fio");
const TOGETHER: &str = include_str!("jobs/together.fio");

/// Workload `io` with the parameters that jobs use.
fn io() -> WorkloadSpec {
    let choice = |words: &[&str]| ParameterKind::Choice(words.iter().map(|word| (*word).to_string()).collect());
    let integer = || ParameterKind::Integer { min: 0, max: 65_536 };
    let size = |min| ParameterKind::Size { min: Bytes(min), max: Bytes(1 << 50) };
    let time = || ParameterKind::Time { min: Nanos(0), max: Nanos(3_600_000_000_000) };
    let parameter = |(name, kind): (&str, ParameterKind)| ParameterSpec {
        name: name.into(),
        about: String::new(),
        kind,
        default: Some("0".into()),
        smoke: None,
    };
    let parameters = [
        ("file", ParameterKind::Text),
        ("size", size(4096)),
        ("engine", choice(&["io_uring", "psync", "preadv2", "libaio", "mmap"])),
        ("rw", choice(&["randread", "read", "randwrite", "write", "randrw", "rw"])),
        ("mix", ParameterKind::Integer { min: 0, max: 100 }),
        ("distribution", ParameterKind::Text),
        ("bs", size(512)),
        ("iodepth", integer()),
        ("direct", ParameterKind::Switch),
        ("runtime", time()),
        ("amount", size(0)),
        ("ramp", time()),
        ("rate", integer()),
        ("data", ParameterKind::Text),
        ("verify", ParameterKind::Switch),
        ("fsync", integer()),
        ("registered", ParameterKind::Switch),
        ("sqpoll", ParameterKind::Switch),
        ("iopoll", ParameterKind::Switch),
    ];
    WorkloadSpec {
        name: "io".into(),
        summary: String::new(),
        about: String::new(),
        parameters: parameters.into_iter().map(parameter).collect(),
        metrics: Vec::new(),
        threads_exactly: None,
        trial_time_guess: Nanos(0),
    }
}

fn read(text: &str) -> Result<Jobs, String> {
    let options = JobFileOptions { name: "jobs", placements: &[] };
    read_jobs(text, "a.fio", options, &[io()]).map_err(|error| error.text_with_hint())
}

/// One line for each job, then the notes.
fn listing(jobs: &Jobs) -> String {
    let mut text = String::new();
    for task in &jobs.experiment.tasks {
        let set: Vec<String> = task.set.iter().map(|(name, values)| format!("{name}={}", values.join(","))).collect();
        let threads: Vec<String> = task.threads.iter().map(ToString::to_string).collect();
        writeln!(text, "{} x {}: {}", task.title(), threads.join(","), set.join(" ")).expect("infallible");
    }
    jobs.notes.iter().for_each(|note| writeln!(text, "note: {note}").expect("infallible"));
    text
}

#[test]
fn jobs_become_cells() {
    insta::assert_snapshot!("jobs-storage", listing(&read(STORAGE).unwrap()));
    insta::assert_snapshot!("jobs-together", listing(&read(TOGETHER).unwrap()));
}

#[test]
fn missing_job_options_have_fio_defaults() {
    let jobs = read("[a]\nsize=1m\n").unwrap();
    let expected =
        "a x 1: engine=psync size=1MiB file=a.0.0 rw=read bs=4KiB iodepth=1 direct=false data=random amount=1MiB\n";
    assert_eq!(listing(&jobs), expected);
    assert_eq!(jobs.experiment.name, "jobs");
    assert_eq!((jobs.experiment.repeat.warmup, jobs.experiment.repeat.min), (0, 8));
}

#[test]
fn time_limit_covers_the_run_time_of_jobs() {
    let limit = |text: &str| read(text).unwrap().experiment.repeat.time_limit.seconds();
    assert!(limit("[a]\nsize=1m\n") >= 300.0);
    let long = limit("[a]\nsize=1m\ntime_based\nruntime=1h\nramp_time=1m\n[b]\nsize=1m\n");
    assert!((long - 7320.0).abs() < 1.0, "{long}");
}

#[test]
fn jobs_that_fio_runs_concurrently_are_noted() {
    let notes = |text: &str| read(text).unwrap().notes;
    let text = "[global]\nsize=1m\n[a]\n[b]\n[c]\nstonewall\n[d]\nstonewall=0\n";
    let found = notes(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("fio would run a, b concurrently"), "{found:?}");
    assert!(found[1].starts_with("fio would run c, d concurrently"), "{found:?}");
    assert!(notes("[global]\nsize=1m\nstonewall\n[a]\n[b]\n").is_empty());
}

#[test]
fn jobs_use_placements_of_the_command_line() {
    let placements = ["one-core".to_string(), "-C 0-1".to_string()];
    let options = JobFileOptions { name: "jobs", placements: &placements };
    let jobs = read_jobs("[a]\nsize=1m\n", "a.fio", options, &[io()]).unwrap();
    assert_eq!(jobs.experiment.tasks[0].placements, placements);
    let wrong = ["nowhere".to_string()];
    let error =
        read_jobs("[a]\nsize=1m\n", "a.fio", JobFileOptions { name: "x", placements: &wrong }, &[io()]).unwrap_err();
    assert!(error.to_string().contains("'nowhere'"), "{error}");
}

/// Line, cause and hint.
#[test]
fn unsupported_job_options_return_errors_with_lines() {
    let cases = [
        ("[a]\nsize=1m\niodepht=4\n", "a.fio:3:1: unknown option 'iodepht'\nhint: similar options: iodepth, "),
        ("[a]\nsize=1m\n  just words\n", "a.fio:3:3: unknown option 'just words'"),
        ("[global]\nwrite_bw_log=x\n[a]\nsize=1m\n", "a.fio:2:1: unknown option 'write_bw_log'"),
        (
            "[a]\ncpus_allowed=0-1\n",
            "a.fio:2:1: unsupported option 'cpus_allowed'\nhint: CPUs are selected by a placement: nearfar run --fio",
        ),
        ("[a]\nnuma_mem_policy=bind:0\n", "hint: CPUs and memory nodes are selected by a placement"),
        ("[a]\nrate=1m\n", "hint: only request rates are supported: rate_iops=1000"),
        ("[a]\ninclude other.fio\n", "hint: copy the lines of that file into this one"),
        (
            "[a]\nsize=1m\nioengine=sync\n",
            "a.fio:3:1: job a: ioengine: unsupported engine 'sync'\nhint: ioengine=psync is the closest",
        ),
        ("[a]\nsize=1m\nioengine=libaoi\n", "hint: the engines are libaio"),
        ("[a]\nsize=1m\nrw=trim\n", "a.fio:3:1: job a: rw: unsupported access pattern 'trim'"),
        ("[a]\nsize=1m\nrw=randread:8\n", "unsupported access pattern 'randread:8'"),
        ("[a]\nsize=50%\n", "a.fio:2:1: job a: size: '50%' is a percentage"),
        ("[a]\nsize=1m\nbs=4k,8k\n", "a.fio:3:1: job a: bs: '4k,8k' has a size per direction"),
        ("[a]\nsize=1m\nbs=100\n", "a.fio:3:1: job a: parameter bs of workload io: 100B is out of range"),
        ("[a]\nsize=1m\nbs\n", "a.fio:3:1: job a: bs: '' is not a size"),
        ("[a]\nrw=read\n", "a.fio:1:1: job a: the job has no size"),
        ("[a]\nfilename=/dev/x\n", "a.fio:1:1: job a: the job has no end"),
        ("[a]\nfilename=/dev/x:/dev/y\nsize=1m\n", "'/dev/x:/dev/y' names several files"),
        ("[a]\nfilename=${DISK}\nsize=1m\n", "'${DISK}': environment variables are not supported"),
        ("[a]\nsize=1m\ntime_based\n", "a.fio:3:1: job a: time_based: the job has no runtime"),
        ("[a]\nsize=1m\nruntime=soon\n", "a.fio:3:1: job a: runtime: 'soon' is not a duration"),
        ("[a]\nsize=1m\nruntime=2h\n", "runtime of workload io: 7200s is out of range"),
        ("[a]\nsize=1m\ndirect=yes\n", "a.fio:3:1: job a: direct: 'yes' is neither 0 nor 1"),
        ("[a]\nsize=1m\nstonewall=x\n", "stonewall: 'x' is neither"),
        ("[a]\nsize=1m\nnumjobs=0\n", "numjobs: 0 is not a valid thread count"),
        ("[a]\nsize=1m\nnumjobs=many\n", "numjobs: 'many' is not a whole number"),
        ("[a]\nsize=1m\nrw=rw\nrwmixread=101\n", "a.fio:4:1: job a: parameter mix of workload io: 101 is out of range"),
        ("[a]\nsize=1m\nrw=rw\nrwmixwrite=101\n", "rwmixwrite: 101 is more than 100 percent"),
        ("[a]\nsize=1m\nrandom_distribution=pareto:1\n", "unsupported distribution 'pareto:1'"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:0\n", "unsupported distribution 'zipf:0'"),
        ("[a]\nsize=1m\nverify=pattern\n", "unsupported check 'pattern'"),
        ("[a]\nsize=1m\nfixedbufs\n", "a.fio:3:1: job a: fixedbufs: fixedbufs is not an option of this engine"),
        (
            "[a]\nsize=1m\nioengine=io_uring\nfixedbufs\n",
            "a.fio:4:1: job a: fixedbufs: fixedbufs: buffers and files can only be registered together",
        ),
        ("[a]\nsize=1m\nioengine=libaio\nhipri\n", "hipri is not an option of this engine"),
        ("[a]\nsize=1m\nkb_base=512\n", "a.fio:3:1: job a: kb_base: must be 1024 or 1000"),
        ("[a]\nsize=1p\nloops=9999999\n", "loops: 9999999 loops are out of range"),
    ];
    for (text, expected) in cases {
        let error = read(text).map(|jobs| listing(&jobs)).unwrap_err();
        assert!(error.contains(expected), "{text}got {error}\nexpected {expected}");
    }
}

/// By default, fio reads 4KiB as 4000 bytes, and 4k as 4096.
#[test]
fn decimal_kib_sizes_are_noted() {
    let jobs = read("[a]\nsize=1MiB\nbs=4000\n").unwrap();
    assert_eq!(jobs.notes, ["job a: fio reads size=1MiB as 1000000 bytes; write it without 'iB'"]);
    assert!(read("[a]\nkb_base=1000\nsize=1MiB\n").unwrap().notes.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A file with a few changed characters is parsed, or the error has a position inside the file.
    #[test]
    fn damaged_job_files_are_parsed_or_rejected(
        at in 0..TOGETHER.len(), length in 0usize..20, inserted in "[\\[\\]=#;.:,%a-z0-9\n-]{0,6}"
    ) {
        let end = (at + length).min(TOGETHER.len());
        let text = format!("{}{inserted}{}", &TOGETHER[..at], &TOGETHER[end..]);
        match read_jobs(&text, "a.fio", JobFileOptions { name: "x", placements: &[] }, &[io()]) {
            Ok(jobs) => prop_assert!(!jobs.experiment.tasks.is_empty()),
            Err(error) => {
                prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1, "{error}");
                prop_assert!(!error.what.is_empty());
            }
        }
    }
}
