//! Expands an experiment into a plan for one machine: the grid of parameters x thread counts x placements, without the
//! cells that this machine cannot run and without duplicates.

use std::collections::{BTreeMap, BTreeSet};

use super::{Experiment, PlanOptions, ThreadCount, WorkloadGrid, efficiency, read};
use crate::placements::placement::{self, ThreadCounts, refused, same_place};
use crate::values::command_number;
use crate::values::placement::Placement;
use crate::values::plan::{By, Cell, Plan, SkippedCell, StoppingRule};
use crate::values::topology::Topology;
use crate::values::workload::{Parameters, WorkloadSpec};

/// Plans are kept in memory and printed; a larger one indicates a typo in a list.
const CELLS_MAX: usize = 10_000;

/// Placeholder for the name of the first device in values of parameters.
const DEVICE: &str = "{device}";
/// Placeholder for all devices: the value is repeated for each, separated by commas.
const DEVICES: &str = "{devices}";

/// Two blocks exercise ordering and resuming; more would add no information at smoke-test sizes.
const SMOKE_BLOCKS: u32 = 2;

/// Maximum number of reasons listed if no cell can run.
const REASONS_MAX: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0}")]
    Invalid(String),
    /// This machine can run none of the cells.
    #[error("{0}")]
    NothingToRun(String),
}

struct Combination<'a> {
    task: &'a WorkloadGrid,
    spec: &'a WorkloadSpec,
    /// Values as written in the file, or at smoke-test size.
    given: BTreeMap<String, String>,
    /// All parameters, or the reason why this machine does not support a value.
    parameters: Result<Parameters, String>,
    /// Requirement of the workload with these parameters that this machine lacks.
    missing: Option<String>,
}

/// Inputs of a plan besides the experiment.
struct PlanContext<'a> {
    topology: &'a Topology,
    counts: ThreadCounts,
    options: PlanOptions<'a>,
    devices: &'a [String],
}

impl Experiment {
    /// Returns the plan for this machine. Cells that it cannot run, and placements that are equal to another one on
    /// this machine, are listed as skipped with the reason.
    pub fn plan(
        &self,
        topology: &Topology,
        specs: &[WorkloadSpec],
        options: PlanOptions<'_>,
    ) -> Result<Plan, PlanError> {
        self.plan_with(topology, specs, options, &BTreeSet::new())
    }

    /// As [`Experiment::plan`], but parameters in `kept` keep their value in a smoke test.
    pub fn plan_with(
        &self,
        topology: &Topology,
        specs: &[WorkloadSpec],
        options: PlanOptions<'_>,
        kept: &BTreeSet<String>,
    ) -> Result<Plan, PlanError> {
        let devices = if options.devices.is_empty() { &self.devices } else { options.devices };
        let ctx = PlanContext { topology, counts: placement::thread_counts(topology), options, devices };
        let combinations = combinations(&self.tasks, specs, &ctx, kept)?;
        let varying = varying(&combinations);
        let (mut cells, mut left_out) = (Vec::new(), Vec::new());
        for combination in &combinations {
            let test = combination.test(&varying);
            let (more, less) = fill(combination, &test, self.first_placement(), &ctx);
            cells.extend(more);
            left_out.extend(less);
        }
        let (cells, mut skipped) = without_repetitions(cells);
        skipped.splice(0..0, left_out);
        let mut seen = BTreeSet::new();
        skipped.retain(|skip| seen.insert(format!("{skip:?}")));
        if cells.is_empty() {
            return Err(nothing_to_run(&self.name, &skipped));
        }
        let used = |spec: &&WorkloadSpec| cells.iter().any(|cell| cell.workload == spec.name);
        let workloads: Vec<WorkloadSpec> = specs.iter().filter(used).cloned().collect();
        Ok(Plan {
            experiment: self.name.clone(),
            question: self.question.clone(),
            efficiency: efficiency::formatted(&self.efficiency, &workloads, topology.last_cache_bytes()),
            budget_wins: false,
            workloads,
            repeat: if options.smoke { smoke(&self.repeat) } else { self.repeat.clone() },
            compare_by: self.compare_by.clone(),
            baseline: self.baseline_here(&ctx, &cells, specs),
            race: None,
            size: None,
            gate: None,
            command: Vec::new(),
            cells,
            skipped,
        })
    }

    /// Returns the placement to keep among equal ones: the baseline, because all rows are compared with it.
    fn first_placement(&self) -> Option<&str> {
        self.baseline.as_deref().filter(|_| By::parse(&self.compare_by) == By::Placement)
    }

