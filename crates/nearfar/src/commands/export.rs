//! `nearfar export`: results for other programs.

use std::path::Path;
use std::process::ExitCode;

use store::Store;
use store::export::ExportError;

use crate::app::stored_live::stored_run;
use crate::cli::{ExportArgs, ExportFormat, GlobalArgs};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::existing_store;

type Exporter = fn(&Store, &model::values::record::RunId, &mut dyn std::io::Write) -> Result<(), ExportError>;

/// Exports one run as text, or one or all runs as Parquet files to a directory or an object store.
pub fn run(args: &ExportArgs, common: &GlobalArgs) -> CommandResult {
    let exporter: Exporter = match args.format {
        ExportFormat::Csv => store::export::csv,
        ExportFormat::Json => store::export::json,
        ExportFormat::Hyperfine => store::export::hyperfine,
        ExportFormat::Openmetrics => store::export::openmetrics,
        ExportFormat::Parquet => return to_directory(args, common),
    };
    if args.output_dir.is_some() || args.all {
        return Err(CliError::usage("--output-dir and --all require --format parquet")
            .hint("other formats write one run to one file: use --output FILE"));
    }
    let store = existing_store(common)?;
    let record = stored_run(&store, &args.run, "export")?;
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    let export_error = |error| match error {
        ExportError::Write(error) => output::cannot_write(path, &error),
        error => CliError::failure(error),
    };
    output::write_streamed(path, |out| exporter(&store, &record.id, out).map_err(export_error))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "parquet"))]
fn to_directory(_: &ExportArgs, _: &GlobalArgs) -> CommandResult {
    Err(CliError::with(CliStatus::Skipped, "this build of nearfar does not support Parquet").hint(
        "build with 'cargo build --release --features parquet --bin nearfar', or use --format csv, which has the same rows",
    ))
}

#[cfg(feature = "parquet")]
fn to_directory(args: &ExportArgs, common: &GlobalArgs) -> CommandResult {
    let target = args.output_dir.as_deref().expect("clap requires it for this format");
    reject_unsupported_url(target)?;
    let store = existing_store(common)?;
    // Also with --all, so that an empty results file is an error.
    let named = stored_run(&store, if args.all { "latest" } else { &args.run }, "export")?;
    let runs = if args.all {
        crate::app::results_file::readable_runs(&store)?.into_iter().map(|run| run.id).collect()
    } else {
        vec![named.id]
    };
    #[cfg(feature = "s3")]
    if target.contains("://") {
        return upload(&store, &runs, target);
    }
    for run in &runs {
        let written = store::export::parquet(&store, run, Path::new(target)).map_err(CliError::failure)?;
        message!("{}: {} rows", written.path.display(), written.rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// Rejects URLs other than `s3://`, which would otherwise be taken for directories.
#[cfg(feature = "parquet")]
fn reject_unsupported_url(target: &str) -> Result<(), CliError> {
    match target.split_once("://") {
        None => Ok(()),
        Some(("s3", _)) if cfg!(feature = "s3") => Ok(()),
        Some(("s3", _)) => Err(CliError::with(CliStatus::Skipped, format!("--output-dir {target}: this build of nearfar can only write to directories"))
            .hint("build with 'cargo build --release --features s3 --bin nearfar', or write to a directory and copy it: 'aws s3 sync DIR s3://BUCKET/'")),
        Some((scheme, _)) => Err(CliError::usage(format!("--output-dir {target}: unsupported scheme {scheme}://; directories and s3:// are supported"))
            .hint("write to a directory and copy it with the tool of the object store ('rclone copy'); keep the file names")),
    }
}

#[cfg(feature = "s3")]
fn upload(store: &Store, runs: &[model::values::record::RunId], url: &str) -> CommandResult {
    use store::export::{Bucket, BucketError};
    let bucket = Bucket::from_environment(url).map_err(|error| match error {
        BucketError::Url { .. } => CliError::usage(error),
        BucketError::Refused { .. } => CliError::failure(error),
    })?;
    for run in runs {
        let uploaded = store::export::parquet_to_bucket(store, run, &bucket).map_err(CliError::failure)?;
        message!("{}: {} rows", uploaded.url, uploaded.rows);
    }
    Ok(ExitCode::SUCCESS)
}
