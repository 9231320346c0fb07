//! A PostgreSQL server for tests: Debian's binaries with a temporary data directory, on the loopback interface, with
//! one database and its owner. It can be killed and restarted. Must not depend on results: other tests include this
//! file.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Timeout of every wait; longer than any of them takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Passwords that must not occur in output.
pub const PASSWORD: &str = "s3cret-of-the-owner";
/// The owner of the database `results`.
pub const OWNER: &str = "owner";
pub const DATABASE: &str = "results";

/// A running server, stopped on drop.
pub struct Server {
    dir: TempDir,
    programs: PathBuf,
    port: u16,
    process: Option<Child>,
}

/// Starts a server with an empty database. `None` if PostgreSQL is not installed.
pub fn start(test: &str) -> Option<Server> {
    let Some(programs) = programs() else {
        println!("skipped: {test}: no PostgreSQL server (Debian's postgresql)");
        return None;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server { dir, programs, port: 0, process: None };
    server.make_accessible();
    let password = server.path("password");
    std::fs::write(&password, PASSWORD).expect("the directory is writable");
    let made = server
        .command("initdb")
        .args(["--no-sync", "--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", "--username", OWNER, "--pwfile"])
        .args([&password, Path::new("-D"), &server.path("data")])
        .output()
        .expect("initdb starts");
    assert!(made.status.success(), "{}", text(&made));
    // This user is accepted over TLS only.
    let rules = "hostnossl all encrypted 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(server.path("data/pg_hba.conf"), rules).expect("the directory is writable");
    server.make_certificates();
    server.serve();
    server.create(DATABASE);
    Some(server)
}

/// The newest version that Debian has installed, outside `PATH`.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let newest = versions.filter_map(number).max()?;
    let dir = PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"));
    ["initdb", "postgres", "psql"].iter().all(|program| dir.join(program).exists()).then_some(dir)
}

impl Server {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The address of its database for the owner.
    pub fn url(&self) -> PathBuf {
        self.url_of(OWNER, PASSWORD, DATABASE)
    }

    /// The address of a database for a user.
    pub fn url_of(&self, user: &str, password: &str, database: &str) -> PathBuf {
        format!("postgres://{user}:{password}@localhost:{}/{database}", self.port).into()
    }

    pub fn create(&self, database: &str) {
        self.sql("postgres", &format!("CREATE DATABASE {database}"));
    }

    /// The output of a query by the owner.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = self.try_sql(OWNER, PASSWORD, database, sql);
        assert!(output.status.success(), "{sql}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().into()
    }

    /// The output of `psql` for a query by a user.
    pub fn try_sql(&self, user: &str, password: &str, database: &str, sql: &str) -> Output {
        self.psql(user, password, database).args(["-c", sql]).output().expect("psql starts")
    }

    /// `psql` as a user.
    pub fn psql(&self, user: &str, password: &str, database: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d"]).arg(self.url_of(user, password, database));
        command.stdin(Stdio::null());
        command
    }

    /// Waits until a query by the owner returns this, while another thread works.
    pub fn until(&self, sql: &str, expected: &str) {
        until(sql, || self.sql(DATABASE, sql) == expected);
    }

    /// Simulates a power failure: everything not written is lost.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Without this, the backends would continue for a while.
            let children = children(process.id());
            process.kill().expect("it is running");
            let pids: Vec<String> = children.iter().map(u32::to_string).collect();
            let _ = Command::new("kill").arg("-KILL").args(pids).stderr(Stdio::null()).status(); // some have exited
            process.wait().expect("it was killed");
            until("its children are gone", || !children.iter().any(|child| parent_of(*child).is_some()));
        }
    }

    /// Starts the server, also after a kill: then it first waits until the backends have noticed.
    pub fn serve(&mut self) {
        let began = Instant::now();
        loop {
            if self.port == 0 {
                let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
                self.port = free.expect("there are free ports").port();
            }
            if self.try_serve() {
                return;
            }
            let output = std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "{output}");
            // Another test may take a port right after it was found free.
            if output.contains("Address already in use") && self.process.is_none() {
                self.port = 0;
            }
        }
    }

    fn try_serve(&mut self) -> bool {
        let log = std::fs::File::create(self.path("log")).expect("the directory is writable");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.path("data"));
        let port = self.port.to_string();
        let sockets = self.path("").display().to_string();
        let settings = [("listen_addresses", "127.0.0.1"), ("port", &port), ("unix_socket_directories", &sockets)];
        let files = [("ssl_cert_file", "../server.crt"), ("ssl_key_file", "../server.key")];
        for (name, value) in settings.into_iter().chain(files) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.arg("-c").arg(format!("ssl={}", if self.has_certificates() { "on" } else { "off" }));
        let log_too = log.try_clone().expect("a file can be opened twice");
        let mut process = command.stdin(Stdio::null()).stdout(log_too).stderr(log).spawn().expect("postgres starts");
        let began = Instant::now();
        // Another test's server may have taken the port; it has the same owner.
        let data = self.path("data").display().to_string();
        let answers = || {
            let output = self.try_sql(OWNER, PASSWORD, "postgres", "SHOW data_directory");
            String::from_utf8_lossy(&output.stdout).trim() == data
        };
        while !answers() {
            if process.try_wait().expect("it is our child").is_some() {
                return false;
            }
            assert!(began.elapsed() < PATIENCE, "{}", std::fs::read_to_string(self.path("log")).unwrap_or_default());
        }
        self.process = Some(process);
        true
    }

    pub fn has_certificates(&self) -> bool {
        self.path("server.crt").exists()
    }

    /// Creates a certificate authority and a certificate for `localhost`.
    fn make_certificates(&self) {
        let dir = self.dir.path();
        std::fs::write(dir.join("names"), "subjectAltName=DNS:localhost\n").expect("the directory is writable");
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        for words in [
            format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"),
            format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile names"
                .into(),
        ] {
            let made = Command::new("openssl").args(words.split(' ')).current_dir(dir).output();
            if !made.is_ok_and(|made| made.status.success()) {
                return;
            }
        }
        self.chown_to_server_user("server.key");
    }

    /// A program of PostgreSQL, not run as root, which it rejects.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match server_user() {
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command
                    .args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into()])
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir(self.dir.path()).env("LC_ALL", "C");
        command
    }

    /// Makes the directory accessible to the user that runs the server.
    fn make_accessible(&self) {
        std::fs::create_dir(self.path("data")).expect("the directory is writable");
        let open = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.dir.path(), open).expect("we own it");
        self.chown_to_server_user("data");
        self.chown_to_server_user("");
    }

    fn chown_to_server_user(&self, name: &str) {
        if let Some((user, group)) = server_user() {
            chown(self.path(name), Some(user), Some(group)).expect("root may");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // SIGQUIT stops it at once and removes its shared memory, which a SIGKILL would leave.
            let _ = Command::new("kill").args(["-QUIT", &process.id().to_string()]).status(); // may have exited
            let _ = process.wait(); // as above
        }
    }
}

/// User and group of the server if the tests run as root.
fn server_user() -> Option<(u32, u32)> {
    let number = |words: &[&str]| -> u32 {
        let output = Command::new("id").args(words).output().expect("id is installed");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    };
    (number(&["-u"]) == 0).then(|| (number(&["-u", "nobody"]), number(&["-g", "nobody"])))
}

/// The child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| parent_of(*process) == Some(parent)).collect()
}

/// The parent of a process, unless the process is a zombie.
fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let state = words.next()?;
    words.next()?.parse().ok().filter(|_| state != "Z")
}

/// The standard error of a program.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Polls until a condition holds.
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
