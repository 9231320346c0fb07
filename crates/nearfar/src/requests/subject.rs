//! Converts the arguments that name running processes.

use std::path::{Path, PathBuf};

use machine::java::java_processes;
use machine::residency::{
    InspectError, descendants, find_container, find_pod, find_unit, inspect, inspect_tree, processes_in, resolve_cgroup,
};
use machine::service_threads::ServiceThreads;
use model::analysis::live::JavaProcess;
use model::analysis::residency::Residency;
use model::values::undo::ServiceProcesses;

use crate::cli::SubjectArgs;
use crate::error::{CliError, CliStatus};

/// Mount point of cgroups that the undo journal may name.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Running processes, which may start and end others.
pub struct Subject {
    /// `unit redis`.
    pub name: String,
    /// The options that name it: `--unit redis`.
    pub options: Vec<String>,
    source: Source,
}

enum Source {
    /// A process and its descendants.
    Tree(u32),
    /// The directory of a cgroup.
    Cgroup(PathBuf),
}

impl Subject {
    /// Returns the options that name it, whether it exists or not.
    pub fn named(args: &SubjectArgs) -> Vec<String> {
        let (kind, name) = kind_and_name(args);
        vec![format!("--{kind}"), name]
    }

    /// Finds the processes.
    ///
    /// # Errors
    /// If there is no such cgroup, or several.
    pub fn new(args: &SubjectArgs) -> Result<Self, CliError> {
        let (kind, name) = kind_and_name(args);
        let dir = match (args.pid, &args.container) {
            (Some(pid), _) => {
                let (name, options) = (format!("process {pid}"), Self::named(args));
                return Ok(Self { name, options, source: Source::Tree(pid) });
            }
            (_, Some(container)) => find_container(&container.id, &container.text),
            _ if kind == "unit" => find_unit(&name),
            _ if kind == "pod" => find_pod(&name),
            _ => resolve_cgroup(Path::new(&name)),
        };
        let source = Source::Cgroup(dir.map_err(CliError::usage)?);
        Ok(Self { name: format!("{kind} {name}"), options: Self::named(args), source })
    }

    /// Returns the processes that exist now.
    ///
    /// # Errors
    /// If a cgroup has none.
    pub fn processes(&self) -> Result<Vec<u32>, CliError> {
        match &self.source {
            Source::Tree(pid) => Ok(descendants(*pid)),
            Source::Cgroup(dir) => processes_in(dir).map_err(CliError::usage),
        }
    }

    /// Returns its threads, of processes that begin later, too.
    ///
    /// # Errors
    /// If the process has ended, or if the cgroup is not where the undo journal may name it.
    pub fn threads(&self) -> Result<ServiceThreads, CliError> {
        match &self.source {
            Source::Tree(pid) => {
                ServiceThreads::of_tree(*pid).ok_or_else(|| CliError::usage(format!("there is no process {pid}")))
            }
            Source::Cgroup(dir) => match dir.strip_prefix("/").ok().and_then(Path::to_str) {
                Some(path) if dir.starts_with(CGROUPS) => {
                    Ok(ServiceThreads::new(ServiceProcesses::Cgroup(path.into())))
                }
                _ => Err(CliError::usage(format!("cgroup {} is not below {CGROUPS}", dir.display()))),
            },
        }
    }

    /// Refuses to move processes that may crash of it, unless `yes`; prints which.
    ///
    /// # Errors
    /// If there are such processes and the user has not agreed.
    pub fn check_risks(&self, yes: bool) -> Result<(), CliError> {
        let java: Vec<JavaProcess> = java_processes(&self.processes()?);
        let Some(first) = java.iter().find(|java| java.may_crash()) else { return Ok(()) };
        let risk = format!(
            "{first}: with G1 and -XX:+UseNUMA, OpenJDK 17 and 21 may crash when a thread moves to another NUMA node (JDK-8351500)"
        );
        if !yes {
            return Err(CliError::usage(risk).hint("to move it nevertheless, use --yes"));
        }
        message!("warning: {risk}");
        Ok(())
    }

    /// Inspects the memory of the processes.
    ///
    /// # Errors
    /// If none of them can be inspected, or the process that was named.
    pub fn inspect(&self) -> Result<Residency, CliError> {
        let found = match &self.source {
            Source::Tree(pid) => inspect_tree(*pid),
            Source::Cgroup(_) => inspect(&self.processes()?),
        };
        found.map_err(|error| inspect_error(&error))
    }

    /// `process 7 (server) and 2 descendants`.
    pub fn describe(&self, found: &Residency) -> String {
        match found.processes.as_slice() {
            [one] => format!("{} ({})", self.name, one.name),
            [first, rest @ ..] if matches!(self.source, Source::Tree(_)) => {
                let noun = if rest.len() == 1 { "descendant" } else { "descendants" };
                format!("{} ({}) and {} {noun}", self.name, first.name, rest.len())
            }
            all => format!("{}, {} processes", self.name, all.len()),
        }
    }
}

/// Returns the option that names the processes, and its value.
fn kind_and_name(args: &SubjectArgs) -> (&'static str, String) {
    let SubjectArgs { pid, unit, cgroup, container, pod } = args;
    let named = [
        pid.map(|pid| ("pid", pid.to_string())),
        unit.clone().map(|unit| ("unit", unit)),
        container.as_ref().map(|container| ("container", container.text.clone())),
        pod.clone().map(|pod| ("pod", pod)),
        cgroup.as_ref().map(|path| ("cgroup", path.display().to_string())),
    ];
    // The argument parser requires one of them.
    named.into_iter().flatten().next().unwrap_or(("cgroup", "/".into()))
}

/// Returns the error of an inspection with its exit status.
pub fn inspect_error(error: &InspectError) -> CliError {
    let status = match error {
        InspectError::NotPermitted { .. } => CliStatus::NotPermitted,
        InspectError::Missing(_) | InspectError::KernelThread(_) => CliStatus::Usage,
        InspectError::Ended(_) | InspectError::Refused(_) => CliStatus::Failure,
    };
    CliError::with(status, error)
}
