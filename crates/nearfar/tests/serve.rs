//! `nearfar serve` over HTTP: valid and invalid requests, one client and many, while another process writes the results
//! file. Tests in a browser are in `looks`.

mod planted;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::analysis::live::LiveEnd;
use serde_json::Value;
use tempfile::TempDir;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");
/// Timeout of every wait; longer than any of them takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).env_remove("NEARFAR_STORE").output().expect("the program starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("the output is UTF-8")
}

/// A directory with an experiment of fifteen trials and the results file of its runs.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let experiment = "name = 'small'\nquestion = 'Which is fastest?'\n[repeat]\nwarmup = 1\nmin = 4\nmax = 4\n\
                          precision = '0.1%'\nbudget = '10m'\n[compare]\nby = 'placement'\nbaseline = 'kernel'\n\
                          [[workload]]\nname = 'queens'\nplacements = ['kernel', 'cores-across-l3', 'smt-one-l3']\nthreads = [6]\n";
        std::fs::write(dir.path().join("small.toml"), experiment).expect("the directory is writable");
        Self { dir }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("results.db")
    }

    /// Runs or resumes the experiment in a process that is killed after `trials` more trials; `None`: to its end.
    fn run(&self, seed: u32, trials: Option<u32>) {
        let (file, sim) = (self.dir.path().join("small.toml"), format!("{MODEL}:{seed}"));
        let faults = trials.map(|trials| format!("kill-after={trials}"));
        let mut args = vec!["run", file.to_str().expect("temporary paths are UTF-8"), "--sim", &sim, "--quiet"];
        args.extend(faults.iter().flat_map(|faults| ["--sim-faults", faults]));
        let status = nearfar(&self.store(), &args).status;
        assert_eq!(status.success(), trials.is_none(), "{status}");
    }

    fn latest(&self) -> String {
        let listing = text(&nearfar(&self.store(), &["show", "--format", "json"]));
        let listing: Value = serde_json::from_str(&listing).expect("show prints JSON");
        listing["run"]["id"].as_str().expect("a run has an id").into()
    }

    fn serve(&self) -> TestServer {
        TestServer::start(&self.store(), &[])
    }
}

/// A running server, killed on drop.
struct TestServer {
    child: Child,
    port: u16,
    token: String,
    url: String,
}

impl TestServer {
    fn start(store: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(store).args(["serve", "--format", "json"]).stderr(Stdio::null());
        command.args(if args.is_empty() { &["--port", "0"] } else { args });
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut text = String::new();
        while serde_json::from_str::<Value>(&text).is_err() {
            let read = stdout.read_line(&mut text).expect("the output is UTF-8");
            assert!(read > 0, "the server ended before it printed its address: {text}");
        }
        let json: Value = serde_json::from_str(&text).expect("the text is JSON");
        let value = |key: &str| json[key].as_str().expect(key).to_string();
        Self { child, port: json["port"].as_u64().expect("a port") as u16, token: value("token"), url: value("url") }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("sockets support timeouts");
        stream
    }

    /// Sends bytes, and reads the response until the server closes the connection.
    fn send(&self, request: &[u8]) -> Response {
        let mut stream = self.connect();
        stream.write_all(request).expect("the server reads");
        Response::read(&mut stream)
    }

    /// Requests a target with the token.
    fn get(&self, target: &str) -> Response {
        self.exchange("GET", target, "")
    }

    fn exchange(&self, method: &str, target: &str, fields: &str) -> Response {
        self.send(self.request(method, target, fields).as_bytes())
    }

    fn request(&self, method: &str, target: &str, fields: &str) -> String {
        let token = &self.token;
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{fields}\r\n")
    }

    /// Opens a stream of events and reads its head.
    fn follow(&self, target: &str, seen: Option<&str>) -> Events {
        let seen = seen.map_or(String::new(), |seen| format!("Last-Event-ID: {seen}\r\n"));
        let mut stream = self.connect();
        stream.write_all(self.request("GET", target, &seen).as_bytes()).expect("the server reads");
        let mut events = Events { lines: BufReader::new(stream) };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(events.lines.read_line(&mut head).expect("the server responds") > 0, "closed: {head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Type: text/event-stream"), "{head}");
        events
    }

    /// Peak resident memory of the server in KiB.
    fn memory_kib_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel reports it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill starts");
        assert!(sent.success());
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill(); // may have ended
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the server responds in time and closes");
        let text = String::from_utf8(bytes).expect("responses are UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not a response: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.into(), body: body.into() }
    }

    fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }
}

struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    /// Waits for the next event and returns its id and data. `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let (mut id, mut data) = (String::new(), None);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // Heartbeats are skipped.
            assert!(Instant::now() < deadline, "no event before the timeout");
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("heartbeats prevent a timeout") == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", text)) => id = text.into(),
                Some(("data", text)) => data = Some(serde_json::from_str(text).expect("data is JSON")),
                _ if line == "\n" && data.is_some() => return data.map(|data| (id, data)),
                _ => {}
            }
        }
    }
}

/// The first element with this name, including its tags.
fn element<'a>(page: &'a str, name: &str) -> &'a str {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let from = page.find(&begin).unwrap_or_else(|| panic!("no {begin} in {page}"));
    &page[from..page.find(&end).expect("the element is closed") + end.len()]
}

#[test]
fn pages_and_json_equal_the_output_of_commands() {
    let fixture = Fixture::new();
    fixture.run(1, None);
    fixture.run(2, None);
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/published/ryzen-2600-ccx.csv");
    text(&nearfar(&fixture.store(), &["import", published]));
    let (server, run) = (fixture.serve(), fixture.latest());
    let print = |args: &[&str]| text(&nearfar(&fixture.store(), args));
    let page = server.get(&format!("/runs/{run}"));
    assert_eq!(page.status, 200, "{page:?}");
    let file = print(&["report", &run, "-o", "-"]);
    for name in ["title", "style", "header", "main", "footer"] {
        assert_eq!(element(&page.body, name), element(&file, name), "{name}");
    }
    assert_eq!(element(&server.get("/report").body, "main"), element(&print(&["report", "-o", "-"]), "main"));
    let shown: Value = serde_json::from_str(&print(&["show", &run, "--format", "json"])).expect("show prints JSON");
    assert_eq!(server.get(&format!("/runs/{run}.json")).json(), shown);
    let list = server.get("/").body;
    for text in [&run, "small", "ryzen-2600-ccx", "all repetitions", "12 valid"] {
        assert!(list.contains(text), "{text}: {list}");
    }
    let runs: Value = serde_json::from_str(&print(&["show", "--runs", "--format", "json"])).expect("show prints JSON");
    assert_eq!(server.get("/runs.json").json(), runs);
    let ids: Vec<&str> =
        runs["runs"].as_array().expect("a list").iter().map(|run| run["id"].as_str().expect("text")).collect();
    let compared: Value = serde_json::from_str(&print(&["compare", ids[0], ids[1], "--by", "run", "--format", "json"]))
        .expect("compare prints JSON");
    assert_eq!(server.get(&format!("/compare.json?run={}&run={}", ids[0], ids[1])).json(), compared);
    let form = server.get(&format!("/compare?run={}&run={}&by=placement&baseline=kernel", ids[0], ids[1])).body;
    assert!(form.contains("Against kernel, by placement") && form.matches(" checked>").count() == 2, "{form}");
    assert!(server.get("/compare?table=ryzen-2600-ccx").body.contains("6-thread-1ccx"));
    let wrong = server.get(&format!("/compare?run={run}&baseline=nosuch")).body;
    assert!(wrong.contains("role=\"alert\"") && wrong.contains("nosuch"), "{wrong}");
    assert_eq!(server.get("/compare.json?baseline=nosuch").status, 400);
    let head = server.exchange("HEAD", &format!("/runs/{run}"), "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.field("Content-Length"), Some(page.body.len().to_string().as_str()));
    let latest = server.get("/runs/latest");
    assert_eq!((latest.status, latest.field("Location")), (303, Some(format!("/runs/{run}").as_str())));
}

#[test]
fn trials_of_another_process_are_sent_as_events() {
    let fixture = Fixture::new();
    fixture.run(1, Some(1));
    let (server, run) = (fixture.serve(), fixture.latest());
    let (events, page) = (format!("/runs/{run}/events"), format!("/runs/{run}"));
    let mut stream = server.follow(&events, None);
    let mut list = server.follow("/events", None);
    let (first, state) = stream.next().expect("the current state is sent at once");
    assert_eq!((first.as_str(), state["trials"].as_u64(), state["ended"].as_bool()), ("1", Some(1), Some(false)));
    assert_eq!(list.next().expect("also for the list of runs").1["trials"], 1);
    assert!(server.get(&page).body.contains(&format!("data-events=\"{events}?seen=1\"")));
    for trials in 2..=4 {
        fixture.run(1, Some(1));
        let (id, state) = stream.next().expect("a trial was stored");
        assert_eq!((id, state["trials"].as_u64()), (trials.to_string(), Some(trials)));
        assert!(state["standing"].as_str().expect("text").starts_with(&format!("{trials} trials so far")), "{state}");
        assert!(server.get(&page).body.contains(&format!("seen={trials}")), "the page is up to date");
    }
    // A client that reconnects receives events later than the last one it saw.
    assert_eq!(server.follow(&events, Some("2")).next().expect("trials 3 and 4 are new").0, "4");
    let mut reconnected = server.follow(&events, Some("4"));
    fixture.run(1, Some(1));
    assert_eq!(reconnected.next().expect("the fifth trial").0, "5");
    fixture.run(1, None);
    let last = |stream: &mut Events| loop {
        let (id, state) = stream.next().expect("the end is an event");
        if state["ended"] == true {
            return (id, stream.next().is_none());
        }
    };
    assert_eq!(last(&mut stream), ("15-ended".to_string(), true), "the last event");
    assert_eq!(last(&mut reconnected), ("15-ended".to_string(), true));
    assert_eq!(server.exchange("GET", &events, "Last-Event-ID: 15-ended\r\n").status, 204, "do not reconnect");
    let page = server.get(&page).body;
    assert!(!page.contains("data-events") && page.contains("all repetitions"), "an ended run has no events");
}

#[test]
fn periods_of_a_running_experiment_are_sent_as_events() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("results.db");
    let record = planted::record();
    let (periods, at_s) = planted::periods(&record);
    let mut store = store::Store::open(&path).expect("a new file");
    store.begin_live(&record).expect("a new experiment");
    let add = |store: &mut store::Store, period| store.add_live_period(&record.id, period).expect("a new period");
    add(&mut store, &periods[0]);
    let (server, id) = (TestServer::start(&path, &[]), record.id.to_string());
    let (page, events) = (format!("/live/{id}"), format!("/live/{id}/events"));
    let mut stream = server.follow(&events, None);
    assert_eq!(stream.next().expect("the current state is sent at once").0, "1");
    assert!(server.get(&page).body.contains(&format!("data-events=\"{events}?seen=1\"")));
    add(&mut store, &periods[1]);
    let (seen, state) = stream.next().expect("a period was stored");
    assert_eq!((seen.as_str(), &state["standing"]), ("2", &"2 periods so far".into()));
    let shown = server.get(&page).body;
    assert!(shown.contains("seen=2") && shown.contains("unit redis: no answer yet"), "{shown}");
    periods[2..].iter().for_each(|period| add(&mut store, period));
    store.end_live(&record.id, &LiveEnd { at_s, reason: None }).expect("it ends once");
    while stream.next().is_some_and(|(_, state)| state["ended"] == false) {}
    let ended = server.get(&page).body;
    assert!(!ended.contains("data-events") && ended.contains("node:0 changes its rate by +9.9"), "{ended}");
    assert_eq!(ended.matches("<circle").count(), periods.len() + 2, "all periods, and two points in the legend");
    assert_eq!(element(&ended, "main"), element(&text(&nearfar(&path, &["report", &id, "-o", "-"])), "main"));
    let shown: Value = serde_json::from_str(&text(&nearfar(&path, &["show", &id, "--format", "json"]))).expect("JSON");
    assert_eq!(server.get(&format!("/live/{id}.json")).json(), shown);
    assert!(server.get("/").body.contains(&format!("<a href=\"/live/{id}\">unit redis</a>")));
    assert_eq!(server.get(&format!("/live/{}", &id[..6])).field("Location"), Some(page.as_str()));
    assert_eq!(server.get("/live/zz").status, 404);
}

