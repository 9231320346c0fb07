//! A fleet run through a Slurm cluster on this machine: munge, the controller and two node daemons in a temporary
//! directory, without root.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use machine::topology::TopologySource;
use model::placements::placement::{KernelFeatures, lines, parse};
use model::values::shell::quote_argv;
use tempfile::TempDir;

use super::nodes::{Limit, descendants, freeze_all, is_alive, json, kill_all_with, output, signal, text, until, user};
use super::{JOB, MODELS, TRIALS, job_states, nasty, three_machines};

const NODES: [&str; 2] = ["node-a", "node-b"];

struct Cluster {
    dir: TempDir,
    daemons: Vec<Child>,
}

/// Starts a cluster. `None`, with a message, if Slurm is not installed or cannot run two nodes.
fn start(test: &str) -> Option<Cluster> {
    for program in ["munged", "slurmctld", "slurmd", "srun"] {
        // Daemons are in directories that the PATH of a user may lack.
        if Command::new(program).arg("--version").env("PATH", path()).output().is_err() {
            println!("skipped: {test}: no {program} (Debian's slurm-wlm and munge)");
            return None;
        }
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut cluster = Cluster { dir, daemons: Vec::new() };
    cluster.configure();
    let path = |name: &str| cluster.at(name).display().to_string();
    let files =
        ["socket", "key-file", "log-file", "pid-file", "seed-file"].map(|file| format!("--{file}={}", path(file)));
    let munge: Vec<&str> = ["--foreground", "--force"].into_iter().chain(files.iter().map(String::as_str)).collect();
    cluster.daemon("munged", &munge);
    until("munge listens", || cluster.at("socket").exists());
    cluster.daemon("slurmctld", &["-D"]);
    for node in NODES {
        std::fs::create_dir_all(cluster.at("spool").join(node)).expect("the directory is writable");
        cluster.daemon("slurmd", &["-D", "-N", node]);
    }
    if !cluster.wait_until_idle() {
        println!("skipped: {test}: this Slurm does not run two nodes on one machine");
        return None;
    }
    Some(cluster)
}

fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

impl Cluster {
    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn configure(&self) {
        let key: Vec<u8> = (0..=255).cycle().take(1024).collect();
        std::fs::write(self.at("key-file"), key).expect("the directory is writable");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(self.at("key-file"), private).expect("the key file exists");
        for dir in ["state", "spool", "data", "own"] {
            std::fs::create_dir_all(self.at(dir)).expect("the directory is writable");
        }
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("there are free ports"));
        let ports = listeners.map(|listener| listener.local_addr().expect("the socket is bound").port());
        let host = text(&output(captured("hostname", &["-s"])).stdout);
        let (host, user, dir) = (host.trim(), user(), self.dir.path().display());
        let configuration = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nAuthType=auth/munge\nAuthInfo=socket={dir}/socket\n\
             SlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool/%n\n\
             SlurmctldPidFile={dir}/ctld.pid\nSlurmdPidFile={dir}/slurmd-%n.pid\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\nSelectType=select/cons_tres\nReturnToService=2\nKillWait=2\n\
             NodeName={} NodeHostname={host} NodeAddr=127.0.0.1 Port={},{} CPUs=1 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            ports[0],
            NODES.join(","),
            ports[1],
            ports[2]
        );
        std::fs::write(self.at("slurm.conf"), configuration).expect("the directory is writable");
    }

    fn command(&self, program: &str) -> Command {
        let mut command = captured(program, &[]);
        command.env("PATH", path()).env("SLURM_CONF", self.at("slurm.conf")).env("XDG_DATA_HOME", self.at("data"));
        command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", self.at("own")).current_dir(self.dir.path());
        command
    }

    fn daemon(&mut self, program: &str, args: &[&str]) {
        let mut command = self.command(program);
        let child = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(child.expect("the daemon starts"));
    }

    /// Waits up to a minute until all nodes are idle; returns `false` on timeout or if a daemon ends.
    fn wait_until_idle(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            let ended = self.daemons.iter_mut().any(|daemon| daemon.try_wait().is_ok_and(|status| status.is_some()));
            if ended || self.is_idle() {
                return !ended;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    fn is_idle(&self) -> bool {
        let mut command = self.command("sinfo");
        command.args(["--noheader", "--Node", "--states=idle", "--format=%N"]);
        text(&output(command).stdout).lines().count() == NODES.len()
    }

    fn fleet(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(self.at("collected.db")).arg("fleet").args(&args[..1]);
        command.arg(format!("--program={}", env!("CARGO_BIN_EXE_nearfar"))).args(["--format", "json"]);
        command.args(&args[1..]);
        command
    }

    fn run(&self) -> Command {
        let (file, sim) = (self.at("three.toml").display().to_string(), self.at("{node}.xml:7").display().to_string());
        let mut command = self.fleet(&["run", &file, "--on", "slurm:all", "--name", JOB, "--patience", "1s"]);
        command.args(["--", "--sim", &sim]);
        command
    }

    fn job(&self, node: &str) -> PathBuf {
        self.at("data").join("nearfar/fleet").join(JOB).join(node)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            for pid in descendants(daemon.id()).into_iter().chain([daemon.id()]) {
                signal("KILL", pid);
            }
            let _ = daemon.wait(); // was killed
        }
        kill_all_with(self.dir.path());
    }
}

