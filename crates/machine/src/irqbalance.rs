//! irqbalance's socket interface (since version 1.2, root only): reads and writes the list of interrupts that it
//! ignores. A client that closes the connection before the response ends irqbalance by SIGPIPE (seen with 1.9.2).
//! Therefore another process keeps the connection open, even if this process is killed.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::syscall;

/// Timeout for the response. irqbalance responds between two rounds of balancing, which take milliseconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which the connection is kept open without a response.
const KEPT_OPEN_MS: i32 = 60_000;
/// Maximum size of the response; it has about 40 bytes per interrupt.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;
/// irqbalance's notation for an empty list.
const NONE: &str = "NONE";

/// Returns the interrupts that irqbalance ignores, in the form of [`list`].
pub(crate) fn banned(pid: u32) -> io::Result<String> {
    let response = request(pid, "setup")?;
    if !response.starts_with("SLEEP") {
        return Err(io::Error::other(format!("unexpected response of irqbalance: '{response}'")));
    }
    Ok(list(&parse(&response)))
}

/// Replaces the list, with effect from the next round of balancing.
pub(crate) fn ban(pid: u32, list: &str) -> io::Result<()> {
    request(pid, &format!("settings ban irqs {list}")).map(|_| ())
}

/// Formats a list of interrupts: `38 39`, or `NONE` if it is empty.
pub(crate) fn list(numbers: &[u32]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    if words.is_empty() { NONE.into() } else { words.join(" ") }
}

/// Parses a list of interrupts; `NONE` is empty.
pub(crate) fn numbers(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn request(pid: u32, text: &str) -> io::Result<String> {
    let mut stream = connect(pid)?;
    let holder = syscall::keep_open(&stream, KEPT_OPEN_MS, &[])?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut response = String::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_string(&mut response)?;
    syscall::wait_for_child(holder)?;
    Ok(response)
}

/// Connects to the socket file or, if irqbalance could not create its directory, to the abstract socket.
fn connect(pid: u32) -> io::Result<UnixStream> {
    let name = format!("irqbalance{pid}.sock");
    UnixStream::connect(format!("/run/irqbalance/{name}"))
        .or_else(|_| UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?))
}

/// Parses `SLEEP 10 IRQ 38 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000`; the mask after BANNED contains CPUs.
fn parse(setup: &str) -> Vec<u32> {
    let words: Vec<&str> = setup.split_whitespace().collect();
    words.windows(2).filter(|pair| pair[0] == "IRQ").filter_map(|pair| pair[1].parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_interrupts_are_parsed() {
        assert_eq!(list(&parse("SLEEP 10 BANNED 00000000")), "NONE");
        let two = "SLEEP 10 IRQ 39 LOAD 0 DIFF 0 CLASS 0 IRQ 38 LOAD 0 DIFF 7 CLASS 0 BANNED 00000000";
        assert_eq!(list(&parse(two)), "38 39");
        assert_eq!(numbers("38 39"), [38, 39]);
        assert_eq!(numbers(NONE), [0; 0]);
    }
}
