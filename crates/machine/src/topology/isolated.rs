//! Reading a topology in a child process: hwloc 2.9 and its binding panic, abort or crash on malformed files, and a
//! tool that is asked to look at a stranger's file must not. The child is bounded in time, memory and output.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use model::values::topology::Topology;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::{TopologyError, TopologySource, input, read};

/// The command of our executable that runs [`serve_read`] on the [`TopologySource`] in its one argument.
pub const HIDDEN_COMMAND: &str = "__read-topology";

/// The slowest good file (1152 cpus, unoptimised build) takes half a second.
const TIME_MAX: Duration = Duration::from_secs(10);

/// A topology of 1152 cpus takes 1 MiB.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// What the child may map. A bitmap with a bit at 2^32 takes 512 MiB, and hwloc copies each several times.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Only the last lines matter.
const TALK_BYTES_MAX: u64 = 1 << 20;

/// Reads a topology in a child process, which runs `exe __read-topology SOURCE`. The child sees no `HWLOC_*`
/// variables of ours, so a live machine is the live machine.
pub fn read_isolated(source: &TopologySource, exe: &Path) -> Result<Topology, TopologyError> {
    let argument = match source {
        // Ours, and read without hwloc: nothing to be afraid of.
        TopologySource::CaptureFile(_) => return read(source),
        TopologySource::Live => OsString::from("live"),
        TopologySource::XmlFile(path) => {
            input::read_file(path)?;
            // A relative path could look like an option.
            std::path::absolute(path).map_err(|error| TopologyError::new(source, error.to_string()))?.into_os_string()
        }
        TopologySource::Synthetic(text) => OsString::from(text),
    };
    let ended = run(&mut command(exe, &argument))
        .map_err(|error| TopologyError::new(source, format!("cannot start {}: {error}", exe.display())))?;
    understand(source, &ended)
}

/// The child's side: reads the source, prints the topology as JSON on stdout or the error as JSON on stderr, and
/// returns the exit status.
pub fn serve_read(source: &TopologySource) -> u8 {
    limit_ourselves();
    let answer = read(source).and_then(|topology| {
        serde_json::to_vec(&topology).map_err(|error| TopologyError::new(source, error.to_string()))
    });
    let written = match &answer {
        Ok(json) => std::io::stdout().write_all(json),
        // Its own line and the last one: hwloc may have said something before.
        Err(error) => writeln!(std::io::stderr(), "\n{}", serde_json::json!(error)),
    };
    u8::from(answer.is_err() || written.is_err())
}

fn limit_ourselves() {
    let limits = [
        (Resource::As, MEMORY_BYTES_MAX),
        (Resource::Cpu, TIME_MAX.as_secs() + 1),
        // A crash here is expected, not a bug to be looked into.
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        // Where the limit cannot be set (it is lower already), the parent's time limit remains.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

fn command(exe: &Path, argument: &OsString) -> Command {
    let mut command = Command::new(exe);
    command.arg(HIDDEN_COMMAND).arg(argument);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HWLOC_")) {
        command.env_remove(name);
    }
    command.env("HWLOC_HIDE_ERRORS", "2");
    // hwloc before 2.10 drops nodes that share their cpus (numa=fake) unless it is told this; later ones ignore it.
    command.env("HWLOC_DEBUG_ALLOW_OVERLAPPING_NODE_CPUSETS", "1");
    command.env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a child ended, and what it said.
struct ChildExit {
    /// None when it was killed because it ran too long or said too much.
    status: Option<ExitStatus>,
    output: Vec<u8>,
    talk: Vec<u8>,
}

fn run(command: &mut Command) -> std::io::Result<ChildExit> {
    let mut child = command.spawn()?;
    let deadline = Instant::now() + TIME_MAX;
    let output = gather(child.stdout.take(), OUTPUT_BYTES_MAX);
    let talk = gather(child.stderr.take(), TALK_BYTES_MAX);
    let output = until(deadline, &output).filter(|output| output.len() as u64 <= OUTPUT_BYTES_MAX);
    let status = if output.is_some() { wait(&mut child, deadline)? } else { None };
    if status.is_none() {
        // It may have ended by itself just now; then there is nobody to kill.
        let _ = child.kill();
        child.wait()?;
    }
    // The child is gone, so its end of the pipe is closed and the rest is there at once.
    let talk = until(deadline + Duration::from_secs(1), &talk).unwrap_or_default();
    Ok(ChildExit { status, output: output.unwrap_or_default(), talk })
}

/// Reads one byte more than allowed at most, so that too much can be told from just enough.
fn gather(pipe: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What could be read counts; why the rest could not is seen from the exit status.
            let _ = pipe.take(most + 1).read_to_end(&mut bytes);
        }
        // Nobody listens any more when the child was given up.
        let _ = sender.send(bytes);
    });
    receiver
}

fn until(deadline: Instant, receiver: &Receiver<Vec<u8>>) -> Option<Vec<u8>> {
    receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
}

fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        // Its output has ended, so it is about to exit: this runs once or twice.
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn understand(source: &TopologySource, ended: &ChildExit) -> Result<Topology, TopologyError> {
    let refused = |what: String| TopologyError::new(source, what);
    let Some(status) = ended.status else {
        let what = format!(
            "hwloc took longer than {} s or wrote more than {} MiB",
            TIME_MAX.as_secs(),
            OUTPUT_BYTES_MAX >> 20
        );
        return Err(refused(what).with_hint(BROKEN_FILE_HINT));
    };
    if status.success() {
        let topology: Topology = serde_json::from_slice(&ended.output)
            .map_err(|error| refused(format!("the reader's answer is not a topology: {error}")))?;
        return model::values::capture::check_topology(&topology).map(|()| topology).map_err(refused);
    }
    let talk = String::from_utf8_lossy(&ended.talk);
    let last = talk.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    if let Ok(error) = serde_json::from_str::<TopologyError>(last) {
        return Err(error);
    }
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit status {}", code.unwrap_or(-1)),
    };
    Err(refused(format!("hwloc crashed on it ({how})")).with_hint(BROKEN_FILE_HINT))
}

const BROKEN_FILE_HINT: &str = "the file is malformed; 'lstopo -i FILE' shows whether hwloc's own tool can read it";

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<Topology, TopologyError> {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        understand(&TopologySource::XmlFile("FILE".into()), &run(&mut command).unwrap())
    }

    #[test]
    fn the_ways_a_child_ends_are_told_apart() {
        let cases = [
            ("kill -SEGV $$", "cannot read FILE: hwloc crashed on it (signal 11)"),
            ("kill -ABRT $$", "hwloc crashed on it (signal 6)"),
            ("exit 101", "hwloc crashed on it (exit status 101)"),
            ("echo noise >&2; exit 1", "hwloc crashed on it (exit status 1)"),
            ("echo '{}'", "the reader's answer is not a topology"),
            ("true", "the reader's answer is not a topology"),
            (r#"echo noise >&2; echo '{"of":"F","what":"W","hint":null}' >&2; exit 1"#, "cannot read F: W"),
        ];
        for (text, expected) in cases {
            let error = script(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
            assert!(!expected.contains("crashed") || error.hint.is_some(), "{text}");
        }
    }

    #[test]
    fn a_child_that_says_too_much_is_stopped() {
        let error = script("yes").unwrap_err();
        assert!(error.to_string().contains("wrote more than 64 MiB"), "{error}");
    }
}
