//! A measured map as text, JSON, CSV and SVG. Computes nothing: the map has every value.

mod csv;
mod curve;
mod json;
mod loaded;
mod sheet;
mod svg;
mod text;

pub use csv::csv;
pub use json::json;
pub use svg::svg;
pub use text::text;

use model::placements::measured_map::{Bandwidth, LoadedPoint, MeasuredMap, MeasuredValue};
use model::values::units::Nanos;

/// A value of a map with its description, in reading order. Text and CSV list these rows.
pub(crate) struct MapRow<'a> {
    /// `core-to-core`, `memory-latency`, `bandwidth`, `latency-by-size`, `loaded-latency`, `load`, `smt`.
    pub(crate) what: &'static str,
    /// The CPUs that access.
    pub(crate) from: String,
    /// The CPU or memory node accessed: `cpu 3`, `node 1`.
    pub(crate) to: String,
    /// Further details: the relation, the loop, the level.
    pub(crate) how: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) value: &'a MeasuredValue,
}

/// All values of the map.
pub(crate) fn rows(map: &MeasuredMap) -> Vec<MapRow<'_>> {
    let mut rows = Vec::new();
    let mut push = |what, from: String, to: String, how: String, bytes, value| {
        rows.push(MapRow { what, from, to, how, bytes, value });
    };
    for pair in &map.core_to_core {
        let (from, to) = (pair.a.to_string(), format!("cpu {}", pair.b));
        push("core-to-core", from, to, pair.relation.clone(), None, &pair.latency);
    }
    for path in &map.memory {
        let (from, to) = (path.cpus.to_string(), format!("node {}", path.node));
        if let Some(latency) = &path.latency {
            push("memory-latency", from.clone(), to.clone(), String::new(), None, latency);
        }
        for bandwidth in &path.bandwidth {
            push("bandwidth", from.clone(), to.clone(), mix(bandwidth), None, &bandwidth.rate);
        }
    }
    for point in &map.sizes {
        let (from, to) = (point.cpu.to_string(), format!("node {}", point.node));
        push("latency-by-size", from, to, point.level.clone(), Some(point.bytes.0), &point.latency);
    }
    for point in &map.loaded {
        let (from, to) = (point.cpus.to_string(), format!("node {}", point.node));
        push("loaded-latency", from.clone(), to.clone(), load_description(point), None, &point.latency);
        if let Some(load) = &point.load {
            push("load", from, to, load_description(point), None, load);
        }
    }
    for pair in &map.smt {
        let [a, b] = pair.cpus;
        push("smt", a.to_string(), format!("cpu {b}"), format!("{}, alone", pair.what), None, &pair.alone);
        push("smt", a.to_string(), format!("cpu {b}"), format!("{}, both", pair.what), None, &pair.both);
    }
    rows
}

/// `5 readers, every 1us`.
pub(crate) fn load_description(point: &LoadedPoint) -> String {
    match (point.readers, point.delay_ns) {
        (0, _) | (_, None) => "no load".into(),
        (readers, Some(0)) => format!("{readers} readers, no pause"),
        (readers, Some(delay)) => format!("{readers} readers, pausing {}", Nanos(delay)),
    }
}

/// `triad, past the caches`.
pub(crate) fn mix(bandwidth: &Bandwidth) -> String {
    let stores = if bandwidth.non_temporal { ", past the caches" } else { "" };
    format!("{}{stores}", bandwidth.mix)
}
