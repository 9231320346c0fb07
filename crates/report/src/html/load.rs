//! Figures of CPU load: one bar per CPU. Every value comes from the finding.

use model::analysis::finding::{CellFinding, CpuLoad};

use super::stacked::{Bar, Bars, StackedFigure, stacked};
use crate::style::clean;

/// The kinds of CPU time.
const KINDS: [&str; 6] = ["user", "system", "irq", "softirq", "iowait", "steal"];

/// Draws the cells of one test. `None` if they have no load.
pub(crate) fn loads(test: &str, cells: &[CellFinding]) -> Option<StackedFigure> {
    let of = |cell: &CellFinding| cell.cpu_load.iter().map(bar).collect();
    stacked(test, cells, &Bars { subject: "the load of each CPU", kinds: &KINDS, of, description })
}

/// A description of the figure for screen readers: the load of each busy CPU.
fn description(cells: &[CellFinding]) -> String {
    let mut text = "Load of each CPU in percent of its time.".to_string();
    for cell in cells {
        let worked = cell.cpu_load.iter().filter(|load| load.busy() >= 0.5);
        let worked: Vec<String> = worked.map(|load| format!("CPU {} {:.0} %", load.cpu, load.busy())).collect();
        let worked = if worked.is_empty() { "all CPUs idle".into() } else { worked.join(", ") };
        text += &format!(" {}: {worked}.", clean(&cell.placement));
    }
    text
}

/// In the order of [`KINDS`]; the rest is idle.
fn bar(load: &CpuLoad) -> Bar {
    let shares = vec![load.user, load.system, load.irq, load.softirq, load.iowait, load.steal];
    Bar { number: load.cpu.0, shares }
}

#[cfg(test)]
mod tests {
    use model::values::id_set::CpuId;

    use super::super::stacked::tests::cell;
    use super::*;

    fn load(cpu: u32, user: f64, irq: f64) -> CpuLoad {
        let idle = 100.0 - user - irq;
        CpuLoad { cpu: CpuId(cpu), user, system: 0.0, irq, softirq: 0.0, iowait: 0.0, idle, steal: 0.0 }
    }

    #[test]
    fn busy_cpus_are_described() {
        let cell = CellFinding { cpu_load: vec![load(0, 50.0, 25.0), load(2, 0.0, 0.0)], ..cell("one-core") };
        assert_eq!(description(&[cell]), "Load of each CPU in percent of its time. one-core: CPU 0 75 %.");
    }
}