    /// Returns the column name of the baseline; `None` if this machine has no such column, so that the first column is
    /// used instead.
    fn baseline_here(&self, ctx: &PlanContext<'_>, cells: &[Cell], specs: &[WorkloadSpec]) -> Option<String> {
        let baseline = self.baseline.clone()?;
        match By::parse(&self.compare_by) {
            By::Placement => Some(baseline).filter(|name| cells.iter().any(|cell| cell.placement.name == *name)),
            By::Threads => {
                let word = ThreadCount::WORDS.iter().find(|(word, _)| *word == baseline);
                let number = word.map(|(_, count)| resolve(*count, ctx));
                let column = number.map_or(Some(baseline), |number| number.ok().map(|number| number.to_string()))?;
                Some(column).filter(|name| cells.iter().any(|cell| cell.placement.threads.to_string() == *name))
            }
            By::Parameter(name) => {
                let used = specs.iter().filter(|spec| cells.iter().any(|cell| cell.workload == spec.name));
                let used: Vec<WorkloadSpec> = used.cloned().collect();
                read::formatted(&name, &baseline, &used, ctx.topology.last_cache_bytes())
            }
            By::Command | By::Host | By::Boot | By::Run | By::Fact(_) | By::Several(_) => Some(baseline),
        }
    }
}

fn smoke(repeat: &StoppingRule) -> StoppingRule {
    StoppingRule { warmup: 0, min: SMOKE_BLOCKS, max: SMOKE_BLOCKS, ..repeat.clone() }
}

/// Returns all combinations of parameters of all tasks, in file order.
fn combinations<'a>(
    tasks: &'a [WorkloadGrid],
    specs: &'a [WorkloadSpec],
    ctx: &PlanContext<'_>,
    kept: &BTreeSet<String>,
) -> Result<Vec<Combination<'a>>, PlanError> {
    let cells = |task: &WorkloadGrid| {
        let sides = task.set.iter().map(|(_, values)| values.len());
        sides.chain([task.placements.len(), task.threads.len().max(1)]).fold(1_usize, usize::saturating_mul)
    };
    let total = tasks.iter().map(cells).fold(0_usize, usize::saturating_add);
    if total > CELLS_MAX {
        return Err(PlanError::Invalid(format!("the lists define {total} cells; the maximum is {CELLS_MAX}")));
    }
    let mut all = Vec::new();
    for task in tasks {
        let spec = specs
            .iter()
            .find(|spec| spec.name == task.workload)
            .ok_or_else(|| PlanError::Invalid(format!("unknown workload '{}'", task.workload)))?;
        for given in products(&task.set) {
            let given = if ctx.options.smoke { at_smoke_size(spec, given, kept) } else { given };
            let parameters = with_device(&given, ctx.devices)
                .and_then(|given| spec.resolve(&given, ctx.topology.last_cache_bytes()));
            let missing = ctx.options.missing.and_then(|missing| missing(&spec.name, parameters.as_ref().ok()?));
            all.push(Combination { task, spec, given, parameters, missing });
        }
    }
    Ok(all)
}

/// Substitutes `{device}` by the first device, so that experiments do not depend on names of disks; a value with
/// `{devices}` is repeated for each device.
fn with_device(given: &BTreeMap<String, String>, devices: &[String]) -> Result<BTreeMap<String, String>, String> {
    let each = |value: &String| devices.iter().map(|device| value.replace(DEVICES, device)).collect::<Vec<_>>();
    let replaced = |(name, value): (&String, &String)| match devices.first() {
        Some(_) if value.contains(DEVICES) => Ok((name.clone(), each(value).join(","))),
        Some(device) => Ok((name.clone(), value.replace(DEVICE, device))),
        None if !value.contains(DEVICE) && !value.contains(DEVICES) => Ok((name.clone(), value.clone())),
        None => Err(format!("{name} requires a device, and none is named: use --device NAME")),
    };
    given.iter().map(replaced).collect()
}

