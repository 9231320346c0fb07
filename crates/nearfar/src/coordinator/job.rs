//! Builds the job of a fleet from the options of `nearfar fleet run`. They are parsed as each node will parse them, so
//! that usage errors are found before any login. Must not depend on the engine.

use clap::{CommandFactory, FromArgMatches};
use fleet::{FleetJob, JobName, JobSpec, NODE_PLACEHOLDER, NodeName, for_node};
use model::experiments::experiment::Experiment;
use model::values::trial::short_hash;
use model::values::units::Nanos;

use crate::app::experiment::text;
use crate::cli::{Cli, Command, FleetRunArgs, RunArgs};
use crate::error::CliError;
use crate::requests::read_experiment;

/// Returns the job of all nodes. Its options are parsed for the first known node, or for a node named `node`.
pub fn job(args: &FleetRunArgs, nodes: &[NodeName]) -> Result<FleetJob, CliError> {
    let (_, experiment) = text(&args.experiment)?;
    let words = with_host_label(&args.run_options);
    let any = NodeName::parse("node").map_err(CliError::failure)?;
    let (run, read) = check(args, &for_node(&words, nodes.first().unwrap_or(&any)))?;
    let suffix = short_hash(&format!("{experiment}\0{}", args.run_options.join("\0")));
    let job = args.name.clone().unwrap_or_else(|| JobName::of(&read.name, &suffix[..8]));
    let order = JobSpec { job, experiment, words };
    Ok(FleetJob { order, privileges: privileges(&run, &read), duration: duration(&run, &read) })
}

/// Adds the node's name as host label unless the user set one.
fn with_host_label(words: &[String]) -> Vec<String> {
    let has_label = words.iter().any(|word| word == "--host-label" || word.starts_with("--host-label="));
    words.iter().cloned().chain((!has_label).then(|| format!("--host-label={NODE_PLACEHOLDER}"))).collect()
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
        (run.resume.is_some(), "--resume", "rerun the same command to resume"),
        (run.fio.is_some(), "--fio", "use an experiment with the workload io instead"),
        (given("--format"), "--format", "set --format before the -- for the result"),
        (given("--store"), "--store", "each node has its own results file; nearfar fleet collect merges them"),
        (
            given("--quiet") || given("-q"),
            "--quiet",
            "nodes always report their progress; set --quiet before the -- to hide it",
        ),
        (given("--verbose") || given("-v"), "--verbose", "nodes report their progress only"),
        (given("--color"), "--color", "nodes print nothing; set --color before the --"),
    ];
    match refused.iter().find(|(is_given, ..)| *is_given) {
        Some((_, flag, hint)) => Err(CliError::usage(format!("node options: {flag} is not supported")).hint(hint)),
        None => Ok(()),
    }
}

/// Returns why a run must be privileged: it changes settings or interrupt affinity, limits memory or uses a disk.
fn privileges(run: &RunArgs, experiment: &Experiment) -> Vec<String> {
    let placements = experiment.tasks.iter().flat_map(|task| &task.placements);
    let parts = placements.flat_map(|placement| placement.split(['+', ' ']));
    let parts = parts.filter(|part| ["irq:", "expand:", "swap:"].iter().any(|prefix| part.starts_with(prefix)));
    let values = experiment
        .tasks
        .iter()
        .flat_map(|task| &task.set)
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    let disks = values.filter(|(_, value)| value.starts_with("/dev/")).map(|(name, value)| format!("{name}={value}"));
    let flags = [
        (run.guard.quieten.is_some(), "--quieten"),
        (run.guard.fix_frequency.is_some(), "--fix-frequency"),
        (run.guard.ban_irqbalance, "--ban-irqbalance"),
    ];
    let flags = flags.iter().filter(|(given, _)| *given).map(|(_, flag)| (*flag).to_string());
    let mut reasons: Vec<String> = flags.chain(parts.map(String::from)).chain(disks).collect();
    let mut seen = std::collections::BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    reasons
}

/// Returns the maximum duration of a run; `None` if it may first wait for the machine lock.
fn duration(run: &RunArgs, experiment: &Experiment) -> Result<Option<Nanos>, String> {
    if run.guard.wait {
        return Ok(None);
    }
    let given = run.budget.as_deref().map(Nanos::parse).transpose()?;
    let budget = given.unwrap_or(experiment.repeat.budget);
    Ok(Some(Nanos(budget.0.saturating_add(experiment.repeat.time_limit.0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn read(words: &[&str]) -> (Box<RunArgs>, Experiment) {
        let line = ["nearfar", "run"].iter().chain(words);
        let cli = Cli::try_parse_from(line).unwrap();
        let Command::Run(run) = cli.command else { panic!("not a run") };
        let experiment = read_experiment(&run, &cli.common).unwrap().0;
        (Box::new(run), experiment)
    }

    #[test]
    fn runs_that_change_the_node_are_privileged_with_a_reason() {
        let cases: &[(&[&str], &str)] = &[
            (&["quick"], ""),
            (&["quick", "--quieten", "thp"], "--quieten"),
            (&["quick", "--fix-frequency", "3.6GHz"], "--fix-frequency"),
            (&["interrupts"], "irq:"),
            (&["far-memory"], "expand:"),
            (&["storage", "--set", "file=/dev/nullb0"], "file=/dev/nullb0"),
        ];
        for (words, expected) in cases {
            let (run, experiment) = read(words);
            let reasons = privileges(&run, &experiment).join(", ");
            assert!(reasons.contains(expected) && reasons.is_empty() == expected.is_empty(), "{words:?}: {reasons}");
        }
    }

    #[test]
    fn duration_follows_from_the_budget() {
        let (_, quick) = read(&["quick"]);
        let with_budget = |budget: Nanos| Ok(Some(Nanos(budget.0.saturating_add(quick.repeat.time_limit.0))));
        let duration = |words: &[&str]| {
            let (run, experiment) = read(words);
            duration(&run, &experiment)
        };
        assert_eq!(duration(&["quick"]), with_budget(quick.repeat.budget));
        assert_eq!(duration(&["quick", "--budget", "1h"]), with_budget(Nanos(3600 * 1_000_000_000)));
        assert_eq!(duration(&["quick", "--wait"]), Ok(None));
        assert!(duration(&["quick", "--budget", "soon"]).is_err());
    }
}
