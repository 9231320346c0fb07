//! What a race came to, ready to be shown and pasted.

use serde::Serialize;

use super::RaceState;
use crate::placements::placement::{CommandLines, Placement, PlacementVars, lines};
use crate::stats::racing::{ConfirmResult, Confirmation, Effect, RankClaim, State};
use crate::values::plan::stream;
use crate::values::record::{EndReason, RunRecord, TrialRecord};
use crate::values::shell::quote_argv;
use crate::values::topology::Topology;
use crate::values::workload::{Better, Value};

/// What a race came to. Field names are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceResult {
    pub claim: Claim,
    /// How the search ended; only `resolved` and `only-one-left` say that nobody is likely to be better.
    pub search: State,
    /// Why the kernel's choice came to nothing; none when it did not.
    pub reference_failed: Option<String>,
    pub metric: Metric,
    /// What to use: the kernel's choice where no placement was seen to be better. None without a reference.
    pub winner: Option<PlacementText>,
    /// Who was not seen to differ from the winner.
    pub ties: Vec<PlacementText>,
    /// The winner, or the race's leader where the winner is the kernel's choice, against the kernel's choice, from fresh
    /// pairs alone; none where the kernel's choice led.
    pub versus_kernel: Option<Confirmation>,
    /// All candidates, the best first.
    #[serde(rename = "ranking")]
    pub standings: Vec<RankingRow>,
    /// Trials, the thrown away and the repeated ones included.
    pub trials: u32,
    /// How many of them gave no result: failed, stopped, or not proven.
    pub came_to_nothing: u32,
    /// What the trials took together, seconds.
    pub seconds: f64,
    pub candidates: usize,
    /// How many placements there are on this machine, in digits.
    pub raw_placements: String,
    /// Whether candidates differ in the number of threads that the command is told.
    pub threads_searched: bool,
    /// The winner's lines; none where the kernel's choice is as good.
    pub lines: Option<CommandLines>,
    /// The lines of the second command.
    pub second_lines: Option<CommandLines>,
}

/// What may be said of the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is better than the kernel's choice.
    Better,
    /// No placement is better than the kernel's choice by more than the indifference.
    KernelIsBest,
    /// The race's leader and the kernel's choice were not seen to differ.
    NoDifferenceSeen,
    /// Too noisy, or too little time, to say more.
    Inconclusive,
    /// The kernel's choice came to nothing, so there is nothing to compare with.
    NoReference,
    /// The race is not over.
    Unfinished,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    pub name: String,
    /// Its unit.
    pub unit: String,
    pub better: Better,
}

/// A placement as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacementText {
    /// As `--placement` takes it.
    pub placement: String,
    /// What that is, in words.
    pub reason: String,
    /// How many threads the command was told.
    pub threads: usize,
    /// Its cpus as a list; empty when the kernel chooses.
    pub cpus: String,
    /// Its memory policy in words.
    pub memory: String,
    /// The cpus of the second command; empty when there is none or the kernel chooses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub second: String,
}

/// A candidate in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankingRow {
    #[serde(flatten)]
    pub placed: PlacementText,
    /// Its index among the cells of the plan.
    pub cell: usize,
    /// In how many blocks it has a value.
    pub blocks: u32,
    /// What may be said of it against the leader.
    #[serde(rename = "word")]
    pub word: RankClaim,
    pub effect: Option<Effect>,
    /// Against the kernel's choice, from the race itself, which flatters the best.
    pub against_kernel: Option<Effect>,
}

impl PlaceResult {
    /// What a race's stored trials came to. None when the run is no race.
    pub fn of(record: &RunRecord, trials: &[TrialRecord]) -> Option<Self> {
        Some(Self::from_course(record, &RaceState::replay(&record.plan, trials)?))
    }

