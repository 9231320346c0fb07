//! `nearfar serve`: serves the pages of `nearfar report` over HTTP until Ctrl-C.

use std::process::ExitCode;

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use store::Store;

use crate::cli::{GlobalArgs, ServeArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::results_file;
use crate::serve::{Address, HttpServer, is_missing};

/// Prints the URL and serves pages until SIGINT or SIGTERM.
pub fn run(args: &ServeArgs, common: &GlobalArgs) -> CommandResult {
    let path = results_file(common).path()?;
    let is_waiting = is_missing(&path);
    if !is_waiting {
        // Errors of the results file are reported now, not in the browser.
        drop(Store::open_to_read(&path).map_err(|error| CliError::store(&error, CliStatus::Usage))?);
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| CliError::failure(format!("cannot install signal handlers: {error}")))?;
    let address = Address::from_args(args.listen.as_deref(), args.port)?;
    // So that serving does not disturb trials. Threads inherit the priority of the thread that creates them.
    machine::priority::lower_priority();
    let server = HttpServer::start(&address, &path, common.quiet)?;
    match args.format {
        TextOrJson::Text => output::print(&server.url())?,
        TextOrJson::Json => output::print_json(&json!({
            "url": server.url(),
            "address": server.address().ip(),
            "port": server.address().port(),
            "token": server.token(),
            "store": store::displayed(&path),
        }))?,
    }
    if !common.quiet {
        let waiting = if is_waiting { ", which does not exist yet" } else { "" };
        message!("serving {}{waiting}; stop with Ctrl-C", store::displayed(&path).display());
        if !server.address().ip().is_loopback() {
            message!("warning: other machines can connect, and the traffic is not encrypted");
            message!("hint: for private access, omit --listen and connect through ssh -L PORT:localhost:PORT");
        }
    }
    signals.forever().next();
    server.end();
    Ok(ExitCode::SUCCESS)
}
