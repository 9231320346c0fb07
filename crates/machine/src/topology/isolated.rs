//! Reads a topology in a child process, because hwloc 2.9 and its binding panic, abort or crash on malformed files from
//! untrusted sources. Limits the child's time, memory and output.

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

/// Hidden command of the executable, which calls [`serve_read`] with the [`TopologySource`] in its only argument.
pub const HIDDEN_COMMAND: &str = "__read-topology";

/// Time limit of the child. The slowest valid file (1152 CPUs, unoptimised build) takes half a second.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum size of the child's output. A topology of 1152 CPUs has 1 MiB.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Limit of the child's address space. A bitmap with a bit at 2^32 takes 512 MiB, and hwloc copies each several times.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Maximum number of bytes read of the child's stderr.
const STDERR_BYTES_MAX: u64 = 1 << 20;

/// Reads a topology in a child process, which runs `exe __read-topology SOURCE`. The child does not inherit `HWLOC_*`
/// variables, so that the live source is always this machine.
pub fn read_isolated(source: &TopologySource, exe: &Path) -> Result<Topology, TopologyError> {
    let argument = match source {
        // Captures are read without hwloc.
        TopologySource::CaptureFile(_) => return read(source),
        TopologySource::Live => OsString::from("live"),
        TopologySource::XmlFile(path) => {
            input::read_file(path)?;
            // A relative path could look like an option.
            std::path::absolute(path).map_err(|error| TopologyError::new(source, error.to_string()))?.into_os_string()
        }
        TopologySource::Synthetic(text) => OsString::from(text),
    };
    let exit = run(&mut command(exe, &argument))
        .map_err(|error| TopologyError::new(source, format!("cannot start {}: {error}", exe.display())))?;
    parse_result(source, &exit)
}

/// Runs in the child: reads the source, prints the topology as JSON on stdout or the error as JSON on stderr, and
/// returns the exit status.
pub fn serve_read(source: &TopologySource) -> u8 {
    set_limits();
    let result = read(source).and_then(|topology| {
        serde_json::to_vec(&topology).map_err(|error| TopologyError::new(source, error.to_string()))
    });
    let written = match &result {
        Ok(json) => std::io::stdout().write_all(json),
        // The error must be the last line: hwloc may have printed messages before it.
        Err(error) => writeln!(std::io::stderr(), "\n{}", serde_json::json!(error)),
    };
    u8::from(result.is_err() || written.is_err())
}

fn set_limits() {
    let limits = [
        (Resource::As, MEMORY_BYTES_MAX),
        (Resource::Cpu, TIME_MAX.as_secs() + 1),
        // Crashes are expected here, so core dumps are not useful.
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        // If the limit cannot be set, it is already lower, and the parent enforces its time limit.
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
    // Without this variable, hwloc before 2.10 drops nodes that share their CPUs (numa=fake); later versions ignore it.
    command.env("HWLOC_DEBUG_ALLOW_OVERLAPPING_NODE_CPUSETS", "1");
    command.env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Exit status and output of a child.
struct ChildExit {
    /// `None` if it was killed because it exceeded the time or output limit.
    status: Option<ExitStatus>,
    output: Vec<u8>,
    stderr: Vec<u8>,
}

fn run(command: &mut Command) -> std::io::Result<ChildExit> {
    let mut child = command.spawn()?;
    let deadline = Instant::now() + TIME_MAX;
    let output = read_in_background(child.stdout.take(), OUTPUT_BYTES_MAX);
    let stderr = read_in_background(child.stderr.take(), STDERR_BYTES_MAX);
    let output = receive_until(deadline, &output).filter(|output| output.len() as u64 <= OUTPUT_BYTES_MAX);
    let status = if output.is_some() { wait(&mut child, deadline)? } else { None };
    if status.is_none() {
        // An error means that it has just ended.
        let _ = child.kill();
        child.wait()?;
    }
    // The child has ended, so its end of the pipe is closed and the rest can be read without delay.
    let stderr = receive_until(deadline + Duration::from_secs(1), &stderr).unwrap_or_default();
    Ok(ChildExit { status, output: output.unwrap_or_default(), stderr })
}

/// Reads at most one byte more than `limit`, so that the caller can detect excess output.
fn read_in_background(pipe: Option<impl Read + Send + 'static>, limit: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // A partial result is kept; the exit status shows why the rest is missing.
            let _ = pipe.take(limit + 1).read_to_end(&mut bytes);
        }
        // An error means that the caller has stopped waiting.
        let _ = sender.send(bytes);
    });
    receiver
}

