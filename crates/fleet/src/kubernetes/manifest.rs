//! Builds Kubernetes objects: a config map with the job, and a Job for each named node or a `DaemonSet` for all nodes
//! or nodes with given labels. Objects are JSON values, and YAML is only serialised, never concatenated from text.

use model::values::units::Bytes;
use serde_json::{Map, Value, json};

use super::job_spec::{EXPERIMENT_KEY, ORDER_KEY, PodJobSpec};
use super::names::{Image, NodeLabel, Selection, Toleration, object_name};
use crate::session::NODE_SUBCOMMAND;
use crate::{JobName, JobSpec, NodeName};

/// Directory of the results in the container, and the default directory on the node that is mounted there.
pub const RESULTS_DIR: &str = "/var/lib/nearfar";

/// Directory of the machine lock.
const LOCK_DIR: &str = "/run/lock";

/// Mount point of the config map.
const JOB_DIR: &str = "/etc/nearfar";

/// Path of the job specification in the container.
const JOB_FILE: &str = "/etc/nearfar/order.json";

/// Environment variable with the name of the pod's node.
const NODE_VARIABLE: &str = "NEARFAR_NODE";

/// Label of all measuring pods. The anti-affinity uses it, so that no two of them run on a node concurrently.
const APP_LABEL: (&str, &str) = ("app.kubernetes.io/name", "nearfar");

/// Additional label of the pods of a job.
const JOB_LABEL: &str = "nearfar-job";

/// A config map has at most 1 MiB, which includes the job specification and the metadata.
const EXPERIMENT_BYTES_MAX: usize = 900 << 10;

/// Maximum number of replacements of a failed pod on a node. Each pod resumes the run of its predecessor.
const RETRIES_MAX: u32 = 6;

/// Enough time to restore the tuned settings. A pod that takes longer is killed, and its undo journal remains.
const GRACE_SECONDS: u32 = 60;

/// Exit statuses that a retry cannot change: usage error, no valid trial, not permitted, missing program or feature.
const PERMANENT_FAILURES: [u8; 4] = [2, 4, 5, 77];

/// Properties of all pods.
#[derive(Clone, Debug)]
pub struct PodTemplate<'a> {
    pub on: &'a Selection,
    /// An image that contains nearfar.
    pub image: &'a Image,
    /// Directory of the results on the node.
    pub results: &'a str,
    /// Taints that the pods tolerate.
    pub tolerations: &'a [Toleration],
}

/// CPUs and memory of the pod; exclusive CPUs if the kubelet has the static CPU policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedicatedResources {
    pub cpus: u32,
    pub memory: Bytes,
}

/// The objects that run a job on nodes.
#[derive(Clone, Debug)]
pub struct JobManifest<'a> {
    pub pods: PodTemplate<'a>,
    /// The job; nodes replace `{node}` in its arguments by their names.
    pub order: &'a JobSpec,
    /// nearfar in the image: a name in PATH there, or a path.
    pub program: &'a str,
    /// Requests and limits of the pod; `None` for neither.
    pub whole: Option<DedicatedResources>,
    /// Whether the pod is privileged, as changes of the node's settings require.
    pub privileged: bool,
    /// Time limit of each pod from its start; `None` for no limit.
    pub deadline_seconds: Option<u32>,
}

