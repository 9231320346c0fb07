//! Starts a process: bind, read back, exec. The child reports its affinity and the time before its first own
//! instruction.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use model::values::id_set::CpuSet;
use rustix::fs::{Access, MemfdFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::exit::ExitWatch;
use super::shared::Shared;
use super::starter::{Program, Starter, Steps};
use super::{LaunchError, SpawnSpec};
use crate::affinity;
use crate::mempolicy::{self, PolicyCode};
use crate::syscall::{self, CpuMask, NodeMask, SyscallError};

/// A started process that was not waited for.
pub(super) struct Started {
    pub pid: u32,
    /// Time just before its exec, taken by the process itself.
    pub at: Instant,
    pub exit: Result<ExitWatch, Errno>,
    pub proof: StartProof,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// State that a process reports before its first own instruction.
#[derive(Clone, Debug)]
pub(super) struct StartProof {
    pub mask: CpuSet,
    /// Its memory policy as the kernel prints it.
    pub memory_policy: Result<String, SyscallError>,
    /// Whether it entered the cgroup that follows its descendants.
    pub is_followed: bool,
}

/// Starts the program on these CPUs, in the cgroup whose open file `cgroup.procs` is `follower`.
pub(super) fn start(launch: &SpawnSpec, cpus: &CpuSet, follower: Option<&File>) -> Result<Started, LaunchError> {
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
    let (stdout, output) = pipe().map_err(|error| refused("create a pipe", error))?;
    let (stderr, errors) = pipe().map_err(|error| refused("create a pipe", error))?;
    let stdin = stdin(&launch.stdin).map_err(|error| refused("create a standard input", error))?;
    let streams = [stdin.as_fd(), output.as_fd(), errors.as_fd()];
    let files = [launch.entrance.as_ref().map(AsFd::as_fd), follower.map(AsFd::as_fd)];
    let prepared = prepare(launch, streams, files).map_err(|error| refused("pass the arguments", error))?;
    let steps = PreExec { parent: std::process::id(), mask, policy };
    let (pid, report) = spawn(&prepared, &steps).map_err(|error| refused("create a process", error))?;
    let Some(at) = report.at.filter(|_| report.exec_errno.is_none()) else {
        // The process has ended; nothing else waits for it.
        let _ = syscall::wait_for_child(pid);
        return Err(explain(launch, &program, &report, cpus));
    };
    Ok(Started { pid, at, exit: ExitWatch::of(pid), proof: report.proof(), stdout, stderr })
}

/// A pipe whose ends are not inherited.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

fn prepare<'a>(
    launch: &SpawnSpec,
    streams: [BorrowedFd<'a>; 3],
    files: [Option<BorrowedFd<'a>>; 2],
) -> io::Result<Program<'a>> {
    let string = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
    let overridden = |name: &OsStr| launch.environment.iter().any(|(other, _)| other == name);
    let inherited = std::env::vars_os().filter(|(name, _)| !overridden(name));
    let variable = |(name, value): (OsString, OsString)| {
        let mut text = name;
        text.push("=");
        text.push(value);
        string(&text)
    };
    let argv = launch.wrapper.iter().chain(&launch.argv);
    let first = argv.clone().next().map_or(OsStr::new(""), OsString::as_os_str);
    Ok(Program {
        path: string(found(first).as_deref().map_or(first, Path::as_os_str))?,
        argv: argv.map(|word| string(word)).collect::<Result<_, _>>()?,
        environment: inherited.chain(launch.environment.iter().cloned()).map(variable).collect::<Result<_, _>>()?,
        directory: launch.directory.as_ref().map(|directory| string(directory.as_os_str())).transpose()?,
        streams,
        files,
    })
}

/// Returns the files that a search in PATH tries, in this order.
fn candidates(program: &OsStr) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(program)).collect()
}

/// Searches a program in PATH before its process exists, so that the search is not part of its time. Returns `None` if
/// the result depends on the working directory of the process, or if there is none: exec then reports the reason.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return None;
    }
    let is_executable = |file: &PathBuf| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok();
    candidates(program)
        .into_iter()
        .find(|file| !file.is_absolute() || is_executable(file))
        .filter(|file| file.is_absolute())
}

thread_local! {
    static STARTER: RefCell<Option<Starter<PreExec>>> = const { RefCell::new(None) };
}

/// Returns the starter of this thread.
fn starter(starter: &mut Option<Starter<PreExec>>) -> io::Result<&mut Starter<PreExec>> {
    // It may have ended at its last start.
    if starter.as_ref().is_none_or(|starter| starter.pid().is_none()) {
        *starter = Some(Starter::fork()?);
    }
    starter.as_mut().ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// Returns the PID of the process that will create the next process of a trial of this thread: trials inherit from it, not
/// from the thread.
///
/// # Errors
/// If it does not exist yet and cannot be created.
pub fn starter_pid() -> io::Result<u32> {
    let pid = |own: &mut _| Ok(starter(own)?.pid());
    STARTER.with_borrow_mut(pid).and_then(|pid| pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH)))
}

/// Returns the PID and the report of a process that runs the program, or has ended.
fn spawn(program: &Program<'_>, steps: &PreExec) -> io::Result<(u32, Report)> {
    STARTER.with_borrow_mut(|own| {
        // The OOM killer may have killed the starter since the last start; then a second one starts the process.
        for _ in 0..2 {
            if let Some(started) = starter(own)?.start(program, steps)? {
                return Ok(started);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EINTR))
    })
}

