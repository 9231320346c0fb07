//! Names under which other programs and published tables report the tests of Nearfar's workloads, and conversions of
//! their units. Must not depend on measured results.

use std::collections::BTreeMap;

use crate::import::unixbench;

/// The test of a workload that a name stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestIdentity {
    pub workload: String,
    /// Parameters that the name states, formatted.
    pub parameters: BTreeMap<String, String>,
    /// Name of the metric; `None` for the main metric.
    pub metric: Option<String>,
    /// Number of threads that the name states.
    pub threads: Option<usize>,
}

/// A name, its workload and a parameter with its value.
type Alias = (&'static str, &'static str, Option<(&'static str, &'static str)>);

/// Names of tests in lower case. Names of UnixBench's tests are in [`unixbench::TESTS`].
const ALIASES: [Alias; 19] = [
    ("sysbench threads", "threads", None),
    ("sysbench mutex", "mutex", None),
    ("sysbench memory read", "memory", Some(("oper", "read"))),
    ("sysbench memory write", "memory", Some(("oper", "write"))),
    ("hpl", "hpl", None),
    ("linpack", "hpl", None),
    ("bzip3", "compress", Some(("program", "bzip3"))),
    ("pigz", "compress", Some(("program", "pigz"))),
    ("zstd", "compress", Some(("program", "zstd"))),
    ("xz", "compress", Some(("program", "xz"))),
    ("kernel compile", "kernel-build", None),
    ("kernel build", "kernel-build", None),
    ("kernel compilation", "kernel-build", None),
    ("gemm fp32", "gemm", Some(("precision", "fp32"))),
    ("gemm fp64", "gemm", Some(("precision", "fp64"))),
    ("sgemm", "gemm", Some(("precision", "fp32"))),
    ("dgemm", "gemm", Some(("precision", "fp64"))),
    ("graph500", "bfs", None),
    ("stream", "stream", None),
];

/// Loops of STREAM, each of which is a metric of workload `stream`.
const STREAM_LOOPS: [&str; 4] = ["copy", "scale", "add", "triad"];

/// Names of metrics, and those of the workloads.
const METRICS: [(&str, &str); 4] = [
    ("latency-avg", "latency-average"),
    ("latency-mean", "latency-average"),
    ("gflop/s", "gflops"),
    ("p95", "latency-p95"),
];

/// Names that mean the main metric of a test, whatever it is called.
const MAIN_METRICS: [&str; 7] = ["throughput", "score", "rate", "bandwidth", "speed", "gflops", "teps"];

/// Returns the test that a published name stands for; an unknown name is that of a workload.
pub fn identify(test: &str, metric: &str) -> TestIdentity {
    let (name, threads) = without_threads(test);
    let metric = metric.to_lowercase();
    let metric = METRICS.iter().find(|(other, _)| *other == metric).map_or(metric.clone(), |(_, own)| (*own).into());
    let metric = Some(metric).filter(|metric| !MAIN_METRICS.contains(&metric.as_str()));
    let found = unixbench_test(name).or_else(|| listed(name)).or_else(|| stream(name)).or_else(|| cipher(name));
    let found = found.unwrap_or_else(|| numbered_queens(name).unwrap_or_else(|| of_workload(name, &[])));
    TestIdentity { metric: found.metric.clone().or(metric), threads, ..found }
}

/// Splits `zstd 4 threads` and `execl, 1 copy` into the name and the number of threads.
pub fn without_threads(test: &str) -> (&str, Option<usize>) {
    let split = || {
        let (front, unit) = test.trim_end().rsplit_once(' ')?;
        let (name, count) = front.trim_end().rsplit_once(' ')?;
        let is_unit = ["thread", "threads", "copy", "copies"].contains(&unit);
        Some((name.trim_end().trim_end_matches(','), count.parse().ok().filter(|_| is_unit)?))
    };
    split().map_or((test.trim(), None), |(name, count)| (name, Some(count)))
}

fn of_workload(workload: &str, parameters: &[(&str, &str)]) -> TestIdentity {
    let parameters = parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    TestIdentity { workload: workload.into(), parameters, ..TestIdentity::default() }
}

