//! `nearfar fleet`: runs an experiment on many machines, shows its progress and collects the results.

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use fleet::{JobName, JobSpec, JobState, JobStatus, NodeName, NodeSelector};
use model::experiments::experiment::Experiment;
use model::values::shell::quote_argv;
use model::values::trial::short_hash;
use serde_json::json;

use crate::app::experiment::text;
use crate::cli::{
    Cli, Command, FleetArgs, FleetCollectArgs, FleetCommand, FleetQueryArgs, FleetRunArgs, GlobalArgs, ManifestArgs,
    RunArgs, TextOrJson,
};
use crate::commands::kubernetes;
use crate::coordinator::{self, Collected, FollowOptions, PerNode, errors, warn};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::node::{NODE, for_node};
use crate::output;
use crate::requests::{open_store, read_experiment};

pub fn run(args: &FleetArgs, common: &GlobalArgs) -> CommandResult {
    match &args.command {
        FleetCommand::Run(args) => run_on_all(args, common),
        FleetCommand::Status(args) => status(args),
        FleetCommand::Collect(args) => collect(args, common),
        FleetCommand::Compare(args) => super::survey::run(args, common),
    }
}

fn run_on_all(args: &FleetRunArgs, common: &GlobalArgs) -> CommandResult {
    if let NodeSelector::Kubernetes(on) = &args.nodes.on {
        return kubernetes::run(args, on, common);
    }
    refuse_manifest(&args.manifest, args.cpus.is_some())?;
    let fleet = coordinator::Fleet::of(&args.nodes)?;
    let orders = orders(args, fleet.nodes())?;
    let job = orders[0].job.clone();
    if !common.quiet {
        eprintln!("{job} on {} nodes; they keep running if this program ends", fleet.nodes().len());
    }
    let patience = Duration::from_nanos(args.node_timeout.0);
    let results =
        coordinator::follow(&fleet, &FollowOptions { orders, watch: !args.detach, patience, quiet: common.quiet });
    coordinator::show(&results, args.format == TextOrJson::Json)?;
    warn(errors(&results));
    fleet.warn_about_clocks();
    if !common.quiet {
        print_next(args, &results);
    }
    Ok(exit_code(&results, args.detach))
}

/// Returns the job of each node. Its arguments are parsed first, so that usage errors are found before any login.
fn orders(args: &FleetRunArgs, nodes: &[NodeName]) -> Result<Vec<JobSpec>, CliError> {
    let (order, _, _) = order(args, &nodes[0])?;
    Ok(nodes.iter().map(|node| JobSpec { words: for_node(&order.words, node), ..order.clone() }).collect())
}

/// Returns the job with `{node}` in its arguments, and its options and experiment as parsed for one node.
pub fn order(args: &FleetRunArgs, node: &NodeName) -> Result<(JobSpec, Box<RunArgs>, Experiment), CliError> {
    let (_, experiment) = text(&args.experiment)?;
    let words = with_host_label(&args.run_options);
    let (run, read) = check(args, &for_node(&words, node))?;
    let suffix = short_hash(&format!("{experiment}\0{}", args.run_options.join("\0")));
    let job = args.name.clone().unwrap_or_else(|| JobName::of(&read.name, &suffix[..8]));
    Ok((JobSpec { job, experiment, words }, run, read))
}

/// Adds the node's name as host label unless the user set one.
fn with_host_label(words: &[String]) -> Vec<String> {
    let has_label = words.iter().any(|word| word == "--host-label" || word.starts_with("--host-label="));
    words.iter().cloned().chain((!has_label).then(|| format!("--host-label={NODE}"))).collect()
}

