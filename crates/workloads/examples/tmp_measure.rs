//! TEMPORARY: the shape of `nearfar measure WORKLOAD --set k=v --placement P --threads N -r 1 --format json`.
#![allow(warnings, clippy::all, clippy::pedantic)]
use model::{id_set::CpuId, placement::*, trial::*, units::*, workload::*};
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    assert_eq!(args[0], "measure");
    let w = workloads::find(&args[1]).expect("workload");
    let spec = (w.describe)();
    let mut given = std::collections::BTreeMap::new();
    let (mut threads, mut placement) = (spec.threads_exactly.unwrap_or(1), "kernel".to_string());
    let mut i = 2;
    while i < args.len() {
        match args[i].as_str() {
            "--set" => {
                let (k, v) = args[i + 1].split_once('=').unwrap();
                given.insert(k.into(), v.into());
            }
            "--threads" => threads = args[i + 1].parse().unwrap(),
            "--placement" => placement = args[i + 1].clone(),
            _ => {}
        }
        i += 2;
    }
    let mut p = Placement::kernel(threads);
    if placement != "kernel" {
        p.seats = (0..threads).map(|i| CpuId((i % 2) as u32)).collect();
    }
    let trial = Trial {
        id: TrialId("x".into()),
        cell: 0,
        workload: args[1].clone(),
        parameters: spec.resolve(&given, Some(Bytes(32 << 20))).unwrap(),
        placement: p,
        role: Role::Measured,
        block: 0,
        attempt: 0,
        seed: 42,
        time_limit: Nanos(600_000_000_000),
    };
    let mut out = Vec::new();
    workloads::worker::serve(serde_json::to_string(&trial).unwrap().as_bytes(), &mut out).unwrap();
    let r = workloads::worker::read_report(&out).unwrap();
    if !matches!(r.status, Status::Completed) {
        eprintln!("{:?}", r.status);
        std::process::exit(1);
    }
    let metrics: Vec<_> = spec
        .metrics
        .iter()
        .filter_map(|m| {
            let mut v: Vec<f64> = r.samples.iter().filter(|s| s.series == m.series).map(|s| s.value).collect();
            if v.is_empty() {
                return None;
            }
            v.sort_by(f64::total_cmp);
            let x = match m.reduce {
                Reduce::Median => v[v.len() / 2],
                Reduce::Max => v[v.len() - 1],
                Reduce::Min => v[0],
            };
            Some(serde_json::json!({"name": m.name, "unit": m.unit, "median": x, "samples": v.len()}))
        })
        .collect();
    println!("{}", serde_json::json!({"cells": [{"workload": args[1], "metrics": metrics}]}));
}
