//! Random changes of valid inputs for every reader of foreign bytes: no reader panics, hangs or takes much memory.
//!
//! The inputs depend only on the seed. `NEARFAR_FUZZ=100000 cargo test -p nearfar --test fuzz -- --nocapture` tries that
//! many inputs for each reader (`make soak`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

// The parser of request heads, which only the program itself uses.
#[allow(dead_code)]
#[path = "../src/serve/request.rs"]
mod request;
#[allow(dead_code)]
#[path = "../src/serve/status.rs"]
mod status;

use farmem::trace::Decoder;
use graph::{ArrayPlacement, PlainTeam, Spec, Tuples};
use machine::topology::TopologySource;
use model::experiments::experiment::{self, JobFileOptions};
use model::import::reports;
use model::values::capture::Capture;
use model::values::settings::{FactValue, Settings};
use model::values::units::{Bytes, Nanos};

const NEARFAR: &str = env!("CARGO_BIN_EXE_nearfar");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Inputs for each reader, without `NEARFAR_FUZZ`.
const INPUTS: u64 = 800;
/// Maximum CPU time of the reader for an input, with the time per byte. Other tests may use the CPUs.
const TIME: Duration = Duration::from_secs(2);
const TIME_PER_BYTE: Duration = Duration::from_micros(50);
/// Time after which an input hangs.
const HANG: Duration = Duration::from_secs(60);
/// Maximum growth of this process during an input. Two readers run concurrently.
const MEMORY: u64 = 256 << 20;
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Fragments that readers treat specially.
const FRAGMENTS: [&[u8]; 24] = [
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b",",
    b"\"",
    b"'",
    b"[",
    b"]",
    b"{",
    b"}",
    b"=",
    b":",
    b"-",
    b"0",
    b"-1",
    b"1e309",
    b"NaN",
    b"\0",
    b"\xff",
    b"99999999999999999999",
    b"<a>",
    b"&#x0;",
    b"\xef\xbb\xbf",
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Returns a valid input with one to six random changes.
fn changed(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(200)).min(bytes.len());
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at, FRAGMENTS[random.below(FRAGMENTS.len())].iter().copied())),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].repeat(1 + random.below(50));
                bytes.splice(at..at, piece);
            }
            5 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                bytes.splice(at..end, other[from..(from + 300).min(other.len())].iter().copied());
            }
            6 => drop(bytes.splice(at..end, FRAGMENTS[random.below(FRAGMENTS.len())].iter().copied())),
            _ => bytes.rotate_left(at),
        }
        bytes.truncate(INPUT_BYTES_MAX);
    }
    bytes
}

/// Resident memory of this process.
fn resident() -> u64 {
    machine::memory::resident().map_or(0, |(now, _)| now.0)
}

/// The input that is read now, and the number of inputs so far.
static CURRENT: Mutex<String> = Mutex::new(String::new());
static BEGAN: AtomicU64 = AtomicU64::new(0);
/// Number of tests that read inputs now.
static ACTIVE: AtomicU64 = AtomicU64::new(0);

/// Ends the process if an input takes too long, because a thread that hangs cannot be stopped.
struct Watchdog;

