//! Runs a job in the NUMA guest and returns the output of its steps. Must not depend on the content of jobs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Condvar, Mutex, PoisonError};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Exit status of `scripts/guest` if this machine lacks something. Jobs end with status 0.
pub const MISSING: i32 = 3;
/// Exit status of `scripts/guest` if the guest crashed before the end of the job.
pub const DIED: i32 = 125;
/// Attempts to boot. While Linux patches its own code during boot, the emulator sometimes executes a half-patched
/// instruction on another CPU, or loses an interrupt between CPUs. The kernel then crashes, locks up or waits forever
/// before the job.
const BOOTS_MAX: u32 = 3;
/// The library that the kernel's ciphers are compared with.
const LIBCRYPTO: &str = "/lib/x86_64-linux-gnu/libcrypto.so.3";
/// Guests to run at once per two CPUs of this machine: a guest is idle for a third of its time.
const GUESTS_PER_TWO_CPUS: usize = 3;
static GUESTS: (Mutex<Guests>, Condvar) = (Mutex::new(Guests { running: 0, long_waiting: 0 }), Condvar::new());

struct Guests {
    running: usize,
    /// Jobs with [`Boot::is_long`] that have not started.
    long_waiting: usize,
}

/// A machine to boot, and a job for it.
#[derive(Default)]
pub struct Boot<'a> {
    /// Flags of `scripts/guest`.
    pub flags: &'a [&'a str],
    /// Shell lines, after `steps.sh`.
    pub job: &'a str,
    /// Destination of the guest's results file, if it is needed after the boot.
    pub store: Option<&'a Path>,
    /// Whether to start the job before all others, because it takes longest.
    pub is_long: bool,
}

/// The steps of a job, by name, and the trials of those that measured.
pub struct JobOutput {
    steps: BTreeMap<String, Step>,
    trials: BTreeMap<String, Vec<Value>>,
}

pub struct Step {
    pub status: i32,
    pub stdout: Vec<u8>,
}

/// Boots the guest and runs the job.
///
/// # Errors
/// The requirement that this machine lacks.
pub fn boot(boot: &Boot<'_>) -> Result<JobOutput, String> {
    let _permit = Permit::wait(boot.is_long);
    let meddle = meddle()?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let own_store = directory.path().join("results.db");
    let store = boot.store.unwrap_or(&own_store);
    let mut command = Command::new(Path::new(ROOT).join("scripts/guest"));
    // The default build loads fewer libraries, which the emulator would have to relocate for each start.
    let program = std::env::var("NEARFAR_DEFAULT_BUILD").unwrap_or_else(|_| env!("CARGO_BIN_EXE_nearfar").into());
    // A job takes 10 to 120 s on an idle machine.
    command.args(["--program", &program, "--time-limit", "900", "--offline"]).args(boot.flags);
    for name in ["meddle", "held"] {
        command.arg("--files").arg(format!("{}:/bin/{name}", meddle.display()));
    }
    for name in ["numactl", "hwloc-bind", "irqbalance"] {
        if let Some(program) = find(name) {
            command.arg("--files").arg(format!("{}:/bin/{name}", program.display()));
        }
    }
    if Path::new(LIBCRYPTO).is_file() {
        command.arg("--files").arg(format!("{LIBCRYPTO}:{LIBCRYPTO}"));
    }
    command.arg("--keep-store").arg(store);
    command.arg(format!("{}\n{}\nexit 0", include_str!("steps.sh"), boot.job));
    for _ in 0..BOOTS_MAX {
        let output = command.output().map_err(|error| format!("scripts/guest: {error}"))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {
                let steps = steps(&output.stdout, &stderr);
                let trials = trials(&steps, store);
                return Ok(JobOutput { steps, trials });
            }
            Some(MISSING) => return Err(stderr.lines().collect::<Vec<_>>().join("; ")),
            Some(DIED) => println!("booting again: {}", crash_message(&stderr)),
            _ => panic!("scripts/guest: {}: {stderr}\n{}", output.status, String::from_utf8_lossy(&output.stdout)),
        }
    }
    Err(format!("the guest crashed or did not boot {BOOTS_MAX} times"))
}

/// Creates a sparse file with ext4 in a directory, and returns the options of QEMU that make it the disk `/dev/vda`.
pub fn disk(directory: &Path) -> Result<String, String> {
    let disk = directory.join("disk");
    let made = std::fs::File::create(&disk).and_then(|file| file.set_len(2 << 30));
    made.map_err(|error| format!("{}: {error}", disk.display()))?;
    let formatted =
        Command::new("mkfs.ext4").arg("-q").arg(&disk).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output();
    let formatted = formatted.map_err(|error| format!("mkfs.ext4 (e2fsprogs): {error}"))?;
    if !formatted.status.success() {
        return Err(format!("mkfs.ext4: {}", String::from_utf8_lossy(&formatted.stderr)));
    }
    Ok(format!("-drive if=none,id=far,format=raw,file={} -device virtio-blk-pci,drive=far", disk.display()))
}

