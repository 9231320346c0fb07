//! The node's side of a fleet: starts the run that it is told in a process that outlives the connection, says how far it is, gives out
//! a copy of what is stored; or runs an order that lies there itself. All of a job is in one folder. Must not know who else there is, nor
//! how it was reached.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use fleet::kubernetes::{EXPERIMENT_KEY, PodJobSpec};
use fleet::{
    JobName, JobSpec, JobState, JobStatus, NodeName, REQUEST_BYTES_MAX, Request, RequestBody, Response, ResponseBody,
    SAME_VERSION_HINT, StoreCopy,
};
use lab::history::History;
use lab::run::forecast;
use store::{Store, StoreError};

use crate::cli::{self, Cli, GlobalArgs};
use crate::commands::{fleet::for_node, run};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::target_machine::{current_exe, store_sibling};

/// Where jobs are, beside the results file.
const JOBS: &str = "fleet";

/// Who only looks holds the lock for an instant: who wants it for a run tries as long as this.
const LOOKERS_MAX: Duration = Duration::from_millis(500);

/// How often a run is looked at that is watched; it is on the machine that measures.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whoever watches takes a longer silence for a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How much of a log's end is read.
const LOG_BYTES_MAX: i64 = 4096;

/// Answers what is asked on standard input.
pub fn serve(common: &GlobalArgs) -> Result<(), CliError> {
    let mut text = String::new();
    std::io::stdin().lock().take(REQUEST_BYTES_MAX).read_to_string(&mut text).map_err(CliError::failure)?;
    let request = Request::read(&text).map_err(|why| CliError::usage(why).hint(SAME_VERSION_HINT));
    let answered = request.and_then(|request| {
        let place = JobsDir::of(&request.node, common)?;
        match request.ask {
            RequestBody::Start { order, watch } => spawn_detached(&place.job(&order.job), &order, watch),
            RequestBody::Follow(job) => follow(&place.job(&job), false, true),
            RequestBody::Look(jobs) => look_at(&place, &jobs),
            RequestBody::Copy(job) => copy(&place.job(&job)),
        }
    });
    answered.or_else(|error| {
        let (what, hint) = error.parts();
        say(ResponseBody::Refused { what: what.into(), hint: hint.map(String::from) })
    })
}

/// Runs an order that lies in a file, as this process, so that whoever may end a process may end the run. One that has ended before is not
/// run again.
pub fn handle(file: &Path, node: &NodeName, common: &GlobalArgs) -> CommandResult {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
    };
    let posted = PodJobSpec::read(&read(file)?).map_err(|why| {
        CliError::usage(format!("{}: {why}", file.display())).hint("an image of the same version runs it")
    })?;
    let words = for_node(&posted.words, node);
    let order = JobSpec { job: posted.job, experiment: read(&file.with_file_name(EXPERIMENT_KEY))?, words };
    let job = JobsDir::of(node, common)?.job(&order.job);
    std::fs::create_dir_all(&job.folder).map_err(|error| refused(&job.folder, &error))?;
    let mut lock = job.take()?.ok_or_else(|| CliError::failure(format!("'{}' runs here already", job.name)))?;
    keep(&job, &order)?;
    if let Some(stored) = job.stored().map_err(CliError::failure)?.filter(|stored| stored.ended) {
        eprintln!("{}: run {} has ended with {} trials", job.name, stored.run, stored.trials);
        return Ok(ExitCode::SUCCESS);
    }
    let written = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
    written.map_err(|error| refused(&job.file("lock"), &error))?;
    let program = [PathBuf::from("nearfar"), "--store".into(), job.file("results.db"), "run".into()];
    let line = program.into_iter().chain([job.file("experiment.toml")]).map(PathBuf::into_os_string);
    let cli = Cli::from_argv(line.chain(order.words.iter().map(Into::into))).map_err(CliError::usage)?;
    let cli::Command::Run(args) = &cli.command else {
        return Err(CliError::usage("the order's words are not for nearfar run"));
    };
    run::run(args, &cli.common)
}

fn say(answer: ResponseBody) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", Response::new(answer).to_line()).and_then(|()| stdout.flush()).map_err(CliError::failure)
}

/// Where this node's jobs are. The node's name is part of it, because home folders may be shared.
struct JobsDir {
    folder: PathBuf,
    node: NodeName,
}

