//! Performance of workloads on the simulated machines: the only table, with the source of each number. Rates are those of
//! published studies if one measured the workload, so that a simulated run shows the finding of the study.
//! Must not depend on topologies: `speed` applies these numbers to one.

use model::values::trial::Trial;
use model::values::workload::Parameters;

/// The bottleneck of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    Compute,
    Bandwidth,
}

/// A measured rate in the unit of the main metric, or a time if less is better.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub value: f64,
    /// Number of threads or copies that reached it together, one per core.
    pub cores: f64,
    /// Clock of the cores in MHz; `None` if the rate does not depend on it.
    pub mhz: Option<f64>,
}

/// Performance of a workload. `..PLAIN` are the properties of a program that only computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Performance {
    pub workload: &'static str,
    /// Parameter and value to which the row applies; `None` for all.
    pub variant: Option<(&'static str, &'static str)>,
    pub limit: Limit,
    pub rate: Rate,
    /// Gain of a second thread on a core over one thread.
    pub smt_gain: f64,
    /// Fraction of the speed that is lost if the threads are spread over several L3 caches.
    pub across_l3_loss: f64,
    /// The same for placements that leave the CPUs of their set to the kernel (`loose`), where processes of a copy may run
    /// on CPUs of different L3 caches.
    pub across_l3_loss_loose: f64,
    /// Fraction of its speed by which each further copy slows down all: locks of the kernel, page cache, memory.
    pub contention: f64,
    /// Processes that each copy runs concurrently, if it is not pinned.
    pub processes: usize,
    /// Speed of a little core relative to a big one; `None` for the kernel's capacity.
    pub little: Option<f64>,
    /// Speed with memory interleaved over emulated nodes, at one thread and at all.
    pub interleaved: [f64; 2],
    /// Speed beyond a DRAM budget relative to DRAM.
    pub beyond_dram: BeyondDram,
}

/// Speed with a working set that DRAM does not hold, relative to one that it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BeyondDram {
    /// Managed by the paging controller (`expand:`).
    pub steered: f64,
    /// In the kernel's own swap (`swap:`).
    pub swapped: f64,
    /// Arrays in a file on a disk (`far`).
    pub far: f64,
}

/// Measured with memory of twice the DRAM limit: docs/results/expand.md. Far: 4 of 47 GiB/s, study D.
pub(super) const TOUCHED: BeyondDram = BeyondDram { steered: 0.2, swapped: 0.05, far: 4.0 / 47.0 };

const PLAIN: Performance = Performance {
    workload: "",
    variant: None,
    limit: Limit::Compute,
    rate: Rate { value: 10_000.0, cores: 1.0, mhz: Some(3600.0) },
    // Dhrystone in study C: 177.6 of 267.1 Mlps by three cores with two threads each, against six cores.
    smt_gain: 0.33,
    across_l3_loss: 0.0,
    across_l3_loss_loose: 0.0,
    contention: 0.0,
    processes: 1,
    little: None,
    interleaved: [1.0, 1.0],
    beyond_dram: TOUCHED,
};

/// A rate of six copies on the six cores of study C's Ryzen 5 2600 at 3.6 GHz.
const fn ryzen(value: f64) -> Rate {
    Rate { value, cores: 6.0, mhz: Some(3600.0) }
}

/// A rate of one A72 core of study A's RK3399 at 1.8 GHz.
const fn a72(value: f64) -> Rate {
    Rate { value, cores: 1.0, mhz: Some(1800.0) }
}

/// A rate of the two Xeons with 22 cores each of study D, at 2.2 GHz.
const fn xeon(value: f64) -> Rate {
    Rate { value, cores: 44.0, mhz: Some(2200.0) }
}

/// A rate of one A76 core of study E's Raspberry Pi 5 at 2.4 GHz.
const fn a76(value: f64) -> Rate {
    Rate { value, cores: 1.0, mhz: Some(2400.0) }
}

