//! `nearfar share`: a run or a table as a results file for strangers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use model::sharing::share::ShareOptions;
use model::values::record::{ImportedTable, RunRecord};
use serde_json::json;
use store::shared::{Content, write};

use crate::cli::{GlobalArgs, Keep, ShareArgs, TextOrJson};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::target_machine::existing_store;

/// Names of people's accounts are in these, or the folder named in it.
const NAMES: [&str; 4] = ["USER", "LOGNAME", "SUDO_USER", "HOME"];

/// Writes the file and says what is in it, because what people have named themselves only they can judge.
pub fn run(args: &ShareArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let mut wish =
        ShareOptions { keep_commands: args.keep.contains(&Keep::Commands), host: None, names: private_names() };
    let shared = if let Some(name) = &args.table {
        let shared = model::sharing::share::table(&store.table(name).map_err(CliError::usage)?, &wish);
        put(&args.output, Content::Table(&shared.table))?;
        ShareSummary { what: table_in_words(&shared.table), names: table_names(&shared.table), taken: shared.taken }
    } else {
        let record = store.run(&args.run).map_err(CliError::usage)?;
        let kept = record.host.clone().filter(|_| args.keep.contains(&Keep::HostLabel));
        wish.host = args.host_label.clone().or(kept);
        let shared = model::sharing::share::run(&record, &store.trials(&record.id).map_err(CliError::of)?, &wish);
        put(&args.output, Content::Run(&shared.record, &shared.trials))?;
        let trials = shared.trials.len();
        let what =
            format!("run {} with {} cells and {trials} trials", shared.record.id, shared.record.plan.cells.len());
        ShareSummary { what, names: run_names(&shared.record), taken: shared.taken }
    };
    say(&shared, args, common)?;
    Ok(ExitCode::SUCCESS)
}

/// What was shared, for the last look.
struct ShareSummary {
    what: String,
    /// What people have named, or may have.
    names: Vec<(&'static str, String)>,
    taken: BTreeMap<&'static str, usize>,
}

fn put(path: &Path, content: Content<'_>) -> Result<(), CliError> {
    write(path, content).map_err(|error| {
        let failure = CliError::usage(&error);
        if path.exists() { failure.hint("choose another name, or remove that file first") } else { failure }
    })
}

/// This machine's name and its user's. The run may be from elsewhere, so nothing relies on them alone.
fn private_names() -> Vec<String> {
    let last = |text: String| text.rsplit('/').next().unwrap_or_default().to_string();
    let users = NAMES.iter().filter_map(|name| std::env::var(name).ok()).map(last);
    let host = machine::settings::host_name();
    let short = host.as_deref().and_then(|host| host.split('.').next()).map(str::to_string);
    users.chain(host).chain(short).filter(|name| !name.is_empty()).collect()
}

fn run_names(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut tests: Vec<&str> = record.plan.cells.iter().map(|cell| cell.test.as_str()).collect();
    tests.dedup();
    let model = record.machine.settings.get("cpu.model").unwrap_or("not known");
    let mut names = vec![("experiment", record.plan.experiment.clone()), ("tests", tests.join("; "))];
    names.push(("machine", record.host.clone().unwrap_or_else(|| model.into())));
    names.extend(record.machine.settings.get("kernel.release").map(|kernel| ("kernel", kernel.to_string())));
    names
        .extend(record.machine.settings.get("kernel.command-line").map(|line| ("kernel parameters", line.to_string())));
    names
}

fn table_names(table: &ImportedTable) -> Vec<(&'static str, String)> {
    let mut tests: Vec<&str> = table.rows.iter().map(|row| row.test.as_str()).collect();
    tests.dedup();
    let mut names =
        vec![("table", table.name.clone()), ("columns", table.columns.join("; ")), ("tests", tests.join("; "))];
    names.extend(table.notes.iter().map(|note| ("note", note.clone())));
    names
}

fn table_in_words(table: &ImportedTable) -> String {
    format!("table {} with {} columns and {} rows", table.name, table.columns.len(), table.rows.len())
}

fn say(done: &ShareSummary, args: &ShareArgs, common: &GlobalArgs) -> Result<(), CliError> {
    let ShareSummary { what, names, taken } = done;
    if args.format == TextOrJson::Json {
        let names: serde_json::Map<_, _> = names.iter().map(|(kind, name)| ((*kind).into(), json!(name))).collect();
        return output::print_json(&json!({ "file": args.output, "what": what, "names": names, "taken_out": taken }));
    }
    output::print(&args.output.display().to_string())?;
    if common.quiet {
        return Ok(());
    }
    eprintln!("{what}");
    let taken: Vec<String> = taken.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
    eprintln!("taken out: {}", if taken.is_empty() { "nothing had to be".into() } else { taken.join(", ") });
    eprintln!("left in, for you to judge:");
    names.iter().for_each(|(kind, name)| eprintln!("  {kind}: {name}"));
    eprintln!(
        "hint: nearfar --store {} show looks at it as others will",
        model::values::shell::quote_arg(&args.output.display().to_string())
    );
    Ok(())
}
