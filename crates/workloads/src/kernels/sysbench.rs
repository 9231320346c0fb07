//! Parameters and statistics that the sysbench workloads share.

use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, ParameterKind};

use crate::describe::{self, Metric, Parameter};

/// Runs more threads than CPUs, as is common with sysbench.
pub(super) fn workers() -> Parameter {
    Parameter {
        name: "workers",
        about: "threads that share the placement's CPUs without pinning (--threads); 0 runs one thread per binding",
        kind: ParameterKind::Integer { min: 0, max: 65_536 },
        default: Some("0"),
        smoke: None,
    }
}

pub(super) fn time() -> Parameter {
    Parameter {
        name: "time",
        about: "time limit; no event starts after it (--time)",
        kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(86_400_000_000_000) },
        default: Some("3s"),
        smoke: Some("50ms"),
    }
}

pub(super) fn events() -> Parameter {
    Parameter {
        name: "events",
        about: "maximum number of events; 0 is unlimited (--events)",
        kind: ParameterKind::Integer { min: 0, max: i64::MAX },
        default: Some("0"),
        smoke: None,
    }
}

/// The statistics that sysbench prints: the event rate and the latencies.
pub(super) fn metrics() -> Vec<MetricSpec> {
    let latency = |name| Metric::median(name, "ms", Better::Lower);
    describe::metrics([
        Metric::median("events", "events/s", Better::Higher),
        latency("latency-average"),
        latency("latency-p95"),
        latency("latency-min"),
        latency("latency-max"),
    ])
}
