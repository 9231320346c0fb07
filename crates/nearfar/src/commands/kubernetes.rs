//! `nearfar fleet` on Kubernetes: writes manifests for `kubectl apply` and prints the next commands. It never connects
//! to a cluster, so it cannot show the status of pods.

use std::path::Path;
use std::process::ExitCode;

use fleet::NodeName;
use fleet::kubernetes::{
    DedicatedResources, Image, Manifest, PodTemplate, RESULTS_DIR, Selection, job_selector, to_list, to_yaml,
};
use model::experiments::experiment::Experiment;
use model::values::shell::{quote_arg, quote_argv};
use model::values::units::Nanos;
use serde_json::Value;

use crate::cli::{FleetCollectArgs, FleetRunArgs, GlobalArgs, ManifestArgs, NodeArgs, RunArgs, TextOrJson};
use crate::commands::fleet::order;
use crate::error::{CliError, CommandResult};
use crate::output;

/// Upper bound of the time before the first trial and after the last, such as pulling the image.
const MARGIN_SECONDS: u64 = 600;

/// Label selector of the pods that collect results.
const COLLECTORS: &str = "app.kubernetes.io/name=nearfar-collect";

/// Writes a manifest that runs an experiment on the nodes.
pub fn run(args: &FleetRunArgs, on: &Selection, common: &GlobalArgs) -> CommandResult {
    refuse(&args.nodes, args.detach)?;
    let image = image(&args.manifest)?;
    let any = NodeName::parse("node").map_err(CliError::failure)?;
    let node = if let Selection::Named(nodes) = on { &nodes[0] } else { &any };
    let (order, run, experiment) = order(args, node)?;
    let reasons = privileges(&run, &experiment);
    let manifest = Manifest {
        pods: pods(on, image, &args.manifest),
        order: &order,
        program: &args.nodes.program,
        whole: args.cpus.zip(args.memory).map(|(cpus, memory)| DedicatedResources { cpus, memory }),
        privileged: !reasons.is_empty(),
        deadline_seconds: deadline(&run, &experiment)?,
    };
    write(&manifest.objects().map_err(CliError::usage)?, &args.manifest, args.format)?;
    if !common.quiet {
        let objects = match on {
            Selection::Named(nodes) => format!("a Job for each of {} nodes", nodes.len()),
            Selection::Labelled(_) => "a DaemonSet on all nodes with these labels".into(),
            Selection::All => "a DaemonSet on all schedulable nodes".into(),
        };
        eprintln!("{}: {objects}", order.job);
        if !reasons.is_empty() {
            eprintln!("note: privileged, with access to the processes of the node, because of {}", reasons.join(", "));
        }
        if manifest.whole.is_none() {
            eprintln!("note: without --cpus and --memory, the pod shares CPUs and memory with other pods");
        }
        let label = job_selector(&order.job);
        step(&["next", &format!("kubectl apply -f {}", file(&args.manifest))]);
        step(&["then", &format!("kubectl get pods -l {label} -o wide; kubectl logs -l {label} -c nearfar --prefix")]);
        step(&["then", &quote_argv(&collect_command(args, on, image))]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a manifest of pods that give access to the results, and prints the commands that copy them.
pub fn collect(args: &FleetCollectArgs, on: &Selection, common: &GlobalArgs) -> CommandResult {
    refuse(&args.query.nodes, false)?;
    if let Some(name) = args.query.names.first() {
        return Err(CliError::usage(format!("'{name}': Kubernetes collects the results of all jobs of a node"))
            .hint("omit the name, and import only the results files that you need"));
    }
    let pods = pods(on, image(&args.manifest)?, &args.manifest);
    write(&pods.collectors(), &args.manifest, args.query.format)?;
    if !common.quiet {
        let file = file(&args.manifest);
        step(&["next", &format!("kubectl apply -f {file}")]);
        step(&["then", &format!("kubectl wait --for=condition=Ready pod -l {COLLECTORS}")]);
        let copy = format!("kubectl cp -c results \"${{pod#pod/}}:{RESULTS_DIR}/fleet\" \"from-${{pod#pod/}}\"");
        step(&["then", &format!("for pod in $(kubectl get pod -l {COLLECTORS} -o name); do {copy}; done")]);
        step(&["then", "for file in from-*/*/*/results.db; do nearfar import \"$file\"; done"]);
        step(&["then", &format!("kubectl delete -f {file}")]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Error of commands that would have to connect to a cluster.
pub fn no_connection() -> CliError {
    CliError::usage("nearfar only writes manifests for kubectl, and does not connect to a cluster")
        .hint("'kubectl get jobs,daemonsets,pods -l app.kubernetes.io/name=nearfar -o wide' shows their status")
}

fn step([label, command]: &[&str; 2]) {
    eprintln!("{label}: {command}");
}

/// Rejects options that have no meaning for a manifest.
fn refuse(args: &NodeArgs, detach: bool) -> Result<(), CliError> {
    if !args.ssh_options.is_empty() {
        return Err(CliError::usage("--ssh-option: Kubernetes does not use ssh"));
    }
    if detach {
        return Err(CliError::usage("--detach: nearfar only writes a manifest and does not watch the job"));
    }
    Ok(())
}

fn image(flags: &ManifestArgs) -> Result<&Image, CliError> {
    flags.image.as_ref().ok_or_else(|| {
        CliError::usage("--on kubernetes requires --image with nearfar")
            .hint("build one from the Containerfile in nearfar's source; see docs/guides/install.md")
    })
}

fn pods<'a>(on: &'a Selection, image: &'a Image, flags: &'a ManifestArgs) -> PodTemplate<'a> {
    PodTemplate { on, image, results: flags.results_dir(), tolerations: &flags.tolerations }
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
    let flags = [(run.guard.quieten.is_some(), "--quieten"), (run.guard.ban_irqbalance, "--ban-irqbalance")];
    let flags = flags.iter().filter(|(given, _)| *given).map(|(_, flag)| (*flag).to_string());
    let mut reasons: Vec<String> = flags.chain(parts.map(String::from)).chain(disks).collect();
    let mut seen = std::collections::BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    reasons
}

/// Returns the time limit of a run in seconds; `None` if the run may first wait for the machine lock.
fn deadline(run: &RunArgs, experiment: &Experiment) -> Result<Option<u32>, CliError> {
    if run.guard.wait {
        return Ok(None);
    }
    let given = run.budget.as_deref().map(Nanos::parse).transpose().map_err(CliError::usage)?;
    let budget = given.unwrap_or(experiment.repeat.budget);
    let seconds = budget.0.saturating_add(experiment.repeat.time_limit.0).div_ceil(1_000_000_000) + MARGIN_SECONDS;
    // Kubernetes accepts at most 31 bits.
    Ok(Some(u32::try_from(seconds).unwrap_or(u32::MAX).min(i32::MAX as u32)))
}

fn write(objects: &[Value], flags: &ManifestArgs, format: TextOrJson) -> Result<(), CliError> {
    let text = match format {
        TextOrJson::Text => to_yaml(objects).map_err(CliError::failure)?,
        TextOrJson::Json => serde_json::to_string_pretty(&to_list(objects)).map_err(CliError::failure)? + "\n",
    };
    output::write(flags.output.as_deref().unwrap_or(Path::new("-")), &text)
}

/// Returns the manifest's path, quoted for a shell.
fn file(flags: &ManifestArgs) -> String {
    match flags.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => quote_arg(&path.to_string_lossy()),
        None => "FILE".into(),
    }
}

/// Returns the command that collects the results.
fn collect_command(args: &FleetRunArgs, on: &Selection, image: &Image) -> Vec<String> {
    let on = if *on == Selection::All { "--on=kubernetes".into() } else { format!("--on=kubernetes:{on}") };
    let mut words = ["nearfar", "fleet", "collect"].map(String::from).to_vec();
    words.extend([on, format!("--image={}", image.0), "--output=collect.yaml".into()]);
    words.extend(args.manifest.results_dir.iter().map(|dir| format!("--results-dir={dir}")));
    words.extend(args.manifest.tolerations.iter().map(|toleration| format!("--toleration={toleration}")));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::requests::read_experiment;
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
    fn deadline_follows_from_the_budget() {
        let seconds = |words: &[&str]| {
            let (run, experiment) = read(words);
            deadline(&run, &experiment).unwrap()
        };
        // The budget, the longest trial and the margin.
        let (_, quick) = read(&["quick"]);
        let expected = (quick.repeat.budget.0 + quick.repeat.time_limit.0).div_ceil(1_000_000_000) + MARGIN_SECONDS;
        assert_eq!(seconds(&["quick"]).map(u64::from), Some(expected));
        assert_eq!(
            seconds(&["quick", "--budget", "1h"]).map(u64::from),
            Some(3600 + quick.repeat.time_limit.0 / 1_000_000_000 + MARGIN_SECONDS)
        );
        assert_eq!(seconds(&["quick", "--budget", "1000000h"]), Some(i32::MAX as u32));
        assert_eq!(seconds(&["quick", "--wait"]), None);
    }
}
