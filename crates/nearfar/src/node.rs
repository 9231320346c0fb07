//! Handles a coordinator's request on a node: starts a job that outlives the connection, reports its status or copies
//! its results; or runs the job of a pod. Each job has one directory. Must not depend on other nodes or on the engine.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use files::PrivateDir;
use fleet::kubernetes::{EXPERIMENT_KEY, PodJobSpec};
use fleet::{
    JobName, JobSpec, JobState, JobStatus, NodeName, REQUEST_BYTES_MAX, Request, RequestBody, Response, ResponseBody,
    SAME_VERSION_HINT, StoreCopy, for_node,
};
use lab::history::History;
use lab::progress::forecast;
use store::{Store, StoreError};

use crate::app::target_machine::current_exe;
use crate::cli::{self, Cli, GlobalArgs};
use crate::error::CliError;
use crate::output;
use crate::requests::results_file;

/// Directory of the jobs, next to the results file.
const JOBS: &str = "fleet";

/// Time limit to lock a job that is not running. Status requests hold its lock only briefly.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval of status polls of a followed job; long enough not to disturb the measurement.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum interval of responses to a followed job; the coordinator times out after a longer silence.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Maximum number of bytes read from the end of a log.
const LOG_BYTES_MAX: i64 = 4096;

/// Handles the request on standard input.
pub fn serve(common: &GlobalArgs) -> Result<(), CliError> {
    let mut text = String::new();
    std::io::stdin().lock().take(REQUEST_BYTES_MAX).read_to_string(&mut text).map_err(CliError::failure)?;
    let request = Request::read(&text).map_err(|error| CliError::usage(error).hint(SAME_VERSION_HINT));
    let result = request.and_then(|request| {
        let jobs_dir = JobsDir::of(&request.node, common)?;
        match request.ask {
            RequestBody::Start { order, watch } => start(&jobs_dir.job(&order.job), &order, watch),
            RequestBody::Follow(job) => follow(&jobs_dir.job(&job), false, true),
            RequestBody::Status(jobs) => send_statuses(&jobs_dir, &jobs),
            RequestBody::Copy(job) => copy(&jobs_dir.job(&jobs_dir.full_name(&job))),
        }
    });
    result.or_else(|error| {
        let (what, hint) = error.parts();
        send(ResponseBody::Refused { what: what.into(), hint: hint.map(String::from) })
    })
}

/// The command line of a job that runs in this process, so that its signals reach the run.
pub struct PodJob {
    pub cli: Cli,
    /// Held during the run.
    _lock: File,
}

/// Prepares the job in a file. `None` if the job has ended, because it is not repeated.
pub fn pod_job(file: &Path, node: &NodeName, common: &GlobalArgs) -> Result<Option<PodJob>, CliError> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
    };
    let spec = PodJobSpec::read(&read(file)?).map_err(|error| {
        CliError::usage(format!("{}: {error}", file.display())).hint("use an image with the same version of nearfar")
    })?;
    let words = for_node(&spec.words, node);
    let order = JobSpec { job: spec.job, experiment: read(&file.with_file_name(EXPERIMENT_KEY))?, words };
    let job = JobsDir::of(node, common)?.job(&order.job);
    job.create_dir()?;
    let mut lock = job.try_lock()?.ok_or_else(|| CliError::failure(format!("'{}' is already running", job.name)))?;
    save(&job, &order)?;
    if let Some(stored) = job.stored().map_err(CliError::failure)?.filter(|stored| stored.ended) {
        message!("{}: run {} has ended with {} trials", job.name, stored.run, stored.trials);
        return Ok(None);
    }
    let written = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
    written.map_err(|error| write_error(&job.file("lock"), &error))?;
    let program = [PathBuf::from("nearfar"), "--store".into(), job.file("results.db"), "run".into()];
    let line = program.into_iter().chain([job.file("experiment.toml")]).map(PathBuf::into_os_string);
    let cli = Cli::from_argv(line.chain(order.words.iter().map(Into::into))).map_err(CliError::usage)?;
    match cli.command {
        cli::Command::Run(_) => Ok(Some(PodJob { cli, _lock: lock })),
        _ => Err(CliError::usage("the job's arguments are not options of nearfar run")),
    }
}

fn send(response: ResponseBody) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", Response::new(response).to_line()).and_then(|()| stdout.flush()).map_err(CliError::failure)
}