/// The sample of a metric, by its name and labels.
fn sample(metrics: &Response, series: &str) -> Option<f64> {
    let lines = metrics.body.lines().filter_map(|line| line.rsplit_once(' '));
    lines.filter(|(name, _)| *name == series).map(|(_, value)| value.parse().expect("a number")).next()
}

#[test]
fn metrics_count_runs_trials_and_the_progress_of_a_run() {
    let fixture = Fixture::new();
    let server = fixture.serve();
    let empty = server.get("/metrics");
    assert_eq!((empty.status, sample(&empty, "nearfar_stored_runs")), (200, Some(0.0)), "{empty:?}");
    fixture.run(1, None);
    fixture.run(2, Some(7));
    let (metrics, run) = (server.get("/metrics"), fixture.latest());
    assert_eq!(metrics.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let version = format!("nearfar_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(sample(&metrics, &version), Some(1.0), "{metrics:?}");
    assert_eq!(sample(&metrics, "nearfar_stored_runs"), Some(2.0));
    let verdicts = ["valid", "suspect", "invalid"].map(|verdict| {
        sample(&metrics, &format!("nearfar_stored_trials{{verdict=\"{verdict}\"}}")).expect("every verdict")
    });
    // Twelve of the first run, and four of the second after the warm-up of three cells.
    assert_eq!(verdicts.iter().sum::<f64>() as u32, 16, "{verdicts:?}");
    let labels = format!("{{run=\"{run}\",experiment=\"small\",host=\"simulated ryzen5-2600.xml\"}}");
    assert_eq!(sample(&metrics, &format!("nearfar_unfinished_run_trials{labels}")), Some(7.0), "{metrics:?}");
    assert_eq!(sample(&metrics, &format!("nearfar_unfinished_run_planned_trials{labels}")), Some(15.0));
    // The clock of the simulated machine.
    let newest = sample(&metrics, "nearfar_newest_trial_timestamp_seconds").expect("there are trials");
    assert!((1.7e9..1.71e9).contains(&newest), "{newest}");
    for name in metrics.body.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()) {
        assert!(metrics.body.contains(&format!("\n# TYPE {name} gauge\n")), "{name}");
    }
    fixture.run(2, None);
    let ended = server.get("/metrics");
    assert!(!ended.body.contains("nearfar_unfinished"), "{ended:?}");
}

#[test]
fn requests_without_token_or_with_foreign_host_are_rejected() {
    let fixture = Fixture::new();
    fixture.run(1, None);
    let server = fixture.serve();
    let (port, token) = (server.port, server.token.clone());
    assert_eq!(server.url, format!("http://127.0.0.1:{port}/?token={token}"));
    assert!(token.len() >= 32, "at least 128 bits");
    let request = |target: &str, fields: &str| server.send(format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes());
    let local = "Host: 127.0.0.1\r\n";
    let cases = [
        (request("/", local), 401),
        (request("/no/such/page", local), 401),
        (request("/metrics", local), 401),
        (request("/?token=", local), 401),
        (request(&format!("/?token={}", &token[1..]), local), 401),
        (request("/", &format!("{local}Authorization: Bearer {token}0\r\n")), 401),
        (request("/", &format!("{local}Authorization: Basic {token}\r\n")), 401),
        (request("/", &format!("{local}Cookie: nearfar-1={token}\r\n")), 401),
        (request("/", &format!("{local}Authorization: Bearer {token}\r\n")), 200),
        (request("/", &format!("{local}Cookie: a=b; nearfar-{port}={token}\r\n")), 200),
        (request("/", &format!("Host: evil.example\r\nCookie: nearfar-{port}={token}\r\n")), 403),
        (request("/", &format!("Host: localhost.evil.example:{port}\r\nCookie: nearfar-{port}={token}\r\n")), 403),
        (request("http://evil.example/", &format!("{local}Cookie: nearfar-{port}={token}\r\n")), 403),
        (request("/", &format!("Host: [::1]:{port}\r\nCookie: nearfar-{port}={token}\r\n")), 200),
        (request("/", &format!("Cookie: nearfar-{port}={token}\r\n")), 400),
    ];
    for (number, (reply, expected)) in cases.iter().enumerate() {
        assert_eq!(reply.status, *expected, "case {number}: {reply:?}");
        assert_eq!(reply.body.contains("small"), *expected == 200, "rejected requests get no data: {number}");
        assert!(!reply.body.contains(&token), "{number}");
    }
    let redirect = request(&format!("/runs/latest?x=1&token={token}"), local);
    assert_eq!((redirect.status, redirect.field("Location")), (303, Some("/runs/latest?x=1")));
    let cookie = redirect.field("Set-Cookie").expect("the token becomes a cookie");
    assert_eq!(cookie, format!("nearfar-{port}={token}; Path=/; HttpOnly; SameSite=Strict"));
    for reply in [&cases[0].0, &cases[7].0, &redirect] {
        let policy = reply.field("Content-Security-Policy").expect("every response has one");
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("http"), "{policy}");
        let fields =
            [("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store")];
        for (name, value) in fields {
            assert_eq!(reply.field(name), Some(value));
        }
    }
}