impl JobManifest<'_> {
    /// Returns the objects in the order of their creation.
    pub fn objects(&self) -> Result<Vec<Value>, String> {
        let bytes = self.order.experiment.len();
        if bytes > EXPERIMENT_BYTES_MAX {
            return Err(format!(
                "the experiment has {bytes} bytes; the maximum in a ConfigMap is {EXPERIMENT_BYTES_MAX}"
            ));
        }
        let workers = match self.pods.on {
            Selection::Named(nodes) => nodes.iter().map(|node| self.job(node)).collect(),
            Selection::All => vec![self.daemon_set(&[])],
            Selection::Labelled(labels) => vec![self.daemon_set(labels)],
        };
        Ok([vec![self.config_map()], workers].concat())
    }

    fn name(&self) -> String {
        object_name(&["nearfar", self.order.job.as_str()])
    }

    fn config_map(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": self.name(), "labels": labels(&self.order.job) },
            // As with other engines, a job name keeps its experiment.
            "immutable": true,
            "data": { EXPERIMENT_KEY: self.order.experiment, ORDER_KEY: PodJobSpec::new(self.order).to_text() },
        })
    }

    /// Builds the Job of one node. One Job with several pods would run twice on a node if another is unavailable.
    fn job(&self, node: &NodeName) -> Value {
        let mut pod = self.pods.template(&labels(&self.order.job), &[self.worker()], &self.volumes());
        let spec = pod["spec"].as_object_mut().expect("the template is an object");
        spec.insert("restartPolicy".into(), "Never".into());
        spec.insert("affinity".into(), affinity(Some(node)));
        spec.extend(self.host_pid());
        spec.extend(self.deadline_seconds.map(|seconds| ("activeDeadlineSeconds".to_string(), seconds.into())));
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": object_name(&["nearfar", self.order.job.as_str(), node.as_str()]),
                "labels": labels(&self.order.job),
            },
            "spec": {
                "backoffLimit": RETRIES_MAX,
                "podFailurePolicy": { "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": { "containerName": WORKER, "operator": "In", "values": PERMANENT_FAILURES },
                    },
                    // An evicted pod has not failed.
                    { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
                ] },
                "template": pod,
            },
        })
    }

    /// Builds the `DaemonSet`. Its pods must never exit, so an init container runs the job; the main container waits.
    fn daemon_set(&self, on: &[NodeLabel]) -> Value {
        let labels = labels(&self.order.job);
        let mut pod = self.pods.template(&labels, &[self.pods.idle_container()], &self.volumes());
        let spec = pod["spec"].as_object_mut().expect("the template is an object");
        spec.insert("initContainers".into(), json!([self.worker()]));
        spec.insert("affinity".into(), affinity(None));
        spec.extend(self.host_pid());
        spec.extend(selector(on));
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": { "name": self.name(), "labels": labels },
            "spec": { "selector": { "matchLabels": labels }, "template": pod },
        })
    }

    /// A pod that pauses processes and journals its changes needs the process IDs of the node.
    fn host_pid(&self) -> Option<(String, Value)> {
        self.privileged.then(|| ("hostPID".into(), true.into()))
    }

    fn worker(&self) -> Value {
        let mut worker = json!({
            "name": WORKER,
            "image": self.pods.image.0,
            "command": [self.program, NODE_SUBCOMMAND, "--order", JOB_FILE, "--node", format!("$({NODE_VARIABLE})")],
            "env": [
                { "name": NODE_VARIABLE, "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
                { "name": "NEARFAR_STORE", "value": format!("{RESULTS_DIR}/results.db") },
            ],
            "securityContext": security(self.privileged),
            "volumeMounts": [
                { "name": "order", "mountPath": JOB_DIR, "readOnly": true },
                { "name": "results", "mountPath": RESULTS_DIR },
                { "name": "turns", "mountPath": LOCK_DIR },
            ],
        });
        if let Some(DedicatedResources { cpus, memory }) = self.whole {
            worker["resources"] = guaranteed(&cpus.to_string(), &memory.0.to_string());
        }
        worker
    }

    fn volumes(&self) -> Vec<Value> {
        vec![
            json!({ "name": "order", "configMap": { "name": self.name() } }),
            self.pods.results(),
            json!({ "name": "turns", "hostPath": { "path": LOCK_DIR, "type": "DirectoryOrCreate" } }),
        ]
    }
}

const WORKER: &str = "nearfar";

