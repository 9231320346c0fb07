//! Tests of the whole: every engine on real files, what goes wrong with them, and what a stall does to the numbers.
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

fn values(measured: &KernelOutput) -> BTreeMap<&str, f64> {
    measured.samples.iter().map(|sample| (sample.series.as_str(), sample.value)).collect()
}

/// What a run gave; none, and a printed reason, where this machine cannot.
fn ran(pairs: &[(&str, &str)]) -> Option<KernelOutput> {
    match run(&job(pairs)) {
        Ok(measured) => Some(measured),
        Err(Failure::Unavailable(why)) => {
            println!("skipped: io with {pairs:?}: {why}");
            None
        }
        Err(other) => panic!("{pairs:?}: {other}"),
    }
}

fn error(pairs: &[(&str, &str)]) -> String {
    run(&job(pairs)).unwrap_err().to_string()
}

#[test]
fn what_the_cpus_did_is_that_of_the_timed_region_alone() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    for (engine, threads) in [("psync", 1), ("mmap", 2)] {
        let pairs = [("engine", engine), ("size", "256MiB"), ("runtime", "300ms"), ("direct", "false")];
        let job = TrialContext { threads, ..job(&pairs) };
        run(&job).unwrap();
        let times = job.meanwhile.seen();
        assert!(times.len() >= cpus, "{times:?}");
        // Ticks are 10 ms; filling 256 MiB before takes longer than what is allowed here beyond the runtime.
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
            let measured = match run(&job) {
                Ok(measured) => measured,
                Err(Failure::Unavailable(why)) => {
                    println!("skipped: io with {engine}: {why}");
                    continue;
                }
                Err(other) => panic!("{engine} {rw}: {other}"),
            };
            let values = values(&measured);
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
fn a_mix_with_queues_has_every_metric() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<String> = (1..=8).map(|name| format!("{}/{name}", folder.path().display())).collect();
    let pairs = [("rw", "randrw"), ("iodepth", "4"), ("file", &files.join(","))];
    match run(&TrialContext { threads: 8, ..job(&pairs) }) {
        Ok(measured) => check_smoke("io", &measured),
        Err(failure) => unavailable(failure).unwrap(),
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "what was made is gone");
}

#[test]
fn data_of_every_kind_and_verified_ones_come_back() {
    for engine in ENGINES {
        for rw in ["read", "write", "randrw"] {
            for data in ["random", "zero", "compress:50"] {
                for verify in ["false", "true"] {
                    let pairs = [("engine", engine), ("rw", rw), ("data", data), ("verify", verify), ("bs", "16KiB")];
                    ran(&[&pairs[..], &[("runtime", "5ms")]].concat());
                }
            }
        }
    }
}

#[test]
fn the_ways_of_io_uring_run_or_say_why_not() {
    for way in [("registered", "false"), ("sqpoll", "true"), ("fsync", "7"), ("ramp", "10ms"), ("rate", "1000")] {
        ran(&[("rw", "randrw"), ("iodepth", "8"), way]);
    }
    ran(&[("iodepth", "8"), ("direct", "true")]);
    ran(&[("iopoll", "true"), ("direct", "true")]);
    ran(&[("engine", "preadv2"), ("iopoll", "true"), ("direct", "true")]);
}

/// Two files of somebody, filled with ones.
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
fn several_files_are_loaded_at_once_and_each_has_its_own_throughput() {
    let files = two_files();
    let file = joined(&files);
    for engine in ENGINES {
        let amount = [("engine", engine), ("file", &file), ("rw", "read"), ("bs", "64KiB"), ("amount", "1MiB")];
        // The first file has two threads, the second one.
        let job = TrialContext { threads: 3, ..job(&amount) };
        let measured = match run(&job) {
            Ok(measured) => measured,
            Err(Failure::Unavailable(why)) => {
                println!("skipped: io with {engine}: {why}");
                continue;
            }
            Err(other) => panic!("{engine}: {other}"),
        };
        let values = values(&measured);
        assert!(values["iops-file1"] > 0.0 && !values.contains_key("iops-file3"), "{values:?}");
    }
    assert!(!values(&ran(&[("engine", "psync")]).unwrap()).contains_key("iops-file1"), "of one file it is iops");
}