fn unixbench_test(name: &str) -> Option<TestIdentity> {
    let name = unixbench::named(name)?;
    let of = |prefix: &str| name.strip_prefix(prefix);
    Some(match (of("shell-"), of("file-copy-")) {
        (Some(concurrent), _) => of_workload("shell", &[("concurrent", concurrent)]),
        (_, Some(buffer)) => of_workload("file-copy", &[("buffer", buffer)]),
        _ => of_workload(name, &[]),
    })
}

fn listed(name: &str) -> Option<TestIdentity> {
    let name = name.to_lowercase().replace(['-', '_'], " ");
    // HPL's reports append size, block size and grid.
    let name = if name.starts_with("hpl ") { "hpl" } else { &name };
    let (_, workload, parameter) = ALIASES.iter().find(|(alias, ..)| *alias == name)?;
    Some(of_workload(workload, parameter.as_slice()))
}

fn stream(name: &str) -> Option<TestIdentity> {
    let name = name.to_lowercase();
    let part = name.strip_prefix("stream ").or_else(|| name.strip_prefix("stream-"))?;
    STREAM_LOOPS.contains(&part).then(|| TestIdentity { metric: Some(part.into()), ..of_workload("stream", &[]) })
}

/// `m-queens-17`: the number of queens is part of the name.
fn numbered_queens(name: &str) -> Option<TestIdentity> {
    let number = name.trim_start_matches("m-").strip_prefix("queens")?.trim_start_matches(['-', ' ']);
    let number = number.trim_start_matches("N=").trim_start_matches("n=");
    number.parse::<u32>().ok().map(|_| of_workload("queens", &[("n", number)]))
}

/// `AES-128-CBC 1KB w/o -evp` and `aes-128-cbc 1024 bytes`.
fn cipher(name: &str) -> Option<TestIdentity> {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split_whitespace().collect();
    let (cipher, rest) = words.split_first().filter(|(cipher, _)| cipher.starts_with("aes-"))?;
    let (block, rest) = match rest {
        [size, rest @ ..] if size.ends_with("kb") => (format!("{}KiB", size.strip_suffix("kb")?), rest),
        [bytes, "bytes", rest @ ..] => (block_of(bytes.parse().ok()?), rest),
        _ => return None,
    };
    let instructions: &[(&str, &str)] = match rest {
        ["w", "-evp"] => &[("instructions", "cpu")],
        ["w/o", "-evp"] => &[("instructions", "software")],
        [] => &[],
        _ => return None,
    };
    Some(of_workload("crypto", &[&[("cipher", *cipher), ("block", &block)], instructions].concat()))
}

fn block_of(bytes: u64) -> String {
    crate::values::units::Bytes(bytes).to_string()
}

/// Units in lower case with the quantity that they measure and their size.
const UNITS: [(&str, &str, f64); 40] = [
    ("b/s", "bytes", 1.0),
    ("kb/s", "bytes", 1e3),
    ("mb/s", "bytes", 1e6),
    ("gb/s", "bytes", 1e9),
    ("kib/s", "bytes", 1024.0),
    ("mib/s", "bytes", 1_048_576.0),
    ("gib/s", "bytes", 1_073_741_824.0),
    ("mb/sec", "bytes", 1e6),
    ("mib/sec", "bytes", 1_048_576.0),
    ("ns", "seconds", 1e-9),
    ("us", "seconds", 1e-6),
    ("usec", "seconds", 1e-6),
    ("µs", "seconds", 1e-6),
    ("ms", "seconds", 1e-3),
    ("msec", "seconds", 1e-3),
    ("s", "seconds", 1.0),
    ("sec", "seconds", 1.0),
    ("min", "seconds", 60.0),
    ("flops", "operations", 1.0),
    ("mflops", "operations", 1e6),
    ("mflop/s", "operations", 1e6),
    ("gflops", "operations", 1e9),
    ("gflop/s", "operations", 1e9),
    ("tflops", "operations", 1e12),
    ("tflop/s", "operations", 1e12),
    ("teps", "edges", 1.0),
    ("mteps", "edges", 1e6),
    ("gteps", "edges", 1e9),
    ("io/s", "requests", 1.0),
    ("iops", "requests", 1.0),
    ("kiops", "requests", 1e3),
    ("events/s", "events", 1.0),
    ("eps", "events", 1.0),
    ("solutions/s", "solutions", 1.0),
    ("sol/s", "solutions", 1.0),
    ("lps", "loops", 1.0),
    ("loops/s", "loops", 1.0),
    ("lpm", "loops a minute", 1.0),
    ("kbps", "kilobytes of UnixBench", 1.0),
    ("mwips", "instructions of Whetstone", 1.0),
];

