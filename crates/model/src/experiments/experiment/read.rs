//! Parses and validates experiment files. Errors contain the location and the valid choices.

use std::collections::BTreeSet;

use super::source::{ExperimentText, Located, Scalar, TomlTable};
use super::{Experiment, ExperimentError, REPEAT, ThreadCount, WorkloadGrid, efficiency};
use crate::placements::placement;
use crate::values::command_number::{COMMAND, group_name};
use crate::values::plan::{By, StoppingRule};
use crate::values::suggest::suggestions;
use crate::values::units::{Bytes, Nanos, parse_share};
use crate::values::workload::{ParameterKind, ParameterSpec, WorkloadSpec, current_name};

/// Valid top-level keys.
const KEYS: &[&str] = &["name", "question", "boots", "devices", "repeat", "compare", "efficiency", "workload"];

const WORKLOAD_KEYS: [&str; 8] = ["name", "label", "main", "mean", "set", "placements", "threads", "copies"];

/// Maximum number of blocks. Far above practical values; catches typos.
const BLOCKS_MAX: u32 = 100_000;

/// Several times the number of CPUs of the largest machines.
const THREADS_MAX: usize = 65_536;

/// Parses an experiment. The file name is used only in messages.
pub fn parse(text: &str, file_name: &str, specs: &[WorkloadSpec]) -> Result<Experiment, ExperimentError> {
    let source = ExperimentText { file: file_name, text };
    let toml = source.read()?;
    let root = TomlTable::new(source, "an experiment", &toml, KEYS)?;
    let name = root.required_text("name", "name = \"short-name\"")?;
    let question = root.required_text("question", "question = \"Which placement is faster?\"")?;
    let repeat = repeat(source, &root)?;
    let sections = root.sections("workload", "[[workload]]", &WORKLOAD_KEYS)?;
    if sections.is_empty() {
        let hint = format!("add [[workload]] with name = one of {}", names(specs).join(", "));
        return Err(root.error("the experiment has no [[workload]]", Some(hint)));
    }
    let mut tasks = Vec::new();
    for section in &sections {
        let task = task(source, section, specs)?;
        check_label(source, section, &tasks, &task)?;
        tasks.push(task);
    }
    let (compare_by, baseline) = compare(source, &root, &tasks, specs)?;
    let efficiency = efficiency::rules(source, &root, &tasks, specs)?;
    let texts = |key| -> Result<Vec<String>, ExperimentError> {
        Ok(root.scalars(key)?.unwrap_or_default().into_iter().map(|text| text.value.text).collect())
    };
    let (boots, devices) = (texts("boots")?, texts("devices")?);
    let (name, question) = (name.value, question.value);
    Ok(Experiment { name, question, repeat, compare_by, baseline, efficiency, boots, devices, tasks })
}

fn repeat(source: ExperimentText<'_>, root: &TomlTable<'_>) -> Result<StoppingRule, ExperimentError> {
    let keys = ["warmup", "min", "max", "precision", "budget", "time_limit"];
    let Some(section) = root.section("repeat", "[repeat]", Some(&keys))? else { return Ok(REPEAT) };
    let warmup = section.count("warmup", 0..=BLOCKS_MAX)?;
    let min = section.count("min", 1..=BLOCKS_MAX)?;
    let max = section.count("max", 1..=BLOCKS_MAX)?;
    let least = min.as_ref().map_or(REPEAT.min, |min| min.value);
    // A minimum above the default maximum, without an explicit maximum, means exactly that number of blocks.
    let most = max.as_ref().map_or(REPEAT.max.max(least), |max| max.value);
    if least > most {
        let at = min.as_ref().or(max.as_ref()).map_or(0..0, |given| given.at.clone());
        return Err(source.error(&at, format!("min = {least} is greater than max = {most}"), None));
    }
    Ok(StoppingRule {
        warmup: warmup.map_or(REPEAT.warmup, |warmup| warmup.value),
        min: least,
        max: most,
        precision: percent(source, &section)?.unwrap_or(REPEAT.precision),
        budget: time(source, &section, "budget")?.unwrap_or(REPEAT.budget),
        time_limit: time(source, &section, "time_limit")?.unwrap_or(REPEAT.time_limit),
    })
}

