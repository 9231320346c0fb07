//! `nearfar fleet`: an experiment on many machines, how far they are, their results here.

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use fleet::{JobName, JobSpec, JobState, JobStatus, NodeName, NodeSelector};
use model::experiments::experiment::Experiment;
use model::values::shell::quote_argv;
use model::values::trial::short_hash;
use serde_json::json;

use crate::cli::{
    Cli, Command, FleetArgs, FleetCollectArgs, FleetCommand, FleetQueryArgs, FleetRunArgs, GlobalArgs, ManifestArgs,
    RunArgs, TextOrJson,
};
use crate::commands::kubernetes;
use crate::commands::run::{read_experiment, text};
use crate::coordinator::{self, Collected, FollowOptions, PerNode, problems, warn};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::target_machine::open_store;

/// What in the flags for the nodes is the node's name.
const NODE: &str = "{node}";

/// Does what is asked with many machines.
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
        eprintln!("{job} on {} nodes; they go on without this program", fleet.nodes().len());
    }
    let patience = Duration::from_nanos(args.node_timeout.0);
    let came =
        coordinator::follow(&fleet, &FollowOptions { orders, watch: !args.detach, patience, quiet: common.quiet });
    coordinator::show(&came, args.format == TextOrJson::Json)?;
    warn(problems(&came));
    fleet.complain_of_clocks();
    if !common.quiet {
        say_next(args, &came);
    }
    Ok(verdict(&came, args.detach))
}

/// What each node is to run. Mistakes are told before a node is asked: the words are read as the same program there reads them.
fn orders(args: &FleetRunArgs, nodes: &[NodeName]) -> Result<Vec<JobSpec>, CliError> {
    let (order, _, _) = order(args, &nodes[0])?;
    Ok(nodes.iter().map(|node| JobSpec { words: for_node(&order.words, node), ..order.clone() }).collect())
}

/// What every node is to run, with `{node}` in its words, and what that is when read as one of them will.
pub fn order(args: &FleetRunArgs, node: &NodeName) -> Result<(JobSpec, Box<RunArgs>, Experiment), CliError> {
    let (_, experiment) = text(&args.experiment)?;
    let words = labelled(&args.run_options);
    let (run, read) = check(args, &for_node(&words, node))?;
    let apart = short_hash(&format!("{experiment}\0{}", args.run_options.join("\0")));
    let job = args.name.clone().unwrap_or_else(|| JobName::of(&read.name, &apart[..8]));
    Ok((JobSpec { job, experiment, words }, run, read))
}

/// Machines of a fleet are told apart by their names, where nothing else is said.
fn labelled(words: &[String]) -> Vec<String> {
    let said = words.iter().any(|word| word == "--host-label" || word.starts_with("--host-label="));
    words.iter().cloned().chain((!said).then(|| format!("--host-label={NODE}"))).collect()
}

/// The words for one node.
pub fn for_node(words: &[String], node: &NodeName) -> Vec<String> {
    words.iter().map(|word| word.replace(NODE, node.as_str())).collect()
}

/// Reads the words as a node will.
fn check(args: &FleetRunArgs, words: &[String]) -> Result<(Box<RunArgs>, Experiment), CliError> {
    let line = ["nearfar", "run", &args.experiment].into_iter().map(String::from).chain(words.iter().cloned());
    let parsed = Cli::command().try_get_matches_from(line).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.map_err(|error| {
        let said = error.to_string();
        let what = said.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
        CliError::usage(format!("flags for the nodes: {what}")).hint("'nearfar run --help' has those that nodes take")
    })?;
    let Command::Run(run) = cli.command else {
        return Err(CliError::usage("flags for the nodes: they are for nearfar run"));
    };
    refuse(&run, words)?;
    let experiment = read_experiment(&run, &cli.common)?.0;
    Ok((Box::new(run), experiment))
}

/// What makes no sense on a node.
fn refuse(run: &RunArgs, words: &[String]) -> Result<(), CliError> {
    let given = |flag: &str| words.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")));
    let refused = [
        (run.dry_run, "--dry-run", "nearfar run --dry-run shows the plan of this machine"),
        (run.fresh, "--fresh", "another --name, before the --, runs it once more"),
        (run.fio.is_some(), "--fio", "an experiment of workload io can be sent to nodes"),
        (given("--format"), "--format", "--format before the -- shows how it ended"),
        (given("--store"), "--store", "each node has its own results file; nearfar fleet collect brings them together"),
        (
            given("--quiet") || given("-q"),
            "--quiet",
            "a node says how far it is to whoever asks; --quiet before the -- hides it",
        ),
    ];
    match refused.iter().find(|(is_given, ..)| *is_given) {
        Some((_, flag, hint)) => {
            Err(CliError::usage(format!("flags for the nodes: {flag} is not for them")).hint(hint))
        }
        None => Ok(()),
    }
}

