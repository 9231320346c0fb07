//! Requests to disks of a simulated machine: their rate by the memory nodes of device, interrupt and application, and the
//! load of each CPU. Must not contain numbers of disks: `performance` has them.

use std::collections::BTreeMap;

use model::values::id_set::{CpuId, NodeId};
use model::values::topology::Topology;
use model::values::trial::{CpuTime, DeviceInterrupt, Trial};
use model::values::units::Nanos;
use model::values::workload::Value;

use super::performance::{
    APPLICATION_ACROSS_NODES, DRIVER_ACROSS_NODES, Disk, PER_KIB_US, WAKE_UP_ACROSS_NODES_US, disk, text,
};

/// Fraction of the application's CPU time that is system calls, and of the driver's that is deferred from the interrupt.
const SYSTEM_SHARE: f64 = 0.7;
const SOFTIRQ_SHARE: f64 = 0.75;

/// Rates of all threads of a trial together.
pub(super) struct Requests {
    /// Per file, in the order of the parameter.
    pub iops: Vec<f64>,
    /// Bytes per request.
    pub bytes: f64,
    /// Mean time from submission to completion, in us.
    pub latency_us: f64,
    /// Mean CPU time, in us.
    pub cpu_us: f64,
    /// CPU time of each CPU per second, as a fraction of it: of the application and of the driver.
    load: BTreeMap<CpuId, (f64, f64)>,
}

/// One thread with its file.
struct Path {
    application: Option<CpuId>,
    interrupt: Option<CpuId>,
    application_us: f64,
    driver_us: f64,
    latency_us: f64,
}

/// Whether a workload sends requests to a disk.
pub(super) fn is_storage(trial: &Trial) -> bool {
    matches!(trial.workload.as_str(), "io" | "fio")
}

/// Returns the rates of a trial; `interrupts` are those of its devices.
pub(super) fn requests(topology: &Topology, trial: &Trial, interrupts: &[DeviceInterrupt]) -> Requests {
    let files: Vec<String> =
        text(&trial.parameters, "file").unwrap_or_default().split(',').map(str::to_string).collect();
    let number = |name: &str, otherwise: f64| match trial.parameters.0.get(name) {
        Some(Value::Integer(value)) => *value as f64,
        _ => otherwise,
    };
    let (bytes, depth) = (number("bs", 4096.0), number("iodepth", 1.0));
    let threads = trial.placement.threads.max(1);
    let thread = |index: usize| {
        let file = &files[index % files.len()];
        path(topology, trial, interrupts, disk(file), (index, file), bytes)
    };
    let paths: Vec<Path> = (0..threads).map(thread).collect();
    let busy = demand(&paths);
    let mut requests =
        Requests { iops: vec![0.0; files.len()], bytes, latency_us: 0.0, cpu_us: 0.0, load: BTreeMap::new() };
    for (index, path) in paths.iter().enumerate() {
        let of_file = index % files.len();
        let rate = rate(path, disk(&files[of_file]), &busy, bytes, depth);
        requests.iops[of_file] += rate;
        requests.latency_us += depth / rate * 1e6 / threads as f64;
        requests.cpu_us += (path.application_us + path.driver_us) / threads as f64;
        let used = rate / 1e6;
        if let Some(cpu) = path.application {
            requests.load.entry(cpu).or_default().0 += path.application_us * used;
        }
        if let Some(cpu) = path.interrupt {
            requests.load.entry(cpu).or_default().1 += path.driver_us * used;
        }
    }
    requests
}

