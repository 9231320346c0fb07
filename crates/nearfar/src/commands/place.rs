//! `nearfar place`: the best placement of the user's own command, found by racing.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use model::analysis::place::{Claim, Objective, PlaceRequest, PlaceResult};
use model::placements::candidates::{SearchSpace, Threads};
use model::placements::placement::{Placement, PlacementError, check_movable};
use model::stats::racing::Rules;
use model::values::id_set::CpuSet;
use model::values::plan::Plan;
use model::values::record::{RunRecord, SavedPlacement};
use model::values::shell::quote_argv;
use model::values::units::{Nanos, parse_share};
use model::values::workload::WorkloadSpec;
use store::Store;
use workloads::{CpuTimes, Runner, TrialContext};

use crate::catalogue::PlacementCatalogue;
use crate::cli::{self, GlobalArgs, PlaceArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::run_guard::RunGuard;
use crate::session::{check, execute, resume_or_begin};
use crate::target_machine::{TargetMachine, existing_store};

/// The word that stands for the number of threads.
const THREADS: &str = "{threads}";

/// Finds the best placement, or applies one that was found before.
pub fn run(args: &PlaceArgs, common: &GlobalArgs) -> CommandResult {
    if let Some(name) = &args.then.used {
        return use_saved(name, args, common);
    }
    check_then(args)?;
    let question = question(args)?;
    if args.decided.explain {
        return explain(&PlaceContext::prepared(args, &question, common)?.plan, args.format);
    }
    let (hold, asked) = RunGuard::acquire(&args.hold, common, args.subject.sim.is_some(), || {
        let asked = PlaceContext::prepared(args, &question, common)?;
        check(&asked.plan, &asked.subject)?;
        Ok(asked)
    })?;
    let mut store = asked.subject.open_store(common)?;
    let (mut record, mut answer) = race(&mut store, &asked.subject, asked.plan.clone(), &hold, args, common)?;
    if let Some(plan) = refined(args, &asked, &record, &answer)? {
        (record, answer) = race(&mut store, &asked.subject, plan, &hold, args, common)?;
    }
    hold.release();
    show(&record, &answer, args.format)?;
    let decided = matches!(answer.claim, Claim::Better | Claim::KernelIsBest | Claim::NoDifferenceSeen);
    if let Some(winner) = winner(&record, &answer).filter(|_| decided) {
        if let Some(name) = &args.then.save {
            save(&mut store, name, &record, winner, common.quiet)?;
        }
        if args.then.apply {
            return Err(become_command(args, winner));
        }
    } else if args.then.apply || args.then.save.is_some() {
        eprintln!("nearfar: nothing is decided, so nothing was kept or started");
    }
    Ok(status(answer.claim, record.ended.is_none()))
}

/// The machine, what is asked of it, and the race of what it offers.
struct PlaceContext {
    subject: TargetMachine,
    offering: PlacementCatalogue,
    question: PlaceRequest,
    plan: Plan,
}

impl PlaceContext {
    fn prepared(args: &PlaceArgs, question: &PlaceRequest, common: &GlobalArgs) -> Result<Self, CliError> {
        let mut question = question.clone();
        let subject = TargetMachine::from_flags(&args.subject)?;
        let offering = PlacementCatalogue::of(&subject, &args.by, common)?;
        question.wish.measured.clone_from(&offering.classes);
        check_movable(&offering.topology, &args.tried.devices).map_err(|none| match none {
            PlacementError::Mistake(why) => CliError::usage(why),
            PlacementError::Unavailable(why) => CliError::with(CliStatus::Skipped, why),
        })?;
        let mut plan = question.plan(&offering.topology, &command_spec()).map_err(CliError::usage)?;
        plan.command = words(args, &offering);
        Ok(Self { subject, offering, question, plan })
    }
}

fn race(
    store: &mut Store,
    subject: &TargetMachine,
    plan: Plan,
    hold: &RunGuard,
    args: &PlaceArgs,
    common: &GlobalArgs,
) -> Result<(RunRecord, PlaceResult), CliError> {
    let record = resume_or_begin(store, subject, plan, args.decided.fresh, common.quiet)?;
    execute(store, &record, subject, hold, common.quiet)?;
    // What ended it is in the store by now.
    let record = store.run(&record.id.0).map_err(CliError::of)?;
    let trials = store.trials(&record.id).map_err(CliError::of)?;
    let answer = PlaceResult::of(&record, &trials).ok_or_else(|| CliError::of("the plan of this run is no race"))?;
    Ok((record, answer))
}

fn command_spec() -> WorkloadSpec {
    (workloads::find("command").expect("it is in the registry").describe)()
}

/// The race around the winner, where it was asked for and there is something around it.
fn refined(
    args: &PlaceArgs,
    asked: &PlaceContext,
    record: &RunRecord,
    answer: &PlaceResult,
) -> Result<Option<Plan>, CliError> {
    let Some(winner) = winner(record, answer).filter(|winner| args.tried.refine && winner.is_pinned()) else {
        return Ok(None);
    };
    let (reference, topology) = (&record.plan.cells[0].placement, &asked.offering.topology);
    let plan = asked.question.refined(reference, winner, topology, &command_spec()).map_err(CliError::usage)?;
    Ok(plan.map(|plan| Plan { command: record.plan.command.clone(), ..plan }))
}

fn question(args: &PlaceArgs) -> Result<PlaceRequest, CliError> {
    let measured = args.ran.with.as_deref().map_or(Ok(args.command.clone()), |load| split("--with", load))?;
    let program = measured.first().map_or("", |program| program.rsplit('/').next().unwrap_or(program));
    Ok(PlaceRequest {
        name: program.to_string(),
        given: parameters(args)?,
        objective: objective(args),
        wish: wish(args)?,
        rules: Rules {
            indifference: parse_share(&args.decided.indifference)
                .map_err(|why| CliError::usage(format!("--indifference: {why}")))?,
            strict: args.decided.strict,
            max_trials: args.decided.max_trials,
        },
        budget: time("--budget", &args.decided.budget)?,
        time_limit: time("--time-limit", &args.ran.time_limit)?,
    })
}

fn time(flag: &str, text: &str) -> Result<Nanos, CliError> {
    match Nanos::parse(text) {
        Ok(Nanos(0)) => Err(CliError::usage(format!("{flag} {text} is no time at all"))),
        Ok(time) => Ok(time),
        Err(why) => Err(CliError::usage(format!("{flag}: {why}"))),
    }
}

fn objective(args: &PlaceArgs) -> Objective {
    match (
        args.best.metric.is_some() || args.best.metric_json.is_some(),
        args.best.higher_is_better,
        args.best.objective,
    ) {
        (true, true, _) => Objective::NumberHigher,
        (true, false, _) => Objective::Number,
        (false, _, cli::Objective::WallTime) => Objective::WallTime,
        (false, _, cli::Objective::CpuTime) => Objective::CpuTime,
        (false, _, cli::Objective::PeakMemory) => Objective::PeakMemory,
    }
}

/// What the workload `command` is told.
fn parameters(args: &PlaceArgs) -> Result<BTreeMap<String, String>, CliError> {
    let list = |words: &[String]| serde_json::json!(words).to_string();
    let line = |flag: &str, text: &String| {
        // With a shell the text is the shell's.
        if args.ran.shell { Ok(text.clone()) } else { split(flag, text).map(|words| list(&words)) }
    };
    let command = if args.ran.shell { args.command.join(" ") } else { list(&args.command) };
    let (argv, server) = match (&args.ran.with, &args.ran.server) {
        (Some(load), _) => (line("--with", load)?, Some(command)),
        (None, server) => (command, server.as_ref().map(|server| line("--server", server)).transpose()?),
    };
    let switch = |on: bool| Some(on.to_string());
    let given = [
        ("argv", Some(argv)),
        ("server", server),
        ("ready", args.ran.ready.clone()),
        ("prepare", args.ran.prepare.as_ref().map(|text| line("--prepare", text)).transpose()?),
        ("cleanup", args.ran.cleanup.as_ref().map(|text| line("--cleanup", text)).transpose()?),
        ("warmup", Some(args.ran.warmup.to_string())),
        ("shell", switch(args.ran.shell)),
        ("openmp", switch(args.ran.openmp)),
        ("ignore-failure", switch(args.ran.ignore_failure)),
        ("metric", args.best.metric.clone()),
        ("metric-json", args.best.metric_json.clone()),
        ("higher-is-better", switch(args.best.higher_is_better)),
    ];
    Ok(given.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect())
}

/// A command given as one text, taken apart as a shell would, with nothing replaced in it.
fn split(flag: &str, text: &str) -> Result<Vec<String>, CliError> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words
        .ok_or_else(|| CliError::usage(format!("{flag} '{text}' is no command: it is empty, or a quote is not closed")))
}

