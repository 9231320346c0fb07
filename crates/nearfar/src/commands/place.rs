//! `nearfar place`: finds the best placement of a command by a race.

use std::collections::BTreeMap;
use std::process::ExitCode;

use model::analysis::place::{BudgetForecast, Claim, Objective, PlaceRequest, PlaceResult, PriorChoice};
use model::placements::candidates::{SearchSpace, Threads};
use model::values::plan::Plan;
use model::values::plan::RaceRules;
use model::values::program::program_name;
use model::values::record::RunRecord;
use model::values::shell::quote_argv;
use model::values::units::{Nanos, parse_share};

use crate::app::exec::exec;
use crate::app::place::{RaceResult, plan, race, save};
use crate::app::place_context::RaceRequest;
use crate::app::prediction::{self, PredictionRequest};
use crate::app::run_guard::print_preview;
use crate::app::session::ResumeRule;
use crate::app::target_machine::TargetMachine;
use crate::cli::{self, GlobalArgs, PlaceArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{
    self, command_line, existing_store, metric_label, metric_objective, metric_parameters, server_and_load,
    server_parameters,
};

/// Placeholder for the number of threads in a command.
const THREADS: &str = "{threads}";

/// Finds the best placement, or runs the command under a saved one.
pub fn run(args: &PlaceArgs, common: &GlobalArgs) -> CommandResult {
    if let Some(name) = &args.result.saved {
        return use_saved(name, args, common);
    }
    if let (Some(from), Some(like)) = (&args.preview.from, &args.preview.like) {
        return predict(from, like, args, common);
    }
    check_result_args(args)?;
    let request = RaceRequest {
        session: requests::session(&args.machine, &args.guard, common),
        place: place_request(args)?,
        map: requests::map(&args.map, common),
        refine: args.search.refine,
        resume: ResumeRule::new(args.stopping.fresh, args.stopping.resume.as_deref()),
        uses_earlier: args.stopping.prior == cli::Prior::Store,
    };
    if args.preview.explain {
        return explain(&plan(&request)?, args.format);
    }
    if args.preview.dry_run {
        print_preview(&request.session.guard);
        return dry_run(&plan(&request)?, args.format);
    }
    let RaceResult { mut store, record, answer, winner, is_interrupted } = race(&request)?;
    show(&record, &answer, args)?;
    if let Some((found_by, winner)) = winner.filter(|_| answer.claim.is_decided()) {
        // With --load, the command is the server.
        let winner = if args.trial.server.load.is_some() { winner.of_server() } else { winner };
        if let Some(name) = &args.result.save {
            save(&mut store, name, &found_by, &winner)?;
            if !common.quiet {
                message!("saved as {name}; use it with nearfar place --use {} -- CMD", quote_argv(&[name]));
            }
        }
        if args.result.apply {
            return Err(exec(&args.command, args.trial.shell, &winner));
        }
    } else if args.result.apply || args.result.save.is_some() {
        message!("nearfar: undecided, so no placement was saved or applied");
    }
    Ok(if args.preview.guess { ExitCode::SUCCESS } else { status(answer.claim, is_interrupted) })
}

fn place_request(args: &PlaceArgs) -> Result<PlaceRequest, CliError> {
    let measured = server_and_load(&args.trial.server, &args.command)?.measured;
    Ok(PlaceRequest {
        name: program_name(&measured).to_string(),
        given: parameters(args)?,
        objective: objective(args),
        label: metric_label(&args.objective.number)?,
        prior: match args.stopping.prior {
            cli::Prior::None => PriorChoice::None,
            cli::Prior::Topology | cli::Prior::Store => PriorChoice::Topology,
        },
        space: search_space(args)?,
        rules: RaceRules {
            indifference: parse_share(&args.stopping.indifference)
                .map_err(|error| CliError::usage(format!("--indifference: {error}")))?,
            strict: args.stopping.strict,
            // A guess is a search without any trial except that of the baseline.
            max_trials: if args.preview.guess { Some(1) } else { args.stopping.max_trials },
        },
        budget: requests::duration("--budget", &args.stopping.budget)?,
        time_limit: requests::duration("--time-limit", &args.trial.time_limit)?,
        // A maximum number of trials is that of the search.
        places_files: args.trial.page_cache.as_deref().is_none_or(|state| state == "placed")
            && args.stopping.max_trials.is_none()
            && !args.preview.guess,
    })
}

fn objective(args: &PlaceArgs) -> Objective {
    metric_objective(&args.objective.number).unwrap_or(match args.objective.objective {
        cli::Objective::WallTime => Objective::WallTime,
        cli::Objective::CpuTime => Objective::CpuTime,
        cli::Objective::PeakMemory => Objective::PeakMemory,
    })
}

/// Returns the parameters of workload `command`.
fn parameters(args: &PlaceArgs) -> Result<BTreeMap<String, String>, CliError> {
    let line = |option: &str, text: &String| command_line(option, text, args.trial.shell);
    let flag = |value: bool| Some(value.to_string());
    let own = [
        ("ready-timeout", ready_timeout(args)?),
        ("page-cache", args.trial.page_cache.clone()),
        ("prepare", args.trial.prepare.as_ref().map(|text| line("--prepare", text)).transpose()?),
        ("cleanup", args.trial.cleanup.as_ref().map(|text| line("--cleanup", text)).transpose()?),
        ("warmup", Some(args.trial.warmup.to_string())),
        ("shell", flag(args.trial.shell)),
        ("openmp", flag(args.trial.openmp)),
        ("ignore-failure", flag(args.trial.ignore_failure)),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let shared = server_parameters(&args.trial.server, &args.command, args.trial.shell)?;
    let parameters = shared.into_iter().chain(metric_parameters(&args.objective.number)).chain(own);
    Ok(parameters.map(|(name, value)| (name.to_string(), value)).collect())
}

/// Returns the time limit of the server until it is ready: it must not exceed the budget.
fn ready_timeout(args: &PlaceArgs) -> Result<Option<String>, CliError> {
    let server = &args.trial.server;
    if server.ready_timeout.is_some() || !server.has_server() {
        return Ok(server.ready_timeout.clone());
    }
    let budget = requests::duration("--budget", &args.stopping.budget)?;
    Ok((budget < workloads::READY_TIMEOUT).then(|| args.stopping.budget.clone()))
}

fn search_space(args: &PlaceArgs) -> Result<SearchSpace, CliError> {
    if args.trial.load_cpus.is_some() && !args.trial.server.has_server() {
        return Err(CliError::usage("--load-cpus requires --server or --load"));
    }
    let texts = [&args.trial.server.server, &args.trial.server.load].into_iter().flatten().chain(&args.command);
    let has_placeholder = texts.into_iter().any(|text| text.contains(THREADS));
    let threads = match (args.search.threads, has_placeholder) {
        (Some(0), _) => return Err(CliError::usage("--threads 0: the number of threads must be at least 1")),
        (Some(threads), _) => Threads::Fixed(threads),
        (None, true) => Threads::Searched,
        (None, false) => Threads::Unspecified,
    };
    Ok(SearchSpace {
        threads,
        cpus_max: args.search.max_cpus,
        within: args.search.cpus.clone(),
        only: args.search.only.clone(),
        exclude: args.search.exclude.clone(),
        devices: args.search.devices.clone(),
        second: args.trial.server.has_server(),
        load_cpus: args.trial.load_cpus.clone(),
        kernel: workloads::offers(),
        ..SearchSpace::default()
    })
}

fn explain(plan: &Plan, format: TextOrJson) -> CommandResult {
    let steps = plan.race.as_ref().map_or(&[][..], |race| &race.steps);
    match format {
        TextOrJson::Json => output::print_json(&report::json::explanation(plan, steps))?,
        TextOrJson::Text => output::print(&report::table::explanation(plan, steps, &output::stdout_style()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Predicts the best placement on another machine from a stored search.
fn predict(from: &str, like: &str, args: &PlaceArgs, common: &GlobalArgs) -> CommandResult {
    let (record, predicted) = prediction::predict(&PredictionRequest {
        from: from.into(),
        like: like.into(),
        space: search_space(args)?,
        map: requests::map(&args.map, common),
        results: requests::results_file(common),
    })?;
    let machine = from.rsplit('/').next().unwrap_or(from);
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::prediction(machine, &record, &predicted))?,
        TextOrJson::Text => {
            let all = args.result.all_candidates;
            output::print(&report::table::prediction(machine, &record, &predicted, all, &output::stdout_style()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Trial times for which `--dry-run` shows what the budget allows.
const DRY_RUN_TRIALS: [Nanos; 4] =
    [Nanos(100_000_000), Nanos(1_000_000_000), Nanos(10_000_000_000), Nanos(60_000_000_000)];

fn dry_run(plan: &Plan, format: TextOrJson) -> CommandResult {
    let forecasts: Vec<BudgetForecast> =
        DRY_RUN_TRIALS.into_iter().filter_map(|time| BudgetForecast::assuming(plan, time)).collect();
    let steps = plan.race.as_ref().map_or(&[][..], |race| &race.steps);
    match format {
        TextOrJson::Json => output::print_json(&report::json::dry_run(plan, steps, &forecasts))?,
        TextOrJson::Text => output::print(&report::table::dry_run(plan, &forecasts, &output::stdout_style()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(record: &RunRecord, answer: &PlaceResult, args: &PlaceArgs) -> Result<(), CliError> {
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::answer(record, answer)),
        TextOrJson::Text => {
            output::print(&report::table::answer(record, answer, args.result.all_candidates, &output::stdout_style()))
        }
    }
}

fn status(claim: Claim, interrupted: bool) -> ExitCode {
    match claim {
        _ if interrupted => CliStatus::Interrupted.into(),
        claim if claim.is_decided() => ExitCode::SUCCESS,
        Claim::NoReference | Claim::ProgramFails => CliStatus::Failure.into(),
        _ => CliStatus::Inconclusive.into(),
    }
}

/// Rejects `--save` and `--apply` for simulated machines, and empty names.
fn check_result_args(args: &PlaceArgs) -> Result<(), CliError> {
    if args.machine.sim.is_some() && (args.result.apply || args.result.save.is_some()) {
        return Err(CliError::usage("--save and --apply cannot be used with --sim, which measures nothing"));
    }
    match &args.result.save {
        Some(name) if name.trim().is_empty() => {
            Err(CliError::usage("--save: the name of a placement must not be empty"))
        }
        _ => Ok(()),
    }
}

/// Runs the command under a saved placement, and warns if the machine has changed since.
fn use_saved(name: &str, args: &PlaceArgs, common: &GlobalArgs) -> CommandResult {
    let saved = existing_store(common)?.saved_placement(name).map_err(CliError::usage)?;
    let target = TargetMachine::read(&requests::machine(&args.machine))?;
    for change in saved.changes(&target.machine) {
        message!("nearfar: warning: the machine has changed since {name} was measured: {change}");
    }
    Err(exec(&args.command, args.trial.shell, &saved.placement))
}