fn percent(source: ExperimentText<'_>, section: &TomlTable<'_>) -> Result<Option<f64>, ExperimentError> {
    let Some(text) = section.text("precision")? else { return Ok(None) };
    let hint = || Some("use the form \"2%\"".into());
    let share = parse_share(&text.value);
    share.map(Some).map_err(|why| source.error(&text.at, format!("precision: {why}"), hint()))
}

fn time(source: ExperimentText<'_>, section: &TomlTable<'_>, key: &str) -> Result<Option<Nanos>, ExperimentError> {
    let Some(text) = section.text(key)? else { return Ok(None) };
    match Nanos::parse(&text.value) {
        Ok(Nanos(0)) => Err(source.error(&text.at, format!("{key}: the duration must be greater than zero"), None)),
        Ok(time) => Ok(Some(time)),
        Err(why) => Err(source.error(&text.at, format!("{key}: {why}"), None)),
    }
}

fn task(
    source: ExperimentText<'_>,
    section: &TomlTable<'_>,
    specs: &[WorkloadSpec],
) -> Result<WorkloadGrid, ExperimentError> {
    let name = section.required_text("name", &format!("name = one of {}", names(specs).join(", ")))?;
    let spec = specs.iter().find(|spec| spec.name == name.value).ok_or_else(|| {
        let hint = format!("the workloads are {}", suggestions(&name.value, names(specs)).join(", "));
        source.error(&name.at, format!("unknown workload '{}'", name.value), Some(hint))
    })?;
    let label = match section.text("label")? {
        Some(label) if label.value.trim().is_empty() => return Err(source.error(&label.at, "label is empty", None)),
        label => label.map(|label| label.value),
    };
    let set = set(source, section, spec)?;
    Ok(WorkloadGrid {
        workload: name.value,
        label,
        main: main_metric(section, source, spec, &set)?,
        outside_means: section.switch("mean")? == Some(false),
        set,
        placements: placements(source, section)?,
        threads: threads(source, section, spec)?,
    })
}

/// Returns the name of the main metric, which must be one of the workload, or the user's name for the number in the output
/// of a command.
fn main_metric(
    section: &TomlTable<'_>,
    source: ExperimentText<'_>,
    spec: &WorkloadSpec,
    set: &[(String, Vec<String>)],
) -> Result<Option<String>, ExperimentError> {
    let Some(main) = section.text("main")? else { return Ok(None) };
    let expressions = set.iter().filter(|(name, _)| spec.name == COMMAND && name == "metric");
    let own: Vec<String> = expressions.flat_map(|(_, values)| values).filter_map(|text| group_name(text)).collect();
    let names = || spec.metrics.iter().map(|metric| &metric.name).chain(&own).map(String::as_str);
    if names().any(|name| name == main.value) {
        return Ok(Some(main.value));
    }
    let known = suggestions(&main.value, names()).join(", ");
    let what = format!("workload {} has no metric '{}'", spec.name, main.value);
    Err(source.error(&main.at, what, Some(format!("the metrics are {known}"))))
}

fn names(specs: &[WorkloadSpec]) -> Vec<&str> {
    specs.iter().map(|spec| spec.name.as_str()).collect()
}

fn set(
    source: ExperimentText<'_>,
    section: &TomlTable<'_>,
    spec: &WorkloadSpec,
) -> Result<Vec<(String, Vec<String>)>, ExperimentError> {
    let given = section.section("set", "set = { parameter = value }", None)?;
    let mut set = Vec::new();
    for key in given.iter().flat_map(TomlTable::keys) {
        let parameter = spec.parameter(current_name(key.value)).ok_or_else(|| {
            let what = format!("workload {} has no parameter '{}'", spec.name, key.value);
            source.error(&key.at, what, Some(parameter_choices(spec, key.value)))
        })?;
        let values = given.as_ref().map(|given| given.scalars(key.value)).transpose()?.flatten().unwrap_or_default();
        for value in &values {
            check_value(parameter, &value.value.text).map_err(|why| {
                source.error(&value.at, format!("parameter {} of workload {}: {why}", key.value, spec.name), None)
            })?;
        }
        set.push((parameter.name.clone(), values.into_iter().map(|value| value.value.text).collect()));
    }
    let missing = |parameter: &&ParameterSpec| {
        parameter.default.is_none() && !set.iter().any(|(name, _)| *name == parameter.name)
    };
    if let Some(parameter) = spec.parameters.iter().find(missing) {
        let hint = format!("add set = {{ {} = ... }}: {}", parameter.name, parameter.about);
        return Err(
            section.error(format!("workload {} requires the parameter {}", spec.name, parameter.name), Some(hint))
        );
    }
    Ok(set)
}