#[test]
fn requests_cannot_reach_files() {
    let fixture = Fixture::new();
    fixture.run(1, None);
    std::fs::write(fixture.dir.path().join("secret.txt"), "the secret").expect("the directory is writable");
    let before = std::fs::read(fixture.store()).expect("the results file exists");
    let server = fixture.serve();
    let names =
        ["secret.txt", "../secret.txt", "../../../../../../etc/passwd", "/etc/passwd", "results.db", "small.toml"];
    let forms: [fn(&str) -> String; 5] = [
        str::to_string,
        |name| name.replace('/', "%2f").replace('.', "%2e"),
        |name| name.replace('/', "%252f"),
        |name| name.replace('/', "\\"),
        |name| name.replace("../", "..;/"),
    ];
    let prefixes =
        ["/", "/runs/", "/runs/./", "/report/", "/compare?table=", "/compare?run=", "/compare.json?run=", "//"];
    for (name, form, prefix) in
        names.iter().flat_map(|name| forms.iter().flat_map(move |form| prefixes.map(|prefix| (*name, form, prefix))))
    {
        let target = format!("{prefix}{}", form(name));
        for target in [target.clone(), format!("{target}.json"), format!("{target}/events")] {
            let reply = server.get(&target);
            let is_form = reply.status == 200 && target.starts_with("/compare?");
            assert!(matches!(reply.status, 400 | 404) || is_form, "{target}: {reply:?}");
            assert!(!reply.body.contains("the secret") && !reply.body.contains("root:"), "{target}: {reply:?}");
        }
    }
    assert_eq!(std::fs::read(fixture.store()).expect("the results file exists"), before, "the file is only read");
}

