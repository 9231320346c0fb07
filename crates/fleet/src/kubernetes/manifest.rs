//! The objects that Kubernetes is to make: a map with the order, and either a Job for each node that was named or a `DaemonSet` for nodes
//! that have something in common. Values in, texts out; nothing of what is written is made by putting texts together.

use model::values::units::Bytes;
use serde_json::{Map, Value, json};

use super::job_spec::{EXPERIMENT_KEY, ORDER_KEY, PodJobSpec};
use super::names::{Image, NodeLabel, Selection, Toleration, object_name};
use crate::engine::NODE_SUBCOMMAND;
use crate::{JobName, JobSpec, NodeName};

/// Where pods keep what they measure: the place of a machine's own state, which the container shares with its node.
pub const FOLDER: &str = "/var/lib/nearfar";

/// Where whoever measures on a machine takes his turn.
const TURNS: &str = "/run/lock";

/// Where pods find their order.
const ORDERS: &str = "/etc/nearfar";

/// The order's file in a pod.
const ORDER_FILE: &str = "/etc/nearfar/order.json";

/// Which node a pod is on.
const NODE_VARIABLE: &str = "NEARFAR_NODE";

/// All pods of ours have this label: no two of them measure on one node at a time.
const OURS: (&str, &str) = ("app.kubernetes.io/name", "nearfar");

/// Those of one job have this one too.
const JOB_LABEL: &str = "nearfar-job";

/// A map of texts has at most 1 MiB; the order and what is around it want some of that.
const EXPERIMENT_BYTES_MAX: usize = 900 << 10;

/// How often a node whose pod failed gets another one; each goes on where the last was.
const TRIES: u32 = 6;

/// Putting settings back takes less; then the pod is killed, and its journal stays.
const GRACE_SECONDS: u32 = 60;

/// Statuses of a run that come again however often it is tried: the user's mistake, nothing proven, not permitted, something is missing.
const HOPELESS: [u8; 4] = [2, 4, 5, 77];

/// What pods are made of, whatever they do.
#[derive(Clone, Debug)]
pub struct PodTemplate<'a> {
    pub on: &'a Selection,
    /// The image that has nearfar.
    pub image: &'a Image,
    /// The folder of the node that keeps results.
    pub results: &'a str,
    /// Taints that are no obstacle.
    pub tolerations: &'a [Toleration],
}

/// A node's processors and memory for the pod alone, as far as Kubernetes gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedicatedResources {
    pub cpus: u32,
    pub memory: Bytes,
}

/// What is to be run by pods.
#[derive(Clone, Debug)]
pub struct Manifest<'a> {
    pub pods: PodTemplate<'a>,
    /// What, with `{node}` where a node's name belongs.
    pub order: &'a JobSpec,
    /// nearfar in the image: a name that is found in PATH there, or a path.
    pub program: &'a str,
    /// What it needs of the node; none leaves it unlimited and unguaranteed.
    pub whole: Option<DedicatedResources>,
    /// Whether it changes settings of the node, for which it must be privileged there.
    pub privileged: bool,
    /// After which it is stopped, from its start on a node; none never.
    pub deadline_seconds: Option<u32>,
}