/// A test of UnixBench.
const fn unixbench(workload: &'static str, rate: Rate, across_l3_loss: f64, contention: f64) -> Performance {
    Performance { workload, rate, across_l3_loss, across_l3_loss_loose: across_l3_loss, contention, ..PLAIN }
}

/// `openssl speed` with 1 KiB blocks in kB/s, study A: on an A72 core, and on an A53 core relative to it.
const fn aes(cipher: &'static str, a72_rate: f64, a53_rate: f64) -> Performance {
    let variant = Some(("cipher", cipher));
    Performance { workload: "crypto", variant, rate: a72(a72_rate), little: Some(a53_rate / a72_rate), ..PLAIN }
}

/// A compressor at an assumed rate in MB/s on an A76 core, with the published gains of study E.
const fn compressor(program: &'static str, rate: f64, interleaved: [f64; 2]) -> Performance {
    Performance {
        workload: "compress",
        variant: Some(("program", program)),
        rate: a76(rate),
        interleaved,
        // Threads read and write one stream.
        contention: 0.03,
        ..PLAIN
    }
}

/// Published (study C): six cores on two L3 caches against six threads on one. The loss between L3 caches follows from
/// the published ratio r and the gain of SMT: 1 - 0.5 x (1 + gain) / r.
///
/// Contention follows from study A: on the RK3399, six copies are 151 to 184 % faster than one (index), although its cores
/// sum up to 3.49 of the fastest, so tests that use the page cache and the kernel's locks must scale less.
static TABLE: &[Performance] = &[
    unixbench("dhrystone", ryzen(267_065_871.8), 0.0, 0.0),
    // Assumed, because no study printed its scores: MWIPS of six cores.
    unixbench("whetstone", ryzen(23_100.0), 0.0, 0.0),
    // 24 262.5 of 24 743.5 lps: -2 %.
    unixbench("execl", ryzen(24_743.5), 0.322, 0.03),
    // Assumed: KBps of six cores. Buffers are copied in the page cache, which all copies share.
    Performance { variant: Some(("buffer", "256")), ..unixbench("file-copy", ryzen(1_100_000.0), 0.0, 0.14) },
    Performance { variant: Some(("buffer", "1024")), ..unixbench("file-copy", ryzen(3_900_000.0), 0.0, 0.14) },
    Performance { variant: Some(("buffer", "4096")), ..unixbench("file-copy", ryzen(11_000_000.0), 0.0, 0.2) },
    // Assumed.
    unixbench("pipe-throughput", ryzen(6_900_000.0), 0.0, 0.0),
    // 1 279 005.9 of 1 734 733.0 lps: -26 % if both ends of a pipe may use both L3 caches. Pinned copies have both ends on
    // one CPU, so they lose nothing between caches.
    Performance { across_l3_loss: 0.0, ..unixbench("pipe-context-switching", ryzen(1_734_733.0), 0.098, 0.0) },
    // 58 572.1 of 51 217.1 lps: +14 %.
    unixbench("process-creation", ryzen(51_217.1), 0.419, 0.08),
    // 35 119.4 of 43 287.2 lpm: -19 %.
    Performance { variant: Some(("concurrent", "1")), ..unixbench("shell", ryzen(43_287.2), 0.18, 0.06) },
    // 5137.8 of 6677.0 lpm and 2595.7 of 3363.9: -23 %. One copy of eight scripts already uses all cores of a board.
    Performance { variant: Some(("concurrent", "8")), processes: 8, ..unixbench("shell", ryzen(6677.0), 0.136, 0.0) },
    Performance { variant: Some(("concurrent", "16")), processes: 16, ..unixbench("shell", ryzen(3363.9), 0.138, 0.0) },
    // Assumed.
    unixbench("system-call-overhead", ryzen(6_600_000.0), 0.0, 0.0),
    // m-queens, N = 17: 9.80 of 12.36 million solutions/s, -21 %; its threads share nothing, so SMT gains more.
    Performance { smt_gain: 0.586, ..unixbench("queens", ryzen(12_357_498.9), 0.0, 0.0) },
    // sysbench: 25 598.8 of 26 374.6 events/s, and 21.2207 of 21.2456.
    unixbench("threads", ryzen(26_374.6), 0.315, 0.0),
    unixbench("mutex", ryzen(21.2456), 0.334, 0.0),
    // Assumed: sysbench memory, blocks of 1 KiB in MiB/s, in the first-level cache, so only the core matters.
    unixbench("memory", ryzen(48_000.0), 0.0, 0.0),
    // "cpu" are the instructions for AES, which the kernel's capacity of a core does not describe.
    aes_software("aes-128-cbc", 92_054.87, 25_189.72),
    aes_software("aes-256-cbc", 68_269.74, 25_242.28),
    aes("aes-128-cbc", 1_282_523.14, 547_143.68),
    aes("aes-256-cbc", 981_640.87, 379_278.68),
    // Study D: 47 GiB/s local by all cores of a node, of which one core reaches a third; about 4 once the SSD is touched,
    // expanded or not. Swap without the controller is 3.5 to 4.9 times slower: docs/results/expand.md. Study E: STREAM add, 0.98 and 1.27.
    Performance {
        limit: Limit::Bandwidth,
        rate: Rate { value: STREAM_LOCAL * super::speed::CORE_BANDWIDTH_SHARE, cores: 1.0, mhz: None },
        interleaved: [0.98, 1.27],
        beyond_dram: BeyondDram { steered: 4.0 / 47.0, swapped: 4.0 / 47.0 / 4.0, far: 4.0 / 47.0 },
        ..unixbench("stream", PLAIN.rate, 0.0, 0.0)
    },
    // Study D: 2733.51 of 2877.38 and 1274.82 of 1330.71 GFLOPS beyond DRAM.
    Performance { variant: Some(("precision", "fp32")), ..gemm("gemm", 2877.38, 0.950) },
    gemm("gemm", 1330.71, 0.958),
    // The built-in product reads its files ahead: docs/results/far-arrays.md.
    Performance { variant: Some(("precision", "fp32")), ..gemm("far-gemm", 2877.38, 0.98) },
    gemm("far-gemm", 1330.71, 0.98),
    // Assumed rate in GFLOPS; study E printed ratios only.
    Performance { interleaved: [1.03, 1.25], smt_gain: 0.0, ..unixbench("hpl", a76(10.0), 0.0, 0.02) },
    // Study D: 9.61 GTEPS in DRAM, 7.52 expanded.
    Performance {
        beyond_dram: BeyondDram { steered: 7.52 / 9.61, ..TOUCHED },
        ..unixbench("bfs", xeon(9.61e9), 0.0, 0.0)
    },
    compressor("bzip3", 6.0, [1.29, 1.96]),
    compressor("pigz", 25.0, [1.0, 1.28]),
    compressor("zstd", 2.5, [1.71, 2.64]),
    compressor("xz", 2.0, [1.10, 1.21]),
    // Assumed: seconds of the built-in program on one A76 core.
    Performance { interleaved: [1.0, 1.11], ..unixbench("kernel-build", a76(40.0), 0.0, 0.02) },
];

