//! Anonymises a run and its trials field by field.

use super::pseudonyms::Pseudonyms;
use super::texts::{TextScrubber, is_plain_device, learn_devices};
use super::{ShareOptions, SharedRun, efficiency, facts};
use crate::values::capture::Capture;
use crate::values::command_number::COMMAND;
use crate::values::placement::{Placement, Route};
use crate::values::plan::{Cell, Plan, RacePlan, ReductionStep, SearchPlan, SkippedCell, stream};
use crate::values::record::{RunId, RunRecord, TrialRecord};
use crate::values::settings::FactValue;
use crate::values::topology::{CpuKind, Device, Interrupt, Topology};
use crate::values::trial::{
    DeviceInterrupt, Evidence, FilePages, Sample, Trial, TrialId, TrialOutcome, TrialStatus, Verdict, short_hash,
};
use crate::values::workload::{MetricSpec, ParameterKind, ParameterSpec, WorkloadSpec};

/// Replaces the reason of a failure: it may contain arbitrary output of a program.
const REASON_HIDDEN: &str = "its output is not shared";

pub(super) fn share(record: &RunRecord, trials: &[TrialRecord], options: &ShareOptions) -> SharedRun {
    let mut words = Pseudonyms::new(&options.names);
    learn_devices(record, trials, &mut words);
    let simulated = record.simulated.as_deref().map(|name| learn_simulated(name, record, &mut words));
    if let Some(label) = &record.host {
        words.replace(label, "HOST");
        words.count("host labels");
    }
    let texts = TextScrubber::learn(record, trials, options.keep_commands, &mut words);
    let mut work = Redaction { words, texts, keep_commands: options.keep_commands };
    let plan = work.plan(&record.plan);
    let mut shared = RunRecord {
        machine: work.machine(&record.machine, simulated.as_deref()),
        plan,
        host: options.host.clone(),
        simulated,
        program: work.words.sentence(&record.program),
        ..record.clone()
    };
    let is_hash = |id: &str| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_hash_ids = is_hash(&record.id.0) && trials.iter().all(|trial| is_hash(&trial.trial.id.0));
    let renamed = shared.plan.key() != record.plan.key() || shared.simulated != record.simulated || !has_hash_ids;
    if renamed {
        shared.id = new_id(&shared);
    }
    let trials = trials.iter().map(|trial| work.trial(trial, renamed.then_some(&shared))).collect();
    SharedRun { record: shared, trials, taken: work.words.taken }
}

/// Returns `CAPTURE:SEED` without a file name.
fn learn_simulated(simulated: &str, record: &RunRecord, words: &mut Pseudonyms) -> String {
    let (name, seed) = simulated.rsplit_once(':').unwrap_or((simulated, ""));
    let machine = serde_json::to_string(&record.machine.topology.fixed()).expect("a topology has text keys only");
    let pseudonym = format!("machine-{}", &short_hash(&machine)[..8]);
    words.replace(name, &pseudonym);
    words.count("names of captures");
    format!("{pseudonym}:{}", if seed.bytes().all(|byte| byte.is_ascii_digit()) { seed } else { "" })
}

/// Derives a run id from the shared data.
fn new_id(shared: &RunRecord) -> RunId {
    let RunRecord { plan, seed, simulated, started_unix_ms, .. } = shared;
    RunId(short_hash(&format!("shared\n{}\n{seed}\n{simulated:?}\n{started_unix_ms}", plan.key())))
}

/// State of the anonymisation of one run.
struct Redaction {
    words: Pseudonyms,
    texts: TextScrubber,
    keep_commands: bool,
}

impl Redaction {
    fn plan(&mut self, plan: &Plan) -> Plan {
        let workloads: Vec<WorkloadSpec> = plan.workloads.iter().map(Self::spec).collect();
        let cells: Vec<Cell> = plan.cells.iter().map(|cell| self.cell(cell, &workloads)).collect();
        let efficiency = efficiency::share(plan, &cells, &mut self.words);
        Plan {
            experiment: self.words.sentence(&plan.experiment),
            question: self.words.sentence(&plan.question),
            cells,
            skipped: plan.skipped.iter().map(|skipped| self.skipped(skipped)).collect(),
            workloads,
            repeat: plan.repeat.clone(),
            compare_by: self.words.sentence(&plan.compare_by),
            baseline: plan.baseline.as_ref().map(|baseline| self.words.sentence(baseline)),
            efficiency,
            budget_wins: plan.budget_wins,
            race: plan.race.as_ref().map(|race| self.race(race)),
            // Contains only numbers and kinds of memory, which do not identify the command.
            size: plan.size.clone(),
            gate: plan.gate,
            command: self.command(plan),
        }
    }