impl JobsDir {
    fn of(node: &NodeName, common: &GlobalArgs) -> Result<Self, CliError> {
        let folder = store_sibling(common, JOBS)?;
        Ok(Self { folder, node: node.clone() })
    }

    fn job(&self, name: &JobName) -> JobDir {
        JobDir { folder: self.folder.join(name.as_str()).join(self.node.as_str()), name: name.clone() }
    }

    fn jobs(&self) -> Vec<JobName> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| JobName::parse(entry.file_name().to_str()?).ok());
        let mut names: Vec<JobName> = names.filter(|name| self.job(name).folder.is_dir()).collect();
        names.sort();
        names
    }
}

/// A job's folder.
struct JobDir {
    folder: PathBuf,
    name: JobName,
}

impl JobDir {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn lock(&self) -> Result<File, CliError> {
        let path = self.file("lock");
        let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        open.map_err(|error| refused(&path, &error))
    }

    /// The lock, or none when a run has it. Its holders are the run and the processes that it starts, so it is free when all are gone.
    fn take(&self) -> Result<Option<File>, CliError> {
        let (file, began) = (self.lock()?, Instant::now());
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) if began.elapsed() > LOOKERS_MAX => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOKERS_MAX / 50),
                Err(TryLockError::Error(error)) => return Err(refused(&self.file("lock"), &error)),
            }
        }
    }

    /// The process that runs it, as it wrote itself down; 0 before it did.
    fn runner(&self) -> Result<Option<u32>, CliError> {
        let mut file = self.lock()?;
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text); // it says who, and that there is somebody is known
                Ok(Some(text.trim().parse().unwrap_or(0)))
            }
            Err(TryLockError::Error(error)) => Err(refused(&self.file("lock"), &error)),
        }
    }

    fn look(&self, started: bool) -> Result<JobStatus, CliError> {
        let look = |state| JobStatus { started, ..JobStatus::bare(&self.name, state, String::new()) };
        if !self.folder.is_dir() {
            return Ok(look(JobState::Absent));
        }
        // The lock before the file: what is stored when nobody has the lock is all there will be.
        let runner = self.runner()?;
        let stored = match self.stored() {
            // It may just be making it.
            Err(_) if runner.is_some() => None,
            stored => stored.map_err(CliError::failure)?,
        };
        let ended = stored.as_ref().is_some_and(|stored| stored.ended);
        let state = match runner {
            Some(_) => JobState::Running,
            None if ended => JobState::Ended,
            None => JobState::Stopped,
        };
        let says = last_words(&tail(&self.file("log")), state);
        let Some(StoredResult { run, trials, expected, counted, .. }) = stored else {
            return Ok(JobStatus { pid: runner, says, ..look(state) });
        };
        Ok(JobStatus { pid: runner, run: Some(run), trials, expected, counted, says, ..look(state) })
    }

    /// What the latest run has stored; none before the first.
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

fn refused(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failure(format!("cannot write {}: {error}", path.display()))
}

/// Starts the run unless it runs or has ended, and follows it where that is wanted.
fn spawn_detached(job: &JobDir, order: &JobSpec, watch: bool) -> Result<(), CliError> {
    let started = begin(job, order)?;
    follow(job, started, watch)
}

/// Says how it stands, and again whenever there is news.
fn follow(job: &JobDir, started: bool, watch: bool) -> Result<(), CliError> {
    let mut look = job.look(started)?;
    say(ResponseBody::Looks(vec![look.clone()]))?;
    machine::priority::lower_priority();
    let mut said = Instant::now();
    while watch && look.state == JobState::Running {
        std::thread::sleep(LOOK_AGAIN);
        let now = job.look(started)?;
        if now != look || said.elapsed() >= HEARTBEAT {
            said = Instant::now();
            look = now;
            // Who does not listen any more ends this process, and nothing else.
            say(ResponseBody::Looks(vec![look.clone()]))?;
        }
    }
    Ok(())
}

fn begin(job: &JobDir, order: &JobSpec) -> Result<bool, CliError> {
    std::fs::create_dir_all(&job.folder).map_err(|error| refused(&job.folder, &error))?;
    let Some(lock) = job.take()? else { return Ok(false) };
    keep(job, order)?;
    if job.stored().map_err(CliError::failure)?.is_some_and(|stored| stored.ended) {
        return Ok(false);
    }
    spawn(job, order, lock).map_err(|error| refused(&job.folder, &error))?;
    Ok(true)
}

