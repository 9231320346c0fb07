//! The result of a search or race, ready for display and for copying commands.

use serde::Serialize;

use super::RaceState;
use super::apply::{command, own_lines, second_lines};
use super::claim::Claim;
use super::file_race::FileRace;
use super::gain::Gain;
use super::outlook::{CurvePoint, Outlook, PercentRange, ThreadEffect, curve, thread_effect, with_search};
use super::tally::ProgramFailures;
use crate::placements::placement::CommandLines;
use crate::stats::racing::{Confirmation, Effect, RankClaim, RankedCandidate, State};
use crate::values::placement::Placement;
use crate::values::plan::stream;
use crate::values::record::{RunRecord, TrialRecord};
use crate::values::workload::{Better, MetricSpec};

/// The result of a search or race. Field names are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceResult {
    pub claim: Claim,
    /// The placement without any binding.
    pub baseline: PlacementText,
    /// State at the end of the search. With `resolved` and `only-one-left`, no other candidate is likely to be better.
    pub search: State,
    /// Why the baseline has no valid trial; `None` if it has.
    pub reference_failed: Option<String>,
    pub metric: Metric,
    /// The recommended placement: the baseline if none was found to be better. `None` without a valid baseline.
    pub winner: Option<PlacementText>,
    /// The candidate that the fresh pairs compare with the baseline; `None` without pairs.
    pub challenger: Option<PlacementText>,
    /// Expectations of the search; `None` without a search.
    pub outlook: Option<Outlook>,
    /// The effect of the number of threads, if the winner has another one than the baseline.
    pub thread_effect: Option<ThreadEffect>,
    /// The best candidate by number of trials. Empty without a search.
    pub curve: Vec<CurvePoint>,
    /// Candidates that were not found to differ from the winner.
    pub ties: Vec<PlacementText>,
    /// The challenger compared with the baseline, from fresh pairs only. `None` without pairs.
    pub versus_kernel: Option<Confirmation>,
    /// A larger gain of the challenger is excluded at 95 %, in percent of the baseline: by the pairs and, after a search,
    /// by its trials. `None` without pairs.
    pub excluded_gain_percent: Option<f64>,
    /// All candidates, best first.
    #[serde(rename = "ranking")]
    pub standings: Vec<RankingRow>,
    /// Number of trials, including discarded and repeated ones.
    pub trials: u32,
    /// Number of trials without a result: failed, stopped, or not verified.
    pub came_to_nothing: u32,
    /// Number of disturbed trials, which count.
    pub suspect: u32,
    /// The most frequent reason of disturbed trials.
    pub suspect_reason: Option<String>,
    /// Failures of the program; `None` if it failed once at most.
    pub program_failures: Option<ProgramFailures>,
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
    /// The command with the winner's number of threads; `None` without a winner.
    pub command: Option<String>,
    /// The race of other placements of the winner's files; `None` if their placement cannot matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_race: Option<FileRace>,
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

/// Median of a candidate's trials, in the unit of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredValue {
    pub median: f64,
    /// Lower end of the 95 % interval; `None` with one trial.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// Number of trials with a value.
    pub trials: usize,
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
    /// The metric in the search and the race, or else in the fresh pairs; `None` without a value.
    pub measured: Option<MeasuredValue>,
    /// Conclusion from the comparison with the leader.
    #[serde(rename = "word")]
    pub word: RankClaim,
    pub effect: Option<Effect>,
    /// Difference to the baseline in the race, which is biased in favour of the best candidates.
    pub against_kernel: Option<Effect>,
    /// Predicted difference to the baseline; `None` without a search.
    pub predicted: Option<PercentRange>,
    /// Difference to the baseline in the trials of the search; `None` if it did not run there.
    pub measured_percent: Option<f64>,
    /// Predicted probability of being the best, in percent; `None` without a search.
    pub best_percent: Option<f64>,
}

impl PlaceResult {
    /// Returns the result of the stored trials of a race. `None` if the run is not a race.
    pub fn of(record: &RunRecord, trials: &[TrialRecord]) -> Option<Self> {
        Some(Self::from_state(record, &RaceState::replay(&record.plan, trials)?))
    }

