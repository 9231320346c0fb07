//! The JSON contract of `measure`, `run`, `show` and `compare`. Field names here and in `model::analysis::finding` and
//! `model::values::comparison` are stable: add fields, never rename them.

use model::analysis::doctor::Diagnosis;
use model::analysis::finding::RunFinding;
use model::analysis::gate::GateResult;
use model::analysis::live::{AppliedChange, AppliedFinding, LiveAudit, LiveSummary, LiveTrial, UndonePlacement};
use model::analysis::place::{BudgetForecast, PlacePrediction, PlaceResult};
use model::analysis::residency::{CachedFile, Residency, ResidencySample};
use model::analysis::size::SizeAnswer;
use model::analysis::survey::Survey;
use model::import::unixbench::IndexTable;
use model::placements::placement::PolicyInfo;
use model::values::comparison::{Comparison, Efficiency};
use model::values::plan::{Cell, Plan, ReductionStep};
use model::values::record::{RunRecord, RunSummary, TrialRecord};
use model::values::trial::{Role, TrialStatus};
use model::values::undo::Restored;
use model::values::units::Nanos;
use model::values::workload::WorkloadSpec;
use serde::Serialize;
use serde_json::{Value, json};

use crate::table::PolicyLines;

/// `{"run":{…},"simulated","smoke","cells":[…],"skipped":[…],"reasons":[{"reason","trials","of","tests",
/// "placements"}],"efficiency":[…]}`. Without `efficiency` if the experiment defines none.
pub fn run(record: &RunRecord, finding: &RunFinding, efficiency: &[Efficiency]) -> Value {
    let mut shown = json!({
        "run": about(record),
        "cells": value(&finding.cells),
        "skipped": value(&finding.skipped),
        "reasons": value(&finding.reason_groups()),
    });
    if !efficiency.is_empty() {
        shown["efficiency"] = value(&efficiency);
    }
    stamped(shown, record)
}

/// Adds the stamps of the run: `"simulated"` and `"smoke"`, true or false.
pub(crate) fn stamped(mut shown: Value, record: &RunRecord) -> Value {
    let stamp = record.stamp();
    shown["simulated"] = stamp.simulated.into();
    shown["smoke"] = stamp.smoke.into();
    shown
}

/// `{"need","within_percent","compressibility":{…},"enough","enough_plain","saves","tiers":[{"steered","compressed",
/// "enough","unresolved","compressed_dram"}],"points":[{"dram","steered","compressed","slower_percent","ci_low","ci_high",
/// "compressed_dram","cpu_percent"}],"comparison":{…}}`.
pub fn size(answer: &SizeAnswer, comparison: &Comparison) -> Value {
    let mut shown = value(answer);
    shown["comparison"] = value(comparison);
    shown
}

/// As [`run`], with `"size"`: the answer as in [`size`], without the comparison.
pub fn sized(record: &RunRecord, finding: &RunFinding, answer: &SizeAnswer) -> Value {
    let mut shown = run(record, finding, &[]);
    shown["size"] = value(answer);
    shown
}

/// `{"runs":[…],"live":[…]}`: the stored runs and experiments on running services, without results.
pub fn runs(runs: &[RunSummary], live: &[LiveSummary]) -> Value {
    json!({ "runs": value(&runs), "live": value(&live) })
}

/// `{"experiment","cells":[{"test","workload","parameters","placement", …}],"skipped":[…],"trials","seconds"}`: the
/// plan of a run.
pub fn plan(plan: &Plan, trials: usize, time: Nanos) -> Value {
    let cell = |cell: &Cell| {
        let written = plan.spec(&cell.workload).map(|spec| spec.written(&cell.parameters));
        json!({
            "test": cell.test,
            "workload": cell.workload,
            "parameters": written,
            "placement": cell.placement.name,
            "threads": cell.placement.threads,
            "cpus": cell.placement.cpus().to_string(),
            "memory": cell.placement.memory.to_string(),
            "reason": cell.placement.reason,
        })
    };
    json!({
        "experiment": plan.experiment,
        "question": plan.question,
        "cells": plan.cells.iter().map(cell).collect::<Vec<_>>(),
        "skipped": value(&plan.skipped),
        "trials": trials,
        "seconds": time.seconds(),
    })
}