/// Failures first, then what could not be proven.
fn verdict(came: &PerNode<Vec<JobStatus>>, detached: bool) -> ExitCode {
    if let Some(status) = coordinator::status(problems(came).map(|(_, problem)| problem)) {
        return status.into();
    }
    let mut looks = came.iter().filter_map(|(_, looks)| looks.as_ref().ok()?.first());
    let stopped = |look: &JobStatus| look.state == JobState::Stopped;
    let unproven = |look: &JobStatus| look.state == JobState::Ended && look.counted == 0;
    if looks.clone().any(|look| stopped(look) && !detached) {
        CliStatus::Failure.into()
    } else if looks.any(unproven) {
        CliStatus::Invalid.into()
    } else {
        ExitCode::SUCCESS
    }
}

fn say_next(args: &FleetRunArgs, came: &PerNode<Vec<JobStatus>>) {
    let stopped = came.iter().any(|(_, looks)| looks.iter().flatten().any(|look| look.state == JobState::Stopped));
    if stopped {
        eprintln!("hint: the same command goes on where nodes have stopped");
    }
    let mut words = vec!["nearfar".to_string(), "fleet".into(), if args.detach { "status" } else { "collect" }.into()];
    words.push(format!("--on={}", args.nodes.on));
    if args.nodes.program != "nearfar" {
        words.push(format!("--program={}", args.nodes.program));
    }
    words.extend(args.nodes.ssh_options.iter().map(|option| format!("--ssh-option={option}")));
    eprintln!("next: {}", quote_argv(&words));
}

/// Flags that only a manifest has.
fn refuse_manifest(flags: &ManifestArgs, sized: bool) -> Result<(), CliError> {
    let given = [
        (flags.image.is_some(), "--image"),
        (flags.output.is_some(), "--output"),
        (flags.results_dir.is_some(), "--results-dir"),
        (!flags.tolerations.is_empty(), "--toleration"),
        (sized, "--cpus"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => Err(CliError::usage(format!("{flag} is for --on kubernetes, where a manifest is written"))),
        None => Ok(()),
    }
}

fn status(args: &FleetQueryArgs) -> CommandResult {
    if let NodeSelector::Kubernetes(_) = args.nodes.on {
        return Err(kubernetes::not_asked());
    }
    let fleet = coordinator::Fleet::of(&args.nodes)?;
    let came = fleet.look(&args.names);
    coordinator::show(&came, args.format == TextOrJson::Json)?;
    warn(problems(&came));
    fleet.complain_of_clocks();
    Ok(coordinator::status(problems(&came).map(|(_, problem)| problem)).map_or(ExitCode::SUCCESS, Into::into))
}

fn collect(args: &FleetCollectArgs, common: &GlobalArgs) -> CommandResult {
    if let NodeSelector::Kubernetes(on) = &args.query.nodes.on {
        return kubernetes::collect(args, on, common);
    }
    refuse_manifest(&args.manifest, false)?;
    let args = &args.query;
    let mut store = open_store(common)?;
    let fleet = coordinator::Fleet::of(&args.nodes)?;
    let came = coordinator::collect(&fleet, &args.names, &mut store)?;
    match args.format {
        TextOrJson::Json => output::print_json(&collected_json(&came))?,
        TextOrJson::Text if !common.quiet => say_collected(&came),
        TextOrJson::Text => {}
    }
    warn(problems(&came));
    fleet.complain_of_clocks();
    let conflicts = came.iter().any(|(_, collected)| {
        collected.iter().flat_map(|collected| &collected.jobs).any(|(_, report)| !report.conflicts.is_empty())
    });
    let status = coordinator::status(problems(&came).map(|(_, problem)| problem));
    Ok(status.or(conflicts.then_some(CliStatus::Failure)).map_or(ExitCode::SUCCESS, Into::into))
}

fn say_collected(came: &PerNode<Collected>) {
    for (node, collected) in came {
        let Ok(collected) = collected else { continue };
        if collected.jobs.is_empty() {
            eprintln!("{node}: nothing was run there");
        }
        for (job, report) in &collected.jobs {
            eprintln!("{node}: {job}: {report}");
        }
    }
}

fn collected_json(came: &PerNode<Collected>) -> serde_json::Value {
    let node = |(node, collected): &(NodeName, Result<Collected, fleet::NodeError>)| match collected {
        Err(problem) => json!({ "node": node, "problem": problem.what, "hint": problem.hint }),
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
    json!({ "nodes": came.iter().map(node).collect::<Vec<_>>() })
}
