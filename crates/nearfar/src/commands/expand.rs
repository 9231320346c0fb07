//! `nearfar expand`: a program on more memory than it gets DRAM. The program has the terminal, the standard streams and
//! the exit status; what this says goes to stderr, or to a file.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use farmem::trace::Trace;
use farmem::{Expansion, ExpansionLimits, ExpansionStatus, PagingMode, Unavailable};
use indicatif::{ProgressBar, ProgressStyle};
use machine::foreground::{self, ForegroundProcess};
use model::analysis::size::need_of;
use model::values::record::RunSummary;
use model::values::units::{Bytes, Nanos, parse_share};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::cli::{EngineName, ExpandArgs, FarArgs, GlobalArgs};
use crate::commands::size;
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::run_guard::site;
use crate::target_machine::{existing_store, far_site, has_store};

/// How often it is looked how the program stands.
const LOOK: Duration = Duration::from_millis(100);
/// Over so long it is told how fast it goes.
const PACE: Duration = Duration::from_secs(1);
/// What is passed on to the program; a terminal's own go to all of its foreground anyway.
const FORWARDED: [i32; 8] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH];
const OF_THE_TERMINAL: [i32; 4] = [SIGINT, SIGQUIT, SIGCONT, SIGWINCH];

struct Summary {
    dram: Bytes,
    wall: Duration,
    most_far: Bytes,
    state: ExpansionStatus,
}

/// Runs a program on a budget of DRAM.
pub fn run(args: &ExpandArgs, common: &GlobalArgs) -> CommandResult {
    let budget = budget(args, common)?;
    if let Err(error) = machine::child::find_program(&args.command[0].to_string_lossy()) {
        CliError::of(&error).hint_of(error.hint()).print();
        return Ok(ExitCode::from(127));
    }
    let trace = args.trace.as_deref().map(create_trace).transpose()?;
    // Before anything is made: a signal that came in between would end this and leave the program, or what was made for it.
    let signals = signals()?;
    let expansion =
        Expansion::start_recorded(&budget, &site(None).own(), trace.clone()).map_err(|error| failure(&error))?;
    let mut program = match start(&args.command, &expansion)? {
        Ok(program) => program,
        Err(status) => return Ok(status),
    };
    let began = Instant::now();
    let ended = follow(&mut program, &expansion, &signals, StatusLine::new(args.live, common.quiet), common.quiet)?;
    let wall = began.elapsed();
    let dram = expansion.dram();
    let (state, restored) = expansion.stop();
    restored.iter().filter(|restored| !restored.is_settled()).for_each(|restored| eprintln!("nearfar: {restored}"));
    // The program's status is worth more than its trace.
    if let Some(Err(error)) = trace.map(|trace| trace.finish()) {
        CliError::of(format!("the trace is not whole: {error}")).print();
    }
    let story = Summary { dram, wall, most_far: ended.most_far, state };
    if !common.quiet {
        eprintln!("nearfar: {}", story.in_words());
    }
    if let Some(path) = &args.summary {
        let text = serde_json::to_string_pretty(&story.json()).map_err(CliError::of)?;
        output::write(path, &format!("{text}\n"))?;
    }
    foreground::exit_like(ended.status)
}

fn create_trace(path: &Path) -> Result<Trace, CliError> {
    Trace::create(path).map_err(|error| CliError::of(format!("cannot make {}: {error}", path.display())))
}

/// Reads the flags that say how much memory of which kind.
fn budget(args: &ExpandArgs, common: &GlobalArgs) -> Result<ExpansionLimits, CliError> {
    let dram = dram(args, common)?;
    let engine = match args.engine {
        EngineName::Steered => PagingMode::Steered,
        EngineName::Plain => PagingMode::Plain,
    };
    with_far(&ExpansionLimits { engine, ..ExpansionLimits::of(dram) }, &args.far)
}

/// A size, or a share of what the program needs.
fn dram(args: &ExpandArgs, common: &GlobalArgs) -> Result<Bytes, CliError> {
    let text = args.dram.trim();
    if !text.ends_with('%') {
        return Bytes::parse(text).map_err(|why| CliError::usage(format!("--dram: {why}, or 50% of --peak")));
    }
    let share = parse_share(text).map_err(|why| CliError::usage(format!("--dram: {why}")))?;
    let of = |peak: Bytes| Bytes((peak.0 as f64 * share) as u64);
    if let Some(peak) = args.peak {
        return Ok(of(peak));
    }
    let Some((run, peak)) = measured_need(&args.command, common)? else {
        return Err(CliError::usage(format!("--dram {text} of what? this program's need is not known"))
            .hint("--peak SIZE says it, and nearfar size -- CMD measures it for this very command line"));
    };
    if !common.quiet {
        let when = report::number::date(run.started_unix_ms);
        let id = &run.id.0[..run.id.0.len().min(8)];
        eprintln!("nearfar: {} of DRAM: {text} of the {peak} that it held at most in run {id} ({when})", of(peak));
    }
    Ok(of(peak))
}

