//! Runs the hidden command of `read_isolated` for this crate's tests, which cannot use the `nearfar` binary.
//! Manual use: `cargo run --example read_topology -- __read-topology FILE`.

use std::process::ExitCode;

use machine::topology::{HIDDEN_COMMAND, TopologySource, serve_read};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (command, text) = (arguments.next(), arguments.next());
    if command.as_deref() != Some(HIDDEN_COMMAND) {
        eprintln!("usage: read_topology {HIDDEN_COMMAND} live|FILE|DESCRIPTION");
        return ExitCode::from(2);
    }
    match TopologySource::parse(&text.unwrap_or_default()) {
        Ok(source) => ExitCode::from(serve_read(&source)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