    /// Keeps the arguments of the plan only if they contain no command line.
    fn command(&mut self, plan: &Plan) -> Vec<String> {
        let has_command = plan.race.is_some() || plan.workloads.iter().any(|spec| spec.name == COMMAND);
        if has_command && !self.keep_commands {
            return Vec::new();
        }
        // The name of an experiment file is chosen by its owner.
        let file = |word: &String| word.to_ascii_lowercase().ends_with(".toml");
        plan.command
            .iter()
            .map(|word| if file(word) { "FILE.toml".into() } else { self.words.sentence(word) })
            .collect()
    }

    fn cell(&mut self, cell: &Cell, workloads: &[WorkloadSpec]) -> Cell {
        let workload = self.words.public(&cell.workload);
        let test = self.texts.test(&cell.test).unwrap_or_else(|| self.words.sentence(&cell.test));
        let parameters = self.texts.parameters(&cell.workload, &cell.parameters, &mut self.words);
        let placement = self.placement(&cell.placement);
        let (main, outside_means) = (cell.main.clone(), cell.outside_means);
        match workloads.iter().find(|spec| spec.name == workload) {
            Some(spec) => Cell { main, outside_means, ..Cell::new(spec, test, parameters, placement) },
            None => {
                Cell { key: self.words.sentence(&cell.key), workload, test, parameters, placement, main, outside_means }
            }
        }
    }

    fn skipped(&mut self, skipped: &SkippedCell) -> SkippedCell {
        SkippedCell {
            test: self.texts.test(&skipped.test).unwrap_or_else(|| self.words.sentence(&skipped.test)),
            placement: self.words.public(&skipped.placement),
            why: self.words.sentence(&skipped.why),
        }
    }

    fn race(&mut self, race: &RacePlan) -> RacePlan {
        let step = |step: &ReductionStep, words: &mut Pseudonyms| ReductionStep {
            count: step.count.as_ref().map(|count| words.sentence(count)),
            text: words.sentence(&step.text),
        };
        RacePlan {
            raw_placements: self.words.sentence(&race.raw_placements),
            steps: race.steps.iter().map(|old| step(old, &mut self.words)).collect(),
            search: race.search.as_ref().map(SearchPlan::without_names),
            ..race.clone()
        }
    }

    /// Keeps the program's own texts. Metric names must stay consistent with the samples.
    fn spec(spec: &WorkloadSpec) -> WorkloadSpec {
        // Example paths in descriptions are not private and not counted.
        let words = &mut Pseudonyms::default();
        let parameter = |old: &ParameterSpec, words: &mut Pseudonyms| ParameterSpec {
            name: words.public(&old.name),
            about: words.public(&old.about),
            kind: match &old.kind {
                ParameterKind::Choice(choices) => {
                    ParameterKind::Choice(choices.iter().map(|choice| words.public(choice)).collect())
                }
                other => other.clone(),
            },
            default: old.default.as_ref().map(|text| words.public(text)),
            smoke: old.smoke.as_ref().map(|text| words.public(text)),
        };
        let metric = |old: &MetricSpec, words: &mut Pseudonyms| MetricSpec {
            name: words.public(&old.name),
            unit: words.public(&old.unit),
            series: words.public(&old.series),
            ..old.clone()
        };
        WorkloadSpec {
            name: words.public(&spec.name),
            summary: words.public(&spec.summary),
            about: words.public(&spec.about),
            parameters: spec.parameters.iter().map(|old| parameter(old, words)).collect(),
            metrics: spec.metrics.iter().map(|old| metric(old, words)).collect(),
            ..spec.clone()
        }
    }

    fn placement(&mut self, placement: &Placement) -> Placement {
        let route = |route: &Route, work: &mut Self| Route {
            device: work.device(&route.device),
            name: work.words.sentence(&route.name),
            ..route.clone()
        };
        Placement {
            name: self.words.public(&placement.name),
            reason: self.words.sentence(&placement.reason),
            interrupts: placement.interrupts.iter().map(|old| route(old, self)).collect(),
            ..placement.clone()
        }
    }

    fn device(&mut self, name: &str) -> String {
        if is_plain_device(name) { name.into() } else { self.words.sentence(name) }
    }

    fn machine(&mut self, machine: &Capture, simulated: Option<&str>) -> Capture {
        let mut settings = facts::share(&machine.settings, &mut self.words);
        // A simulated machine without settings is named after its file.
        let model = machine.settings.get("cpu.model").filter(|model| model.starts_with("simulated "));
        if let (Some(_), Some(simulated)) = (model, simulated) {
            let name = simulated.split(':').next().unwrap_or(simulated);
            settings.record("cpu.model", FactValue::Known(format!("simulated {name}")));
        }
        Capture { version: machine.version, topology: self.topology(&machine.topology), settings }
    }

