//! Describes workload `io`: its parameters and metrics.

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, WorkloadSpec};

use super::SECTOR;
use super::tally::FILE_SERIES;
use crate::describe::{Metric, Parameter, choice, metrics, parameters};

const HOUR: Nanos = Nanos(3_600_000_000_000);

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "io".into(),
        summary: "reads and writes of a file or a disk: requests per second, bandwidth, latency".into(),
        about:
            "Each thread keeps a number of requests of one size in flight, for a time or a number of bytes, on a file, \
             a disk, or a new temporary file if none is given. Latency is measured from when a request is due until it \
             completes, up to the 99.99th percentile. Never writes to existing data unless --allow-overwrite names it, \
             and never to a device that is mounted or otherwise in use. Source: fio's read, write and mixed jobs."
                .into(),
        parameters: [
            target_parameters(),
            request_parameters(),
            limit_parameters(),
            data_parameters(),
            io_uring_parameters(),
        ]
        .concat(),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(5_000_000_000),
    }
}

fn target_parameters() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "file",
            about: "file or disk to read or write, such as /dev/sda; one that does not exist is created and removed; \
                    empty for a temporary file in TMPDIR; comma-separated files have separate threads",
            kind: ParameterKind::Text,
            default: Some(""),
            smoke: None,
        },
        Parameter {
            name: "size",
            about: "number of bytes to use, from the beginning",
            kind: ParameterKind::Size { min: Bytes(1 << 12), max: Bytes(1 << 50) },
            default: Some("1GiB"),
            smoke: Some("1MiB"),
        },
        Parameter {
            name: "engine",
            about: "asynchronous (io_uring, libaio) or synchronous (psync, preadv2, mmap)",
            kind: choice(&["io_uring", "psync", "preadv2", "libaio", "mmap"]),
            default: Some("io_uring"),
            smoke: None,
        },
    ])
}

fn request_parameters() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "rw",
            about: "reads, writes or both (rw), sequential or random (rand)",
            kind: choice(&["randread", "read", "randwrite", "write", "randrw", "rw"]),
            default: Some("randread"),
            smoke: None,
        },
        Parameter {
            name: "mix",
            about: "share of reads in randrw and rw, in percent",
            kind: ParameterKind::Integer { min: 0, max: 100 },
            default: Some("70"),
            smoke: None,
        },
        Parameter {
            name: "distribution",
            about: "distribution of random requests: random (uniform), or zipf:THETA (few blocks often)",
            kind: ParameterKind::Text,
            default: Some("random"),
            smoke: None,
        },
        Parameter {
            name: "bs",
            about: "size of a request",
            kind: ParameterKind::Size { min: Bytes(SECTOR as u64), max: Bytes(1 << 30) },
            default: Some("4KiB"),
            smoke: None,
        },
        Parameter {
            name: "iodepth",
            about: "requests in flight per thread; psync, preadv2 and mmap support one",
            kind: ParameterKind::Integer { min: 1, max: 1 << 16 },
            default: Some("1"),
            smoke: None,
        },
        Parameter {
            name: "direct",
            about: "bypass the page cache",
            kind: ParameterKind::Switch,
            default: Some("true"),
            // Temporary files are often in memory (tmpfs), which does not support direct I/O.
            smoke: Some("false"),
        },
    ])
}

fn limit_parameters() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "runtime",
            about: "duration of the measurement",
            kind: ParameterKind::Time { min: Nanos(1_000_000), max: HOUR },
            default: Some("5s"),
            smoke: Some("50ms"),
        },
        Parameter {
            name: "amount",
            about: "instead of runtime: bytes that each thread reads and writes; 0 uses runtime",
            kind: ParameterKind::Size { min: Bytes(0), max: Bytes(1 << 50) },
            default: Some("0B"),
            smoke: None,
        },
        Parameter {
            name: "ramp",
            about: "duration of the ramp, which is not counted",
            kind: ParameterKind::Time { min: Nanos(0), max: HOUR },
            default: Some("0ns"),
            smoke: None,
        },
        Parameter {
            name: "rate",
            about: "requests per second of each thread, with latency from the intended start; 0 is as fast as possible",
            kind: ParameterKind::Integer { min: 0, max: 10_000_000 },
            default: Some("0"),
            smoke: None,
        },
    ])
}

fn data_parameters() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "data",
            about: "content to write: random, zero, or compress:PERCENT, which compresses by this percentage",
            kind: ParameterKind::Text,
            default: Some("random"),
            smoke: None,
        },
        Parameter {
            name: "verify",
            about: "store offset, seed and checksum in each block; read back and verify all written blocks",
            kind: ParameterKind::Switch,
            default: Some("false"),
            smoke: None,
        },
        Parameter {
            name: "fsync",
            about: "writes of a thread between two fsyncs; 0 is never",
            kind: ParameterKind::Integer { min: 0, max: 1 << 40 },
            default: Some("0"),
            smoke: None,
        },
        Parameter {
            name: "allow-overwrite",
            about: "exact path of an existing file or disk that may be overwritten; --allow-overwrite sets it",
            kind: ParameterKind::Text,
            default: Some(""),
            smoke: None,
        },
    ])
}

fn io_uring_parameters() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "registered",
            about: "register buffers and file with io_uring",
            kind: ParameterKind::Switch,
            default: Some("true"),
            smoke: None,
        },
        Parameter {
            name: "sqpoll",
            about: "use a kernel thread to poll for io_uring's requests",
            kind: ParameterKind::Switch,
            default: Some("false"),
            smoke: None,
        },
        Parameter {
            name: "iopoll",
            about: "poll the device instead of using interrupts (io_uring, preadv2)",
            kind: ParameterKind::Switch,
            default: Some("false"),
            smoke: None,
        },
    ])
}

fn all_metrics() -> Vec<MetricSpec> {
    let of_files = metrics(FILE_SERIES.map(|series| Metric::median(series, "IO/s", Better::Higher)));
    [overall_metrics(), of_files].concat()
}

fn overall_metrics() -> Vec<MetricSpec> {
    metrics([
        Metric::median("iops", "IO/s", Better::Higher),
        Metric::median("throughput", "MB/s", Better::Higher),
        Metric::median("latency", "us", Better::Lower),
        Metric::median("bandwidth", "MiB/s", Better::Higher),
        Metric::median("latency-mean", "us", Better::Lower),
        Metric::median("latency-p99", "us", Better::Lower),
        Metric::median("latency-p99.9", "us", Better::Lower),
        Metric::median("latency-p99.99", "us", Better::Lower),
        Metric::median("latency-submit", "us", Better::Lower),
        Metric::median("latency-completion", "us", Better::Lower),
        Metric::median("read-iops", "IO/s", Better::Higher),
        Metric::median("write-iops", "IO/s", Better::Higher),
        Metric::median("cpu-per-io", "us", Better::Lower),
    ])
}
