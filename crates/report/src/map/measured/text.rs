//! A measured map for the terminal.

use model::placements::measured_map::{MeasuredMap, MeasuredValue};
use model::values::record::RunRecord;

use super::{load_description, mix};
use crate::grid::{CellKind, Grid, GridCell};
use crate::number::{Scale, interval, significant};
use crate::style::{TextStyle, Tone};
use crate::table::{heading, section};

/// Maximum number of pairs listed; the figure, the JSON and the CSV have all.
const PAIRS_MAX: usize = 60;

/// The map, with a final line feed.
pub fn text(record: &RunRecord, map: &MeasuredMap, style: &TextStyle) -> String {
    let mut out = heading(record, style);
    let parts = [
        ("Core to core, one way, with loads and stores", pairs(map)),
        ("CPUs to memory", memory(map)),
        ("Caches and memory, latency of a load", steps(map)),
        ("Latency of a load, by working-set size", sizes(map)),
        ("Latency of a load while other cores read", loaded(map)),
        ("Two threads of one core", smt(map)),
        ("Not measured", missing(map)),
    ];
    let shown: Vec<String> = parts
        .into_iter()
        .filter(|(_, grid)| !grid.rows.is_empty())
        .map(|(title, grid)| format!("{}{}", section(title, style).trim_start(), grid.terminal(style)))
        .collect();
    out += &shown.join("\n");
    let more = map.core_to_core.len().saturating_sub(PAIRS_MAX);
    if more > 0 {
        out += &format!("\n{more} more pairs are in the JSON and the CSV\n");
    }
    out
}

const VALUE: [&str; 4] = ["median", "95 % interval", "unit", "n"];

fn grid(titles: &[&str], numbers: &[&str]) -> Grid {
    let all: Vec<&str> = titles.iter().copied().chain(VALUE).collect();
    Grid::new(&all).numbers(&["median", "n"]).numbers(numbers).holding(CellKind::Word, &["95 % interval"])
}

fn row(about: &[String], value: &MeasuredValue) -> Vec<GridCell> {
    let scale = Scale::of(value.median);
    let between = interval(value.ci_low, value.ci_high, scale);
    let mut cells: Vec<GridCell> = about.iter().map(|text| GridCell::plain(text)).collect();
    cells.push(GridCell::plain(&scale.write(value.median)));
    cells.push(between.map_or_else(|| GridCell::muted("too few trials"), |text| GridCell::plain(&text)));
    cells.push(GridCell::muted(&value.unit));
    cells.push(GridCell::plain(&value.samples.len().to_string()));
    cells
}

fn pairs(map: &MeasuredMap) -> Grid {
    let mut grid = grid(&["cpus", "share", "equivalent pairs", "line on node"], &["equivalent pairs", "line on node"]);
    for pair in map.core_to_core.iter().take(PAIRS_MAX) {
        let home = pair.home.map_or("-".into(), |home| home.to_string());
        let about = [format!("{} {}", pair.a, pair.b), pair.relation.clone(), pair.alike.to_string(), home];
        grid.rows.push(row(&about, &pair.latency));
    }
    grid
}

fn memory(map: &MeasuredMap) -> Grid {
    let mut grid = grid(&["cpus", "node", "measured"], &["node"]);
    for path in &map.memory {
        let own = if path.local { " (own)" } else { "" };
        let about = |what: String| [path.cpus.to_string().replace(',', ", "), format!("{}{own}", path.node), what];
        if let Some(latency) = &path.latency {
            grid.rows.push(row(&about("latency".into()), latency));
        }
        for bandwidth in &path.bandwidth {
            grid.rows.push(row(&about(mix(bandwidth)), &bandwidth.rate));
        }
    }
    grid.without_repeats(2)
}

fn steps(map: &MeasuredMap) -> Grid {
    let mut grid = grid(&["cpu", "level", "size", "measured at"], &["cpu", "size", "measured at"]);
    for step in &map.steps {
        let holds = if step.cache_bytes.0 == 0 { "the rest".into() } else { step.cache_bytes.to_string() };
        let about = [step.cpu.to_string(), step.level.clone(), holds, step.at_bytes.to_string()];
        grid.rows.push(row(&about, &step.latency));
    }
    grid.without_repeats(1)
}

fn sizes(map: &MeasuredMap) -> Grid {
    let mut grid = grid(&["cpu", "fits", "size"], &["cpu", "size"]);
    for point in &map.sizes {
        let about = [point.cpu.to_string(), point.level.clone(), point.bytes.to_string()];
        grid.rows.push(row(&about, &point.latency));
    }
    grid.without_repeats(2)
}

fn loaded(map: &MeasuredMap) -> Grid {
    let mut grid = grid(&["cpus", "node", "readers", "load, MB/s"], &["node", "load, MB/s"]);
    for point in &map.loaded {
        let load = point.load.as_ref().map_or("-".into(), |load| significant(load.median));
        let cpus = point.cpus.to_string().replace(',', ", ");
        let about = [cpus, point.node.to_string(), load_description(point), load];
        grid.rows.push(row(&about, &point.latency));
    }
    grid.without_repeats(2)
}

fn smt(map: &MeasuredMap) -> Grid {
    let titles = ["cpus", "what", "alone", "both", "unit", "both / alone", "95 % interval", "n"];
    let mut grid =
        Grid::new(&titles).numbers(&["alone", "both", "both / alone", "n"]).holding(CellKind::Word, &["95 % interval"]);
    for pair in &map.smt {
        let scale = Scale::of(pair.ratio);
        let between = interval(pair.ratio_ci_low, pair.ratio_ci_high, scale);
        grid.rows.push(vec![
            GridCell::plain(&format!("{} {}", pair.cpus[0], pair.cpus[1])),
            GridCell::plain(&pair.what),
            GridCell::plain(&significant(pair.alone.median)),
            GridCell::plain(&significant(pair.both.median)),
            GridCell::muted(&pair.both.unit),
            GridCell::plain(&scale.write(pair.ratio)),
            between.map_or_else(|| GridCell::muted("too few trials"), |text| GridCell::plain(&text)),
            GridCell::plain(&pair.both.samples.len().to_string()),
        ]);
    }
    grid.without_repeats(1)
}

fn missing(map: &MeasuredMap) -> Grid {
    let mut grid = Grid::new(&["what", "where", "why"]);
    for one in &map.missing {
        let why = GridCell::new(&one.why, Tone::Quiet);
        grid.rows.push(vec![GridCell::plain(&one.what), GridCell::plain(&one.placement), why]);
    }
    grid.without_repeats(1)
}
