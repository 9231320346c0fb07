//! What `io` looks like from outside: its parameters and metrics.

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, MetricSpec, ParameterKind, ParameterSpec, WorkloadSpec};

use super::SECTOR;
use super::tally::FILE_SERIES;
use crate::describe::{Metric, Parameter, choice, metrics, parameters};

const HOUR: Nanos = Nanos(3_600_000_000_000);

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "io".into(),
        summary: "reads and writes of a file or a disk: requests a second, bandwidth, latency".into(),
        about:
            "Each thread keeps a number of requests of one size under way for a span of time or for so many bytes, on \
                a file, a disk, or a file of its own that it makes where none is given. Latency is from when a request \
                was due to having it done, to the 99.99th percentile. Writes to nothing that it has not made itself, \
                unless --allow-overwrite names it; never to what is mounted or otherwise in use. Source: fio's read, \
                write and mixed jobs."
                .into(),
        parameters: [subject(), requests(), bounds(), payload(), ways()].concat(),
        metrics: measured(),
        threads_exactly: None,
        trial_time_guess: Nanos(5_000_000_000),
    }
}

fn subject() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "file",
            about: "what is read or written, such as /dev/sda; one that does not exist is made and removed; empty for a \
                    file of its own in the folder of TMPDIR; several with commas between them have threads of their own",
            kind: ParameterKind::Text,
            default: Some(""),
            smoke: None,
        },
        Parameter {
            name: "size",
            about: "how much of it, from its beginning",
            kind: ParameterKind::Size { min: Bytes(1 << 12), max: Bytes(1 << 50) },
            default: Some("1GiB"),
            smoke: Some("1MiB"),
        },
        Parameter {
            name: "engine",
            about: "many requests at once (io_uring, libaio), or one after the other (psync, preadv2, mmap)",
            kind: choice(&["io_uring", "psync", "preadv2", "libaio", "mmap"]),
            default: Some("io_uring"),
            smoke: None,
        },
    ])
}

fn requests() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "rw",
            about: "reads, writes or both (rw), in order or anywhere (rand)",
            kind: choice(&["randread", "read", "randwrite", "write", "randrw", "rw"]),
            default: Some("randread"),
            smoke: None,
        },
        Parameter {
            name: "mix",
            about: "how many percent of randrw and rw are reads",
            kind: ParameterKind::Integer { min: 0, max: 100 },
            default: Some("70"),
            smoke: None,
        },
        Parameter {
            name: "distribution",
            about: "which places are asked for: random, all alike; zipf:THETA, few often",
            kind: ParameterKind::Text,
            default: Some("random"),
            smoke: None,
        },
        Parameter {
            name: "bs",
            about: "how much is read or written at once",
            kind: ParameterKind::Size { min: Bytes(SECTOR as u64), max: Bytes(1 << 30) },
            default: Some("4KiB"),
            smoke: None,
        },
        Parameter {
            name: "iodepth",
            about: "how many requests each thread has under way; psync, preadv2 and mmap have one",
            kind: ParameterKind::Integer { min: 1, max: 1 << 16 },
            default: Some("1"),
            smoke: None,
        },
        Parameter {
            name: "direct",
            about: "past the page cache",
            kind: ParameterKind::Switch,
            default: Some("true"),
            // Temporary files are often kept in memory, where there is nothing to go past.
            smoke: Some("false"),
        },
    ])
}

fn bounds() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "runtime",
            about: "how long it measures",
            kind: ParameterKind::Time { min: Nanos(1_000_000), max: HOUR },
            default: Some("5s"),
            smoke: Some("50ms"),
        },
        Parameter {
            name: "amount",
            about: "instead: how many bytes each thread reads and writes; 0 is for the time of runtime",
            kind: ParameterKind::Size { min: Bytes(0), max: Bytes(1 << 50) },
            default: Some("0B"),
            smoke: None,
        },
        Parameter {
            name: "ramp",
            about: "how long it runs before anything counts",
            kind: ParameterKind::Time { min: Nanos(0), max: HOUR },
            default: Some("0ns"),
            smoke: None,
        },
        Parameter {
            name: "rate",
            about: "requests a second of each thread, with latency from when each should have started; 0 is as fast as it can",
            kind: ParameterKind::Integer { min: 0, max: 10_000_000 },
            default: Some("0"),
            smoke: None,
        },
    ])
}

fn payload() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "data",
            about: "what is written: random, zero, or compress:PERCENT, which a compressor makes smaller by so much",
            kind: ParameterKind::Text,
            default: Some("random"),
            smoke: None,
        },
        Parameter {
            name: "verify",
            about: "each block carries its place, a seed and a checksum; what was written is read back and compared",
            kind: ParameterKind::Switch,
            default: Some("false"),
            smoke: None,
        },
        Parameter {
            name: "fsync",
            about: "after so many writes of a thread an fsync; 0 is never",
            kind: ParameterKind::Integer { min: 0, max: 1 << 40 },
            default: Some("0"),
            smoke: None,
        },
        Parameter {
            name: "allow-overwrite",
            about: "the exact path of a file or disk that was there before and may be written to; --allow-overwrite sets it",
            kind: ParameterKind::Text,
            default: Some(""),
            smoke: None,
        },
    ])
}

fn ways() -> Vec<ParameterSpec> {
    parameters([
        Parameter {
            name: "registered",
            about: "io_uring knows buffers and file beforehand",
            kind: ParameterKind::Switch,
            default: Some("true"),
            smoke: None,
        },
        Parameter {
            name: "sqpoll",
            about: "a thread of the kernel looks for io_uring's requests",
            kind: ParameterKind::Switch,
            default: Some("false"),
            smoke: None,
        },
        Parameter {
            name: "iopoll",
            about: "the device is asked again and again instead of interrupting (io_uring, preadv2)",
            kind: ParameterKind::Switch,
            default: Some("false"),
            smoke: None,
        },
    ])
}

fn measured() -> Vec<MetricSpec> {
    let of_files = metrics(FILE_SERIES.map(|series| Metric::median(series, "IO/s", Better::Higher)));
    [of_all(), of_files].concat()
}

fn of_all() -> Vec<MetricSpec> {
    metrics([
        Metric::median("iops", "IO/s", Better::Higher),
        Metric::median("bandwidth", "MiB/s", Better::Higher),
        Metric::median("latency", "us", Better::Lower),
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
