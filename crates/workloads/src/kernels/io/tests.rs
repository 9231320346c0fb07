//! Integration tests: every engine on real files, injected errors, and the effect of stalls on the statistics.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::for_tests::{job, options};
use super::queue::{Queue, Wait};
use super::worker::{Request, RequestKind};
use super::*;
use crate::kernels::check_smoke;

const ENGINES: [&str; 5] = ["io_uring", "libaio", "psync", "preadv2", "mmap"];

fn values(output: &KernelOutput) -> BTreeMap<&str, f64> {
    output.samples.iter().map(|sample| (sample.series.as_str(), sample.value)).collect()
}

/// Runs a trial. Returns `None` and prints the reason if this machine does not support it.
fn run_or_skip(pairs: &[(&str, &str)]) -> Option<KernelOutput> {
    match run(&job(pairs)) {
        Ok(output) => Some(output),
        Err(Failure::Unavailable(reason)) => {
            println!("skipped: io with {pairs:?}: {reason}");
            None
        }
        Err(other) => panic!("{pairs:?}: {other}"),
    }
}

fn error(pairs: &[(&str, &str)]) -> String {
    run(&job(pairs)).unwrap_err().to_string()
}

#[test]
fn cpu_times_cover_only_the_timed_region() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    for (engine, threads) in [("psync", 1), ("mmap", 2)] {
        let pairs = [("engine", engine), ("size", "256MiB"), ("runtime", "300ms"), ("direct", "false")];
        let job = TrialContext { threads, ..job(&pairs) };
        run(&job).unwrap();
        let times = job.meanwhile.seen();
        assert!(times.len() >= cpus, "{times:?}");
        // Ticks are 10 ms. Filling 256 MiB beforehand takes longer than the tolerance beyond the runtime.
        let spans: Vec<u64> = times.values().map(|time| time.total().0 / 1_000_000).collect();
        assert!(spans.iter().all(|ms| (200..=600).contains(ms)), "{engine}: {spans:?}");
        let busy: u64 = times.values().map(|time| time.busy().0).sum();
        assert!(busy >= 150_000_000, "{engine}: a thread reads from memory all the time: {times:?}");
    }
    let failing = job(&[("bs", "4KiB"), ("size", "1MiB"), ("file", "/dev/null")]);
    run(&failing).unwrap_err();
    assert!(failing.meanwhile.seen().is_empty());
}