fn path(
    topology: &Topology,
    trial: &Trial,
    interrupts: &[DeviceInterrupt],
    disk: &Disk,
    (index, file): (usize, &str),
    bytes: f64,
) -> Path {
    let name = file.rsplit('/').next().unwrap_or(file);
    let device = topology.devices.iter().find(|device| device.name == name);
    let interrupt = device.and_then(|device| {
        let own = |interrupt: &&DeviceInterrupt| device.interrupts.iter().any(|one| one.number == interrupt.number);
        interrupts.iter().find(own)?.effective_at_end.first()
    });
    let bindings = &trial.placement.bindings;
    let application = (!bindings.is_empty()).then(|| bindings[index % bindings.len()]);
    let node = |cpu: Option<CpuId>| cpu.and_then(|cpu| topology.nodes_of_cpu(cpu).first().copied());
    let differ = |one: Option<NodeId>, other: Option<NodeId>| one.zip(other).is_some_and(|(one, other)| one != other);
    let across = match application {
        Some(_) if differ(node(application), node(interrupt)) => 1.0,
        // The kernel runs the thread on either node.
        None if interrupt.is_some() && topology.nodes.len() > 1 => 0.5,
        _ => 0.0,
    };
    let far_driver = differ(node(interrupt), device.and_then(|device| device.node));
    let mapping_us = bytes / 1024.0 * PER_KIB_US;
    Path {
        application,
        interrupt,
        application_us: (disk.application_us + mapping_us) * (1.0 + across * (APPLICATION_ACROSS_NODES - 1.0)),
        driver_us: disk.driver_us * if far_driver { DRIVER_ACROSS_NODES } else { 1.0 },
        latency_us: disk.latency_us + across * WAKE_UP_ACROSS_NODES_US,
    }
}

/// CPU time in us that one request of every thread takes from each CPU.
fn demand(paths: &[Path]) -> BTreeMap<CpuId, f64> {
    let mut busy = BTreeMap::new();
    for path in paths {
        for (cpu, us) in [(path.application, path.application_us), (path.interrupt, path.driver_us)] {
            *busy.entry(cpu).or_insert(0.0) += us;
        }
    }
    busy.into_iter().filter_map(|(cpu, us)| Some((cpu?, us))).collect()
}

/// Requests per second of a thread: the disk, its queue or the busiest of the CPUs on the path is the limit.
fn rate(path: &Path, disk: &Disk, busy: &BTreeMap<CpuId, f64>, bytes: f64, depth: f64) -> f64 {
    let cpus = [(path.application, path.application_us), (path.interrupt, path.driver_us)];
    let slowest_us = cpus.iter().map(|(cpu, own)| cpu.and_then(|cpu| busy.get(&cpu)).copied().unwrap_or(*own));
    let by_cpus = 1e6 / slowest_us.fold(0.0, f64::max);
    let by_queue = depth * 1e6 / (path.latency_us + path.application_us + path.driver_us);
    by_cpus.min(by_queue).min(disk.iops).min(disk.megabytes * 1e6 / bytes)
}

impl Requests {
    pub(super) fn total(&self) -> f64 {
        self.iops.iter().sum()
    }

    /// Time of each CPU during a trial whose requests were slower than these by a factor.
    pub(super) fn cpu_times(&self, topology: &Topology, wall: Nanos, slowdown: f64) -> BTreeMap<CpuId, CpuTime> {
        let time = |cpu: CpuId| {
            let (application, driver) = self.load.get(&cpu).copied().unwrap_or_default();
            // Noise makes requests slower, so the CPUs do not work more.
            let share = |part: f64| Nanos((wall.0 as f64 * part / slowdown.max(1.0)) as u64);
            let (user, system) = (share(application * (1.0 - SYSTEM_SHARE)), share(application * SYSTEM_SHARE));
            let (irq, softirq) = (share(driver * (1.0 - SOFTIRQ_SHARE)), share(driver * SOFTIRQ_SHARE));
            let rest = Nanos(wall.0.saturating_sub(user.0 + system.0 + irq.0 + softirq.0));
            let (iowait, idle) = if application > 0.0 { (rest, Nanos(0)) } else { (Nanos(0), rest) };
            (cpu, CpuTime { user, system, irq, softirq, iowait, idle, ..CpuTime::default() })
        };
        topology.allowed_cpus.iter().map(time).collect()
    }
}