#[test]
fn invalid_requests_get_error_statuses() {
    let fixture = Fixture::new();
    fixture.run(1, None);
    let server = fixture.serve();
    let good = server.request("GET", "/", "");
    let incomplete = good.strip_suffix("\r\n").expect("a head ends with an empty line");
    let long = "x".repeat(100_000);
    let cases: Vec<(Vec<u8>, u16)> = vec![
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03".to_vec(), 400),
        ((0..=255).cycle().take(5_000).collect(), 400),
        (b"\r\n\r\n\0\0\0\r\n\r\n".to_vec(), 400),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), 400),
        (b"GET\r\n\r\n".to_vec(), 400),
        (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes(), 431),
        (format!("{incomplete}X-Long: {long}\r\n\r\n").into_bytes(), 431),
        (format!("{incomplete}{}\r\n", "X: y\r\n".repeat(100)).into_bytes(), 431),
        (server.request("GET", "/runs/%zz", "").into_bytes(), 404),
        (server.request("GET", "/?a=%", "").into_bytes(), 400),
        (server.request("POST", "/", "Content-Length: 100000\r\n").into_bytes(), 405),
        ((server.request("PUT", "/runs/x", "Content-Length: 100000\r\n") + &long).into_bytes(), 405),
        (server.request("DELETE", "/", "").into_bytes(), 405),
        (server.request("GET", "/", "Content-Length: 100000\r\n").into_bytes(), 200),
    ];
    for (number, (request, expected)) in cases.iter().enumerate() {
        assert_eq!(server.send(request).status, *expected, "case {number}");
    }
    // Half a request, followed by the end of the stream, by nothing, or by an endless series of fields.
    let half = |end: fn(&TcpStream)| {
        let mut stream = server.connect();
        stream.write_all(&good.as_bytes()[..good.len() / 2]).expect("the server reads");
        end(&stream);
        Response::read(&mut stream).status
    };
    assert_eq!(half(|stream| stream.shutdown(std::net::Shutdown::Write).expect("sockets can be shut down")), 400);
    let slow = || {
        let mut stream = server.connect();
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("sockets support timeouts");
        stream.write_all(b"GET / HTTP/1.1\r\n").expect("the server reads");
        let began = Instant::now();
        let mut received = Vec::new();
        while began.elapsed() < TIMEOUT && stream.write_all(b"X: y\r\n").is_ok() {
            let mut buffer = [0; 1024];
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(_) => {} // timeout
            }
        }
        String::from_utf8_lossy(&received).into_owned()
    };
    thread::scope(|scope| {
        let (silent, slow) = (scope.spawn(|| half(|_| {})), scope.spawn(slow));
        assert_eq!(silent.join().expect("the server responds"), 408);
        let slow = slow.join().expect("the server responds");
        // The server closes it at the timeout, or earlier at the maximum number of fields.
        assert!(slow.starts_with("HTTP/1.1 408 ") || slow.starts_with("HTTP/1.1 431 "), "{slow}");
    });
    assert_eq!(server.send(good.as_bytes()).status, 200, "the server keeps running");
}