impl Manifest<'_> {
    /// The objects, in the order in which they are to be made.
    pub fn objects(&self) -> Result<Vec<Value>, String> {
        let bytes = self.order.experiment.len();
        if bytes > EXPERIMENT_BYTES_MAX {
            return Err(format!(
                "the experiment has {bytes} bytes, and Kubernetes keeps {EXPERIMENT_BYTES_MAX} at most"
            ));
        }
        let workers = match self.pods.on {
            Selection::Named(nodes) => nodes.iter().map(|node| self.job(node)).collect(),
            Selection::All => vec![self.daemon_set(&[])],
            Selection::Labelled(labels) => vec![self.daemon_set(labels)],
        };
        Ok([vec![self.order_map()], workers].concat())
    }

    fn name(&self) -> String {
        object_name(&["nearfar", self.order.job.as_str()])
    }

    fn order_map(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": self.name(), "labels": labels(&self.order.job) },
            // As on other nodes: a name that is already something else stays that.
            "immutable": true,
            "data": { EXPERIMENT_KEY: self.order.experiment, ORDER_KEY: PodJobSpec::new(self.order).to_text() },
        })
    }

    /// One for each node, because a Job of several pods would run twice on one node where another is away.
    fn job(&self, node: &NodeName) -> Value {
        let mut pod = self.pods.template(&labels(&self.order.job), &[self.worker()], &self.volumes());
        let spec = pod["spec"].as_object_mut().expect("it is made as an object");
        spec.insert("restartPolicy".into(), "Never".into());
        spec.insert("affinity".into(), affinity(Some(node)));
        spec.extend(self.of_privilege());
        spec.extend(self.deadline_seconds.map(|seconds| ("activeDeadlineSeconds".to_string(), seconds.into())));
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": object_name(&["nearfar", self.order.job.as_str(), node.as_str()]),
                "labels": labels(&self.order.job),
            },
            "spec": {
                "backoffLimit": TRIES,
                "podFailurePolicy": { "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": { "containerName": WORKER, "operator": "In", "values": HOPELESS },
                    },
                    // Who was moved away for others' sake has not failed.
                    { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
                ] },
                "template": pod,
            },
        })
    }

    /// Its pods never end, so the run is what comes before they are ready; then they give out what was measured.
    fn daemon_set(&self, on: &[NodeLabel]) -> Value {
        let labels = labels(&self.order.job);
        let mut pod = self.pods.template(&labels, &[self.pods.keeper()], &self.volumes());
        let spec = pod["spec"].as_object_mut().expect("it is made as an object");
        spec.insert("initContainers".into(), json!([self.worker()]));
        spec.insert("affinity".into(), affinity(None));
        spec.extend(self.of_privilege());
        spec.extend(selector(on));
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": { "name": self.name(), "labels": labels },
            "spec": { "selector": { "matchLabels": labels }, "template": pod },
        })
    }

    /// Who pauses processes and journals what his own changed must see those of the node.
    fn of_privilege(&self) -> Option<(String, Value)> {
        self.privileged.then(|| ("hostPID".into(), true.into()))
    }

    fn worker(&self) -> Value {
        let mut worker = json!({
            "name": WORKER,
            "image": self.pods.image.0,
            "command": [self.program, NODE_SUBCOMMAND, "--order", ORDER_FILE, "--node", format!("$({NODE_VARIABLE})")],
            "env": [
                { "name": NODE_VARIABLE, "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
                { "name": "NEARFAR_STORE", "value": format!("{FOLDER}/results.db") },
            ],
            "securityContext": security(self.privileged),
            "volumeMounts": [
                { "name": "order", "mountPath": ORDERS, "readOnly": true },
                { "name": "results", "mountPath": FOLDER },
                { "name": "turns", "mountPath": TURNS },
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
            json!({ "name": "turns", "hostPath": { "path": TURNS, "type": "DirectoryOrCreate" } }),
        ]
    }
}

const WORKER: &str = "nearfar";

impl PodTemplate<'_> {
    /// Pods that do nothing but show the folders of results to `kubectl cp`.
    pub fn collectors(&self) -> Vec<Value> {
        let labels = json!({ OURS.0: "nearfar-collect" });
        let of = |node: Option<&NodeName>| {
            let mut pod = self.template(&labels, &[self.keeper()], &[self.results()]);
            if let Some(node) = node {
                pod["spec"]["affinity"] = json!({ "nodeAffinity": on_node(node) });
            }
            pod
        };
        let daemon_set = |on: &[NodeLabel]| {
            let mut pod = of(None);
            pod["spec"].as_object_mut().expect("it is made as an object").extend(selector(on));
            json!({
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": { "name": "nearfar-collect", "labels": labels },
                "spec": { "selector": { "matchLabels": labels }, "template": pod },
            })
        };
        let single = |node: &NodeName| {
            let mut pod = json!({ "apiVersion": "v1", "kind": "Pod" });
            let name = collector(node);
            pod["metadata"] = json!({ "name": name, "labels": labels });
            pod["spec"] = of(Some(node))["spec"].take();
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
                // It asks the cluster nothing, and wants no variables for each of its services.
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
            },
        })
    }

    /// A container that only waits, beside the results.
    fn keeper(&self) -> Value {
        json!({
            "name": "results",
            "image": self.image.0,
            // As the first process it ignores the signal to end, unless a shell answers it.
            "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"],
            "resources": guaranteed("10m", "33554432"),
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            "volumeMounts": [{ "name": "results", "mountPath": FOLDER, "readOnly": true }],
        })
    }

    fn results(&self) -> Value {
        json!({ "name": "results", "hostPath": { "path": self.results, "type": "DirectoryOrCreate" } })
    }
}

/// What the pod of a node is called that only shows results.
fn collector(node: &NodeName) -> String {
    object_name(&["nearfar-collect", node.as_str()])
}

/// The label by which `kubectl` finds what belongs to a job.
pub fn job_selector(job: &JobName) -> String {
    format!("{JOB_LABEL}={}", job_label(job))
}

fn job_label(job: &JobName) -> String {
    object_name(&[job.as_str()])
}

fn labels(job: &JobName) -> Value {
    json!({ OURS.0: OURS.1, JOB_LABEL: job_label(job) })
}

/// Never two that measure on one node, whoever started them; and on this node where one is named, by its name: the label that
/// has a host's name may be another.
fn affinity(node: Option<&NodeName>) -> Value {
    let mut affinity = json!({
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {},
            "labelSelector": { "matchLabels": { OURS.0: OURS.1 } },
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
    let fields = toleration.as_object_mut().expect("it is made as an object");
    fields.extend(value.iter().map(|value| ("value".to_string(), value.as_str().into())));
    fields.extend(effect.iter().map(|effect| ("effect".to_string(), effect.as_str().into())));
    toleration
}

/// Objects as `kubectl apply` and people read them.
pub fn to_yaml(objects: &[Value]) -> Result<String, String> {
    serde_saphyr::to_string_multiple(objects).map_err(|error| error.to_string())
}

/// The same as one value.
pub fn to_list(objects: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}

/// Requests that are limits: only then is a pod `Guaranteed`, which is what a static policy of the node gives cpus of its own.
fn guaranteed(cpu: &str, memory: &str) -> Value {
    let amount = json!({ "cpu": cpu, "memory": memory });
    json!({ "requests": amount, "limits": amount })
}

/// Plain runs need one capability: placing memory and moving pages, which containers' filters of system calls grant with it.
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
