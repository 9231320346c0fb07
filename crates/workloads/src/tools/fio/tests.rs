//! Tests of fio's arguments and report, and real runs at smoke size if fio is installed.

use std::os::unix::fs::MetadataExt;

use model::values::trial::Sample;

use super::*;
use crate::kernels::{job_for_tests, set};

/// Real outputs of fio 3.33 for the tested request kinds: `randread` with psync, `randrw` with `io_uring`.
const READ: &str = include_str!("read-3.33.json");
const MIXED: &str = include_str!("mixed-3.33.json");

fn job(pairs: &[(&str, &str)]) -> TrialContext {
    let mut job = job_for_tests("fio");
    pairs.iter().for_each(|(name, value)| set(&mut job, name, value));
    job
}

/// Returns whether fio is installed, and prints the reason if it is not.
fn there() -> bool {
    installed::require("fio", "fio").inspect_err(|why| println!("skipped: {why}")).is_ok()
}

/// Runs fio once. Returns `None`, after printing the reason, if this kernel or file system does not support the
/// request.
fn ran(job: &TrialContext) -> Option<Vec<Sample>> {
    match run(job) {
        Ok(measured) => Some(measured.samples),
        Err(Failure::Unavailable(why)) => {
            println!("skipped: fio: {why}");
            None
        }
        Err(why) => panic!("{:?}: {why}", job.parameters),
    }
}

fn of(samples: &[Sample], series: &str) -> Option<f64> {
    samples.iter().find(|sample| sample.series == series).map(|sample| sample.value)
}

fn close(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 0.02
}

#[test]
fn parameters_and_metrics_match_those_of_io() {
    let (fio, io) = (describe(), io::describe());
    assert_eq!(fio.parameters, io.parameters);
    let of_all = io.metrics.len() - io::FILE_SERIES.len();
    assert_eq!(fio.metrics, io.metrics[..of_all], "without the metrics of several files");
    assert_eq!((fio.name.as_str(), fio.metrics[0].name.as_str()), ("fio", "iops"));
    for name in ["amount", "ramp", "rate", "verify", "registered", "allow-overwrite"] {
        assert!(fio.parameter(name).is_some(), "{name}");
    }
}

#[test]
fn multiple_files_return_an_error() {
    let refusal = io::ExternalFile::open(&TrialContext { threads: 2, ..job(&[("file", "/x,/y")]) }).err().unwrap();
    assert!(refusal.to_string().contains("several files at once are supported by workload io only"), "{refusal}");
}

#[test]
fn every_engine_and_request_kind_runs() {
    let cells = [
        ("io_uring", "randread", "4", 1),
        ("io_uring", "randrw", "8", 2),
        ("libaio", "rw", "4", 2),
        ("libaio", "randwrite", "16", 1),
        ("psync", "read", "1", 2),
        ("preadv2", "write", "1", 1),
        ("mmap", "randread", "1", 1),
    ];
    if !there() {
        return;
    }
    for (engine, rw, depth, threads) in cells {
        let job = TrialContext { threads, ..job(&[("engine", engine), ("rw", rw), ("iodepth", depth)]) };
        let Some(samples) = ran(&job) else { continue };
        let number = |series: &str| of(&samples, series).unwrap_or_else(|| panic!("{engine} {rw}: no {series}"));
        assert!(samples.iter().all(|sample| sample.value.is_finite() && sample.value > 0.0), "{samples:?}");
        assert!(close(number("iops") * 4096.0 / f64::from(1 << 20), number("bandwidth")), "{samples:?}");
        let quantiles = ["latency", "latency-p99", "latency-p99.9", "latency-p99.99"].map(number);
        assert!(quantiles.is_sorted(), "{samples:?}");
        assert!(number("latency-mean") > 0.0);
        let queues = ["io_uring", "libaio"].contains(&engine);
        assert_eq!(of(&samples, "latency-submit").is_some(), queues, "{engine} {samples:?}");
        assert_eq!(of(&samples, "latency-completion").is_some(), queues, "{engine} {samples:?}");
        let mixed = ["rw", "randrw"].contains(&rw);
        assert_eq!(of(&samples, "read-iops").is_some() && of(&samples, "write-iops").is_some(), mixed, "{rw}");
        if mixed {
            assert!(close(number("read-iops") + number("write-iops"), number("iops")), "{samples:?}");
        }
    }
}

