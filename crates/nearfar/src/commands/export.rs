//! `nearfar export`: results for other programs.

use std::path::Path;
use std::process::ExitCode;

use store::Store;

use crate::cli::{ExportArgs, ExportFormat, GlobalArgs};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::target_machine::existing_store;

type Exporter =
    fn(&Store, &model::values::record::RunId, &mut dyn std::io::Write) -> Result<(), store::export::ExportError>;

/// Exports one run as text, or one or all of them to a folder or an object store.
pub fn run(args: &ExportArgs, common: &GlobalArgs) -> CommandResult {
    let exporter: Exporter = match args.format {
        ExportFormat::Csv => store::export::csv,
        ExportFormat::Json => store::export::json,
        ExportFormat::Hyperfine => store::export::hyperfine,
        ExportFormat::Openmetrics => store::export::openmetrics,
        ExportFormat::Parquet => return to_folder(args, common),
    };
    if args.to.is_some() || args.all {
        return Err(CliError::usage("--to and --all are for --format parquet")
            .hint("other formats hold one run in one file, which --output names"));
    }
    let store = existing_store(common)?;
    let record = store.run(&args.run).map_err(CliError::usage)?;
    let mut bytes = Vec::new();
    exporter(&store, &record.id, &mut bytes).map_err(CliError::of)?;
    let text = String::from_utf8(bytes).map_err(CliError::of)?;
    output::write(args.output.as_deref().unwrap_or(Path::new("-")), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Without the feature nobody can; that is said before anything is looked for.
#[cfg(not(feature = "parquet"))]
fn to_folder(_: &ExportArgs, _: &GlobalArgs) -> CommandResult {
    Err(CliError::with(CliStatus::Skipped, "this build of nearfar has no Parquet").hint(
        "'cargo build --release --features parquet --bin nearfar' makes one that has; --format csv has the same rows",
    ))
}

#[cfg(feature = "parquet")]
fn to_folder(args: &ExportArgs, common: &GlobalArgs) -> CommandResult {
    let to = args.to.as_deref().expect("the command line wants it for this format");
    refuse_unknown(to)?;
    let store = existing_store(common)?;
    // Also with --all: a results file without runs is said to have none.
    let named = store.run(if args.all { "latest" } else { &args.run }).map_err(CliError::usage)?;
    let runs = if args.all {
        store.runs().map_err(CliError::of)?.into_iter().map(|run| run.id).collect()
    } else {
        vec![named.id]
    };
    #[cfg(feature = "s3")]
    if to.contains("://") {
        return upload(&store, &runs, to);
    }
    for run in &runs {
        let written = store::export::parquet(&store, run, Path::new(to)).map_err(CliError::of)?;
        anstream::eprintln!("{}: {} rows", written.path.display(), written.rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// What looks like a URL is none of a folder.
#[cfg(feature = "parquet")]
fn refuse_unknown(to: &str) -> Result<(), CliError> {
    match to.split_once("://") {
        None => Ok(()),
        Some(("s3", _)) if cfg!(feature = "s3") => Ok(()),
        Some(("s3", _)) => Err(CliError::with(CliStatus::Skipped, format!("--to {to}: this build of nearfar writes to folders only"))
            .hint("'cargo build --release --features s3 --bin nearfar' makes one that knows s3://; or write to a folder and copy it: 'aws s3 sync FOLDER s3://BUCKET/'")),
        Some((scheme, _)) => Err(CliError::usage(format!("--to {to}: nearfar writes to folders and s3://, not to {scheme}://"))
            .hint("write to a folder and copy it with the store's own program ('rclone copy'); every file keeps its name")),
    }
}

#[cfg(feature = "s3")]
fn upload(store: &Store, runs: &[model::values::record::RunId], to: &str) -> CommandResult {
    use store::export::{Bucket, BucketError};
    let bucket = Bucket::of_environment(to).map_err(|error| match error {
        BucketError::Url { .. } => CliError::usage(error),
        BucketError::Refused { .. } => CliError::of(error),
    })?;
    for run in runs {
        let uploaded = store::export::parquet_to_bucket(store, run, &bucket).map_err(CliError::of)?;
        anstream::eprintln!("{}: {} rows", uploaded.url, uploaded.rows);
    }
    Ok(ExitCode::SUCCESS)
}