/// Writes down what the job is; one of this name that is something else stays what it is.
fn keep(job: &JobDir, order: &JobSpec) -> Result<(), CliError> {
    let path = job.file("order.json");
    let text = serde_json::to_string_pretty(order).map_err(CliError::failure)?;
    match std::fs::read_to_string(&path) {
        Ok(known) if known == text => return Ok(()),
        Ok(_) => {
            return Err(CliError::usage(format!("'{}' is another experiment there, or has other flags", job.name))
                .hint("choose another --name"));
        }
        Err(_) => {}
    }
    // The order last: it is there only when all of it is.
    output::write(&job.file("experiment.toml"), &order.experiment)?;
    output::write(&path, &text)
}

/// The same program as by hand, apart from who started it, with no pipe to him. The lock is its standard input: it is held
/// for as long as the run, or anything that it has started and that inherits that, is there, whatever becomes of this process.
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

fn look_at(place: &JobsDir, jobs: &[JobName]) -> Result<(), CliError> {
    let jobs = if jobs.is_empty() { place.jobs() } else { jobs.to_vec() };
    let looks = jobs.iter().map(|job| place.job(job).look(false)).collect::<Result<_, _>>()?;
    say(ResponseBody::Looks(looks))
}

fn copy(job: &JobDir) -> Result<(), CliError> {
    // A trial that is measured beside this has the processor first.
    machine::priority::lower_priority();
    if !job.folder.is_dir() {
        return Err(CliError::usage(format!("there is no '{}' there", job.name))
            .hint("nearfar fleet status shows what there is"));
    }
    let store = match Store::open_existing(&job.file("results.db")) {
        Err(StoreError::Missing { .. }) => return say(ResponseBody::Copy(StoreCopy { bytes: 0 })),
        store => store.map_err(CliError::failure)?,
    };
    sweep(&job.folder);
    let path = job.file(&format!("{COPY}{}", std::process::id()));
    let opened =
        store.copy_to(&path).map_err(CliError::failure).and_then(|()| File::open(&path).map_err(CliError::failure));
    // Its name goes now, it itself when it has been read: a connection that is lost leaves nothing.
    let _ = std::fs::remove_file(&path);
    let mut file = opened?;
    let bytes = file.metadata().map_err(CliError::failure)?.len();
    say(ResponseBody::Copy(StoreCopy { bytes }))?;
    let mut stdout = std::io::stdout().lock();
    std::io::copy(&mut file, &mut stdout).and_then(|_| stdout.flush()).map_err(CliError::failure)
}

/// What a copy is called while it has a name; behind it stands the process that makes it.
const COPY: &str = "copy-";

/// Takes away what processes left that were killed while they copied.
fn sweep(folder: &Path) {
    let process = |name: &str| name.strip_prefix(COPY)?.split('-').next()?.parse().ok();
    for path in machine::stale::stale_entries(folder, process).unwrap_or_default() {
        let _ = std::fs::remove_file(path); // what cannot be taken away is in nobody's way
    }
}

/// The end of a file; empty where there is none.
fn tail(path: &Path) -> String {
    let mut bytes = Vec::new();
    let Ok(mut file) = File::open(path) else { return String::new() };
    let _ = file.seek(SeekFrom::End(-LOG_BYTES_MAX)); // a shorter one is read from its beginning
    let _ = file.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a log ends with: its last line, and where a run did not come to its end all of what it complained of last.
fn last_words(log: &str, state: JobState) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let complaint = lines.iter().rposition(|line| line.starts_with("nearfar: ")).filter(|_| state == JobState::Stopped);
    match (complaint, lines.last()) {
        (Some(first), _) => lines[first..].join(" ").trim_start_matches("nearfar: ").into(),
        (None, Some(last)) => (*last).into(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_log() {
        let cases = [
            ("", JobState::Running, ""),
            ("1/9 a\n2/9 b\n", JobState::Running, "2/9 b"),
            ("1/9 a\nnearfar: no\nhint: yes\n", JobState::Stopped, "no hint: yes"),
            ("1/9 a\nnearfar: a warning\n2/9 b\n", JobState::Running, "2/9 b"),
            ("1/9 a\n2/9 b\n\n", JobState::Stopped, "2/9 b"),
        ];
        for (log, state, expected) in cases {
            assert_eq!(last_words(log, state), expected, "{log}");
        }
    }
}
