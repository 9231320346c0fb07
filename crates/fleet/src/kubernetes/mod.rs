//! Writes manifests for `kubectl apply` that run a job once on every node and keep the results on the node. Must not
//! depend on measurements, and never connects to a cluster.

mod job_spec;
mod manifest;
mod names;

pub use job_spec::{EXPERIMENT_KEY, PodJobSpec};
pub use manifest::{DedicatedResources, Manifest, PodTemplate, RESULTS_DIR, job_selector, to_list, to_yaml};
pub use names::{Image, NodeLabel, Selection, Toleration};
