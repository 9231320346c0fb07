//! `nearfar fleet`: runs an experiment on many machines, shows its progress and collects the results.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fleet::{FollowOptions, JobName, JobState, JobStatus, Manifest, NodeEvent, NodeName, PerNode, Reply};
use model::values::shell::quote_argv;
use serde_json::json;

use crate::cli::{
    FleetArgs, FleetCollectArgs, FleetCommand, FleetQueryArgs, FleetRunArgs, GlobalArgs, ManifestArgs, SlurmArgs,
    TextOrJson,
};
use crate::coordinator::{self, Collected, StatusLines, engine_error, errors, warn, warn_about_clocks};
use crate::error::{CliStatus, CommandResult};
use crate::output;
use crate::requests::open_store;

pub fn run(args: &FleetArgs, common: &GlobalArgs) -> CommandResult {
    match &args.command {
        FleetCommand::Run(args) => run_on_all(args, common),
        FleetCommand::Status(args) => status(args),
        FleetCommand::Collect(args) => collect(args, common),
        FleetCommand::Compare(args) => super::survey::run(args, common),
    }
}

fn run_on_all(args: &FleetRunArgs, common: &GlobalArgs) -> CommandResult {
    let engine = coordinator::engine(&args.into())?;
    let job = coordinator::job(args, engine.nodes())?;
    let jobs = match engine.submit(&job).map_err(|error| engine_error(&error))? {
        Reply::Nodes(jobs) => jobs,
        Reply::Manifest(manifest) => return write_manifest(&manifest, &args.manifest, common),
    };
    let nodes = engine.nodes();
    let options = FollowOptions { watch: !args.detach, patience: Duration::from_nanos(args.node_timeout.0) };
    let mut lines = StatusLines::new(nodes, common.quiet || args.detach);
    let mut has_responded = false;
    let results = jobs.follow(options, |node, event| {
        let is_first = !has_responded && matches!(event, NodeEvent::Status(_));
        has_responded |= is_first;
        if is_first && !common.quiet {
            message!("{} on {} nodes; those that respond continue if this program ends", job.order.job, nodes.len());
        }
        lines.show(node, event);
    });
    lines.finish();
    coordinator::show(&results, args.format == TextOrJson::Json)?;
    warn(errors(&results));
    warn_about_clocks(&*engine);
    if !has_responded {
        message!("nearfar: {}; this command started no job", coordinator::common_failure(errors(&results)));
    } else if !common.quiet {
        print_next(args, &results);
    }
    Ok(exit_code(&results, args.detach))
}

/// Writes a manifest and prints the next commands.
fn write_manifest(manifest: &Manifest, args: &ManifestArgs, common: &GlobalArgs) -> CommandResult {
    output::write(args.output.as_deref().unwrap_or(Path::new("-")), &manifest.text)?;
    if !common.quiet {
        manifest.notes.iter().for_each(|note| message!("{note}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the exit status: a failure of any node takes precedence over a run without valid trials.
fn exit_code(results: &PerNode<Vec<JobStatus>>, detached: bool) -> ExitCode {
    if let Some(status) = coordinator::status(errors(results).map(|(_, error)| error)) {
        return status.into();
    }
    let mut statuses = results.iter().filter_map(|(_, jobs)| jobs.as_ref().ok()?.first());
    let stopped = |job: &JobStatus| job.state == JobState::Stopped;
    let without_valid = |job: &JobStatus| job.state == JobState::Ended && job.counted == 0;
    if statuses.clone().any(|job| stopped(job) && !detached) {
        CliStatus::Failure.into()
    } else if statuses.any(without_valid) {
        CliStatus::Invalid.into()
    } else {
        ExitCode::SUCCESS
    }
}

fn print_next(args: &FleetRunArgs, results: &PerNode<Vec<JobStatus>>) {
    let stopped = results.iter().any(|(_, jobs)| jobs.iter().flatten().any(|job| job.state == JobState::Stopped));
    if stopped {
        message!("hint: rerun the same command to resume on the nodes that stopped");
    }
    let mut words = vec!["nearfar".to_string(), "fleet".into(), if args.detach { "status" } else { "collect" }.into()];
    words.push(format!("--on={}", args.nodes.on));
    if args.nodes.program != "nearfar" {
        words.push(format!("--program={}", args.nodes.program));
    }
    words.extend(args.nodes.ssh_options.iter().map(|option| format!("--ssh-option={option}")));
    let SlurmArgs { nodelist, account, qos } = &args.nodes.slurm;
    words.extend(nodelist.iter().map(|nodes| format!("--nodelist={nodes}")));
    words.extend(account.iter().map(|account| format!("--account={account}")));
    words.extend(qos.iter().map(|qos| format!("--qos={qos}")));
    message!("next: {}", quote_argv(&words));
}

fn status(args: &FleetQueryArgs) -> CommandResult {
    let engine = coordinator::engine(&args.into())?;
    let results = engine.status(&args.names).map_err(|error| engine_error(&error))?;
    coordinator::show(&results, args.format == TextOrJson::Json)?;
    warn(errors(&results));
    warn_about_clocks(&*engine);
    Ok(coordinator::status(errors(&results).map(|(_, error)| error)).map_or(ExitCode::SUCCESS, Into::into))
}

fn collect(args: &FleetCollectArgs, common: &GlobalArgs) -> CommandResult {
    let engine = coordinator::engine(&args.into())?;
    let copies = match engine.collect(&args.query.names).map_err(|error| engine_error(&error))? {
        Reply::Nodes(copies) => copies,
        Reply::Manifest(manifest) => return write_manifest(&manifest, &args.manifest, common),
    };
    let mut store = open_store(common)?;
    let results = coordinator::merge_copies(&copies, &mut store)?;
    match args.query.format {
        TextOrJson::Json => output::print_json(&collected_json(&results))?,
        TextOrJson::Text if !common.quiet => print_collected(&results),
        TextOrJson::Text => {}
    }
    warn(errors(&results));
    warn_about_clocks(&*engine);
    let conflicts = results.iter().any(|(_, collected)| {
        collected.iter().flat_map(|collected| &collected.jobs).any(|(_, report)| !report.conflicts.is_empty())
    });
    let status = coordinator::status(errors(&results).map(|(_, error)| error));
    Ok(status.or(conflicts.then_some(CliStatus::Failure)).map_or(ExitCode::SUCCESS, Into::into))
}

fn print_collected(results: &PerNode<Collected>) {
    for (node, collected) in results {
        let Ok(collected) = collected else { continue };
        if collected.jobs.is_empty() {
            message!("{node}: no jobs");
        }
        for (job, report) in &collected.jobs {
            message!("{node}: {job}: {report}");
        }
    }
}

fn collected_json(results: &PerNode<Collected>) -> serde_json::Value {
    let node = |(node, collected): &(NodeName, Result<Collected, fleet::NodeError>)| match collected {
        Err(error) => json!({ "node": node, "problem": error.what, "hint": error.hint }),
        Ok(Collected { jobs }) => {
            let job = |(job, report): &(JobName, store::MergeReport)| {
                json!({
                    "job": job,
                    "runs_added": report.runs_added,
                    "runs_present": report.runs_present,
                    "trials_added": report.trials_added,
                    "trials_present": report.trials_present,
                    "left_out": report.conflicts,
                })
            };
            json!({ "node": node, "jobs": jobs.iter().map(job).collect::<Vec<_>>() })
        }
    };
    json!({ "nodes": results.iter().map(node).collect::<Vec<_>>() })
}