    /// What a race has come to where it is.
    pub fn from_course(record: &RunRecord, course: &RaceState<'_>) -> Self {
        let confirmed = course.confirmed(stream(record.seed, "confirm"));
        let leader = course.race().leader();
        let claim = claim(course, leader, confirmed);
        let winner = match claim {
            Claim::NoReference => None,
            Claim::KernelIsBest | Claim::NoDifferenceSeen => Some(0),
            Claim::Better | Claim::Inconclusive | Claim::Unfinished => leader,
        };
        let placement = |cell: usize| &record.plan.cells[cell].placement;
        let standings: Vec<RankingRow> = course
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
            search: course.race().state(),
            reference_failed: reference_failed(course, &standings),
            metric: metric(course),
            winner: winner.map(|cell| placed(placement(cell))),
            ties: ties.collect(),
            versus_kernel: confirmed,
            trials: course.trials(),
            came_to_nothing: course.failed_trials(),
            seconds: course.spent().seconds(),
            candidates: record.plan.cells.len(),
            raw_placements: race.map(|race| race.raw_placements.clone()).unwrap_or_default(),
            threads_searched: race.is_some_and(|race| race.stages.threads_searched),
            lines: bound.and_then(|placement| own_lines(record, placement, placement, "argv")),
            second_lines: bound.and_then(|placement| second_lines(record, placement)),
            standings,
        }
    }
}

fn claim(course: &RaceState<'_>, leader: Option<usize>, confirmed: Option<Confirmation>) -> Claim {
    let resolved = course.race().state().is_resolved();
    match (course.race().state(), course.end_reason()) {
        (State::NoReference | State::NobodyLeft, _) | (_, Some(EndReason::NoReference)) => return Claim::NoReference,
        (State::Racing, _) | (_, None) => return Claim::Unfinished,
        _ => {}
    }
    match confirmed.map(|confirmed| confirmed.verdict) {
        Some(ConfirmResult::Faster) => Claim::Better,
        // Fresh pairs do not flatter: what led the race by chance is not better.
        Some(ConfirmResult::Slower) if resolved => Claim::KernelIsBest,
        Some(ConfirmResult::NoDifferenceSeen { wide: false }) if resolved => Claim::NoDifferenceSeen,
        None if resolved && leader == Some(0) => Claim::KernelIsBest,
        _ => Claim::Inconclusive,
    }
}

fn reference_failed(course: &RaceState<'_>, standings: &[RankingRow]) -> Option<String> {
    let in_race = standings.iter().find(|one| one.cell == 0).and_then(|one| match &one.word {
        RankClaim::Failed(why) | RankClaim::NotProven(why) => Some(why.as_str()),
        _ => None,
    });
    course.baseline_failed().or(in_race).map(str::to_string)
}

fn metric(course: &RaceState<'_>) -> Metric {
    let metric = course.metric();
    Metric { name: metric.name.clone(), unit: metric.unit.clone(), better: metric.better }
}

fn placed(placement: &Placement) -> PlacementText {
    PlacementText {
        placement: placement.name.clone(),
        reason: placement.reason.clone(),
        threads: placement.threads,
        cpus: placement.cpus().to_string(),
        memory: placement.memory.to_string(),
        second: placement.second.to_string(),
    }
}

/// The lines that apply a placement to the command in this parameter; none where nothing is bound. Its words stand for
/// the placement that was measured.
fn own_lines(record: &RunRecord, placement: &Placement, measured: &Placement, parameter: &str) -> Option<CommandLines> {
    let Topology { allowed_cpus, allowed_nodes, .. } = &record.machine.topology;
    let (cpus, memory) = (placement.cpus(), &placement.memory);
    let (all_cpus, all_nodes) = (allowed_cpus.to_string(), allowed_nodes.to_string());
    let words = PlacementVars::new(measured.threads, &cpus, memory, all_cpus, all_nodes);
    let made = lines(placement, &record.machine.topology, &typed(record, parameter, &words));
    (made != CommandLines::default()).then_some(made)
}

/// The lines of the second command: its own cpus, the same memory policy.
fn second_lines(record: &RunRecord, placement: &Placement) -> Option<CommandLines> {
    let has_second = record.plan.cells.iter().any(|cell| !cell.placement.second.is_empty());
    let seats: Vec<_> = placement.second.iter().collect();
    let second = Placement { threads: seats.len().max(1), seats, ..placement.clone() };
    has_second.then(|| own_lines(record, &second, placement, "server")).flatten()
}

/// A command as it would be typed, with what stands for the placement filled in.
fn typed(record: &RunRecord, parameter: &str, words: &PlacementVars) -> String {
    let cells = record.plan.cells.first();
    let Some(Value::Text(text)) = cells.and_then(|cell| cell.parameters.0.get(parameter)) else { return String::new() };
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(list) => quote_argv(&list.iter().map(|word| words.substitute(word)).collect::<Vec<_>>()),
        // With a shell the command is one text and no list.
        Err(_) => format!("sh -c {}", quote_argv(&[words.substitute(text)])),
    }
}