/// Study D: STREAM on the memory of the own node, in MB/s (47 GiB/s).
const STREAM_LOCAL: f64 = 50_466.0;
/// Study D: fraction that is left on the memory of the other node, whose distance is twice that of the own: 28 of 47 GiB/s.
pub(super) const STREAM_REMOTE_SHARE: f64 = 28.0 / 47.0;
/// STREAM of a board relative to a server's node: about 10 GB/s with LPDDR4X at 32 bits.
pub(super) const BOARD_BANDWIDTH_SHARE: f64 = 0.2;
/// Study D: a search with 10 of 32 edges per vertex in DRAM is at 4.41 of 9.61 GTEPS.
pub(super) const SEMI_EXTERNAL: (f64, f64) = (10.0 / 32.0, 4.41 / 9.61);
/// Latencies of sysbench relative to the average: minimum, 95th percentile and maximum; study C.
pub(super) const THREADS_LATENCY: [f64; 3] = [0.15 / 0.23, 0.28 / 0.23, 9.23 / 0.23];
pub(super) const MUTEX_LATENCY: [f64; 3] = [1602.09 / 2842.96, 2985.89 / 2842.96, 3000.67 / 2842.96];

const fn aes_software(cipher: &'static str, a72_rate: f64, a53_rate: f64) -> Performance {
    Performance { workload: AES_SOFTWARE, ..aes(cipher, a72_rate, a53_rate) }
}