/// The newest run of `nearfar size` for this very command line, and what it held.
fn measured_need(command: &[OsString], common: &GlobalArgs) -> Result<Option<(RunSummary, Bytes)>, CliError> {
    let argv: Option<Vec<String>> = command.iter().map(|word| word.to_str().map(String::from)).collect();
    let Some(argv) = argv.filter(|_| has_store(common).is_ok_and(|has| has)) else { return Ok(None) };
    let store = existing_store(common)?;
    let name = size::experiment(&argv[0]);
    for run in store.runs().map_err(CliError::of)?.into_iter().rev().filter(|run| run.experiment == name) {
        let record = store.run(&run.id.0).map_err(CliError::of)?;
        if let Some(need) = need_of(&record.plan, &argv) {
            return Ok(Some((run, need)));
        }
    }
    Ok(None)
}

/// Adds the flags about far memory.
fn with_far(budget: &ExpansionLimits, far: &FarArgs) -> Result<ExpansionLimits, CliError> {
    Ok(ExpansionLimits {
        folder: far.file.as_deref().map_or_else(|| Ok(far_site().folder), folder)?,
        far: far.size.unwrap_or(budget.far),
        shred: far.shred,
        allow_unencrypted: far.allow_unencrypted,
        ..budget.clone()
    })
}

