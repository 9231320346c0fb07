//! Nodes for tests: servers of OpenSSH on this machine's loopback, each with its own key, its own results and its own state. Whoever runs
//! the tests logs in as himself with a key made for that, and nothing outside the scratch folder is changed.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::scratch::{Scratch, processes};
pub use super::scratch::{kill_all_with, signal};

const SSHD: &str = "/usr/sbin/sshd";

/// Longer than anything here takes on a busy machine; a hang is what it is for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A machine, as far as ssh can tell.
pub struct Node {
    /// As ssh's configuration has it.
    pub name: String,
    folder: PathBuf,
    port: u16,
    server: Option<Child>,
}

/// Some of them, and a place for whoever asks them.
pub struct Nodes {
    pub folder: Scratch,
    pub nodes: Vec<Node>,
}

/// Starts nodes; none where there is no OpenSSH.
pub fn start(names: &[&str], test: &str) -> Option<Nodes> {
    if !Path::new(SSHD).exists() || Command::new("ssh").arg("-V").output().is_err() {
        println!("skipped: {test}: no {SSHD} (Debian's openssh-server)");
        return None;
    }
    // Debian makes it when the service starts, which is not wanted here.
    if !Path::new("/run/sshd").exists() && user() == "root" {
        std::fs::create_dir_all("/run/sshd").expect("root can make folders in /run");
    }
    let folder = Scratch::new();
    for key in ["user", "host", "stranger"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(folder.path().join(key))
            .status();
        assert!(made.expect("ssh-keygen comes with ssh").success());
    }
    let mut nodes = Nodes { folder, nodes: Vec::new() };
    for name in names {
        let folder = nodes.folder.path().join(name);
        std::fs::create_dir_all(folder.join("state")).expect("the folder can be written");
        let mut node = Node { name: (*name).into(), folder, port: 0, server: None };
        node.serve(nodes.folder.path());
        nodes.nodes.push(node);
    }
    nodes.write_configuration("user", true);
    Some(nodes)
}

pub fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("everybody has id");
    String::from_utf8(output.stdout).expect("names are text").trim().into()
}

impl Node {
    /// Starts its server, on the port that it had before.
    pub fn serve(&mut self, shared: &Path) {
        // A port that is free now may be taken by another test a moment later; then another one is.
        for _ in 0..20 {
            if self.port == 0 {
                let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
                self.port = free.expect("there are free ports").port();
            }
            if self.try_serve(shared) {
                return;
            }
            self.port = 0;
        }
        panic!("no server of {} could be started", self.name);
    }

    fn try_serve(&mut self, shared: &Path) -> bool {
        let (folder, shared) = (self.folder.display(), shared.display());
        let configuration = format!(
            "Port {}\nListenAddress 127.0.0.1\nHostKey {shared}/host\nAuthorizedKeysFile {shared}/user.pub\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv XDG_DATA_HOME={folder} NEARFAR_STATE={folder}/state\n",
            self.port
        );
        let file = self.folder.join("sshd_config");
        std::fs::write(&file, configuration).expect("the folder can be written");
        let mut server = Command::new(SSHD);
        server.args(["-D", "-e", "-f"]).arg(&file).env_remove("NEARFAR_STORE").env_remove("XDG_DATA_HOME");
        let mut server = server.stderr(Stdio::piped()).spawn().expect("sshd starts");
        let mut lines = BufReader::new(server.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let listens = lines.any(|line| line.contains("Server listening on 127.0.0.1"));
        // Somebody has to read what it says, or it waits for that.
        std::thread::spawn(move || lines.for_each(drop));
        if !listens {
            server.wait().expect("it has ended");
            return false;
        }
        self.server = Some(server);
        true
    }

    /// The folder of a job on it.
    pub fn job(&self, job: &str) -> PathBuf {
        self.folder.join("nearfar/fleet").join(job).join(&self.name)
    }

    /// The process that a job's lock names.
    pub fn runner(&self, job: &str) -> Option<u32> {
        runner(&self.job(job))
    }

    /// As when the power goes: its server, everybody who is logged in, and the run.
    pub fn power_off(&mut self, run: u32) {
        let mut server = self.server.take().expect("it is on");
        for pid in descendants(server.id()).into_iter().chain([server.id(), run]) {
            signal("KILL", pid);
        }
        server.wait().expect("it was killed");
        until("the run is gone", || !is_alive(run));
    }
}

impl Nodes {
    /// How ssh finds them, with which key, and whether it knows their keys.
    pub fn write_configuration(&self, key: &str, known: bool) {
        let folder = self.folder.path().display();
        let host = std::fs::read_to_string(self.folder.path().join("host.pub")).expect("it was made");
        let ports = || self.nodes.iter().map(|node| (&node.name, node.port));
        let hosts: String = ports().map(|(_, port)| format!("[127.0.0.1]:{port} {host}")).collect();
        let named: String =
            ports().map(|(name, port)| format!("Host {name}\n HostName 127.0.0.1\n Port {port}\n")).collect();
        let text = format!(
            "{named}Host refused\n HostName 127.0.0.1\n Port 1\nHost unresolved\n HostName nowhere.invalid\nHost *\n \
             User {}\n IdentityFile {folder}/{key}\n IdentitiesOnly yes\n IdentityAgent none\n \
             UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n",
            user()
        );
        let write = |name: &str, text: &str| std::fs::write(self.folder.path().join(name), text);
        write("ssh_config", &text).expect("the folder can be written");
        write("known_hosts", if known { &hosts } else { "" }).expect("the folder can be written");
    }