/// Returns `the parameters are size, time`, sorted by similarity, or `this workload has no parameters`.
pub(super) fn parameter_choices(spec: &WorkloadSpec, wrong: &str) -> String {
    let known = spec.parameters.iter().map(|parameter| parameter.name.as_str());
    match suggestions(wrong, known).join(", ") {
        none if none.is_empty() => "this workload has no parameters".into(),
        known => format!("the parameters are {known}"),
    }
}

/// Checks a value as far as possible without a machine: `4xllc` is accepted as a size.
pub(super) fn check_value(parameter: &ParameterSpec, text: &str) -> Result<(), String> {
    let factor = text.trim().strip_suffix("xllc").filter(|_| matches!(parameter.kind, ParameterKind::Size { .. }));
    match factor {
        Some(factor) if factor.parse::<f64>().is_ok_and(|factor| factor > 0.0 && factor.is_finite()) => Ok(()),
        Some(_) => Err(format!("'{text}' is not a multiple of the last-level cache; use the form 4xllc")),
        None => parameter.kind.read(text, None).map(|_| ()),
    }
}

fn placements(source: ExperimentText<'_>, section: &TomlTable<'_>) -> Result<Vec<String>, ExperimentError> {
    let Some(written) = section.scalars("placements")? else { return Ok(vec!["kernel".into()]) };
    for Located { value, at } in &written {
        placement::check(&value.text).map_err(|why| source.error(at, why, None))?;
    }
    Ok(written.into_iter().map(|placement| placement.value.text.trim().to_string()).collect())
}

fn threads(
    source: ExperimentText<'_>,
    section: &TomlTable<'_>,
    spec: &WorkloadSpec,
) -> Result<Vec<ThreadCount>, ExperimentError> {
    // Suites such as UnixBench call it copies; each is pinned like a thread.
    let written = match (section.scalars("threads")?, section.scalars("copies")?) {
        (Some(_), Some(_)) => return Err(section.error("threads and copies are synonyms; use only one of them", None)),
        (threads, copies) => threads.or(copies).unwrap_or_default(),
    };
    let mut counts = Vec::new();
    for Located { value, at } in &written {
        let count = thread_count(value).ok_or_else(|| {
            let what = format!("'{}' is not a thread count", value.text);
            source.error(
                at,
                what,
                Some(format!(
                    "a number from 1 to {THREADS_MAX}, \"all\", \"cores\", \"l3\", \"l3-cpus\", \"node-cores\" or \"devices\""
                )),
            )
        })?;
        check_exact(spec, count).map_err(|why| source.error(at, why, None))?;
        counts.push(count);
    }
    Ok(counts)
}

fn thread_count(value: &Scalar) -> Option<ThreadCount> {
    if value.is_string {
        return ThreadCount::WORDS.iter().find(|(word, _)| *word == value.text).map(|(_, count)| *count);
    }
    let number = value.text.parse().ok()?;
    (1..=THREADS_MAX).contains(&number).then_some(ThreadCount::Exactly(number))
}

/// Rejects a wrong number of threads. A name such as `all` can be the right number on some machine.
pub(super) fn check_exact(spec: &WorkloadSpec, count: ThreadCount) -> Result<(), String> {
    match (spec.threads_exactly, count) {
        (Some(exactly), ThreadCount::Exactly(number)) if number != exactly => {
            Err(format!("workload {} requires exactly {exactly} threads, not {number}", spec.name))
        }
        _ => Ok(()),
    }
}

