//! `nearfar live watch`: reports applied placements that are lost, and measures again what they gain.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use model::analysis::live::{AppliedFinding, AppliedState, GainCheck, LiveTrial};

use crate::app::applied::Applied;
use crate::app::forwarded_signals;
use crate::app::run_guard::site;
use crate::cli::{GlobalArgs, LiveApplyArgs, LiveTryArgs, LiveWatchArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{self, Subject};

use super::apply::{applied_to, apply_placement, is_unnamed, undo_placement};
use super::{check_sources, run_experiment};

/// The seed of each comparison.
const SEED: u64 = 1;

pub fn watch(args: &LiveWatchArgs, common: &GlobalArgs) -> CommandResult {
    let every = Duration::from_nanos(requests::duration("--every", &args.every)?.0);
    requests::duration("--budget", &args.budget)?;
    if args.metric.is_some() && is_unnamed(&args.subject) {
        return Err(CliError::usage("--metric is that of one service").hint("name it, for example with --unit NAME"));
    }
    let signals = forwarded_signals::receive()?;
    loop {
        let applied = applied_to(&site(None), &args.subject)?;
        let applied = applied.into_iter().filter(|applied| !applied.placement.is_experiment);
        let mut found: Vec<AppliedFinding> = applied.map(Applied::judge).collect();
        let (mut trials, mut is_interrupted) = (Vec::new(), false);
        if let Some(metric) = &args.metric {
            for finding in found.iter_mut().filter(|finding| finding.state == AppliedState::InEffect) {
                match check_gain(args, metric, finding, common) {
                    Ok((trial, has_signal)) => {
                        trials.push(trial);
                        is_interrupted |= has_signal;
                    }
                    Err(error) if args.once => return Err(error),
                    // The next check may succeed.
                    Err(error) => {
                        error.print();
                    }
                }
            }
        }
        show(args, &found, &trials)?;
        if is_interrupted {
            return Ok(CliStatus::Interrupted.into());
        }
        if args.once {
            let is_lost = found.iter().any(|finding| finding.state.is_lost());
            return Ok(if is_lost { CliStatus::Failure.into() } else { ExitCode::SUCCESS });
        }
        if is_ended_within(&signals, every) {
            return Ok(CliStatus::Interrupted.into());
        }
    }
}

fn show(args: &LiveWatchArgs, found: &[AppliedFinding], trials: &[LiveTrial]) -> Result<(), CliError> {
    let style = output::stdout_style();
    match args.format {
        TextOrJson::Json => output::print(&format!("{}\n", report::json::applied_findings(found))),
        TextOrJson::Text => {
            let answers = trials.iter().map(|trial| report::live_answer(trial, &style));
            output::print(&(report::live_applied::findings(found, &style) + &answers.collect::<String>()))
        }
    }
}

/// Waits, and returns whether a signal that ends this process has arrived. Others, such as that of a resized terminal, do
/// not end the wait.
fn is_ended_within(signals: &Receiver<i32>, time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        match signals.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(signal) if forwarded_signals::ends_wait(signal) => return true,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
}

/// Undoes a placement, compares it with the one before, and applies it again. Adds the result to the finding, and returns
/// whether a signal ended the comparison.
fn check_gain(
    args: &LiveWatchArgs,
    metric: &str,
    finding: &mut AppliedFinding,
    common: &GlobalArgs,
) -> Result<(LiveTrial, bool), CliError> {
    let placement = &finding.placement;
    let subject = Subject::new(&args.subject)?;
    let devices: Vec<String> = placement.devices().into_iter().map(str::to_owned).collect();
    let ban_irqbalance = !devices.is_empty();
    let requested = LiveTryArgs {
        subject: args.subject.clone(),
        metric: metric.into(),
        guards: args.guards.clone(),
        placements: vec![placement.placement.clone()],
        move_memory: placement.memory.is_some(),
        devices: devices.clone(),
        ban_irqbalance,
        budget: args.budget.clone(),
        html: None,
        seed: SEED,
        fresh: true,
        // The user has agreed when it was applied.
        yes: true,
        dry_run: false,
        wait: true,
        format: args.format,
    };
    // Before the placement is undone.
    check_sources(&requested, &subject)?;
    let again = LiveApplyArgs {
        subject: args.subject.clone(),
        placement: placement.placement.clone(),
        devices,
        ban_irqbalance,
        yes: true,
        dry_run: false,
        wait: true,
        format: args.format,
    };
    undo_placement(&subject, common)?;
    let compared = run_experiment(&requested, common, &subject);
    let applied = apply_placement(&again, &subject, common);
    let (experiment, trial, is_interrupted) = compared?;
    *finding = applied?.finding;
    finding.add_gain(GainCheck { experiment, answer: trial.answer.clone() });
    Ok((trial, is_interrupted))
}
