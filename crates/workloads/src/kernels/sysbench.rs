//! What sysbench's tests have in common: parameters, and what is reported of events.

use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, ParameterKind};

use crate::describe::{self, Metric, Parameter};

/// Many threads on few cpus, as sysbench is mostly run.
pub(super) fn workers() -> Parameter {
    Parameter {
        name: "workers",
        about: "so many threads share the placement's cpus, each where the kernel likes (--threads); 0 is one per seat",
        kind: ParameterKind::Integer { min: 0, max: 65_536 },
        default: Some("0"),
        smoke: None,
    }
}

pub(super) fn time() -> Parameter {
    Parameter {
        name: "time",
        about: "no event begins after this (--time)",
        kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(86_400_000_000_000) },
        default: Some("3s"),
        smoke: Some("50ms"),
    }
}

pub(super) fn events() -> Parameter {
    Parameter {
        name: "events",
        about: "no more events than this; 0 is any number (--events)",
        kind: ParameterKind::Integer { min: 0, max: i64::MAX },
        default: Some("0"),
        smoke: None,
    }
}

/// What sysbench prints: the rate and the latencies.
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
