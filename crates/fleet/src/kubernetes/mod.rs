//! Nodes that Kubernetes gives out: what is written for `kubectl apply`, so that every node runs its order once and keeps what it
//! measures. Must not know what is measured, and asks no cluster.

mod manifest;
mod names;
mod posted;

pub use manifest::{FOLDER, Manifest, Pods, Whole, job_selector, to_list, to_yaml};
pub use names::{Image, Label, Selection, Toleration};
pub use posted::{EXPERIMENT_KEY, Posted};
