//! Computes comparisons from findings: assigns cells to columns, pairs samples, and estimates the differences between
//! columns and the baseline.

mod facts;
mod row;

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::finding::{CellFinding, MetricFinding, RunFinding};
use crate::import::unixbench::{self, IndexTable, Score};
use crate::stats::statistics::{
    CONFIDENCE, Interval, Pairing, RESAMPLES, RatioEstimate, geometric_mean, median, ratio_of_medians,
};
use crate::values::comparison::{ComparedValue, Comparison, ComparisonRow, Difference, GeomeanChange};
use crate::values::plan::{By, Plan, stream};
use crate::values::record::{ImportedRow, ImportedTable, RunRecord};
use crate::values::units::thread_count;
use crate::values::workload::Better;

/// One run with its findings.
#[derive(Clone, Copy, Debug)]
pub struct ComparedRun<'a> {
    pub record: &'a RunRecord,
    pub finding: &'a RunFinding,
}

/// Compares the cells of runs. The default baseline is the column `kernel` if there is one, or else the first.
pub fn compare(runs: &[ComparedRun<'_>], by: &By, baseline: Option<&str>) -> Result<Comparison, String> {
    check_not_mixed_with_simulated(runs)?;
    let entries = entries(runs, by)?;
    let columns = columns(&entries);
    let baseline = choose_baseline(&columns, baseline, by)?;
    let seed = runs.first().map_or(0, |run| run.record.seed);
    let rows = rows(&entries, &baseline, seed);
    Ok(assemble(by.name(), baseline, columns, rows, facts::differing(runs, by)))
}

/// Returns the comparison that a plan defines; `None` with a single column or if the baseline was not measured.
pub fn planned(runs: &[ComparedRun<'_>], plan: &Plan) -> Option<Comparison> {
    if plan.race.is_some() {
        // The trials of a race overestimate its winner; its result compares fresh pairs.
        return None;
    }
    if plan.experiment == crate::placements::measured_map::EXPERIMENT {
        // The cells of a map are not comparable; the map itself interprets them.
        return None;
    }
    let comparison = compare(runs, &By::parse(&plan.compare_by), plan.baseline.as_deref()).ok()?;
    (comparison.columns.len() > 1).then_some(comparison)
}

/// Compares the columns of an imported table. Single figures give changes without intervals; samples in both columns
/// are compared as independent samples.
pub fn compare_table(table: &ImportedTable, baseline: Option<&str>) -> Result<Comparison, String> {
    let baseline = choose_baseline(&table.columns, baseline, &By::Fact("column".into()))?;
    let reference = table.columns.iter().position(|column| *column == baseline).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let rows = table.rows.iter().map(|row| {
        let values = table.columns.iter().enumerate();
        let values = values.filter_map(|(at, column)| Some((column.clone(), imported(row, at, reference)?)));
        ComparisonRow {
            test: row.test.clone(),
            metric: row.metric.clone(),
            unit: row.unit.clone(),
            better: row.better,
            main: seen.insert(row.test.clone()),
            threads: None,
            values: values.collect(),
        }
    });
    let rows = rows.collect();
    Ok(assemble("column".into(), baseline, table.columns.clone(), rows, table.notes.clone()))
}

/// Compares a column of an imported row with the baseline column; `None` if the column has no figure.
fn imported(row: &ImportedRow, at: usize, reference: usize) -> Option<ComparedValue> {
    // An imported table has no run with a seed, and must give the same interval each time.
    const SEED: u64 = 0;
    let own = single(row.values[at]?);
    let samples = |at: usize| row.samples.get(at).filter(|samples| !samples.is_empty());
    let own = ComparedValue { samples: samples(at).map_or(1, Vec::len), ..own };
    let Some(base) = row.values[reference].filter(|base| at != reference && *base > 0.0) else { return Some(own) };
    let estimate = samples(reference).zip(samples(at));
    let estimate = estimate.and_then(|(base, own)| ratio_of_medians(base, own, Pairing::Independent, SEED, RESAMPLES));
    Some(match estimate {
        Some(estimate) => estimated(&own, &estimate),
        None => ComparedValue { change_percent: Some(percent(own.median / base)), ..own },
    })
}

/// Returns the UnixBench index of the main metrics of runs by column; single samples are its passes.
pub fn index(runs: &[ComparedRun<'_>], by: &By, baseline: Option<&str>) -> Result<IndexTable, String> {
    check_not_mixed_with_simulated(runs)?;
    let entries = entries(runs, by)?;
    let mut columns = columns(&entries);
    let baseline = choose_baseline(&columns, baseline, by)?;
    columns.sort_by_key(|column| *column != baseline);
    let scores: Vec<Score> = entries.iter().filter_map(ColumnValue::score).collect();
    let mut table = unixbench::indices(&by.name(), columns, &scores)?;
    if entries.iter().any(|entry| entry.indexed.is_some() && entry.metric.name == "score") {
        table
            .notes
            .push("native: measured by built-in programs, not by UnixBench; see docs/reference/unixbench.md".into());
    }
    table.notes.extend(facts::differing(runs, by));
    Ok(table)
}

/// Returns the index of a plan with at least two UnixBench tests: the index of one test equals its score.
pub fn planned_index(runs: &[ComparedRun<'_>], plan: &Plan) -> Option<IndexTable> {
    let table = index(runs, &By::parse(&plan.compare_by), plan.baseline.as_deref()).ok()?;
    table.groups.iter().any(|group| group.tests.len() > 1).then_some(table)
}

/// Returns the UnixBench index of the columns of an imported table.
pub fn index_table(table: &ImportedTable, baseline: Option<&str>) -> Result<IndexTable, String> {
    let by = By::Fact("column".into());
    let baseline = choose_baseline(&table.columns, baseline, &by)?;
    let mut columns = table.columns.clone();
    columns.sort_by_key(|column| *column != baseline);
    let mut scores = Vec::new();
    for row in &table.rows {
        let given = table.columns.iter().zip(&row.values).filter_map(|(column, value)| Some((column, (*value)?)));
        scores.extend(given.map(|(column, value)| Score {
            test: row.test.clone(),
            column: column.clone(),
            passes: vec![value],
        }));
    }
    let mut indices = unixbench::indices("column", columns, &scores)?;
    indices.notes.push(format!("imported: the scores of table {} are used as the results of their passes", table.name));
    Ok(indices)
}

struct ColumnValue<'a> {
    test: String,
    /// Name of the metric in the UnixBench index; `None` if it is not part of the index.
    indexed: Option<String>,
    column: String,
    metric: &'a MetricFinding,
    main: bool,
    threads: usize,
    /// Index of the run: only samples of one run share blocks.
    run: usize,
}

fn entries<'a>(runs: &[ComparedRun<'a>], by: &By) -> Result<Vec<ColumnValue<'a>>, String> {
    let boots = boot_labels(runs);
    let mut entries = Vec::new();
    // Names depend on all cells, which are the same for all runs of one experiment.
    let mut tests = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        for cell in &run.finding.cells {
            let Some(column) = column(run, cell, by, &boots[index])? else { continue };
            let kind = (&cell.workload, &cell.test, &cell.parameters, &cell.placement, cell.threads);
            let test = tests.entry(kind).or_insert_with(|| row_test(runs, cell, by)).clone();
            for (rank, metric) in cell.metrics.iter().enumerate().filter(|(_, metric)| metric.median.is_some()) {
                entries.push(ColumnValue {
                    test: test.clone(),
                    indexed: indexed(cell, rank, &metric.name).map(|name| name + own_words(&test, cell)),
                    column: column.clone(),
                    metric,
                    main: rank == 0,
                    threads: cell.threads,
                    run: index,
                });
            }
        }
    }
    if entries.is_empty() {
        return Err(format!("no results to compare by {}", by.name()));
    }
    Ok(entries)
}

