//! Slowdown of a command with less DRAM, and the DRAM that it needs to be as fast as without a limit. Uses the results
//! of a plan with budgets; must not enforce them.

mod compressibility;
mod sentence;
#[cfg(test)]
mod tests;

pub use compressibility::{SampledPage, compressibility};

use serde::Serialize;

use crate::analysis::finding::{CellFinding, RunFinding};
use crate::values::comparison::{Comparison, ComparisonRow};
use crate::values::compressibility::Compressibility;
use crate::values::plan::{Cell, Plan, SizePlan};
use crate::values::program::program_name;
use crate::values::units::Bytes;
use crate::values::workload::{Better, Parameters, Value};

/// Speed of a command by budget of DRAM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeAnswer {
    /// Name of the program that has the limit, the server if there is one.
    pub program: String,
    /// Name of the metric that shows the slowdown.
    pub metric: String,
    /// As in [`SizePlan`].
    pub need: Bytes,
    /// As in [`SizePlan`].
    pub within_percent: f64,
    /// As in [`SizePlan`].
    pub compressibility: Option<Compressibility>,
    /// The budgets, smallest first, each by tier.
    pub points: Vec<SizePoint>,
    /// The result of each measured tier, in ascending order.
    pub tiers: Vec<TierAnswer>,
    /// The smallest sufficient budget of the main tier: of managed swap if it was measured, or else of the kernel's own,
    /// compressed if that needs less DRAM. `None` if no measured budget is sufficient.
    pub enough: Option<Bytes>,
    /// The smallest sufficient budget of the kernel's own swap, not compressed.
    pub enough_plain: Option<Bytes>,
    /// Difference between its memory and the sufficient budget; `None` if nothing is saved.
    pub saves: Option<Bytes>,
}

/// Location of the pages beyond a budget, and choice of these pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeTier {
    /// Whether the paging controller decides which pages stay in DRAM; otherwise the kernel alone does.
    pub steered: bool,
    /// Whether the others stay in DRAM, compressed, before they go to disk.
    pub compressed: bool,
}

impl SizeTier {
    /// Order in lists: with the controller first, and each without compression first.
    fn order(self) -> (bool, bool) {
        (!self.steered, self.compressed)
    }
}

/// The sufficient budget of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TierAnswer {
    #[serde(flatten)]
    pub tier: SizeTier,
    /// The smallest budget such that it and all larger ones are fast enough; `None` if no measured budget is.
    pub enough: Option<Bytes>,
    /// Whether a smaller budget may be sufficient, too: the interval of the next smaller one does not exclude it.
    pub unresolved: bool,
    /// Part of the sufficient budget that compressed pages use.
    pub compressed_dram: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizePoint {
    pub dram: Bytes,
    #[serde(flatten)]
    pub tier: SizeTier,
    /// Increase of the time compared with unlimited DRAM, in percent, with a 95 % interval.
    pub slower_percent: f64,
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// Part of the budget that compressed pages use: the median over trials of the peak.
    pub compressed_dram: Option<Bytes>,
    /// Increase of the CPU time of the command and the paging controller, in percent; `None` with a server, whose CPU
    /// time depends on the load.
    pub cpu_percent: Option<f64>,
}

impl SizePoint {
    fn is_within(&self, percent: f64) -> bool {
        self.ci_high.is_some_and(|high| high <= percent)
    }

    fn is_slower(&self, percent: f64) -> bool {
        self.ci_low.is_some_and(|low| low > percent)
    }
}

impl SizeAnswer {
    /// Returns the result from the comparison with the unlimited cell. `None` if the plan has another purpose.
    pub fn of(plan: &Plan, finding: &RunFinding, comparison: &Comparison) -> Option<Self> {
        let SizePlan { need, within_percent, compressibility } = plan.size.clone()?;
        let row = comparison.rows.iter().find(|row| row.main);
        let unlimited = plan.cells.iter().find(|cell| cell.placement.budget.is_none());
        let unlimited = unlimited.and_then(|cell| found(finding, cell));
        let points = plan.cells.iter().filter_map(|cell| point(cell, row?, found(finding, cell), unlimited));
        let mut points: Vec<SizePoint> = points.collect();
        points.sort_by_key(|point| (point.dram, point.tier.order()));
        let tiers = tiers(&points, within_percent);
        let enough = main_tier(&tiers).and_then(|main| main.enough);
        let plain = SizeTier { steered: false, compressed: false };
        let enough_plain = tiers.iter().find(|answer| answer.tier == plain).and_then(|answer| answer.enough);
        let saves = enough.map(|enough| Bytes(need.0.saturating_sub(enough.0))).filter(|saved| saved.0 > 0);
        let metric = row.map(|row| row.metric.clone()).unwrap_or_default();
        let program = program(plan);
        Some(Self {
            program,
            metric,
            need,
            within_percent,
            compressibility,
            points,
            tiers,
            enough,
            enough_plain,
            saves,
        })
    }