/// Directory of the jobs. Each job has a subdirectory per node, because nodes may share home directories.
struct JobsDir {
    path: PathBuf,
    node: NodeName,
}

impl JobsDir {
    fn of(node: &NodeName, common: &GlobalArgs) -> Result<Self, CliError> {
        let path = results_file(common).sibling(JOBS)?;
        Ok(Self { path, node: node.clone() })
    }

    fn job(&self, name: &JobName) -> JobDir {
        JobDir { path: self.path.join(name.as_str()).join(self.node.as_str()), name: name.clone() }
    }

    /// Returns the name of the job whose name is, or unambiguously begins with, this one; otherwise the name itself.
    fn full_name(&self, name: &JobName) -> JobName {
        if self.job(name).path.is_dir() {
            return name.clone();
        }
        completed(name, &self.jobs()).unwrap_or(name).clone()
    }

    /// Returns the status of the job whose name is, or begins with, this one. An absent job names those that exist.
    fn status(&self, name: &JobName) -> Result<JobStatus, CliError> {
        let status = self.job(&self.full_name(name)).status(false)?;
        if status.state != JobState::Absent {
            return Ok(status);
        }
        let names: Vec<String> = self.jobs().iter().map(ToString::to_string).collect();
        let says = if names.is_empty() { "no jobs here".into() } else { format!("jobs here: {}", names.join(", ")) };
        Ok(JobStatus { says, ..status })
    }

    fn jobs(&self) -> Vec<JobName> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| JobName::parse(entry.file_name().to_str()?).ok());
        let mut names: Vec<JobName> = names.filter(|name| self.job(name).path.is_dir()).collect();
        names.sort();
        names
    }
}

/// Returns the only name that begins like this one; `None` if there is none, or if several do.
fn completed<'a>(prefix: &JobName, names: &'a [JobName]) -> Option<&'a JobName> {
    let mut matching = names.iter().filter(|name| name.as_str().starts_with(prefix.as_str()));
    matching.next().filter(|_| matching.next().is_none())
}

/// The directory of a job on this node.
struct JobDir {
    path: PathBuf,
    name: JobName,
}

impl JobDir {
    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The directory of all jobs, that of the job on all nodes, and its own. If another user could replace a file in
    /// them, that user could replace the commands of the job.
    fn dirs(&self) -> impl Iterator<Item = &Path> {
        [2, 1, 0].into_iter().filter_map(|above| self.path.ancestors().nth(above))
    }

    fn create_dir(&self) -> Result<(), CliError> {
        let above = self.dirs().next().map_or(&*self.path, files::dir_of);
        files::create_dirs(above).map_err(|error| write_error(above, &error))?;
        let mut dirs = self.dirs();
        dirs.try_for_each(|dir| PrivateDir::open_or_create(dir).map(drop).map_err(|error| write_error(dir, &error)))
    }

    /// Whether the job exists.
    fn exists(&self) -> Result<bool, CliError> {
        if !self.path.is_dir() {
            return Ok(false);
        }
        self.dirs().try_for_each(|dir| PrivateDir::open(dir).map(drop).map_err(|error| write_error(dir, &error)))?;
        Ok(true)
    }

    fn open_lock(&self) -> Result<File, CliError> {
        let path = self.file("lock");
        let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        open.map_err(|error| write_error(&path, &error))
    }

