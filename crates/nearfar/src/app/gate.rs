//! A gate: whether a command is slower than a baseline by more than is allowed. The baseline is a second command or stored
//! runs.

use std::path::PathBuf;

use model::analysis::compare::{ComparedRun, ComparisonRequest, compare, repeated_runs};
use model::analysis::finding::{CellFinding, RunFinding};
use model::analysis::gate::{GateResult, PAIRS_MAX, StoredSides};
use model::experiments::experiment::{CommandList, PlanOptions};
use model::values::plan::{By, GatePlan, Plan, StoppingRule};
use model::values::record::RunRecord;
use model::values::units::Nanos;
use store::Store;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::compare::{findings, history, latest_runs};
use crate::app::session::{ResumeRule, RunResult, SessionRequest, check, complete};
use crate::app::target_machine::TargetMachine;
use crate::error::{CliError, CliStatus};
use crate::suggestion::policy_hint;

pub struct GateRequest {
    pub session: SessionRequest,
    /// The baseline, then the candidate; only the candidate with a stored baseline.
    pub commands: CommandList,
    pub map: MapRequest,
    pub gate: GatePlan,
    pub budget: Nanos,
    /// Metric to compare, if it is neither the wall time nor a number in the output.
    pub main: Option<String>,
}

/// Stored runs of the baseline.
pub struct BaselineRequest {
    pub runs: Vec<String>,
    /// Another results file with these runs.
    pub file: Option<PathBuf>,
}

/// Minimum number of trials of a candidate with a stored baseline.
const TRIALS_MIN: u32 = 8;

/// Runs both commands until the verdict is proven or the budget is spent.
pub fn gate(request: &GateRequest) -> Result<(RunResult, GateResult), CliError> {
    let (guard, (target, mut plan)) = request.session.acquire(|| prepare(request))?;
    // With the maximum as the minimum, precision never ends the run; the budget does, because it wins.
    plan.repeat = StoppingRule { min: PAIRS_MAX, max: PAIRS_MAX, budget: request.budget, ..plan.repeat };
    plan.gate = Some(request.gate);
    let run = complete(&request.session, guard, &target, plan, &ResumeRule::Fresh)?;
    let result = GateResult::of(&run.record.plan, &run.finding);
    let result = result.ok_or_else(|| CliError::failure("the run of the gate has no two commands"))?;
    Ok((run, result))
}

/// Runs the candidate as often as the stored baseline, within the budget, and compares them.
pub fn gate_stored(request: &GateRequest, baseline: &BaselineRequest) -> Result<(RunResult, GateResult), CliError> {
    let stored = LoadedBaseline::read(request, baseline)?;
    let cells = stored.cells(request)?;
    let most = cells.iter().filter_map(|cell| cell.metrics.first()).map(|metric| metric.samples.len()).max();
    let trials = u32::try_from(most.unwrap_or_default()).unwrap_or(PAIRS_MAX).clamp(TRIALS_MIN, PAIRS_MAX);
    let (guard, (target, mut plan)) = request.session.acquire(|| prepare(request))?;
    plan.repeat = StoppingRule { min: trials, max: trials, budget: request.budget, ..plan.repeat };
    let run = complete(&request.session, guard, &target, plan, &ResumeRule::Fresh)?;
    let result = stored.result(request, &cells, &run)?;
    Ok((run, result))
}

/// The runs of a stored baseline.
struct LoadedBaseline {
    store: Store,
    records: Vec<RunRecord>,
    findings: Vec<RunFinding>,
}

impl LoadedBaseline {
    fn read(request: &GateRequest, baseline: &BaselineRequest) -> Result<Self, CliError> {
        let store = match &baseline.file {
            Some(file) => Store::open_unchanged(file).map_err(|error| CliError::store(&error, CliStatus::Usage))?,
            None => request.session.results.open_existing()?,
        };
        let latest = ["latest".to_string()];
        let names = if baseline.runs.is_empty() { &latest } else { baseline.runs.as_slice() };
        let records: Vec<RunRecord> =
            names.iter().map(|name| store.run(name).map_err(CliError::usage)).collect::<Result<_, _>>()?;
        let is_simulated = request.session.machine.sim.is_some();
        if let Some(record) = records.iter().find(|record| record.simulated.is_some() != is_simulated) {
            let id = &record.id;
            return Err(CliError::usage(format!("run {id}: simulated and real results are never compared")));
        }
        let findings = findings(&store, &records)?;
        Ok(Self { store, records, findings })
    }