/// Permission to run a guest; returned on drop.
struct Permit;

impl Permit {
    fn wait(is_long: bool) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let most = (cpus * GUESTS_PER_TWO_CPUS / 2).max(1);
        let (guests, changed) = &GUESTS;
        let mut guests = guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.long_waiting += usize::from(is_long);
        let must_wait = |guests: &mut Guests| guests.running == most || (guests.long_waiting > 0 && !is_long);
        let mut guests = changed.wait_while(guests, must_wait).unwrap_or_else(PoisonError::into_inner);
        guests.long_waiting -= usize::from(is_long);
        guests.running += 1;
        changed.notify_all();
        Self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (guests, changed) = &GUESTS;
        guests.lock().unwrap_or_else(PoisonError::into_inner).running -= 1;
        changed.notify_all();
    }
}

/// Returns the trials of each step that printed a run, from the guest's results file. Programs start faster here than
/// in the emulator.
fn trials(steps: &BTreeMap<String, Step>, store: &Path) -> BTreeMap<String, Vec<Value>> {
    let of_step = |(name, step): (&String, &Step)| {
        let printed: Value = serde_json::from_slice(&step.stdout).ok()?;
        let run = printed["run"]["id"].as_str()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(store).args(["show", run, "--trials", "--format", "json"]);
        let shown = command.output().expect("the program starts");
        let shown: Value = serde_json::from_slice(&shown.stdout)
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", String::from_utf8_lossy(&shown.stderr)));
        Some((name.clone(), shown["trials"].as_array().expect("a list of trials").clone()))
    };
    steps.iter().filter_map(of_step).collect()
}

/// Returns the line in which the guest's kernel reports its crash, or else the first line of `scripts/guest`.
fn crash_message(stderr: &str) -> &str {
    let reported = stderr.lines().find(|line| line.contains("Oops") || line.contains("panic"));
    reported.or(stderr.lines().next()).unwrap_or("no message")
}

/// Boots a guest whose first process does nothing, and returns the output of `scripts/guest`.
pub fn boot_in_vain(boot_limit: &str) -> std::io::Result<Output> {
    let _permit = Permit::wait(false);
    Command::new(Path::new(ROOT).join("scripts/guest"))
        .args(["--program", env!("CARGO_BIN_EXE_nearfar"), "--offline", "--boot-limit", boot_limit])
        .args(["--append", "rdinit=/bin/cat", "true"])
        .output()
}

/// Compiles `meddle.c` for the guest.
fn meddle() -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("meddle");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/meddle.c");
    let built = Command::new("cc").args(["-O1", "-static", "-o"]).arg(&program).arg(source).output();
    let built = built.map_err(|error| format!("cc: {error}"))?;
    if !built.status.success() {
        return Err(format!("cc cannot link a static program: {}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(program)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Daemons are only in the PATH of root.
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Splits the output at the frames of `steps.sh`: a line `@@ NAME STATUS BYTES`, followed by that number of bytes.
fn steps(mut output: &[u8], stderr: &str) -> BTreeMap<String, Step> {
    let mut steps = BTreeMap::new();
    while !output.is_empty() {
        let end = output.iter().position(|byte| *byte == b'\n').unwrap_or(output.len());
        let line = String::from_utf8_lossy(&output[..end]).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        let ["@@", name, status, bytes] = words[..] else { panic!("not a frame: '{line}'\n{stderr}") };
        let bytes: usize = bytes.parse().expect("a frame has a number of bytes");
        let (stdout, rest) = output[end + 1..].split_at(bytes);
        let status = status.parse().expect("a frame has a status");
        steps.insert(name.to_string(), Step { status, stdout: stdout.to_vec() });
        output = rest;
    }
    steps
}

impl JobOutput {
    /// Returns a step; panics if the job has none of this name.
    pub fn step(&self, name: &str) -> &Step {
        self.steps.get(name).unwrap_or_else(|| panic!("no step {name}, only {:?}", self.steps.keys()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.steps.contains_key(name)
    }

    /// Returns the stdout of a step.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.step(name).stdout).into_owned()
    }

    /// Returns the stdout of a step as JSON; panics if its exit status is not one of `statuses`.
    pub fn json(&self, name: &str, statuses: &[i32]) -> Value {
        let (step, stderr) = (self.step(name), self.steps.get(&format!("{name}.stderr")));
        let stderr = stderr.map(|stderr| String::from_utf8_lossy(&stderr.stdout).into_owned()).unwrap_or_default();
        assert!(statuses.contains(&step.status), "{name} ended with {}: {stderr}{}", step.status, self.text(name));
        serde_json::from_slice(&step.stdout).unwrap_or_else(|error| panic!("{name}: {error}: {stderr}"))
    }

    /// Returns the trials of a step in the order of the run; panics if it printed no run.
    pub fn trials(&self, name: &str) -> &[Value] {
        self.trials.get(name).unwrap_or_else(|| panic!("{name} printed no run: {}", self.text(name)))
    }
}