    /// Returns the tier that [`SizeAnswer::enough`] refers to; `None` if no budget has a result.
    pub fn main_tier(&self) -> Option<&TierAnswer> {
        main_tier(&self.tiers)
    }
}

/// Returns the first engine's answer that needs least DRAM. If none is sufficient, or both are equal, the one without
/// compression.
fn main_tier(tiers: &[TierAnswer]) -> Option<&TierAnswer> {
    let steered = tiers.first()?.tier.steered;
    let own = tiers.iter().filter(|answer| answer.tier.steered == steered);
    own.min_by_key(|answer| (answer.enough.is_none(), answer.enough))
}

fn tiers(points: &[SizePoint], within_percent: f64) -> Vec<TierAnswer> {
    let mut tiers: Vec<SizeTier> = points.iter().map(|point| point.tier).collect();
    tiers.sort_by_key(|tier| tier.order());
    tiers.dedup();
    tiers.into_iter().map(|tier| tier_answer(tier, points, within_percent)).collect()
}

fn tier_answer(tier: SizeTier, points: &[SizePoint], within_percent: f64) -> TierAnswer {
    let mut own = points.iter().rev().filter(|point| point.tier == tier).peekable();
    let mut sufficient = None;
    while let Some(point) = own.next_if(|point| point.is_within(within_percent)) {
        sufficient = Some(point);
    }
    TierAnswer {
        tier,
        enough: sufficient.map(|point| point.dram),
        unresolved: own.next().is_some_and(|next| !next.is_slower(within_percent)),
        compressed_dram: sufficient.and_then(|point| point.compressed_dram),
    }
}

/// Returns the name of the program that has the limit.
fn program(plan: &Plan) -> String {
    let parameters = plan.cells.first().map(|cell| &cell.parameters);
    let words = |name: &str| parameters.and_then(|parameters| words(parameters, name));
    let argv = words("server").or_else(|| words("argv")).unwrap_or_default();
    program_name(&argv).to_string()
}

/// Returns a command line in the parameters; `None` if there is none.
fn words(parameters: &Parameters, name: &str) -> Option<Vec<String>> {
    match parameters.0.get(name)? {
        Value::Text(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// Returns the summary of a cell.
fn found<'a>(finding: &'a RunFinding, cell: &Cell) -> Option<&'a CellFinding> {
    finding.cells.iter().find(|found| found.placement == cell.placement.name)
}

fn point(
    cell: &Cell,
    row: &ComparisonRow,
    limited: Option<&CellFinding>,
    unlimited: Option<&CellFinding>,
) -> Option<SizePoint> {
    let budget = cell.placement.budget?;
    let value = row.values.get(&cell.placement.name)?;
    let slower = |change: f64| match row.better {
        Better::Lower => change,
        // Half the rate is twice the time.
        Better::Higher => 100.0 * (1.0 / (1.0 + change / 100.0) - 1.0),
    };
    let (low, high) = match row.better {
        Better::Lower => (value.ci_low, value.ci_high),
        Better::Higher => (value.ci_high, value.ci_low),
    };
    let has_server = words(&cell.parameters, "server").is_some();
    let cpu = limited.and_then(cpu_seconds).zip(unlimited.and_then(cpu_seconds));
    let cpu = cpu.filter(|(_, before)| *before > 0.0 && !has_server);
    Some(SizePoint {
        dram: budget.dram,
        tier: SizeTier { steered: budget.steered, compressed: budget.compressed },
        slower_percent: slower(value.change_percent?),
        ci_low: low.map(slower),
        ci_high: high.map(slower),
        compressed_dram: limited.and_then(|found| found.budget?.compressed_dram).filter(|_| budget.compressed),
        cpu_percent: cpu.map(|(with, before)| 100.0 * (with / before - 1.0)),
    })
}

/// Returns the CPU time of the command, which includes that of compression, and of the paging controller: medians.
fn cpu_seconds(found: &CellFinding) -> Option<f64> {
    let metric = found.metrics.iter().find(|metric| metric.name == "cpu-time")?;
    let controller = found.budget.and_then(|budget| budget.controller_cpu).unwrap_or_default();
    Some(metric.median? + controller.seconds())
}

/// Returns the measured memory of exactly this command with exactly this server; `None` if the plan measured another
/// one.
pub fn need_of(plan: &Plan, argv: &[String], server: Option<&[String]>) -> Option<Bytes> {
    let text = |words: &[String]| serde_json::json!(words).to_string();
    let parameters = &plan.cells.first()?.parameters.0;
    // Without a server, the parameter is empty or, in results of earlier versions, missing.
    let is = |name: &str, wanted: String| match parameters.get(name) {
        Some(Value::Text(measured)) => *measured == wanted,
        _ => wanted.is_empty(),
    };
    let is_same = is("argv", text(argv)) && is("server", server.map_or(String::new(), text));
    plan.size.as_ref().filter(|_| is_same).map(|size| size.need)
}
