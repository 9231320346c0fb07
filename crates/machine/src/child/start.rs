//! From a launch to a running process: fork, seat, read back, exec. The child proves its seats through a pipe before
//! its first own instruction.
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

/// A process that has been started; nobody has waited for it yet.
pub(super) struct Started {
    pub pid: u32,
    /// Just before it was forked.
    pub at: Instant,
    pub proof: StartProof,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// What a process said of itself before its first own instruction.
#[derive(Clone, Debug)]
pub(super) struct StartProof {
    /// Its affinity mask; none when the message was lost.
    pub mask: Option<CpuSet>,
    /// Its memory policy in the kernel's words.
    pub memory_policy: Result<String, SyscallError>,
}

/// Starts the program on these cpus.
pub(super) fn start(launch: &SpawnSpec, cpus: &CpuSet) -> Result<Started, LaunchError> {
    let program = launch.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    let refused = |what: &str, error: io::Error| {
        LaunchError::Refused(SyscallError::new(format!("{what} for '{program}'"), &error))
    };
    if program.is_empty() {
        return Err(LaunchError::NotFound { program, hint: "name a program after --".into() });
    }
    let policy = PolicyCode::of(&launch.memory).map_err(LaunchError::Refused)?;
    let invalid = || affinity::refusal(cpus, &io::Error::from_raw_os_error(libc::EINVAL));
    let mask = CpuMask::from_set(cpus).ok_or_else(|| LaunchError::Refused(invalid()))?;
    let stdin = stdin(&launch.stdin).map_err(|error| refused("make a standard input", error))?;
    let (report, proof) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| refused("make a pipe", error.into()))?;
    let mut command = command(launch, stdin);
    let entrance = launch.entrance.as_ref().map(AsRawFd::as_raw_fd);
    let seating = PreExec { parent: std::process::id(), mask, policy, entrance };
    // SAFETY: between fork and exec `sit` only makes system calls with arguments prepared here: it allocates nothing,
    // takes no locks and touches no memory but its stack.
    unsafe { command.pre_exec(move || seating.sit(&proof)) };
    let at = Instant::now();
    let spawned = command.spawn();
    // Dropping the command closes our end of the proof's pipe, so that reading it cannot wait for ever.
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
    // A group of its own, so that it can be stopped with all its children.
    command.process_group(0).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A file in memory rather than a pipe: nobody has to feed it while the trial is measured.
fn stdin(bytes: &[u8]) -> io::Result<Stdio> {
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// What the child does between fork and exec.
struct PreExec {
    parent: u32,
    mask: CpuMask,
    policy: Option<PolicyCode>,
    /// A descriptor that the launch keeps open.
    entrance: Option<RawFd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum SpawnStage {
    /// It reported nothing: it failed before, or the message was lost.
    Silent,
    Parent,
    Group,
    Seats,
    Memory,
    Seated,
}

impl PreExec {
    /// Runs in the child: no allocation, no locks.
    fn sit(&self, proof: &OwnedFd) -> io::Result<()> {
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
            // It died before it could be asked to take us along.
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
            // Reading back may be forbidden where nothing was set; then it is only not known.
            Err(error) => message.0[Message::ERRNO] = error.raw_os_error().unwrap_or(0) as u64,
        }
        message.0[Message::STEP] = SpawnStage::Seated as u64;
        Ok(())
    }
}

/// What the child says of itself, in words of 64 bits: step, errno, policy, its nodes, cpus.
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

    /// 1176 bytes: below the 4096 that a pipe takes at once.
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
            SyscallError::new("read the memory policy back (get_mempolicy)", error).with_hint(mempolicy::hint(error))
        };
        if self.step() != SpawnStage::Seated || self.0[Self::ERRNO] != 0 {
            return Err(refusal(&self.errno()));
        }
        let mut nodes = NodeMask::EMPTY;
        nodes.words_mut().copy_from_slice(&self.0[Self::NODES..Self::MASK]);
        Ok(mempolicy::words(self.0[Self::MODE] as i32, nodes))
    }
}

/// The message of a child that has executed or failed: it is there, or never comes.
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

/// Why it could not be started: the seating says at which step, and otherwise it was the exec.
fn explain(launch: &SpawnSpec, program: &str, message: &Message, error: &io::Error, cpus: &CpuSet) -> LaunchError {
    match message.step() {
        SpawnStage::Seats => LaunchError::Refused(affinity::refusal(cpus, &message.errno())),
        SpawnStage::Memory => LaunchError::Refused(mempolicy::refusal("set", &launch.memory, &message.errno())),
        SpawnStage::Group => LaunchError::Refused(SyscallError::new("enter a cgroup", &message.errno())),
        SpawnStage::Parent => {
            LaunchError::Refused(SyscallError::new("tie a child to this process (prctl)", &message.errno()))
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
            LaunchError::Refused(SyscallError::new(what, error).with_hint(Some("make the directory, or name another")))
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

/// Whether there is such a program, asked before anything runs; that it can be started is known when it is.
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
        (true, true) => "the file is there, but the interpreter in its first line or its dynamic loader is not".into(),
        (true, false) => format!("a program in the current directory is named with its path: ./{program}"),
        (false, _) if program.contains(' ') => "write the program and its arguments as separate words".into(),
        (false, true) => "check the path".into(),
        (false, false) => "install it, or name it with its path; it is looked for in PATH".into(),
    }
}

fn why_not(place: &Path, program: &str) -> String {
    if place.join(program).is_dir() {
        return "it is a directory".into();
    }
    format!("chmod +x {program}, if it is a program")
}
