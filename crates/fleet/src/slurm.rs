//! Reaches nodes through Slurm's client programs. Each node gets one exclusive batch job. Other requests run as further
//! steps of that job if it is running, otherwise as short jobs. Must not depend on the contents of messages.

use std::process::{Command, Output};

use model::values::shell::quote_arg;

use crate::child::ChildExit;
use crate::error::{NodeError, NodeErrorKind};
use crate::launcher::{Launcher, QueueState, Scheduler};
use crate::protocol::Request;
use crate::session::{NODE_SUBCOMMAND, last_line};
use crate::{HostList, JobName, NODES_MAX, NodeName};

/// Prefix of the names of nearfar's batch jobs.
const PREFIX: &str = "nearfar-";

/// Messages of srun if the batch job of a step ends before the step does. Slurm cancels a running step, and revokes the
/// credential of a step that was created but has not started on its node.
const JOB_ENDED: [&str; 6] = [
    ": Terminated",
    "CANCELLED AT",
    "already completing or completed",
    "has expired",
    "Invalid job id specified",
    "Job credential revoked",
];

/// Parts of Slurm's messages about options that it does not accept, with the next step.
const REJECTED: [(&str, &str); 5] = [
    ("nvalid partition", "sinfo lists partitions and nodes"),
    ("Invalid node name", "sinfo lists partitions and nodes"),
    ("Invalid account", ASSOCIATIONS_HINT),
    ("Invalid qos", ASSOCIATIONS_HINT),
    ("Requested time limit is invalid", "set --time to at most the limit of the partition, which sinfo shows"),
];

const ASSOCIATIONS_HINT: &str =
    "set --account and --qos to values of 'sacctmgr show associations where user=$USER format=account,partition,qos'";

#[derive(Clone, Debug)]
pub struct Slurm {
    /// `None` for the default partition.
    pub partition: Option<JobName>,
    /// `None` for all nodes of the partition.
    pub nodelist: Option<HostList>,
    /// Account of all jobs; `None` for the user's default.
    pub account: Option<String>,
    /// Quality of service of all jobs; `None` for the default of the account.
    pub qos: Option<String>,
    /// Time limit of the batch jobs in Slurm's format; `None` for the default of the partition.
    pub time: Option<String>,
    /// nearfar on the nodes: a name in PATH there, or a path.
    pub program: String,
}

impl Slurm {
    /// Returns the nodes of the list, or all nodes of the partition, sorted.
    pub fn nodes(&self) -> Result<Vec<NodeName>, NodeError> {
        let mut command = Command::new("sinfo");
        command.args(["--noheader", "--Node", "--format=%N|%P"]);
        let text = output_of(self.in_partition(&mut command))?;
        // sinfo marks the default partition with a star.
        let is_selected = |partition: &str| self.partition.is_some() || partition.ends_with('*');
        let names =
            text.lines().filter_map(|line| line.split_once('|')).filter(|(_, partition)| is_selected(partition));
        let mut nodes: Vec<NodeName> = names
            .map(|(name, _)| NodeName::parse(name))
            .collect::<Result<_, _>>()
            .map_err(|error| NodeError::new(NodeErrorKind::Engine, error))?;
        nodes.sort();
        nodes.dedup();
        match (nodes.len(), &self.nodelist) {
            (0, _) => Err(NodeError::new(NodeErrorKind::Unknown, "no such Slurm partition, or it has no nodes")
                .with_hint("sinfo lists partitions and nodes")),
            (_, Some(nodelist)) => select(nodelist, &nodes),
            (count, None) if count > NODES_MAX => Err(NodeError::new(
                NodeErrorKind::Engine,
                format!("{count} nodes exceed the maximum of {NODES_MAX} for one coordinator"),
            )
            .with_hint("select some of them with --nodelist")),
            (_, None) => Ok(nodes),
        }
    }

    /// Returns the command of a request: a step of the running job of nearfar on the node, or a separate job.
    fn step_command(&self, node: &NodeName, running: Option<&str>, arg: &str) -> Command {
        let mut command = Command::new("srun");
        command.args(["--quiet", "--nodes=1", "--ntasks=1", &format!("--nodelist={node}")]);
        match running {
            Some(job) => command.args(["--overlap", &format!("--jobid={job}")]),
            None => self.allocate(&mut command).args(["--immediate=30", "--job-name=nearfar"]),
        };
        // srun starts the program without a shell, so the arguments need no quotes.
        command.args(["--", &self.program, arg]);
        command
    }

    fn batch_command(&self, node: &NodeName, job: &JobName, request: &Request) -> Command {
        let mut command = Command::new("sbatch");
        command.args(["--parsable", "--nodes=1", "--ntasks=1", "--exclusive", "--no-requeue", "--output=/dev/null"]);
        command.args([format!("--nodelist={node}"), format!("--job-name={}", name(node, job))]);
        command.args(self.time.iter().map(|time| format!("--time={time}")));
        self.allocate(&mut command);
        let request = String::from_utf8_lossy(&request.to_bytes()).into_owned();
        command.arg(format!("--wrap={}", batch_script(&self.program, &request)));
        command
    }

