//! A topology as SVG: nested boxes, with memory above the object it belongs to and CPUs as the smallest boxes.

use askama::Template;
use model::values::id_set::{CpuId, NodeId, NodeSet};
use model::values::placement::{MemoryPolicy, Placement};
use model::values::topology::{MemoryNode, Object, ObjectKind, Topology};
use model::values::units::thread_count;

use super::cores::{Core, all_cores, cache_label, common, core_at};
use super::outline::node_facts;
use crate::figure_style::Theme;
use crate::style::clean;

/// The width at which boxes wrap: the text column of a page.
const WIDTH_MAX: f64 = 1080.0;
/// The aspect ratio at which boxes wrap.
const SHAPE: f64 = 1.7;
const PADDING: f64 = 6.0;
const GAP: f64 = 5.0;
const LABEL_HEIGHT: f64 = 15.0;
const CPU_HEIGHT: f64 = 17.0;
/// Maximum number of cores for which private caches are shown in every box; beyond it they are described once.
const LABELLED_CORES_MAX: usize = 64;
/// Character widths for the two text sizes, slightly larger than in common sans-serif fonts.
const CHARACTER: f64 = 6.7;
const CHARACTER_SMALL: f64 = 5.8;

/// Draws the topology. CPUs and memory of a placement are highlighted.
pub fn svg(topology: &Topology, placement: Option<&Placement>, theme: Theme) -> String {
    let drawing = Drawing::new(topology, placement);
    let block = drawing.object(0, WIDTH_MAX);
    let legend = drawing.legend();
    let legend_top = block.height + LABEL_HEIGHT + 2.0;
    let legend_width = legend.iter().map(|line| text_width(line, CHARACTER)).fold(0.0, f64::max);
    let picture = SvgWriter {
        theme,
        title: topology.summary(),
        description: drawing.description(),
        width: number(block.width.max(legend_width)),
        height: number(block.height + 8.0 + LABEL_HEIGHT * legend.len() as f64),
        boxes: block.boxes,
        labels: block.labels,
        legend: legend
            .into_iter()
            .enumerate()
            .map(|(index, line)| SvgText::new(0.0, legend_top + LABEL_HEIGHT * index as f64, "t", line))
            .collect(),
    };
    picture.render().expect("the template renders")
}

/// The finished figure; coordinates are formatted, so that equal figures are equal bytes.
#[derive(Template)]
#[template(path = "map.svg")]
struct SvgWriter {
    theme: Theme,
    title: String,
    description: String,
    width: String,
    height: String,
    boxes: Vec<Rectangle>,
    labels: Vec<SvgText>,
    legend: Vec<SvgText>,
}

struct Rectangle {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    class: String,
    /// The tooltip. Empty if the label shows everything.
    title: String,
}

struct SvgText {
    x: f64,
    y: f64,
    class: &'static str,
    text: String,
}

impl Rectangle {
    fn place(&self) -> String {
        let [x, y, width, height] = [self.x, self.y, self.width, self.height].map(number);
        format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
    }
}

impl SvgText {
    fn new(x: f64, y: f64, class: &'static str, text: String) -> Self {
        Self { x, y, class, text }
    }

    fn place(&self) -> String {
        format!("x=\"{}\" y=\"{}\"", number(self.x), number(self.y))
    }
}

/// One decimal: a tenth of a pixel.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), Into::into)
}

fn text_width(text: &str, character: f64) -> f64 {
    text.chars().count() as f64 * character
}

/// A part of the figure with a local origin.
#[derive(Default)]
struct SvgGroup {
    width: f64,
    height: f64,
    boxes: Vec<Rectangle>,
    labels: Vec<SvgText>,
}

impl SvgGroup {
    fn take(&mut self, other: Self, x: f64, y: f64) {
        self.boxes.extend(other.boxes.into_iter().map(|part| Rectangle { x: part.x + x, y: part.y + y, ..part }));
        self.labels.extend(other.labels.into_iter().map(|part| SvgText { x: part.x + x, y: part.y + y, ..part }));
    }

    /// Draws a frame behind its content.
    fn framed(mut self, class: String, title: String) -> Self {
        let frame = Rectangle { x: 0.5, y: 0.5, width: self.width - 1.0, height: self.height - 1.0, class, title };
        self.boxes.insert(0, frame);
        self
    }
}