#[test]
fn concurrent_requests_all_get_a_response() {
    const LISTENERS: usize = 40;
    const CLIENTS: usize = 16;
    const REQUESTS: usize = 30;
    let fixture = Fixture::new();
    fixture.run(1, None);
    fixture.run(2, Some(3));
    let (server, run) = (fixture.serve(), fixture.latest());
    let events = format!("/runs/{run}/events");
    let mut listeners: Vec<Events> = (0..LISTENERS).map(|_| server.follow(&events, None)).collect();
    for listener in &mut listeners {
        assert_eq!(listener.next().expect("the current state").0, "3");
    }
    let pages = ["/".to_string(), format!("/runs/{run}"), "/runs.json".into(), "/report".into(), "/nosuch".into()];
    let client = |number: usize| -> Vec<u16> {
        (0..REQUESTS).map(|index| server.get(&pages[(number + index) % pages.len()]).status).collect()
    };
    let statuses: Vec<u16> = thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("every request gets a response")).collect()
    });
    let count = |status| statuses.iter().filter(|other| **other == status).count();
    assert_eq!(statuses.len(), CLIENTS * REQUESTS);
    assert_eq!(count(200) + count(404), statuses.len(), "no request may be rejected: {statuses:?}");
    assert_eq!(count(404), CLIENTS * REQUESTS / pages.len());
    fixture.run(2, Some(1));
    for listener in &mut listeners {
        assert_eq!(listener.next().expect("the fourth trial").0, "4");
    }
    // Streams beyond the limit get status 503; pages are still served.
    let mut open = Vec::new();
    let mut is_rejected = false;
    while !is_rejected {
        assert!(open.len() < 100, "streams have no limit");
        let mut stream = server.connect();
        stream.write_all(server.request("GET", &events, "").as_bytes()).expect("the server reads");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("the server responds");
        match &first {
            b"HTTP/1.1 200" => open.push(stream),
            b"HTTP/1.1 503" => is_rejected = true,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert_eq!(open.len() + LISTENERS, 64);
    assert_eq!(server.get("/").status, 200);
    // Closed streams do not count.
    drop((open, listeners));
    let deadline = Instant::now() + TIMEOUT;
    while server.exchange("HEAD", &events, "").status == 503 {
        assert!(Instant::now() < deadline, "closed streams are still counted");
        thread::sleep(Duration::from_millis(50));
    }
    let memory = server.memory_kib_max();
    assert!(memory < 300 << 10, "{memory} KiB");
}

#[test]
fn excess_connections_get_status_503() {
    let fixture = Fixture::new();
    fixture.run(1, None);
    let server = fixture.serve();
    // Idle connections count until their timeout.
    let idle: Vec<TcpStream> = (0..128).map(|_| server.connect()).collect();
    let rejected = server.get("/");
    assert_eq!((rejected.status, rejected.field("Retry-After")), (503, Some("1")), "{rejected:?}");
    drop(idle);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn slow_request_heads_do_not_keep_a_page_waiting() {
    let fixture = Fixture::new();
    fixture.run(1, None);
    let server = fixture.serve();
    let slow = || {
        let mut stream = server.connect();
        stream.write_all(b"GET / HTTP/1.1\r\n").expect("the server reads");
        stream
    };
    let _slow: Vec<TcpStream> = (0..200).map(|_| slow()).collect();
    let start = Instant::now();
    // A refused client retries after the time in `Retry-After`.
    while server.get("/").status != 200 {
        assert!(start.elapsed() < TIMEOUT, "no page");
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[test]
fn signals_end_the_server_promptly() {
    let fixture = Fixture::new();
    fixture.run(1, Some(2));
    let run = fixture.latest();
    for signal in ["-TERM", "-INT"] {
        let mut server = fixture.serve();
        let mut events = server.follow(&format!("/runs/{run}/events"), None);
        assert_eq!(events.next().expect("the current state").0, "2");
        let began = Instant::now();
        server.signal(signal);
        assert_eq!(server.child.wait().expect("the server ends").code(), Some(0), "{signal}");
        assert!(began.elapsed() < Duration::from_secs(20), "{signal}: the server waits for clients");
        assert!(events.next().is_none(), "the stream is closed");
        assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err(), "the port is closed");
    }
}

#[test]
fn server_waits_for_a_results_file() {
    let fixture = Fixture::new();
    let server = fixture.serve();
    let page = server.get("/");
    assert_eq!((page.status, page.field("Refresh")), (503, Some("2")), "{}", page.head);
    assert!(page.body.contains("results.db does not exist yet"), "{}", page.body);
    let json = server.get("/runs.json");
    assert!(json.json()["error"].as_str().is_some_and(|error| error.ends_with("does not exist yet")), "{}", json.body);
    assert!(!fixture.store().exists(), "the server does not create the results file");
    fixture.run(1, None);
    let page = server.get("/");
    assert_eq!((page.status, page.field("Refresh")), (200, None), "{}", page.head);
    assert!(page.body.contains("small"), "{}", page.body);
}

#[test]
fn usage_errors_are_reported() {
    let fixture = Fixture::new();
    fixture.run(1, None);
    let server = fixture.serve();
    let port = server.port.to_string();
    let cases: [(&[&str], &str); 5] = [
        (&["serve", "--port", &port], "--port 0 selects a free port"),
        (&["serve", "--listen", "nonsense:nonsense"], "--listen nonsense:nonsense"),
        (&["serve", "--listen", "192.0.2.1:0"], "cannot listen on 192.0.2.1:0"),
        (&["serve", "--listen", "no-such-host.invalid:1"], "no-such-host.invalid"),
        (&["serve", "--listen", "127.0.0.1", "--port", "1"], "cannot be used with"),
    ];
    for (args, expected) in cases {
        let output = nearfar(&fixture.store(), args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected) && output.stdout.is_empty(), "{args:?}: {stderr}");
    }
    // If the default port is in use, the server takes one of the next.
    let _listener = TcpListener::bind("127.0.0.1:6327");
    let default = TestServer::start(&fixture.store(), &["--quiet"]);
    assert!((6328..6347).contains(&default.port), "{}", default.port);
    let listening = TestServer::start(&fixture.store(), &["--listen", "127.0.0.2:0"]);
    assert!(listening.url.starts_with("http://127.0.0.2:"), "{}", listening.url);
}
