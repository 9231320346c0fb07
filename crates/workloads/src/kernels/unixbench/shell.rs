//! Shell scripts: the cost of a script of small commands, one at a time or several concurrently.
//!
//! Measures: loops per minute. A loop is a script that starts `concurrent` scripts and waits for all. Each of them
//! sorts a text of 8546 bytes, makes an octal dump of it and sorts that numerically, searches for a word, stores and
//! counts the matching lines, and removes its four files. The work is fork, exec, pipes, small files and the commands
//! of the machine, so a different C library or other tools give different results. Does NOT compute and hardly uses
//! memory.
//! Definition: UnixBench's commands, number of files and size of the text; the script and the text are independent. The
//! locale is `en_US.utf8`, as in UnixBench.

use std::path::Path;
use std::process::Command;

use model::values::workload::{ParameterKind, WorkloadSpec};

use super::copies::{self, Program};
use super::{Test, check, kernel_output, text, time_ns};
use crate::describe::{Parameter, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::scratch::{Scratch, io_failure};

const SCRIPTS: &[u8] = include_bytes!("shell/scripts.sh");
const COMMANDS: &[u8] = include_bytes!("shell/commands.sh");

pub(crate) fn describe() -> WorkloadSpec {
    super::describe(Test {
        name: "shell",
        summary: "shell scripts of sort, od, grep, tee, wc and rm, run concurrently",
        about: "Loops per minute, all copies together. A loop runs `concurrent` scripts of small commands and waits \
                for them. Depends on the machine's shell and tools.",
        unit: "lpm",
        parameters: parameters([Parameter {
            name: "concurrent",
            about: "number of concurrent scripts; UnixBench uses 1, 8 and 16",
            kind: ParameterKind::Integer { min: 1, max: 1024 },
            default: Some("1"),
            smoke: None,
        }]),
    })
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let file = scratch.program("program", copies::SYSTEM)?;
    let scripts = scratch.program("scripts.sh", SCRIPTS)?;
    scratch.file("commands.sh", COMMANDS)?;
    let lines = text::lines();
    scratch.file("text", lines.as_bytes())?;
    let before = scratch.names()?;
    check_commands(&scratch, &lines)?;
    let dir = scratch.path("");
    let concurrent = job.parameters.size("concurrent").to_string();
    let copies = copies::run_each(job, |_| Program {
        file: &file,
        dir: &dir,
        args: ["loop".into(), time_ns(job).into(), scripts.clone().into(), concurrent.clone().into()].into(),
    })?;
    check(&copies.copies, &[], "shell scripts")?;
    if scratch.names()? != before {
        return Err(Failure::Failed("the scripts did not remove their files, or removed other files".into()));
    }
    kernel_output(copies, 60.0)
}

/// Runs the commands once without removing their files, and compares the result with an independent count.
fn check_commands(scratch: &Scratch, lines: &str) -> Result<(), Failure> {
    let dir = scratch.path("");
    let mut command = Command::new("/bin/sh");
    let status =
        command.args(["commands.sh", "keep"]).current_dir(&dir).env(copies::LANGUAGE.0, copies::LANGUAGE.1).status();
    let status = status.map_err(|error| io_failure("run", Path::new("/bin/sh"), &error))?;
    let counted = std::fs::read_to_string(scratch.path("kept.count")).unwrap_or_default();
    let kept = ["sorted", "dumped", "found", "count"].map(|name| scratch.path(&format!("kept.{name}")));
    for path in &kept {
        std::fs::remove_file(path).map_err(|error| io_failure("remove", path, &error))?;
    }
    let found = lines.lines().filter(|line| line.contains(text::WORD)).count();
    if status.success() && counted.split_whitespace().next() == Some(&found.to_string()) {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "wrong result of the script: '{}', expected {found} lines; exit: {status}",
        counted.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_with_two_copies() {
        for concurrent in ["1", "8"] {
            let mut job = TrialContext { threads: 2, ..job_for_tests("shell") };
            set(&mut job, "concurrent", concurrent);
            check_smoke("shell", &run(&job).unwrap());
        }
    }

    #[test]
    fn wrong_command_results_return_errors() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        scratch.file("commands.sh", COMMANDS).unwrap();
        scratch.file("text", text::lines().as_bytes()).unwrap();
        assert_eq!(check_commands(&scratch, &text::lines()), Ok(()));
        let one_more = format!("{}{}\n", text::lines(), text::WORD);
        assert!(check_commands(&scratch, &one_more).unwrap_err().to_string().contains("expected"));
    }
}