/// `{"restored":[{"setting","file" or "process","old","new","boot","outcome", …}]}`: the results of restoring changed
/// settings.
pub fn restored(restored: &[Restored]) -> Value {
    json!({ "restored": value(&restored) })
}

/// `{"problems":[{"key","group":"spoils|cannot-measure|expand-lacks","found","effect","fix","command"}],"ok":[…]}`.
pub fn diagnosis(diagnosis: &Diagnosis) -> Value {
    value(diagnosis)
}

/// `{"subject","total":{"bytes","by_node","unattributed","margin"},"parts":[{"kind","name","bytes","by_node",…}],
/// "processes":[…],"threads":[…],"remote_percent","sampling_interval","seconds","unseen":[…]}`; of a command that was
/// run also `"samples":[{"after_seconds","memory","remote_percent"}]`.
pub fn residency(subject: &str, residency: &Residency, samples: &[ResidencySample]) -> Value {
    let mut shown = json!({ "subject": subject });
    if let (Value::Object(shown), Value::Object(fields)) = (&mut shown, value(residency)) {
        shown.extend(fields);
    }
    if !samples.is_empty() {
        shown["samples"] = value(&samples);
    }
    shown
}

/// `{"subject","seconds","cpu_percent","threads":[{"name","threads","allowed","cpus","cpu_percent","wait_percent"}],
/// "short_lived","findings":[{"finding",…}],"rights":{"affinity","pages"},"memory":{…}}`; `memory` as of `where`.
pub fn live_audit(subject: &str, audit: &LiveAudit) -> Value {
    let mut shown = json!({ "subject": subject });
    if let (Value::Object(shown), Value::Object(fields)) = (&mut shown, value(audit)) {
        shown.extend(fields);
    }
    shown
}

/// `{"subject","metric","placements":[{"name","cpus"}],"seconds","wash_out_s","period_s","periods":[{"block","at_s","length_s",
/// "arm","phase","rate","unproven","from","halves","samples","violation"}],"dropped":[{"arm","reason","after_blocks"}],"answer":{"answer",…},"fresh_pairs","race":[[arm,change]],
/// "pinned_threads"}`; `arm` is an index into `placements`.
pub fn live_trial(trial: &LiveTrial) -> Value {
    value(trial)
}

/// `{"subject","options","processes","placement","cpus","pinned","memory":{"nodes","percent"},"state","threads",
/// "threads_elsewhere","memory_percent","moved":{"planned","moved","seconds","is_interrupted"},"numa_balancing",
/// "permanent"}`.
pub fn applied_change(change: &AppliedChange) -> Value {
    value(change)
}

/// `{"applied":[…]}`, each with the fields of [`applied_change`] before `moved`.
pub fn applied_findings(found: &[AppliedFinding]) -> Value {
    json!({ "applied": value(&found) })
}

/// `{"undone":[{"subject","restored":[…],"moved","is_settled"}]}`; `restored` as of `restore`.
pub fn undone(undone: &[UndonePlacement]) -> Value {
    json!({ "undone": value(&undone) })
}

/// `{"files":[{"path","size","bytes","by_node","unattributed","margin","cached_percent","ranges":[[from,to]],
/// "range_count","sampling_interval","nodes_unavailable"}]}`: the page cache of files.
pub fn cached_files(files: &[CachedFile]) -> Value {
    let file = |file: &CachedFile| {
        let mut shown = value(file);
        shown["cached_percent"] = value(&file.cached_percent());
        shown
    };
    json!({ "files": files.iter().map(file).collect::<Vec<_>>() })
}