/// Rejects duplicate labels: two workloads with one name would share a row of a table.
fn check_label(
    source: ExperimentText<'_>,
    section: &TomlTable<'_>,
    earlier: &[WorkloadGrid],
    task: &WorkloadGrid,
) -> Result<(), ExperimentError> {
    let Some(other) = earlier.iter().find(|other| other.title() == task.title() && other.workload != task.workload)
    else {
        return Ok(());
    };
    let what = format!("the label '{}' is already used for workload {}", task.title(), other.workload);
    let hint = Some("add a different label to this workload".into());
    match section.text("label")? {
        Some(label) => Err(source.error(&label.at, what, hint)),
        None => Err(section.error(what, hint)),
    }
}

fn compare(
    source: ExperimentText<'_>,
    root: &TomlTable<'_>,
    tasks: &[WorkloadGrid],
    specs: &[WorkloadSpec],
) -> Result<(String, Option<String>), ExperimentError> {
    let Some(section) = root.section("compare", "[compare]", Some(&["by", "baseline"]))? else {
        return Ok(("placement".into(), None));
    };
    let by = match section.text("by")? {
        Some(by) => {
            check_by(&by.value, tasks, specs).map_err(|why| {
                let hint =
                    "placement, threads, host, kernel, boot, run, set.PARAMETER, or a recorded fact such as kernel.release";
                source.error(&by.at, why, Some(hint.into()))
            })?;
            by.value
        }
        None => "placement".into(),
    };
    let Some(baseline) = section.text("baseline")? else { return Ok((by, None)) };
    let choices = columns(&By::parse(&by), tasks);
    if !choices.is_empty() && !choices.contains(&baseline.value) {
        let nearest = suggestions(&baseline.value, choices.iter().map(String::as_str)).join(", ");
        let what = format!("baseline '{}' is not a column of a comparison by {by}", baseline.value);
        return Err(source.error(&baseline.at, what, Some(format!("the columns are {nearest}"))));
    }
    Ok((by, Some(baseline.value)))
}

/// Accepts any dotted name as a fact: which facts exist depends on the machine.
fn check_by(by: &str, tasks: &[WorkloadGrid], specs: &[WorkloadSpec]) -> Result<(), String> {
    match By::parse(by) {
        By::Several(_) => by.split(',').try_for_each(|part| check_by(part.trim(), tasks, specs)),
        By::Fact(_) if by != "kernel" && (!by.contains('.') || by.starts_with('.') || by.ends_with('.')) => {
            Err(format!("cannot compare by '{by}'"))
        }
        By::Parameter(name) => {
            let used = || specs.iter().filter(|spec| tasks.iter().any(|task| task.workload == spec.name));
            if used().any(|spec| spec.parameter(&name).is_some()) {
                return Ok(());
            }
            let known = used().flat_map(|spec| spec.parameters.iter().map(|parameter| parameter.name.as_str()));
            let nearest = suggestions(&name, known.collect::<BTreeSet<&str>>());
            Err(format!("no workload has a parameter '{name}'; the parameters are {}", nearest.join(", ")))
        }
        _ => Ok(()),
    }
}

/// Returns the value of a parameter as results show it; `None` if no workload reads it.
pub(super) fn formatted(name: &str, text: &str, specs: &[WorkloadSpec], llc: Option<Bytes>) -> Option<String> {
    let mut kinds = specs.iter().filter_map(|spec| spec.parameter(name)).map(|parameter| &parameter.kind);
    kinds.find_map(|kind| Some(kind.write(&kind.read(text, llc).ok()?)))
}

/// Returns the columns that the file defines. Empty if they depend on the machine.
fn columns(by: &By, tasks: &[WorkloadGrid]) -> Vec<String> {
    let mut columns: Vec<String> = match by {
        By::Placement => tasks.iter().flat_map(|task| task.placements.clone()).collect(),
        By::Threads => tasks.iter().flat_map(|task| task.threads.iter().map(ToString::to_string)).collect(),
        By::Parameter(name) => {
            let values =
                |task: &WorkloadGrid| task.set.iter().find(|(key, _)| key == name).map(|(_, values)| values.clone());
            tasks.iter().filter_map(values).flatten().collect()
        }
        By::Command | By::Host | By::Boot | By::Run | By::Fact(_) | By::Several(_) => Vec::new(),
    };
    let mut seen = BTreeSet::new();
    columns.retain(|column| seen.insert(column.clone()));
    columns
}

impl WorkloadGrid {
    /// Returns the name in tables, without parameters.
    pub fn title(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.workload)
    }
}
