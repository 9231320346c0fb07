//! Runs one program to completion in the worker and measures its wall time. The program inherits the worker's CPUs and
//! memory policy, and is killed with the worker's process group when the trial times out.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::job::Failure;
use crate::scratch::{Scratch, io_failure};

/// Length of the output's tail in an error message. The end of the output shows why a program failed, and compilers
/// print a lot.
const TAIL_MAX: usize = 600;

/// Runs a program that must succeed. Its output goes to a file, so that it never blocks on a pipe. This includes
/// standard output, unless the command redirects it.
pub(super) fn run(mut command: Command, what: &str, scratch: &Scratch) -> Result<Duration, Failure> {
    let output = scratch.path("output");
    let file = File::create(&output).map_err(|error| io_failure("create", &output, &error))?;
    command.stdin(Stdio::null()).stderr(file);
    let program = command.get_program().to_os_string();
    let start = Instant::now();
    let status = command.status().map_err(|error| io_failure("run", program.as_ref(), &error))?;
    let elapsed = start.elapsed();
    if status.success() {
        return Ok(elapsed);
    }
    let output = std::fs::read(&output).unwrap_or_default();
    let tail = String::from_utf8_lossy(&output[output.len().saturating_sub(TAIL_MAX)..]).trim().replace('\n', " / ");
    Err(Failure::Failed(format!("{what} failed with {status}: {tail}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_program_error_quotes_its_output() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            run(command, "the shell", &scratch)
        };
        assert!(shell("exit 0").is_ok());
        let failure = shell("echo no luck >&2; exit 3").unwrap_err().to_string();
        assert!(failure.contains("the shell failed with exit status: 3: no luck"), "{failure}");
    }

    #[test]
    fn missing_program_error_contains_its_name() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let missing = run(Command::new("/no/such/program"), "it", &scratch).unwrap_err();
        assert!(missing.to_string().contains("/no/such/program"));
    }
}
