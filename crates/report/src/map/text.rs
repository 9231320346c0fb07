//! A topology for the terminal: the tree, memory, kinds of cores, devices, settings.

use model::values::id_set::{CpuId, CpuSet};
use model::values::settings::{Fact, FactValue, Settings};
use model::values::topology::{Device, DeviceKind, Distances, MemoryNode, Topology};
use model::values::units::Bytes;

use super::cores::common;
use super::outline::{Branch, node_facts, outline};
use crate::grid::{Grid, GridCell};
use crate::style::{TextStyle, Tone, clean, finished, paragraph, with_symbol, wrapped};

/// Maximum number of nodes of a distance matrix; for more, a sentence summarises it.
const MATRIX_NODES_MAX: usize = 16;
/// Maximum number of lines of memory attributes; the JSON has all.
const ATTRIBUTES_MAX: usize = 24;

/// The map, with a final line feed.
pub fn text(topology: &Topology, settings: Option<&Settings>, style: &TextStyle) -> String {
    let mut sections = vec![head(topology, settings, style)];
    sections.push(tree(&outline(topology), style));
    sections.extend(memory(topology, style));
    sections.extend(attributes(topology, style));
    sections.extend(kinds(topology, style));
    sections.extend(devices(&topology.devices, style));
    sections.extend(settings.and_then(|settings| facts(settings, style)));
    sections.extend(notes(topology, style));
    sections.join("\n")
}

pub(super) fn section(title: &str, body: &str, style: &TextStyle) -> String {
    format!("{}\n{body}", finished(&with_symbol(title, Tone::Strong), style))
}

fn head(topology: &Topology, settings: Option<&Settings>, style: &TextStyle) -> String {
    let model = settings.and_then(|settings| settings.get("cpu.model")).map(clean);
    let mut out = model.map_or(String::new(), |model| paragraph(&with_symbol(&model, Tone::Strong), style));
    out += &paragraph(&topology.summary(), style);
    if let Some(facts) = common(topology) {
        out += &paragraph(&format!("every core: {facts}"), style);
    }
    let hidden = topology.complete_cpus.difference(&topology.allowed_cpus);
    if !hidden.is_empty() {
        out += &paragraph(&format!("offline or forbidden CPUs: {hidden}"), style);
    }
    out
}

fn tree(root: &Branch, style: &TextStyle) -> String {
    let mut out = String::new();
    draw(root, "", "", style, &mut out);
    out
}

/// `first` precedes the first line, `rest` all other lines.
fn draw(branch: &Branch, first: &str, rest: &str, style: &TextStyle, out: &mut String) {
    let below = if branch.children.is_empty() { "   " } else { "│  " };
    // Deep in a tree on a narrow terminal, overlong lines are more readable than lines of one word.
    let space = style.width.saturating_sub(first.chars().count()).max(24);
    for (index, line) in wrapped(&branch.head, space, space - below.chars().count()).iter().enumerate() {
        let prefix = if index == 0 { first.to_string() } else { format!("{rest}{below}") };
        out.push_str(&finished(&format!("{prefix}{line}"), style));
        out.push('\n');
    }
    for (index, child) in branch.children.iter().enumerate() {
        let (joint, line) = if index + 1 == branch.children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(child, &format!("{rest}{joint}"), &format!("{rest}{line}"), style, out);
    }
}

/// Nodes with their distances; nodes without CPUs are marked.
fn memory(topology: &Topology, style: &TextStyle) -> Option<String> {
    let far: Vec<&MemoryNode> = topology.nodes.iter().filter(|node| node.cpus.is_empty()).collect();
    if topology.nodes.len() < 2 {
        return None;
    }
    if topology.nodes.len() > MATRIX_NODES_MAX {
        let apart: String = far.iter().map(|node| format!("node {}: {}\n", node.os, node_facts(node))).collect();
        let without = if far.is_empty() { String::new() } else { section("Memory without CPUs", &apart, style) };
        let distances = topology.node_distances().map(|matrix| paragraph(&spread(matrix), style)).unwrap_or_default();
        let body = [distances, without].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
        return (!body.is_empty()).then(|| section("Distances between memory nodes", &body, style));
    }
    Some(section("Memory", &node_table(topology).terminal(style), style))
}