    /// Returns the result of a search or race in its present state.
    pub fn from_state(record: &RunRecord, state: &RaceState<'_>) -> Self {
        let confirmed = state.confirmed(stream(record.seed, "confirm"));
        let claim = Claim::of(state, confirmed);
        let winner = match claim {
            Claim::NoReference | Claim::ProgramFails => None,
            claim if claim.keeps_baseline() => Some(0),
            Claim::Better | Claim::Likely => state.challenger(),
            // Before the first value, the model has a favourite too.
            _ => state.leader().or(state.challenger()),
        };
        let placement = |cell: usize| &record.plan.cells[cell].placement;
        let expected = state.search().map(|search| (search, search.outlook()));
        let mut standings: Vec<RankingRow> =
            state.standings().into_iter().map(|one| RankingRow::raced(placed(placement(one.candidate)), one)).collect();
        if let Some((search, expected)) = &expected {
            standings = with_search(state, search, expected, standings);
        }
        standings.iter_mut().for_each(|one| one.measure(state));
        // The table shows what decided the search; the statements about the answer use all trials.
        let after = winner.and_then(|winner| state.outlook_after_pairs(winner));
        let expected = after.or(expected.map(|(_, expected)| expected));
        let tied = |one: &&RankingRow| matches!(one.word, RankClaim::Leads | RankClaim::NotSeenToDiffer { .. });
        // The fresh pairs have decided between the baseline and the leader of the search.
        let is_settled = |one: &&RankingRow| match claim {
            Claim::Better | Claim::Likely => one.cell == 0,
            claim => claim.keeps_baseline() && one.word == RankClaim::Leads,
        };
        let others = standings.iter().filter(tied).filter(|one| Some(one.cell) != winner && !is_settled(one));
        let ties = others.map(|one| one.placed.clone());
        let bound = winner.map(placement).filter(|_| matches!(claim, Claim::Better | Claim::Likely));
        let race = record.plan.race.as_ref();
        // On one node, files are where they are used.
        let placed_files = state.placed_files();
        let files = Some(placed_files).filter(|_| record.machine.topology.allowed_nodes.len() > 1);
        let (line, second_line) =
            files.zip(winner).map(|(files, cell)| (files.line(cell), files.second_line(cell))).unzip();
        Self {
            claim,
            baseline: placed(placement(0)),
            search: state.search_state(),
            reference_failed: reference_failed(state, &standings),
            metric: Metric::of(state.metric()),
            winner: winner.map(|cell| placed(placement(cell))),
            challenger: state.challenger().map(|cell| placed(placement(cell))),
            outlook: winner.zip(expected.as_ref()).map(|(winner, expected)| Outlook::new(state, expected, winner)),
            thread_effect: winner.and_then(|winner| thread_effect(state, expected.as_ref(), winner)),
            curve: curve(state),
            ties: ties.collect(),
            versus_kernel: confirmed,
            excluded_gain_percent: confirmed.map(|confirmed| Gain::of(state, &confirmed).excluded_percent()),
            trials: state.trials(),
            came_to_nothing: state.tally().without_result,
            suspect: state.tally().suspect,
            suspect_reason: state.tally().suspect_reason().map(str::to_string),
            program_failures: state.tally().program_failures(),
            seconds: state.spent().seconds(),
            candidates: record.plan.cells.len(),
            raw_placements: race.map(|race| race.raw_placements.clone()).unwrap_or_default(),
            threads_searched: race.is_some_and(|race| race.stages.threads_searched),
            lines: bound
                .zip(winner)
                .and_then(|(placement, cell)| {
                    own_lines(record, placement, placement, "argv", placed_files.copied(cell))
                })
                .map(with_files(line.flatten())),
            second_lines: bound
                .zip(winner)
                .and_then(|(placement, cell)| second_lines(record, placement, placed_files.second_copied(cell)))
                .map(with_files(second_line.flatten())),
            command: winner.map(placement).map(|placement| command(record, placement)),
            standings,
            file_race: None,
        }
    }
}

/// Adds a line for files, unless there is none.
fn with_files(line: Option<String>) -> impl FnOnce(CommandLines) -> CommandLines {
    |lines| CommandLines { files: line.or(lines.files), ..lines }
}

impl RankingRow {
    fn raced(placed: PlacementText, one: RankedCandidate) -> Self {
        Self {
            effect: one.effect,
            against_kernel: one.against_kernel,
            ..Self::searched(placed, one.candidate, one.blocks, one.word)
        }
    }

    /// Adds the measured value.
    fn measure(&mut self, state: &RaceState<'_>) {
        self.measured = state.measured(self.cell);
        if self.word == RankClaim::NotRaced && self.measured.is_some() {
            self.word = RankClaim::Paired;
        }
    }

    /// A row without data of a race.
    pub(super) fn searched(placed: PlacementText, cell: usize, blocks: u32, word: RankClaim) -> Self {
        Self {
            placed,
            cell,
            blocks,
            measured: None,
            word,
            effect: None,
            against_kernel: None,
            predicted: None,
            measured_percent: None,
            best_percent: None,
        }
    }
}

fn reference_failed(state: &RaceState<'_>, standings: &[RankingRow]) -> Option<String> {
    let in_race = standings.iter().find(|one| one.cell == 0).and_then(|one| match &one.word {
        RankClaim::Failed(reason) | RankClaim::NotProven(reason) => Some(reason.as_str()),
        _ => None,
    });
    state.baseline_failed().or(in_race).map(str::to_string)
}

impl Metric {
    pub(super) fn of(spec: &MetricSpec) -> Self {
        Self { name: spec.name.clone(), unit: spec.unit.clone(), better: spec.better }
    }
}

pub(super) fn placed(placement: &Placement) -> PlacementText {
    PlacementText {
        placement: placement.name.clone(),
        reason: placement.reason.clone(),
        threads: placement.threads,
        cpus: placement.cpus().to_string(),
        memory: placement.memory.to_string(),
        second: placement.server_cpus.to_string(),
    }
}