#[test]
fn each_of_several_files_is_asked_for_before_it_is_written() {
    let files = two_files();
    let (both, first) = (joined(&files), files[0].path().to_str().unwrap().to_string());
    let second = files[1].path().to_str().unwrap().to_string();
    let write = |allowed: &str| {
        let pairs = [("engine", "psync"), ("rw", "write"), ("file", &both), ("allow-overwrite", allowed)];
        run(&TrialContext { threads: 2, ..job(&[&pairs[..], &[("verify", "true"), ("amount", "64KiB")]].concat()) })
    };
    let untouched = || files.iter().map(|file| fs::read(file.path()).unwrap()[0]).collect::<Vec<_>>() == [1, 2];
    for (allowed, missing) in [("", &first), (first.as_str(), &second), (second.as_str(), &first)] {
        let said = write(allowed).unwrap_err().to_string();
        assert!(said.contains(&format!("hint: --allow-overwrite {missing}")) && untouched(), "{allowed}: {said}");
    }
    let stranger = write(&format!("{both},/x")).unwrap_err().to_string();
    assert!(stranger.contains("--allow-overwrite /x, which is none of the files") && untouched(), "{stranger}");
    write(&both).unwrap();
    let written = files.iter().map(|file| fs::read(file.path()).unwrap()[..4096].to_vec()).collect::<Vec<_>>();
    assert!(!untouched() && written[0] != written[1], "a block of the one is none of the other");
}

#[test]
fn what_is_wrong_with_a_list_of_files_is_named() {
    let of = |file: &str, threads| run(&TrialContext { threads, ..job(&[("file", file)]) }).unwrap_err().to_string();
    let files = two_files();
    let both = joined(&files);
    assert!(
        of(&both, 1).contains("2 files need a thread each, and there are 1; hint: --threads 2"),
        "{}",
        of(&both, 1)
    );
    assert!(of("/a,/b,/a", 3).contains("names /a twice"));
    assert!(of("/1,/2,/3,/4,/5,/6,/7,/8,/9", 9).contains("names 9 files, and 8 are the most"));
    assert!(of(&format!("{both},/nowhere/x"), 3).contains("cannot make /nowhere/x"));
    let comma = tempfile::Builder::new().prefix("a,b").tempfile().unwrap();
    fs::write(comma.path(), vec![0; 1 << 20]).unwrap();
    run(&job(&[("file", comma.path().to_str().unwrap())])).map(drop).or_else(unavailable).unwrap();
}

fn unavailable(failure: Failure) -> Result<(), Failure> {
    if let Failure::Unavailable(why) = &failure {
        println!("skipped: io: {why}");
        return Ok(());
    }
    Err(failure)
}