/// Returns the factor from one unit to another; `None` if they measure different quantities.
pub fn conversion(from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(1.0);
    }
    let find = |unit: &str| {
        let unit = unit.to_lowercase();
        UNITS.iter().find(|(name, ..)| *name == unit)
    };
    let ((_, quantity, size), (_, other, other_size)) = (find(from)?, find(to)?);
    (quantity == other).then(|| size / other_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(test: &str, metric: &str) -> String {
        let TestIdentity { workload, parameters, metric, threads } = identify(test, metric);
        let parameters: String = parameters.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let metric = metric.map_or(String::new(), |metric| format!(" : {metric}"));
        workload + &parameters + &metric + &threads.map_or(String::new(), |threads| format!(" x{threads}"))
    }

    #[test]
    fn published_names_identify_tests() {
        let cases = [
            ("dhrystone", "throughput", "dhrystone"),
            ("Dhrystone 2 using register variables", "score", "dhrystone"),
            ("Pipe-based Context Switching", "score", "pipe-context-switching"),
            ("Shell Scripts (8 concurrent), 4 copies", "score", "shell concurrent=8 x4"),
            ("shell-16", "throughput", "shell concurrent=16"),
            ("File Copy 256 bufsize 500 maxblocks", "score", "file-copy buffer=256"),
            ("m-queens-17", "throughput", "queens n=17"),
            ("queens", "throughput", "queens"),
            ("sysbench-threads", "throughput", "threads"),
            ("sysbench-threads", "latency-avg", "threads : latency-average"),
            ("sysbench mutex", "latency-p95", "mutex : latency-p95"),
            ("Stream add 4 threads", "score", "stream : add x4"),
            ("stream triad", "bandwidth", "stream : triad"),
            ("hpl N=2000 NB=80 1x2 WR11C2R4", "rate", "hpl"),
            ("HPL 1 thread", "score", "hpl x1"),
            ("zstd 4 threads", "score", "compress program=zstd x4"),
            ("kernel compile 4 threads", "score", "kernel-build x4"),
            ("AES-128-CBC 1KB w/o -evp", "throughput", "crypto block=1KiB cipher=aes-128-cbc instructions=software"),
            ("AES-256-CBC 1KB w -evp", "throughput", "crypto block=1KiB cipher=aes-256-cbc instructions=cpu"),
            ("aes-128-cbc 1024 bytes", "throughput", "crypto block=1KiB cipher=aes-128-cbc"),
            ("GEMM FP32", "gflops", "gemm precision=fp32"),
            ("something else", "time", "something else : time"),
        ];
        for (test, metric, expected) in cases {
            assert_eq!(text(test, metric), expected, "{test}");
        }
    }

    #[test]
    fn units_of_one_quantity_convert() {
        let close = |from: &str, to: &str, expected: f64| {
            let factor = conversion(from, to).unwrap();
            assert!((factor / expected - 1.0).abs() < 1e-12, "{from} {to} {factor}");
        };
        close("MB/s", "MiB/s", 1e6 / 1_048_576.0);
        close("GiB/s", "MB/s", 1_073.741_824);
        close("Gflop/s", "GFLOPS", 1.0);
        close("usec", "ns", 1000.0);
        close("GTEPS", "TEPS", 1e9);
        close("points", "points", 1.0);
        for (from, to) in [("MB/s", "ms"), ("x", "GFLOPS"), ("lps", "lpm"), ("points", "score")] {
            assert_eq!(conversion(from, to), None, "{from} {to}");
        }
    }
}
