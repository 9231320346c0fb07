//! One program run to its end by the worker, with how long it took. It runs on the worker's cpus with the worker's memory
//! policy, and dies with the worker's process group when the trial's time is over.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::job::Failure;
use crate::scratch::{Scratch, io_failure};

/// The end of what a program says is why it failed; compilers say more than anybody wants to read.
const SAID_MAX: usize = 600;

/// Runs a program that has to succeed. What it says goes to a file, so that it never waits for us; its standard output as
/// well, unless the command has one.
pub(super) fn run(mut command: Command, what: &str, scratch: &Scratch) -> Result<Duration, Failure> {
    let said = scratch.path("said");
    let file = File::create(&said).map_err(|error| io_failure("make", &said, &error))?;
    command.stdin(Stdio::null()).stderr(file);
    let program = command.get_program().to_os_string();
    let start = Instant::now();
    let status = command.status().map_err(|error| io_failure("run", program.as_ref(), &error))?;
    let took = start.elapsed();
    if status.success() {
        return Ok(took);
    }
    let said = std::fs::read(&said).unwrap_or_default();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(SAID_MAX)..]).trim().replace('\n', " / ");
    Err(Failure::Failed(format!("{what} ended with {status} and said: {said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_quoted() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            run(command, "the shell", &scratch)
        };
        assert!(shell("exit 0").is_ok());
        let failure = shell("echo no luck >&2; exit 3").unwrap_err().to_string();
        assert!(failure.contains("the shell ended with exit status: 3 and said: no luck"), "{failure}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let missing = run(Command::new("/no/such/program"), "it", &scratch).unwrap_err();
        assert!(missing.to_string().contains("/no/such/program"));
    }
}
