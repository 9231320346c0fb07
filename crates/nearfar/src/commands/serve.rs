//! `nearfar serve`: the pages of `nearfar report`, live, until Ctrl-C.

use std::process::ExitCode;

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use store::Store;

use crate::cli::{GlobalArgs, ServeArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::serve::{Address, HttpServer};
use crate::target_machine::store_path;

/// Says where the pages are, and gives them out until it is told to end.
pub fn run(args: &ServeArgs, common: &GlobalArgs) -> CommandResult {
    let path = store_path(common)?;
    // What is wrong with the file is said now and not in a browser.
    drop(Store::open_to_read(&path).map_err(|error| CliError::store(&error, CliStatus::Usage))?);
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| CliError::of(format!("cannot watch for signals: {error}")))?;
    let address = Address::asked(args.listen.as_deref(), args.port)?;
    // Nobody's trial should wait for a page; threads have this from the one that makes them.
    machine::priority::lower_priority();
    let server = HttpServer::start(&address, &path, common.quiet)?;
    match args.format {
        TextOrJson::Text => output::print(&server.url())?,
        TextOrJson::Json => output::print_json(&json!({
            "url": server.url(),
            "address": server.address().ip(),
            "port": server.address().port(),
            "token": server.token(),
            "store": store::shown(&path),
        }))?,
    }
    if !common.quiet {
        eprintln!("serving {}; Ctrl-C ends it", store::shown(&path).display());
        if !server.address().ip().is_loopback() {
            eprintln!("note: other machines can reach it, and nothing on the way is encrypted");
            eprintln!("hint: without --listen, through ssh -L PORT:localhost:PORT, nobody else can");
        }
    }
    signals.forever().next();
    server.end();
    Ok(ExitCode::SUCCESS)
}