/// `{"workloads":[…]}`: their descriptions as they are stored with every run.
pub fn workloads(specs: &[WorkloadSpec]) -> Value {
    json!({ "workloads": value(&specs) })
}

/// `{"experiments":[{"name","question"}]}`.
pub fn experiments(experiments: &[(String, String)]) -> Value {
    let experiment = |(name, question): &(String, String)| json!({ "name": name, "question": question });
    json!({ "experiments": experiments.iter().map(experiment).collect::<Vec<_>>() })
}

/// `{"policies":[{"name","about"}]}`.
pub fn policies(policies: &[PolicyInfo]) -> Value {
    json!({ "policies": value(&policies) })
}

/// `{"placements":[{"policy","name","reason","threads","cpus","seats","loose","memory","same_as","lines"} or
/// {"policy","unavailable"}]}`.
pub fn placements(offers: &[PolicyLines]) -> Value {
    let offer = |PolicyLines { offer, lines }: &PolicyLines| match &offer.placement {
        Err(why) => json!({ "policy": offer.policy, "unavailable": why }),
        Ok(placement) => json!({
            "policy": offer.policy,
            "name": placement.name,
            "reason": placement.reason,
            "threads": placement.threads,
            "cpus": placement.cpus().to_string(),
            "seats": value(&placement.bindings),
            "loose": placement.loose,
            "memory": placement.memory.to_string(),
            "same_as": offer.same_as,
            "lines": lines.as_ref().map(value),
        }),
    };
    json!({ "placements": offers.iter().map(offer).collect::<Vec<_>>() })
}

/// `{"trials":[{"id","workload","placement","repetition","verdict","reasons", …}],"simulated","smoke"}`, in the order
/// of the run.
pub fn trials(record: &RunRecord, trials: &[TrialRecord]) -> Value {
    stamped(json!({ "trials": trials.iter().map(trial).collect::<Vec<_>>() }), record)
}

/// `{"baseline","rows":[…],"geomean":[…],"claims":{…}, …}`.
pub fn comparison(comparison: &Comparison) -> Value {
    let mut shown = value(comparison);
    shown["claims"] = value(&comparison.claims());
    shown
}

/// `{"false_alarms_percent","class_by","simulated","classes":[{"name","machines":[{"name","runs","stands_out",
/// …}],"tests":[{"test", "metric","values":[{"machine","change_percent","ci_low","ci_high","stands_out",
/// …}]}],"facts_of_worse":[{"key","value","here",
/// "here_of","elsewhere","elsewhere_of"}],"changes":[{"machine","test","change_percent","before","after", …}]}]}`.
pub fn survey(survey: &Survey) -> Value {
    value(survey)
}

/// `{"by","columns","groups":[{"name","tests":[{"name","unit","baseline","scores":[{"score","index","passes"}]}],"indices":[
/// {"value","tests","change_percent"}]}],"notes"}`; scores and indices are in the order of the columns.
pub fn index(table: &IndexTable) -> Value {
    value(table)
}

/// `{"run":{…},"claim","winner":{…},"ties":[…],"versus_kernel":{"change_percent","ci_low","ci_high",
/// …},"trials","candidates", "raw_placements","lines":{"taskset", …},"ranking":[…]}`.
pub fn answer(record: &RunRecord, answer: &PlaceResult) -> Value {
    let mut json = value(answer);
    json["run"] = about(record);
    stamped(json, record)
}

/// `{"run":{…},"verdict":"passed|failed|undecided|invalid","metric","unit","better","placement","baseline":{"name","median",
/// "verdicts","reason"},"candidate":{…},"pairs","slower_percent","ci_low","ci_high","max_slower_percent","error_rate",
/// "budget_ns"}`.
pub fn gate(record: &RunRecord, result: &GateResult) -> Value {
    let mut json = value(result);
    json["run"] = about(record);
    stamped(json, record)
}

/// As [`run`], with the result of the gate as `gate`.
pub fn gated(record: &RunRecord, finding: &RunFinding, result: &GateResult) -> Value {
    let mut json = run(record, finding, &[]);
    json["gate"] = value(result);
    json
}

