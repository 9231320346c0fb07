//! A PostgreSQL server for tests: Debian's own programs in a scratch folder, on the loopback, with one database and its owner. It can be
//! killed and started again. Knows nothing of results; other tests take this file in by its path.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything here takes on a busy machine; a hang is what it is for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Nobody shall find these words in what the program says.
pub const PASSWORD: &str = "s3cret-of-the-owner";
/// Who may do everything in the database `results`.
pub const OWNER: &str = "owner";
pub const DATABASE: &str = "results";

/// A server. It ends with this.
pub struct Server {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    process: Option<Child>,
}

/// Starts one with an empty database; none where there is no PostgreSQL.
pub fn start(test: &str) -> Option<Server> {
    let Some(programs) = programs() else {
        println!("skipped: {test}: no PostgreSQL server (Debian's postgresql)");
        return None;
    };
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut server = Server { folder, programs, port: 0, process: None };
    server.give_away();
    let password = server.path("password");
    std::fs::write(&password, PASSWORD).expect("the folder can be written");
    let made = server
        .command("initdb")
        .args(["--no-sync", "--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", "--username", OWNER, "--pwfile"])
        .args([&password, Path::new("-D"), &server.path("data")])
        .output()
        .expect("initdb starts");
    assert!(made.status.success(), "{}", text(&made));
    // Who is called so is let in encrypted alone.
    let rules = "hostnossl all encrypted 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(server.path("data/pg_hba.conf"), rules).expect("the folder can be written");
    server.make_certificates();
    server.serve();
    server.create(DATABASE);
    Some(server)
}

/// Debian keeps a server's programs out of the way, by version: the newest of them.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let newest = versions.filter_map(number).max()?;
    let folder = PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"));
    ["initdb", "postgres", "psql"].iter().all(|program| folder.join(program).exists()).then_some(folder)
}

impl Server {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The address of its database for its owner.
    pub fn url(&self) -> PathBuf {
        self.url_of(OWNER, PASSWORD, DATABASE)
    }

    /// An address at which it listens.
    pub fn url_of(&self, user: &str, password: &str, database: &str) -> PathBuf {
        format!("postgres://{user}:{password}@localhost:{}/{database}", self.port).into()
    }

    pub fn create(&self, database: &str) {
        self.sql("postgres", &format!("CREATE DATABASE {database}"));
    }

    /// What its owner is told to this.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = self.try_sql(OWNER, PASSWORD, database, sql);
        assert!(output.status.success(), "{sql}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().into()
    }

    /// What somebody is told to this, or why not.
    pub fn try_sql(&self, user: &str, password: &str, database: &str, sql: &str) -> Output {
        self.psql(user, password, database).args(["-c", sql]).output().expect("psql starts")
    }

    /// `psql` of somebody.
    pub fn psql(&self, user: &str, password: &str, database: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d"]).arg(self.url_of(user, password, database));
        command.stdin(Stdio::null());
        command
    }

    /// Waits until its owner is told this, while somebody else does something.
    pub fn until(&self, sql: &str, expected: &str) {
        until(sql, || self.sql(DATABASE, sql) == expected);
    }

    /// As when the power goes: whatever it had not written is gone.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Those who serve would else go on for a while without it.
            let children = children(process.id());
            process.kill().expect("it is there");
            let pids: Vec<String> = children.iter().map(u32::to_string).collect();
            let _ = Command::new("kill").arg("-KILL").args(pids).stderr(Stdio::null()).status(); // some have ended
            process.wait().expect("it was killed");
            until("its children are gone", || !children.iter().any(|child| parent_of(*child).is_some()));
        }
    }

    /// Starts it, also after it was killed: then it first waits for its children to notice.
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
            let said = std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "{said}");
            // A port that was free may be taken by another test a moment later.
            if said.contains("Address already in use") && self.process.is_none() {
                self.port = 0;
            }
        }
    }

    fn try_serve(&mut self) -> bool {
        let log = std::fs::File::create(self.path("log")).expect("the folder can be written");
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
        // Another test's server may have taken the port, and has the same owner.
        let data = self.path("data").display().to_string();
        let answers = || {
            let output = self.try_sql(OWNER, PASSWORD, "postgres", "SHOW data_directory");
            String::from_utf8_lossy(&output.stdout).trim() == data
        };
        while !answers() {
            if process.try_wait().expect("it is ours").is_some() {
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

    /// An authority, and its word that the server is `localhost`.
    fn make_certificates(&self) {
        let folder = self.folder.path();
        std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").expect("the folder can be written");
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        for words in [
            format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"),
            format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile names"
                .into(),
        ] {
            let made = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
            if !made.is_ok_and(|made| made.status.success()) {
                return;
            }
        }
        self.hand_over("server.key");
    }

    /// One of PostgreSQL's programs, not as root, which it refuses.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match somebody() {
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command
                    .args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into()])
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        command
    }

    /// The folder and what is in it to whom the server runs as.
    fn give_away(&self) {
        std::fs::create_dir(self.path("data")).expect("the folder can be written");
        let open = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.folder.path(), open).expect("it is ours");
        self.hand_over("data");
        self.hand_over("");
    }

    fn hand_over(&self, name: &str) {
        if let Some((user, group)) = somebody() {
            chown(self.path(name), Some(user), Some(group)).expect("root may");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // At once, and it takes its shared memory away, which after a kill would stay.
            let _ = Command::new("kill").args(["-QUIT", &process.id().to_string()]).status(); // may have ended
            let _ = process.wait(); // as above
        }
    }
}

/// User and group for the server where the tests run as root.
fn somebody() -> Option<(u32, u32)> {
    let number = |words: &[&str]| -> u32 {
        let output = Command::new("id").args(words).output().expect("everybody has id");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    };
    (number(&["-u"]) == 0).then(|| (number(&["-u", "nobody"]), number(&["-g", "nobody"])))
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| parent_of(*process) == Some(of)).collect()
}

/// The parent of a process that is there and is not only waiting to be reaped.
fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let state = words.next()?;
    words.next()?.parse().ok().filter(|_| state != "Z")
}

/// What a program said of its failure.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for something to become true.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
