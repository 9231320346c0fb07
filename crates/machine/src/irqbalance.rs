//! irqbalance's own interface: a socket on which it tells which interrupts it leaves alone, and takes another list of
//! them. Since irqbalance 1.2; only root is heard. It writes its answer without care for who is still there: a client that
//! hangs up earlier ends it by SIGPIPE (seen with 1.9.2). So somebody else keeps the connection open, whatever becomes of us.
//! Must not know why it is asked.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::syscall;

/// It answers between two rounds of balancing, which take milliseconds.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long a connection is kept open whose answer does not come.
const KEPT_OPEN_MS: i32 = 60_000;
/// Some 40 bytes per interrupt.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Its word for no interrupt.
const NONE: &str = "NONE";

/// The interrupts that it leaves alone, as [`list`] writes them.
pub(crate) fn banned(pid: u32) -> io::Result<String> {
    let answer = ask(pid, "setup")?;
    if !answer.starts_with("SLEEP") {
        return Err(io::Error::other(format!("irqbalance answers '{answer}', which is not its set-up")));
    }
    Ok(list(&parse(&answer)))
}

/// Gives it another list, which it takes up in its next round.
pub(crate) fn ban(pid: u32, list: &str) -> io::Result<()> {
    ask(pid, &format!("settings ban irqs {list}")).map(|_| ())
}

/// `38 39`, or its word for none.
pub(crate) fn list(numbers: &[u32]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    if words.is_empty() { NONE.into() } else { words.join(" ") }
}

/// The numbers of a list.
pub(crate) fn numbers(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn ask(pid: u32, words: &str) -> io::Result<String> {
    let mut stream = connect(pid)?;
    let keeper = syscall::keep_open(&stream, KEPT_OPEN_MS, &[])?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    stream.write_all(words.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    syscall::wait_for_child(keeper)?;
    Ok(answer)
}

/// A file where it could make its folder, else a name of the abstract kind.
fn connect(pid: u32) -> io::Result<UnixStream> {
    let name = format!("irqbalance{pid}.sock");
    UnixStream::connect(format!("/run/irqbalance/{name}"))
        .or_else(|_| UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?))
}

/// `SLEEP 10 IRQ 38 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000`; what is behind BANNED are cpus.
fn parse(setup: &str) -> Vec<u32> {
    let words: Vec<&str> = setup.split_whitespace().collect();
    words.windows(2).filter(|pair| pair[0] == "IRQ").filter_map(|pair| pair[1].parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_set_up_is_read() {
        assert_eq!(list(&parse("SLEEP 10 BANNED 00000000")), "NONE");
        let two = "SLEEP 10 IRQ 39 LOAD 0 DIFF 0 CLASS 0 IRQ 38 LOAD 0 DIFF 7 CLASS 0 BANNED 00000000";
        assert_eq!(list(&parse(two)), "38 39");
        assert_eq!(numbers("38 39"), [38, 39]);
        assert_eq!(numbers(NONE), [0; 0]);
    }
}
