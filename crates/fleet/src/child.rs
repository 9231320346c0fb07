//! Starts a child process, writes its input, and reads its output with an idle timeout. The child is killed on drop.
//! Must not depend on the protocol.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// A busy node sends a heartbeat every 15 s, and ssh times out on a dead connection after 45 s. A login takes a few
/// seconds at worst (name service, authentication, a busy disk).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of the kept end of the child's standard error.
const STDERR_BYTES_MAX: usize = 16 << 10;

/// Time limit for a child that has closed its output to exit and to close its standard error. An ssh master that stays
/// in the background keeps that pipe open for hours.
const END_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct ChildSession {
    child: Child,
    idle_timeout: Duration,
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    consumed: usize,
    stderr: Receiver<Vec<u8>>,
}

#[derive(Debug)]
pub struct ChildExit {
    pub status: ExitStatus,
    /// The end of the standard error, at most 16 KiB.
    pub stderr: String,
}

impl ChildSession {
    /// Starts a child with `input` as its standard input.
    pub fn start(mut command: Command, input: Vec<u8>, idle_timeout: Duration) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else { unreachable!("all three are piped above") };
        // Bounded, so that a long copy is not buffered as a whole.
        let (output, chunks) = sync_channel(4);
        let (errors, stderr_end) = sync_channel(1);
        // One thread per pipe, so that the child never blocks on a full one. The threads end with their pipes.
        std::thread::spawn(move || stdin.write_all(&input));
        std::thread::spawn(move || forward(stdout, &output));
        std::thread::spawn(move || errors.send(read_end(stderr)));
        Ok(Self { child, idle_timeout, chunks, chunk: Vec::new(), consumed: 0, stderr: stderr_end })
    }

    /// Waits for the exit of a child that has closed its output, and kills it after 5 s.
    pub fn end(&mut self) -> io::Result<ChildExit> {
        let began = Instant::now();
        let stderr = self.stderr.recv_timeout(END_MAX).unwrap_or_default();
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if began.elapsed() > END_MAX => {
                    self.child.kill()?;
                    break self.child.wait()?;
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        Ok(ChildExit { status, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    }
}

impl Read for ChildSession {
    /// Returns `TimedOut` if the child writes nothing for the idle timeout.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.consumed == self.chunk.len() {
            match self.chunks.recv_timeout(self.idle_timeout) {
                Ok(chunk) => (self.chunk, self.consumed) = (chunk?, 0),
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let rest = &self.chunk[self.consumed..];
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.consumed += bytes;
        Ok(bytes)
    }
}

impl Drop for ChildSession {
    fn drop(&mut self) {
        // Fails if the child has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(mut stdout: ChildStdout, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; 64 << 10];
        let read = match stdout.read(&mut chunk) {
            Ok(0) => return,
            Ok(bytes) => {
                chunk.truncate(bytes);
                Ok(chunk)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = read.is_err();
        if to.send(read).is_err() || last {
            return;
        }
    }
}

fn read_end(mut stderr: ChildStderr) -> Vec<u8> {
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(bytes @ 1..) = stderr.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..bytes]);
        kept.drain(..kept.len().saturating_sub(STDERR_BYTES_MAX));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[u8], idle_timeout: Duration) -> ChildSession {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ChildSession::start(command, input.into(), idle_timeout).unwrap()
    }

    #[test]
    fn output_and_exit_status_are_returned() {
        let input = vec![b'x'; 300_000];
        let mut session = shell("cat; echo no >&2; exit 7", &input, IDLE_TIMEOUT);
        let mut output = Vec::new();
        session.read_to_end(&mut output).unwrap();
        assert_eq!(output, input);
        let exit = session.end().unwrap();
        assert_eq!((exit.status.code(), exit.stderr.as_str()), (Some(7), "no\n"));
    }

    #[test]
    fn only_the_end_of_stderr_is_kept() {
        let mut session = shell("yes complaint | head -n 100000 >&2; echo last >&2", b"", IDLE_TIMEOUT);
        assert_eq!(session.read(&mut [0]).unwrap(), 0);
        let exit = session.end().unwrap();
        assert!(exit.stderr.len() <= STDERR_BYTES_MAX && exit.stderr.ends_with("last\n"));
    }

    #[test]
    fn silent_child_times_out_and_is_killed_on_drop() {
        let mut session = shell("echo $$; exec sleep 1000", b"", Duration::from_millis(300));
        let mut line = [0; 64];
        let bytes = session.read(&mut line).unwrap();
        let pid: u32 = std::str::from_utf8(&line[..bytes]).unwrap().trim().parse().unwrap();
        assert_eq!(session.read(&mut line).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(std::fs::metadata(format!("/proc/{pid}")).is_ok());
        drop(session);
        assert!(std::fs::metadata(format!("/proc/{pid}")).is_err());
    }
}
