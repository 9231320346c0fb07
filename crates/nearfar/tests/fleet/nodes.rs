//! Nodes for tests: OpenSSH servers on the loopback interface, each with its own port, results and state. The user who
//! runs the tests logs in with a temporary key; all files are in the temporary directory.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::scratch::{Scratch, processes};
pub use super::scratch::{kill_all_with, signal};

const SSHD: &str = "/usr/sbin/sshd";

/// Timeout of every wait; longer than any of them takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Node {
    /// `Host` in the configuration of ssh.
    pub name: String,
    dir: PathBuf,
    port: u16,
    server: Option<Child>,
}

/// Nodes and the directory of the coordinator.
pub struct Nodes {
    pub dir: Scratch,
    pub nodes: Vec<Node>,
}

/// Starts nodes. `None` if OpenSSH is not installed.
pub fn start(names: &[&str], test: &str) -> Option<Nodes> {
    if !Path::new(SSHD).exists() || Command::new("ssh").arg("-V").output().is_err() {
        println!("skipped: {test}: no {SSHD} (Debian's openssh-server)");
        return None;
    }
    // Debian's service creates this directory, but the service may never have been started.
    if !Path::new("/run/sshd").exists() && user() == "root" {
        std::fs::create_dir_all("/run/sshd").expect("root can create directories in /run");
    }
    let dir = Scratch::new();
    for key in ["user", "host", "stranger"] {
        let keygen =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.path().join(key)).status();
        assert!(keygen.expect("ssh-keygen comes with ssh").success());
    }
    let mut nodes = Nodes { dir, nodes: Vec::new() };
    for name in names {
        let dir = nodes.dir.path().join(name);
        std::fs::create_dir_all(dir.join("state")).expect("the directory is writable");
        let mut node = Node { name: (*name).into(), dir, port: 0, server: None };
        node.serve(nodes.dir.path());
        nodes.nodes.push(node);
    }
    nodes.write_configuration("user", true);
    Some(nodes)
}

pub fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("coreutils has id");
    String::from_utf8(output.stdout).expect("names are text").trim().into()
}

impl Node {
    /// Starts its server, on the port that it had before if it had one.
    pub fn serve(&mut self, shared: &Path) {
        // Another test may take the port before sshd listens; then another port is tried.
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
        panic!("cannot start sshd for {}", self.name);
    }

    fn try_serve(&mut self, shared: &Path) -> bool {
        let (dir, shared) = (self.dir.display(), shared.display());
        let configuration = format!(
            "Port {}\nListenAddress 127.0.0.1\nHostKey {shared}/host\nAuthorizedKeysFile {shared}/user.pub\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv XDG_DATA_HOME={dir} NEARFAR_STATE={dir}/state\n",
            self.port
        );
        let file = self.dir.join("sshd_config");
        std::fs::write(&file, configuration).expect("the directory is writable");
        let mut server = Command::new(SSHD);
        server.args(["-D", "-e", "-f"]).arg(&file).env_remove("NEARFAR_STORE").env_remove("XDG_DATA_HOME");
        let mut server = server.stderr(Stdio::piped()).spawn().expect("sshd starts");
        let mut lines = BufReader::new(server.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let listens = lines.any(|line| line.contains("Server listening on 127.0.0.1"));
        // sshd would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        if !listens {
            server.wait().expect("sshd has ended");
            return false;
        }
        self.server = Some(server);
        true
    }

    /// The directory of a job on this node.
    pub fn job(&self, job: &str) -> PathBuf {
        self.dir.join("nearfar/fleet").join(job).join(&self.name)
    }

    /// The PID in the lock file of a job.
    pub fn runner(&self, job: &str) -> Option<u32> {
        runner(&self.job(job))
    }

    /// Simulates a power failure: kills the server, its sessions and the run.
    pub fn power_off(&mut self, run: u32) {
        let mut server = self.server.take().expect("the server is running");
        for pid in descendants(server.id()).into_iter().chain([server.id(), run]) {
            signal("KILL", pid);
        }
        server.wait().expect("the server was killed");
        until("the run is gone", || !is_alive(run));
    }
}

impl Nodes {
    /// Writes the configuration of ssh: addresses, the user's key `key`, and whether the host keys are known.
    pub fn write_configuration(&self, key: &str, known: bool) {
        let dir = self.dir.path().display();
        let host = std::fs::read_to_string(self.dir.path().join("host.pub")).expect("ssh-keygen wrote it");
        let ports = || self.nodes.iter().map(|node| (&node.name, node.port));
        let hosts: String = ports().map(|(_, port)| format!("[127.0.0.1]:{port} {host}")).collect();
        let aliases: String =
            ports().map(|(name, port)| format!("Host {name}\n HostName 127.0.0.1\n Port {port}\n")).collect();
        let text = format!(
            "{aliases}Host refused\n HostName 127.0.0.1\n Port 1\nHost unresolved\n HostName nowhere.invalid\nHost *\n \
             User {}\n IdentityFile {dir}/{key}\n IdentitiesOnly yes\n IdentityAgent none\n \
             UserKnownHostsFile {dir}/known_hosts\n GlobalKnownHostsFile /dev/null\n",
            user()
        );
        let write = |name: &str, text: &str| std::fs::write(self.dir.path().join(name), text);
        write("ssh_config", &text).expect("the directory is writable");
        write("known_hosts", if known { &hosts } else { "" }).expect("the directory is writable");
    }

