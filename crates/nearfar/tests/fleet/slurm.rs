//! A cluster for tests: Slurm's controller and two of its node daemons on this machine, with munge beside them, all in a scratch folder and
//! by whoever runs the tests; and a fleet run through it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::nodes::{Limit, descendants, freeze, is_alive, json, kill_all_with, output, signal, text, until, user};
use super::{JOB, MODELS, TRIALS, stands, three_machines};

const NODES: [&str; 2] = ["node-a", "node-b"];

struct Cluster {
    folder: TempDir,
    daemons: Vec<Child>,
}

/// Starts one; none where there is no Slurm, which is said.
fn start(test: &str) -> Option<Cluster> {
    for program in ["munged", "slurmctld", "slurmd", "srun"] {
        // Those of administrators are not in everybody's PATH.
        if Command::new(program).arg("--version").env("PATH", path()).output().is_err() {
            println!("skipped: {test}: no {program} (Debian's slurm-wlm and munge)");
            return None;
        }
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut cluster = Cluster { folder, daemons: Vec::new() };
    cluster.configure();
    let at = |name: &str| cluster.at(name).display().to_string();
    let munge =
        ["socket", "key-file", "log-file", "pid-file", "seed-file"].map(|file| format!("--{file}={}", at(file)));
    let foreground: Vec<&str> =
        ["--foreground", "--force"].into_iter().chain(munge.iter().map(String::as_str)).collect();
    cluster.daemon("munged", &foreground);
    until("munge listens", || cluster.at("socket").exists());
    cluster.daemon("slurmctld", &["-D"]);
    for node in NODES {
        std::fs::create_dir_all(cluster.at("spool").join(node)).expect("the folder can be written");
        cluster.daemon("slurmd", &["-D", "-N", node]);
    }
    if !cluster.comes_up() {
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
        self.folder.path().join(name)
    }

    fn configure(&self) {
        let key: Vec<u8> = (0..=255).cycle().take(1024).collect();
        std::fs::write(self.at("key-file"), key).expect("the folder can be written");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(self.at("key-file"), private).expect("it was just written");
        for folder in ["state", "spool", "data", "own"] {
            std::fs::create_dir_all(self.at(folder)).expect("the folder can be written");
        }
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("there are free ports"));
        let ports = listeners.map(|listener| listener.local_addr().expect("it listens").port());
        let host = text(&output(captured("hostname", &["-s"])).stdout);
        let (host, user, folder) = (host.trim(), user(), self.folder.path().display());
        let configuration = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nAuthType=auth/munge\nAuthInfo=socket={folder}/socket\n\
             SlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool/%n\n\
             SlurmctldPidFile={folder}/ctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\nSelectType=select/cons_tres\nReturnToService=2\nKillWait=2\n\
             NodeName={} NodeHostname={host} NodeAddr=127.0.0.1 Port={},{} CPUs=1 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            ports[0],
            NODES.join(","),
            ports[1],
            ports[2]
        );
        std::fs::write(self.at("slurm.conf"), configuration).expect("the folder can be written");
    }

    fn command(&self, program: &str) -> Command {
        let mut command = captured(program, &[]);
        command.env("PATH", path()).env("SLURM_CONF", self.at("slurm.conf")).env("XDG_DATA_HOME", self.at("data"));
        command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", self.at("own")).current_dir(self.folder.path());
        command
    }

    fn daemon(&mut self, program: &str, args: &[&str]) {
        let mut command = self.command(program);
        let child = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(child.expect("it is there"));
    }

    /// Whether it does before one of its daemons gives up, and in a minute.
    fn comes_up(&mut self) -> bool {
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
        command.arg("--store").arg(self.at("here.db")).arg("fleet").args(args);
        command.arg(format!("--program={}", env!("CARGO_BIN_EXE_nearfar"))).args(["--format", "json"]);
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
            let _ = daemon.wait(); // it was killed
        }
        kill_all_with(self.folder.path());
    }
}

fn captured(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn through_slurm_a_job_that_is_killed_goes_on_and_every_trial_is_there_once() {
    let Some(cluster) = start("a fleet through Slurm") else { return };
    for (node, model) in NODES.iter().zip(["ryzen5-2600", "rk3399"]) {
        std::fs::copy(format!("{MODELS}/{model}.xml"), cluster.at(&format!("{node}.xml"))).expect("it is there");
    }
    std::fs::write(cluster.at("three.toml"), three_machines()).expect("the folder can be written");

    let mut run = cluster.run().spawn().expect("the program starts");
    let limit = Limit::on(&run);
    let pids = NODES.map(|node| freeze(&cluster.job(node), 20_000));
    let says = BufReader::new(run.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut unheard = NODES.to_vec();
    for line in says.filter(|line| line.contains("queens @ ")) {
        unheard.retain(|node| !line.starts_with(node));
        if unheard.is_empty() {
            break;
        }
    }
    assert!(unheard.is_empty(), "both are watched, and {unheard:?} said nothing");
    drop(limit);
    run.kill().expect("it runs");
    run.wait().expect("it was killed");
    let jobs = output({
        let mut command = cluster.command("squeue");
        command.args(["--noheader", "--format=%j|%T|%h"]);
        command
    });
    let mut jobs: Vec<String> = text(&jobs.stdout).lines().map(|line| line.trim().to_string()).collect();
    jobs.sort();
    assert_eq!(jobs, NODES.map(|node| format!("nearfar-{JOB}@{node}|RUNNING|NO")), "one exclusive job for each");
    let looks = json(cluster.fleet(&["status", "--on", "slurm"]), 0);
    assert!(stands(&looks).iter().all(|(state, trials)| state == "running" && *trials < TRIALS), "{looks}");

    // As when a node fails: its run is gone, and with it its job.
    signal("KILL", pids[1]);
    signal("CONT", pids[0]);
    until("the run is gone", || !is_alive(pids[1]));
    let looks = json(cluster.run(), 0);
    assert_eq!(stands(&looks), vec![("ended".to_string(), TRIALS); 2], "{looks}");
    for trials in [TRIALS, 0] {
        let collected = json(cluster.fleet(&["collect", "--on", "slurm:all"]), 0);
        let added = |node: usize| collected["nodes"][node]["jobs"][0]["trials_added"].as_u64();
        assert_eq!((added(0), added(1)), (Some(trials), Some(trials)), "{collected}");
    }
    for (args, status, expected) in [
        (&["status", "--on", "slurm:nosuch"][..], 2, "no such Slurm partition"),
        (&["status", "--on", "slurm:a b"], 2, "invalid job name 'a b'"),
    ] {
        let said = output(cluster.fleet(args));
        assert_eq!(said.status.code(), Some(status), "{}", text(&said.stderr));
        assert!(text(&said.stderr).contains(expected), "{}", text(&said.stderr));
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