    /// Locks the job, or returns `None` while the run or any of its child processes, which inherit the lock, exists.
    fn try_lock(&self) -> Result<Option<File>, CliError> {
        let (file, began) = (self.open_lock()?, Instant::now());
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) if began.elapsed() > LOCK_TIMEOUT => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_TIMEOUT / 50),
                Err(TryLockError::Error(error)) => return Err(write_error(&self.file("lock"), &error)),
            }
        }
    }

    /// Returns the id of the process that holds the lock, or 0 before it has written its id.
    fn runner(&self) -> Result<Option<u32>, CliError> {
        let mut file = self.open_lock()?;
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text); // the lock is proof of a process even without its id
                Ok(Some(text.trim().parse().unwrap_or(0)))
            }
            Err(TryLockError::Error(error)) => Err(write_error(&self.file("lock"), &error)),
        }
    }

    fn status(&self, started: bool) -> Result<JobStatus, CliError> {
        let bare = |state| JobStatus { started, ..JobStatus::bare(&self.name, state, String::new()) };
        if !self.exists()? {
            return Ok(bare(JobState::Absent));
        }
        // The lock is checked before the file: if it is free, the file is final.
        let runner = self.runner()?;
        let stored = match self.stored() {
            // The run may just be creating the file.
            Err(_) if runner.is_some() => None,
            stored => stored.map_err(CliError::failure)?,
        };
        let ended = stored.as_ref().is_some_and(|stored| stored.ended);
        let state = match runner {
            Some(_) => JobState::Running,
            None if ended => JobState::Ended,
            None => JobState::Stopped,
        };
        let says = last_message(&tail(&self.file("log")), state);
        let Some(StoredResult { run, trials, expected, counted, .. }) = stored else {
            return Ok(JobStatus { pid: runner, says, ..bare(state) });
        };
        Ok(JobStatus { pid: runner, run: Some(run), trials, expected, counted, says, ..bare(state) })
    }

    /// Returns the stored progress of the latest run; `None` before the first run.
    fn stored(&self) -> Result<Option<StoredResult>, StoreError> {
        let store = match Store::open_existing(&self.file("results.db")) {
            Err(StoreError::Missing { .. }) => return Ok(None),
            store => store?,
        };
        let record = match store.run("latest") {
            Err(StoreError::NoSuchRun { .. }) => return Ok(None),
            record => record?,
        };
        let progress = store.progress(&record.id)?;
        let expected = forecast(&record.plan, &History::default()).expected.max(progress.trials as usize);
        let counted = progress.verdicts.valid + progress.verdicts.suspect;
        let (trials, ended) = (progress.trials, progress.ended.is_some());
        Ok(Some(StoredResult { run: record.id.0, trials, expected, counted, ended }))
    }
}

struct StoredResult {
    run: String,
    trials: u32,
    expected: usize,
    counted: u32,
    ended: bool,
}

fn write_error(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failure(format!("cannot write {}: {error}", path.display()))
}

/// Starts the job unless it is running or has ended, and sends its status, repeatedly if `watch`.
fn start(job: &JobDir, order: &JobSpec, watch: bool) -> Result<(), CliError> {
    let started = ensure_started(job, order)?;
    follow(job, started, watch)
}

/// Sends the status of a job; with `watch` again after each change and as a heartbeat, until the job stops.
fn follow(job: &JobDir, started: bool, watch: bool) -> Result<(), CliError> {
    let mut status = job.status(started)?;
    send(ResponseBody::Statuses(vec![status.clone()]))?;
    machine::priority::lower_priority();
    let mut sent = Instant::now();
    while watch && status.state == JobState::Running {
        std::thread::sleep(POLL_INTERVAL);
        let now = job.status(started)?;
        if now != status || sent.elapsed() >= HEARTBEAT {
            sent = Instant::now();
            status = now;
            // A closed connection ends this process, but not the job.
            send(ResponseBody::Statuses(vec![status.clone()]))?;
        }
    }
    Ok(())
}

fn ensure_started(job: &JobDir, order: &JobSpec) -> Result<bool, CliError> {
    job.create_dir()?;
    let Some(lock) = job.try_lock()? else { return Ok(false) };
    save(job, order)?;
    if job.stored().map_err(CliError::failure)?.is_some_and(|stored| stored.ended) {
        return Ok(false);
    }
    spawn(job, order, lock).map_err(|error| write_error(&job.path, &error))?;
    Ok(true)
}

/// Writes the job's files. A different job of the same name is an error.
fn save(job: &JobDir, order: &JobSpec) -> Result<(), CliError> {
    let path = job.file("order.json");
    let text = serde_json::to_string_pretty(order).map_err(CliError::failure)?;
    match std::fs::read_to_string(&path) {
        Ok(known) if known == text => return Ok(()),
        Ok(_) => {
            let what = format!("'{}' has another experiment or other options on the node", job.name);
            return Err(CliError::usage(what).hint("choose another --name"));
        }
        Err(_) => {}
    }
    // The order file is written last, so it exists only if all files do.
    output::write(&job.file("experiment.toml"), &order.experiment)?;
    output::write(&path, &text)
}

/// Starts `nearfar run` as a detached process without a pipe to this one. Its standard input is the lock, which is held
/// until the run and all child processes that inherit it have exited.
fn spawn(job: &JobDir, order: &JobSpec, mut lock: File) -> std::io::Result<()> {
    let own = current_exe().map_err(|error| std::io::Error::other(error.to_string()))?;
    let log = File::create(job.file("log"))?;
    let mut command = Command::new(own);
    command.arg("--store").arg(job.file("results.db")).arg("run").arg(job.file("experiment.toml")).args(&order.words);
    command.stdin(Stdio::from(lock.try_clone()?)).stdout(Stdio::null()).stderr(Stdio::from(log));
    let child = machine::detach::spawn_detached(&mut command)?;
    lock.set_len(0)?;
    write!(lock, "{}", child.id())
}