#[test]
fn what_cannot_be_used_is_named() {
    assert!(error(&[("file", "/nowhere/x")]).contains("cannot make /nowhere/x"));
    assert!(error(&[("file", "/dev/nowhere")]).contains("there is no /dev/nowhere"));
    assert!(error(&[("bs", "700")]).contains("no whole sectors"));
    assert!(error(&[("engine", "psync"), ("iodepth", "2")]).contains("psync has one request under way"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().to_str().unwrap();
    assert!(error(&[("file", name)]).contains("has 0 bytes, less than one request"));
    assert!(error(&[("file", "/tmp")]).contains("neither a file nor a disk"));
    assert!(error(&[("file", "/dev/null")]).contains("neither a file nor a disk"));
}

#[test]
fn a_queue_beyond_the_kernels_limit_cannot_be_measured() {
    let failure = run(&job(&[("iodepth", "65536"), ("bs", "512")])).unwrap_err();
    let said = failure.to_string();
    if said.contains("Function not implemented") {
        return println!("skipped: io: {said}");
    }
    assert!(matches!(failure, Failure::Unavailable(_)) && said.contains("no io_uring of 65536 requests"), "{said}");
    assert!(said.contains("hint: "), "{said}");
}

/// Does the work of a task with one thread and an engine's own loop.
fn with_work<T>(task: &IoPlan, body: impl FnOnce(&mut WorkerState<'_>) -> T) -> T {
    let options = &task.options;
    let job = job(&[]);
    let file = task.target.handle().unwrap();
    let mut arena = Arena::small(&job, buffers::blocks(options) * options.block).unwrap();
    let buffers = Buffers::new(&mut arena, options, &mut Random::of_thread(1, 1));
    let places = Offsets::new(options, task.target.bytes, 1, 0, 1);
    body(&mut WorkerState::new(task, &file, buffers, places, false))
}

/// The same with the engine that the options name.
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

/// The words of a failure; none, and a printed reason, where the engine is missing.
fn words(result: Result<(), Failure>) -> Option<String> {
    match result {
        Err(Failure::Unavailable(why)) => {
            println!("skipped: {why}");
            None
        }
        other => Some(other.unwrap_err().to_string()),
    }
}

#[test]
fn data_from_elsewhere_are_found() {
    for engine in ENGINES {
        for verify in ["false", "true"] {
            let options = options(&[("engine", engine), ("verify", verify)]);
            let target = IoTarget::open(5, &options).unwrap();
            let task = IoPlan::new(options, target, 6).unwrap();
            let Some(said) = words(work(&task)) else { continue };
            assert!(said.contains("wrong data at "), "{engine}: {said}");
        }
    }
}

#[test]
fn a_file_cut_meanwhile_is_named_with_its_length() {
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
            let Some(said) = words(work(&task)) else { continue };
            assert!(said.contains("a read at 12288") && said.contains("ends at 12288"), "{engine}: {said}");
        }
    }
}

/// The kernel gives EIO for memory that nobody has mapped, which is what lies at the lowest addresses.
#[test]
fn an_error_of_the_device_is_told_with_its_place() {
    for engine in ["psync", "preadv2", "io_uring"] {
        let options = options(&[("engine", engine), ("rw", "read")]);
        let target = IoTarget::for_tests(File::open("/proc/self/mem").unwrap(), 1 << 16);
        let task = IoPlan::new(options, target, 5).unwrap();
        let Some(said) = words(work(&task)) else { continue };
        assert!(said.contains("a read at 0: Input/output error") && said.contains("dmesg"), "{engine}: {said}");
    }
}

/// libaio takes no requests for such a file, and says so when they are handed over.
#[test]
fn requests_that_the_kernel_does_not_take_are_answered() {
    let options = options(&[("engine", "libaio"), ("rw", "read"), ("iodepth", "4")]);
    let target = IoTarget::for_tests(File::open("/proc/self/mem").unwrap(), 1 << 16);
    let task = IoPlan::new(options, target, 5).unwrap();
    let Some(said) = words(work(&task)) else { return };
    assert!(said.contains("a read at 0: Invalid argument"), "{said}");
}

#[test]
fn blocks_written_are_proven_and_the_first_wrong_one_is_told() {
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
    assert!(go(&[("rw", "read")]).unwrap_err().to_string().contains("wrong data at 0: no block"));
    go(&[("rw", "write"), ("allow-overwrite", path)]).unwrap();
    go(&[("rw", "read")]).unwrap();
    go(&[("rw", "randread")]).unwrap();
    file.as_file().write_all_at(b"x", 8192 * 5 + 4000).unwrap();
    let said = go(&[("rw", "read")]).unwrap_err().to_string();
    assert!(said.contains("wrong data at 40960"), "{said}");
}

#[test]
fn a_lost_write_is_found_when_it_is_read_back() {
    let options = options(&[("verify", "true"), ("rw", "randwrite"), ("engine", "psync")]);
    let target = IoTarget::open(1, &options).unwrap();
    let task = IoPlan::new(options, target, 1).unwrap();
    let written = task.written.as_ref().unwrap();
    let read_back = || verify::read_back(task.seed, &job(&[]), &task.options, &task.target, written);
    with_work(&task, |work| {
        let transfer = psync::transfer(work.file);
        sync::run(work, transfer)
    })
    .unwrap();
    assert_eq!(read_back(), Ok(()));
    // As if the device had said that it wrote, and had not.
    let fill = IoTarget::open(1, &task.options).unwrap();
    let mut old = vec![0; 4096];
    fill.handle().unwrap().read_exact_at(&mut old, 4096 * 9).unwrap();
    task.target.handle().unwrap().write_all_at(&old, 4096 * 9).unwrap();
    written.mark(4096 * 9);
    let said = read_back().unwrap_err().to_string();
    assert!(said.contains("wrong data at 36864") && said.contains("the write was lost"), "{said}");
}

/// Counts what a queue is given.
struct Counted<Q>(Q, BTreeMap<&'static str, u32>);

impl<Q: Queue> Queue for Counted<Q> {
    fn put(&mut self, slot: usize, request: &Request, buffer: *mut u8) {
        *self.1.entry(kind(request)).or_default() += 1;
        self.0.put(slot, request, buffer);
    }

    fn hand_over(&mut self, wait: Wait) -> u64 {
        self.0.hand_over(wait)
    }

    fn answers(&mut self, take: impl FnMut(usize, i64)) {
        self.0.answers(take);
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
fn amounts_and_syncs_are_exact() {
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
            Err(why) => println!("skipped: {why}"),
        });
        with_work(&task, |work| {
            let ring = ring::make(&task.options);
            let Ok(mut ring) = ring.inspect_err(|why| println!("skipped: {why}")) else { return };
            let mut queue =
                Counted(UringQueue::new(&mut ring, &task.options, work.file, &work.buffers).unwrap(), BTreeMap::new());
            queue::run(work, &mut queue).unwrap();
            assert_eq!(queue.1, expected, "{depth}");
        });
    }
}

/// The numbers of a trial of 300 ms in which the 51st request takes so long.
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
        let mut measured = KernelOutput::default();
        let tally = std::mem::replace(&mut work.tally, IoStats::new(false));
        tally::report(&[tally], &options, &mut measured).unwrap();
        measured.samples.into_iter().map(|sample| (sample.series, sample.value)).collect()
    })
}