impl Watchdog {
    fn start() -> Self {
        ACTIVE.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(|| {
            let mut last = (0, Instant::now());
            while ACTIVE.load(Ordering::Relaxed) > 0 {
                std::thread::park_timeout(Duration::from_millis(500));
                let began = BEGAN.load(Ordering::Relaxed);
                if began != last.0 {
                    last = (began, Instant::now());
                } else if last.1.elapsed() > HANG {
                    println!("hangs: {}", CURRENT.lock().unwrap_or_else(PoisonError::into_inner));
                    std::process::abort();
                }
            }
        });
        Self
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Notes the input that is read next.
fn begin(reader: &str, number: u64) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = format!("{reader}, input {number}");
    BEGAN.fetch_add(1, Ordering::Relaxed);
}

fn inputs() -> u64 {
    std::env::var("NEARFAR_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(INPUTS)
}

/// Tries random inputs; `share` of them for a slow reader.
fn fuzz(reader: &str, seeds: &[Vec<u8>], share: u64, read: &dyn Fn(&[u8])) {
    assert!(!seeds.is_empty(), "{reader}: no valid input");
    let count = (inputs() / share).max(10);
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut slowest, mut largest) = (Duration::ZERO, 0);
    for number in 0..count {
        let input = changed(seeds, &mut random);
        begin(reader, number);
        let (before, memory) = (machine::thread_time::used(), resident());
        let result = catch_unwind(AssertUnwindSafe(|| read(&input)));
        let (time, grown) = (machine::thread_time::used().saturating_sub(before), resident().saturating_sub(memory));
        let limit = TIME + TIME_PER_BYTE * input.len() as u32;
        let text = || String::from_utf8_lossy(&input[..input.len().min(2000)]).into_owned();
        assert!(result.is_ok(), "{reader}: input {number} panics: {:?}", text());
        assert!(time < limit, "{reader}: input {number} of {} bytes takes {time:?}: {:?}", input.len(), text());
        assert!(grown < MEMORY, "{reader}: input {number} takes {grown} bytes: {:?}", text());
        (slowest, largest) = (slowest.max(time), largest.max(grown));
    }
    println!("{reader}: {count} inputs, at most {slowest:?} and {} MiB", largest >> 20);
}

fn files(dir: &str, suffix: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(ROOT).join(dir);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&dir).expect("the directory exists").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(suffix));
    paths.sort();
    let read = |path: &PathBuf| {
        let mut bytes = std::fs::read(path).expect("the file is readable");
        bytes.truncate(INPUT_BYTES_MAX);
        bytes
    };
    paths.iter().map(read).collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn readers_of_text_survive_random_inputs() {
    let _watchdog = Watchdog::start();
    let specs = workloads::specs();
    fuzz("reports", &files("crates/model/tests/reports", ""), 1, &|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = reports::detect(&text).map(|format| reports::read(format, &text));
        // Also those that are not detected any more.
        let _ = reports::FORMATS.iter().flat_map(|format| reports::read(format, &text)).count();
    });
    fuzz("experiments", &files("experiments", ".toml"), 1, &|bytes| {
        let _ = experiment::parse(&String::from_utf8_lossy(bytes), "fuzz.toml", &specs);
    });
    let jobs = "[global]\nbs=4k\nrw=randread\nsize=1m\nruntime=5\n[a]\niodepth=16\n[a]\nstonewall\nrw=write\nbs=128k\nnumjobs=2\n";
    fuzz("fio jobs", &texts(&[jobs]), 1, &|bytes| {
        let options = JobFileOptions { name: "fuzz", placements: &[] };
        let _ = experiment::read_jobs(&String::from_utf8_lossy(bytes), "fuzz.fio", options, &specs);
    });
    fuzz("tables", &files("docs/results/published", ".csv"), 1, &|bytes| {
        let _ = store::import::table_from_csv(&String::from_utf8_lossy(bytes), Path::new("fuzz.csv"));
    });
    let placements =
        ["kernel", "compact+memory-local+swap:1g", "-C 0-3,8 -m 0", "irq:same-node", "expand:50%", "cores-across-l3"];
    fuzz("captures", &[capture()], 1, &|bytes| {
        let _ = Capture::parse(&String::from_utf8_lossy(bytes));
    });
    fuzz("placements", &texts(&placements), 1, &|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = model::placements::placement::check(&text);
        let _ = (Bytes::parse(&text), Nanos::parse(&text));
    });
}

#[test]
fn readers_of_messages_survive_random_inputs() {
    let _watchdog = Watchdog::start();
    let node = fleet::NodeName::parse("node-1").expect("a valid name");
    let job = fleet::JobName::parse("job").expect("a valid name");
    let request = fleet::Request::new(&node, fleet::RequestBody::Copy(job.clone())).to_bytes();
    let status = fleet::JobStatus::bare(&job, fleet::JobState::Running, "3 of 4".into());
    let response = fleet::Response::new(fleet::ResponseBody::Statuses(vec![status])).to_line().into_bytes();
    fuzz("requests and responses", &[request, response], 1, &|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = (fleet::Request::read(&text), fleet::Response::read(&text));
    });
}