#[test]
fn options_affect_the_run() {
    if !there() {
        return;
    }
    for pairs in [
        &[("amount", "64MiB"), ("bs", "64KiB"), ("rw", "write"), ("fsync", "8"), ("data", "zero")][..],
        &[("distribution", "zipf:1.2"), ("ramp", "20ms"), ("iodepth", "2"), ("registered", "false")],
        &[("rate", "50"), ("runtime", "400ms"), ("engine", "psync")],
        &[("rw", "randwrite"), ("data", "compress:50"), ("engine", "libaio")],
    ] {
        let job = job(pairs);
        let Some(samples) = ran(&job) else { continue };
        assert!(of(&samples, "iops").is_some_and(|iops| iops > 0.0), "{pairs:?}");
        if job.parameters.integer("rate") > 0 {
            // The slowest disk completes more than twice as many.
            assert!(of(&samples, "iops").unwrap() < 100.0, "{samples:?}");
        }
    }
}

/// Verified reads and writes. The reads require data that fio has written.
#[test]
fn verification_accepts_valid_and_rejects_wrong_data() {
    if !there() {
        return;
    }
    for (rw, threads) in [("randread", 1), ("read", 2), ("write", 1), ("randwrite", 2)] {
        let job = TrialContext { threads, ..job(&[("verify", "true"), ("rw", rw), ("engine", "psync")]) };
        let Some(samples) = ran(&job) else { return };
        // Verification reads use CPU time that does not belong to the requests.
        assert_eq!(of(&samples, "cpu-per-io").is_some(), rw.ends_with("read"), "{rw}: {samples:?}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; 1 << 20]).unwrap();
    let name = file.path().to_str().unwrap();
    let foreign = run(&job(&[("verify", "true"), ("engine", "psync"), ("file", name)])).unwrap_err();
    assert!(matches!(&foreign, Failure::Failed(why) if why.contains("verify")), "{foreign}");
}

#[test]
fn existing_file_is_read_and_remains_unchanged() {
    if !there() {
        return;
    }
    let file = tempfile::NamedTempFile::with_prefix("with:colon").unwrap();
    let content: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
    std::fs::write(file.path(), &content).unwrap();
    let name = file.path().to_str().unwrap();
    let before = std::fs::metadata(name).unwrap();
    // The file is shorter than requested, and fio would extend it.
    assert!(ran(&job(&[("file", name), ("size", "1MiB"), ("engine", "psync")])).is_some());
    let after = std::fs::metadata(name).unwrap();
    assert_eq!(std::fs::read(name).unwrap(), content);
    assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()));
}

#[test]
fn existing_data_is_overwritten_only_if_named() {
    if !there() {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; 1 << 20]).unwrap();
    let name = file.path().to_str().unwrap();
    let write = [("file", name), ("rw", "write"), ("engine", "psync")];
    for allowed in ["", "/tmp", &name[1..]] {
        let refused = run(&job(&[&write[..], &[("allow-overwrite", allowed)]].concat())).unwrap_err().to_string();
        assert!(refused.contains(&format!("hint: --allow-overwrite {name}")), "{refused}");
    }
    assert_eq!(std::fs::read(name).unwrap(), vec![7; 1 << 20]);
    assert!(ran(&job(&[&write[..], &[("allow-overwrite", name)]].concat())).is_some());
    let after = std::fs::read(name).unwrap();
    assert!(after.len() == 1 << 20 && after != vec![7; 1 << 20]);
}