#[test]
fn a_stall_counts_for_all_requests_that_should_have_started_in_it() {
    // 300 requests, of which 100 should have started in the stall: they waited 50 ms on average, which is 16.7 of all.
    let open = stalled(&[("rate", "1000")], Duration::from_millis(100));
    assert!(open["latency-mean"] > 15_000.0, "{open:?}");
    assert!(open["latency-p99"] > 90_000.0, "{open:?}");
    // A closed loop has one slow request among thousands.
    let closed = stalled(&[], Duration::from_millis(100));
    assert!(closed["latency-mean"] < 5_000.0, "{closed:?}");
    assert!(closed["latency-p99"] < 90_000.0, "{closed:?}");
}

#[test]
fn requests_that_never_started_count_as_well() {
    // After 50 ms nothing moves any more until the end: 249 of 300 waited until then.
    let open = stalled(&[("rate", "1000")], Duration::from_millis(250));
    assert!(open["latency"] > 80_000.0, "{open:?}");
    assert!(open["iops"] < 500.0, "only what was done counts as done: {open:?}");
}

#[test]
fn an_open_loop_keeps_its_rate_with_every_engine() {
    for engine in ENGINES {
        let Some(measured) = ran(&[("engine", engine), ("rate", "500"), ("runtime", "200ms")]) else { continue };
        let iops = values(&measured)["iops"];
        assert!(iops <= 520.0 && iops > 100.0, "{engine}: {iops}");
    }
}

/// Runs `body` with a file system of its own of so many bytes, which nobody else sees and which ends with the thread.
fn with_small_file_system(bytes: usize, body: impl FnOnce(&Path) + Send) {
    let folder = tempfile::tempdir().unwrap();
    let mounted = || -> std::io::Result<()> {
        let ok = |result: i32| if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
        let text = |text: &str| std::ffi::CString::new(text).unwrap();
        let (root, place, kind) = (text("/"), text(folder.path().to_str().unwrap()), text("tmpfs"));
        let size = text(&format!("size={bytes}"));
        // SAFETY: this thread gets a name space of its own; it shares no working folder with others afterwards.
        ok(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: texts that outlive the call; what is changed is this thread's name space.
        ok(unsafe { libc::mount(kind.as_ptr(), root.as_ptr(), std::ptr::null(), private, std::ptr::null()) })?;
        // SAFETY: as above.
        ok(unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, size.as_ptr().cast()) })
    };
    std::thread::scope(|scope| {
        let path = folder.path();
        scope.spawn(move || match mounted() {
            Ok(()) => body(path),
            Err(error) => println!("skipped: a small file system takes root: {error}"),
        });
    });
}

#[test]
fn a_disk_that_becomes_full_is_named_and_nothing_is_left() {
    with_small_file_system(1 << 20, |folder| {
        let path = folder.join("file");
        let path = path.to_str().unwrap();
        let too_large = run(&job(&[("file", path), ("size", "4MiB")])).unwrap_err();
        assert!(matches!(&too_large, Failure::Unavailable(why) if why.contains("hint: a smaller size")), "{too_large}");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
        // Becoming full in the middle takes a file with a promised length.
        for engine in ENGINES {
            File::create(path).unwrap().set_len(4 << 20).unwrap();
            let pairs = [("engine", engine), ("file", path), ("allow-overwrite", path), ("rw", "write")];
            match run(&job(&[&pairs[..], &[("size", "4MiB"), ("runtime", "10s")]].concat())).unwrap_err() {
                Failure::Unavailable(why) => println!("skipped: {why}"),
                other => {
                    let said = other.to_string();
                    let expected = if engine == "mmap" { "Input/output error" } else { "No space left" };
                    assert!(said.contains("a write at ") && said.contains(expected), "{engine}: {said}");
                }
            }
            fs::remove_file(path).unwrap();
        }
    });
}

#[test]
fn notes_say_what_a_result_is_worth() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let measured = run(&job(&[("engine", "psync"), ("file", file.path().to_str().unwrap())])).unwrap();
    let values = values(&measured);
    assert!(values["percent-of-memory"] > 0.0 && values["percent-of-memory"] < 1.0);
    if values["unwritten-percent"] < 100.0 {
        println!("skipped: this file system does not tell of holes");
    }
}