#[test]
fn smoke_runs_with_every_engine_and_kind() {
    for engine in ENGINES {
        let depth = if ["io_uring", "libaio"].contains(&engine) { "8" } else { "1" };
        for (rw, threads) in [("read", 2), ("randread", 1), ("write", 1), ("randwrite", 2), ("rw", 1), ("randrw", 2)] {
            let pairs = [("engine", engine), ("rw", rw), ("iodepth", depth)];
            let job = TrialContext { threads, ..job(&pairs) };
            let output = match run(&job) {
                Ok(output) => output,
                Err(Failure::Unavailable(reason)) => {
                    println!("skipped: io with {engine}: {reason}");
                    continue;
                }
                Err(other) => panic!("{engine} {rw}: {other}"),
            };
            let values = values(&output);
            assert!((values["iops"] * 4096.0 / 1_048_576.0 - values["bandwidth"]).abs() < 1e-6 * values["bandwidth"]);
            let rising = ["latency", "latency-p99", "latency-p99.9", "latency-p99.99"].map(|name| values[name]);
            assert!(rising.is_sorted() && rising[0] > 0.0, "{engine} {rw}: {rising:?}");
            assert!(values["cpu-per-io"] > 0.0);
            assert_eq!(values.contains_key("latency-submit"), depth == "8", "{engine}");
            let mixed = values.get("read-iops").zip(values.get("write-iops"));
            assert_eq!(mixed.is_some(), rw.ends_with("rw"));
            if let Some((reads, writes)) = mixed {
                assert!(((reads + writes) / values["iops"] - 1.0).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn mix_with_queues_has_every_metric() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<String> = (1..=8).map(|name| format!("{}/{name}", dir.path().display())).collect();
    let pairs = [("rw", "randrw"), ("iodepth", "4"), ("file", &files.join(","))];
    match run(&TrialContext { threads: 8, ..job(&pairs) }) {
        Ok(output) => check_smoke("io", &output),
        Err(failure) => unavailable(failure).unwrap(),
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file remains");
}

#[test]
fn all_data_kinds_can_be_read_back_and_verified() {
    for engine in ENGINES {
        for rw in ["read", "write", "randrw"] {
            for data in ["random", "zero", "compress:50"] {
                for verify in ["false", "true"] {
                    let pairs = [("engine", engine), ("rw", rw), ("data", data), ("verify", verify), ("bs", "16KiB")];
                    run_or_skip(&[&pairs[..], &[("runtime", "5ms")]].concat());
                }
            }
        }
    }
}

#[test]
fn io_uring_modes_run_or_are_unavailable_with_a_reason() {
    for way in [("registered", "false"), ("sqpoll", "true"), ("fsync", "7"), ("ramp", "10ms"), ("rate", "1000")] {
        run_or_skip(&[("rw", "randrw"), ("iodepth", "8"), way]);
    }
    run_or_skip(&[("iodepth", "8"), ("direct", "true")]);
    run_or_skip(&[("iopoll", "true"), ("direct", "true")]);
    run_or_skip(&[("engine", "preadv2"), ("iopoll", "true"), ("direct", "true")]);
}

/// Two existing files of the user, filled with ones.
fn two_files() -> [tempfile::NamedTempFile; 2] {
    [1, 2].map(|number| {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![number; 1 << 20]).unwrap();
        file
    })
}

fn joined(files: &[tempfile::NamedTempFile]) -> String {
    files.iter().map(|file| file.path().to_str().unwrap()).collect::<Vec<_>>().join(",")
}

#[test]
fn several_files_have_separate_throughput_series() {
    let files = two_files();
    let file = joined(&files);
    for engine in ENGINES {
        let amount = [("engine", engine), ("file", &file), ("rw", "read"), ("bs", "64KiB"), ("amount", "1MiB")];
        // The first file has two threads, the second one.
        let job = TrialContext { threads: 3, ..job(&amount) };
        let output = match run(&job) {
            Ok(output) => output,
            Err(Failure::Unavailable(reason)) => {
                println!("skipped: io with {engine}: {reason}");
                continue;
            }
            Err(other) => panic!("{engine}: {other}"),
        };
        let values = values(&output);
        assert!(values["iops-file1"] > 0.0 && !values.contains_key("iops-file3"), "{values:?}");
    }
    assert!(
        !values(&run_or_skip(&[("engine", "psync")]).unwrap()).contains_key("iops-file1"),
        "a single file has only iops"
    );
}

#[test]
fn each_file_requires_its_own_allow_overwrite() {
    let files = two_files();
    let (both, first) = (joined(&files), files[0].path().to_str().unwrap().to_string());
    let second = files[1].path().to_str().unwrap().to_string();
    let write = |allowed: &str| {
        let pairs = [("engine", "psync"), ("rw", "write"), ("file", &both), ("allow-overwrite", allowed)];
        run(&TrialContext { threads: 2, ..job(&[&pairs[..], &[("verify", "true"), ("amount", "64KiB")]].concat()) })
    };
    let untouched = || files.iter().map(|file| fs::read(file.path()).unwrap()[0]).collect::<Vec<_>>() == [1, 2];
    for (allowed, missing) in [("", &first), (first.as_str(), &second), (second.as_str(), &first)] {
        let message = write(allowed).unwrap_err().to_string();
        assert!(message.contains(&format!("hint: --allow-overwrite {missing}")) && untouched(), "{allowed}: {message}");
    }
    let unnamed = write(&format!("{both},/x")).unwrap_err().to_string();
    assert!(unnamed.contains("--allow-overwrite /x names none of the files") && untouched(), "{unnamed}");
    write(&both).unwrap();
    let written = files.iter().map(|file| fs::read(file.path()).unwrap()[..4096].to_vec()).collect::<Vec<_>>();
    assert!(!untouched() && written[0] != written[1], "blocks of different files differ");
}

#[test]
fn invalid_lists_of_files_return_errors() {
    let of = |file: &str, threads| run(&TrialContext { threads, ..job(&[("file", file)]) }).unwrap_err().to_string();
    let files = two_files();
    let both = joined(&files);
    assert!(
        of(&both, 1).contains("2 files need at least 2 threads, but there are 1; hint: --threads 2"),
        "{}",
        of(&both, 1)
    );
    assert!(of("/a,/b,/a", 3).contains("names /a twice"));
    assert!(of("/1,/2,/3,/4,/5,/6,/7,/8,/9", 9).contains("names 9 files, but at most 8 are supported"));
    assert!(of(&format!("{both},/nowhere/x"), 3).contains("cannot create /nowhere/x"));
    let comma = tempfile::Builder::new().prefix("a,b").tempfile().unwrap();
    fs::write(comma.path(), vec![0; 1 << 20]).unwrap();
    run(&job(&[("file", comma.path().to_str().unwrap())])).map(drop).or_else(unavailable).unwrap();
}

fn unavailable(failure: Failure) -> Result<(), Failure> {
    if let Failure::Unavailable(reason) = &failure {
        println!("skipped: io: {reason}");
        return Ok(());
    }
    Err(failure)
}

#[test]
fn unusable_targets_return_errors() {
    assert!(error(&[("file", "/nowhere/x")]).contains("cannot create /nowhere/x"));
    assert!(error(&[("file", "/dev/nowhere")]).contains("cannot create /dev/nowhere"));
    assert!(error(&[("bs", "700")]).contains("not a multiple of 512"));
    assert!(error(&[("engine", "psync"), ("iodepth", "2")]).contains("psync supports one request in flight"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().to_str().unwrap();
    assert!(error(&[("file", name)]).contains("has 0 bytes, less than one request"));
    assert!(error(&[("file", "/tmp")]).contains("neither a file nor a disk"));
    assert!(error(&[("file", "/dev/null")]).contains("neither a file nor a disk"));
}

#[test]
fn queue_depth_above_the_kernel_limit_is_unavailable() {
    let failure = run(&job(&[("iodepth", "65536"), ("bs", "512")])).unwrap_err();
    let message = failure.to_string();
    if message.contains("Function not implemented") {
        return println!("skipped: io: {message}");
    }
    assert!(
        matches!(failure, Failure::Unavailable(_)) && message.contains("rejected an io_uring of 65536 requests"),
        "{message}"
    );
    assert!(message.contains("hint: "), "{message}");
}

/// Runs `body` with the state of a single thread.
fn with_work<T>(task: &IoPlan, body: impl FnOnce(&mut WorkerState<'_>) -> T) -> T {
    let options = &task.options;
    let job = job(&[]);
    let file = task.target.handle().unwrap();
    let mut arena = Arena::small(&job, buffers::blocks(options) * options.block).unwrap();
    let buffers = Buffers::new(&mut arena, options, &mut Random::of_thread(1, 1));
    let places = Offsets::new(options, task.target.bytes, 1, 0, 1);
    body(&mut WorkerState::new(task, &file, buffers, places, false))
}

/// Runs a plan with the engine that its options name.
fn work(task: &IoPlan) -> Result<(), Failure> {
    with_work(task, by_engine)
}

fn by_engine(work: &mut WorkerState<'_>) -> Result<(), Failure> {
    let (task, file) = (work.task, work.file);
    let options = &task.options;
    match options.engine {
        IoEngine::IoUring => {
            let mut ring = ring::make(options)?;
            let mut ring = UringQueue::new(&mut ring, options, file, &work.buffers)?;
            queue::run(work, &mut ring)
        }
        IoEngine::Libaio => queue::run(work, &mut aio::Aio::new(options.depth, options.block, file)?),
        IoEngine::Psync => sync::run(work, psync::transfer(file)),
        IoEngine::Preadv2 => sync::run(work, preadv2::transfer(file, false)),
        IoEngine::Mmap => {
            let mut mapping = Mapping::new(file, task.target.bytes, options.writes(), options.spread)?;
            sync::run(work, mapping.transfer())
        }
    }
}

/// Returns the error message. Returns `None` and prints the reason if the engine is not available.
fn words(result: Result<(), Failure>) -> Option<String> {
    match result {
        Err(Failure::Unavailable(reason)) => {
            println!("skipped: {reason}");
            None
        }
        other => Some(other.unwrap_err().to_string()),
    }
}

#[test]
fn misplaced_data_returns_an_error() {
    for engine in ENGINES {
        for verify in ["false", "true"] {
            let options = options(&[("engine", engine), ("verify", verify)]);
            let target = IoTarget::open(5, &options).unwrap();
            let task = IoPlan::new(options, target, 6).unwrap();
            let Some(message) = words(work(&task)) else { continue };
            assert!(message.contains("wrong data at "), "{engine}: {message}");
        }
    }
}

#[test]
fn truncated_file_error_contains_its_length() {
    for engine in ENGINES {
        for rw in ["read", "rw"] {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), vec![1; 1 << 20]).unwrap();
            let path = file.path().to_str().unwrap();
            let options =
                options(&[("engine", engine), ("rw", rw), ("file", path), ("allow-overwrite", path), ("mix", "100")]);
            let target = IoTarget::open(5, &options).unwrap();
            file.as_file().set_len(4096 * 3).unwrap();
            let task = IoPlan::new(options, target, 5).unwrap();
            let Some(message) = words(work(&task)) else { continue };
            assert!(message.contains("read at 12288") && message.contains("truncated to 12288"), "{engine}: {message}");
        }
    }
}

/// The kernel returns EIO for unmapped memory, such as the lowest addresses.
#[test]
fn device_error_contains_the_offset() {
    for engine in ["psync", "preadv2", "io_uring"] {
        let options = options(&[("engine", engine), ("rw", "read")]);
        let target = IoTarget::for_tests(File::open("/proc/self/mem").unwrap(), 1 << 16);
        let task = IoPlan::new(options, target, 5).unwrap();
        let Some(message) = words(work(&task)) else { continue };
        assert!(message.contains("read at 0: Input/output error") && message.contains("dmesg"), "{engine}: {message}");
    }
}

/// libaio rejects requests for such a file at submission.
#[test]
fn rejected_requests_complete_with_their_error() {
    let options = options(&[("engine", "libaio"), ("rw", "read"), ("iodepth", "4")]);
    let target = IoTarget::for_tests(File::open("/proc/self/mem").unwrap(), 1 << 16);
    let task = IoPlan::new(options, target, 5).unwrap();
    let Some(message) = words(work(&task)) else { return };
    assert!(message.contains("read at 0: Invalid argument"), "{message}");
}

#[test]
fn verification_reports_the_first_wrong_block() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), vec![0; 1 << 20]).unwrap();
    let path = file.path().to_str().unwrap();
    let of_file = [("file", path), ("verify", "true"), ("bs", "8KiB"), ("amount", "1MiB"), ("engine", "psync")];
    let with = |more: &[(&'static str, &str)]| {
        [&of_file[..], more].concat().iter().map(|(n, v)| (n.to_string(), v.to_string())).collect::<Vec<_>>()
    };
    let go = |more: &[(&'static str, &str)]| {
        let pairs = with(more);
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        run(&job(&pairs))
    };
    assert!(go(&[("rw", "read")]).unwrap_err().to_string().contains("wrong data at 0: not a block"));
    go(&[("rw", "write"), ("allow-overwrite", path)]).unwrap();
    go(&[("rw", "read")]).unwrap();
    go(&[("rw", "randread")]).unwrap();
    file.as_file().write_all_at(b"x", 8192 * 5 + 4000).unwrap();
    let message = go(&[("rw", "read")]).unwrap_err().to_string();
    assert!(message.contains("wrong data at 40960"), "{message}");
}

#[test]
fn lost_write_is_detected_on_read_back() {
    let options = options(&[("verify", "true"), ("rw", "randwrite"), ("engine", "psync")]);
    let target = IoTarget::open(1, &options).unwrap();
    let task = IoPlan::new(options, target, 1).unwrap();
    let written = task.written.as_ref().unwrap();
    let read_back = || read_back::read_back(task.seed, &job(&[]), &task.options, &task.target, written);
    with_work(&task, |work| {
        let transfer = psync::transfer(work.file);
        sync::run(work, transfer)
    })
    .unwrap();
    assert_eq!(read_back(), Ok(()));
    // Simulates a device that reported a write without performing it.
    let fill = IoTarget::open(1, &task.options).unwrap();
    let mut old = vec![0; 4096];
    fill.handle().unwrap().read_exact_at(&mut old, 4096 * 9).unwrap();
    task.target.handle().unwrap().write_all_at(&old, 4096 * 9).unwrap();
    written.mark(4096 * 9);
    let message = read_back().unwrap_err().to_string();
    assert!(message.contains("wrong data at 36864") && message.contains("the write was lost"), "{message}");
}

/// Counts the requests of a queue.
struct Counted<Q>(Q, BTreeMap<&'static str, u32>);

impl<Q: Queue> Queue for Counted<Q> {
    fn put(&mut self, slot: usize, request: &Request, buffer: *mut u8) {
        *self.1.entry(kind(request)).or_default() += 1;
        self.0.put(slot, request, buffer);
    }

    fn submit_and_wait(&mut self, wait: Wait) -> u64 {
        self.0.submit_and_wait(wait)
    }

    fn reap(&mut self, take: impl FnMut(usize, i64)) {
        self.0.reap(take);
    }
}

fn kind(request: &Request) -> &'static str {
    match request.kind {
        RequestKind::Read => "read",
        RequestKind::Write => "write",
        RequestKind::Sync => "sync",
    }
}

#[test]
fn amount_and_fsync_interval_are_exact() {
    let pairs = [("rw", "write"), ("amount", "80KiB"), ("fsync", "3"), ("iodepth", "1")];
    let expected: BTreeMap<_, _> = [("write", 20), ("sync", 6)].into();
    let task = |pairs: &[(&str, &str)]| {
        let options = options(pairs);
        IoPlan::new(options.clone(), IoTarget::open(1, &options).unwrap(), 1).unwrap()
    };
    let mut counts = BTreeMap::new();
    with_work(&task(&pairs), |work| {
        let mut transfer = psync::transfer(work.file);
        sync::run(work, |request, buffer, length| {
            *counts.entry(kind(request)).or_default() += 1;
            transfer(request, buffer, length)
        })
    })
    .unwrap();
    assert_eq!(counts, expected);
    for depth in ["1", "4", "64"] {
        let task = task(&[&pairs[..3], &[("iodepth", depth)]].concat());
        with_work(&task, |work| match aio::Aio::new(task.options.depth, 4096, work.file) {
            Ok(aio) => {
                let mut queue = Counted(aio, BTreeMap::new());
                queue::run(work, &mut queue).unwrap();
                assert_eq!(queue.1, expected, "{depth}");
            }
            Err(reason) => println!("skipped: {reason}"),
        });
        with_work(&task, |work| {
            let ring = ring::make(&task.options);
            let Ok(mut ring) = ring.inspect_err(|reason| println!("skipped: {reason}")) else { return };
            let queue = match UringQueue::new(&mut ring, &task.options, work.file, &work.buffers) {
                // Rings of this user in other processes count as well.
                Err(Failure::Unavailable(reason)) => return println!("skipped: {reason}"),
                queue => queue.unwrap(),
            };
            let mut queue = Counted(queue, BTreeMap::new());
            queue::run(work, &mut queue).unwrap();
            assert_eq!(queue.1, expected, "{depth}");
        });
    }
}

/// Statistics of a trial of 300 ms in which the 51st request stalls for the given time.
fn stalled(pairs: &[(&str, &str)], stall: Duration) -> BTreeMap<String, f64> {
    let options = options(&[&[("engine", "psync"), ("runtime", "300ms")], pairs].concat());
    let task = IoPlan::new(options.clone(), IoTarget::open(1, &options).unwrap(), 1).unwrap();
    with_work(&task, |work| {
        let mut transfer = psync::transfer(work.file);
        let mut requests = 0;
        sync::run(work, |request, buffer, length| {
            requests += 1;
            if requests == 51 {
                std::thread::sleep(stall);
            }
            transfer(request, buffer, length)
        })
        .unwrap();
        let mut output = KernelOutput::default();
        let tally = std::mem::replace(&mut work.stats, IoStats::new(false));
        tally::report(&[tally], &options, &mut output).unwrap();
        output.samples.into_iter().map(|sample| (sample.series, sample.value)).collect()
    })
}

#[test]
fn stall_counts_for_all_requests_due_during_it() {
    // 100 of 300 requests should have started during the stall: they waited 50 ms on average, or 16.7 ms over all
    // requests.
    let open = stalled(&[("rate", "1000")], Duration::from_millis(100));
    assert!(open["latency-mean"] > 15_000.0, "{open:?}");
    assert!(open["latency-p99"] > 90_000.0, "{open:?}");
    // A closed loop has one slow request. By Little's law, its thread has at most one request at a time, also on a loaded
    // machine; in the open loop, 16 are due on average.
    let closed = stalled(&[], Duration::from_millis(100));
    let pending = |stats: &BTreeMap<String, f64>| stats["latency-mean"] * stats["iops"] / 1e6;
    assert!(pending(&closed) < 1.01, "{closed:?}");
    assert!(pending(&open) > 3.0, "{open:?}");
}

#[test]
fn missed_requests_count() {
    // After 50 ms all requests stall until the end: 249 of 300 waited until then.
    let open = stalled(&[("rate", "1000")], Duration::from_millis(250));
    assert!(open["latency"] > 80_000.0, "{open:?}");
    assert!(open["iops"] < 500.0, "only completed requests count: {open:?}");
}

#[test]
fn open_loop_keeps_its_rate_with_every_engine() {
    for engine in ENGINES {
        let Some(output) = run_or_skip(&[("engine", engine), ("rate", "500"), ("runtime", "200ms")]) else { continue };
        let iops = values(&output)["iops"];
        assert!(iops <= 520.0 && iops > 100.0, "{engine}: {iops}");
    }
}

/// Runs `body` with a private file system of this size, which is visible only to one thread and disappears with it.
fn with_small_file_system(bytes: usize, body: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let mounted = || -> std::io::Result<()> {
        let ok = |result: i32| if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
        let text = |text: &str| std::ffi::CString::new(text).unwrap();
        let (root, place, kind) = (text("/"), text(dir.path().to_str().unwrap()), text("tmpfs"));
        let size = text(&format!("size={bytes}"));
        // SAFETY: this thread gets a separate mount namespace; afterwards it shares no working directory with others.
        ok(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: strings that outlive the call; only this thread's mount namespace changes.
        ok(unsafe { libc::mount(kind.as_ptr(), root.as_ptr(), std::ptr::null(), private, std::ptr::null()) })?;
        // SAFETY: as above.
        ok(unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, size.as_ptr().cast()) })
    };
    std::thread::scope(|scope| {
        let path = dir.path();
        scope.spawn(move || match mounted() {
            Ok(()) => body(path),
            Err(error) => println!("skipped: creating a file system requires root: {error}"),
        });
    });
}

#[test]
fn full_disk_returns_an_error_and_leaves_no_file() {
    with_small_file_system(1 << 20, |dir| {
        let path = dir.join("file");
        let path = path.to_str().unwrap();
        let too_large = run(&job(&[("file", path), ("size", "4MiB")])).unwrap_err();
        assert!(
            matches!(&too_large, Failure::Unavailable(reason) if reason.contains("hint: a smaller size")),
            "{too_large}"
        );
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
        // The disk becomes full in the middle only if the file is sparse.
        for engine in ENGINES {
            File::create(path).unwrap().set_len(4 << 20).unwrap();
            let pairs = [("engine", engine), ("file", path), ("allow-overwrite", path), ("rw", "write")];
            match run(&job(&[&pairs[..], &[("size", "4MiB"), ("runtime", "10s")]].concat())).unwrap_err() {
                Failure::Unavailable(reason) => println!("skipped: {reason}"),
                other => {
                    let message = other.to_string();
                    let expected = if engine == "mmap" { "Input/output error" } else { "No space left" };
                    assert!(message.contains("write at ") && message.contains(expected), "{engine}: {message}");
                }
            }
            fs::remove_file(path).unwrap();
        }
    });
}

#[test]
fn qualifiers_are_stored_as_samples() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let output = run(&job(&[("engine", "psync"), ("file", file.path().to_str().unwrap())])).unwrap();
    let values = values(&output);
    assert!(values["percent-of-memory"] > 0.0 && values["percent-of-memory"] < 1.0);
    if values["unwritten-percent"] < 100.0 {
        println!("skipped: this file system does not report holes");
    }
}
