//! Runs a short command and returns what it prints, within a time limit. Must not depend on the command.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Bytes of each stream that are kept; a command that prints more is ended by a closed pipe.
const OUTPUT_MAX: u64 = 1 << 20;
/// Interval between checks whether the command has ended, after it has closed its output.
const EXIT_POLL: Duration = Duration::from_millis(1);

/// Runs a command and returns its standard output. Its process group is killed at the time limit.
///
/// # Errors
/// If it cannot be started, fails, or does not end in time.
pub fn output_within(argv: &[String], limit: Duration) -> Result<String, String> {
    let [program, args @ ..] = argv else { return Err("the command is empty".into()) };
    let end = Instant::now() + limit;
    let mut command = Command::new(program);
    command.args(args).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let streams = (collect(child.stdout.take()), collect(child.stderr.take()));
    let ended = wait(&mut child, &streams, end);
    if ended.is_none() {
        kill(&mut child);
    }
    let (stdout, stderr, success) = ended.ok_or_else(|| format!("{program}: not ended within {limit:?}"))?;
    if success { Ok(stdout) } else { Err(format!("{program}: {}", stderr.trim())) }
}

/// Reads a stream in a separate thread, so that neither stream can block the command.
fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // An error ends the stream; the bytes before it are kept.
        let _ = stream.map(|stream| stream.take(OUTPUT_MAX).read_to_end(&mut bytes));
        // The receiver is gone after a timeout.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Returns both streams and whether the command succeeded; `None` at the time limit.
fn wait(
    child: &mut Child,
    streams: &(Receiver<String>, Receiver<String>),
    end: Instant,
) -> Option<(String, String, bool)> {
    let left = || end.saturating_duration_since(Instant::now());
    let stdout = streams.0.recv_timeout(left()).ok()?;
    let stderr = streams.1.recv_timeout(left()).ok()?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some((stdout, stderr, status.success())),
            Ok(None) if left().is_zero() => return None,
            Ok(None) => thread::sleep(EXIT_POLL),
            Err(_) => return None,
        }
    }
}

fn kill(child: &mut Child) {
    // Errors mean that it has ended.
    let _: io::Result<()> = match Pid::from_raw(child.id().cast_signed()) {
        Some(group) => kill_process_group(group, Signal::KILL).map_err(Into::into),
        None => child.kill(),
    };
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> Result<String, String> {
        output_within(&["sh".into(), "-c".into(), script.into()], limit)
    }

    #[test]
    fn output_and_failures_are_returned() {
        let limit = Duration::from_secs(60);
        assert_eq!(run("echo 17; echo ignored >&2", limit), Ok("17\n".into()));
        assert_eq!(run("echo refused >&2; exit 3", limit), Err("sh: refused".into()));
        let missing = output_within(&["/does/not/exist".into()], limit).expect_err("it does not exist");
        assert!(missing.contains("/does/not/exist"), "{missing}");
        assert!(output_within(&[], limit).is_err());
        assert!(run("yes", limit).is_err(), "a command that prints without end");
    }

    #[test]
    fn hanging_commands_are_ended_with_their_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        // The child keeps the pipe open; `exec` would replace the shell.
        let script = format!("sleep 1000 & echo $! >{}; wait", pid.display());
        let error = run(&script, Duration::from_millis(300)).expect_err("it does not end");
        assert!(error.contains("not ended within 300ms"), "{error}");
        let child: u32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        // The killed child is a zombie until init reaps it.
        let lives = || std::fs::read_to_string(format!("/proc/{child}/cmdline")).is_ok_and(|argv| !argv.is_empty());
        while lives() {
            assert!(Instant::now() < end, "the child still runs");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
