//! Nodes that Slurm gives out: its own programs, as whoever calls them. One exclusive job for each node; whoever asks meanwhile comes as a
//! further step of that job, else as a short job of its own. Must not know what is said.

use std::process::{Command, Output};

use crate::child::ChildExit;
use crate::engine::{Engine, QueueState, Scheduler, last};
use crate::error::{NodeError, NodeErrorKind};
use crate::protocol::Request;
use crate::{JobName, NODES_MAX, NodeName};

/// Our jobs begin with this.
const PREFIX: &str = "nearfar-";

/// Slurm, or a partition of it.
#[derive(Clone, Debug)]
pub struct Slurm {
    /// The partition; none is Slurm's default one.
    pub partition: Option<JobName>,
    /// nearfar on the nodes: a name that is found in PATH there, or a path.
    pub program: String,
}

impl Slurm {
    /// The nodes of the partition.
    pub fn nodes(&self) -> Result<Vec<NodeName>, NodeError> {
        let mut command = Command::new("sinfo");
        command.args(["--noheader", "--Node", "--format=%N|%P"]);
        let text = said(self.in_partition(&mut command))?;
        // Without a partition named, the default one, which sinfo marks with a star.
        let ours = |partition: &str| self.partition.is_some() || partition.ends_with('*');
        let names = text.lines().filter_map(|line| line.split_once('|')).filter(|(_, partition)| ours(partition));
        let mut nodes: Vec<NodeName> = names
            .map(|(name, _)| NodeName::parse(name))
            .collect::<Result<_, _>>()
            .map_err(|what| NodeError::new(NodeErrorKind::Engine, what))?;
        nodes.sort();
        nodes.dedup();
        match nodes.len() {
            0 => Err(NodeError::new(NodeErrorKind::Unknown, "Slurm has no such partition, or it has no nodes")
                .hint("sinfo lists them")),
            count if count > NODES_MAX => Err(NodeError::new(
                NodeErrorKind::Engine,
                format!("{count} nodes are more than one coordinator takes ({NODES_MAX})"),
            )),
            _ => Ok(nodes),
        }
    }

    fn in_partition<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.args(self.partition.iter().map(|partition| format!("--partition={partition}")))
    }
}

impl Engine for Slurm {
    fn command(&self, node: &NodeName, word: &str) -> Command {
        let mut command = Command::new("srun");
        command.args(["--quiet", "--nodes=1", "--ntasks=1", &format!("--nodelist={node}")]);
        match running_on(node) {
            Some(job) => command.args(["--overlap", &format!("--jobid={job}")]),
            None => self.in_partition(&mut command).args(["--immediate=30", "--job-name=nearfar"]),
        };
        // No shell is between: each word is one.
        command.args(["--", &self.program, word]);
        command
    }

    fn explain(&self, ended: &ChildExit) -> Option<NodeError> {
        let said = |words: &str| ended.complaint.contains(words);
        let line = last(&ended.complaint);
        if said("execve():") {
            return Some(
                NodeError::new(NodeErrorKind::NotInstalled, format!("there is no program {}", self.program))
                    .hint("install the same version there, or say with --program where it is"),
            );
        }
        if said("Invalid node name") || said("invalid partition") {
            return Some(NodeError::new(NodeErrorKind::Unknown, line).hint("sinfo lists nodes and partitions"));
        }
        if said("nodes are busy") {
            return Some(NodeError::new(NodeErrorKind::Away, line).hint("somebody else has it; squeue shows who"));
        }
        let by_srun = ended.complaint.lines().any(|line| line.starts_with("srun: ") && !line.contains(": Exited with"));
        (ended.status.code().is_none() || by_srun).then(|| NodeError::new(NodeErrorKind::Away, line))
    }

    fn program(&self) -> &str {
        &self.program
    }

    fn queue(&self) -> Option<&dyn Scheduler> {
        Some(self)
    }
}

impl Scheduler for Slurm {
    fn stands(&self, node: &NodeName, job: &JobName) -> Result<QueueState, NodeError> {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--me", "--format=%T|%r", &format!("--name={}", name(node, job))]);
        let text = said(&mut command)?;
        Ok(match text.lines().next().and_then(|line| line.split_once('|')) {
            None => QueueState::Absent,
            Some(("RUNNING", _)) => QueueState::Running,
            Some((state, reason)) => {
                QueueState::Waiting(format!("{} in Slurm's queue ({reason})", state.to_lowercase()))
            }
        })
    }

    fn submit(&self, node: &NodeName, job: &JobName, request: &Request) -> Result<(), NodeError> {
        let mut command = Command::new("sbatch");
        command.args(["--parsable", "--nodes=1", "--ntasks=1", "--exclusive", "--no-requeue", "--output=/dev/null"]);
        command.args([format!("--nodelist={node}"), format!("--job-name={}", name(node, job))]);
        self.in_partition(&mut command);
        // Quoted, the shell leaves the request as it is; it is one line, which cannot be the word that ends it.
        let request = String::from_utf8_lossy(&request.to_bytes()).into_owned();
        let program = model::values::shell::quote_arg(&self.program);
        command.arg(format!(
            "--wrap=exec {program} {} <<'END OF REQUEST'\n{request}\nEND OF REQUEST\n",
            crate::engine::NODE_SUBCOMMAND
        ));
        said(&mut command).map(|_| ())
    }
}

/// Our running job on a node, where there is one.
fn running_on(node: &NodeName) -> Option<String> {
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--me", "--states=RUNNING", "--format=%i|%j", &format!("--nodelist={node}")]);
    let text = said(&mut command).ok()?;
    let ours = |line: &&str| line.split_once('|').is_some_and(|(_, name)| name.starts_with(PREFIX));
    text.lines().find(ours)?.split_once('|').map(|(id, _)| id.into())
}

/// A job's name says which node it is for: which one a job waits for is not to be had as plainly.
fn name(node: &NodeName, job: &JobName) -> String {
    format!("{PREFIX}{job}@{node}")
}

/// What one of Slurm's programs prints.
fn said(command: &mut Command) -> Result<String, NodeError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command.output().map_err(|error| {
        NodeError::new(NodeErrorKind::Engine, format!("cannot start {program}: {error}"))
            .hint("Slurm's programs are needed on this machine")
    })?;
    let complaint = String::from_utf8_lossy(&stderr);
    if !status.success() {
        let kind = if complaint.contains("nvalid partition") { NodeErrorKind::Unknown } else { NodeErrorKind::Engine };
        return Err(
            NodeError::new(kind, format!("{program}: {}", last(&complaint))).hint("look whether sinfo works here")
        );
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}
