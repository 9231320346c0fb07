//! Writes the programs of the bench as JSON lines, so that methods in other languages can search the same ones
//! (`scripts/place-anchors`). Must not know any method.

use model::stats::search::{CandidateFeatures, PagePolicy};
use serde_json::json;

use super::testbed::Testbed;
use super::truth::Group;
use super::{Run, Settings};
use crate::noise::Weather;

/// Prints one line per run, with the logarithm of the true time, the noise level and the features of each candidate.
pub fn print(testbeds: &[Testbed], settings: &Settings) {
    let weather = Weather::fair(settings.noises[0]);
    for testbed in testbeds {
        for kind in [Group::Product, Group::Structured].iter().flat_map(|group| group.kinds(testbed)) {
            for seed in 0..settings.seeds {
                let run = Run::new(testbed, kind, settings.first_seed + seed, weather, settings.unexplained[0]);
                let features = testbed.features_of(run.shown_threads());
                let features: Vec<Vec<f64>> = features.tables[0].candidates.iter().map(numbers).collect();
                let line = json!({
                    "machine": testbed.name,
                    "kind": format!("{kind:?}"),
                    "seed": run.seed,
                    "log_times": run.truth,
                    "noise": run.machine("worlds").noise_levels(),
                    "features": features,
                });
                println!("{line}");
            }
        }
    }
}

/// The properties of a candidate that a method without knowledge of the field would use.
fn numbers(one: &CandidateFeatures) -> Vec<f64> {
    let memory = &one.memory;
    let is = |policy: PagePolicy| f64::from(u8::from(memory.policy == policy));
    let mut numbers = vec![
        one.threads.ln(),
        one.used.max(1.0).ln(),
        one.core_count(),
        one.fast_share(),
        one.cache_count(),
        one.nodes,
        one.packages,
        one.fullness,
        one.loose,
        f64::from(u8::from(one.unbound)),
        is(PagePolicy::FirstTouch),
        is(PagePolicy::Interleaved),
        is(PagePolicy::Bound),
        memory.nodes,
        memory.local_nodes,
        memory.local,
    ];
    numbers.extend(one.pairs);
    numbers.extend(one.next);
    numbers
}