/// Arranges blocks in rows that leave little empty space and have a shape near [`SHAPE`].
fn flow(blocks: Vec<SvgGroup>, space: f64) -> SvgGroup {
    let sizes: Vec<(f64, f64)> = blocks.iter().map(|block| (block.width, block.height)).collect();
    let mut best: Option<(f64, Vec<(f64, f64)>)> = None;
    for columns in 1..=sizes.len() {
        let limit: f64 = sizes[..columns].iter().map(|(width, _)| width + GAP).sum();
        let (places, width, height) = wrap(&sizes, limit);
        let form = width / height / SHAPE;
        // The exponent weighs empty space against shape: three small cores fit in one row, 72 do not.
        let cost = width * height * form.max(1.0 / form).powf(0.35);
        if (columns == 1 || width <= space) && best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, places));
        }
    }
    let mut all = SvgGroup::default();
    for (block, (x, y)) in blocks.into_iter().zip(best.map(|(_, places)| places).unwrap_or_default()) {
        all.width = f64::max(all.width, x + block.width);
        all.height = f64::max(all.height, y + block.height);
        all.take(block, x, y);
    }
    all
}

/// The positions of blocks if rows end at the limit, and the total size.
fn wrap(sizes: &[(f64, f64)], limit: f64) -> (Vec<(f64, f64)>, f64, f64) {
    let mut places = Vec::with_capacity(sizes.len());
    let (mut x, mut y, mut row_height, mut widest) = (0.0, 0.0, 0.0, 0.0);
    for (width, height) in sizes {
        if x > 0.0 && x + width > limit {
            (x, y) = (0.0, y + row_height + GAP);
            row_height = 0.0;
        }
        places.push((x, y));
        row_height = f64::max(row_height, *height);
        widest = f64::max(widest, x + width);
        x += width + GAP;
    }
    (places, widest, y + row_height)
}

/// The context of all boxes.
struct Drawing<'a> {
    topology: &'a Topology,
    placement: Option<&'a Placement>,
    nodes: NodeSet,
    labelled: bool,
    /// The width of the longest number.
    cpu_width: f64,
}

impl<'a> Drawing<'a> {
    fn new(topology: &'a Topology, placement: Option<&'a Placement>) -> Self {
        let longest = topology.cpus_in_logical_order().iter().map(|cpu| cpu.to_string().len()).max().unwrap_or(1);
        Self {
            topology,
            placement,
            nodes: placement.map(|placement| memory_nodes(&placement.memory)).unwrap_or_default(),
            labelled: all_cores(topology).len() <= LABELLED_CORES_MAX,
            cpu_width: (longest as f64 * CHARACTER_SMALL + 6.0).max(18.0),
        }
    }

    fn object(&self, index: usize, space: f64) -> SvgGroup {
        if let Some(core) = core_at(self.topology, index) {
            return self.core(index, &core);
        }
        let object = &self.topology.objects[index];
        let inner = space - 2.0 * PADDING;
        let children = object.children.iter().map(|child| self.object(*child, inner)).collect();
        let children = flow(children, inner);
        let memory = flow(object.memory.iter().map(|node| self.node(&self.topology.nodes[*node])).collect(), inner);
        let label = label(object);
        let mut block = SvgGroup::default();
        let label_width = text_width(&label, CHARACTER);
        block.width = children.width.max(memory.width).max(label_width) + 2.0 * PADDING;
        let mut y = PADDING + LABEL_HEIGHT;
        block.labels.push(SvgText::new(PADDING, y - 4.0, "t", label));
        for part in [memory, children] {
            if part.height > 0.0 {
                let height = part.height;
                block.take(part, PADDING, y);
                y += height + GAP;
            }
        }
        block.height = y - GAP + PADDING;
        block.framed(class(object.kind).into(), String::new())
    }

    fn node(&self, node: &MemoryNode) -> SvgGroup {
        let used = self.nodes.contains(node.os);
        let mut text = format!("node {}, {}", node.os, node_facts(node));
        if node.cpus.is_empty() {
            text += ", without CPUs";
        }
        if used {
            text += ", data here";
        }
        // Bold text is wider.
        let character = if used { CHARACTER * 1.15 } else { CHARACTER };
        let mut block = SvgGroup { width: text_width(&text, character) + 12.0, height: 21.0, ..SvgGroup::default() };
        block.labels.push(SvgText::new(6.0, 14.5, if used { "t on" } else { "t" }, text));
        block.framed(if used { "mem on" } else { "mem" }.into(), String::new())
    }

    fn core(&self, index: usize, core: &Core) -> SvgGroup {
        let cpus = self.threads(core);
        if !core.named && core.caches.is_empty() {
            return cpus;
        }
        let mut lines: Vec<String> = Vec::new();
        if self.labelled {
            lines.extend(core.caches.iter().map(|cache| cache_label(*cache)));
        }
        if let Some(kind) = core.kind.filter(|_| self.labelled) {
            lines.insert(0, format!("kind {kind}"));
        }
        let text = lines.iter().map(|line| text_width(line, CHARACTER_SMALL)).fold(0.0, f64::max);
        let mut block = SvgGroup { width: cpus.width.max(text) + 8.0, ..SvgGroup::default() };
        let mut y = 4.0;
        for line in lines {
            y += 11.0;
            block.labels.push(SvgText::new(4.0, y - 2.5, "s", line));
        }
        y += if y > 4.0 { 2.0 } else { 0.0 };
        let (left, height) = ((block.width - cpus.width) / 2.0, cpus.height);
        block.take(cpus, left, y);
        block.height = y + height + 4.0;
        let kind = core.kind.map_or(String::new(), |kind| format!(" k{}", kind % 4));
        block.framed(format!("core{kind}"), self.core_title(index, core))
    }