/// A memory file instead of a pipe: no thread has to write to it during the trial.
fn stdin(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.is_empty() {
        return Ok(File::open("/dev/null")?.into());
    }
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Steps of the child before its exec. Their files are a cgroup with a DRAM limit and a cgroup that follows the
/// descendants.
#[derive(Clone, Copy)]
struct PreExec {
    parent: u32,
    mask: CpuMask,
    policy: Option<PolicyCode>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpawnStage {
    Streams,
    Parent,
    Group,
    Seats,
    Memory,
    Seated,
}

/// The report of the child.
#[derive(Clone, Copy)]
struct Report {
    stage: SpawnStage,
    /// errno of the step that failed.
    errno: i32,
    mask: CpuMask,
    /// The memory policy, or the errno of reading it back.
    policy: Result<(i32, NodeMask), i32>,
    is_followed: bool,
    /// Time just before exec; `None` if a step failed.
    at: Option<Instant>,
    /// errno of exec, or of a step before those of [`PreExec`].
    exec_errno: Option<i32>,
}

impl Steps for PreExec {
    type Report = Report;

    fn no_report() -> Report {
        Report::new()
    }

    fn perform(&self, files: [Option<RawFd>; 2], shared: &Shared<Report>) -> bool {
        let mut report = shared.get();
        match self.steps(files, &mut report) {
            Ok(()) => report.at = Some(Instant::now()),
            Err(error) => report.errno = errno_of(&error),
        }
        shared.set(report);
        report.at.is_some()
    }

    fn failed(&self, error: &io::Error, shared: &Shared<Report>) {
        shared.set(Report { exec_errno: Some(errno_of(error)), ..shared.get() });
    }
}

impl PreExec {
    fn steps(&self, [entrance, follower]: [Option<RawFd>; 2], report: &mut Report) -> io::Result<()> {
        report.stage = SpawnStage::Parent;
        syscall::die_with_parent()?;
        if syscall::parent_id() != self.parent {
            // The parent died before the child could request a signal on its death.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        report.stage = SpawnStage::Group;
        if let Some(entrance) = entrance {
            syscall::enter_group(entrance)?;
        }
        report.is_followed = follower.is_some_and(|group| syscall::enter_group(group).is_ok());
        report.stage = SpawnStage::Seats;
        syscall::set_affinity(0, &self.mask)?;
        report.mask = syscall::affinity(0)?;
        report.stage = SpawnStage::Memory;
        if let Some(policy) = &self.policy {
            syscall::set_mempolicy(policy.mode, &policy.nodes)?;
        }
        // Reading back may be forbidden where nothing was set; the policy is then unknown.
        report.policy = syscall::mempolicy().map_err(|error| errno_of(&error));
        report.stage = SpawnStage::Seated;
        Ok(())
    }
}

fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

impl Report {
    fn new() -> Self {
        let (mask, policy) = (CpuMask::EMPTY, Err(0));
        Self { stage: SpawnStage::Streams, errno: 0, mask, policy, is_followed: false, at: None, exec_errno: None }
    }

    fn proof(&self) -> StartProof {
        let refusal = |errno: i32| {
            let error = io::Error::from_raw_os_error(errno);
            SyscallError::new("read back the memory policy (get_mempolicy)", &error).with_hint(mempolicy::hint(&error))
        };
        let memory_policy = self.policy.map(|(mode, nodes)| mempolicy::describe(mode, nodes)).map_err(refusal);
        StartProof { mask: self.mask.to_set(), memory_policy, is_followed: self.is_followed }
    }
}

/// Converts a failed start to an error: of a step of the binding, or of exec and what precedes it.
fn explain(launch: &SpawnSpec, program: &str, report: &Report, cpus: &CpuSet) -> LaunchError {
    let error = io::Error::from_raw_os_error(report.errno);
    match report.stage {
        SpawnStage::Seats => LaunchError::Refused(affinity::refusal(cpus, &error)),
        SpawnStage::Memory => LaunchError::Refused(mempolicy::refusal("set", &launch.memory, &error)),
        SpawnStage::Group => LaunchError::Refused(SyscallError::new("enter a cgroup", &error)),
        SpawnStage::Parent => {
            LaunchError::Refused(SyscallError::new("set the death signal of a child (prctl)", &error))
        }
        SpawnStage::Streams | SpawnStage::Seated => {
            explain_exec(launch, program, &io::Error::from_raw_os_error(report.exec_errno.unwrap_or_default()))
        }
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

/// Returns the path of a program, before anything runs; only starting it shows whether it can be executed.
///
/// # Errors
/// If it does not exist.
pub fn find_program(program: &str) -> Result<PathBuf, LaunchError> {
    let in_path = || candidates(OsStr::new(program)).into_iter().find(|file| file.is_file());
    let found =
        if program.contains('/') { Some(program.into()).filter(|path: &PathBuf| path.is_file()) } else { in_path() };
    found.ok_or_else(|| LaunchError::NotFound { program: program.into(), hint: where_to_look(Path::new("."), program) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_searched_before_their_process_exists() {
        let found = |name: &str| found(OsStr::new(name));
        assert!(found("true").is_some_and(|path| path.is_absolute() && path.ends_with("true")));
        for name in ["/bin/true", "./true", "no-such-program", ""] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
