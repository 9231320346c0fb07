//! `nearfar fleet` on Kubernetes without a cluster: what is written, what `kubectl` reads in it where that is installed, what is refused; and
//! the pod's process itself, which finds its order as in a pod, is killed, told to end, and started again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::nodes::{Limit, json, output, signal, stop, text, until};
use super::{JOB, MODELS, TRIALS, three_machines};

const IMAGE: &str = "--image=registry.example.org/nearfar:0.1";

fn nearfar(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(args).current_dir(folder).env("NEARFAR_STORE", folder.join("results.db"));
    command.env("NEARFAR_STATE", folder.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn fleet(folder: &Path, args: &[&str]) -> Command {
    let words: Vec<&str> = ["fleet"].into_iter().chain(args.iter().copied()).collect();
    nearfar(folder, &words)
}

fn scratch() -> TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    std::fs::write(folder.path().join("three.toml"), three_machines()).expect("the folder can be written");
    folder
}

#[test]
fn a_job_is_as_its_reader_wants_it() {
    let folder = scratch();
    let words = ["run", "three.toml", "--on=kubernetes:node-1", IMAGE, "--name=monday", "--cpus=16", "--memory=32GiB"];
    let rest = ["--toleration=dedicated=nearfar:NoSchedule", "--", "--seed", "7"];
    let written = output(fleet(folder.path(), &[&words[..], &rest].concat()));
    assert!(written.status.success(), "{}", text(&written.stderr));
    insta::assert_snapshot!("kubernetes_job", text(&written.stdout).replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    insta::assert_snapshot!("kubernetes_next", text(&written.stderr));
}

#[test]
fn nodes_with_a_label_have_a_daemon_set() {
    let folder = scratch();
    let words = ["run", "three.toml", "--on=kubernetes:disk=nvme", IMAGE, "--format=json", "--", "--quieten=all"];
    let list = json(fleet(folder.path(), &words), 0);
    let set = &list["items"][1];
    assert_eq!((&set["kind"], &list["kind"]), (&"DaemonSet".into(), &"List".into()));
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"]["disk"], "nvme");
    assert_eq!(pod["initContainers"][0]["securityContext"]["privileged"], true, "settings are to be changed");
    let said = output(fleet(folder.path(), &[&words[..4], &["--output=set.yaml"], &words[5..]].concat()));
    let said = text(&said.stderr);
    assert!(said.contains("privileged, with access to the processes of the node, because of --quieten"), "{said}");
    assert!(said.contains("next: kubectl apply -f set.yaml"), "{said}");
    assert!(folder.path().join("set.yaml").exists());
    let collect = json(fleet(folder.path(), &["collect", "--on=kubernetes:a,b", IMAGE, "--format=json"]), 0);
    let names: Vec<&str> = collect["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["nearfar-collect-a", "nearfar-collect-b"]);
}

/// `kubectl` reads YAML by rules of its own, older ones than those of today.
#[test]
fn kubectl_reads_what_was_written() {
    let folder = scratch();
    let words =
        |format| ["run", "three.toml", "--on=kubernetes:y,1.0,node-3", IMAGE, "--name=1e3", "--output=jobs", format];
    let expected = output(fleet(folder.path(), &words("--format=json")));
    assert!(expected.status.success(), "{}", text(&expected.stderr));
    let read = std::fs::read(folder.path().join("jobs")).expect("it was written");
    let expected: Value = serde_json::from_slice(&read).expect("it is JSON");
    assert!(output(fleet(folder.path(), &words("--format=text"))).status.success());
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["label", "--local", "--overwrite", "-f", "jobs", "nearfar-job=1e3", "-o", "json"]);
    kubectl.current_dir(folder.path()).env("KUBECONFIG", "/dev/null");
    let Ok(read) = kubectl.output() else {
        println!("skipped: kubectl_reads_what_was_written: no kubectl");
        return;
    };
    assert!(read.status.success(), "{}", text(&read.stderr));
    let objects = serde_json::Deserializer::from_slice(&read.stdout).into_iter::<Value>();
    let objects: Vec<Value> = objects.collect::<Result<_, _>>().expect("it prints JSON");
    assert_eq!(Value::from(objects), expected["items"]);
}

#[test]
fn what_no_cluster_could_do_is_refused() {
    let folder = scratch();
    let run = |rest: &[&str]| {
        let on = if rest.iter().any(|word| word.starts_with("--on")) { "--quiet" } else { "--on=kubernetes:a" };
        output(fleet(folder.path(), &[&["run", "three.toml", on], rest].concat()))
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
        let said = run(rest);
        assert_eq!(said.status.code(), Some(2), "{rest:?}: {}", text(&said.stderr));
        assert!(text(&said.stderr).contains(expected), "{rest:?}: {}", text(&said.stderr));
        assert!(said.stdout.is_empty());
    }
    let asked = output(fleet(folder.path(), &["status", "--on=kubernetes:a"]));
    assert_eq!(asked.status.code(), Some(2), "{}", text(&asked.stderr));
    assert!(text(&asked.stderr).contains("hint: 'kubectl get "), "{}", text(&asked.stderr));
    let named = output(fleet(folder.path(), &["collect", "x", "--on=kubernetes:a", IMAGE]));
    assert!(text(&named.stderr).contains("Kubernetes collects the results of all jobs"), "{}", text(&named.stderr));
}

/// A node as a pod has it: the folder with its order, and the one that it shares with the machine.
struct Pod {
    folder: TempDir,
    command: Vec<String>,
}

impl Pod {
    /// As Kubernetes would make it of a manifest.
    fn of(job: &str, words: &[&str]) -> Self {
        let folder = scratch();
        let name = format!("--name={job}");
        let run = ["run", "three.toml", "--on=kubernetes:node-a", IMAGE, "--format=json", &name, "--"];
        let list = json(fleet(folder.path(), &[&run[..], words].concat()), 0);
        for (key, value) in list["items"][0]["data"].as_object().expect("a map of texts") {
            std::fs::write(folder.path().join(key), value.as_str().expect("a text"))
                .expect("the folder can be written");
        }
        let worker = &list["items"][1]["spec"]["template"]["spec"]["containers"][0];
        let mounted = worker["volumeMounts"][0]["mountPath"].as_str().expect("a path").to_string();
        let here = folder.path().display().to_string();
        let words = worker["command"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let command = words.map(|word| word.replace(&mounted, &here).replace("$(NEARFAR_NODE)", "node-a")).collect();
        Self { folder, command }
    }

    fn process(&self) -> Command {
        assert_eq!(self.command[0], "nearfar");
        let words: Vec<&str> = self.command[1..].iter().map(String::as_str).collect();
        nearfar(self.folder.path(), &words)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("fleet").join(JOB).join("node-a").join(name)
    }

    /// How many bytes of trials are there.
    fn stored(&self) -> u64 {
        std::fs::metadata(self.file("results.db-wal")).map_or(0, |file| file.len())
    }
}

#[test]
fn a_pod_that_was_killed_or_moved_goes_on_and_every_trial_is_there_once() {
    let sim = format!("{MODELS}/ryzen5-2600.xml:7");
    let pod = Pod::of(JOB, &["--sim", &sim]);
    for (kind, status) in [("KILL", None), ("TERM", Some(130))] {
        let before = pod.stored();
        let mut process =
            pod.process().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
        let limit = Limit::on(&process);
        until("it has stored some trials more", || pod.stored() > before + 100_000);
        // In its middle, however fast it is.
        stop(process.id());
        let again = output(pod.process());
        assert_eq!(again.status.code(), Some(1), "{}", text(&again.stderr));
        assert!(text(&again.stderr).contains("'three' is already running"), "{}", text(&again.stderr));
        signal(kind, process.id());
        signal("CONT", process.id());
        assert_eq!(process.wait().expect("it was told to end").code(), status);
        drop(limit);
    }
    let rest = output(pod.process());
    assert!(rest.status.success(), "{}", text(&rest.stderr));
    assert!(text(&rest.stderr).contains("resuming run "), "{}", text(&rest.stderr));
    let none = output(pod.process());
    assert!(none.status.success(), "{}", text(&none.stderr));
    assert!(text(&none.stderr).contains(&format!("has ended with {TRIALS} trials")), "{}", text(&none.stderr));
    // As by hand: what is collected is that machine's run, under its name.
    let file = pod.file("results.db").display().to_string();
    let here = pod.folder.path();
    assert!(output(nearfar(here, &["import", &file])).status.success());
    assert!(
        output(nearfar(here, &["run", "three.toml", "--sim", &sim, "--host-label=node-a", "--store=alone.db"]))
            .status
            .success()
    );
    let trials = |store: &[&str]| {
        json(nearfar(here, &[&["show", "--trials", "--format=json"], store].concat()), 0)["trials"].clone()
    };
    let collected = trials(&[]);
    assert_eq!(collected.as_array().map(Vec::len), Some(usize::try_from(TRIALS).expect("a small number")));
    assert_eq!(collected, trials(&["--store=alone.db"]));
}

#[test]
fn an_order_that_is_not_for_this_program_is_refused() {
    let pod = Pod::of(JOB, &["--sim=pu:2:1", "--smoke"]);
    let order = pod.folder.path().join("order.json");
    let text_of = std::fs::read_to_string(&order).expect("it was written");
    for (changed, expected) in [
        (
            text_of.replace("\"protocol\": 1", "\"protocol\": 7"),
            "(protocol version 7), this node has nearfar 0.1.0 (protocol version 1)\nhint: use an image",
        ),
        ("not JSON".into(), "not a job specification"),
    ] {
        std::fs::write(&order, changed).expect("it can be written");
        let refused = output(pod.process());
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
    std::fs::write(&order, &text_of).expect("it can be written");
    assert!(output(pod.process()).status.success());
    std::fs::write(&order, text_of.replace("--smoke", "--seed=8")).expect("it can be written");
    let other = output(pod.process());
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stderr));
    assert!(text(&other.stderr).contains("'three' has another experiment"), "{}", text(&other.stderr));
}
