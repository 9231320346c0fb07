//! fio's job files: what jobs come to, and that whatever is not kept is refused with its line or said in a note. That fio
//! itself takes the same files is tested where fio is (crates/nearfar/tests/fio.rs).

use std::fmt::Write;

use model::experiments::experiment::{JobFileOptions, Jobs, read_jobs};
use model::values::units::{Bytes, Nanos};
use model::values::workload::{ParameterKind, ParameterSpec, WorkloadSpec};
use proptest::prelude::*;

const STORAGE: &str = include_str!("jobs/storage.fio");
const TOGETHER: &str = include_str!("jobs/together.fio");

/// The parameters of workload `io` that jobs use.
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
    let wishes = JobFileOptions { name: "jobs", placements: &[] };
    read_jobs(text, "a.fio", wishes, &[io()]).map_err(|error| error.to_string())
}

/// One line for each job, then the notes.
fn listing(jobs: &Jobs) -> String {
    let mut text = String::new();
    for task in &jobs.experiment.tasks {
        let set: Vec<String> = task.set.iter().map(|(name, values)| format!("{name}={}", values.join(","))).collect();
        let threads: Vec<String> = task.threads.iter().map(ToString::to_string).collect();
        writeln!(text, "{} x {}: {}", task.title(), threads.join(","), set.join(" ")).expect("text takes text");
    }
    jobs.notes.iter().for_each(|note| writeln!(text, "note: {note}").expect("text takes text"));
    text
}

#[test]
fn jobs_come_to_cells() {
    insta::assert_snapshot!("jobs-storage", listing(&read(STORAGE).unwrap()));
    insta::assert_snapshot!("jobs-together", listing(&read(TOGETHER).unwrap()));
}

#[test]
fn what_a_job_does_not_say_is_as_fio_has_it() {
    let jobs = read("[a]\nsize=1m\n").unwrap();
    let expected =
        "a x 1: engine=psync size=1MiB file=a.0.0 rw=read bs=4KiB iodepth=1 direct=false data=random amount=1MiB\n";
    assert_eq!(listing(&jobs), expected);
    assert_eq!(jobs.experiment.name, "jobs");
    assert_eq!((jobs.experiment.repeat.warmup, jobs.experiment.repeat.min), (0, 6));
}

#[test]
fn a_job_may_take_as_long_as_it_says() {
    let limit = |text: &str| read(text).unwrap().experiment.repeat.time_limit.seconds();
    assert!(limit("[a]\nsize=1m\n") >= 300.0);
    let long = limit("[a]\nsize=1m\ntime_based\nruntime=1h\nramp_time=1m\n[b]\nsize=1m\n");
    assert!((long - 7320.0).abs() < 1.0, "{long}");
}

#[test]
fn jobs_that_fio_would_run_together_are_said() {
    let notes = |text: &str| read(text).unwrap().notes;
    let three = "[global]\nsize=1m\n[a]\n[b]\n[c]\nstonewall\n[d]\nstonewall=0\n";
    let found = notes(three);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("fio would run a, b at the same time"), "{found:?}");
    assert!(found[1].starts_with("fio would run c, d at the same time"), "{found:?}");
    assert!(notes("[global]\nsize=1m\nstonewall\n[a]\n[b]\n").is_empty());
}

#[test]
fn jobs_run_where_the_command_line_says() {
    let placements = ["one-core".to_string(), "-C 0-1".to_string()];
    let wishes = JobFileOptions { name: "jobs", placements: &placements };
    let jobs = read_jobs("[a]\nsize=1m\n", "a.fio", wishes, &[io()]).unwrap();
    assert_eq!(jobs.experiment.tasks[0].placements, placements);
    let wrong = ["nowhere".to_string()];
    let error =
        read_jobs("[a]\nsize=1m\n", "a.fio", JobFileOptions { name: "x", placements: &wrong }, &[io()]).unwrap_err();
    assert!(error.to_string().contains("'nowhere'"), "{error}");
}

