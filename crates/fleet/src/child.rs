//! A child process that is talked to: what it is to read, what it says, how it ended. It is never waited for longer than it may be
//! silent, and gone when this is. Must not know what is said.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// A node says something at least every fifteen seconds while it works, and ssh itself gives up on a dead connection after 45. A
/// login takes seconds at worst: name service, authentication, a busy disk.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of what it complains of is kept: the end.
const STDERR_BYTES_MAX: usize = 16 << 10;

/// What a child that has closed its output gets to end, and for the last of its complaints to arrive. A master of ssh that stays
/// behind keeps the pipe open for hours.
const END_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct ChildSession {
    child: Child,
    silence_max: Duration,
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    taken: usize,
    stderr: Receiver<Vec<u8>>,
}

#[derive(Debug)]
pub struct ChildExit {
    pub status: ExitStatus,
    /// The end of what it complained of.
    pub complaint: String,
}

impl ChildSession {
    /// Starts a child, which is to read `input`.
    pub fn start(mut command: Command, input: Vec<u8>, silence_max: Duration) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else { unreachable!("all three are piped above") };
        // A few chunks ahead, not all of a long copy.
        let (said, chunks) = sync_channel(4);
        let (complains, complaints) = sync_channel(1);
        // Threads and not turns: whichever pipe the child waits for, somebody is there. They end with their pipes.
        std::thread::spawn(move || stdin.write_all(&input));
        std::thread::spawn(move || pass_on(stdout, &said));
        std::thread::spawn(move || complains.send(end_of(stderr)));
        Ok(Self { child, silence_max, chunks, chunk: Vec::new(), taken: 0, stderr: complaints })
    }

    /// Waits for its end, which is near: it has closed its output.
    pub fn end(&mut self) -> io::Result<ChildExit> {
        let began = Instant::now();
        let complaint = self.stderr.recv_timeout(END_MAX).unwrap_or_default();
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
        Ok(ChildExit { status, complaint: String::from_utf8_lossy(&complaint).into_owned() })
    }
}

impl Read for ChildSession {
    /// As any pipe; `TimedOut` when it was silent for too long.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.len() {
            match self.chunks.recv_timeout(self.silence_max) {
                Ok(chunk) => (self.chunk, self.taken) = (chunk?, 0),
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let rest = &self.chunk[self.taken..];
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

impl Drop for ChildSession {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pass_on(mut stdout: ChildStdout, to: &SyncSender<io::Result<Vec<u8>>>) {
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

fn end_of(mut stderr: ChildStderr) -> Vec<u8> {
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

    fn shell(script: &str, input: &[u8], silence_max: Duration) -> ChildSession {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ChildSession::start(command, input.into(), silence_max).unwrap()
    }

    #[test]
    fn it_is_read_to_its_end_and_says_how_it_ended() {
        let input = vec![b'x'; 300_000];
        let mut conversation = shell("cat; echo no >&2; exit 7", &input, IDLE_TIMEOUT);
        let mut said = Vec::new();
        conversation.read_to_end(&mut said).unwrap();
        assert_eq!(said, input);
        let ended = conversation.end().unwrap();
        assert_eq!((ended.status.code(), ended.complaint.as_str()), (Some(7), "no\n"));
    }

    #[test]
    fn only_the_end_of_complaints_is_kept() {
        let mut conversation = shell("yes complaint | head -n 100000 >&2; echo last >&2", b"", IDLE_TIMEOUT);
        assert_eq!(conversation.read(&mut [0]).unwrap(), 0);
        let ended = conversation.end().unwrap();
        assert!(ended.complaint.len() <= STDERR_BYTES_MAX && ended.complaint.ends_with("last\n"));
    }

    #[test]
    fn the_silent_are_not_waited_for_and_are_gone() {
        let mut conversation = shell("echo $$; exec sleep 1000", b"", Duration::from_millis(300));
        let mut line = [0; 64];
        let bytes = conversation.read(&mut line).unwrap();
        let pid: u32 = std::str::from_utf8(&line[..bytes]).unwrap().trim().parse().unwrap();
        assert_eq!(conversation.read(&mut line).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(std::fs::metadata(format!("/proc/{pid}")).is_ok());
        drop(conversation);
        assert!(std::fs::metadata(format!("/proc/{pid}")).is_err());
    }
}