fn node_table(topology: &Topology) -> Grid {
    let mut nodes: Vec<&MemoryNode> = topology.nodes.iter().collect();
    nodes.sort_by_key(|node| node.os);
    let mut grid = Grid::new(&["node", "size", "cpus"]).numbers(&["node", "size"]);
    let matrix = topology.node_distances();
    if matrix.is_some() {
        let title =
            |(index, node): (usize, &&MemoryNode)| format!("{}{}", if index == 0 { "to " } else { "" }, node.os);
        let titles: Vec<String> = nodes.iter().enumerate().map(title).collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        grid.columns.extend(Grid::new(&titles).numbers(&titles).columns);
    }
    for node in &nodes {
        let cpus = if node.cpus.is_empty() { "none".into() } else { node.cpus.to_string() };
        let tone = if node.cpus.is_empty() { Tone::Warning } else { Tone::Plain };
        let mut row = vec![GridCell::plain(&node.os.to_string()), GridCell::plain(&node_facts(node))];
        // Lists of CPUs have no spaces and are therefore broken at commas.
        row.push(GridCell::new(&cpus.replace(',', ", "), tone));
        if let Some(matrix) = matrix {
            let distance = |to| matrix.between(node.os, to).map_or("-".into(), |distance| distance.to_string());
            row.extend(nodes.iter().map(|to| GridCell::plain(&distance(to.os))));
        }
        grid.rows.push(row);
    }
    grid
}

/// `from each node: 10 to itself, 16 to 1 other, 25 to 28 others`.
fn spread(matrix: &Distances) -> String {
    let size = matrix.nodes.len();
    let row = |index: usize| {
        let mut others: Vec<u64> = matrix.values[index * size..(index + 1) * size].to_vec();
        let own = others.remove(index);
        others.sort_unstable();
        (own, others)
    };
    let (own, others) = row(0);
    if (1..size).any(|index| row(index) != (own, others.clone())) {
        let (low, high) = (matrix.values.iter().min(), matrix.values.iter().max());
        let ends = low.zip(high).map_or(String::new(), |(low, high)| format!("from {low} to {high}, "));
        return format!("{ends}different for each node; the JSON has the matrix");
    }
    let mut parts = vec![format!("from each node: {own} to itself")];
    for group in others.chunk_by(|a, b| a == b) {
        let noun = if group.len() == 1 { "other" } else { "others" };
        parts.push(format!("{} to {} {noun}", group[0], group.len()));
    }
    parts.join(", ")
}

fn attributes(topology: &Topology, style: &TextStyle) -> Option<String> {
    let values = &topology.memory_attributes;
    let groups = values.chunk_by(|a, b| a.attr == b.attr).flat_map(|same| {
        let mut initiators: Vec<_> = Vec::new();
        for value in same {
            if !initiators.contains(&&value.initiator) {
                initiators.push(&value.initiator);
            }
        }
        initiators.into_iter().map(move |from| {
            let reached: Vec<String> = same
                .iter()
                .filter(|value| value.initiator == *from)
                .map(|value| format!("node {} {}", value.node, value.value))
                .collect();
            let from =
                from.as_ref().map_or("anywhere".into(), |cpus| format!("cpus {}", cpus.to_string().replace(',', ", ")));
            [clean(&same[0].attr), unit(&same[0].attr).to_string(), from, reached.join(", ")]
        })
    });
    let mut grid = Grid::new(&["what", "unit", "from", "to"]);
    let rows: Vec<[String; 4]> = groups.collect();
    for row in rows.iter().take(ATTRIBUTES_MAX) {
        grid.rows.push(row.iter().map(|text| GridCell::plain(text)).collect());
    }
    let mut body = grid.without_repeats(2).terminal(style);
    if rows.len() > ATTRIBUTES_MAX {
        body += &paragraph(&format!("{} more lines are in the JSON", rows.len() - ATTRIBUTES_MAX), style);
    }
    (!rows.is_empty()).then(|| section("Memory attributes", &body, style))
}