fn send_statuses(jobs_dir: &JobsDir, jobs: &[JobName]) -> Result<(), CliError> {
    let jobs = if jobs.is_empty() { jobs_dir.jobs() } else { jobs.to_vec() };
    let statuses = jobs.iter().map(|job| jobs_dir.status(job)).collect::<Result<_, _>>()?;
    send(ResponseBody::Statuses(statuses))
}

fn copy(job: &JobDir) -> Result<(), CliError> {
    // A concurrent trial has priority.
    machine::priority::lower_priority();
    if !job.exists()? {
        return Err(
            CliError::usage(format!("no job '{}' on the node", job.name)).hint("nearfar fleet status lists the jobs")
        );
    }
    let store = match Store::open_existing(&job.file("results.db")) {
        Err(StoreError::Missing { .. }) => return send(ResponseBody::Copy(StoreCopy { bytes: 0 })),
        store => store.map_err(CliError::failure)?,
    };
    remove_stale_copies(&job.path);
    let path = job.file(&format!("{COPY_PREFIX}{}", std::process::id()));
    let opened =
        store.copy_to(&path).map_err(CliError::failure).and_then(|()| File::open(&path).map_err(CliError::failure));
    // The file is unlinked before it is read, so a lost connection leaves nothing behind.
    let _ = std::fs::remove_file(&path);
    let mut file = opened?;
    let bytes = file.metadata().map_err(CliError::failure)?.len();
    send(ResponseBody::Copy(StoreCopy { bytes }))?;
    let mut stdout = std::io::stdout().lock();
    std::io::copy(&mut file, &mut stdout).and_then(|_| stdout.flush()).map_err(CliError::failure)
}

/// Prefix of the names of copies; the id of the copying process follows.
const COPY_PREFIX: &str = "copy-";

/// Removes the copies of processes that were killed while they copied.
fn remove_stale_copies(dir: &Path) {
    let process = |name: &str| name.strip_prefix(COPY_PREFIX)?.split('-').next()?.parse().ok();
    for path in machine::stale::stale_entries(dir, process).unwrap_or_default() {
        let _ = std::fs::remove_file(path); // a leftover is harmless
    }
}

/// Returns the end of a file, or an empty text if it cannot be opened.
fn tail(path: &Path) -> String {
    let mut bytes = Vec::new();
    let Ok(mut file) = File::open(path) else { return String::new() };
    let _ = file.seek(SeekFrom::End(-LOG_BYTES_MAX)); // fails for a shorter file, which is read from its beginning
    let _ = file.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the last line of a log, or the whole last error message of a stopped run.
fn last_message(log: &str, state: JobState) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = lines.iter().rposition(|line| line.starts_with("nearfar: ")).filter(|_| state == JobState::Stopped);
    match (error, lines.last()) {
        (Some(first), _) => lines[first..].join(" ").trim_start_matches("nearfar: ").into(),
        (None, Some(last)) => (*last).into(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_name_is_completed_unless_ambiguous() {
        let names = ["quick-03c4f594", "storage-1", "storage-2"].map(|name| JobName::parse(name).unwrap());
        let full = |prefix| completed(&JobName::parse(prefix).unwrap(), &names).map(JobName::as_str);
        assert_eq!(full("quick"), Some("quick-03c4f594"));
        assert_eq!(full("storage-2"), Some("storage-2"));
        assert_eq!((full("storage"), full("uick")), (None, None));
    }

    #[test]
    fn last_message_of_a_log_is_returned() {
        let cases = [
            ("", JobState::Running, ""),
            ("1/9 a\n2/9 b\n", JobState::Running, "2/9 b"),
            ("1/9 a\nnearfar: no\nhint: yes\n", JobState::Stopped, "no hint: yes"),
            ("1/9 a\nnearfar: a warning\n2/9 b\n", JobState::Running, "2/9 b"),
            ("1/9 a\n2/9 b\n\n", JobState::Stopped, "2/9 b"),
        ];
        for (log, state, expected) in cases {
            assert_eq!(last_message(log, state), expected, "{log}");
        }
    }
}