fn wish(args: &PlaceArgs) -> Result<SearchSpace, CliError> {
    let texts = [&args.ran.server, &args.ran.with].into_iter().flatten().chain(&args.command);
    let free = texts.into_iter().any(|text| text.contains(THREADS));
    let threads = match (args.tried.threads, free) {
        (Some(0), _) => return Err(CliError::usage("--threads 0: a command runs on at least 1 thread")),
        (Some(threads), _) => Threads::Fixed(threads),
        (None, true) => Threads::Searched,
        (None, false) => Threads::Unspecified,
    };
    let within = args.tried.within.as_ref().map(|list| CpuSet::parse_list(list)).transpose();
    Ok(SearchSpace {
        threads,
        cpus_max: args.tried.cpus_max,
        within: within.map_err(|error| CliError::usage(format!("-C: {error}")))?,
        only: args.tried.only.clone(),
        exclude: args.tried.exclude.clone(),
        devices: args.tried.devices.clone(),
        second: args.ran.server.is_some() || args.ran.with.is_some(),
        kernel: workloads::offers(),
        ..SearchSpace::default()
    })
}

/// The words that ask for the same plan again.
fn words(args: &PlaceArgs, offering: &PlacementCatalogue) -> Vec<String> {
    let mut words = vec!["place".to_string()];
    words.extend(offering.words());
    let mut flag = |name: &str, value: &Option<String>| {
        words.extend(value.iter().flat_map(|value| [name.to_string(), value.clone()]));
    };
    flag("--threads", &args.tried.threads.map(|threads| threads.to_string()));
    flag("-C", &args.tried.within);
    flag("--cpus-max", &args.tried.cpus_max.map(|most| most.to_string()));
    args.tried.only.iter().for_each(|policy| flag("--only", &Some(policy.clone())));
    args.tried.exclude.iter().for_each(|what| flag("--exclude", &Some(what.clone())));
    args.tried.devices.iter().for_each(|device| flag("--device", &Some(device.clone())));
    flag("--server", &args.ran.server);
    flag("--with", &args.ran.with);
    flag("--ready", &args.ran.ready);
    flag("--prepare", &args.ran.prepare);
    flag("--cleanup", &args.ran.cleanup);
    flag("--warmup", &(args.ran.warmup > 0).then(|| args.ran.warmup.to_string()));
    flag("--time-limit", &Some(args.ran.time_limit.clone()));
    flag("--metric", &args.best.metric);
    flag("--metric-json", &args.best.metric_json);
    flag("--indifference", &Some(args.decided.indifference.clone()));
    flag("--budget", &Some(args.decided.budget.clone()));
    flag("--max-trials", &args.decided.max_trials.map(|most| most.to_string()));
    let objective = match args.best.objective {
        cli::Objective::WallTime => None,
        cli::Objective::CpuTime => Some("cpu-time".to_string()),
        cli::Objective::PeakMemory => Some("peak-memory".to_string()),
    };
    flag("--objective", &objective);
    let switches = [
        ("--shell", args.ran.shell),
        ("--openmp", args.ran.openmp),
        ("--ignore-failure", args.ran.ignore_failure),
        ("--higher-is-better", args.best.higher_is_better),
        ("--strict", args.decided.strict),
        ("--refine", args.tried.refine),
    ];
    words.extend(switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_string()));
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    words
}

