//! The result of a race, ready for display and for copying commands.

use serde::Serialize;

use super::RaceState;
use crate::placements::placement::{CommandLines, PlacementVars, lines};
use crate::stats::racing::{ConfirmResult, Confirmation, Effect, RankClaim, State};
use crate::values::placement::Placement;
use crate::values::plan::stream;
use crate::values::record::{EndReason, RunRecord, TrialRecord};
use crate::values::shell::quote_argv;
use crate::values::topology::Topology;
use crate::values::workload::{Better, Value};

/// The result of a race. Field names are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceResult {
    pub claim: Claim,
    /// State at the end of the search. With `resolved` and `only-one-left`, no other candidate is likely to be better.
    pub search: State,
    /// Why the baseline has no valid trial; `None` if it has.
    pub reference_failed: Option<String>,
    pub metric: Metric,
    /// The recommended placement: the baseline if none was found to be better. `None` without a valid baseline.
    pub winner: Option<PlacementText>,
    /// Candidates that were not found to differ from the winner.
    pub ties: Vec<PlacementText>,
    /// The winner (or the leader of the race, if the winner is the baseline) compared with the baseline, from fresh
    /// pairs only. `None` if the baseline led.
    pub versus_kernel: Option<Confirmation>,
    /// All candidates, best first.
    #[serde(rename = "ranking")]
    pub standings: Vec<RankingRow>,
    /// Number of trials, including discarded and repeated ones.
    pub trials: u32,
    /// Number of trials without a result: failed, stopped, or not verified.
    pub came_to_nothing: u32,
    /// Total time of all trials, in seconds.
    pub seconds: f64,
    pub candidates: usize,
    /// Number of placements on this machine, in digits.
    pub raw_placements: String,
    /// Whether candidates differ in the number of threads.
    pub threads_searched: bool,
    /// Commands that apply the winner; `None` if the baseline is as good.
    pub lines: Option<CommandLines>,
    /// Commands for the second command.
    pub second_lines: Option<CommandLines>,
}

/// Conclusion about the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is better than the baseline.
    Better,
    /// No placement exceeds the baseline by more than the indifference.
    KernelIsBest,
    /// No difference between the leader of the race and the baseline was found.
    NoDifferenceSeen,
    /// Too much noise, or too little time, for a conclusion.
    Inconclusive,
    /// The baseline has no valid trial, so there is no comparison.
    NoReference,
    /// The race has not ended.
    Unfinished,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    pub name: String,
    pub unit: String,
    pub better: Better,
}

/// A placement for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacementText {
    /// In the syntax of `--placement`.
    pub placement: String,
    /// Description of the placement in one sentence.
    pub reason: String,
    /// Number of threads passed to the command.
    pub threads: usize,
    /// List of its CPUs. Empty if the kernel chooses.
    pub cpus: String,
    /// Memory policy, in numactl's words.
    pub memory: String,
    /// CPUs of the second command. Empty if there is none or the kernel chooses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub second: String,
}

/// A row of the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankingRow {
    #[serde(flatten)]
    pub placed: PlacementText,
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Number of blocks in which it has a value.
    pub blocks: u32,
    /// Conclusion from the comparison with the leader.
    #[serde(rename = "word")]
    pub word: RankClaim,
    pub effect: Option<Effect>,
    /// Difference to the baseline in the race, which is biased in favour of the best candidates.
    pub against_kernel: Option<Effect>,
}

impl PlaceResult {
    /// Returns the result of the stored trials of a race. `None` if the run is not a race.
    pub fn of(record: &RunRecord, trials: &[TrialRecord]) -> Option<Self> {
        Some(Self::from_state(record, &RaceState::replay(&record.plan, trials)?))
    }

    /// Returns the result of a race in its present state.
    pub fn from_state(record: &RunRecord, state: &RaceState<'_>) -> Self {
        let confirmed = state.confirmed(stream(record.seed, "confirm"));
        let leader = state.race().leader();
        let claim = claim(state, leader, confirmed);
        let winner = match claim {
            Claim::NoReference => None,
            Claim::KernelIsBest | Claim::NoDifferenceSeen => Some(0),
            Claim::Better | Claim::Inconclusive | Claim::Unfinished => leader,
        };
        let placement = |cell: usize| &record.plan.cells[cell].placement;
        let standings: Vec<RankingRow> = state
            .race()
            .standings()
            .into_iter()
            .map(|one| {
                let placed = placed(placement(one.candidate));
                RankingRow {
                    placed,
                    cell: one.candidate,
                    blocks: one.blocks,
                    word: one.word,
                    effect: one.effect,
                    against_kernel: one.against_kernel,
                }
            })
            .collect();
        let tied = |one: &&RankingRow| matches!(one.word, RankClaim::Leads | RankClaim::NotSeenToDiffer { .. });
        let ties = standings.iter().filter(tied).filter(|one| Some(one.cell) != winner).map(|one| one.placed.clone());
        let bound = winner.map(placement).filter(|_| claim == Claim::Better);
        let race = record.plan.race.as_ref();
        Self {
            claim,
            search: state.race().state(),
            reference_failed: reference_failed(state, &standings),
            metric: metric(state),
            winner: winner.map(|cell| placed(placement(cell))),
            ties: ties.collect(),
            versus_kernel: confirmed,
            trials: state.trials(),
            came_to_nothing: state.failed_trials(),
            seconds: state.spent().seconds(),
            candidates: record.plan.cells.len(),
            raw_placements: race.map(|race| race.raw_placements.clone()).unwrap_or_default(),
            threads_searched: race.is_some_and(|race| race.stages.threads_searched),
            lines: bound.and_then(|placement| own_lines(record, placement, placement, "argv")),
            second_lines: bound.and_then(|placement| second_lines(record, placement)),
            standings,
        }
    }
}

