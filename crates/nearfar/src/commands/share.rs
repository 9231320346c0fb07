//! `nearfar share`: writes a run or a table as a results file without private data.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use model::sharing::share::ShareOptions;
use model::values::record::{ImportedTable, RunRecord};
use serde_json::json;
use store::shared::{Content, write};

use crate::app::stored_live::stored_run;
use crate::cli::{GlobalArgs, Keep, ShareArgs, TextOrJson};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::existing_store;

/// Variables that contain the name of the user's account, as value or as last component of a path.
const ACCOUNT_VARIABLES: [&str; 4] = ["USER", "LOGNAME", "SUDO_USER", "HOME"];

/// Writes the file and lists the names in it, because only the user can judge names chosen by the user.
pub fn run(args: &ShareArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let mut options =
        ShareOptions { keep_commands: args.keep.contains(&Keep::Commands), host: None, names: private_names() };
    let shared = if let Some(name) = &args.table {
        let shared = model::sharing::share::table(&store.table(name).map_err(CliError::usage)?, &options);
        write_new(&args.output, Content::Table(&shared.table))?;
        ShareSummary { content: describe_table(&shared.table), names: table_names(&shared.table), taken: shared.taken }
    } else {
        let record = stored_run(&store, &args.run, "share")?;
        let kept = record.host.clone().filter(|_| args.keep.contains(&Keep::HostLabel));
        options.host = args.host_label.clone().or(kept);
        let shared =
            model::sharing::share::run(&record, &store.trials(&record.id).map_err(CliError::failure)?, &options);
        write_new(&args.output, Content::Run(&shared.record, &shared.trials))?;
        let trials = shared.trials.len();
        let content =
            format!("run {} with {} cells and {trials} trials", shared.record.id, shared.record.plan.cells.len());
        ShareSummary { content, names: run_names(&shared.record), taken: shared.taken }
    };
    print_summary(&shared, args, common)?;
    Ok(ExitCode::SUCCESS)
}

/// Summary of the shared data, for review by the user.
struct ShareSummary {
    content: String,
    /// Names that the user may have chosen.
    names: Vec<(&'static str, String)>,
    taken: BTreeMap<&'static str, usize>,
}

fn write_new(path: &Path, content: Content<'_>) -> Result<(), CliError> {
    write(path, content).map_err(|error| {
        let cli_error = CliError::usage(&error);
        if path.exists() { cli_error.hint("choose another name or remove the file") } else { cli_error }
    })
}

/// Returns the names of this machine and of its user. Runs may come from other machines, so the filter has more rules.
fn private_names() -> Vec<String> {
    let last = |text: String| text.rsplit('/').next().unwrap_or_default().to_string();
    let users = ACCOUNT_VARIABLES.iter().filter_map(|name| std::env::var(name).ok()).map(last);
    let host = machine::settings::host_name();
    let short = host.as_deref().and_then(|host| host.split('.').next()).map(str::to_string);
    users.chain(host).chain(short).filter(|name| !name.is_empty()).collect()
}

fn run_names(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut tests: Vec<&str> = record.plan.cells.iter().map(|cell| cell.test.as_str()).collect();
    tests.dedup();
    let model = record.machine.settings.get("cpu.model").unwrap_or("not known");
    let plan = &record.plan;
    let mut names = vec![("experiment", plan.experiment.clone()), ("tests", tests.join("; "))];
    // Free text of the experiment file.
    let texts =
        [("question", &plan.question), ("compared by", &plan.compare_by)].map(|(kind, text)| (kind, text.clone()));
    names.extend(texts.into_iter().filter(|(_, text)| !text.is_empty()));
    names.extend(plan.baseline.iter().map(|baseline| ("baseline", baseline.clone())));
    if !plan.command.is_empty() {
        names.push(("arguments", plan.command.join(" ")));
    }
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

fn describe_table(table: &ImportedTable) -> String {
    format!("table {} with {} columns and {} rows", table.name, table.columns.len(), table.rows.len())
}

fn print_summary(summary: &ShareSummary, args: &ShareArgs, common: &GlobalArgs) -> Result<(), CliError> {
    let ShareSummary { content, names, taken } = summary;
    if args.format == TextOrJson::Json {
        let names: serde_json::Map<_, _> = names.iter().map(|(kind, name)| ((*kind).into(), json!(name))).collect();
        return output::print_json(
            &json!({ "file": args.output, "what": content, "names": names, "taken_out": taken }),
        );
    }
    output::print(&args.output.display().to_string())?;
    if common.quiet {
        return Ok(());
    }
    message!("{content}");
    let taken: Vec<String> = taken.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
    message!("removed: {}", if taken.is_empty() { "nothing".into() } else { taken.join(", ") });
    message!("kept; check that these names may be published:");
    names.iter().for_each(|(kind, name)| message!("  {kind}: {name}"));
    message!(
        "hint: view the file as others will: nearfar --store {} show",
        model::values::shell::quote_arg(&args.output.display().to_string())
    );
    Ok(())
}
