//! Builds the engine of a command. Only this file names engines.

use std::path::Path;

use fleet::kubernetes::{DedicatedResources, Kubernetes, Selection};
use fleet::{Engine, NodeEngine, NodeSelector, Slurm, Ssh};
use model::values::shell::quote_arg;

use super::engine_error;
use crate::cli::{FleetCollectArgs, FleetQueryArgs, FleetRunArgs, ManifestArgs, NodeArgs, TextOrJson};
use crate::error::CliError;

/// The arguments of a command that concern its engine.
pub struct EngineArgs<'a> {
    nodes: &'a NodeArgs,
    format: TextOrJson,
    /// `None` for a command that never writes a manifest.
    manifest: Option<&'a ManifestArgs>,
    /// `None` unless the command submits a job.
    run: Option<&'a FleetRunArgs>,
}

impl<'a> From<&'a FleetRunArgs> for EngineArgs<'a> {
    fn from(args: &'a FleetRunArgs) -> Self {
        Self { nodes: &args.nodes, format: args.format, manifest: Some(&args.manifest), run: Some(args) }
    }
}

impl<'a> From<&'a FleetQueryArgs> for EngineArgs<'a> {
    fn from(args: &'a FleetQueryArgs) -> Self {
        Self { nodes: &args.nodes, format: args.format, manifest: None, run: None }
    }
}

impl<'a> From<&'a FleetCollectArgs> for EngineArgs<'a> {
    fn from(args: &'a FleetCollectArgs) -> Self {
        Self { manifest: Some(&args.manifest), ..Self::from(&args.query) }
    }
}

/// Returns the engine of `--on` with its nodes. Options of other engines are errors.
pub fn engine(args: &EngineArgs) -> Result<Box<dyn Engine>, CliError> {
    let NodeArgs { on, program, ssh_options, slurm } = args.nodes;
    let program = program.clone();
    match on {
        NodeSelector::Ssh(hosts) => {
            refuse_manifest(args)?;
            refuse_slurm(args)?;
            Ok(Box::new(NodeEngine::new(Ssh { options: ssh_options.clone(), program }, hosts.nodes().to_vec())))
        }
        NodeSelector::Slurm(partition) => {
            refuse_manifest(args)?;
            let slurm = Slurm {
                partition: partition.clone(),
                nodelist: slurm.nodelist.clone(),
                account: slurm.account.clone(),
                qos: slurm.qos.clone(),
                time: args.run.and_then(|run| run.time.clone()),
                program,
            };
            let nodes = slurm.nodes().map_err(|error| engine_error(&error))?;
            Ok(Box::new(NodeEngine::new(slurm, nodes)))
        }
        NodeSelector::Kubernetes(on) => {
            refuse_slurm(args)?;
            Ok(Box::new(kubernetes(args, on)?))
        }
    }
}

/// Rejects options that apply only to manifests.
fn refuse_manifest(args: &EngineArgs) -> Result<(), CliError> {
    let Some(flags) = args.manifest else { return Ok(()) };
    let given = [
        (flags.image.is_some(), "--image"),
        (flags.output.is_some(), "--output"),
        (flags.results_dir.is_some(), "--results-dir"),
        (!flags.tolerations.is_empty(), "--toleration"),
        (args.run.is_some_and(|run| run.cpus.is_some()), "--cpus"),
    ];
    refuse(&given, "is for --on kubernetes, which writes a manifest")
}

/// Rejects options that apply only to jobs in Slurm.
fn refuse_slurm(args: &EngineArgs) -> Result<(), CliError> {
    let flags = &args.nodes.slurm;
    let given = [
        (flags.nodelist.is_some(), "--nodelist"),
        (flags.account.is_some(), "--account"),
        (flags.qos.is_some(), "--qos"),
        (args.run.is_some_and(|run| run.time.is_some()), "--time"),
    ];
    refuse(&given, "is for --on slurm")
}

/// Returns a usage error if one of the options is given.
fn refuse(options: &[(bool, &str)], reason: &str) -> Result<(), CliError> {
    match options.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => Err(CliError::usage(format!("{flag} {reason}"))),
        None => Ok(()),
    }
}

/// Returns the engine of Kubernetes. Options that have no meaning for a manifest are errors.
fn kubernetes(args: &EngineArgs, on: &Selection) -> Result<Kubernetes, CliError> {
    if args.manifest.is_some() && !args.nodes.ssh_options.is_empty() {
        return Err(CliError::usage("--ssh-option: Kubernetes does not use ssh"));
    }
    if args.run.is_some_and(|run| run.detach) {
        return Err(CliError::usage("--detach: nearfar only writes a manifest and does not watch the job"));
    }
    let flags = args.manifest;
    let path = flags.and_then(|flags| flags.output.as_deref()).filter(|path| *path != Path::new("-"));
    let engine = Kubernetes {
        on: on.clone(),
        image: flags.and_then(|flags| flags.image.clone()),
        program: args.nodes.program.clone(),
        results_dir: flags.and_then(|flags| flags.results_dir.clone()),
        tolerations: flags.map_or_else(Vec::new, |flags| flags.tolerations.clone()),
        resources: args
            .run
            .and_then(|run| run.cpus.zip(run.memory).map(|(cpus, memory)| DedicatedResources { cpus, memory })),
        json: args.format == TextOrJson::Json,
        file: path.map_or_else(|| "FILE".into(), |path| quote_arg(&path.to_string_lossy())),
    };
    if args.run.is_some() {
        // `submit` also requires an image, but only after the experiment is read.
        engine.image().map_err(|error| engine_error(&error))?;
    }
    Ok(engine)
}