    /// Adds the options of a new job.
    fn allocate<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.args(self.account.iter().map(|account| format!("--account={account}")));
        command.args(self.qos.iter().map(|qos| format!("--qos={qos}")));
        self.in_partition(command)
    }

    fn in_partition<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.args(self.partition.iter().map(|partition| format!("--partition={partition}")))
    }
}

impl Launcher for Slurm {
    fn command(&self, node: &NodeName, arg: &str) -> Command {
        self.step_command(node, running_on(node).as_deref(), arg)
    }

    fn explain(&self, exit: &ChildExit) -> Option<NodeError> {
        let has = |text: &str| exit.stderr.contains(text);
        let line = last_line(&exit.stderr);
        if has("execve():") {
            return Some(
                NodeError::new(NodeErrorKind::NotInstalled, format!("there is no program {}", self.program))
                    .with_hint("install the same version on the node, or give its path with --program"),
            );
        }
        if let Some(error) = rejection(line, &exit.stderr) {
            return Some(error);
        }
        if has("nodes are busy") {
            return Some(
                NodeError::new(NodeErrorKind::Away, line).with_hint("another job has the node; squeue lists jobs"),
            );
        }
        if JOB_ENDED.iter().any(|text| has(text)) {
            return Some(NodeError::new(NodeErrorKind::JobEnded, line).with_hint("run the command again"));
        }
        let by_srun = exit.stderr.lines().any(|line| line.starts_with("srun: ") && !line.contains(": Exited with"));
        (exit.status.code().is_none() || by_srun).then(|| NodeError::new(NodeErrorKind::Away, line))
    }

    fn program(&self) -> &str {
        &self.program
    }

    fn queue(&self) -> Option<&dyn Scheduler> {
        Some(self)
    }
}

impl Scheduler for Slurm {
    fn queue_state(&self, node: &NodeName, job: &JobName) -> Result<QueueState, NodeError> {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--me", "--format=%T|%r", &format!("--name={}", name(node, job))]);
        let text = output_of(&mut command)?;
        Ok(match text.lines().next().and_then(|line| line.split_once('|')) {
            None => QueueState::Absent,
            Some(("RUNNING", _)) => QueueState::Running,
            Some((state, reason)) => {
                QueueState::Waiting(format!("{} in Slurm's queue ({reason})", state.to_lowercase()))
            }
        })
    }

    fn submit(&self, node: &NodeName, job: &JobName, request: &Request) -> Result<(), NodeError> {
        output_of(&mut self.batch_command(node, job, request)).map(|_| ())
    }
}

/// Returns the listed nodes in their order, or an error if the partition, whose nodes are sorted, lacks one.
fn select(nodelist: &HostList, partition: &[NodeName]) -> Result<Vec<NodeName>, NodeError> {
    match nodelist.nodes().iter().find(|node| partition.binary_search(node).is_err()) {
        Some(node) => {
            Err(NodeError::new(NodeErrorKind::Unknown, format!("--nodelist: {node} is not in the partition"))
                .with_hint("sinfo lists partitions and nodes"))
        }
        None => Ok(nodelist.nodes().to_vec()),
    }
}

/// Returns the error if Slurm did not accept an option.
fn rejection(message: &str, stderr: &str) -> Option<NodeError> {
    let (_, hint) = REJECTED.iter().find(|(text, _)| stderr.contains(text))?;
    Some(NodeError::new(NodeErrorKind::Unknown, message).with_hint(hint))
}

/// Returns the shell commands of a job. The request is one line of JSON, so it cannot contain the delimiter, whose quotes
/// prevent expansion by the shell.
fn batch_script(program: &str, request: &str) -> String {
    let program = quote_arg(program);
    format!("exec {program} {NODE_SUBCOMMAND} <<'END OF REQUEST'\n{request}\nEND OF REQUEST\n")
}

/// Returns the id of nearfar's running batch job on a node.
fn running_on(node: &NodeName) -> Option<String> {
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--me", "--states=RUNNING", "--format=%i|%j", &format!("--nodelist={node}")]);
    let text = output_of(&mut command).ok()?;
    let has_prefix = |line: &&str| line.split_once('|').is_some_and(|(_, name)| name.starts_with(PREFIX));
    text.lines().find(has_prefix)?.split_once('|').map(|(id, _)| id.into())
}

/// Returns the name of a batch job. It contains the node, because squeue does not list the node of a waiting job
/// directly.
fn name(node: &NodeName, job: &JobName) -> String {
    format!("{PREFIX}{job}@{node}")
}

/// Runs one of Slurm's programs and returns its standard output.
fn output_of(command: &mut Command) -> Result<String, NodeError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command.output().map_err(|error| {
        NodeError::new(NodeErrorKind::Engine, format!("cannot start {program}: {error}"))
            .with_hint("install Slurm's client programs on this machine")
    })?;
    let stderr = String::from_utf8_lossy(&stderr);
    if !status.success() {
        let message = format!("{program}: {}", last_line(&stderr));
        return Err(rejection(&message, &stderr).unwrap_or_else(|| {
            NodeError::new(NodeErrorKind::Engine, message).with_hint("check that sinfo works on this machine")
        }));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

#[cfg(test)]
mod tests;