fn receive_until(deadline: Instant, receiver: &Receiver<Vec<u8>>) -> Option<Vec<u8>> {
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
        // Its output has ended, so it will exit soon.
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn parse_result(source: &TopologySource, exit: &ChildExit) -> Result<Topology, TopologyError> {
    let refused = |what: String| TopologyError::new(source, what);
    let Some(status) = exit.status else {
        let what = format!(
            "hwloc took longer than {} s or wrote more than {} MiB",
            TIME_MAX.as_secs(),
            OUTPUT_BYTES_MAX >> 20
        );
        return Err(refused(what).with_hint(hint(source)));
    };
    if status.success() {
        let topology: Topology = serde_json::from_slice(&exit.output)
            .map_err(|error| refused(format!("the output of the child process is not a topology: {error}")))?;
        return model::values::capture::check_topology(&topology).map(|()| topology).map_err(refused);
    }
    let stderr = String::from_utf8_lossy(&exit.stderr);
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    if let Ok(error) = serde_json::from_str::<TopologyError>(last) {
        return Err(error);
    }
    let cause = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit status {}", code.unwrap_or(-1)),
    };
    Err(refused(format!("hwloc crashed on it ({cause})")).with_hint(hint(source)))
}

fn hint(source: &TopologySource) -> &'static str {
    match source {
        TopologySource::Live => "repeat the command when the machine is less busy; 'lstopo' is hwloc's own tool",
        TopologySource::Synthetic(_) => "use a description of a smaller machine",
        _ => "the file is malformed; 'lstopo -i FILE' shows whether hwloc's own tool can read it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<Topology, TopologyError> {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        parse_result(&TopologySource::XmlFile("FILE".into()), &run(&mut command).unwrap())
    }

    #[test]
    fn live_machine_under_load_is_not_a_malformed_file() {
        let exit = || ChildExit { status: None, output: Vec::new(), stderr: Vec::new() };
        let text = |source: TopologySource| format!("{:?}", parse_result(&source, &exit()).unwrap_err());
        assert!(text(TopologySource::Live).contains("less busy"));
        assert!(text(TopologySource::XmlFile("a.xml".into())).contains("malformed"));
    }

    #[test]
    fn each_kind_of_child_exit_returns_its_error() {
        let cases = [
            ("kill -SEGV $$", "cannot read FILE: hwloc crashed on it (signal 11)"),
            ("kill -ABRT $$", "hwloc crashed on it (signal 6)"),
            ("exit 101", "hwloc crashed on it (exit status 101)"),
            ("echo noise >&2; exit 1", "hwloc crashed on it (exit status 1)"),
            ("echo '{}'", "the output of the child process is not a topology"),
            ("true", "the output of the child process is not a topology"),
            (r#"echo noise >&2; echo '{"of":"F","what":"W","hint":null}' >&2; exit 1"#, "cannot read F: W"),
        ];
        for (text, expected) in cases {
            let error = script(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
            assert!(!expected.contains("crashed") || error.hint.is_some(), "{text}");
        }
    }

    #[test]
    fn child_with_too_much_output_is_killed() {
        let error = script("yes").unwrap_err();
        assert!(error.to_string().contains("wrote more than 64 MiB"), "{error}");
    }
}
