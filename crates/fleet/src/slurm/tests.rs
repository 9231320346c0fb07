//! Classifies errors of srun, and runs the commands of batch jobs in a shell.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;
use crate::{RequestBody, nasty};

fn slurm() -> Slurm {
    let program = "nearfar".into();
    Slurm { partition: None, nodelist: None, account: None, qos: None, time: None, program }
}

/// Returns the arguments with one of these prefixes.
fn options(command: &Command, prefixes: &[&str]) -> Vec<String> {
    let args = command.get_args().map(|arg| arg.to_str().unwrap());
    args.filter(|arg| prefixes.iter().any(|prefix| arg.starts_with(prefix))).map(String::from).collect()
}

#[test]
fn every_new_job_has_the_options_of_its_user() {
    let (node, job) = (NodeName::parse("node-1").unwrap(), JobName::parse("a").unwrap());
    let request = Request::new(&node, RequestBody::Status(vec![]));
    let given = Slurm {
        partition: Some(JobName::parse("all").unwrap()),
        account: Some("physics".into()),
        qos: Some("high".into()),
        time: Some("1-12".into()),
        ..slurm()
    };
    let prefixes = ["--account", "--qos", "--time", "--partition"];
    let batch = given.batch_command(&node, &job, &request);
    assert_eq!(options(&batch, &prefixes), ["--time=1-12", "--account=physics", "--qos=high", "--partition=all"]);
    let request_job = given.step_command(&node, None, NODE_SUBCOMMAND);
    assert_eq!(options(&request_job, &prefixes), ["--account=physics", "--qos=high", "--partition=all"]);
    assert!(options(&given.step_command(&node, Some("7"), NODE_SUBCOMMAND), &prefixes).is_empty());
    assert!(options(&slurm().batch_command(&node, &job, &request), &prefixes).is_empty());
}

#[test]
fn node_list_selects_nodes_of_the_partition() {
    let partition = ["node-1", "node-2", "node-3"].map(|node| NodeName::parse(node).unwrap());
    let selected = |list: &str| select(&HostList::parse(list).unwrap(), &partition);
    let [first, _, third] = partition.clone();
    assert_eq!(selected("node-3,node-1"), Ok(vec![third, first]));
    assert_eq!(selected("node-[1-3]"), Ok(partition.to_vec()));
    let error = selected("node-[1-4]").unwrap_err();
    assert_eq!((error.kind, &*error.what), (NodeErrorKind::Unknown, "--nodelist: node-4 is not in the partition"));
}

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
        ("srun: error: Slurm job 384 has expired", Some(NodeErrorKind::JobEnded)),
        (
            "srun: error: Unable to confirm allocation for job 384: Invalid job id specified",
            Some(NodeErrorKind::JobEnded),
        ),
        (
            "slurmstepd-node-a: error: *** STEP 3.0 ON node-a CANCELLED AT 2026-11-25T20:51:16 ***\n\
             srun: error: node-a: task 0: Killed",
            Some(NodeErrorKind::JobEnded),
        ),
        ("srun: error: node-a: task 0: Killed", Some(NodeErrorKind::Away)),
        ("srun: error: Unable to allocate resources: Requested nodes are busy", Some(NodeErrorKind::Away)),
        ("srun: error: Unable to allocate resources: Invalid node name specified", Some(NodeErrorKind::Unknown)),
        (
            "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified",
            Some(NodeErrorKind::Unknown),
        ),
        ("srun: error: Unable to allocate resources: Invalid qos specification", Some(NodeErrorKind::Unknown)),
        ("slurmstepd: error: execve(): nearfar: No such file or directory", Some(NodeErrorKind::NotInstalled)),
        ("srun: error: node-a: task 0: Exited with exit code 2", None),
    ];
    let slurm = slurm();
    for (stderr, kind) in cases {
        let exit = ChildExit { status: ExitStatus::from_raw(1 << 8), stderr: format!("{stderr}\n") };
        assert_eq!(slurm.explain(&exit).map(|error| error.kind), kind, "{stderr}");
    }
}
