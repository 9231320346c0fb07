//! Starts a process: fork, bind, read back, exec. The child reports its affinity through a pipe before its first own
//! instruction.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use model::values::id_set::CpuSet;
use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;

use super::{LaunchError, SpawnSpec};
use crate::affinity;
use crate::mempolicy::{self, PolicyCode};
use crate::syscall::{self, CpuMask, NodeMask, SyscallError};

/// A started process that was not waited for.
pub(super) struct Started {
    pub pid: u32,
    /// Time just before the fork.
    pub at: Instant,
    pub proof: StartProof,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// State that a process reports before its first own instruction.
#[derive(Clone, Debug)]
pub(super) struct StartProof {
    /// Its affinity mask; `None` if the message was lost.
    pub mask: Option<CpuSet>,
    /// Its memory policy as the kernel prints it.
    pub memory_policy: Result<String, SyscallError>,
}

/// Starts the program on these CPUs.
pub(super) fn start(launch: &SpawnSpec, cpus: &CpuSet) -> Result<Started, LaunchError> {
    let program = launch.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    let refused = |what: &str, error: io::Error| {
        LaunchError::Refused(SyscallError::new(format!("{what} for '{program}'"), &error))
    };
    if program.is_empty() {
        return Err(LaunchError::NotFound { program, hint: "add a command after --".into() });
    }
    let policy = PolicyCode::of(&launch.memory).map_err(LaunchError::Refused)?;
    let invalid = || affinity::refusal(cpus, &io::Error::from_raw_os_error(libc::EINVAL));
    let mask = CpuMask::from_set(cpus).ok_or_else(|| LaunchError::Refused(invalid()))?;
    let stdin = stdin(&launch.stdin).map_err(|error| refused("create a standard input", error))?;
    let (report, proof) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| refused("create a pipe", error.into()))?;
    let mut command = command(launch, stdin);
    let entrance = launch.entrance.as_ref().map(AsRawFd::as_raw_fd);
    let seating = PreExec { parent: std::process::id(), mask, policy, entrance };
    // SAFETY: between fork and exec, `bind` only makes system calls with arguments prepared here: it allocates nothing,
    // takes no locks and touches no memory but its stack.
    unsafe { command.pre_exec(move || seating.bind(&proof)) };
    let at = Instant::now();
    let spawned = command.spawn();
    // Dropping the command closes our end of the report pipe, so that reading it cannot block forever.
    drop(command);
    let message = read_message(&report);
    let mut child = spawned.map_err(|error| explain(launch, &program, &message, &error, cpus))?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        unreachable!("the command was given pipes")
    };
    Ok(Started {
        pid: child.id(),
        at,
        proof: StartProof { mask: message.mask(), memory_policy: message.memory_policy() },
        stdout: stdout.into(),
        stderr: stderr.into(),
    })
}