    /// Stops the run of a job on every node midway with [`freeze`], and returns the PIDs.
    pub fn freeze(&self, job: &str, bytes: u64) -> Vec<u32> {
        freeze_all(&self.nodes.iter().map(|node| node.job(job)).collect::<Vec<_>>(), bytes)
    }

    /// `nearfar` on the coordinator, with its own results file.
    pub fn nearfar(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(self.dir.path().join("collected.db")).args(args).current_dir(self.dir.path());
        command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", self.dir.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `nearfar fleet ACTION` on `nodes`, which run the program under test unless `rest` has `--program`.
    pub fn fleet(&self, action: &str, nodes: &str, rest: &[&str]) -> Command {
        let file = self.dir.path().join("ssh_config");
        let ssh = format!("--ssh-option={}", file.display());
        let program = format!("--program={}", env!("CARGO_BIN_EXE_nearfar"));
        let is_default = !rest.iter().any(|arg| arg.starts_with("--program"));
        let on = format!("--on=ssh:{nodes}");
        let mut args = vec!["fleet", action, "--ssh-option=-F", &ssh, &on];
        args.extend(is_default.then_some(program.as_str()));
        args.extend(rest);
        self.nearfar(&args)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // A failed test leaves runs behind, some of them stopped.
        kill_all_with(self.dir.path());
        for server in self.nodes.iter_mut().filter_map(|node| node.server.as_mut()) {
            for pid in descendants(server.id()).into_iter().chain([server.id()]) {
                signal("KILL", pid);
            }
            let _ = server.wait(); // was killed
        }
    }
}

/// Runs a command with a timeout.
pub fn output(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let _limit = Limit::on(&child);
    child.wait_with_output().expect("the program can be waited for")
}

/// Kills a process after [`TIMEOUT`] unless dropped before, so that a test fails instead of hanging.
pub struct Limit {
    _cancel: mpsc::Sender<()>,
}

impl Limit {
    pub fn on(child: &Child) -> Self {
        let (cancel, cancelled) = mpsc::channel();
        let pid = child.id();
        std::thread::spawn(move || {
            if cancelled.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                signal("KILL", pid);
            }
        });
        Self { _cancel: cancel }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must end with this exit status, and returns the JSON that it prints.
pub fn json(command: Command, status: i32) -> serde_json::Value {
    let output = output(command);
    assert_eq!(output.status.code(), Some(status), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

/// Polls a condition until it holds.
pub fn until(description: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TIMEOUT, "timed out while waiting until {description}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Raises the priority of this thread, if that is permitted: on a loaded machine, a simulated run could end before a late
/// poll sees it midway.
fn prefer_this_thread() {
    if let Ok(thread) = std::fs::read_link("/proc/thread-self")
        && let Some(id) = thread.file_name()
    {
        let _ = Command::new("renice")
            .args(["-n", "-10", "-p"])
            .arg(id)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Waits until the run in the directory of a job has stored `bytes` and logged a trial, and stops it so that it cannot
/// end while the test continues. Returns its PID.
fn freeze(job: &Path, bytes: u64) -> u32 {
    let stored = || std::fs::metadata(job.join("results.db-wal")).map_or(0, |file| file.len());
    let has_logged = || std::fs::read_to_string(job.join("log")).is_ok_and(|log| log.contains(" @ "));
    until(&format!("{} has {bytes} bytes of results", job.display()), || stored() >= bytes && has_logged());
    let pid = runner(job).expect("a run writes its lock before it stores trials");
    stop(pid);
    pid
}

/// Stops the runs of several jobs concurrently with [`freeze`]: one could end while another is waited for.
pub fn freeze_all(jobs: &[PathBuf], bytes: u64) -> Vec<u32> {
    std::thread::scope(|scope| {
        let freeze = |job: &PathBuf| {
            let job = job.clone();
            scope.spawn(move || {
                prefer_this_thread();
                freeze(&job, bytes)
            })
        };
        let frozen: Vec<_> = jobs.iter().map(freeze).collect();
        frozen.into_iter().map(|frozen| frozen.join().expect("the run is midway before the timeout")).collect()
    })
}

/// The PID in the lock file of a job's directory.
fn runner(job: &Path) -> Option<u32> {
    std::fs::read_to_string(job.join("lock")).ok()?.trim().parse().ok()
}

/// Sends SIGSTOP and waits until all threads are stopped: a thread first completes its system call, perhaps a write.
pub fn stop(pid: u32) {
    signal("STOP", pid);
    let is_stopped = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process exists").flatten();
        threads.map(|thread| thread.path().join("stat")).all(|file| state(&file).is_some_and(|(_, state)| state == "T"))
    };
    until("all threads are stopped", is_stopped);
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    status_of(pid).is_some_and(|(_, state)| state != "Z")
}

/// The children of a process, their children, and so on.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let parent = |pid: &u32| status_of(*pid).map(|(parent, _)| parent).filter(|parent| *parent > 1);
    processes()
        .into_iter()
        .filter(|pid| std::iter::successors(Some(*pid), parent).skip(1).any(|pid| pid == ancestor))
        .collect()
}

/// The parent of a process, and its state as one letter.
fn status_of(pid: u32) -> Option<(u32, String)> {
    state(Path::new(&format!("/proc/{pid}/stat")))
}

/// Like [`status_of`], from the `stat` file of a process or thread.
fn state(file: &Path) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(file).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.to_string();
    Some((fields.next()?.parse().ok()?, state))
}