/// Line, what is wrong, and the hint.
#[test]
fn what_is_not_kept_is_refused_with_its_line() {
    let cases = [
        ("[a]\nsize=1m\niodepht=4\n", "a.fio:3:1: no option 'iodepht' is known\nhint: nearest are iodepth, "),
        ("[a]\nsize=1m\n  just words\n", "a.fio:3:3: no option 'just words'"),
        ("[global]\nwrite_bw_log=x\n[a]\nsize=1m\n", "a.fio:2:1: no option 'write_bw_log'"),
        (
            "[a]\ncpus_allowed=0-1\n",
            "a.fio:2:1: 'cpus_allowed' is not for a job file here\nhint: where a job runs is a placement: nearfar run --fio",
        ),
        ("[a]\nnuma_mem_policy=bind:0\n", "hint: where a job and its memory are is a placement"),
        ("[a]\nrate=1m\n", "hint: a pace is said in requests: rate_iops=1000"),
        ("[a]\ninclude other.fio\n", "hint: put the lines of that file in here"),
        (
            "[a]\nsize=1m\nioengine=sync\n",
            "a.fio:3:1: job a: ioengine: there is no engine 'sync' here\nhint: ioengine=psync is nearest",
        ),
        ("[a]\nsize=1m\nioengine=libaoi\n", "hint: there are libaio"),
        ("[a]\nsize=1m\nrw=trim\n", "a.fio:3:1: job a: rw: 'trim' is no way"),
        ("[a]\nsize=1m\nrw=randread:8\n", "'randread:8' is no way"),
        ("[a]\nsize=50%\n", "a.fio:2:1: job a: size: '50%' is a share"),
        ("[a]\nsize=1m\nbs=4k,8k\n", "a.fio:3:1: job a: bs: '4k,8k' has several sizes"),
        ("[a]\nsize=1m\nbs=100\n", "a.fio:3:1: job a: bs of workload io: 100B is out of range"),
        ("[a]\nsize=1m\nbs\n", "a.fio:3:1: job a: bs: '' is not a size"),
        ("[a]\nrw=read\n", "a.fio:1:1: job a: it has no size"),
        ("[a]\nfilename=/dev/x\n", "a.fio:1:1: job a: it has no end"),
        ("[a]\nfilename=/dev/x:/dev/y\nsize=1m\n", "'/dev/x:/dev/y' is several files"),
        ("[a]\nfilename=${DISK}\nsize=1m\n", "'${DISK}' would be filled in from the environment"),
        ("[a]\nsize=1m\ntime_based\n", "a.fio:3:1: job a: time_based: it says no runtime"),
        ("[a]\nsize=1m\nruntime=soon\n", "a.fio:3:1: job a: runtime: 'soon' is not a time"),
        ("[a]\nsize=1m\nruntime=2h\n", "runtime of workload io: 7200s is out of range"),
        ("[a]\nsize=1m\ndirect=yes\n", "a.fio:3:1: job a: direct: 'yes' is neither 0 nor 1"),
        ("[a]\nsize=1m\nstonewall=x\n", "stonewall: 'x' is neither"),
        ("[a]\nsize=1m\nnumjobs=0\n", "numjobs: 0 is no number of threads"),
        ("[a]\nsize=1m\nnumjobs=many\n", "numjobs: 'many' is not a whole number"),
        ("[a]\nsize=1m\nrw=rw\nrwmixread=101\n", "a.fio:4:1: job a: mix of workload io: 101 is out of range"),
        ("[a]\nsize=1m\nrw=rw\nrwmixwrite=101\n", "rwmixwrite: 101 is more than all"),
        ("[a]\nsize=1m\nrandom_distribution=pareto:1\n", "there is no distribution 'pareto:1'"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:0\n", "there is no distribution 'zipf:0'"),
        ("[a]\nsize=1m\nverify=pattern\n", "there is no check 'pattern'"),
        ("[a]\nsize=1m\nfixedbufs\n", "a.fio:3:1: job a: fixedbufs: fixedbufs is no option of this engine"),
        ("[a]\nsize=1m\nioengine=io_uring\nfixedbufs\n", "a.fio:4:1: job a: fixedbufs: fixedbufs alone"),
        ("[a]\nsize=1m\nioengine=libaio\nhipri\n", "hipri is no option of this engine"),
        ("[a]\nsize=1m\nkb_base=512\n", "a.fio:3:1: job a: kb_base: it is 1024 or 1000"),
        ("[a]\nsize=1p\nloops=9999999\n", "loops: 9999999 are more"),
    ];
    for (text, expected) in cases {
        let error = read(text).map(|jobs| listing(&jobs)).unwrap_err();
        assert!(error.contains(expected), "{text}gave {error}\nexpected {expected}");
    }
}

/// 4 KiB with an `i` is 4000 bytes to fio, which nobody wants.
#[test]
fn sizes_that_are_not_what_they_seem_are_said() {
    let jobs = read("[a]\nsize=1MiB\nbs=4000\n").unwrap();
    assert_eq!(jobs.notes, ["job a: size=1MiB is 1000000 bytes to fio; write it without 'iB'"]);
    assert!(read("[a]\nkb_base=1000\nsize=1MiB\n").unwrap().notes.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A file that lost, gained or changed a few characters is read or refused with a place inside it.
    #[test]
    fn damaged_job_files_are_read_or_refused(
        at in 0..TOGETHER.len(), length in 0usize..20, put in "[\\[\\]=#;.:,%a-z0-9\n-]{0,6}"
    ) {
        let end = (at + length).min(TOGETHER.len());
        let text = format!("{}{put}{}", &TOGETHER[..at], &TOGETHER[end..]);
        match read_jobs(&text, "a.fio", JobFileOptions { name: "x", placements: &[] }, &[io()]) {
            Ok(jobs) => prop_assert!(!jobs.experiment.tasks.is_empty()),
            Err(error) => {
                prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1, "{error}");
                prop_assert!(!error.what.is_empty());
            }
        }
    }
}