    /// Up to four per row.
    fn threads(&self, core: &Core) -> SvgGroup {
        const GAP: f64 = 2.0;
        let mut all = SvgGroup::default();
        for (index, cpu) in core.cpus.iter().enumerate() {
            let (x, y) = ((index % 4) as f64 * (self.cpu_width + GAP), (index / 4) as f64 * (CPU_HEIGHT + GAP));
            all.width = f64::max(all.width, x + self.cpu_width);
            all.height = y + CPU_HEIGHT;
            all.take(self.cpu(*cpu), x, y);
        }
        all
    }

    fn core_title(&self, index: usize, core: &Core) -> String {
        let number = self.topology.objects[index].os_index.map_or(String::new(), |number| format!(" {number}"));
        let kind = core.kind.map_or(String::new(), |kind| format!(", kind {kind}"));
        let caches: String = core.caches.iter().map(|cache| format!(", {}", cache_label(*cache))).collect();
        format!("core{number}{kind}{caches}")
    }

    fn cpu(&self, cpu: CpuId) -> SvgGroup {
        let binding =
            self.placement.and_then(|placement| placement.bindings.iter().position(|binding| *binding == cpu));
        let mut block = SvgGroup { width: self.cpu_width, height: CPU_HEIGHT, ..SvgGroup::default() };
        let class = if binding.is_some() { "s c on" } else { "s c" };
        block.labels.push(SvgText::new(self.cpu_width / 2.0, 12.0, class, cpu.to_string()));
        let is_loose = self.placement.is_some_and(|placement| placement.loose);
        let thread = |thread| if is_loose { "any thread".into() } else { format!("thread {thread}") };
        let title = binding.map_or(String::new(), |index| format!("cpu {cpu}: {}", thread(index)));
        block.framed(if binding.is_some() { "pu on" } else { "pu" }.into(), title)
    }

    fn legend(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.labelled {
            lines.extend(common(self.topology).map(|facts| format!("every core: {facts}")));
        }
        lines.extend(self.topology.cpu_kinds.iter().enumerate().filter(|_| self.topology.cpu_kinds.len() > 1).map(
            |(index, kind)| {
                let facts: Vec<String> = kind.info.iter().map(|(name, text)| format!("{name} {text}")).collect();
                let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) };
                clean(&format!("kind {index} (cpus {}){facts}", kind.cpus))
            },
        ));
        lines.extend(self.placement.map(placement_line));
        lines
    }

    fn description(&self) -> String {
        let what =
            "Nested boxes: packages, caches, cores and their CPUs by number, memory nodes above what they belong to.";
        self.placement.map_or(what.into(), |placement| format!("{what} {}.", placement_line(placement)))
    }
}

fn placement_line(placement: &Placement) -> String {
    let seats = if placement.is_pinned() { format!("on cpus {}", placement.cpus()) } else { "not bound".into() };
    let threads = thread_count(placement.threads);
    clean(&format!("placement {}: {threads}, {seats}, memory {}", placement.name, placement.memory))
}

/// The memory nodes that a placement's policy names.
fn memory_nodes(policy: &MemoryPolicy) -> NodeSet {
    let preferred = |node: &NodeId| NodeSet::from_iter([*node]);
    match policy {
        MemoryPolicy::Preferred(node) => preferred(node),
        policy => policy.promised_nodes().cloned().unwrap_or_default(),
    }
}

fn label(object: &Object) -> String {
    let number = object.os_index.map_or(String::new(), |number| format!(" {number}"));
    match object.kind {
        ObjectKind::Machine => "machine".into(),
        ObjectKind::Package => format!("package{number}"),
        ObjectKind::Die => format!("die{number}"),
        ObjectKind::Group => object.subtype.as_deref().map_or("group".into(), |subtype| clean(subtype).to_lowercase()),
        ObjectKind::Cache => object.cache.map_or("cache".into(), cache_label),
        ObjectKind::Core => format!("core{number}"),
        ObjectKind::Pu => format!("cpu{number}"),
    }
}

fn class(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Machine => "machine",
        ObjectKind::Group | ObjectKind::Die => "group",
        ObjectKind::Package => "package",
        ObjectKind::Cache => "cache",
        ObjectKind::Core => "core",
        ObjectKind::Pu => "pu",
    }
}