    /// Returns the cell of each run with which the candidate is compared.
    fn cells(&self, request: &GateRequest) -> Result<Vec<&CellFinding>, CliError> {
        let placement = &request.commands.shared.placements[0];
        let argv = request.commands.commands.first().map(|command| command.argv.as_str());
        let cell = |(record, finding): (&RunRecord, _)| {
            cell_of(finding, placement, argv).ok_or_else(|| {
                CliError::usage(format!("run {} did not measure this command under placement {placement}", record.id))
                    .hint("show its cells with nearfar show, and choose one with --placement")
            })
        };
        self.records.iter().zip(&self.findings).map(cell).collect()
    }

    fn result(
        &self,
        request: &GateRequest,
        baseline: &[&CellFinding],
        run: &RunResult,
    ) -> Result<GateResult, CliError> {
        let candidate = run.finding.cells.first().and_then(|cell| Some((cell, cell.metrics.first()?)));
        let (candidate, metric) = candidate.ok_or_else(|| CliError::failure("the run of the gate has no command"))?;
        let compared: Vec<RunRecord> = self.records.iter().chain([&run.record]).cloned().collect();
        let others = history(&compared, latest_runs(&self.records[0], &self.store)?);
        let other_findings = findings(&self.store, &others)?;
        let others: Vec<ComparedRun<'_>> = paired(&others, &other_findings).collect();
        let cells: Vec<(&RunRecord, &CellFinding)> =
            compared.iter().zip(baseline.iter().copied().chain([candidate])).collect();
        let groups = repeated_runs(&cells, metric, &others);
        let baseline: Vec<(&str, &CellFinding)> =
            self.records.iter().map(|record| record.id.0.as_str()).zip(baseline.iter().copied()).collect();
        let sides = StoredSides { baseline: &baseline, candidate, history: &groups, notes: &self.notes(run) };
        GateResult::of_stored(&request.gate, sides, request.budget)
            .ok_or_else(|| CliError::usage(format!("the baseline has no metric {} in {}", metric.name, metric.unit)))
    }

    /// Returns the facts that differ between the runs of the baseline and the candidate.
    fn notes(&self, run: &RunResult) -> Vec<String> {
        let candidate = ComparedRun { record: &run.record, finding: &run.finding };
        let runs: Vec<ComparedRun<'_>> = paired(&self.records, &self.findings).chain([candidate]).collect();
        let by = By::parse("run");
        let request =
            ComparisonRequest { by: &by, baseline: None, tests: &[], metric: None, added_tables: &[], history: &[] };
        compare(&runs, &request).map_or_else(|_| Vec::new(), |comparison| comparison.notes)
    }
}

/// Returns the cell with this command line under the placement, or else the only cell under it.
fn cell_of<'a>(finding: &'a RunFinding, placement: &str, argv: Option<&str>) -> Option<&'a CellFinding> {
    let cells: Vec<&CellFinding> =
        finding.cells.iter().filter(|cell| cell.workload == "command" && cell.placement == placement).collect();
    let same = cells.iter().find(|cell| cell.parameters.get("argv").map(String::as_str) == argv);
    same.or(cells.first().filter(|_| cells.len() == 1)).copied()
}

fn paired<'a>(records: &'a [RunRecord], findings: &'a [RunFinding]) -> impl Iterator<Item = ComparedRun<'a>> {
    records.iter().zip(findings).map(|(record, finding)| ComparedRun { record, finding })
}

fn prepare(request: &GateRequest) -> Result<(TargetMachine, Plan), CliError> {
    let target = TargetMachine::read(&request.session.machine)?;
    let catalogue = PlacementCatalogue::for_target(&target, &request.map)?;
    let options = PlanOptions { smoke: false, kernel: workloads::offers(), devices: &[], missing: target.missing() };
    let placements = &request.commands.shared.placements;
    let planned = request.commands.plan(&catalogue.topology, &workloads::specs(), options);
    let mut plan = planned.map_err(|error| CliError::plan(&error).maybe_hint(policy_hint(placements).as_deref()))?;
    check(&plan, &target)?;
    if let Some(main) = &request.main {
        plan.cells.iter_mut().for_each(|cell| cell.main = Some(main.clone()));
    }
    plan.experiment = "gate".into();
    plan.question = "Is the candidate slower than the baseline by more than is allowed?".into();
    plan.budget_wins = true;
    plan.command = catalogue.argv_with_map(&request.session.argv);
    Ok((target, plan))
}
