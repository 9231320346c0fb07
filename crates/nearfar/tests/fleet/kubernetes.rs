//! `nearfar fleet` on Kubernetes without a cluster: the manifest, which `kubectl` parses if it is installed, invalid
//! options, and the process of a pod, which is killed, terminated and restarted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::nodes::{Limit, json, output, signal, stop, text, until};
use super::{JOB, MODELS, TRIALS, three_machines};

const IMAGE: &str = "--image=registry.example.org/nearfar:0.1";

fn nearfar(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(args).current_dir(dir).env("NEARFAR_STORE", dir.join("results.db"));
    command.env("NEARFAR_STATE", dir.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn fleet(dir: &Path, args: &[&str]) -> Command {
    nearfar(dir, &[&["fleet"], args].concat())
}

fn input_dir() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("three.toml"), three_machines()).expect("the directory is writable");
    dir
}

#[test]
fn kubernetes_manifest_matches_snapshot() {
    let dir = input_dir();
    let args = ["run", "three.toml", "--on=kubernetes:node-1", IMAGE, "--name=monday", "--cpus=16", "--memory=32GiB"];
    let rest = ["--toleration=dedicated=nearfar:NoSchedule", "--", "--seed", "7"];
    let written = output(fleet(dir.path(), &[&args[..], &rest].concat()));
    assert!(written.status.success(), "{}", text(&written.stderr));
    insta::assert_snapshot!("kubernetes_job", text(&written.stdout).replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    insta::assert_snapshot!("kubernetes_next", text(&written.stderr));
}

#[test]
fn labelled_nodes_get_a_daemon_set() {
    let dir = input_dir();
    let args = ["run", "three.toml", "--on=kubernetes:disk=nvme", IMAGE, "--format=json", "--", "--quieten=all"];
    let list = json(fleet(dir.path(), &args), 0);
    let set = &list["items"][1];
    assert_eq!((&set["kind"], &list["kind"]), (&"DaemonSet".into(), &"List".into()));
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"]["disk"], "nvme");
    assert_eq!(pod["initContainers"][0]["securityContext"]["privileged"], true, "--quieten changes settings");
    let written = output(fleet(dir.path(), &[&args[..4], &["--output=set.yaml"], &args[5..]].concat()));
    let stderr = text(&written.stderr);
    assert!(stderr.contains("privileged, with access to the processes of the node, because of --quieten"), "{stderr}");
    assert!(stderr.contains("next: kubectl apply -f set.yaml"), "{stderr}");
    assert!(dir.path().join("set.yaml").exists());
    let collect = json(fleet(dir.path(), &["collect", "--on=kubernetes:a,b", IMAGE, "--format=json"]), 0);
    let names: Vec<&str> = collect["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["nearfar-collect-a", "nearfar-collect-b"]);
}

/// `kubectl` parses YAML 1.1, in which unquoted `y`, `1.0` and `1e3` are not strings.
#[test]
fn kubectl_parses_the_yaml_manifest() {
    let dir = input_dir();
    let args =
        |format| ["run", "three.toml", "--on=kubernetes:y,1.0,node-3", IMAGE, "--name=1e3", "--output=jobs", format];
    let expected = output(fleet(dir.path(), &args("--format=json")));
    assert!(expected.status.success(), "{}", text(&expected.stderr));
    let manifest = std::fs::read(dir.path().join("jobs")).expect("the manifest exists");
    let expected: Value = serde_json::from_slice(&manifest).expect("the manifest is JSON");
    assert!(output(fleet(dir.path(), &args("--format=text"))).status.success());
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["label", "--local", "--overwrite", "-f", "jobs", "nearfar-job=1e3", "-o", "json"]);
    kubectl.current_dir(dir.path()).env("KUBECONFIG", "/dev/null");
    let Ok(parsed) = kubectl.output() else {
        println!("skipped: kubectl_parses_the_yaml_manifest: no kubectl");
        return;
    };
    assert!(parsed.status.success(), "{}", text(&parsed.stderr));
    let objects = serde_json::Deserializer::from_slice(&parsed.stdout).into_iter::<Value>();
    let objects: Vec<Value> = objects.collect::<Result<_, _>>().expect("kubectl prints JSON");
    assert_eq!(Value::from(objects), expected["items"]);
}

#[test]
fn invalid_kubernetes_options_are_rejected() {
    let dir = input_dir();
    let run = |rest: &[&str]| {
        let on = if rest.iter().any(|arg| arg.starts_with("--on")) { "--quiet" } else { "--on=kubernetes:a" };
        output(fleet(dir.path(), &[&["run", "three.toml", on], rest].concat()))
    };
    let cases: &[(&[&str], &str)] = &[
        (&[], "--on kubernetes requires --image with nearfar\nhint: "),
        (&[IMAGE, "--ssh-option=-v"], "--ssh-option: Kubernetes does not use ssh"),
        (&[IMAGE, "--detach"], "--detach: nearfar only writes a manifest"),
        (&[IMAGE, "--cpus=4"], "--memory <SIZE>"),
        (&[IMAGE, "--cpus=0", "--memory=1GiB"], "0 is not in 1..="),
        (&[IMAGE, "--results=here"], "expected an absolute path"),
        (&[IMAGE, "--results=/a/../b"], "expected an absolute path"),
        (&[IMAGE, "--toleration=a:Never"], "effects are NoSchedule"),
        (&["--image=a b"], "invalid image name 'a b'"),
        (&[IMAGE, "--on=kubernetes:Node_1"], "invalid Kubernetes node name 'Node_1'"),
        (&[IMAGE, "--", "--dry-run"], "node options: --dry-run is not supported"),
        (&[IMAGE, "--on=ssh:a"], "--image is for --on kubernetes"),
        (&["--output=x", "--on=slurm"], "--output is for --on kubernetes"),
    ];
    for (rest, expected) in cases {
        let output = run(rest);
        assert_eq!(output.status.code(), Some(2), "{rest:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{rest:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
    let status = output(fleet(dir.path(), &["status", "--on=kubernetes:a"]));
    assert_eq!(status.status.code(), Some(2), "{}", text(&status.stderr));
    assert!(text(&status.stderr).contains("hint: 'kubectl get "), "{}", text(&status.stderr));
    let named = output(fleet(dir.path(), &["collect", "x", "--on=kubernetes:a", IMAGE]));
    assert!(text(&named.stderr).contains("Kubernetes collects the results of all jobs"), "{}", text(&named.stderr));
}

/// A pod: its command, and one directory in place of its mounted job specification and results.
struct Pod {
    dir: TempDir,
    command: Vec<String>,
}

impl Pod {
    /// Creates the pod of a manifest, as Kubernetes would.
    fn new(job: &str, args: &[&str]) -> Self {
        let dir = input_dir();
        let name = format!("--name={job}");
        let run = ["run", "three.toml", "--on=kubernetes:node-a", IMAGE, "--format=json", &name, "--"];
        let list = json(fleet(dir.path(), &[&run[..], args].concat()), 0);
        for (key, value) in list["items"][0]["data"].as_object().expect("a map of strings") {
            std::fs::write(dir.path().join(key), value.as_str().expect("a string")).expect("the directory is writable");
        }
        let worker = &list["items"][1]["spec"]["template"]["spec"]["containers"][0];
        let mounted = worker["volumeMounts"][0]["mountPath"].as_str().expect("a path").to_string();
        let actual = dir.path().display().to_string();
        let args = worker["command"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let command = args.map(|arg| arg.replace(&mounted, &actual).replace("$(NEARFAR_NODE)", "node-a")).collect();
        Self { dir, command }
    }

    fn process(&self) -> Command {
        assert_eq!(self.command[0], "nearfar");
        let args: Vec<&str> = self.command[1..].iter().map(String::as_str).collect();
        nearfar(self.dir.path(), &args)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("fleet").join(JOB).join("node-a").join(name)
    }

    /// Size of the WAL in bytes.
    fn stored(&self) -> u64 {
        std::fs::metadata(self.file("results.db-wal")).map_or(0, |file| file.len())
    }
}

#[test]
fn killed_or_restarted_pod_resumes_and_stores_each_trial_once() {
    let sim = format!("{MODELS}/ryzen5-2600.xml:7");
    let pod = Pod::new(JOB, &["--sim", &sim]);
    for (kind, status) in [("KILL", None), ("TERM", Some(130))] {
        let before = pod.stored();
        let mut process =
            pod.process().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
        let limit = Limit::on(&process);
        until("the run has stored more trials", || pod.stored() > before + 100_000);
        // Stopped, so that the run cannot end before the signal.
        stop(process.id());
        let second = output(pod.process());
        assert_eq!(second.status.code(), Some(1), "{}", text(&second.stderr));
        assert!(text(&second.stderr).contains("'three' is already running"), "{}", text(&second.stderr));
        signal(kind, process.id());
        signal("CONT", process.id());
        assert_eq!(process.wait().expect("the process was signalled").code(), status);
        drop(limit);
    }
    let resumed = output(pod.process());
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert!(text(&resumed.stderr).contains("resuming run "), "{}", text(&resumed.stderr));
    let ended = output(pod.process());
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains(&format!("has ended with {TRIALS} trials")), "{}", text(&ended.stderr));
    // The imported run equals a run of the same machine, with the same name, without a pod.
    let file = pod.file("results.db").display().to_string();
    let pod_dir = pod.dir.path();
    assert!(output(nearfar(pod_dir, &["import", &file])).status.success());
    assert!(
        output(nearfar(pod_dir, &["run", "three.toml", "--sim", &sim, "--host-label=node-a", "--store=alone.db"]))
            .status
            .success()
    );
    let trials = |store: &[&str]| {
        json(nearfar(pod_dir, &[&["show", "--trials", "--format=json"], store].concat()), 0)["trials"].clone()
    };
    let collected = trials(&[]);
    assert_eq!(collected.as_array().map(Vec::len), Some(usize::try_from(TRIALS).expect("a small number")));
    assert_eq!(collected, trials(&["--store=alone.db"]));
}

#[test]
fn incompatible_pod_job_spec_is_rejected() {
    let pod = Pod::new(JOB, &["--sim=pu:2:1", "--smoke"]);
    let file = pod.dir.path().join("order.json");
    let original = std::fs::read_to_string(&file).expect("the job specification exists");
    for (changed, expected) in [
        (
            original.replace("\"protocol\": 1", "\"protocol\": 7"),
            "(protocol version 7), this node has nearfar 0.1.0 (protocol version 1)\nhint: use an image",
        ),
        ("not JSON".into(), "not a job specification"),
    ] {
        std::fs::write(&file, changed).expect("the file is writable");
        let rejected = output(pod.process());
        assert_eq!(rejected.status.code(), Some(2), "{}", text(&rejected.stderr));
        assert!(text(&rejected.stderr).contains(expected), "{}", text(&rejected.stderr));
    }
    std::fs::write(&file, &original).expect("the file is writable");
    assert!(output(pod.process()).status.success());
    std::fs::write(&file, original.replace("--smoke", "--seed=8")).expect("the file is writable");
    let other = output(pod.process());
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stderr));
    assert!(text(&other.stderr).contains("'three' has another experiment"), "{}", text(&other.stderr));
}
