//! `nearfar serve` as its clients have it: the real server over a results file into which another process writes, asked through
//! sockets, well and badly, by one and by many. What a browser makes of the pages is in `looks`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");
/// Longer than any answer takes on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);

fn nearfar(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).env_remove("NEARFAR_STORE").output().expect("the program starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("it prints text")
}

/// A folder with an experiment of fifteen trials and the results file of its runs.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let experiment = "name = 'small'\nquestion = 'Is anybody there?'\n[repeat]\nwarmup = 1\nmin = 4\nmax = 4\n\
                          precision = '0.1%'\nbudget = '10m'\n[compare]\nby = 'placement'\nbaseline = 'kernel'\n\
                          [[workload]]\nname = 'queens'\nplacements = ['kernel', 'cores-across-l3', 'smt-one-l3']\nthreads = [6]\n";
        std::fs::write(folder.path().join("small.toml"), experiment).expect("the folder can be written");
        Self { folder }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("results.db")
    }

    /// Runs it to its end, or goes on with it for so many trials, as another process that is then killed.
    fn run(&self, seed: u32, trials: Option<u32>) {
        let (file, sim) = (self.folder.path().join("small.toml"), format!("{MODEL}:{seed}"));
        let faults = trials.map(|trials| format!("kill-after={trials}"));
        let mut args = vec!["run", file.to_str().expect("scratch folders are UTF-8"), "--sim", &sim, "--quiet"];
        args.extend(faults.iter().flat_map(|faults| ["--sim-faults", faults]));
        let ended = nearfar(&self.store(), &args).status;
        assert_eq!(ended.success(), trials.is_none(), "{ended}");
    }

    fn latest(&self) -> String {
        let shown = text(&nearfar(&self.store(), &["show", "--format", "json"]));
        let shown: Value = serde_json::from_str(&shown).expect("show prints JSON");
        shown["run"]["id"].as_str().expect("a run has an id").into()
    }

    fn serve(&self) -> Served {
        Served::start(&self.store(), &[])
    }
}

/// A server that runs; it is killed with this value.
struct Served {
    child: Child,
    port: u16,
    token: String,
    url: String,
}

impl Served {
    fn start(store: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(store).args(["serve", "--format", "json"]).stderr(Stdio::null());
        command.args(if args.is_empty() { &["--port", "0"] } else { args });
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut said = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut text = String::new();
        while serde_json::from_str::<Value>(&text).is_err() {
            let read = said.read_line(&mut text).expect("it prints text");
            assert!(read > 0, "it ended instead of saying where it is: {text}");
        }
        let json: Value = serde_json::from_str(&text).expect("it was read just now");
        let word = |key: &str| json[key].as_str().expect(key).to_string();
        Self { child, port: json["port"].as_u64().expect("a port") as u16, token: word("token"), url: word("url") }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("sockets have time limits");
        stream
    }

    /// What comes back for these bytes, as soon as the server closes.
    fn send(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request).expect("it reads");
        Reply::read(&mut stream)
    }

    /// What comes back for a target, from who has the token.
    fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, "")
    }

    fn ask(&self, method: &str, target: &str, fields: &str) -> Reply {
        self.send(self.request(method, target, fields).as_bytes())
    }

    fn request(&self, method: &str, target: &str, fields: &str) -> String {
        let token = &self.token;
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{fields}\r\n")
    }

    /// A stream of events, behind its head.
    fn follow(&self, target: &str, seen: Option<&str>) -> Events {
        let seen = seen.map_or(String::new(), |seen| format!("Last-Event-ID: {seen}\r\n"));
        let mut stream = self.connect();
        stream.write_all(self.request("GET", target, &seen).as_bytes()).expect("it reads");
        let mut events = Events { lines: BufReader::new(stream) };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(events.lines.read_line(&mut head).expect("it answers") > 0, "it closed: {head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Type: text/event-stream"), "{head}");
        events
    }

    /// Most memory that it ever had, KiB.
    fn memory_kib_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel says");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill starts");
        assert!(sent.success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill(); // may have ended
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the server answers in time and closes");
        let text = String::from_utf8(bytes).expect("answers are text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.into(), body: body.into() }
    }

    fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }
}

struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    /// The next event's id and data; none when the stream ends.
    fn next(&mut self) -> Option<(String, Value)> {
        let (mut id, mut data) = (String::new(), None);
        let until = Instant::now() + PATIENCE;
        loop {
            // Heartbeats are no news.
            assert!(Instant::now() < until, "no news in time");
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("news come in time") == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", text)) => id = text.into(),
                Some(("data", text)) => data = Some(serde_json::from_str(text).expect("data are JSON")),
                _ if line == "\n" && data.is_some() => return data.map(|data| (id, data)),
                _ => {}
            }
        }
    }
}

/// What stands between two tags, tags included.
fn part<'a>(page: &'a str, name: &str) -> &'a str {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let from = page.find(&begin).unwrap_or_else(|| panic!("no {begin} in {page}"));
    &page[from..page.find(&end).expect("it ends") + end.len()]
}

#[test]
fn pages_are_those_of_report_and_json_that_of_show_and_compare() {
    let bench = Bench::new();
    bench.run(1, None);
    bench.run(2, None);
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/published/ryzen-2600-ccx.csv");
    text(&nearfar(&bench.store(), &["import", published]));
    let (server, run) = (bench.serve(), bench.latest());
    let own = |args: &[&str]| text(&nearfar(&bench.store(), args));
    let page = server.get(&format!("/runs/{run}"));
    assert_eq!(page.status, 200, "{page:?}");
    let file = own(&["report", &run, "-o", "-"]);
    for name in ["title", "style", "header", "main", "footer"] {
        assert_eq!(part(&page.body, name), part(&file, name), "{name}");
    }
    assert_eq!(part(&server.get("/report").body, "main"), part(&own(&["report", "-o", "-"]), "main"));
    let shown: Value = serde_json::from_str(&own(&["show", &run, "--format", "json"])).expect("it prints JSON");
    assert_eq!(server.get(&format!("/runs/{run}.json")).json(), shown);
    let list = server.get("/").body;
    for words in [&run, "small", "ryzen-2600-ccx", "all repetitions", "12 valid"] {
        assert!(list.contains(words), "{words}: {list}");
    }
    let runs: Value = serde_json::from_str(&own(&["show", "--runs", "--format", "json"])).expect("it prints JSON");
    assert_eq!(server.get("/runs.json").json(), runs);
    let ids: Vec<&str> =
        runs["runs"].as_array().expect("a list").iter().map(|run| run["id"].as_str().expect("text")).collect();
    let compared: Value = serde_json::from_str(&own(&["compare", ids[0], ids[1], "--by", "run", "--format", "json"]))
        .expect("it prints JSON");
    assert_eq!(server.get(&format!("/compare.json?run={}&run={}", ids[0], ids[1])).json(), compared);
    let asked = server.get(&format!("/compare?run={}&run={}&by=placement&baseline=kernel", ids[0], ids[1])).body;
    assert!(asked.contains("Against kernel, by placement") && asked.matches(" checked>").count() == 2, "{asked}");
    assert!(server.get("/compare?table=ryzen-2600-ccx").body.contains("6-thread-1ccx"));
    let wrong = server.get(&format!("/compare?run={run}&baseline=nosuch")).body;
    assert!(wrong.contains("role=\"alert\"") && wrong.contains("nosuch"), "{wrong}");
    assert_eq!(server.get("/compare.json?baseline=nosuch").status, 400);
    let head = server.ask("HEAD", &format!("/runs/{run}"), "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.field("Content-Length"), Some(page.body.len().to_string().as_str()));
    let short = server.get("/runs/latest");
    assert_eq!((short.status, short.field("Location")), (303, Some(format!("/runs/{run}").as_str())));
}

#[test]
fn a_trial_that_another_process_stores_is_told_to_who_listens() {
    let bench = Bench::new();
    bench.run(1, Some(1));
    let (server, run) = (bench.serve(), bench.latest());
    let (events, page) = (format!("/runs/{run}/events"), format!("/runs/{run}"));
    let mut news = server.follow(&events, None);
    let mut list = server.follow("/events", None);
    let (first, state) = news.next().expect("how it stands is told at once");
    assert_eq!((first.as_str(), state["trials"].as_u64(), state["ended"].as_bool()), ("1", Some(1), Some(false)));
    assert_eq!(list.next().expect("it too").1["trials"], 1);
    assert!(server.get(&page).body.contains(&format!("data-events=\"{events}?seen=1\"")));
    for trials in 2..=4 {
        bench.run(1, Some(1));
        let (id, state) = news.next().expect("a trial was stored");
        assert_eq!((id, state["trials"].as_u64()), (trials.to_string(), Some(trials)));
        assert!(state["standing"].as_str().expect("words").starts_with(&format!("{trials} trials so far")), "{state}");
        assert!(server.get(&page).body.contains(&format!("seen={trials}")), "the page is not an old one");
    }
    // Who comes back is told what it has not seen, and nothing that it has.
    assert_eq!(server.follow(&events, Some("2")).next().expect("trials 3 and 4 were stored meanwhile").0, "4");
    let mut again = server.follow(&events, Some("4"));
    bench.run(1, Some(1));
    assert_eq!(again.next().expect("the fifth").0, "5");
    bench.run(1, None);
    let last = |news: &mut Events| loop {
        let (id, state) = news.next().expect("the end is told");
        if state["ended"] == true {
            return (id, news.next().is_none());
        }
    };
    assert_eq!(last(&mut news), ("15-ended".to_string(), true), "and then there is nothing more");
    assert_eq!(last(&mut again), ("15-ended".to_string(), true));
    assert_eq!(server.ask("GET", &events, "Last-Event-ID: 15-ended\r\n").status, 204, "so browsers ask no more");
    let page = server.get(&page).body;
    assert!(!page.contains("data-events") && page.contains("all repetitions"), "a run that has ended is not followed");
}

#[test]
fn who_has_no_token_or_calls_it_by_another_name_is_refused() {
    let bench = Bench::new();
    bench.run(1, None);
    let server = bench.serve();
    let (port, token) = (server.port, server.token.clone());
    assert_eq!(server.url, format!("http://127.0.0.1:{port}/?token={token}"));
    assert!(token.len() >= 32, "128 bits at least");
    let request = |target: &str, fields: &str| server.send(format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes());
    let local = "Host: 127.0.0.1\r\n";
    let cases = [
        (request("/", local), 401),
        (request("/no/such/page", local), 401),
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
        assert_eq!(reply.body.contains("small"), *expected == 200, "nothing is told to who is refused: {number}");
        assert!(!reply.body.contains(&token), "{number}");
    }
    let taken = request(&format!("/runs/latest?x=1&token={token}"), local);
    assert_eq!((taken.status, taken.field("Location")), (303, Some("/runs/latest?x=1")));
    let cookie = taken.field("Set-Cookie").expect("the token is kept");
    assert_eq!(cookie, format!("nearfar-{port}={token}; Path=/; HttpOnly; SameSite=Strict"));
    for reply in [&cases[0].0, &cases[7].0, &taken] {
        let policy = reply.field("Content-Security-Policy").expect("every answer has one");
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
fn no_request_becomes_a_path() {
    let bench = Bench::new();
    bench.run(1, None);
    std::fs::write(bench.folder.path().join("secret.txt"), "the secret").expect("the folder can be written");
    let before = std::fs::read(bench.store()).expect("it is there");
    let server = bench.serve();
    let names =
        ["secret.txt", "../secret.txt", "../../../../../../etc/passwd", "/etc/passwd", "results.db", "small.toml"];
    let forms: [fn(&str) -> String; 5] = [
        str::to_string,
        |name| name.replace('/', "%2f").replace('.', "%2e"),
        |name| name.replace('/', "%252f"),
        |name| name.replace('/', "\\"),
        |name| name.replace("../", "..;/"),
    ];
    let places =
        ["/", "/runs/", "/runs/./", "/report/", "/compare?table=", "/compare?run=", "/compare.json?run=", "//"];
    for (name, form, place) in
        names.iter().flat_map(|name| forms.iter().flat_map(move |form| places.map(|place| (*name, form, place))))
    {
        let target = format!("{place}{}", form(name));
        for target in [target.clone(), format!("{target}.json"), format!("{target}/events")] {
            let reply = server.get(&target);
            let form_again = reply.status == 200 && target.starts_with("/compare?");
            assert!(matches!(reply.status, 400 | 404) || form_again, "{target}: {reply:?}");
            assert!(!reply.body.contains("the secret") && !reply.body.contains("root:"), "{target}: {reply:?}");
        }
    }
    assert_eq!(std::fs::read(bench.store()).expect("it is there"), before, "the results file is only read");
}

#[test]
fn bad_requests_are_answered_and_harm_nobody() {
    let bench = Bench::new();
    bench.run(1, None);
    let server = bench.serve();
    let good = server.request("GET", "/", "");
    let begun = good.strip_suffix("\r\n").expect("it ends in an empty line");
    let long = "x".repeat(100_000);
    let cases: Vec<(Vec<u8>, u16)> = vec![
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03".to_vec(), 400),
        ((0..=255).cycle().take(5_000).collect(), 400),
        (b"\r\n\r\n\0\0\0\r\n\r\n".to_vec(), 400),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), 400),
        (b"GET\r\n\r\n".to_vec(), 400),
        (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes(), 431),
        (format!("{begun}X-Long: {long}\r\n\r\n").into_bytes(), 431),
        (format!("{begun}{}\r\n", "X: y\r\n".repeat(100)).into_bytes(), 431),
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
    // Half a request, and then the end, or silence, or a byte now and then for ever.
    let half = |end: fn(&TcpStream)| {
        let mut stream = server.connect();
        stream.write_all(&good.as_bytes()[..good.len() / 2]).expect("it reads");
        end(&stream);
        Reply::read(&mut stream).status
    };
    assert_eq!(half(|stream| stream.shutdown(std::net::Shutdown::Write).expect("it can be closed")), 400);
    let slow = || {
        let mut stream = server.connect();
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("sockets have time limits");
        stream.write_all(b"GET / HTTP/1.1\r\n").expect("it reads");
        let began = Instant::now();
        let mut answer = Vec::new();
        while began.elapsed() < PATIENCE && stream.write_all(b"X: y\r\n").is_ok() {
            let mut piece = [0; 1024];
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&piece[..count]),
                Err(_) => {} // nothing yet
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    };
    thread::scope(|scope| {
        let (silent, slow) = (scope.spawn(|| half(|_| {})), scope.spawn(slow));
        assert_eq!(silent.join().expect("it ends"), 408);
        let slow = slow.join().expect("it ends");
        // It is cut at its time, or earlier by the number of its fields.
        assert!(slow.starts_with("HTTP/1.1 408 ") || slow.starts_with("HTTP/1.1 431 "), "{slow}");
    });
    assert_eq!(server.send(good.as_bytes()).status, 200, "and it goes on");
}

#[test]
fn many_at_once_are_all_answered() {
    const LISTENERS: usize = 40;
    const CLIENTS: usize = 16;
    const REQUESTS: usize = 30;
    let bench = Bench::new();
    bench.run(1, None);
    bench.run(2, Some(3));
    let (server, run) = (bench.serve(), bench.latest());
    let events = format!("/runs/{run}/events");
    let mut listeners: Vec<Events> = (0..LISTENERS).map(|_| server.follow(&events, None)).collect();
    for listener in &mut listeners {
        assert_eq!(listener.next().expect("how it stands").0, "3");
    }
    let pages = ["/".to_string(), format!("/runs/{run}"), "/runs.json".into(), "/report".into(), "/nosuch".into()];
    let client = |number: usize| -> Vec<u16> {
        (0..REQUESTS).map(|turn| server.get(&pages[(number + turn) % pages.len()]).status).collect()
    };
    let statuses: Vec<u16> = thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("every request is answered")).collect()
    });
    let count = |status| statuses.iter().filter(|own| **own == status).count();
    assert_eq!(statuses.len(), CLIENTS * REQUESTS);
    assert_eq!(count(200) + count(404), statuses.len(), "there is room for so many: {statuses:?}");
    assert_eq!(count(404), CLIENTS * REQUESTS / pages.len());
    bench.run(2, Some(1));
    for listener in &mut listeners {
        assert_eq!(listener.next().expect("the fourth trial").0, "4");
    }
    // Streams have a limit, said with a status, and pages are still given beside them.
    let mut more: Vec<Reply> = Vec::new();
    let mut held = Vec::new();
    while more.is_empty() {
        assert!(held.len() < 100, "there is no limit");
        let mut stream = server.connect();
        stream.write_all(server.request("GET", &events, "").as_bytes()).expect("it reads");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("it answers");
        match &first {
            b"HTTP/1.1 200" => held.push(stream),
            b"HTTP/1.1 503" => more.push(Reply { status: 503, head: String::new(), body: String::new() }),
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert_eq!(held.len() + LISTENERS, 64);
    assert_eq!(server.get("/").status, 200);
    // Who hangs up makes room for others.
    drop((held, listeners));
    let until = Instant::now() + PATIENCE;
    while server.ask("HEAD", &events, "").status == 503 {
        assert!(Instant::now() < until, "streams that were closed are still counted");
        thread::sleep(Duration::from_millis(50));
    }
    let memory = server.memory_kib_max();
    assert!(memory < 300 << 10, "{memory} KiB");
}

#[test]
fn beyond_all_connections_there_is_an_answer_too() {
    let bench = Bench::new();
    bench.run(1, None);
    let server = bench.serve();
    // They say nothing, and hold their places until their time is up.
    let idle: Vec<TcpStream> = (0..128).map(|_| server.connect()).collect();
    let refused = server.get("/");
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")), "{refused:?}");
    drop(idle);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_signal_ends_it_cleanly_and_at_once() {
    let bench = Bench::new();
    bench.run(1, Some(2));
    let run = bench.latest();
    for signal in ["-TERM", "-INT"] {
        let mut server = bench.serve();
        let mut events = server.follow(&format!("/runs/{run}/events"), None);
        assert_eq!(events.next().expect("how it stands").0, "2");
        let began = Instant::now();
        server.signal(signal);
        assert_eq!(server.child.wait().expect("it ends").code(), Some(0), "{signal}");
        assert!(began.elapsed() < Duration::from_secs(20), "{signal}: it waits for somebody");
        assert!(events.next().is_none(), "the stream is closed");
        assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err(), "nobody listens");
    }
}

#[test]
fn what_is_wrong_with_the_command_is_named() {
    let bench = Bench::new();
    let missing = nearfar(&bench.store(), &["serve", "--port", "0"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("results.db does not exist"), "{missing:?}");
    assert!(!bench.store().exists(), "it is not made");
    bench.run(1, None);
    let server = bench.serve();
    let port = server.port.to_string();
    let cases: [(&[&str], &str); 5] = [
        (&["serve", "--port", &port], "--port 0 selects a free port"),
        (&["serve", "--listen", "nonsense:nonsense"], "--listen nonsense:nonsense"),
        (&["serve", "--listen", "192.0.2.1:0"], "cannot listen on 192.0.2.1:0"),
        (&["serve", "--listen", "no-such-host.invalid:1"], "no-such-host.invalid"),
        (&["serve", "--listen", "127.0.0.1", "--port", "1"], "cannot be used with"),
    ];
    for (args, expected) in cases {
        let output = nearfar(&bench.store(), args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected) && output.stdout.is_empty(), "{args:?}: {said}");
    }
    // The usual port may be somebody's; then one near it is taken.
    let _taken = TcpListener::bind("127.0.0.1:6327");
    let usual = Served::start(&bench.store(), &["--quiet"]);
    assert!((6328..6347).contains(&usual.port), "{}", usual.port);
    let listening = Served::start(&bench.store(), &["--listen", "127.0.0.2:0"]);
    assert!(listening.url.starts_with("http://127.0.0.2:"), "{}", listening.url);
}