impl ColumnValue<'_> {
    fn score(&self) -> Option<Score> {
        let test = self.indexed.clone()?;
        Some(Score { test, column: self.column.clone(), passes: self.metric.samples.clone() })
    }
}

/// Built-in kernels are one test each; the installed UnixBench has all tests as metrics.
fn indexed(cell: &CellFinding, rank: usize, metric: &str) -> Option<String> {
    match cell.workload.as_str() {
        "unixbench" => Some(metric.into()),
        workload => (rank == 0).then(|| unixbench::name_of(workload, &cell.parameters)),
    }
}

/// Returns the part of a row's name after its test.
fn own_words<'a>(row: &'a str, cell: &CellFinding) -> &'a str {
    row.strip_prefix(&cell.test).or_else(|| row.strip_prefix(&cell.workload)).unwrap_or_default()
}

/// Returns the column of a cell; `None` if the cell does not have the parameter.
fn column(run: &ComparedRun<'_>, cell: &CellFinding, by: &By, boot: &str) -> Result<Option<String>, String> {
    let settings = &run.record.machine.settings;
    let column = match by {
        By::Placement => cell.placement.clone(),
        By::Threads => cell.threads.to_string(),
        By::Parameter(name) => return Ok(cell.parameters.get(name).cloned()),
        By::Host => host(run.record),
        By::Boot => boot.to_string(),
        By::Run => run.record.id.0.clone(),
        By::Fact(key) => settings.named(key).map(str::to_string).ok_or_else(|| {
            let known: Vec<&str> = settings.facts.iter().map(|fact| fact.key.as_str()).collect();
            format!(
                "run {} has no recorded fact '{key}'; compare by placement, threads, host, kernel, boot, run, set.PARAMETER or one of {}",
                run.record.id,
                known.join(", ")
            )
        })?,
    };
    Ok(Some(column))
}