/// Parses the arguments as the node will.
fn check(args: &FleetRunArgs, words: &[String]) -> Result<(Box<RunArgs>, Experiment), CliError> {
    let line = ["nearfar", "run", &args.experiment].into_iter().map(String::from).chain(words.iter().cloned());
    let parsed = Cli::command().try_get_matches_from(line).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.map_err(|error| {
        let message = error.to_string();
        let what = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
        CliError::usage(format!("node options: {what}")).hint("'nearfar run --help' lists the options")
    })?;
    let Command::Run(run) = cli.command else {
        return Err(CliError::usage("node options: not options of nearfar run"));
    };
    refuse(&run, words)?;
    let experiment = read_experiment(&run, &cli.common)?.0;
    Ok((Box::new(run), experiment))
}

/// Rejects options that nodes do not support.
fn refuse(run: &RunArgs, words: &[String]) -> Result<(), CliError> {
    let given = |flag: &str| words.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")));
    let refused = [
        (run.dry_run, "--dry-run", "nearfar run --dry-run shows the plan of this machine"),
        (run.fresh, "--fresh", "to run it again, set another --name before the --"),
        (run.fio.is_some(), "--fio", "use an experiment with the workload io instead"),
        (given("--format"), "--format", "set --format before the -- for the result"),
        (given("--store"), "--store", "each node has its own results file; nearfar fleet collect merges them"),
        (
            given("--quiet") || given("-q"),
            "--quiet",
            "nodes always report their progress; set --quiet before the -- to hide it",
        ),
    ];
    match refused.iter().find(|(is_given, ..)| *is_given) {
        Some((_, flag, hint)) => Err(CliError::usage(format!("node options: {flag} is not supported")).hint(hint)),
        None => Ok(()),
    }
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
        eprintln!("hint: rerun the same command to resume on the nodes that stopped");
    }
    let mut words = vec!["nearfar".to_string(), "fleet".into(), if args.detach { "status" } else { "collect" }.into()];
    words.push(format!("--on={}", args.nodes.on));
    if args.nodes.program != "nearfar" {
        words.push(format!("--program={}", args.nodes.program));
    }
    words.extend(args.nodes.ssh_options.iter().map(|option| format!("--ssh-option={option}")));
    eprintln!("next: {}", quote_argv(&words));
}

/// Rejects options that apply only to manifests.
fn refuse_manifest(flags: &ManifestArgs, sized: bool) -> Result<(), CliError> {
    let given = [
        (flags.image.is_some(), "--image"),
        (flags.output.is_some(), "--output"),
        (flags.results_dir.is_some(), "--results-dir"),
        (!flags.tolerations.is_empty(), "--toleration"),
        (sized, "--cpus"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => Err(CliError::usage(format!("{flag} is for --on kubernetes, which writes a manifest"))),
        None => Ok(()),
    }
}

fn status(args: &FleetQueryArgs) -> CommandResult {
    if let NodeSelector::Kubernetes(_) = args.nodes.on {
        return Err(kubernetes::no_connection());
    }
    let fleet = coordinator::Fleet::of(&args.nodes)?;
    let results = fleet.job_status(&args.names);
    coordinator::show(&results, args.format == TextOrJson::Json)?;
    warn(errors(&results));
    fleet.warn_about_clocks();
    Ok(coordinator::status(errors(&results).map(|(_, error)| error)).map_or(ExitCode::SUCCESS, Into::into))
}

fn collect(args: &FleetCollectArgs, common: &GlobalArgs) -> CommandResult {
    if let NodeSelector::Kubernetes(on) = &args.query.nodes.on {
        return kubernetes::collect(args, on, common);
    }
    refuse_manifest(&args.manifest, false)?;
    let args = &args.query;
    let mut store = open_store(common)?;
    let fleet = coordinator::Fleet::of(&args.nodes)?;
    let results = coordinator::collect(&fleet, &args.names, &mut store)?;
    match args.format {
        TextOrJson::Json => output::print_json(&collected_json(&results))?,
        TextOrJson::Text if !common.quiet => print_collected(&results),
        TextOrJson::Text => {}
    }
    warn(errors(&results));
    fleet.warn_about_clocks();
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
            eprintln!("{node}: no jobs");
        }
        for (job, report) in &collected.jobs {
            eprintln!("{node}: {job}: {report}");
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