/// Units as in hwloc.
fn unit(attribute: &str) -> &'static str {
    match attribute {
        name if name.ends_with("Bandwidth") => "MiB/s",
        name if name.ends_with("Latency") => "ns",
        _ => "",
    }
}

fn kinds(topology: &Topology, style: &TextStyle) -> Option<String> {
    if topology.cpu_kinds.len() < 2 {
        return None;
    }
    let mut grid = Grid::new(&["kind", "cpus", "efficiency rank", "capacity", "about"]).numbers(&["kind"]);
    for (index, kind) in topology.cpu_kinds.iter().enumerate() {
        let rank = if kind.efficiency < 0 { "unknown".into() } else { kind.efficiency.to_string() };
        let capacity = kind.capacity.map_or("unknown".into(), |capacity| capacity.to_string());
        let info: Vec<String> = kind.info.iter().map(|(name, text)| format!("{name} {text}")).collect();
        let cells = [index.to_string(), kind.cpus.to_string(), rank, capacity, info.join(", ")];
        grid.rows.push(cells.iter().map(|text| GridCell::plain(text)).collect());
    }
    Some(section("Kinds of cores, least power-hungry first", &grid.terminal(style), style))
}

fn devices(devices: &[Device], style: &TextStyle) -> Option<String> {
    let mut grid = Grid::new(&["device", "kind", "bus", "node", "interrupts", "handled by CPUs"]);
    for device in devices {
        let kind = match device.kind {
            DeviceKind::Block => "disk",
            DeviceKind::Network => "network",
        };
        let taken = device.interrupts.iter().fold(CpuSet::new(), |cpus, interrupt| cpus.union(&interrupt.effective));
        let cells = [
            device.name.clone(),
            kind.into(),
            device.bus.clone().unwrap_or("unknown".into()),
            device.node.map_or("unknown".into(), |node| node.to_string()),
            interrupt_numbers(device),
            if taken.is_empty() { "none yet".into() } else { taken.to_string() },
        ];
        grid.rows.push(cells.iter().map(|text| GridCell::plain(text)).collect());
    }
    (!devices.is_empty()).then(|| section("Devices", &grid.terminal(style), style))
}

/// `3: 24-26`.
fn interrupt_numbers(device: &Device) -> String {
    let numbers: CpuSet = device.interrupts.iter().map(|interrupt| CpuId(interrupt.number)).collect();
    match device.interrupts.len() {
        0 => "none".into(),
        count => format!("{count}: {}", numbers.to_string().replace(',', ", ")),
    }
}

fn facts(settings: &Settings, style: &TextStyle) -> Option<String> {
    let mut grid = Grid::new(&["setting", "value"]);
    for fact in &settings.facts {
        let tone = if matches!(fact.value, FactValue::Unavailable(_)) { Tone::Quiet } else { Tone::Plain };
        grid.rows.push(vec![GridCell::plain(&fact.key), GridCell::new(&fact_text(fact), tone)]);
    }
    (!settings.facts.is_empty()).then(|| section("Settings", &grid.terminal(style), style))
}

/// A fact's value; sizes also with a binary unit.
pub(crate) fn fact_text(fact: &Fact) -> String {
    match &fact.value {
        FactValue::Known(value) if value.is_empty() => "(empty)".into(),
        FactValue::Known(value) if fact.key.ends_with("-bytes") => match value.parse().map(Bytes) {
            Ok(bytes) if bytes.0 >= 1024 => format!("{value} ({bytes})"),
            _ => value.clone(),
        },
        value => value.to_string(),
    }
}

fn notes(topology: &Topology, style: &TextStyle) -> Option<String> {
    let body: String = topology.notes.iter().map(|note| paragraph(&clean(note), style)).collect();
    (!body.is_empty()).then(|| section("Conflicting sources", &body, style))
}