/// A small capture with all parts.
fn capture() -> Vec<u8> {
    let source = TopologySource::Synthetic("pack:2 [numa] l3:1 core:2 pu:2".into());
    let topology = machine::topology::read_isolated(&source, Path::new(NEARFAR)).expect("a valid description");
    let mut settings = Settings::default();
    settings.record("kernel.release", FactValue::Known("6.18.0".into()));
    settings.record("cpu.governor", FactValue::Unavailable("no driver".into()));
    serde_json::to_vec(&Capture::new(topology, settings)).expect("it has only text keys")
}

#[test]
fn readers_of_requests_survive_random_inputs() {
    let _watchdog = Watchdog::start();
    let heads = [
        "GET /runs/ab?seen=1%2B1&by=two+words&flag HTTP/1.1\r\nHost: localhost:6327\r\nCookie: a=b; c=d\r\n\r\n",
        "HEAD http://localhost/compare?run=a&run=b#top HTTP/1.0\r\nAuthorization: bearer xyz\r\nLAST-EVENT-ID: 7\r\n\r\n",
    ];
    fuzz("request heads", &texts(&heads), 1, &|bytes| {
        let head = &bytes[..bytes.len().min(request::BYTES_MAX)];
        let _ = request::parse(head);
    });
}

/// hwloc runs in a separate process, which may crash, and which is ended after 10 s.
#[test]
fn readers_of_hwloc_xml_survive_random_inputs() {
    let _watchdog = Watchdog::start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("topology.xml");
    let source = TopologySource::XmlFile(path.clone());
    fuzz("hwloc XML", &files("tests/topologies/models", ".xml"), 40, &|bytes| {
        std::fs::write(&path, bytes).expect("the directory is writable");
        if let Ok(topology) = machine::topology::read_isolated(&source, Path::new(NEARFAR)) {
            let _ = topology.summary();
        }
    });
}

#[test]
fn readers_of_binary_files_survive_random_inputs() {
    let _watchdog = Watchdog::start();
    fuzz("traces", &files("crates/farmem/src/predict/traces", ".trace"), 1, &|bytes| {
        if let Ok(decoder) = Decoder::begin(bytes) {
            let _ = decoder.flatten().count();
        }
    });
    let (team, placement) = (PlainTeam(1), ArrayPlacement::kernel_default());
    let spec = Spec::graph500(6);
    let tuples = Tuples::generate(&team, &spec, &placement).expect("a small graph");
    let layout = graph::build(&team, &tuples, 4, &placement).expect("a small graph");
    let mut file = Vec::new();
    graph::write(&layout, &mut file).expect("memory is writable");
    fuzz("graphs", &[file], 2, &|bytes| {
        let _ = graph::read(&mut &bytes[..], PlainTeam(1), &ArrayPlacement::kernel_default());
    });
}

#[test]
fn damaged_results_files_are_read_or_refused() {
    let _watchdog = Watchdog::start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let old = std::fs::read(Path::new(ROOT).join("crates/nearfar/tests/fixtures/results-0.1/results.db"));
    let old = old.expect("the fixture exists");
    let path = dir.path().join("r.db");
    let mut own = store::Store::open(&dir.path().join("own.db")).expect("a new file");
    // A whole file, because a prefix is always refused.
    let mut random = Random(7);
    let count = (inputs() / 50).max(10);
    for number in 0..count {
        let mut bytes = old.clone();
        for _ in 0..=random.below(20) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        std::fs::write(&path, &bytes).expect("the directory is writable");
        begin("results files", number);
        let start = Instant::now();
        let read = catch_unwind(AssertUnwindSafe(|| {
            if let Ok(store) = store::Store::open_unchanged(&path) {
                for run in store.runs().unwrap_or_default() {
                    let _ = (store.run(&run.id.0), store.trials(&run.id));
                }
            }
            let _ = own.merge(&path);
        }));
        assert!(read.is_ok(), "input {number} panics");
        assert!(start.elapsed() < Duration::from_secs(20), "input {number} takes {:?}", start.elapsed());
        assert!(std::fs::read(&path).expect("the file exists") == bytes, "input {number} was changed by reading it");
    }
    println!("results files: {count} inputs");
}