/// Returns the name of a machine: its label, or else its CPU model.
pub(crate) fn host(record: &RunRecord) -> String {
    let model = || record.machine.settings.get("cpu.model").unwrap_or("unnamed machine").to_string();
    record.host.clone().unwrap_or_else(model)
}

/// Returns the name of the test, with placement and threads if they distinguish cells and are not the columns.
fn row_test(runs: &[ComparedRun<'_>], cell: &CellFinding, by: &By) -> String {
    let cells = || runs.iter().flat_map(|run| &run.finding.cells);
    let mut test = match by {
        By::Parameter(name) => row::without(cell, name, &cells().collect::<Vec<_>>()),
        _ => cell.test.clone(),
    };
    let same_test = |other: &&CellFinding| other.test == cell.test;
    if *by != By::Threads
        && cells().filter(same_test).any(|other| other.threads != cell.threads && varies_freely(other, cell))
    {
        test = format!("{test}, {}", thread_count(cell.threads));
    }
    if *by != By::Placement && cells().filter(same_test).any(|other| other.placement != cell.placement) {
        test = format!("{test}, {}", cell.placement);
    }
    test
}

/// Whether thread counts differ by choice of the experiment rather than by the placement (`one-core` has one thread).
fn varies_freely(other: &CellFinding, cell: &CellFinding) -> bool {
    other.placement == cell.placement
}

/// Returns the kernel parameters of each run that not all runs have; boot ids if all runs have the same.
fn boot_labels(runs: &[ComparedRun<'_>]) -> Vec<String> {
    let words = |run: &ComparedRun<'_>| -> Vec<String> {
        let line = run.record.machine.settings.get("kernel.command-line").unwrap_or_default();
        line.split_whitespace().map(str::to_string).collect()
    };
    let lines: Vec<Vec<String>> = runs.iter().map(words).collect();
    let shared = |word: &String| lines.iter().all(|line| line.contains(word));
    let own: Vec<String> = lines
        .iter()
        .map(|line| line.iter().filter(|word| !shared(word)).cloned().collect::<Vec<_>>().join(" "))
        .map(|label| if label.is_empty() { "plain".to_string() } else { label })
        .collect();
    if own.iter().all(|label| label == "plain") {
        let boot_id = |run: &ComparedRun<'_>| {
            let id = run.record.machine.settings.get("kernel.boot-id").unwrap_or("unknown boot");
            id.chars().take(8).collect()
        };
        return runs.iter().map(boot_id).collect();
    }
    own
}

