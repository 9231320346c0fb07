//! The memory of processes and of cached files by memory node, as text.

use std::collections::BTreeSet;

use model::analysis::residency::{
    CachedFile, MemoryPart, NodeBytes, ProcessMemory, Residency, ResidencySample, ThreadGroup,
};
use model::values::id_set::NodeId;
use model::values::units::Bytes;

use crate::grid::{CellKind, Grid, GridCell};
use crate::number::percent_size;
use crate::style::{TextStyle, Tone, clean, paragraph, with_symbol};

/// Maximum number of rows of each table; JSON has all.
const ROWS_MAX: usize = 40;
/// Parts beyond this number have a row only if they are not small.
const ROWS_MIN: usize = 10;
/// A part is small if it is less than this fraction of the memory.
const SMALL_PER_ALL: u64 = 200;
/// Maximum number of nodes with a column each.
const NODE_COLUMNS_MAX: usize = 8;

/// The memory of processes: parts, processes, threads, and memory that was not inspected.
pub fn processes(subject: &str, residency: &Residency, samples: &[ResidencySample], style: &TextStyle) -> String {
    let nodes = nodes(residency.parts.iter().map(|part| &part.memory));
    let heading = format!("Memory of {}: {}", clean(subject), by_node_text(&residency.total));
    let mut out = paragraph(&with_symbol(&heading, Tone::Strong), style) + "\n";
    out += &parts_grid(&residency.parts, &nodes).terminal(style);
    if residency.processes.len() > 1 {
        out += &format!("\n{}", processes_grid(&residency.processes, &nodes).terminal(style));
    }
    if !residency.threads.is_empty() {
        out += &format!("\n{}", threads_grid(residency).terminal(style));
    }
    if samples.len() > 1 {
        out += &format!("\n{}", samples_grid(samples, &nodes).terminal(style));
    }
    let sentences = sentences(residency);
    if !sentences.is_empty() {
        out += "\n";
        out += &sentences.iter().map(|sentence| paragraph(sentence, style)).collect::<String>();
    }
    out
}

/// The page cache of files.
pub fn files(files: &[CachedFile], style: &TextStyle) -> String {
    let nodes = nodes(files.iter().map(|file| &file.memory));
    let mut grid = with_nodes(Grid::new(&["file", "size", "cached", "share", "ranges"]), &nodes);
    grid = grid.numbers(&["size", "cached", "share", "ranges"]);
    for file in files {
        let mut row = vec![
            GridCell::plain(&file.path),
            GridCell::plain(&file.size.to_string()),
            GridCell::plain(&file.memory.bytes.to_string()),
            GridCell::plain(&cached_share(file)),
            GridCell::muted(&file.range_count.to_string()),
        ];
        row.extend(node_cells(&file.memory, &nodes));
        grid.rows.push(row);
    }
    let mut out = grid.terminal(style);
    for file in files {
        for sentence in file_sentences(file) {
            out += &paragraph(&sentence, style);
        }
    }
    out
}

fn cached_share(file: &CachedFile) -> String {
    // The last page may be partly outside the file.
    file.cached_percent().map_or("empty".into(), |percent| format!("{} %", percent_size(percent)))
}

fn file_sentences(file: &CachedFile) -> Vec<String> {
    let path = clean(&file.path);
    let mut sentences = Vec::new();
    if let Some(why) = &file.nodes_unavailable {
        sentences.push(format!("{path}: the nodes of its cached pages are unknown: {}", clean(why)));
    } else if file.memory.unattributed.0 > 0 {
        sentences
            .push(format!("{path}: the node of {} is unknown: pages were freed meanwhile", file.memory.unattributed));
    }
    if let Some(sentence) = sampling(file.sampling_interval, &file.memory) {
        sentences.push(format!("{path}: {sentence}"));
    }
    sentences
}

/// Returns the nodes with memory.
fn nodes<'a>(memory: impl Iterator<Item = &'a NodeBytes>) -> Vec<NodeId> {
    let nodes: BTreeSet<NodeId> = memory.flat_map(|memory| memory.by_node.keys().copied()).collect();
    nodes.into_iter().collect()
}

