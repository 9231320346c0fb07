//! Parses the manifests with the types of the Kubernetes API, which drop unknown fields and reject wrong types.

use std::process::{Command, Stdio};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::nasty;

fn order(experiment: &str) -> JobSpec {
    JobSpec {
        job: JobName::parse("Monday_1").unwrap(),
        experiment: experiment.into(),
        words: ["--seed", "7", "--host-label={node}"].map(String::from).into(),
    }
}

fn tolerations() -> Vec<Toleration> {
    ["dedicated=nearfar:NoSchedule", "gpu"].iter().map(|text| Toleration::parse(text).unwrap()).collect()
}

/// Returns the objects of a manifest with all optional parts, or with none.
fn build(on: &Selection, order: &JobSpec, all: bool) -> Vec<Value> {
    let (image, tolerations) = (Image::parse("registry.example.org/nearfar:0.1").unwrap(), tolerations());
    let tolerations: &[Toleration] = if all { &tolerations } else { &[] };
    let manifest = JobManifest {
        pods: PodTemplate { on, image: &image, results: "/srv/results", tolerations },
        order,
        program: "nearfar",
        whole: all.then_some(DedicatedResources { cpus: 16, memory: Bytes(32 << 30) }),
        privileged: all,
        deadline_seconds: all.then_some(4500),
    };
    let mut objects = manifest.objects().unwrap();
    objects.extend(manifest.pods.collectors());
    objects
}

fn selections() -> [Selection; 3] {
    [Selection::All, Selection::parse("a,b.example.org").unwrap(), Selection::parse("disk=nvme,zone=").unwrap()]
}

fn as_typed<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    serde_json::to_value(typed).unwrap()
}

#[test]
fn objects_match_the_types_of_the_api() {
    let mut kinds = Vec::new();
    for on in selections() {
        for all in [false, true] {
            for object in build(&on, &order("name = 'x'\n"), all) {
                let kind = object["kind"].as_str().unwrap().to_string();
                let typed = match &*kind {
                    "ConfigMap" => as_typed::<ConfigMap>(&object),
                    "Job" => as_typed::<Job>(&object),
                    "DaemonSet" => as_typed::<DaemonSet>(&object),
                    "Pod" => as_typed::<Pod>(&object),
                    other => panic!("unexpected kind {other}"),
                };
                assert_eq!(typed, object, "fields differ from the API");
                kinds.push(kind);
            }
        }
    }
    for kind in ["ConfigMap", "Job", "DaemonSet", "Pod"] {
        assert!(kinds.iter().any(|built| built == kind), "no {kind}");
    }
}