impl PodTemplate<'_> {
    /// Returns pods that mount the results directory for `kubectl cp` and otherwise only wait.
    pub fn collectors(&self) -> Vec<Value> {
        let labels = json!({ APP_LABEL.0: "nearfar-collect" });
        let template = |node: Option<&NodeName>| {
            let mut pod = self.template(&labels, &[self.idle_container()], &[self.results()]);
            if let Some(node) = node {
                pod["spec"]["affinity"] = json!({ "nodeAffinity": on_node(node) });
            }
            pod
        };
        let daemon_set = |on: &[NodeLabel]| {
            let mut pod = template(None);
            pod["spec"].as_object_mut().expect("the template is an object").extend(selector(on));
            json!({
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": { "name": "nearfar-collect", "labels": labels },
                "spec": { "selector": { "matchLabels": labels }, "template": pod },
            })
        };
        let single = |node: &NodeName| {
            let mut pod = json!({ "apiVersion": "v1", "kind": "Pod" });
            let name = collector_name(node);
            pod["metadata"] = json!({ "name": name, "labels": labels });
            pod["spec"] = template(Some(node))["spec"].take();
            pod
        };
        match self.on {
            Selection::Named(nodes) => nodes.iter().map(single).collect(),
            Selection::All => vec![daemon_set(&[])],
            Selection::Labelled(labels) => vec![daemon_set(labels)],
        }
    }

    fn template(&self, labels: &Value, containers: &[Value], volumes: &[Value]) -> Value {
        json!({
            "metadata": { "labels": labels },
            "spec": {
                "containers": containers,
                "volumes": volumes,
                "tolerations": self.tolerations.iter().map(toleration).collect::<Vec<_>>(),
                "terminationGracePeriodSeconds": GRACE_SECONDS,
                // The pod does not use the API, and needs no environment variables of services.
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
            },
        })
    }

    /// Builds a container that mounts the results and only waits.
    fn idle_container(&self) -> Value {
        json!({
            "name": "results",
            "image": self.image.0,
            // Process 1 ignores SIGTERM unless it has a handler, so a shell traps it.
            "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"],
            "resources": guaranteed("10m", "33554432"),
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            "volumeMounts": [{ "name": "results", "mountPath": RESULTS_DIR, "readOnly": true }],
        })
    }

    fn results(&self) -> Value {
        json!({ "name": "results", "hostPath": { "path": self.results, "type": "DirectoryOrCreate" } })
    }
}

fn collector_name(node: &NodeName) -> String {
    object_name(&["nearfar-collect", node.as_str()])
}

/// Returns the `kubectl` label selector of a job's objects.
pub fn job_selector(job: &JobName) -> String {
    format!("{JOB_LABEL}={}", job_label(job))
}

fn job_label(job: &JobName) -> String {
    object_name(&[job.as_str()])
}

fn labels(job: &JobName) -> Value {
    json!({ APP_LABEL.0: APP_LABEL.1, JOB_LABEL: job_label(job) })
}

/// Prevents two measuring pods on one node, also from different namespaces, and selects the node if one is given. The
/// node is selected by name, because its `hostname` label may differ.
fn affinity(node: Option<&NodeName>) -> Value {
    let mut affinity = json!({
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {},
            "labelSelector": { "matchLabels": { APP_LABEL.0: APP_LABEL.1 } },
        }] },
    });
    if let Some(node) = node {
        affinity["nodeAffinity"] = on_node(node);
    }
    affinity
}

fn on_node(node: &NodeName) -> Value {
    json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
        "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }],
    }] } })
}

fn selector(labels: &[NodeLabel]) -> Option<(String, Value)> {
    let labels = labels.iter().map(|NodeLabel { key, value }| (key.clone(), Value::from(value.as_str())));
    let labels: Map<String, Value> = labels.collect();
    (!labels.is_empty()).then(|| ("nodeSelector".into(), labels.into()))
}

fn toleration(Toleration { key, value, effect }: &Toleration) -> Value {
    let operator = if value.is_some() { "Equal" } else { "Exists" };
    let mut toleration = json!({ "key": key, "operator": operator });
    let fields = toleration.as_object_mut().expect("a toleration is an object");
    fields.extend(value.iter().map(|value| ("value".to_string(), value.as_str().into())));
    fields.extend(effect.iter().map(|effect| ("effect".to_string(), effect.as_str().into())));
    toleration
}

/// Returns the objects as YAML documents.
pub fn to_yaml(objects: &[Value]) -> Result<String, String> {
    serde_saphyr::to_string_multiple(objects).map_err(|error| error.to_string())
}

/// Returns the objects as one `List`.
pub fn to_list(objects: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}

/// Requests equal limits: only then is the pod `Guaranteed`, so that the static CPU policy gives it exclusive CPUs.
fn guaranteed(cpu: &str, memory: &str) -> Value {
    let amount = json!({ "cpu": cpu, "memory": memory });
    json!({ "requests": amount, "limits": amount })
}

/// Unprivileged runs need `SYS_NICE` for memory policies and page migration: seccomp profiles of containers allow these
/// system calls only with it.
fn security(privileged: bool) -> Value {
    if privileged {
        return json!({ "privileged": true });
    }
    json!({
        "privileged": false,
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"], "add": ["SYS_NICE"] },
    })
}

#[cfg(test)]
mod tests;