fn explain(plan: &Plan, format: TextOrJson) -> CommandResult {
    let steps = plan.race.as_ref().map_or(&[][..], |race| &race.steps);
    match format {
        TextOrJson::Json => output::print_json(&report::json::explanation(plan, steps))?,
        TextOrJson::Text => output::print(&report::table::explanation(plan, steps, &output::look()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(record: &RunRecord, answer: &PlaceResult, format: TextOrJson) -> Result<(), CliError> {
    match format {
        TextOrJson::Json => output::print_json(&report::json::answer(record, answer)),
        TextOrJson::Text => output::print(&report::table::answer(record, answer, &output::look())),
    }
}

fn status(claim: Claim, interrupted: bool) -> ExitCode {
    match claim {
        _ if interrupted => CliStatus::Interrupted.into(),
        Claim::Better | Claim::KernelIsBest | Claim::NoDifferenceSeen => ExitCode::SUCCESS,
        Claim::Inconclusive | Claim::Unfinished => CliStatus::Inconclusive.into(),
        Claim::NoReference => CliStatus::Failure.into(),
    }
}

fn winner<'a>(record: &'a RunRecord, answer: &PlaceResult) -> Option<&'a Placement> {
    let winner = answer.winner.as_ref()?;
    let mut placements = record.plan.cells.iter().map(|cell| &cell.placement);
    placements.find(|placement| placement.name == winner.placement)
}

fn save(store: &mut Store, name: &str, record: &RunRecord, winner: &Placement, quiet: bool) -> Result<(), CliError> {
    store.save_placement(&SavedPlacement::new(name, record, winner)).map_err(CliError::of)?;
    if !quiet {
        eprintln!("kept as {name}: nearfar place --use {} -- COMMAND applies it", quote_argv(&[name]));
    }
    Ok(())
}

/// What can be kept or started must have been measured here.
fn check_then(args: &PlaceArgs) -> Result<(), CliError> {
    if args.subject.sim.is_some() && (args.then.apply || args.then.save.is_some()) {
        return Err(CliError::usage(
            "--save and --apply are for placements that were measured, and --sim measures none",
        ));
    }
    match &args.then.save {
        Some(name) if name.trim().is_empty() => Err(CliError::usage("--save '': a placement is kept under a name")),
        _ => Ok(()),
    }
}

/// Applies a placement that was kept, and says when the machine is another since.
fn use_saved(name: &str, args: &PlaceArgs, common: &GlobalArgs) -> CommandResult {
    let saved = existing_store(common)?.saved_placement(name).map_err(CliError::usage)?;
    let here = TargetMachine::from_flags(&args.subject)?;
    for change in saved.changes(&here.machine) {
        eprintln!("nearfar: since {name} was measured, {change}; measure again to be sure");
    }
    Err(become_command(args, &saved.placement))
}

/// Turns this process into the command, seated. Comes back only when that fails.
fn become_command(args: &PlaceArgs, placement: &Placement) -> CliError {
    let words = match argv(args, placement) {
        Ok(words) => words,
        Err(failure) => return failure,
    };
    if placement.is_pinned() {
        match machine::affinity::pin_to_any(&placement.cpus()) {
            Ok(mask) if mask == placement.cpus() => {}
            Ok(mask) => {
                let what = format!("asked for cpus {}, the kernel gave {mask}", placement.cpus());
                return CliError::with(CliStatus::NotPermitted, what)
                    .hint("this machine has others; measure again here");
            }
            Err(error) => return CliError::with(CliStatus::NotPermitted, error).hint("measure again on this machine"),
        }
    }
    if let Err(refusal) = machine::affinity::set_memory_policy(&placement.memory) {
        return CliError::with(CliStatus::NotPermitted, refusal);
    }
    let error = std::process::Command::new(&words[0]).args(&words[1..]).exec();
    CliError::of(format!("cannot run '{}': {error}", words[0]))
}

/// The command as a trial would run it, with what stands for the placement filled in.
fn argv(args: &PlaceArgs, placement: &Placement) -> Result<Vec<String>, CliError> {
    let list = if args.ran.shell { args.command.join(" ") } else { serde_json::json!(args.command).to_string() };
    let given = BTreeMap::from([("argv".to_string(), list), ("shell".to_string(), args.ran.shell.to_string())]);
    let parameters = command_spec().resolve(&given, None).map_err(CliError::usage)?;
    let job = TrialContext {
        parameters,
        threads: placement.threads,
        seats: placement.seats.clone(),
        server_cpus: placement.second.clone(),
        memory: placement.memory.clone(),
        seed: 0,
        time_limit: Nanos(0),
        meanwhile: CpuTimes::default(),
    };
    match &workloads::find("command").expect("it is in the registry").runner {
        Runner::Tool { recipe, .. } => Ok(recipe(&job).map_err(CliError::usage)?.command.argv),
        Runner::Kernel(_) => Err(CliError::of("the workload command is no tool")),
    }
}