/// As [`run`], with the result of the race as `answer`.
pub fn race(record: &RunRecord, finding: &RunFinding, answer: &PlaceResult) -> Value {
    let mut json = run(record, finding, &[]);
    json["answer"] = value(answer);
    json
}

/// `{"predicted":true,"from","run":{…},"like":{…},"best":{…},"change":{"low","mean","high"},"missed_percent",
/// "missed_percent_90","likely":[…],"ranking":[…], …}`: the prediction for the machine named `from`.
pub fn prediction(machine: &str, record: &RunRecord, predicted: &PlacePrediction) -> Value {
    let mut json = value(predicted);
    json["predicted"] = true.into();
    json["from"] = machine.into();
    json["run"] = about(record);
    stamped(json, record)
}

/// `{"steps":[{"name","count","text"}],"candidates":[…]}`: a race's candidates and how they are selected.
pub fn explanation(plan: &Plan, steps: &[ReductionStep]) -> Value {
    let candidates: Vec<_> = plan.cells.iter().map(|cell| value(&cell.placement)).collect();
    json!({ "steps": value(&steps), "candidates": candidates })
}

/// As [`explanation`], with `"budget":{"experiment","seconds","trials","strict"}` and `"forecasts":[{"trial_seconds",
/// "trials","pairs","within_percent","firm_trials","firm_seconds", …}]`: what would be run.
pub fn dry_run(plan: &Plan, steps: &[ReductionStep], forecasts: &[BudgetForecast]) -> Value {
    let mut json = explanation(plan, steps);
    let rules = plan.race.as_ref().map(|race| &race.rules);
    json["budget"] = json!({
        "experiment": plan.experiment,
        "seconds": plan.repeat.budget.seconds(),
        "trials": rules.and_then(|rules| rules.max_trials),
        "strict": rules.is_some_and(|rules| rules.strict),
    });
    json["forecasts"] = value(&forecasts);
    json
}

pub(crate) fn about(record: &RunRecord) -> Value {
    json!({
        "id": record.id.0,
        "experiment": record.plan.experiment,
        "question": record.plan.question,
        "baseline": record.plan.baseline,
        "seed": record.seed,
        "host": record.host,
        "cpu_model": record.machine.settings.get("cpu.model"),
        "machine": record.machine.topology.summary(),
        "settings_fingerprint": record.machine.settings.fingerprint(),
        "simulated": record.simulated,
        "started_unix_ms": record.started_unix_ms,
        "ended": value(&record.ended),
        "program": record.program,
    })
}

fn trial(record: &TrialRecord) -> Value {
    let trial = &record.trial;
    let (status, why) = match &record.outcome.status {
        TrialStatus::Completed => ("completed", None),
        TrialStatus::Failed(why) => ("failed", Some(why)),
        TrialStatus::TimedOut(why) => ("timed-out", Some(why)),
        TrialStatus::Unavailable(why) => ("unavailable", Some(why)),
    };
    json!({
        "id": trial.id.0,
        "workload": trial.workload,
        "placement": trial.placement.name,
        "repetition": trial.block,
        "attempt": trial.attempt,
        "role": value(&trial.role),
        "warmup": trial.role == Role::Warmup,
        "verdict": value(&record.verdict.grade),
        "reasons": record.verdict.reasons,
        "status": status,
        "why": why,
        "position": record.position,
        "cell": trial.cell,
        "parameters": value(&trial.parameters),
        "threads": trial.placement.threads,
        "cpus": value(&trial.placement.cpus()),
        "memory": trial.placement.memory.to_string(),
        "seed": trial.seed,
        "started_unix_ms": record.outcome.started_unix_ms,
        "took_ns": record.outcome.took.0,
        "samples": value(&record.outcome.samples),
        "evidence": value(&record.outcome.evidence),
    })
}

pub(crate) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("values of model have text keys only, so they are JSON")
}