/// Name in the table of workload `crypto` without the CPU's instructions.
const AES_SOFTWARE: &str = "crypto in software";

const fn gemm(workload: &'static str, rate: f64, steered: f64) -> Performance {
    let beyond_dram = BeyondDram { steered, ..TOUCHED };
    // Both threads of a core would use the same multipliers.
    Performance { workload, rate: xeon(rate), smt_gain: 0.0, beyond_dram, ..PLAIN }
}

/// A disk, and what its requests cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    /// Word in the name of its device file.
    pub name: &'static str,
    /// Time of a request in the disk and on the bus, in us.
    pub latency_us: f64,
    /// Maximum of small requests per second.
    pub iops: f64,
    /// Maximum of large requests, in MB/s.
    pub megabytes: f64,
    /// CPU time of a request: of the application with its system calls, and of the interrupt with the driver.
    pub application_us: f64,
    pub driver_us: f64,
}

/// Study B printed changes only, so the times of its USB 3 UASP disks are assumed. 5 Gbit/s carry about 430 MB/s; 4 KiB requests at a depth of 32 are limited by the CPU of
/// the application. Study D: Optane P4800X, 10 us, 550 000 IO/s and 2400 MB/s.
static DISKS: [Disk; 2] = [
    Disk { name: "nvme", latency_us: 8.0, iops: 550_000.0, megabytes: 2400.0, application_us: 1.2, driver_us: 0.8 },
    Disk { name: "", latency_us: 160.0, iops: 60_000.0, megabytes: 430.0, application_us: 20.0, driver_us: 12.0 },
];

/// Study B: with the interrupt pinned, small requests at a depth of 32 differ by up to 34 % between the nodes of the
/// application; the interrupt's cache lines then cross the link between the sockets.
pub(super) const APPLICATION_ACROSS_NODES: f64 = 1.0 / (1.0 - 0.34);
/// Registers of a device on the other socket: an uncached access takes about a microsecond more.
pub(super) const DRIVER_ACROSS_NODES: f64 = 1.3;
/// Latency of a wake-up on the other socket, in us.
pub(super) const WAKE_UP_ACROSS_NODES_US: f64 = 6.0;
/// CPU time per KiB of a request, in us: pages are mapped for the device.
pub(super) const PER_KIB_US: f64 = 0.05;

/// Returns the disk of a device file.
pub(super) fn disk(file: &str) -> &'static Disk {
    DISKS.iter().find(|disk| file.contains(disk.name)).expect("the name of the last disk is empty")
}

/// Returns the performance of a trial's workload; `None` for commands and for workloads without a row.
pub(super) fn of(trial: &Trial) -> Option<&'static Performance> {
    let software = trial.workload == "crypto" && text(&trial.parameters, "instructions").as_deref() == Some("software");
    let workload = if software { AES_SOFTWARE } else { &trial.workload };
    TABLE.iter().find(|row| row.workload == workload && row.variant.is_none_or(|variant| has(trial, variant)))
}

fn has(trial: &Trial, (name, value): (&str, &str)) -> bool {
    text(&trial.parameters, name).as_deref() == Some(value)
}

/// The text of a parameter.
pub(super) fn text(parameters: &Parameters, name: &str) -> Option<String> {
    parameters.0.get(name).map(ToString::to_string)
}
