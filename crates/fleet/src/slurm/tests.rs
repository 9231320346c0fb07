//! Classifies errors of srun, and runs the commands of batch jobs in a shell.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;
use crate::nasty;

#[test]
fn batch_script_runs_the_program_with_the_request() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\0' \"$@\"\ncat\nprintf '\\0'\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for words in nasty::lists().into_iter().take(200) {
        let (name, request) = (format!("a{}", words.concat()), words.join("$").replace('\n', ""));
        let link = dir.path().join(&name);
        symlink(&program, &link).unwrap();
        let script = batch_script(link.to_str().unwrap(), &request);
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected = format!("{NODE_SUBCOMMAND}\0{request}\n\0");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name:?}: {script}");
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn errors_of_srun_are_classified() {
    let cases = [
        ("srun: error: Application launch failed: Job credential revoked", Some(NodeErrorKind::JobEnded)),
        (
            "srun: error: Unable to create step for job 3: Job/step already completing or completed",
            Some(NodeErrorKind::JobEnded),
        ),
        ("srun: error: node-a: task 0: Terminated", Some(NodeErrorKind::JobEnded)),
        ("srun: error: Unable to allocate resources: Requested nodes are busy", Some(NodeErrorKind::Away)),
        ("srun: error: Unable to allocate resources: Invalid node name specified", Some(NodeErrorKind::Unknown)),
        ("slurmstepd: error: execve(): nearfar: No such file or directory", Some(NodeErrorKind::NotInstalled)),
        ("srun: error: node-a: task 0: Exited with exit code 2", None),
    ];
    let slurm = Slurm { partition: None, program: "nearfar".into() };
    for (stderr, kind) in cases {
        let exit = ChildExit { status: ExitStatus::from_raw(1 << 8), stderr: format!("{stderr}\n") };
        assert_eq!(slurm.explain(&exit).map(|error| error.kind), kind, "{stderr}");
    }
}
