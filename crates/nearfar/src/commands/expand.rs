//! `nearfar expand`: runs a program with less DRAM than it needs. The program keeps the terminal, the standard streams
//! and the exit status; messages go to stderr, the summary also to a file. With a server, the server has the limit, and
//! its load is the program in the foreground.

mod server;

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use farmem::trace::Trace;
use farmem::{CompressionMode, Expansion, ExpansionLimits, ExpansionStatus, PagingMode, Unavailable};
use indicatif::{ProgressBar, ProgressStyle};
use machine::child::ServerCommand;
use machine::foreground::{self, ForegroundProcess};
use model::values::record::RunSummary;
use model::values::units::{Bytes, Nanos, parse_share};
use signal_hook::consts::SIGTERM;

use crate::app::forwarded_signals::{self, is_forwarded};
use crate::app::run_guard::site;
use crate::app::size::measured_need;
use crate::app::target_machine::far_site;
use crate::cli::{CompressedName, EngineName, ExpandArgs, FarArgs, GlobalArgs};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{results_file, server_and_load};

use self::server::{server_command, with_limited_server};

/// Interval between status updates.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval over which the rate of page faults is computed.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

struct Summary {
    dram: Bytes,
    wall: Duration,
    peaks: Peaks,
    state: ExpansionStatus,
}

/// Largest use of memory beyond that of pages in use.
#[derive(Clone, Copy, Default)]
struct Peaks {
    /// Evicted memory, compressed or on disk.
    far: Bytes,
    /// Evicted memory that was kept compressed, before compression.
    compressed: Bytes,
    /// DRAM that the compressed memory used.
    compressed_dram: Bytes,
}

impl Peaks {
    fn update(&mut self, state: &ExpansionStatus) {
        self.far = self.far.max(state.held.swap);
        let compressed = state.compressed.unwrap_or_default();
        self.compressed = self.compressed.max(compressed.held);
        self.compressed_dram = self.compressed_dram.max(compressed.dram);
    }
}

/// The program in the foreground, and its server, which then has the limit.
struct ExpandedCommands {
    program: Vec<OsString>,
    server: Option<ServerCommand>,
}

/// Runs a program with a limit on its DRAM.
pub fn run(args: &ExpandArgs, common: &GlobalArgs) -> CommandResult {
    let commands = commands(args, common.quiet)?;
    let limits = limits(args, common)?;
    let servers = commands.server.iter().map(|server| &server.launch.argv[0]);
    for name in servers.chain([&commands.program[0]]) {
        if let Err(error) = machine::child::find_program(&name.to_string_lossy()) {
            CliError::failure(&error).print();
            return Ok(ExitCode::from(127));
        }
    }
    let trace = args.trace.as_deref().map(create_trace).transpose()?;
    // First: an unhandled signal would end this process and leave the program, the cgroup and the swap device behind.
    let signals = forwarded_signals::receive()?;
    let expansion =
        Expansion::start_recorded(&limits, &site(None).own(), trace.clone()).map_err(|error| failure(&error))?;
    warn_of_other_swap(&expansion, common.quiet);
    let exit = match execute(&commands, &expansion, signals, args.live, common.quiet)? {
        Ok(exit) => exit,
        Err(status) => return Ok(status),
    };
    let dram = expansion.dram();
    let (state, restored) = expansion.stop();
    restored.iter().filter(|restored| !restored.is_settled()).for_each(|restored| message!("nearfar: {restored}"));
    // An incomplete trace or summary does not change the exit status, which is that of the program.
    if let Some(Err(error)) = trace.map(|trace| trace.finish()) {
        CliError::failure(format!("the trace is incomplete: {error}")).print();
    }
    let summary = Summary { dram, wall: exit.wall, peaks: exit.peaks, state };
    if !common.quiet {
        message!("nearfar: {}", summary.describe());
    }
    if let Some(Err(error)) = args.summary.as_deref().map(|path| output::write(path, &summary.text())) {
        error.print();
    }
    foreground::exit_like(exit.status)
}

/// The kernel fills swap areas of one priority in turn.
fn warn_of_other_swap(expansion: &Expansion, is_quiet: bool) {
    let others = expansion.other_swap();
    if !others.is_empty() && !is_quiet {
        message!(
            "nearfar: warning: the program's pages may also go to {}, which has the same swap priority or a higher one; \
             traffic does not include it, and it may be slower or full",
            others.join(", ")
        );
    }
}

