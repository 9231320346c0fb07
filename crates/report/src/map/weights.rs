//! Weights for weighted interleaving as text and JSON. Computes nothing: the finding has every value.

use model::placements::measured_map::{KernelWeights, NodeWeight, WeightsFinding, WeightsState};
use model::values::record::RunRecord;
use serde_json::Value;

use crate::grid::{Grid, GridCell};
use crate::json::{about, stamped, value};
use crate::number::significant;
use crate::style::{TextStyle, paragraph};
use crate::table::{heading, section};

/// The fields of the finding, with `commands`, `boot_lines` and `run`.
pub fn json(record: &RunRecord, finding: &WeightsFinding) -> Value {
    let mut json = value(finding);
    json["commands"] = finding.commands().into();
    json["boot_lines"] = finding.boot_lines().into();
    json["run"] = about(record);
    stamped(json, record)
}

/// The weights and how to set them, with a final line feed.
pub fn text(record: &RunRecord, finding: &WeightsFinding, style: &TextStyle) -> String {
    let mut out = heading(record, style);
    out += section("Weights for weighted interleaving", style).trim_start();
    out += &grid(finding).terminal(style);
    out += "\n";
    if finding.kernel.as_ref().is_some_and(|kernel| kernel.auto == Some(true)) {
        let verb = if finding.state == WeightsState::Applied { "had derived" } else { "derives" };
        out += &paragraph(&format!("The Linux kernel {verb} its weights from firmware tables (auto)"), style);
        out += "\n";
    }
    out += &match finding.state {
        WeightsState::Computed if finding.kernel.is_some() => {
            lines("Set them with --apply, or as root:", &finding.commands())
        }
        WeightsState::Computed => lines("Set them as root:", &finding.commands()),
        WeightsState::Planned => lines("Would be written:", &writes(finding)),
        WeightsState::Applied => lines("Set until a reboot or nearfar restore:", &writes(finding)),
    };
    out += "\n";
    out += &lines("To keep them over reboots, in /etc/tmpfiles.d/interleave-weights.conf:", &finding.boot_lines());
    out += "\n";
    let scope = "They apply to new memory of programs with this policy, on all CPUs. Whether a program gains is a \
                 measurement: compare the placements kernel, interleave and weighted-interleave";
    out + &paragraph(scope, style)
}

fn grid(finding: &WeightsFinding) -> Grid {
    let present = if finding.state == WeightsState::Applied { "before" } else { "present" };
    let numbers = ["node", "triad, MB/s", "share", "weight", present];
    let titles = ["node", "fastest from CPUs", "triad, MB/s", "share", "weight", present];
    let mut grid = Grid::new(&titles).numbers(&numbers);
    grid.rows.extend(finding.weights.iter().map(|one| row(one, finding.kernel.as_ref())));
    if finding.kernel.is_some() { grid } else { grid.without(present) }
}

fn row(one: &NodeWeight, kernel: Option<&KernelWeights>) -> Vec<GridCell> {
    let present = kernel.and_then(|kernel| kernel.weights.get(&one.node));
    let cells = [
        one.node.to_string(),
        one.cpus.to_string().replace(',', ", "),
        significant(one.bandwidth_mb_s),
        format!("{:.1} %", 100.0 * one.share),
        one.weight.to_string(),
        present.map_or("-".into(), ToString::to_string),
    ];
    cells.iter().map(|text| GridCell::plain(text)).collect()
}

fn writes(finding: &WeightsFinding) -> Vec<String> {
    finding.writes.iter().map(|write| format!("{}: {}", write.path, write.value)).collect()
}

/// Lines that are copied, below their title.
fn lines(title: &str, lines: &[String]) -> String {
    format!("{title}\n\n{}", lines.iter().map(|line| format!("    {line}\n")).collect::<String>())
}