fn command(launch: &SpawnSpec, stdin: Stdio) -> Command {
    let mut command = Command::new(&launch.argv[0]);
    command.args(&launch.argv[1..]).envs(launch.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &launch.directory {
        command.current_dir(directory);
    }
    // Its own process group, so that it can be stopped with all its children.
    command.process_group(0).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A memory file instead of a pipe: no thread has to write to it during the trial.
fn stdin(bytes: &[u8]) -> io::Result<Stdio> {
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Steps of the child between fork and exec.
struct PreExec {
    parent: u32,
    mask: CpuMask,
    policy: Option<PolicyCode>,
    /// A descriptor that stays open during the launch.
    entrance: Option<RawFd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum SpawnStage {
    /// Nothing was reported: it failed before, or the message was lost.
    Silent,
    Parent,
    Group,
    Seats,
    Memory,
    Seated,
}

impl PreExec {
    /// Runs in the child: no allocation, no locks.
    fn bind(&self, proof: &OwnedFd) -> io::Result<()> {
        let mut message = Message::EMPTY;
        let result = self.steps(&mut message);
        if let Err(error) = &result {
            message.0[Message::ERRNO] = error.raw_os_error().unwrap_or(0) as u64;
        }
        syscall::write_message(proof, &message.to_bytes())?;
        result
    }

    fn steps(&self, message: &mut Message) -> io::Result<()> {
        message.0[Message::STEP] = SpawnStage::Parent as u64;
        syscall::die_with_parent()?;
        if syscall::parent_id() != self.parent {
            // The parent died before the child could request a signal on its death.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        syscall::set_oom_score_max();
        message.0[Message::STEP] = SpawnStage::Group as u64;
        if let Some(entrance) = self.entrance {
            syscall::enter_group(entrance)?;
        }
        message.0[Message::STEP] = SpawnStage::Seats as u64;
        syscall::set_affinity(0, &self.mask)?;
        message.words_of_mask().copy_from_slice(syscall::affinity(0)?.words());
        message.0[Message::STEP] = SpawnStage::Memory as u64;
        if let Some(policy) = &self.policy {
            syscall::set_mempolicy(policy.mode, &policy.nodes)?;
        }
        match syscall::mempolicy() {
            Ok((mode, nodes)) => {
                message.0[Message::MODE] = mode as u64;
                message.words_of_nodes().copy_from_slice(nodes.words());
            }
            // Reading back may be forbidden where nothing was set; the policy is then unknown.
            Err(error) => message.0[Message::ERRNO] = error.raw_os_error().unwrap_or(0) as u64,
        }
        message.0[Message::STEP] = SpawnStage::Seated as u64;
        Ok(())
    }
}

/// The report of the child, in 64-bit words: step, errno, policy, its nodes, CPUs.
struct Message([u64; Message::WORDS]);

impl Message {
    const STEP: usize = 0;
    const ERRNO: usize = 1;
    const MODE: usize = 2;
    const NODES: usize = 3;
    const MASK: usize = Self::NODES + 1024 / 64;
    const WORDS: usize = Self::MASK + 8192 / 64;
    const EMPTY: Self = Self([0; Self::WORDS]);

    fn words_of_nodes(&mut self) -> &mut [u64] {
        &mut self.0[Self::NODES..Self::MASK]
    }

    fn words_of_mask(&mut self) -> &mut [u64] {
        &mut self.0[Self::MASK..]
    }

    /// 1176 bytes, less than the 4096 that a pipe accepts atomically.
    fn to_bytes(&self) -> [u8; Self::WORDS * 8] {
        let mut bytes = [0; Self::WORDS * 8];
        for (to, word) in bytes.chunks_exact_mut(8).zip(&self.0) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn step(&self) -> SpawnStage {
        match self.0[Self::STEP] {
            1 => SpawnStage::Parent,
            2 => SpawnStage::Group,
            3 => SpawnStage::Seats,
            4 => SpawnStage::Memory,
            5 => SpawnStage::Seated,
            _ => SpawnStage::Silent,
        }
    }

    fn errno(&self) -> io::Error {
        io::Error::from_raw_os_error(self.0[Self::ERRNO] as i32)
    }

    fn mask(&self) -> Option<CpuSet> {
        let mut mask = CpuMask::EMPTY;
        mask.words_mut().copy_from_slice(&self.0[Self::MASK..]);
        (self.step() == SpawnStage::Seated).then(|| mask.to_set())
    }

    fn memory_policy(&self) -> Result<String, SyscallError> {
        let refusal = |error: &io::Error| {
            SyscallError::new("read back the memory policy (get_mempolicy)", error).with_hint(mempolicy::hint(error))
        };
        if self.step() != SpawnStage::Seated || self.0[Self::ERRNO] != 0 {
            return Err(refusal(&self.errno()));
        }
        let mut nodes = NodeMask::EMPTY;
        nodes.words_mut().copy_from_slice(&self.0[Self::NODES..Self::MASK]);
        Ok(mempolicy::describe(self.0[Self::MODE] as i32, nodes))
    }
}

/// The message of a child that has executed or failed: it is complete, or never arrives.
fn read_message(pipe: &OwnedFd) -> Message {
    let mut bytes = [0; Message::WORDS * 8];
    let mut message = Message::EMPTY;
    if matches!(rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut bytes)), Ok(length) if length == bytes.len()) {
        for (word, bytes) in message.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("chunks of eight bytes"));
        }
    }
    message
}

/// Converts a failed start to an error: the report names the step; without one, exec failed.
fn explain(launch: &SpawnSpec, program: &str, message: &Message, error: &io::Error, cpus: &CpuSet) -> LaunchError {
    match message.step() {
        SpawnStage::Seats => LaunchError::Refused(affinity::refusal(cpus, &message.errno())),
        SpawnStage::Memory => LaunchError::Refused(mempolicy::refusal("set", &launch.memory, &message.errno())),
        SpawnStage::Group => LaunchError::Refused(SyscallError::new("enter a cgroup", &message.errno())),
        SpawnStage::Parent => {
            LaunchError::Refused(SyscallError::new("set the death signal of a child (prctl)", &message.errno()))
        }
        SpawnStage::Silent | SpawnStage::Seated => explain_exec(launch, program, error),
    }
}

fn explain_exec(launch: &SpawnSpec, program: &str, error: &io::Error) -> LaunchError {
    let place = launch.directory.clone().unwrap_or_else(|| ".".into());
    let directory_missing = launch.directory.as_deref().filter(|directory| !directory.is_dir());
    match (error.raw_os_error(), directory_missing) {
        (Some(libc::ENOENT | libc::ENOTDIR), Some(directory)) => {
            let what = format!("run '{program}' in '{}'", directory.display());
            LaunchError::Refused(SyscallError::new(what, error).with_hint(Some("create the directory, or use another")))
        }
        (Some(libc::ENOENT), _) => {
            LaunchError::NotFound { program: program.into(), hint: where_to_look(&place, program) }
        }
        (Some(libc::EACCES), _) => {
            LaunchError::NotPermitted { program: program.into(), hint: why_not(&place, program) }
        }
        _ => LaunchError::Refused(SyscallError::new(format!("run '{program}'"), error)),
    }
}

/// Checks that the program exists before anything runs; only starting it shows whether it can be executed.
pub fn find_program(program: &str) -> Result<(), LaunchError> {
    let in_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    let found = if program.contains('/') { Path::new(program).is_file() } else { in_path() };
    if found {
        return Ok(());
    }
    Err(LaunchError::NotFound { program: program.into(), hint: where_to_look(Path::new("."), program) })
}

fn where_to_look(place: &Path, program: &str) -> String {
    match (place.join(program).exists(), program.contains('/')) {
        (true, true) => "the file exists, but the interpreter in its first line or its dynamic loader does not".into(),
        (true, false) => format!("use the path of a program in the current directory: ./{program}"),
        (false, _) if program.contains(' ') => "pass the program and its arguments as separate words".into(),
        (false, true) => "check the path".into(),
        (false, false) => "install it, or use its path; it was not found in PATH".into(),
    }
}

fn why_not(place: &Path, program: &str) -> String {
    if place.join(program).is_dir() {
        return "it is a directory".into();
    }
    format!("if it is a program: chmod +x {program}")
}