/// `1.5GiB: 1GiB on node 0, 512MiB on node 1`.
pub(crate) fn by_node_text(memory: &NodeBytes) -> String {
    let nodes: Vec<String> = memory.by_node.iter().map(|(node, bytes)| format!("{bytes} on node {node}")).collect();
    if nodes.is_empty() { memory.bytes.to_string() } else { format!("{}, {}", memory.bytes, nodes.join(", ")) }
}

/// Adds one column per node, or one for all nodes of a large machine.
fn with_nodes(mut grid: Grid, nodes: &[NodeId]) -> Grid {
    let titles: Vec<String> = if nodes.len() > NODE_COLUMNS_MAX {
        vec!["by node".into()]
    } else {
        nodes.iter().map(|node| format!("node {node}")).collect()
    };
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    grid.columns.extend(Grid::new(&titles).columns);
    if nodes.len() > NODE_COLUMNS_MAX { grid } else { grid.numbers(&titles) }
}

fn node_cells(memory: &NodeBytes, nodes: &[NodeId]) -> Vec<GridCell> {
    if nodes.len() > NODE_COLUMNS_MAX {
        let cells: Vec<String> = memory.by_node.iter().map(|(node, bytes)| format!("{node}: {bytes}")).collect();
        return vec![GridCell::plain(&cells.join(", "))];
    }
    let cell = |node| memory.by_node.get(node).filter(|bytes| bytes.0 > 0).map_or(String::new(), Bytes::to_string);
    nodes.iter().map(|node| GridCell::plain(&cell(node))).collect()
}

/// One row per part: by kind, within each by size. Small parts are summed.
fn parts_grid(parts: &[MemoryPart], nodes: &[NodeId]) -> Grid {
    let mut grid = with_nodes(Grid::new(&["memory", "name", "total"]), nodes).numbers(&["total"]);
    let mut sorted: Vec<&MemoryPart> = parts.iter().collect();
    sorted.sort_by_key(|part| std::cmp::Reverse(part.memory.bytes));
    let all: u64 = parts.iter().map(|part| part.memory.bytes.0).sum();
    let is_small = |part: &MemoryPart| part.memory.bytes.0 * SMALL_PER_ALL < all;
    let shown = sorted
        .iter()
        .enumerate()
        .take_while(|(index, part)| *index < ROWS_MIN || (*index < ROWS_MAX && !is_small(part)));
    let shown = shown.count();
    let rest = sorted.split_off(shown);
    sorted.sort_by_key(|part| part.kind);
    for part in sorted {
        grid.rows.push(row(part.kind.name(), &part.name, &part.memory, nodes));
    }
    if !rest.is_empty() {
        let mut sum = NodeBytes::default();
        rest.iter().for_each(|part| sum.add(&part.memory));
        let noun = if rest.len() == 1 { "part" } else { "parts" };
        grid.rows.push(row("other", &format!("{} smaller {noun}", rest.len()), &sum, nodes));
    }
    grid
}

fn row(kind: &str, name: &str, memory: &NodeBytes, nodes: &[NodeId]) -> Vec<GridCell> {
    let mut row = vec![GridCell::plain(kind), GridCell::plain(name), GridCell::plain(&memory.bytes.to_string())];
    row.extend(node_cells(memory, nodes));
    row
}

/// One row per process, by size.
fn processes_grid(processes: &[ProcessMemory], nodes: &[NodeId]) -> Grid {
    let mut grid = with_nodes(Grid::new(&["process", "name", "memory"]), nodes).numbers(&["process", "memory"]);
    let mut sorted: Vec<&ProcessMemory> = processes.iter().collect();
    sorted.sort_by_key(|process| std::cmp::Reverse(process.memory.bytes));
    for process in sorted.iter().take(ROWS_MAX) {
        grid.rows.push(row(&process.pid.to_string(), &process.name, &process.memory, nodes));
    }
    if let Some(more) = sorted.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        grid.rows.push(row("", &format!("{more} smaller processes"), &NodeBytes::default(), nodes));
    }
    grid
}

