//! The interrupts of a machine's devices as a table: whether they can be moved, their allowed and effective CPUs, and
//! their counts.

use model::values::id_set::CpuSet;
use model::values::topology::{InterruptCounts, Topology};

use super::text::section;
use crate::grid::{Grid, GridCell};
use crate::style::TextStyle;

/// Maximum number of CPUs listed individually; the JSON has all.
const CPUS_LISTED_MAX: usize = 6;

/// Every interrupt of every device, with a final line feed.
pub fn interrupts(topology: &Topology, counts: Option<&InterruptCounts>, style: &TextStyle) -> String {
    let titles = ["device", "irq", "name", "kind", "cpus", "handled by", "count"];
    let mut grid = Grid::new(&titles).numbers(&["irq"]);
    for device in &topology.devices {
        for interrupt in &device.interrupts {
            let cells = [
                device.name.clone(),
                interrupt.number.to_string(),
                interrupt.name.clone(),
                interrupt.movability.label().into(),
                cpus(&interrupt.affinity),
                cpus(&interrupt.effective),
                counts.map_or("unknown".into(), |counts| came(counts, interrupt.number)),
            ];
            grid.rows.push(cells.iter().map(|text| GridCell::plain(text)).collect());
        }
    }
    if grid.rows.is_empty() {
        return section("Interrupts", "no device has interrupts\n", style);
    }
    section("Interrupts", &grid.terminal(style), style)
}

fn cpus(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "unknown".into() } else { cpus.to_string().replace(',', ", ") }
}

/// `2 on cpu 0, 17 on cpu 3`.
fn came(counts: &InterruptCounts, number: u32) -> String {
    let by_cpu = counts.get(&number);
    let words: Vec<String> = by_cpu.into_iter().flatten().map(|(cpu, count)| format!("{count} on cpu {cpu}")).collect();
    match words.len() {
        0 => "never".into(),
        few if few <= CPUS_LISTED_MAX => words.join(", "),
        many => format!("{} on {many} cpus", by_cpu.into_iter().flat_map(|by_cpu| by_cpu.values()).sum::<u64>()),
    }
}