/// Rules of the API that its types do not express (Kubernetes documentation, "Jobs" and `DaemonSet`).
#[test]
fn objects_follow_the_rules_between_fields() {
    for on in selections() {
        for all in [false, true] {
            for object in build(&on, &order(""), all) {
                let template = &object["spec"]["template"];
                let spec = &template["spec"];
                match object["kind"].as_str() {
                    Some("Job") => {
                        // A pod failure policy requires `Never`.
                        assert_eq!(spec["restartPolicy"], "Never");
                        assert_eq!(spec["containers"][0]["name"], "nearfar");
                        assert_eq!(spec["activeDeadlineSeconds"].as_u64(), all.then_some(4500));
                    }
                    Some("DaemonSet") => {
                        assert_eq!(object["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]);
                        assert!(spec.get("restartPolicy").is_none() && spec.get("activeDeadlineSeconds").is_none());
                    }
                    _ => continue,
                }
                for mount in
                    spec["containers"].as_array().into_iter().chain(spec["initContainers"].as_array()).flatten()
                {
                    for mount in mount["volumeMounts"].as_array().unwrap() {
                        let named = |volume: &&Value| volume["name"] == mount["name"];
                        assert!(spec["volumes"].as_array().unwrap().iter().any(|volume| named(&volume)), "{mount}");
                    }
                }
            }
        }
    }
}

#[test]
fn each_named_node_has_one_job() {
    let objects = build(&Selection::parse("a,b.example.org").unwrap(), &order(""), false);
    let jobs: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Job").collect();
    let field = "requiredDuringSchedulingIgnoredDuringExecution";
    let nodes: Vec<&Value> = jobs
        .iter()
        .map(|job| {
            let affinity = &job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][field];
            &affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"]
        })
        .collect();
    assert_eq!(nodes, [&json!(["a"]), &json!(["b.example.org"])]);
    assert_ne!(jobs[0]["metadata"]["name"], jobs[1]["metadata"]["name"]);
    assert_eq!(objects.iter().filter(|object| object["kind"] == "Pod").count(), 2);
}

#[test]
fn only_pods_that_change_settings_are_privileged() {
    let on = Selection::parse("a").unwrap();
    let worker = |all: bool| build(&on, &order(""), all)[1]["spec"]["template"]["spec"].clone();
    let (plain, privileged) = (worker(false), worker(true));
    assert_eq!(plain["containers"][0]["securityContext"]["capabilities"]["add"], json!(["SYS_NICE"]));
    assert_eq!(plain["containers"][0]["securityContext"]["privileged"], false);
    assert!(plain.get("hostPID").is_none());
    assert_eq!(privileged["containers"][0]["securityContext"], json!({ "privileged": true }));
    assert_eq!(privileged["hostPID"], true);
    let resources = &privileged["containers"][0]["resources"];
    assert_eq!(resources["limits"], resources["requests"]);
    assert_eq!(resources["limits"], json!({ "cpu": "16", "memory": "34359738368" }));
    assert!(plain["containers"][0].get("resources").is_none());
}

#[test]
fn experiment_text_survives_yaml_round_trip() {
    let texts = [
        "name = \"quick\"\nquestion = 'a: b # c'\n[repeat]\nmin = 6\n",
        "no end of line",
        "",
        "\n\n  indented\n\ttab\n\n",
        "--- \n... \n%TAG\n- a\n? b\n",
        "größe = \"é\u{2028}\u{feff}\"\r\nz\u{0}\u{7f}\n",
        "yes",
        "1:30",
        "012",
        "a very long line that is longer than any width at which a writer would fold it, and then some more of it \n",
    ];
    for text in texts {
        let objects = build(&Selection::parse("a").unwrap(), &order(text), true);
        let yaml = to_yaml(&objects).unwrap();
        let read: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
        assert_eq!(read, objects, "{yaml}");
    }
    let large = order(&"#".repeat(EXPERIMENT_BYTES_MAX + 1));
    let on = Selection::All;
    let image = Image("nearfar".into());
    let pods = PodTemplate { on: &on, image: &image, results: RESULTS_DIR, tolerations: &[] };
    let manifest =
        JobManifest { pods, order: &large, program: "nearfar", whole: None, privileged: false, deadline_seconds: None };
    assert!(manifest.objects().unwrap_err().contains("the maximum in a ConfigMap is 921600"));
}

/// kubectl reads YAML 1.1, as Python's parser does.
#[test]
fn python_reads_the_original_arguments_from_yaml() {
    const READ: &str = "import sys, yaml, json; json.dump(list(yaml.safe_load_all(sys.stdin.buffer)), sys.stdout)";
    let python = |code: &str| {
        let mut python = Command::new("python3");
        python.args(["-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        python.spawn().and_then(std::process::Child::wait_with_output)
    };
    if !python("import yaml").is_ok_and(|output| output.status.success()) {
        return println!("skipped: python_reads_the_original_arguments_from_yaml: no python3 with yaml");
    }
    let lists: Vec<Value> = nasty::lists().iter().map(|words| json!({ "args": words })).collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("manifest.yaml");
    std::fs::write(&file, to_yaml(&lists).unwrap()).unwrap();
    let mut reader = Command::new("python3");
    let output = reader.args(["-c", READ]).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap(), lists);
}