fn captured(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn killed_slurm_job_resumes_and_each_trial_is_stored_once() {
    let Some(cluster) = start("a fleet through Slurm") else { return };
    for (node, model) in NODES.iter().zip(["ryzen5-2600", "rk3399"]) {
        std::fs::copy(format!("{MODELS}/{model}.xml"), cluster.at(&format!("{node}.xml"))).expect("the model exists");
    }
    std::fs::write(cluster.at("three.toml"), three_machines()).expect("the directory is writable");

    let mut run = cluster.run().spawn().expect("the program starts");
    let limit = Limit::on(&run);
    let pids = freeze_all(&NODES.map(|node| cluster.job(node)), 20_000);
    let lines = BufReader::new(run.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut silent = NODES.to_vec();
    for line in lines.filter(|line| line.contains("queens @ ")) {
        silent.retain(|node| !line.starts_with(node));
        if silent.is_empty() {
            break;
        }
    }
    assert!(silent.is_empty(), "no progress of {silent:?} was printed");
    drop(limit);
    run.kill().expect("the coordinator is running");
    run.wait().expect("the coordinator was killed");
    let jobs = output({
        let mut command = cluster.command("squeue");
        command.args(["--noheader", "--format=%j|%T|%h"]);
        command
    });
    let mut jobs: Vec<String> = text(&jobs.stdout).lines().map(|line| line.trim().to_string()).collect();
    jobs.sort();
    assert_eq!(jobs, NODES.map(|node| format!("nearfar-{JOB}@{node}|RUNNING|NO")), "one exclusive job per node");
    let status = json(cluster.fleet(&["status", "--on", "slurm"]), 0);
    assert!(job_states(&status).iter().all(|(state, trials)| state == "running" && *trials < TRIALS), "{status}");

    // A failing node: its run is killed, and Slurm ends its job.
    signal("KILL", pids[1]);
    signal("CONT", pids[0]);
    until("the run is gone", || !is_alive(pids[1]));
    let status = json(cluster.run(), 0);
    assert_eq!(job_states(&status), vec![("ended".to_string(), TRIALS); 2], "{status}");
    for trials in [TRIALS, 0] {
        let collected = json(cluster.fleet(&["collect", "--on", "slurm:all"]), 0);
        let added = |node: usize| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64();
        assert_eq!((added(0), added(1)), (Some(trials), Some(trials)), "{collected}");
    }
    for (args, status, expected) in [
        (&["status", "--on", "slurm:nosuch"][..], 2, "no such Slurm partition"),
        (&["status", "--on", "slurm:a b"], 2, "invalid job name 'a b'"),
    ] {
        let output = output(cluster.fleet(args));
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    let mut command = cluster.command(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["fleet", "status", "--on", "slurm", "--program", "/no/such; touch pwned"]);
    let missing = output(command);
    assert_eq!(missing.status.code(), Some(77), "{}", text(&missing.stderr));
    assert!(
        text(&missing.stderr).contains("node-a: there is no program /no/such; touch pwned"),
        "{}",
        text(&missing.stderr)
    );
    assert!(!cluster.at("pwned").exists());
}

#[test]
fn slurm_options_apply_to_all_jobs_of_the_listed_nodes() {
    let Some(cluster) = start("slurm_options_apply_to_all_jobs_of_the_listed_nodes") else { return };
    let options = ["--on=slurm", "--nodelist=node-b", "--account=physics"];
    let run = [&["run", "quick", "--name=x", "--time=1:30:00"], &options[..], &["--", "--sim=pu:2:1", "--budget=1s"]];
    let run = output(cluster.fleet(&run.concat()));
    assert!(run.status.success(), "{}", text(&run.stderr));
    let status: serde_json::Value = serde_json::from_slice(&run.stdout).expect("the output is JSON");
    assert_eq!(status["nodes"].as_array().map(Vec::len), Some(1), "{status}");
    assert!(text(&run.stderr).trim_end().ends_with("--nodelist=node-b --account=physics"), "{}", text(&run.stderr));
    let listed = |states: &str| {
        let mut jobs = cluster.command("squeue");
        jobs.args(["--noheader", "--format=%j|%a|%l|%N", states]);
        text(&output(jobs).stdout)
    };
    // While the batch job is running, a request is a step of it.
    until("the batch job has ended", || listed("--states=running,completing").is_empty());
    assert_eq!(job_states(&json(cluster.fleet(&[&["status"], &options[..]].concat()), 0))[0].0, "ended");
    let jobs = listed("--states=all");
    let (batch, requests): (Vec<&str>, Vec<&str>) = jobs.lines().partition(|line| line.starts_with("nearfar-"));
    assert_eq!(batch, ["nearfar-x@node-b|physics|1:30:00|node-b"]);
    assert!(!requests.is_empty() && requests.iter().all(|job| *job == "nearfar|physics|UNLIMITED|node-b"), "{jobs}");
    let unknown = output(cluster.fleet(&["status", "--on=slurm", "--nodelist=node-[1-2]"]));
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown.stderr));
    let expected = "nearfar: --nodelist: node-1 is not in the partition\nhint: sinfo lists";
    assert!(text(&unknown.stderr).contains(expected), "{}", text(&unknown.stderr));
}

/// The printed line for a command on CPU 0 of a machine with two memory nodes.
fn slurm_line(command: &str) -> String {
    let source = TopologySource::XmlFile(format!("{MODELS}/xeon-e5-2640-x2.xml").into());
    let machine = machine::topology::read(&source).expect("the model exists");
    let features = KernelFeatures { weighted_interleave: false, far: false };
    let placement = parse(&machine, "-C 0", None, features).expect("a valid placement");
    lines(&placement, &machine, command).slurm.expect("CPUs can be expressed")
}

/// Lists in one line, because each line starts a job step.
const BATCH: usize = 50;
/// The argument after each list.
const END: &str = "\u{1}";

/// Returns the printed lines that print the words of all lists.
fn slurm_lines(lists: &[Vec<String>]) -> Vec<String> {
    let line = |lists: &[Vec<String>]| {
        let words = lists.iter().flat_map(|words| words.iter().map(String::as_str).chain([END]));
        slurm_line(&quote_argv(&["/usr/bin/env", "printf", "%s\\0"].into_iter().chain(words).collect::<Vec<_>>()))
    };
    lists.chunks(BATCH).map(line).collect()
}

/// Checks the arguments that the programs printed.
fn check_printed(printed: &[u8], lists: &[Vec<String>], stderr: &[u8]) {
    let (printed, end) = (text(printed), format!("{END}\0"));
    let printed: Vec<Vec<&str>> =
        printed.split_terminator(&end).map(|list| list.split_terminator('\0').collect()).collect();
    assert_eq!(printed, lists, "{}", text(stderr));
}

#[test]
fn slurm_lines_run_the_original_arguments() {
    let Some(cluster) = start("slurm_lines_run_the_original_arguments") else { return };
    let lists = nasty::lists();
    // Typed in a shell: each line is a job.
    let typed = &lists[lists.len() - 2 * BATCH..];
    for (line, lists) in slurm_lines(typed).iter().zip(typed.chunks(BATCH)) {
        let mut shell = cluster.command("sh");
        shell.args(["-c", line]);
        let output = output(shell);
        check_printed(&output.stdout, lists, &output.stderr);
    }
    // In a batch job: each line is a step of it. An argument of a program is limited to 128 KiB.
    for lists in lists.chunks(5 * BATCH) {
        let mut job = cluster.command("sbatch");
        job.args(["--wait", "--ntasks=1", "--output=printed", "--error=messages", "--open-mode=truncate"]);
        job.arg(format!("--wrap={}", slurm_lines(lists).join("\n")));
        let output = output(job);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read = |name: &str| std::fs::read(cluster.at(name)).expect("Slurm writes it");
        check_printed(&read("printed"), lists, &read("messages"));
    }
}