/// One row per process and memory node on which its threads ran.
fn threads_grid(residency: &Residency) -> Grid {
    let mut grid = Grid::new(&["process", "name", "threads", "ran on CPUs", "node", "remote memory"])
        .numbers(&["process", "threads", "node", "remote memory"])
        .holding(CellKind::Text, &["ran on CPUs"]);
    let name = |group: &ThreadGroup| {
        let process = residency.processes.iter().find(|process| process.pid == group.pid);
        process.map_or("", |process| process.name.as_str())
    };
    let mut groups: Vec<&ThreadGroup> = residency.threads.iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.threads));
    for group in groups.iter().take(ROWS_MAX) {
        let remote = group.remote_percent.map_or("unknown".into(), |percent| format!("{} %", percent_size(percent)));
        grid.rows.push(vec![
            GridCell::plain(&group.pid.to_string()),
            GridCell::plain(name(group)),
            GridCell::plain(&group.threads.to_string()),
            GridCell::plain(&group.cpus.to_string()),
            GridCell::plain(&group.node.map_or("none".into(), |node| node.to_string())),
            GridCell::plain(&remote),
        ]);
    }
    grid
}

/// The memory over time: at most [`ROWS_MAX`] evenly spaced samples, with the last one.
fn samples_grid(samples: &[ResidencySample], nodes: &[NodeId]) -> Grid {
    let mut grid = with_nodes(Grid::new(&["after", "memory"]), nodes).numbers(&["after", "memory"]);
    let step = samples.len().div_ceil(ROWS_MAX);
    for sample in samples.iter().rev().step_by(step).collect::<Vec<_>>().into_iter().rev() {
        let mut row = vec![
            GridCell::plain(&format!("{:.2} s", sample.after_seconds)),
            GridCell::plain(&sample.memory.bytes.to_string()),
        ];
        row.extend(node_cells(&sample.memory, nodes));
        grid.rows.push(row);
    }
    grid
}

fn sentences(residency: &Residency) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(percent) = residency.remote_percent {
        let sentence = format!("{} % of the memory of these threads is remote", percent_size(percent));
        sentences.push(with_symbol(&sentence, if percent >= 50.0 { Tone::Warning } else { Tone::Plain }));
    }
    sentences.extend(sampling(residency.sampling_interval, &residency.total));
    let swapped: u64 = residency.processes.iter().map(|process| process.swapped.0).sum();
    if swapped > 0 {
        sentences.push(format!("{} are swapped out, so they are on no node", Bytes(swapped)));
    }
    if residency.total.unattributed.0 > 0 {
        let bytes = residency.total.unattributed;
        sentences.push(format!(
            "the node of {bytes} is unknown: pages were freed or moved meanwhile, or sampled by automatic NUMA balancing, \
             whose pages only root can find before Linux 6.6"
        ));
    }
    sentences.extend(
        residency
            .unseen
            .iter()
            .map(|unseen| format!("not inspected: {}: {}", clean(&unseen.what), clean(&unseen.reason))),
    );
    sentences
}

fn sampling(interval: u64, memory: &NodeBytes) -> Option<String> {
    (interval > 1 && memory.margin.0 > 0).then(|| {
        format!(
            "sampled: the nodes of large parts are those of one page in {interval}; the memory on a node is exact to {} \
             (95 % interval), and totals are exact",
            memory.margin
        )
    })
}

#[cfg(test)]
mod tests {
    use model::analysis::residency::Unseen;
    use model::values::id_set::CpuSet;

    use super::*;
    use model::analysis::residency::MemoryKind;

    const STYLE: TextStyle = TextStyle { width: 100, ascii: false, colour: false };

    fn memory(nodes: &[(u32, u64)]) -> NodeBytes {
        NodeBytes {
            bytes: Bytes(nodes.iter().map(|(_, bytes)| bytes).sum()),
            by_node: nodes.iter().map(|(node, bytes)| (NodeId(*node), Bytes(*bytes))).collect(),
            ..NodeBytes::default()
        }
    }

    fn part(kind: MemoryKind, name: &str, nodes: &[(u32, u64)]) -> MemoryPart {
        MemoryPart { kind, name: name.into(), memory: memory(nodes) }
    }

    fn group(pid: u32, node: Option<u32>, cpus: &str, remote_percent: Option<f64>) -> ThreadGroup {
        let cpus = CpuSet::parse_list(cpus).unwrap();
        ThreadGroup { pid, node: node.map(NodeId), threads: cpus.len() as u64, cpus, remote_percent }
    }

    fn process(pid: u32, name: &str, nodes: &[(u32, u64)], swapped: u64) -> ProcessMemory {
        ProcessMemory { pid, name: name.into(), memory: memory(nodes), swapped: Bytes(swapped) }
    }

