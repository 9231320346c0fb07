//! Starts commands from copies of their programs and libraries, by the command `copy-text` of this program.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use machine::child::SpawnSpec;
use machine::page_cache::nodes_of;
use machine::text_copy::check_permitted;
use model::values::placement::MemoryPolicy;
use model::values::trial::{TextCopy, TrialStatus};

/// Returns the start of a command from copies, and the copies that it gets. `files` are programs and libraries that earlier
/// trials were seen to run or load, besides those that the command itself names.
pub(super) fn wrap(launch: SpawnSpec, files: &BTreeSet<String>) -> Result<(SpawnSpec, TextCopy), TrialStatus> {
    let unavailable = |error: &dyn std::fmt::Display| TrialStatus::Unavailable(format!("text:copy: {error}"));
    check_permitted().map_err(|error| unavailable(&error))?;
    let program = std::env::current_exe().map_err(|error| unavailable(&error))?;
    // A trial may have deleted its own.
    let files: Vec<String> = files.iter().filter(|path| Path::new(path).is_file()).cloned().collect();
    let mut wrapper: Vec<OsString> = vec![program.into(), "copy-text".into()];
    wrapper.extend(files.iter().flat_map(|path| ["--file".into(), path.into()]));
    wrapper.push("--".into());
    let nodes = nodes_of(&launch.cpus, &MemoryPolicy::Kernel);
    Ok((SpawnSpec { wrapper, ..launch }, TextCopy { nodes, files }))
}