#[test]
fn arguments_contain_all_parameters() {
    let asked = [
        ("rw", "randrw"),
        ("mix", "60"),
        ("distribution", "zipf:0.9"),
        ("bs", "8KiB"),
        ("iodepth", "16"),
        ("direct", "true"),
        ("runtime", "1500ms"),
        ("ramp", "200ms"),
        ("rate", "700"),
        ("data", "compress:30"),
        ("fsync", "9"),
        ("sqpoll", "true"),
        ("iopoll", "true"),
    ];
    let args = words(&TrialContext { threads: 3, ..job(&asked) }, "/a:b", 8 << 20, FioRun::Measure, Path::new("/o"));
    for word in [
        "--filename=/a\\:b",
        "--output=/o",
        "--numjobs=3",
        "--thread=1",
        "--rw=randrw",
        "--rwmixread=60",
        "--size=8388608",
        "--unified_rw_reporting=both",
        "--random_distribution=zipf:0.9",
        "--bs=8192",
        "--iodepth=16",
        "--direct=1",
        "--time_based=1",
        "--runtime=1500000us",
        "--ramp_time=200000us",
        "--rate_iops=700",
        "--refill_buffers=1",
        "--buffer_compress_percentage=30",
        "--fsync=9",
        "--ioengine=io_uring",
        "--fixedbufs=1",
        "--registerfiles=1",
        "--sqthread_poll=1",
        "--hipri=1",
        "--norandommap=1",
    ] {
        assert!(args.iter().any(|known| known == word), "{word} of {args:?}");
    }
    assert!(!args.iter().any(|word| word == "--readonly"));
    let reads = words(
        &TrialContext { threads: 4, ..job(&[("rw", "read"), ("amount", "1MiB")]) },
        "/a",
        1 << 20,
        FioRun::Measure,
        Path::new("/o"),
    );
    for word in
        ["--readonly", "--io_size=1048576", "--size=262144", "--offset_increment=262144", "--allow_file_create=0"]
    {
        assert!(reads.iter().any(|known| known == word), "{word} of {reads:?}");
    }
    assert!(!reads.iter().any(|word| word.starts_with("--runtime") || word.starts_with("--verify=")));
}

#[test]
fn report_is_parsed_and_unrequested_results_are_rejected() {
    let report = |job: &TrialContext, text: &str| -> Result<Vec<Sample>, String> {
        let mut measured = KernelOutput::default();
        let output = report::parse(text).map_err(|error| error.what)?;
        super::report(job, &output, &mut measured).map_err(|failure| failure.to_string())?;
        Ok(measured.samples)
    };
    let psync = job(&[("engine", "psync")]);
    let read = report(&psync, READ).unwrap();
    let mixed = report(&job(&[("rw", "randrw")]), MIXED).unwrap();
    assert_eq!(
        read.iter().map(|sample| sample.series.as_str()).collect::<Vec<_>>(),
        [
            "iops",
            "throughput",
            "bandwidth",
            "latency-mean",
            "latency",
            "latency-p99",
            "latency-p99.9",
            "latency-p99.99",
            "cpu-per-io"
        ]
    );
    assert_eq!(mixed.len(), describe().metrics.len());
    assert!(report(&job(&[("rw", "randwrite")]), READ).unwrap_err().contains("no requests of kind write"));
    assert!(report(&psync, MIXED).unwrap_err().contains("writes although only reads were requested"));
    assert!(report(&job(&[("bs", "8KiB")]), READ).unwrap_err().contains("of 4096 bytes instead of 8192"));
    assert!(report(&psync, &READ.replace("50.000000", "51.000000")).unwrap_err().contains("no percentile 50"));
    assert!(report(&psync, &READ.replace("fio-3.33", "fio-4.1")).unwrap_err().contains("version 'fio-4.1'"));
    assert!(report(&psync, "{").unwrap_err().contains("not the JSON"));
    let short = READ.replace(&format!("\"runtime\" : {}", milliseconds(READ)), "\"runtime\" : 19");
    assert!(report(&psync, &short).unwrap_err().contains("run time of 19 ms, too short"));
}

/// Duration of the reads.
fn milliseconds(text: &str) -> f64 {
    report::parse(text).unwrap().jobs[0].direction("read").unwrap().milliseconds
}

#[test]
fn unsupported_versions_return_errors() {
    for fine in ["fio-3.33\n", "fio-3.27", "fio-3.41-2-g1234"] {
        assert_eq!(check_version(fine), Ok(()), "{fine}");
    }
    for other in ["fio-3.26", "fio-2.99", "fio-4.0", "", "flexible"] {
        let why = check_version(other).unwrap_err();
        assert!(
            matches!(&why, Failure::Unavailable(why) if why.contains(&format!("'{other}'")) && why.contains("3.27"))
        );
    }
}

#[test]
fn unsupported_requests_are_unavailable() {
    let failure = |message: &str| unavailable(Failure::Failed(format!("fio failed with exit status: 1: {message}")));
    assert!(matches!(failure("your file system does not support direct=1/buffered=0"), Failure::Unavailable(_)));
    assert!(matches!(failure("engine xyz not loadable"), Failure::Unavailable(_)));
    assert!(matches!(failure("something else"), Failure::Failed(_)));
}