    fn example() -> Residency {
        const MIB: u64 = 1 << 20;
        Residency {
            total: NodeBytes {
                margin: Bytes(3 << 20),
                unattributed: Bytes(4096),
                ..memory(&[(0, 1 << 30), (1, 3 << 30)])
            },
            parts: vec![
                part(MemoryKind::Heap, "", &[(0, 1 << 30)]),
                part(MemoryKind::Library, "/usr/lib/libz.so", &[(0, 65536)]),
                part(MemoryKind::Library, "/usr/lib/libc.so", &[(0, 2 * MIB)]),
                part(MemoryKind::MappedFile, "/data/mo\u{1b}del", &[(0, 4096), (1, 3 << 30)]),
            ],
            processes: vec![process(7, "server", &[(0, 1 << 30)], 8192), process(9, "worker", &[(1, 3 << 30)], 0)],
            threads: vec![group(7, Some(0), "0-1", Some(75.0)), group(9, None, "9", None)],
            remote_percent: Some(75.0),
            sampling_interval: 5,
            seconds: 0.5,
            unseen: vec![Unseen { what: "process 11".into(), reason: "Permission denied".into() }],
        }
    }

    #[test]
    fn tables_have_parts_processes_threads_and_limits() {
        insta::assert_snapshot!(processes("process 7 (server)", &example(), &[], &STYLE));
    }

    #[test]
    fn samples_over_time_end_with_the_last_one() {
        let sample = |index: u32| ResidencySample {
            after_seconds: f64::from(index),
            memory: memory(&[(0, u64::from(index) << 20)]),
            remote_percent: None,
        };
        let samples: Vec<ResidencySample> = (1..=90).map(sample).collect();
        let text = samples_grid(&samples, &[NodeId(0)]).terminal(&STYLE);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 30, "{text}");
        assert_eq!(lines.last().unwrap().split_whitespace().collect::<Vec<_>>(), ["90.00", "s", "90MiB", "90MiB"]);
    }

    #[test]
    fn small_parts_are_summed() {
        let sizes = [1 << 30].into_iter().chain((0..13).map(|_| 4096));
        let parts: Vec<MemoryPart> =
            sizes.map(|bytes| part(MemoryKind::MappedFile, &format!("file{bytes}"), &[(0, bytes)])).collect();
        let grid = parts_grid(&parts, &[NodeId(0)]);
        let last: Vec<&str> = grid.rows.last().unwrap().iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!((grid.rows.len(), last), (11, vec!["other", "4 smaller parts", "16KiB", "16KiB"]));
    }

    #[test]
    fn rows_beyond_the_limit_are_summed() {
        let parts: Vec<MemoryPart> = (0..50)
            .map(|index| part(MemoryKind::Library, &format!("lib{index}"), &[(0, 4096 * (index + 1))]))
            .collect();
        let grid = parts_grid(&parts, &[NodeId(0)]);
        let last: Vec<&str> = grid.rows.last().unwrap().iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!((grid.rows.len(), last), (41, vec!["other", "10 smaller parts", "220KiB", "220KiB"]));
    }

    #[test]
    fn machines_with_many_nodes_have_one_column() {
        let nodes: Vec<(u32, u64)> = (0..9).map(|node| (node, 4096)).collect();
        let text =
            parts_grid(&[part(MemoryKind::Heap, "", &nodes)], &(0..9).map(NodeId).collect::<Vec<_>>()).terminal(&STYLE);
        assert!(text.contains("by node") && text.contains("8: 4KiB"), "{text}");
    }

    #[test]
    fn files_have_sizes_shares_and_reasons() {
        let file = |path: &str, size, nodes: &[(u32, u64)], why: Option<&str>| CachedFile {
            path: path.into(),
            size: Bytes(size),
            memory: memory(nodes),
            ranges: Vec::new(),
            range_count: u64::from(size > 0),
            sampling_interval: 1,
            nodes_unavailable: why.map(String::from),
        };
        let list = [
            file("/data/a", 1 << 20, &[(0, 1 << 18), (1, 1 << 18)], None),
            file("/data/empty", 0, &[], None),
            file("/data/b", 5000, &[], Some("it needs Linux 5.14")),
        ];
        insta::assert_snapshot!(files(&list, &STYLE));
    }
}