fn claim(state: &RaceState<'_>, leader: Option<usize>, confirmed: Option<Confirmation>) -> Claim {
    let resolved = state.race().state().is_resolved();
    match (state.race().state(), state.end_reason()) {
        (State::NoReference | State::NobodyLeft, _) | (_, Some(EndReason::NoReference)) => return Claim::NoReference,
        (State::Racing, _) | (_, None) => return Claim::Unfinished,
        _ => {}
    }
    match confirmed.map(|confirmed| confirmed.verdict) {
        Some(ConfirmResult::Faster) => Claim::Better,
        // Fresh pairs are unbiased: a candidate that led the race by chance is not better.
        Some(ConfirmResult::Slower) if resolved => Claim::KernelIsBest,
        Some(ConfirmResult::NoDifferenceSeen { wide: false }) if resolved => Claim::NoDifferenceSeen,
        None if resolved && leader == Some(0) => Claim::KernelIsBest,
        _ => Claim::Inconclusive,
    }
}

fn reference_failed(state: &RaceState<'_>, standings: &[RankingRow]) -> Option<String> {
    let in_race = standings.iter().find(|one| one.cell == 0).and_then(|one| match &one.word {
        RankClaim::Failed(reason) | RankClaim::NotProven(reason) => Some(reason.as_str()),
        _ => None,
    });
    state.baseline_failed().or(in_race).map(str::to_string)
}

fn metric(state: &RaceState<'_>) -> Metric {
    let metric = state.metric();
    Metric { name: metric.name.clone(), unit: metric.unit.clone(), better: metric.better }
}

fn placed(placement: &Placement) -> PlacementText {
    PlacementText {
        placement: placement.name.clone(),
        reason: placement.reason.clone(),
        threads: placement.threads,
        cpus: placement.cpus().to_string(),
        memory: placement.memory.to_string(),
        second: placement.server_cpus.to_string(),
    }
}

/// Returns the commands that apply a placement to the command in this parameter; `None` if nothing is bound. Variables
/// are substituted for the measured placement.
fn own_lines(record: &RunRecord, placement: &Placement, measured: &Placement, parameter: &str) -> Option<CommandLines> {
    let Topology { allowed_cpus, allowed_nodes, .. } = &record.machine.topology;
    let (cpus, memory) = (placement.cpus(), &placement.memory);
    let (all_cpus, all_nodes) = (allowed_cpus.to_string(), allowed_nodes.to_string());
    let words = PlacementVars::new(measured.threads, &cpus, memory, all_cpus, all_nodes);
    let commands = lines(placement, &record.machine.topology, &typed(record, parameter, &words));
    (commands != CommandLines::default()).then_some(commands)
}

/// Returns the commands for the second command: its own CPUs, the same memory policy.
fn second_lines(record: &RunRecord, placement: &Placement) -> Option<CommandLines> {
    let has_second = record.plan.cells.iter().any(|cell| !cell.placement.server_cpus.is_empty());
    let bindings: Vec<_> = placement.server_cpus.iter().collect();
    let second = Placement { threads: bindings.len().max(1), bindings, ..placement.clone() };
    has_second.then(|| own_lines(record, &second, placement, "server")).flatten()
}

/// Returns a command as it would be typed, with variables substituted.
fn typed(record: &RunRecord, parameter: &str, words: &PlacementVars) -> String {
    let cells = record.plan.cells.first();
    let Some(Value::Text(text)) = cells.and_then(|cell| cell.parameters.0.get(parameter)) else { return String::new() };
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(list) => quote_argv(&list.iter().map(|word| words.substitute(word)).collect::<Vec<_>>()),
        // With a shell, the command is one text instead of a list.
        Err(_) => format!("sh -c {}", quote_argv(&[words.substitute(text)])),
    }
}
