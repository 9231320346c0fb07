//! How a job is run in the NUMA guest, and what it printed, step by step. Must not know what the jobs ask.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Written by `scripts/guest` when something is missing here; every job of ours ends with 0.
const MISSING: i32 = 3;
/// Written by it when the guest died before the job was done.
const DIED: i32 = 125;
/// Linux patches its own code while it boots, and the emulator now and then runs a half-patched instruction on another
/// cpu, or loses what one cpu asks of the others: an oops or a lockup in the kernel before anything of ours runs. So often the machine
/// is booted until it lives.
const BOOTS_MAX: u32 = 3;
/// What the kernel's ciphers are compared with.
const LIBCRYPTO: &str = "/lib/x86_64-linux-gnu/libcrypto.so.3";
/// One guest at a time: two would emulate sixteen cpus on the few that there are.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What to boot, and what to do there.
#[derive(Default)]
pub struct Boot<'a> {
    /// Flags of `scripts/guest`.
    pub flags: &'a [&'a str],
    /// Shell lines, after `steps.sh`.
    pub job: &'a str,
    /// Where the guest's results file goes, if anywhere.
    pub store: Option<&'a Path>,
}

/// What came back, by the name of the step.
pub struct Ran(BTreeMap<String, Step>);

/// One step.
pub struct Step {
    pub status: i32,
    pub stdout: Vec<u8>,
}

/// Boots and runs the job. An error is what this machine lacks for it.
pub fn boot(boot: &Boot<'_>) -> Result<Ran, String> {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let meddle = meddle()?;
    let mut command = Command::new(Path::new(ROOT).join("scripts/guest"));
    // Far above the 10 to 60 s that a job takes, for machines that are busy with other things.
    command.args(["--program", env!("CARGO_BIN_EXE_nearfar"), "--time-limit", "240", "--offline"]).args(boot.flags);
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
    if let Some(store) = boot.store {
        command.arg("--keep-store").arg(store);
    }
    command.arg(format!("{}\n{}\nexit 0", include_str!("steps.sh"), boot.job));
    for _ in 0..BOOTS_MAX {
        let output = command.output().map_err(|error| format!("scripts/guest: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => return Ok(steps(&output.stdout, &said)),
            Some(MISSING) => return Err(said.lines().collect::<Vec<_>>().join("; ")),
            Some(DIED) => println!("the emulated machine died, and is booted again: {}", oops(&said)),
            _ => panic!("the guest ended with {}: {said}\n{}", output.status, String::from_utf8_lossy(&output.stdout)),
        }
    }
    Err(format!("the emulated machine died {BOOTS_MAX} times"))
}

/// What the kernel of the guest said of its death, on one line.
fn oops(said: &str) -> &str {
    said.lines().find(|line| line.contains("Oops") || line.contains("panic")).unwrap_or("it did not say why")
}

/// The helper of `meddle.c`, compiled for the guest.
fn meddle() -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("meddle");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/meddle.c");
    let built = Command::new("cc").args(["-O1", "-static", "-o"]).arg(&program).arg(source).output();
    let built = built.map_err(|error| format!("cc: {error}"))?;
    if !built.status.success() {
        return Err(format!("cc makes no static program here: {}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(program)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Where the daemons are is in root's path only.
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Cuts the output at the frames that `steps.sh` writes: `@@ NAME STATUS BYTES`, then so many bytes.
fn steps(mut output: &[u8], said: &str) -> Ran {
    let mut steps = BTreeMap::new();
    while !output.is_empty() {
        let end = output.iter().position(|byte| *byte == b'\n').unwrap_or(output.len());
        let line = String::from_utf8_lossy(&output[..end]).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        let ["@@", name, status, bytes] = words[..] else { panic!("no frame: '{line}'\n{said}") };
        let bytes: usize = bytes.parse().expect("a frame says how many bytes");
        let (stdout, rest) = output[end + 1..].split_at(bytes);
        let status = status.parse().expect("a frame says the status");
        steps.insert(name.to_string(), Step { status, stdout: stdout.to_vec() });
        output = rest;
    }
    Ran(steps)
}

impl Ran {
    /// A step that was run.
    pub fn step(&self, name: &str) -> &Step {
        self.0.get(name).unwrap_or_else(|| panic!("no step {name}, only {:?}", self.0.keys()))
    }

    /// Whether there was such a step.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What a step printed.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.step(name).stdout).into_owned()
    }

    /// What a step printed as JSON; it must have ended with one of these statuses.
    pub fn json(&self, name: &str, statuses: &[i32]) -> Value {
        let (step, stderr) = (self.step(name), self.0.get(&format!("{name}.stderr")));
        let said = stderr.map(|stderr| String::from_utf8_lossy(&stderr.stdout).into_owned()).unwrap_or_default();
        assert!(statuses.contains(&step.status), "{name} ended with {}: {said}{}", step.status, self.text(name));
        serde_json::from_slice(&step.stdout).unwrap_or_else(|error| panic!("{name}: {error}: {said}"))
    }

    /// The trials of the step of this name, in the order in which they ran.
    pub fn trials(&self, name: &str) -> Vec<Value> {
        let shown = self.json(&format!("{name}.trials"), &[0]);
        shown["trials"].as_array().expect("a list of trials").clone()
    }
}