/// The file has no name, so that nothing of it is ever left; a name that was given says where it is.
fn folder(path: &Path) -> Result<PathBuf, CliError> {
    if path.is_dir() {
        return Ok(path.into());
    }
    if path.exists() {
        return Err(CliError::usage(format!("--far-file: {} is there already and is not overwritten", path.display()))
            .hint("name a folder, or a file that is not there"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(folder.into());
    }
    Err(CliError::usage(format!("--far-file: there is no folder {}", folder.display()))
        .hint("make it, or name another"))
}

/// A refusal, for the user.
fn failure(refused: &Unavailable) -> CliError {
    let status = if refused.not_permitted { CliStatus::NotPermitted } else { CliStatus::Failure };
    CliError::with(status, refused).hint_of(refused.hint.as_deref())
}

/// The program, or the status that says why there is none, as env(1) has them.
fn start(command: &[OsString], expansion: &Expansion) -> Result<Result<ForegroundProcess, ExitCode>, CliError> {
    let entrance = expansion.cgroup_procs().map_err(|error| failure(&error))?;
    Ok(ForegroundProcess::start(command, &entrance).map_err(|error| {
        CliError::of(format!("cannot run '{}': {error}", command[0].display())).print();
        ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
    }))
}

/// How the program ended, and the most that it had far.
struct ExpandExit {
    status: ExitStatus,
    most_far: Bytes,
}

/// Passes signals on until the program and all that it left behind have ended.
fn follow(
    program: &mut ForegroundProcess,
    expansion: &Expansion,
    signals: &Receiver<i32>,
    mut line: StatusLine,
    quiet: bool,
) -> Result<ExpandExit, CliError> {
    let mut most_far = Bytes::default();
    let mut status = None;
    let mut told = false;
    loop {
        let signal = signals.recv_timeout(LOOK).ok();
        if status.is_none() {
            status =
                program.try_wait().map_err(|error| CliError::of(format!("cannot wait for the program: {error}")))?;
        }
        let left = if status.is_some() { expansion.processes() } else { vec![program.id()] };
        if let Some(status) = status.filter(|_| left.is_empty()) {
            line.clear();
            return Ok(ExpandExit { status, most_far });
        }
        if let Some(signal) = signal.filter(|signal| is_for_the_program(*signal)) {
            left.iter().for_each(|pid| foreground::send(*pid, signal));
        }
        if status.is_some() && !told && !quiet {
            told = true;
            eprintln!(
                "nearfar: the program has ended and left processes that go on ({}); waiting for them",
                pids(&left)
            );
        }
        let state = expansion.state();
        most_far = most_far.max(state.held.swap);
        line.show(&state, expansion);
    }
}

/// Signals as they come, and one more for every child that ends, so that nobody waits for a look.
fn signals() -> Result<Receiver<i32>, CliError> {
    let refused = |error: std::io::Error| CliError::of(format!("cannot watch for signals: {error}"));
    let watched = FORWARDED.into_iter().filter(|signal| *signal != SIGHUP || !machine::child::is_ignored(SIGHUP));
    let mut signals = Signals::new(watched.chain([signal_hook::consts::SIGCHLD])).map_err(refused)?;
    let (send, receive) = channel();
    let forward = move || signals.forever().all(|signal| send.send(signal).is_ok());
    std::thread::Builder::new().name("signals".into()).spawn(forward).map_err(refused)?;
    Ok(receive)
}

fn is_for_the_program(signal: i32) -> bool {
    FORWARDED.contains(&signal) && !(OF_THE_TERMINAL.contains(&signal) && foreground::terminal_signals_us())
}

fn pids(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// The line that says how the program stands, where it disturbs nobody.
struct StatusLine {
    bar: Option<ProgressBar>,
    pace: StallRate,
}

/// What waiting for memory took of the last second.
struct StallRate {
    /// When it was looked last, and how many faults and which time stalled were counted until then.
    looked: Option<(Instant, u64, Option<Nanos>)>,
    words: String,
}

impl StallRate {
    fn look(&mut self, faults: u64, stalled: impl FnOnce() -> Option<Nanos>) {
        if self.looked.is_some_and(|(then, ..)| then.elapsed() < PACE) {
            return;
        }
        let now = (Instant::now(), faults, stalled());
        if let Some(before) = self.looked.replace(now) {
            let seconds = now.0.duration_since(before.0).as_secs_f64();
            let rate = faults.saturating_sub(before.1) as f64 / seconds;
            self.words = match (now.2, before.2) {
                (Some(now), Some(before)) => {
                    let share = (now.0.saturating_sub(before.0) as f64 / 1e9 / seconds).min(1.0);
                    format!(" ({rate:.0}/s, stalled {:.0} % of the time)", 100.0 * share)
                }
                _ => format!(" ({rate:.0}/s)"),
            };
        }
    }
}

impl StatusLine {
    fn new(wanted: bool, quiet: bool) -> Self {
        let alone = std::io::stderr().is_terminal() && !std::io::stdout().is_terminal();
        let style = || ProgressStyle::with_template("{elapsed} {msg}").expect("the template is constant and right");
        let bar = (!quiet && (wanted || alone)).then(|| ProgressBar::new_spinner().with_style(style()));
        Self { bar, pace: StallRate { looked: None, words: String::new() } }
    }

    fn show(&mut self, state: &ExpansionStatus, expansion: &Expansion) {
        if let Some(bar) = &self.bar {
            self.pace.look(state.held.major_faults, || expansion.stalled());
            let near = Bytes(state.held.anonymous.0 + state.held.file.0);
            let (far, waits, pace) = (state.held.swap, state.held.major_faults, &self.pace.words);
            let mut text = format!("near {near}, far {far}, {waits} waits{pace}");
            if let Some(counts) = state.piloted.map(|piloted| piloted.counts) {
                text = format!("{text}, {} ahead", fetched(counts.fetched, counts.used));
            }
            bar.set_message(text);
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Pages fetched, and how many of them were used; that is a sample, and may come out above all of them.
fn fetched(pages: u64, used: u64) -> String {
    let share = if pages == 0 { 0.0 } else { (used as f64 / pages as f64).min(1.0) };
    format!("{} fetched ({:.0} % used)", Bytes(pages * page()), share * 100.0)
}

fn page() -> u64 {
    farmem::page_bytes()
}

impl Summary {
    fn in_words(&self) -> String {
        let ExpansionStatus { held, far_read, far_written, killed, piloted } = &self.state;
        let mut text = format!(
            "{:.1} s in {} of DRAM, at most {} far; {} page faults waited, {far_read} read and {far_written} written",
            self.wall.as_secs_f64(),
            self.dram,
            self.most_far,
            held.major_faults
        );
        if let Some(piloted) = piloted {
            let counts = piloted.counts;
            let share = 100.0 * piloted.cpu / piloted.elapsed.max(1e-9);
            text = format!(
                "{text}; {} ahead, {} paged out behind, pilot {share:.0} % of a cpu",
                fetched(counts.fetched, counts.used),
                Bytes(piloted.paged_out)
            );
            if piloted.refused > 0 {
                text = format!("{text}, {} of its orders refused by the kernel", piloted.refused);
            }
        }
        if *killed > 0 {
            text = format!(
                "{text}\nnearfar: the kernel ended {killed} of its processes because it found nothing more to page out\nhint: a larger --dram, or a larger --far-size if far memory was full"
            );
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let ExpansionStatus { held, far_read, far_written, killed, piloted } = &self.state;
        let piloted = piloted.map(|piloted| {
            serde_json::json!({
                "cpu_seconds": piloted.cpu,
                "fetched_bytes": piloted.counts.fetched * page(),
                "used_bytes": piloted.counts.used * page(),
                "lost_bytes": piloted.counts.lost * page(),
                "paged_out_bytes": piloted.paged_out,
                "faults": {"major": piloted.counts.major, "minor_seen": piloted.counts.minor_seen, "matched": piloted.counts.matched},
                "streams": {"found": piloted.counts.streams, "stepping": piloted.counts.stepping},
                "rests": piloted.counts.rests,
                "suspensions": piloted.counts.suspensions,
                "backoffs": piloted.naps,
                "rescues": piloted.rescues,
                "throttled": piloted.throttled,
                "advice_rejected": piloted.refused,
                "samples_lost": piloted.lost,
            })
        });
        serde_json::json!({
            "engine": if piloted.is_some() { "steered" } else { "plain" },
            "dram_bytes": self.dram,
            "wall_seconds": self.wall.as_secs_f64(),
            "far_bytes_max": self.most_far,
            "faults_major": held.major_faults,
            "far_read_bytes": far_read,
            "far_written_bytes": far_written,
            "killed": killed,
            "pilot": piloted,
        })
    }
}
