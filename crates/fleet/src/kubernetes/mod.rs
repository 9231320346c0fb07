//! Writes manifests for `kubectl apply` that run a job once on every node and keep the results on the node. Must not
//! depend on measurements, and never connects to a cluster.

mod engine;
mod job_spec;
mod manifest;
mod names;

pub use engine::Kubernetes;
pub use job_spec::{EXPERIMENT_KEY, PodJobSpec};
pub use manifest::{DedicatedResources, RESULTS_DIR};
pub use names::{Image, NodeLabel, Selection, Toleration};