/// Returns all combinations of one value per list; the last list varies fastest.
fn products(set: &[(String, Vec<String>)]) -> Vec<BTreeMap<String, String>> {
    let mut products = vec![BTreeMap::new()];
    for (name, values) in set {
        let extended = |product: &BTreeMap<String, String>| {
            let with = |value: &String| {
                let mut product = product.clone();
                product.insert(name.clone(), value.clone());
                product
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        products = products.iter().flat_map(extended).collect();
    }
    products
}

fn at_smoke_size(
    spec: &WorkloadSpec,
    mut given: BTreeMap<String, String>,
    kept: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    for parameter in spec.parameters.iter().filter(|parameter| !kept.contains(&parameter.name)) {
        if let Some(smoke) = &parameter.smoke {
            given.insert(parameter.name.clone(), smoke.clone());
        }
    }
    given
}

impl Combination<'_> {
    /// Returns the title with those parameters whose values differ among the combinations of this title.
    fn test(&self, varying: &BTreeMap<&str, BTreeSet<String>>) -> String {
        let shown = self.displayed();
        let varies = |name: &String| varying.get(self.task.title()).is_some_and(|names| names.contains(name));
        let order = self.spec.parameters.iter().map(|parameter| &parameter.name).filter(|name| varies(name));
        let words = order.filter_map(|name| Some(format!("{name}={}", shown.get(name)?)));
        std::iter::once(self.task.title().to_string()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Returns the main metric; `None` for the first of the workload. The number that a command is asked for is its main
    /// metric by default.
    fn main_metric(&self, parameters: &Parameters) -> Option<String> {
        let number = command_number::metric(&self.spec.name, parameters);
        let own_name = number.and_then(|metric| command_number::own_name(&self.spec.name, parameters, metric));
        match &self.task.main {
            Some(main) if Some(main) != own_name.as_ref() => Some(main.clone()),
            _ => number.map(str::to_string),
        }
    }

    /// Returns the parameters, or the reason why this machine cannot measure them.
    fn parameters_here(&self) -> Result<Parameters, String> {
        let parameters = self.parameters.clone()?;
        self.missing.clone().map_or(Ok(parameters), Err)
    }

    /// Returns the values as displayed in tables. Multiples of the cache size are kept, so that a test has the same
    /// name on machines with different caches.
    fn displayed(&self) -> BTreeMap<String, String> {
        let written = self.parameters.as_ref().map(|parameters| self.spec.written(parameters)).unwrap_or_default();
        let own = |name: &String| {
            self.given.get(name).filter(|text| text.ends_with("xllc")).map(|text| text.trim().to_string())
        };
        let mut shown: BTreeMap<String, String> =
            written.into_iter().map(|(name, value)| (name.clone(), own(&name).unwrap_or(value))).collect();
        for (name, value) in &self.given {
            shown.entry(name.clone()).or_insert_with(|| value.clone());
        }
        shown
    }
}

/// Returns the parameters with more than one value, by title.
fn varying<'a>(combinations: &[Combination<'a>]) -> BTreeMap<&'a str, BTreeSet<String>> {
    let mut first: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    let mut varying: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for combination in combinations {
        let (title, shown) = (combination.task.title(), combination.displayed());
        let first = first.entry(title).or_insert_with(|| shown.clone());
        let names = shown.keys().chain(first.keys()).filter(|name| shown.get(*name) != first.get(*name));
        varying.entry(title).or_default().extend(names.cloned());
    }
    varying
}

/// A thread count on this machine: `None` for each placement's natural number, or the reason why the count is
/// unavailable.
type ThreadSpec = Result<Option<usize>, String>;

/// Returns the distinct thread counts of a task on this machine: `all` may equal one of the numbers.
fn thread_choices(combination: &Combination<'_>, ctx: &PlanContext<'_>) -> Vec<ThreadSpec> {
    let exactly = combination.spec.threads_exactly;
    if combination.task.threads.is_empty() {
        return vec![Ok(exactly)];
    }
    let mut choices: Vec<ThreadSpec> = Vec::new();
    for count in &combination.task.threads {
        let name = &combination.spec.name;
        let number = resolve(*count, ctx).and_then(|number| match exactly {
            Some(exactly) if exactly != number => Err(format!(
                "workload {name} requires exactly {exactly} threads, but '{count}' is {number} on this machine"
            )),
            _ => Ok(Some(number)),
        });
        if !choices.contains(&number) {
            choices.push(number);
        }
    }
    choices
}

fn resolve(count: ThreadCount, ctx: &PlanContext<'_>) -> Result<usize, String> {
    let counts = ctx.counts;
    match count {
        // Without devices, the parameter with `{devices}` reports the error.
        ThreadCount::Devices => Ok(ctx.devices.len().max(1)),
        ThreadCount::Exactly(number) => Ok(number),
        ThreadCount::All => Ok(counts.all),
        ThreadCount::Cores => Ok(counts.cores),
        ThreadCount::L3 => counts.l3.ok_or_else(no_l3),
        ThreadCount::L3Cpus => counts.l3_cpus.ok_or_else(no_l3),
        ThreadCount::NodeCores => Ok(counts.node_cores.unwrap_or(counts.cores)),
    }
}

fn no_l3() -> String {
    "this machine reports no L3 and no other shared cache".into()
}