    /// Stops the run of a job on every node in its middle, and gives their processes.
    pub fn freeze(&self, job: &str, bytes: u64) -> Vec<u32> {
        std::thread::scope(|scope| {
            let freeze = |node: &Node| {
                let folder = node.job(job);
                scope.spawn(move || freeze(&folder, bytes))
            };
            let frozen: Vec<_> = self.nodes.iter().map(freeze).collect();
            frozen.into_iter().map(|frozen| frozen.join().expect("it is in its middle once")).collect()
        })
    }

    /// `nearfar` of whoever asks, with its own results file.
    pub fn nearfar(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(self.folder.path().join("here.db")).args(args).current_dir(self.folder.path());
        command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", self.folder.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `nearfar fleet ...` with these nodes, by the program under test; `rest` may bring another one.
    pub fn fleet(&self, what: &str, nodes: &str, rest: &[&str]) -> Command {
        let file = self.folder.path().join("ssh_config");
        let ssh = format!("--ssh-option={}", file.display());
        let program = format!("--program={}", env!("CARGO_BIN_EXE_nearfar"));
        let own = !rest.iter().any(|word| word.starts_with("--program"));
        let on = format!("--on=ssh:{nodes}");
        let mut args = vec!["fleet", what, "--ssh-option=-F", &ssh, &on];
        args.extend(own.then_some(program.as_str()));
        args.extend(rest);
        self.nearfar(&args)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // A test that failed leaves runs, also stopped ones.
        kill_all_with(self.folder.path());
        for server in self.nodes.iter_mut().filter_map(|node| node.server.as_mut()) {
            for pid in descendants(server.id()).into_iter().chain([server.id()]) {
                signal("KILL", pid);
            }
            let _ = server.wait(); // it was killed
        }
    }
}

/// What a command wrote and how it ended.
pub fn output(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let _limit = Limit::on(&child);
    child.wait_with_output().expect("it can be waited for")
}

/// Ends a process that takes too long, unless it is dropped before: a fault is to fail and not to hang.
pub struct Limit {
    _in_time: mpsc::Sender<()>,
}

impl Limit {
    /// On a process that runs.
    pub fn on(child: &Child) -> Self {
        let (in_time, over) = mpsc::channel();
        let pid = child.id();
        std::thread::spawn(move || {
            if over.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                signal("KILL", pid);
            }
        });
        Self { _in_time: in_time }
    }
}

/// A stream of it as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Its JSON, after it ended with this status.
pub fn json(command: Command, status: i32) -> serde_json::Value {
    let output = output(command);
    assert_eq!(output.status.code(), Some(status), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// Waits for something to become true.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the run in a job's folder has stored so many bytes and said of a trial that it did, and stops it there: it is running, and
/// does not end meanwhile.
pub fn freeze(job: &Path, bytes: u64) -> u32 {
    let stored = || std::fs::metadata(job.join("results.db-wal")).map_or(0, |file| file.len());
    let has_said = || std::fs::read_to_string(job.join("log")).is_ok_and(|log| log.contains(" @ "));
    until(&format!("{} has {bytes} bytes of results", job.display()), || stored() >= bytes && has_said());
    let pid = runner(job).expect("who has stored has written itself down");
    stop(pid);
    pid
}

/// The process that the lock in a job's folder names.
fn runner(job: &Path) -> Option<u32> {
    std::fs::read_to_string(job.join("lock")).ok()?.trim().parse().ok()
}

/// Stops a process, and waits until it stands: a thread that is in a system call first ends that, and may have stored by it.
pub fn stop(pid: u32) {
    signal("STOP", pid);
    let stands = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it is there").flatten();
        threads.map(|thread| thread.path().join("stat")).all(|file| state(&file).is_some_and(|(_, state)| state == "T"))
    };
    until("it stands still", stands);
}

/// Whether a process is there and is not only waiting to be reaped.
pub fn is_alive(pid: u32) -> bool {
    status_of(pid).is_some_and(|(_, state)| state != "Z")
}

/// Processes that a process has started, and those that these have.
pub fn descendants(of: u32) -> Vec<u32> {
    let parent = |pid: &u32| status_of(*pid).map(|(parent, _)| parent).filter(|parent| *parent > 1);
    processes()
        .into_iter()
        .filter(|pid| std::iter::successors(Some(*pid), parent).skip(1).any(|above| above == of))
        .collect()
}

/// A process's parent, and its state as one letter.
fn status_of(pid: u32) -> Option<(u32, String)> {
    state(Path::new(&format!("/proc/{pid}/stat")))
}

/// The same from the file about it, or about one of its threads.
fn state(file: &Path) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(file).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let state = words.next()?.to_string();
    Some((words.next()?.parse().ok()?, state))
}
