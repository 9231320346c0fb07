//! `nearfar fleet` on Kubernetes: writes what `kubectl apply` takes, and says what comes next. Asks no cluster, and so knows of none how its
//! pods stand.

use std::path::Path;
use std::process::ExitCode;

use fleet::NodeName;
use fleet::kubernetes::{
    DedicatedResources, FOLDER, Image, Manifest, PodTemplate, Selection, job_selector, to_list, to_yaml,
};
use model::experiments::experiment::Experiment;
use model::values::shell::{quote_arg, quote_argv};
use model::values::units::Nanos;
use serde_json::Value;

use crate::cli::{FleetCollectArgs, FleetRunArgs, GlobalArgs, ManifestArgs, NodeArgs, RunArgs, TextOrJson};
use crate::commands::fleet::order;
use crate::error::{CliError, CommandResult};
use crate::output;

/// What an image and a node take before the first trial and after the last, at most; longer than that something hangs.
const MARGIN_SECONDS: u64 = 600;

/// Pods that only give out results.
const COLLECTORS: &str = "app.kubernetes.io/name=nearfar-collect";

/// Writes the objects that have nodes run an experiment.
pub fn run(args: &FleetRunArgs, on: &Selection, common: &GlobalArgs) -> CommandResult {
    refuse(&args.nodes, args.detach)?;
    let image = image(&args.manifest)?;
    let any = NodeName::parse("node").map_err(CliError::failure)?;
    let node = if let Selection::Named(nodes) = on { &nodes[0] } else { &any };
    let (order, run, experiment) = order(args, node)?;
    let why = privileges(&run, &experiment);
    let manifest = Manifest {
        pods: pods(on, image, &args.manifest),
        order: &order,
        program: &args.nodes.program,
        whole: args.cpus.zip(args.memory).map(|(cpus, memory)| DedicatedResources { cpus, memory }),
        privileged: !why.is_empty(),
        deadline_seconds: deadline(&run, &experiment)?,
    };
    write(&manifest.objects().map_err(CliError::usage)?, &args.manifest, args.format)?;
    if !common.quiet {
        let made = match on {
            Selection::Named(nodes) => format!("a Job for each of {} nodes", nodes.len()),
            Selection::Labelled(_) => "a DaemonSet on all nodes with these labels".into(),
            Selection::All => "a DaemonSet on all nodes that take it".into(),
        };
        eprintln!("{}: {made}", order.job);
        if !why.is_empty() {
            eprintln!("note: privileged, with the processes of the node in sight, because of {}", why.join(", "));
        }
        if manifest.whole.is_none() {
            eprintln!("note: without --cpus and --memory a node is shared with whatever else runs there");
        }
        let of_job = job_selector(&order.job);
        say(&["next", &format!("kubectl apply -f {}", file(&args.manifest))]);
        say(&["then", &format!("kubectl get pods -l {of_job} -o wide; kubectl logs -l {of_job} -c nearfar --prefix")]);
        say(&["then", &quote_argv(&collecting(args, on, image))]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes pods that show what nodes have measured, and says how it is brought here.
pub fn collect(args: &FleetCollectArgs, on: &Selection, common: &GlobalArgs) -> CommandResult {
    refuse(&args.query.nodes, false)?;
    if let Some(name) = args.query.names.first() {
        return Err(CliError::usage(format!(
            "'{name}': on Kubernetes all that a node has is copied, whatever it is of"
        ))
        .hint("name no job; nearfar import takes the results files that you want"));
    }
    let pods = pods(on, image(&args.manifest)?, &args.manifest);
    write(&pods.collectors(), &args.manifest, args.query.format)?;
    if !common.quiet {
        let file = file(&args.manifest);
        say(&["next", &format!("kubectl apply -f {file}")]);
        say(&["then", &format!("kubectl wait --for=condition=Ready pod -l {COLLECTORS}")]);
        let copy = format!("kubectl cp -c results \"${{pod#pod/}}:{FOLDER}/fleet\" \"from-${{pod#pod/}}\"");
        say(&["then", &format!("for pod in $(kubectl get pod -l {COLLECTORS} -o name); do {copy}; done")]);
        say(&["then", "for file in from-*/*/*/results.db; do nearfar import \"$file\"; done"]);
        say(&["then", &format!("kubectl delete -f {file}")]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Why the cluster is not asked from here.
pub fn not_asked() -> CliError {
    CliError::usage("nearfar writes what kubectl applies, and does not ask a cluster itself")
        .hint("'kubectl get jobs,daemonsets,pods -l app.kubernetes.io/name=nearfar -o wide' shows how they stand")
}

fn say([word, what]: &[&str; 2]) {
    eprintln!("{word}: {what}");
}

/// What has no meaning where nobody is reached.
fn refuse(reach: &NodeArgs, detach: bool) -> Result<(), CliError> {
    if !reach.ssh_options.is_empty() {
        return Err(CliError::usage("--ssh-option: Kubernetes is not reached by ssh"));
    }
    if detach {
        return Err(CliError::usage("--detach: a manifest is written here, and nothing is watched"));
    }
    Ok(())
}

fn image(flags: &ManifestArgs) -> Result<&Image, CliError> {
    flags.image.as_ref().ok_or_else(|| {
        CliError::usage("--on kubernetes needs --image, which has nearfar")
            .hint("the Containerfile of nearfar's source makes one; docs/guides/install.md says how")
    })
}

fn pods<'a>(on: &'a Selection, image: &'a Image, flags: &'a ManifestArgs) -> PodTemplate<'a> {
    PodTemplate { on, image, results: flags.results_dir(), tolerations: &flags.tolerations }
}

/// For what a run must be privileged on its node: to change settings, to send interrupts elsewhere, to take memory away, to use a disk.
fn privileges(run: &RunArgs, experiment: &Experiment) -> Vec<String> {
    let placements = experiment.tasks.iter().flat_map(|task| &task.placements);
    let parts = placements.flat_map(|placement| placement.split(['+', ' ']));
    let of_parts = parts.filter(|part| ["irq:", "expand:", "swap:"].iter().any(|begin| part.starts_with(begin)));
    let values = experiment
        .tasks
        .iter()
        .flat_map(|task| &task.set)
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    let disks = values.filter(|(_, value)| value.starts_with("/dev/")).map(|(name, value)| format!("{name}={value}"));
    let flags = [(run.guard.quieten.is_some(), "--quieten"), (run.guard.ban_irqbalance, "--ban-irqbalance")];
    let flags = flags.iter().filter(|(given, _)| *given).map(|(_, flag)| (*flag).to_string());
    let mut why: Vec<String> = flags.chain(of_parts.map(String::from)).chain(disks).collect();
    let mut seen = std::collections::BTreeSet::new();
    why.retain(|reason| seen.insert(reason.clone()));
    why
}

/// Seconds after which a run is stopped that should have ended long ago; none where it may wait for somebody else first.
fn deadline(run: &RunArgs, experiment: &Experiment) -> Result<Option<u32>, CliError> {
    if run.guard.wait {
        return Ok(None);
    }
    let given = run.budget.as_deref().map(Nanos::parse).transpose().map_err(CliError::usage)?;
    let budget = given.unwrap_or(experiment.repeat.budget);
    let seconds = budget.0.saturating_add(experiment.repeat.time_limit.0).div_ceil(1_000_000_000) + MARGIN_SECONDS;
    // Kubernetes takes no more than 31 bits.
    Ok(Some(u32::try_from(seconds).unwrap_or(u32::MAX).min(i32::MAX as u32)))
}

fn write(objects: &[Value], flags: &ManifestArgs, format: TextOrJson) -> Result<(), CliError> {
    let text = match format {
        TextOrJson::Text => to_yaml(objects).map_err(CliError::failure)?,
        TextOrJson::Json => serde_json::to_string_pretty(&to_list(objects)).map_err(CliError::failure)? + "\n",
    };
    output::write(flags.output.as_deref().unwrap_or(Path::new("-")), &text)
}

/// The manifest's file as a shell takes it.
fn file(flags: &ManifestArgs) -> String {
    match flags.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => quote_arg(&path.to_string_lossy()),
        None => "FILE".into(),
    }
}

/// The command that collects what this one has measured.
fn collecting(args: &FleetRunArgs, on: &Selection, image: &Image) -> Vec<String> {
    let on = if *on == Selection::All { "--on=kubernetes".into() } else { format!("--on=kubernetes:{on}") };
    let mut words = ["nearfar", "fleet", "collect"].map(String::from).to_vec();
    words.extend([on, format!("--image={}", image.0), "--output=collect.yaml".into()]);
    words.extend(args.manifest.results_dir.iter().map(|folder| format!("--results-dir={folder}")));
    words.extend(args.manifest.tolerations.iter().map(|toleration| format!("--toleration={toleration}")));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::commands::run::read_experiment;
    use clap::Parser;

    fn read(words: &[&str]) -> (Box<RunArgs>, Experiment) {
        let line = ["nearfar", "run"].iter().chain(words);
        let cli = Cli::try_parse_from(line).unwrap();
        let Command::Run(run) = cli.command else { panic!("it is a run") };
        let experiment = read_experiment(&run, &cli.common).unwrap().0;
        (Box::new(run), experiment)
    }

    #[test]
    fn who_changes_the_node_is_privileged_and_says_why() {
        let cases: &[(&[&str], &str)] = &[
            (&["quick"], ""),
            (&["quick", "--quieten", "thp"], "--quieten"),
            (&["interrupts"], "irq:"),
            (&["far-memory"], "expand:"),
            (&["storage", "--set", "file=/dev/nullb0"], "file=/dev/nullb0"),
        ];
        for (words, expected) in cases {
            let (run, experiment) = read(words);
            let why = privileges(&run, &experiment).join(", ");
            assert!(why.contains(expected) && why.is_empty() == expected.is_empty(), "{words:?}: {why}");
        }
    }

    #[test]
    fn a_deadline_follows_from_the_budget() {
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
