//! Runs the program with a separate results file and state directory.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Not the lock of the machine, which other tests hold.
pub fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("results.db")).args(args).env_remove("NEARFAR_STORE");
    command.env("NEARFAR_STATE", dir.join("state"));
    command.output().expect("the program starts")
}

/// The output of a command that succeeds.
pub fn stdout(dir: &Path, args: &[&str]) -> String {
    let output = nearfar(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is text")
}

pub fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&stdout(dir, &[args, &["--format", "json"]].concat())).expect("the output is JSON")
}