/// Adds the cells of one combination and its skipped cells. A reason that applies to only some thread counts names
/// them.
fn fill(
    combination: &Combination<'_>,
    test: &str,
    first: Option<&str>,
    ctx: &PlanContext<'_>,
) -> (Vec<Cell>, Vec<SkippedCell>) {
    let mut cells = Vec::new();
    let mut reasons: Vec<(&str, String, Vec<ThreadSpec>)> = Vec::new();
    let choices = thread_choices(combination, ctx);
    for threads in &choices {
        for (name, placed) in place_all(combination, threads, first, ctx) {
            match placed.and_then(|placement| Ok((placement, combination.parameters_here()?))) {
                Ok((placement, parameters)) => {
                    let main = combination.main_metric(&parameters);
                    let cell = Cell::new(combination.spec, test.into(), parameters, placement);
                    cells.push(Cell { main, outside_means: combination.task.outside_means, ..cell });
                }
                Err(why) => match reasons.iter_mut().find(|(other, reason, _)| *other == name && *reason == why) {
                    Some((_, _, counts)) => counts.push(threads.clone()),
                    None => reasons.push((name, why, vec![threads.clone()])),
                },
            }
        }
    }
    let skip = |(name, why, counts): (&str, String, Vec<ThreadSpec>)| {
        let why = if counts.len() == choices.len() { why } else { format!("{}{why}", with_threads(&counts)) };
        SkippedCell { test: test.into(), placement: name.into(), why }
    };
    (cells, reasons.into_iter().map(skip).collect())
}

/// Returns `with 1, 24 threads: `, or the empty text if the reason is the thread count itself.
fn with_threads(counts: &[ThreadSpec]) -> String {
    let numbers: Vec<String> = counts.iter().filter_map(|count| Some(count.clone().ok()??.to_string())).collect();
    match numbers.as_slice() {
        [] => String::new(),
        [one] if one == "1" => "with 1 thread: ".into(),
        numbers => format!("with {} threads: ", numbers.join(", ")),
    }
}

/// Removes cells with equal keys, which would run the same trials, and lists them as skipped.
fn without_repetitions(cells: Vec<Cell>) -> (Vec<Cell>, Vec<SkippedCell>) {
    let mut tests: BTreeMap<String, String> = BTreeMap::new();
    let (mut kept, mut skipped) = (Vec::new(), Vec::new());
    for cell in cells {
        match tests.get(&cell.key) {
            None => {
                tests.insert(cell.key.clone(), cell.test.clone());
                kept.push(cell);
            }
            Some(test) if *test == cell.test => {}
            Some(test) => {
                let why = format!("already measured as {test}: the parameters are equal");
                skipped.push(SkippedCell { test: cell.test, placement: cell.placement.name, why });
            }
        }
    }
    (kept, skipped)
}

/// Resolves each placement of a task, or returns the reason why it is skipped; equal placements are measured once.
fn place_all<'a>(
    combination: &Combination<'a>,
    threads: &ThreadSpec,
    first: Option<&str>,
    ctx: &PlanContext<'_>,
) -> Vec<(&'a str, Result<Placement, String>)> {
    let mut seen = BTreeSet::new();
    let names: Vec<&str> =
        combination.task.placements.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect();
    let mut placed: Vec<Result<Placement, String>> =
        names.iter().map(|name| place(name, combination.spec, threads, ctx)).collect();
    // The baseline comes first, so that it is never the skipped one.
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|index| Some(names[*index]) != first);
    let mut chosen: Vec<Placement> = Vec::new();
    for index in order {
        let Ok(placement) = &placed[index] else { continue };
        match chosen.iter().find(|other| same_place(ctx.topology, other, placement)) {
            Some(other) => placed[index] = Err(format!("equal to {} on this machine", other.name)),
            None => chosen.push(placement.clone()),
        }
    }
    names.into_iter().zip(placed).collect()
}

fn place(name: &str, spec: &WorkloadSpec, threads: &ThreadSpec, ctx: &PlanContext<'_>) -> Result<Placement, String> {
    let placement = placement::parse_for(ctx.topology, name, threads.clone()?, ctx.options.kernel, ctx.devices);
    let placement = placement.map_err(|none| none.to_string())?;
    refused(&placement, spec).map_or(Ok(placement), Err)
}

fn nothing_to_run(name: &str, skipped: &[SkippedCell]) -> PlanError {
    let mut reasons: Vec<String> = skipped
        .iter()
        .take(REASONS_MAX)
        .map(|skip| format!("{} @ {}: {}", skip.test, skip.placement, skip.why))
        .collect();
    if skipped.len() > REASONS_MAX {
        reasons.push(format!("and {} more", skipped.len() - REASONS_MAX));
    }
    PlanError::NothingToRun(format!("this machine can run no cell of {name}: {}", reasons.join("; ")))
}
