//! `nearfar size`: how fast a command is with less DRAM, and how much it needs.

use std::process::ExitCode;

use model::compare::{ComparedRun, planned};
use model::experiment::{Single, Wishes};
use model::finding::summarise;
use model::placement::DramBudget;
use model::plan::Plan;
use model::size::{SizeAnswer, SizePlan};
use model::trial::Status as TrialStatus;
use model::units::{Bytes, Nanos, parse_share};

use crate::cli::{Common, Engines, Size, TextOrJson};
use crate::conduct::{begin, check, closing_words, conduct};
use crate::failure::{Failure, Outcome, Status};
use crate::hold::Hold;
use crate::output;
use crate::subject::{Subject, far_site};

/// Measures what the command holds, then its speed on each budget, and answers.
pub fn run(args: &Size, common: &Common) -> Outcome {
    let within = 100.0 * parse_share(&args.within).map_err(|why| Failure::usage(format!("--within: {why}")))?;
    let time_limit = Nanos::parse(&args.repeats.time_limit).map_err(Failure::usage)?;
    let budgets = args.dram.iter().map(|text| Wanted::parse(text)).collect::<Result<Vec<_>, _>>()?;
    machine::child::find_program(&args.command[0]).map_err(|error| Failure::usage(&error).hint_of(error.hint()))?;
    if args.subject.sim.is_some() {
        return Err(Failure::usage(
            "a simulated machine has no swap: how much DRAM a command needs is measured on a real one",
        ));
    }
    let (hold, subject) = Hold::take(&args.hold, common, false, || Subject::from_flags(&args.subject))?;
    if !common.quiet {
        eprintln!("measuring what it holds when nothing bounds it");
    }
    let need =
        lab::real::need(&args.command, &far_site(), time_limit, &hold.stop).map_err(|status| refused(&status))?;
    let asked = SizePlan { need, within_percent: within };
    let plan = plan(args, &subject, &placements(args.engine, &budgets, need), time_limit, asked)?;
    let mut store = subject.open_store(common)?;
    let record = begin(&mut store, &subject, plan)?;
    let ended = conduct(&mut store, &record, &subject, &hold, common.quiet)?;
    hold.give_back();
    if !common.quiet {
        eprintln!("{}", closing_words(ended, &record));
    }
    let trials = store.trials(&record.id).map_err(Failure::of)?;
    let finding = summarise(&record.plan, &trials);
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let compared = planned(&runs, &record.plan);
    let answered = compared.and_then(|comparison| Some((SizeAnswer::of(&record.plan, &comparison)?, comparison)));
    let (answer, comparison) = answered.ok_or_else(|| {
        Failure::with(Status::Invalid, "no trial without a budget is there to compare with")
            .hint("nearfar show --trials has the reasons")
    })?;
    match args.format {
        TextOrJson::Text => output::print(&report::table::size(&answer, &output::look()))?,
        TextOrJson::Json => output::print_json(&report::json::size(&answer, &comparison))?,
    }
    Ok(if answer.enough.is_some() { ExitCode::SUCCESS } else { Status::Inconclusive.into() })
}

/// A budget as it was asked for.
enum Wanted {
    Bytes(Bytes),
    Share(f64),
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, Failure> {
        let wanted = if text.trim_end().ends_with('%') {
            parse_share(text).map(Self::Share)
        } else {
            Bytes::parse(text).map(Self::Bytes)
        };
        wanted.map_err(|why| Failure::usage(format!("--dram: {why}")))
    }

    /// In whole MiB, so that a placement's name says exactly what it gives.
    fn of(&self, need: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => *bytes,
            Self::Share(share) => Bytes(((need.0 as f64 * share) as u64).div_ceil(1 << 20) << 20),
        }
    }
}

/// All of its memory near, and each budget under each engine.
fn placements(engines: Engines, budgets: &[Wanted], need: Bytes) -> Vec<String> {
    let steered: &[bool] = match engines {
        Engines::Steered => &[true],
        Engines::Plain => &[false],
        Engines::Both => &[true, false],
    };
    let mut names = vec!["kernel".to_string()];
    for budget in budgets {
        let dram = budget.of(need).max(farmem::DRAM_MIN);
        names.extend(
            steered.iter().map(|steered| format!("kernel+{}", DramBudget { dram, steered: *steered }.exact_name())),
        );
    }
    names.dedup();
    names
}

fn plan(
    args: &Size,
    subject: &Subject,
    placements: &[String],
    time_limit: Nanos,
    asked: SizePlan,
) -> Result<Plan, Failure> {
    let single = Single {
        workload: "command".into(),
        set: vec![("argv".into(), serde_json::json!(args.command).to_string())],
        placements: placements.to_vec(),
        threads: None,
        runs: args.repeats.runs,
        warmup: args.repeats.warmup,
        time_limit,
    };
    let wishes = Wishes { smoke: false, kernel: machine::nodes::kernel_offers(), devices: &[] };
    let mut plan =
        single.plan(&subject.machine.topology, &workloads::specs(), wishes).map_err(|error| Failure::plan(&error))?;
    let name = own_name(&args.command[0]);
    plan.experiment = experiment(&args.command[0]);
    plan.question = format!("How much DRAM does {name} need to be within {} % of full speed?", asked.within_percent);
    plan.size = Some(asked);
    plan.command = words(args);
    check(&plan, subject)?;
    Ok(plan)
}

/// How the runs of a program are called.
pub fn experiment(program: &str) -> String {
    format!("size {}", own_name(program))
}

fn own_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// What asks for this again.
fn words(args: &Size) -> Vec<String> {
    let (dram, runs) = (args.dram.join(","), args.repeats.runs.to_string());
    let mut words = ["size", "--dram", &dram, "--within", &args.within, "--runs", &runs].map(String::from).to_vec();
    let engine = match args.engine {
        Engines::Steered => Some("steered"),
        Engines::Plain => Some("plain"),
        Engines::Both => None,
    };
    words.extend(engine.into_iter().flat_map(|engine| ["--engine".to_string(), engine.to_string()]));
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    words
}

fn refused(status: &TrialStatus) -> Failure {
    match status {
        TrialStatus::Unavailable(why) => Failure::with(Status::NotPermitted, why),
        TrialStatus::Failed(why) | TrialStatus::TimedOut(why) => Failure::of(why),
        TrialStatus::Completed => Failure::of("it was interrupted"),
    }
}