/// Returns the commands to run.
fn commands(args: &ExpandArgs, quiet: bool) -> Result<ExpandedCommands, CliError> {
    if !args.server.has_server() {
        if args.server.ready.is_some() {
            return Err(CliError::usage("--ready requires --server or --load"));
        }
        return Ok(ExpandedCommands { program: args.command.clone(), server: None });
    }
    let served = server_and_load(&args.server, &utf8(&args.command)?)?;
    let server = served.server.map(|argv| server_command(&argv, &args.server, quiet)).transpose()?;
    Ok(ExpandedCommands { program: served.measured.into_iter().map(Into::into).collect(), server })
}

fn utf8(words: &[OsString]) -> Result<Vec<String>, CliError> {
    let word = |word: &OsString| {
        word.to_str().map(String::from).ok_or_else(|| {
            CliError::usage(format!("'{}': with a server, the arguments must be UTF-8", word.to_string_lossy()))
        })
    };
    words.iter().map(word).collect()
}

/// Runs the commands. The inner error is the exit status if the program cannot be started.
fn execute(
    commands: &ExpandedCommands,
    expansion: &Expansion,
    signals: Receiver<i32>,
    is_live: bool,
    is_quiet: bool,
) -> Result<Result<ExpandExit, ExitCode>, CliError> {
    let (program, line) = (&commands.program, StatusLine::new(is_live, is_quiet));
    let Some(server) = &commands.server else {
        let cgroup_procs = expansion.cgroup_procs().map_err(|error| failure(&error))?;
        return match start(program, Some(&cgroup_procs)) {
            Ok(program) => supervise(program, expansion, &signals, line, is_quiet).map(Ok),
            Err(status) => Ok(Err(status)),
        };
    };
    with_limited_server(server, expansion, signals, |signals, ended| match start(program, None) {
        Ok(load) => supervise_load(load, expansion, signals, ended, line).map(Ok),
        Err(status) => Ok(Err(status)),
    })
}

fn create_trace(path: &Path) -> Result<Trace, CliError> {
    Trace::create(path).map_err(|error| CliError::failure(format!("cannot create {}: {error}", path.display())))
}

/// Returns the limits that the options request.
fn limits(args: &ExpandArgs, common: &GlobalArgs) -> Result<ExpansionLimits, CliError> {
    let dram = dram(args, common)?;
    let engine = match args.engine {
        EngineName::Steered => PagingMode::Steered,
        EngineName::Kernel => PagingMode::Plain,
    };
    let compressed = match args.compressed {
        CompressedName::Never => CompressionMode::Never,
        CompressedName::Auto => CompressionMode::Auto,
        CompressedName::Always => CompressionMode::Always,
    };
    with_far(&ExpansionLimits { engine, compressed, ..ExpansionLimits::of(dram) }, &args.far)
}

/// Parses `--dram`: a size, or a percentage of the peak memory.
fn dram(args: &ExpandArgs, common: &GlobalArgs) -> Result<Bytes, CliError> {
    let text = args.dram.trim();
    if !text.ends_with('%') {
        return Bytes::parse(text)
            .map_err(|error| CliError::usage(format!("--dram: {error}, or a percentage such as 50%")));
    }
    let share = parse_share(text).map_err(|error| CliError::usage(format!("--dram: {error}")))?;
    let share_of = |peak: Bytes| Bytes((peak.0 as f64 * share) as u64);
    if let Some(peak) = args.peak {
        return Ok(share_of(peak));
    }
    let Some((run, peak)) = stored_need(args, common)? else {
        return Err(CliError::usage(format!("--dram {text}: the peak memory of this command line is unknown"))
            .hint("set it with --peak SIZE, or measure it with nearfar size -- CMD"));
    };
    if !common.quiet {
        let when = report::number::date(run.started_unix_ms);
        let id = &run.id.0[..run.id.0.len().min(8)];
        message!("nearfar: {} of DRAM: {text} of the peak of {peak} in run {id} ({when})", share_of(peak));
    }
    Ok(share_of(peak))
}

/// Returns the newest run of `nearfar size` for exactly these command lines, and the measured peak.
fn stored_need(args: &ExpandArgs, common: &GlobalArgs) -> Result<Option<(RunSummary, Bytes)>, CliError> {
    let results = results_file(common);
    let Some(argv) = utf8(&args.command).ok().filter(|_| results.may_exist().is_ok_and(|may| may)) else {
        return Ok(None);
    };
    let commands = server_and_load(&args.server, &argv)?;
    measured_need(&results.open_existing()?, &commands.measured, commands.server.as_deref())
}

/// Adds the options of far memory.
fn with_far(limits: &ExpansionLimits, far: &FarArgs) -> Result<ExpansionLimits, CliError> {
    Ok(ExpansionLimits {
        directory: far.path.as_deref().map_or_else(|| Ok(far_site().directory), far_dir)?,
        far: far.size.unwrap_or(limits.far),
        shred: far.shred,
        allow_unencrypted: far.allow_unencrypted,
        ..limits.clone()
    })
}