fn columns(entries: &[ColumnValue<'_>]) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for entry in entries {
        if !columns.contains(&entry.column) {
            columns.push(entry.column.clone());
        }
    }
    if columns.iter().all(|column| column.parse::<u64>().is_ok()) {
        columns.sort_by_key(|column| column.parse::<u64>().unwrap_or(0));
    }
    columns
}

fn choose_baseline(columns: &[String], requested: Option<&str>, by: &By) -> Result<String, String> {
    let default = || columns.iter().find(|column| *column == "kernel").or(columns.first());
    match requested {
        Some(name) => columns.iter().find(|column| *column == name).cloned().ok_or_else(|| {
            format!("'{name}' is not a column of a comparison by {}; the columns are {}", by.name(), columns.join(", "))
        }),
        None => default().cloned().ok_or_else(|| "no columns to compare".to_string()),
    }
}

/// Returns the rows in order of first occurrence, each with its values by column.
fn rows(entries: &[ColumnValue<'_>], baseline: &str, seed: u64) -> Vec<ComparisonRow> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut by_row: BTreeMap<(&str, &str), Vec<&ColumnValue<'_>>> = BTreeMap::new();
    for entry in entries {
        let key = (entry.test.as_str(), entry.metric.name.as_str());
        if !by_row.contains_key(&key) {
            order.push(key);
        }
        by_row.entry(key).or_default().push(entry);
    }
    order.into_iter().map(|key| row(&by_row[&key], baseline, seed)).collect()
}

fn row(entries: &[&ColumnValue<'_>], baseline: &str, seed: u64) -> ComparisonRow {
    let first = entries[0];
    let mut by_column: BTreeMap<&str, Vec<&ColumnValue<'_>>> = BTreeMap::new();
    for entry in entries {
        by_column.entry(&entry.column).or_default().push(entry);
    }
    let reference = by_column.get(baseline).cloned().unwrap_or_default();
    let values = by_column.iter().map(|(column, entries)| {
        let purpose = format!("compare {} {} {column}", first.test, first.metric.name);
        let value = if *column == baseline || reference.is_empty() {
            single_or_median(entries)
        } else {
            compared(&reference, entries, stream(seed, &purpose))
        };
        ((*column).to_string(), value)
    });
    ComparisonRow {
        test: first.test.clone(),
        metric: first.metric.name.clone(),
        unit: first.metric.unit.clone(),
        better: first.metric.better,
        main: first.main,
        threads: entries.iter().all(|entry| entry.threads == first.threads).then_some(first.threads),
        values: values.collect(),
    }
}

fn compared(baseline: &[&ColumnValue<'_>], candidate: &[&ColumnValue<'_>], seed: u64) -> ComparedValue {
    let own = single_or_median(candidate);
    let estimate = match shared_blocks(baseline, candidate) {
        Some((baseline, candidate)) => ratio_of_medians(&baseline, &candidate, Pairing::Paired, seed, RESAMPLES),
        None => ratio_of_medians(&all(baseline), &all(candidate), Pairing::Independent, seed, RESAMPLES),
    };
    estimate.map_or_else(|| own.clone(), |estimate| estimated(&own, &estimate))
}

/// Adds an estimate of the difference to a value.
fn estimated(own: &ComparedValue, estimate: &RatioEstimate) -> ComparedValue {
    let interval = estimate.interval.map(|Interval { low, high }| (percent(low), percent(high)));
    ComparedValue {
        change_percent: Some(percent(estimate.ratio)),
        ci_low: interval.map(|(low, _)| low),
        ci_high: interval.map(|(_, high)| high),
        difference: interval.map(difference),
        p_value: estimate.interval.is_some().then_some(estimate.p_value),
        ..own.clone()
    }
}

/// Returns the samples of shared blocks if both sides are one cell of the same run.
fn shared_blocks(baseline: &[&ColumnValue<'_>], candidate: &[&ColumnValue<'_>]) -> Option<(Vec<f64>, Vec<f64>)> {
    let ([baseline], [candidate]) = (baseline, candidate) else { return None };
    if baseline.run != candidate.run {
        return None;
    }
    let by_block: BTreeMap<u32, f64> =
        baseline.metric.blocks.iter().copied().zip(baseline.metric.samples.iter().copied()).collect();
    let pairs = candidate.metric.blocks.iter().zip(&candidate.metric.samples);
    let pairs: Vec<(f64, f64)> =
        pairs.filter_map(|(block, value)| by_block.get(block).map(|reference| (*reference, *value))).collect();
    (!pairs.is_empty()).then(|| pairs.into_iter().unzip())
}

fn all(entries: &[&ColumnValue<'_>]) -> Vec<f64> {
    entries.iter().flat_map(|entry| entry.metric.samples.iter().copied()).collect()
}

fn single_or_median(entries: &[&ColumnValue<'_>]) -> ComparedValue {
    let samples = all(entries);
    ComparedValue { samples: samples.len(), ..single(median(&samples).unwrap_or(f64::NAN)) }
}

fn single(median: f64) -> ComparedValue {
    ComparedValue {
        median,
        change_percent: None,
        ci_low: None,
        ci_high: None,
        difference: None,
        p_value: None,
        samples: 1,
    }
}

fn difference((low, high): (f64, f64)) -> Difference {
    match () {
        () if low > 0.0 => Difference::Higher,
        () if high < 0.0 => Difference::Lower,
        () => Difference::NoneSeen,
    }
}

fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

fn assemble(
    by: String,
    baseline: String,
    mut columns: Vec<String>,
    rows: Vec<ComparisonRow>,
    notes: Vec<String>,
) -> Comparison {
    columns.sort_by_key(|column| *column != baseline);
    let geomean = geomeans(&rows, &columns[1..]);
    Comparison { by, baseline, columns, rows, geomean, notes }
}

/// Returns the geometric mean over all tests, then over those of each thread count with several tests.
fn geomeans(rows: &[ComparisonRow], columns: &[String]) -> Vec<GeomeanChange> {
    let main: Vec<&ComparisonRow> = rows.iter().filter(|row| row.main).collect();
    let mut means: Vec<GeomeanChange> = columns.iter().filter_map(|column| geomean(&main, column)).collect();
    let counts: BTreeSet<usize> = main.iter().filter_map(|row| row.threads).collect();
    for threads in counts.iter().filter(|_| counts.len() > 1) {
        let theirs: Vec<&ComparisonRow> = main.iter().copied().filter(|row| row.threads == Some(*threads)).collect();
        let of_columns = columns.iter().filter_map(|column| geomean(&theirs, column));
        let several = of_columns.filter(|mean| mean.ci_low.is_some());
        means.extend(several.map(|mean| GeomeanChange { threads: Some(*threads), ..mean }));
    }
    means
}

/// Returns the geometric mean over the tests of both columns; metrics to minimise are inverted.
fn geomean(main: &[&ComparisonRow], column: &str) -> Option<GeomeanChange> {
    let ratio = |row: &ComparisonRow| {
        let ratio = 1.0 + row.values.get(column)?.change_percent? / 100.0;
        Some(if row.better == Better::Higher { ratio } else { 1.0 / ratio })
    };
    let ratios: Vec<f64> = main.iter().filter_map(|row| ratio(row)).collect();
    let estimate = geometric_mean(&ratios, CONFIDENCE)?;
    Some(GeomeanChange {
        name: column.into(),
        threads: None,
        change_percent: percent(estimate.value),
        ci_low: estimate.interval.map(|interval| percent(interval.low)),
        ci_high: estimate.interval.map(|interval| percent(interval.high)),
    })
}

pub(crate) fn check_not_mixed_with_simulated(runs: &[ComparedRun<'_>]) -> Result<(), String> {
    let simulated = |run: &&ComparedRun<'_>| run.record.simulated.is_some();
    match (runs.iter().find(simulated), runs.iter().find(|run| !simulated(run))) {
        (Some(one), Some(other)) => Err(format!(
            "run {} is simulated and run {} is real; simulated results are never compared with real ones",
            one.record.id, other.record.id
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::capture::Capture;
    use crate::values::plan::StoppingRule;
    use crate::values::record::{ImportedRow, RunId, VerdictCounts};
    use crate::values::settings::{FactValue, Settings};
    use crate::values::topology::Topology;
    use crate::values::units::Nanos;

    fn record(id: &str, facts: &[(&str, &str)], simulated: Option<&str>) -> RunRecord {
        let mut settings = Settings::default();
        for (key, value) in facts {
            settings.record(key, FactValue::Known((*value).into()));
        }
        let second = Nanos(1_000_000_000);
        let repeat = StoppingRule { warmup: 0, min: 1, max: 1, precision: 0.1, budget: second, time_limit: second };
        RunRecord {
            id: RunId(id.into()),
            plan: Plan {
                experiment: "e".into(),
                question: String::new(),
                cells: Vec::new(),
                skipped: Vec::new(),
                workloads: Vec::new(),
                repeat,
                compare_by: "placement".into(),
                baseline: None,
                race: None,
                size: None,
                command: Vec::new(),
            },
            seed: 1,
            machine: Capture::new(Topology::default(), settings),
            host: None,
            simulated: simulated.map(str::to_string),
            started_unix_ms: 0,
            ended: None,
            program: String::new(),
        }
    }

    fn cell(test: &str, placement: &str, better: Better, samples: &[f64]) -> CellFinding {
        CellFinding {
            workload: test.into(),
            test: test.into(),
            parameters: BTreeMap::new(),
            placement: placement.into(),
            threads: 2,
            cpus: String::new(),
            memory: String::new(),
            reason: String::new(),
            metrics: vec![MetricFinding {
                name: "m".into(),
                unit: "u".into(),
                better,
                median: median(samples),
                ci_low: None,
                ci_high: None,
                best: None,
                mean: None,
                samples: samples.to_vec(),
                blocks: (0..samples.len() as u32).collect(),
                trials: Vec::new(),
            }],
            cpu_load: Vec::new(),
            verdicts: VerdictCounts::default(),
            reasons: Vec::new(),
            caveats: Vec::new(),
        }
    }

    fn finding(cells: Vec<CellFinding>) -> RunFinding {
        RunFinding { cells, skipped: Vec::new(), passes: false }
    }

    /// Samples that drift by a factor of four over the blocks.
    fn drifting(factor: f64) -> Vec<f64> {
        (0..12_u32)
            .map(|block| factor * f64::from(100 + 25 * block) * (1.0 + 0.002 * f64::from(block * 7 % 5)))
            .collect()
    }

    #[test]
    fn blocks_of_different_runs_are_not_paired() {
        let (one, other) = (record("a", &[], None), record("b", &[], None));
        let of = |factor| finding(vec![cell("t", "kernel", Better::Higher, &drifting(factor))]);
        let (plain, faster) = (of(1.0), of(1.2));
        let runs = [ComparedRun { record: &one, finding: &plain }, ComparedRun { record: &other, finding: &faster }];
        let estimate =
            compared(&[&entries(&runs, &By::Placement).unwrap()[0]], &[&entries(&runs, &By::Placement).unwrap()[1]], 1);
        assert!((estimate.change_percent.unwrap() - 20.0).abs() < 1.0, "{estimate:?}");
        assert_eq!(
            estimate.difference,
            Some(Difference::NoneSeen),
            "an unshared drift hides the difference: {estimate:?}"
        );
    }

    #[test]
    fn kernel_column_is_the_default_baseline() {
        let record = record("a", &[], None);
        let cells = ["compact", "kernel"].map(|placement| cell("t", placement, Better::Higher, &[1.0, 2.0]));
        let finding = finding(cells.into());
        let runs = [ComparedRun { record: &record, finding: &finding }];
        assert_eq!(compare(&runs, &By::Placement, None).unwrap().baseline, "kernel");
    }

    #[test]
    fn blocks_of_one_run_are_compared_pair_by_pair() {
        let record = record("a", &[], None);
        let cells = vec![
            cell("t", "kernel", Better::Higher, &drifting(1.0)),
            cell("t", "spread", Better::Higher, &drifting(1.2)),
            cell("t", "same", Better::Higher, &drifting(1.0)),
        ];
        let finding = finding(cells);
        let comparison = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, None).unwrap();
        assert_eq!(comparison.baseline, "kernel");
        let spread = &comparison.rows[0].values["spread"];
        assert!((spread.change_percent.unwrap() - 20.0).abs() < 0.5, "{spread:?}");
        assert_eq!(spread.difference, Some(Difference::Higher), "drift common to both sides must not hide it");
        assert!(spread.ci_low.unwrap() > 15.0, "{spread:?}");
        assert_eq!(comparison.rows[0].values["same"].difference, Some(Difference::NoneSeen));
        assert_eq!(comparison.rows[0].values["kernel"].change_percent, None);
    }

    #[test]
    fn cells_that_differ_in_one_parameter_share_a_row() {
        let record = record("a", &[], None);
        let one = |test: &str, engine: &str| CellFinding {
            workload: "io".into(),
            parameters: [("engine".to_string(), engine.to_string()), ("rw".into(), test[test.len() - 4..].into())]
                .into(),
            ..cell(test, "kernel", Better::Higher, &[1.0, 2.0])
        };
        let finding = finding(vec![
            one("4k engine=psync rw=read", "psync"),
            one("4k engine=libaio rw=read", "libaio"),
            one("4k engine=libaio rw=write", "libaio"),
            one("alone", "libaio"),
            one("last engine=libaio", "libaio"),
        ]);
        let runs = [ComparedRun { record: &record, finding: &finding }];
        let comparison = compare(&runs, &By::Parameter("engine".into()), Some("libaio")).unwrap();
        let rows: Vec<(&str, usize)> =
            comparison.rows.iter().map(|row| (row.test.as_str(), row.values.len())).collect();
        assert_eq!(rows, [("4k rw=read", 2), ("4k rw=write", 1), ("alone", 1), ("last", 1)]);
    }

    #[test]
    fn geometric_mean_inverts_metrics_to_minimise() {
        let record = record("a", &[], None);
        let steady = |value: f64| (0..8).map(|i| value * (1.0 + 0.001 * f64::from(i))).collect::<Vec<_>>();
        let cells = vec![
            cell("speed", "kernel", Better::Higher, &steady(100.0)),
            cell("speed", "fast", Better::Higher, &steady(200.0)),
            cell("time", "kernel", Better::Lower, &steady(100.0)),
            cell("time", "fast", Better::Lower, &steady(50.0)),
        ];
        let finding = finding(cells);
        let comparison = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, None).unwrap();
        assert!((comparison.geomean[0].change_percent - 100.0).abs() < 1e-6, "{:?}", comparison.geomean);
    }

    /// As in a comparison of two boots: changes per test with one and four threads, and the mean of each.
    #[test]
    fn thread_counts_with_several_tests_have_separate_means() {
        let record = record("a", &[], None);
        let steady = |value: f64| (0..8).map(|i| value * (1.0 + 0.001 * f64::from(i))).collect::<Vec<_>>();
        let with = |test: &str, threads: usize, factor: f64| {
            [("kernel", 100.0), ("fast", 100.0 * factor)].map(|(placement, value)| CellFinding {
                threads,
                ..cell(test, placement, Better::Higher, &steady(value))
            })
        };
        let measured =
            [with("a", 1, 1.0), with("b", 1, 4.0), with("a", 4, 2.0), with("b", 4, 8.0), with("alone", 2, 3.0)];
        let finding = finding(measured.concat());
        let compared = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, None).unwrap();
        let means: Vec<_> =
            compared.geomean.iter().map(|mean| (mean.threads, mean.change_percent.round() as i64)).collect();
        // (1 x 4 x 2 x 8 x 3)^(1/5), sqrt(1 x 4), sqrt(2 x 8)
        assert_eq!(means, [(None, 186), (Some(1), 100), (Some(4), 300)]);
        let by_threads = compare(&[ComparedRun { record: &record, finding: &finding }], &By::Threads, None).unwrap();
        assert!(by_threads.geomean.iter().all(|mean| mean.threads.is_none()), "{:?}", by_threads.geomean);
    }

    #[test]
    fn boot_labels_are_differences_of_command_lines() {
        let plain = record("a", &[("kernel.command-line", "quiet console=ttyS0"), ("memory.thp", "always")], None);
        let fake =
            record("b", &[("kernel.command-line", "quiet console=ttyS0 numa=fake=4"), ("memory.thp", "never")], None);
        let finding = finding(vec![cell("t", "kernel", Better::Higher, &drifting(1.0))]);
        let runs =
            [ComparedRun { record: &plain, finding: &finding }, ComparedRun { record: &fake, finding: &finding }];
        let comparison = compare(&runs, &By::Boot, None).unwrap();
        assert_eq!(comparison.columns, ["plain", "numa=fake=4"]);
        assert!(
            comparison.notes.iter().any(|note| note == "memory.thp differs: always and never"),
            "{:?}",
            comparison.notes
        );
        let by_fact = compare(&runs, &By::Fact("memory.thp".into()), Some("never")).unwrap();
        assert_eq!(by_fact.columns, ["never", "always"]);
        assert_eq!(compare(&runs, &By::parse("run"), Some("b")).unwrap().columns, ["b", "a"]);
    }

    #[test]
    fn errors_name_the_valid_choices() {
        let (real, simulated) =
            (record("a", &[("cpu.model", "X")], None), record("b", &[("cpu.model", "X")], Some("r:1")));
        let finding = finding(vec![cell("t", "kernel", Better::Higher, &[1.0])]);
        let run = |record| ComparedRun { record, finding: &finding };
        let error = compare(&[run(&real), run(&simulated)], &By::Placement, None).unwrap_err();
        assert!(error.contains("never compared"), "{error}");
        let error = compare(&[run(&real)], &By::Placement, Some("compact")).unwrap_err();
        assert!(error.contains("'compact'") && error.contains("kernel"), "{error}");
        let error = compare(&[run(&real)], &By::Fact("cpu.colour".into()), None).unwrap_err();
        assert!(error.contains("cpu.model"), "{error}");
    }

    #[test]
    fn published_percentages_follow_from_published_figures() {
        // Two rows of the Ryzen 5 2600 study: Dhrystone, published as -34 %, and shell-8, published as -23 %.
        let row = |test: &str, a: f64, b: f64| ImportedRow {
            test: test.into(),
            metric: "throughput".into(),
            unit: "lps".into(),
            better: Better::Higher,
            values: vec![Some(a), Some(b)],
            published_change_percent: None,
            samples: Vec::new(),
        };
        let table = ImportedTable {
            name: "ccx".into(),
            columns: vec!["6-core-2ccx".into(), "6-thread-1ccx".into()],
            rows: vec![row("dhrystone", 267_065_871.8, 177_565_964.9), row("shell-8", 6677.0, 5137.8)],
            notes: Vec::new(),
        };
        let comparison = compare_table(&table, Some("6-core-2ccx")).unwrap();
        let changes: Vec<f64> =
            comparison.rows.iter().map(|row| row.values["6-thread-1ccx"].change_percent.unwrap().round()).collect();
        assert_eq!(changes, [-34.0, -23.0]);
        assert_eq!(comparison.rows[0].values["6-thread-1ccx"].difference, None, "one figure has no interval");
        let turned = compare_table(&table, Some("6-thread-1ccx")).unwrap();
        assert_eq!(turned.columns, ["6-thread-1ccx", "6-core-2ccx"]);
        assert!((turned.rows[0].values["6-core-2ccx"].change_percent.unwrap() - 50.4).abs() < 0.1);
    }
}
