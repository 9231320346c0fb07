//! Nodes that Kubernetes gives out: what is written for `kubectl apply`, so that every node runs its order once and keeps what it
//! measures. Must not know what is measured, and asks no cluster.

mod job_spec;
mod manifest;
mod names;

pub use job_spec::{EXPERIMENT_KEY, PodJobSpec};
pub use manifest::{DedicatedResources, FOLDER, Manifest, PodTemplate, job_selector, to_list, to_yaml};
pub use names::{Image, NodeLabel, Selection, Toleration};