    fn topology(&mut self, topology: &Topology) -> Topology {
        let mut shared = topology.clone();
        for object in &mut shared.objects {
            object.subtype = object.subtype.as_ref().map(|text| self.words.public(text));
        }
        for node in &mut shared.nodes {
            node.subtype = node.subtype.as_ref().map(|text| self.words.public(text));
        }
        for distances in &mut shared.distances {
            distances.name = distances.name.as_ref().map(|text| self.words.public(text));
        }
        for attribute in &mut shared.memory_attributes {
            attribute.attr = self.words.public(&attribute.attr);
        }
        for CpuKind { info, .. } in &mut shared.cpu_kinds {
            *info = info.iter().map(|(key, value)| (self.words.public(key), self.words.public(value))).collect();
        }
        shared.devices = topology.devices.iter().map(|device| self.whole_device(device)).collect();
        shared.notes = topology.notes.iter().map(|note| self.words.sentence(note)).collect();
        shared
    }

    fn whole_device(&mut self, device: &Device) -> Device {
        let interrupts = device.interrupts.iter();
        Device {
            name: self.device(&device.name),
            bus: device.bus.as_ref().map(|bus| self.words.sentence(bus)),
            interrupts: interrupts
                .map(|old| Interrupt { name: self.words.sentence(&old.name), ..old.clone() })
                .collect(),
            ..device.clone()
        }
    }

    /// Anonymises a trial; `renamed` is its run if new ids are derived.
    fn trial(&mut self, record: &TrialRecord, renamed: Option<&RunRecord>) -> TrialRecord {
        let old = &record.trial;
        let mut trial = Trial {
            workload: self.words.public(&old.workload),
            parameters: self.texts.parameters(&old.workload, &old.parameters, &mut self.words),
            placement: self.placement(&old.placement),
            ..old.clone()
        };
        if let Some(run) = renamed {
            let key = run.plan.cells.get(old.cell).map_or("", |cell| &cell.key);
            trial.id = TrialId::derive(&run.id.0, key, old.role, old.block, old.attempt);
            trial.seed = stream(run.seed, &trial.id.0);
        }
        let failed = matches!(&record.outcome.status, TrialStatus::Failed(_));
        let reasons = record.verdict.reasons.iter();
        TrialRecord {
            position: record.position,
            trial,
            outcome: self.outcome(&record.outcome),
            verdict: Verdict {
                grade: record.verdict.grade,
                reasons: reasons
                    .map(|reason| match reason.strip_prefix("failed: ") {
                        Some(_) if failed => format!("failed: {REASON_HIDDEN}"),
                        _ => self.words.sentence(reason),
                    })
                    .collect(),
            },
        }
    }

    fn outcome(&mut self, outcome: &TrialOutcome) -> TrialOutcome {
        let status = match &outcome.status {
            TrialStatus::Completed => TrialStatus::Completed,
            TrialStatus::Failed(why) => {
                self.words.count("reasons of failures");
                // The reason may also occur in other texts of the same run.
                self.words.replace(why, REASON_HIDDEN);
                TrialStatus::Failed(REASON_HIDDEN.into())
            }
            TrialStatus::TimedOut(why) => TrialStatus::TimedOut(self.words.sentence(why)),
            TrialStatus::Unavailable(why) => TrialStatus::Unavailable(self.words.sentence(why)),
        };
        let samples = outcome.samples.iter();
        TrialOutcome {
            status,
            samples: samples
                .map(|sample| Sample { series: self.words.public(&sample.series), value: sample.value })
                .collect(),
            evidence: self.evidence(&outcome.evidence),
            ..outcome.clone()
        }
    }

    fn evidence(&mut self, evidence: &Evidence) -> Evidence {
        let interrupt = |old: &DeviceInterrupt, work: &mut Self| DeviceInterrupt {
            device: work.device(&old.device),
            name: work.words.sentence(&old.name),
            ..old.clone()
        };
        Evidence {
            memory_policy: evidence.memory_policy.as_ref().map(|policy| self.words.sentence(policy)),
            device_interrupts: evidence.device_interrupts.iter().map(|old| interrupt(old, self)).collect(),
            files: evidence.files.iter().map(|file| self.file_pages(file)).collect(),
            unavailable: evidence
                .unavailable
                .iter()
                .map(|(what, why)| (self.words.public(what), self.words.sentence(why)))
                .collect(),
            // CPU numbers and times describe the machine's activity, not its user.
            cpu_times: evidence.cpu_times.clone(),
            second: evidence.second.as_ref().map(|second| Box::new(self.evidence(second))),
            ..evidence.clone()
        }
    }

    fn file_pages(&mut self, file: &FilePages) -> FilePages {
        FilePages { path: self.words.sentence(&file.path), ..file.clone() }
    }
}