/// Returns the directory for the swap file. The file is unnamed, so that the kernel frees it with its last user; of the
/// path of a file, only the directory is used.
fn far_dir(path: &Path) -> Result<PathBuf, CliError> {
    if path.is_dir() {
        return Ok(path.into());
    }
    if path.exists() {
        return Err(CliError::usage(format!("--far-path: {} already exists and is not overwritten", path.display()))
            .hint("use a directory, or the path of a file that does not exist"));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if dir.is_dir() {
        return Ok(dir.into());
    }
    Err(CliError::usage(format!("--far-path: the directory {} does not exist", dir.display()))
        .hint("create it, or use another directory"))
}

/// Converts an error of the expansion.
fn failure(error: &Unavailable) -> CliError {
    let status = if error.not_permitted { CliStatus::NotPermitted } else { CliStatus::Failure };
    CliError::with(status, error)
}

/// Starts the program, in the cgroup if there is one. The error is the exit status of a failure, with the values of
/// env(1).
fn start(command: &[OsString], cgroup_procs: Option<&File>) -> Result<ForegroundProcess, ExitCode> {
    ForegroundProcess::start(command, cgroup_procs).map_err(|error| {
        CliError::failure(format!("cannot run '{}': {error}", command[0].display())).print();
        ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
    })
}

/// End of the program, its wall time, and the peaks of far memory.
struct ExpandExit {
    status: ExitStatus,
    wall: Duration,
    peaks: Peaks,
}

/// Forwards signals until the load has ended. If the server ends first, the load gets SIGTERM.
fn supervise_load(
    mut load: ForegroundProcess,
    expansion: &Expansion,
    signals: &Receiver<i32>,
    server_ended: &AtomicBool,
    mut line: StatusLine,
) -> Result<ExpandExit, CliError> {
    let started = Instant::now();
    let (mut peaks, mut is_told) = (Peaks::default(), false);
    loop {
        let signal = signals.recv_timeout(POLL_INTERVAL).ok();
        if let Some(status) = load.try_wait().map_err(|error| wait_error(&error))? {
            line.clear();
            return Ok(ExpandExit { status, wall: started.elapsed(), peaks });
        }
        if let Some(signal) = signal.filter(|signal| is_forwarded(*signal)) {
            load.signal(signal);
        }
        if server_ended.load(Ordering::Relaxed) && !is_told {
            is_told = true;
            load.signal(SIGTERM);
        }
        let state = expansion.state();
        peaks.update(&state);
        line.show(&state, expansion);
    }
}

fn wait_error(error: &std::io::Error) -> CliError {
    CliError::failure(format!("cannot wait for the program: {error}"))
}

/// Forwards signals until the program and all processes that it left behind have ended.
fn supervise(
    mut program: ForegroundProcess,
    expansion: &Expansion,
    signals: &Receiver<i32>,
    mut line: StatusLine,
    quiet: bool,
) -> Result<ExpandExit, CliError> {
    let started = Instant::now();
    let mut peaks = Peaks::default();
    let mut status = None;
    let mut is_announced = false;
    loop {
        let signal = signals.recv_timeout(POLL_INTERVAL).ok();
        if status.is_none() {
            status = program.try_wait().map_err(|error| wait_error(&error))?;
        }
        let processes = if status.is_some() { expansion.processes() } else { vec![program.id()] };
        if let Some(status) = status.filter(|_| processes.is_empty()) {
            line.clear();
            return Ok(ExpandExit { status, wall: started.elapsed(), peaks });
        }
        if let Some(signal) = signal.filter(|signal| is_forwarded(*signal)) {
            processes.iter().for_each(|pid| foreground::send(*pid, signal));
        }
        if status.is_some() && !is_announced && !quiet {
            is_announced = true;
            message!(
                "nearfar: the program has ended, but processes that it started are still running ({}); waiting for them",
                pids(&processes)
            );
        }
        let state = expansion.state();
        peaks.update(&state);
        line.show(&state, expansion);
    }
}

fn pids(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// The status line. By default it is shown only if the program does not write to the same terminal.
struct StatusLine {
    bar: Option<ProgressBar>,
    rate: StallRate,
}

/// Rate of page faults and share of time stalled on memory over the last interval.
struct StallRate {
    /// Time of the last update, and the faults and stalled time counted until then.
    last: Option<(Instant, u64, Option<Nanos>)>,
    text: String,
}

impl StallRate {
    fn update(&mut self, faults: u64, stalled: impl FnOnce() -> Option<Nanos>) {
        if self.last.is_some_and(|(then, ..)| then.elapsed() < RATE_INTERVAL) {
            return;
        }
        let now = (Instant::now(), faults, stalled());
        if let Some(before) = self.last.replace(now) {
            let seconds = now.0.duration_since(before.0).as_secs_f64();
            let rate = faults.saturating_sub(before.1) as f64 / seconds;
            self.text = match (now.2, before.2) {
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
    fn new(forced: bool, quiet: bool) -> Self {
        let is_separate = std::io::stderr().is_terminal() && !std::io::stdout().is_terminal();
        let style = || ProgressStyle::with_template("{elapsed} {msg}").expect("the template is valid");
        let bar = (!quiet && (forced || is_separate)).then(|| ProgressBar::new_spinner().with_style(style()));
        Self { bar, rate: StallRate { last: None, text: String::new() } }
    }

    fn show(&mut self, state: &ExpansionStatus, expansion: &Expansion) {
        if let Some(bar) = &self.bar {
            self.rate.update(state.held.major_faults, || expansion.stalled());
            let near = Bytes(state.held.anonymous.0 + state.held.file.0);
            let (far, faults, rate) = (state.held.swap, state.held.major_faults, &self.rate.text);
            let mut text = format!("near {near}, far {far}, {faults} faults waited{rate}");
            if let Some(compressed) = state.compressed.filter(|compressed| compressed.dram.0 > 0) {
                text = format!("{text}, {} of it compressed in {}", compressed.held, compressed.dram);
            }
            if let Some(counts) = state.piloted.map(|piloted| piloted.counts) {
                text = format!("{text}, {}", prefetched(counts.fetched, counts.used));
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

/// Describes prefetched pages and the share that was used. The share is estimated from a sample and may exceed 100 %.
fn prefetched(pages: u64, used: u64) -> String {
    let share = if pages == 0 { 0.0 } else { (used as f64 / pages as f64).min(1.0) };
    format!("{} prefetched ({:.0} % used)", Bytes(pages * page()), share * 100.0)
}

fn page() -> u64 {
    farmem::page_bytes()
}

impl Summary {
    fn describe(&self) -> String {
        let ExpansionStatus { held, far_read, far_written, killed, piloted, .. } = &self.state;
        let mut text = format!(
            "{:.1} s with {} of DRAM, at most {} far; {} page faults waited, {far_read} read, {far_written} written",
            self.wall.as_secs_f64(),
            self.dram,
            self.peaks.far,
            held.major_faults
        );
        if self.peaks.compressed.0 > 0 {
            let Peaks { compressed, compressed_dram, .. } = self.peaks;
            text = format!("{text}; at most {compressed} compressed in {compressed_dram} of the DRAM");
            if let Some(cpu) = self.state.compressing_cpu {
                let share = 100.0 * cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9);
                text = format!("{text}, with {share:.0} % of a CPU");
            }
        }
        if let Some(piloted) = piloted {
            let counts = piloted.counts;
            let share = 100.0 * piloted.cpu / piloted.elapsed.max(1e-9);
            text = format!(
                "{text}; {}, {} evicted, paging controller {share:.0} % of a CPU",
                prefetched(counts.fetched, counts.used),
                Bytes(piloted.paged_out)
            );
            if piloted.refused > 0 {
                text = format!("{text}, {} of its advice calls rejected by the Linux kernel", piloted.refused);
            }
        }
        if *killed > 0 {
            text = format!(
                "{text}\nnearfar: the Linux kernel killed {killed} of its processes because it could not free memory\nhint: increase --dram, or --far-size if far memory was full"
            );
        }
        text
    }

    /// The text of `--summary`.
    fn text(&self) -> String {
        format!("{:#}\n", self.json())
    }

    fn json(&self) -> serde_json::Value {
        let ExpansionStatus { held, far_read, far_written, killed, piloted, compressing_cpu, compressed } = &self.state;
        let compressed = compressed.map(|compressed| {
            serde_json::json!({
                "bytes_max": self.peaks.compressed,
                "dram_bytes_max": self.peaks.compressed_dram,
                "stored_bytes": compressed.traffic.stored,
                "loaded_bytes": compressed.traffic.loaded,
                "written_back_bytes": compressed.traffic.written_back,
                "cpu_seconds": compressing_cpu.map(|cpu| cpu.as_secs_f64()),
            })
        });
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
            "far_bytes_max": self.peaks.far,
            "faults_major": held.major_faults,
            "far_read_bytes": far_read,
            "far_written_bytes": far_written,
            "killed": killed,
            "compressed": compressed,
            "pilot": piloted,
        })
    }
}
