//! CPUs in the notations of other programs: lists of taskset, masks, locations of hwloc and thread domains of likwid.
//! Must not decide which CPUs a process may use.

use crate::values::id_set::{CpuId, CpuSet};
use crate::values::topology::{ObjectKind, Topology};

/// Completes "valid forms:" in error messages.
const FORMS: &str = "0-3,8; a mask such as 0x3; hwloc's package:0.core:1; likwid's S0:0-1";

/// CPUs as a user wrote them. Which CPUs these are depends on the machine, unless they are numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CpuLocation {
    /// A list or a mask.
    Numbers(CpuSet),
    /// hwloc's locations, separated by commas.
    Objects(Vec<ObjectPath>),
    /// likwid's thread domains, separated by `@`.
    Domains(Vec<Domain>),
}

/// `package:0.core:1`: the levels from the outermost to the innermost, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    text: String,
    levels: Vec<(Level, Range)>,
}

/// Kind of objects that a location counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Kind(ObjectKind),
    Cache(u32),
    LastCache,
    MemoryNode,
}

/// Logical indices of the objects of a level, as in hwloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// From the first to the last index.
    Span(usize, usize),
    /// All from this index.
    From(usize),
    Even,
    Odd,
}

/// `S0:0-1`: positions in the list of the domain's CPUs, in which the first CPU of each core comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    text: String,
    level: Level,
    index: usize,
    positions: CpuSet,
}

impl CpuLocation {
    /// Parses the notation. Whether the CPUs exist depends on the machine and is not checked.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with("0x") {
            CpuSet::parse_mask(text).map(Self::Numbers)
        } else if text.split('@').all(is_domain) {
            text.split('@').map(Domain::parse).collect::<Result<_, _>>().map(Self::Domains)
        } else if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            text.split(',').map(ObjectPath::parse).collect::<Result<_, _>>().map(Self::Objects)
        } else {
            CpuSet::parse_list(text).map(Self::Numbers).map_err(|error| match error.split_once("; use the form") {
                Some((problem, _)) => format!("{problem}; valid forms: {FORMS}"),
                None => error,
            })
        }
    }

    /// Whether a word can only mean CPUs: a policy has no such name.
    pub fn is_location(word: &str) -> bool {
        let is_path = |word: &str| {
            let name = word.split(':').next().unwrap_or(word);
            let is_policy = name == "node" && !word.contains('.');
            word.contains(':') && !is_policy && level(name).is_some()
        };
        word.starts_with(|c: char| c.is_ascii_digit()) || is_domain(word) || is_path(word)
    }

    /// Returns the CPUs on this machine.
    ///
    /// # Errors
    ///
    /// If the machine has no such object or position. CPUs written as numbers are not checked.
    pub fn resolve(&self, topology: &Topology) -> Result<CpuSet, String> {
        let union = |all: CpuSet, cpus: CpuSet| all.union(&cpus);
        match self {
            Self::Numbers(cpus) => Ok(cpus.clone()),
            Self::Objects(paths) => {
                paths.iter().try_fold(CpuSet::new(), |all, path| Ok(union(all, path.resolve(topology)?)))
            }
            Self::Domains(domains) => {
                domains.iter().try_fold(CpuSet::new(), |all, domain| Ok(union(all, domain.resolve(topology)?)))
            }
        }
    }
}

impl ObjectPath {
    fn parse(text: &str) -> Result<Self, String> {
        let level = |part: &str| {
            let (name, range) = part.split_once(':').ok_or_else(|| not_a_location(text))?;
            let level = level(name).ok_or_else(|| {
                format!("'{name}' in '{text}' is not a kind of object; valid kinds: package, die, numanode, l3, l2, l1, core, pu")
            })?;
            let range = Range::parse(range).ok_or_else(|| {
                format!("'{range}' in '{text}' is not an index; valid indices: 1, 0-3, 2-, 0:4, all, even, odd")
            })?;
            Ok((level, range))
        };
        let levels = text.split('.').map(level).collect::<Result<Vec<_>, String>>()?;
        Ok(Self { text: text.into(), levels })
    }

    /// As in hwloc, an index counts the objects that are wholly within an object of the level before.
    fn resolve(&self, topology: &Topology) -> Result<CpuSet, String> {
        let mut within: Option<Vec<CpuSet>> = None;
        for (depth, (level, range)) in self.levels.iter().enumerate() {
            let all = objects(topology, *level);
            let groups: Vec<Vec<CpuSet>> = match within {
                None => vec![all],
                Some(outer) => outer
                    .iter()
                    .map(|outer| all.iter().filter(|cpus| !cpus.is_empty() && cpus.is_subset(outer)).cloned().collect())
                    .collect(),
            };
            let chosen = groups.iter().map(|objects| range.choose(objects).ok_or(objects.len()));
            let chosen = chosen.collect::<Result<Vec<_>, usize>>().map_err(|count| self.missing(depth, count))?;
            within = Some(chosen.concat());
        }
        Ok(within.unwrap_or_default().iter().fold(CpuSet::new(), |all, cpus| all.union(cpus)))
    }

    fn missing(&self, depth: usize, count: usize) -> String {
        let noun = self.levels[depth].0.noun();
        let owner = match depth {
            0 => "this machine".into(),
            _ => format!("the {}", self.levels[depth - 1].0.noun()),
        };
        match count {
            0 => format!("'{}': {owner} has no {noun}", self.text),
            1 => format!("'{}': {owner} has only {noun} 0", self.text),
            _ => format!("'{}': {owner} has only {noun} 0-{}", self.text, count - 1),
        }
    }
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.chars().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?;
        match text {
            "all" => Some(Self::From(0)),
            "even" => Some(Self::Even),
            "odd" => Some(Self::Odd),
            _ => match (text.split_once('-'), text.split_once(':')) {
                (Some((first, "")), _) => Some(Self::From(number(first)?)),
                (Some((first, last)), _) => {
                    let (first, last) = (number(first)?, number(last)?);
                    (first <= last).then_some(Self::Span(first, last))
                }
                (None, Some((first, count))) => {
                    let (first, count): (usize, usize) = (number(first)?, number(count)?);
                    (count > 0).then(|| first.checked_add(count - 1))?.map(|last| Self::Span(first, last))
                }
                (None, None) => number(text).map(|index| Self::Span(index, index)),
            },
        }
    }

    /// Returns the members of this range; `None` if one of them does not exist.
    fn choose(self, objects: &[CpuSet]) -> Option<Vec<CpuSet>> {
        let chosen: Vec<CpuSet> = match self {
            Self::Span(first, last) => objects.get(first..=last)?.to_vec(),
            Self::From(first) => objects.get(first..)?.to_vec(),
            Self::Even => objects.iter().step_by(2).cloned().collect(),
            Self::Odd => objects.iter().skip(1).step_by(2).cloned().collect(),
        };
        (!chosen.is_empty()).then_some(chosen)
    }
}

impl Domain {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, positions) = text.split_once(':').ok_or_else(|| not_a_location(text))?;
        let level = domain_level(name).ok_or_else(|| not_a_location(text))?;
        let index = if name == "N" { Some(0) } else { name[1..].parse().ok() };
        let index = index.ok_or_else(|| not_a_location(text))?;
        let positions = CpuSet::parse_list(positions)
            .ok()
            .filter(|positions| !positions.is_empty())
            .ok_or_else(|| format!("'{positions}' in '{text}' is not a list of positions such as 0-3"))?;
        Ok(Self { text: text.into(), level, index, positions })
    }

    fn resolve(&self, topology: &Topology) -> Result<CpuSet, String> {
        let domains = objects(topology, self.level);
        let domain = domains.get(self.index).ok_or_else(|| match domains.len() {
            0 => format!("'{}': this machine has no such domain", self.text),
            count => format!("'{}': the last such domain of this machine is {}", self.text, count - 1),
        })?;
        let cpus = cores_first(topology, domain);
        let cpu = |position: CpuId| {
            cpus.get(position.0 as usize).copied().ok_or_else(|| {
                format!("'{}': position {position} does not exist; the domain has {} CPUs", self.text, cpus.len())
            })
        };
        self.positions.iter().map(cpu).collect()
    }
}

impl Level {
    fn noun(self) -> String {
        match self {
            Self::Kind(ObjectKind::Machine) => "machine".into(),
            Self::Kind(ObjectKind::Group) => "group".into(),
            Self::Kind(ObjectKind::Package) => "package".into(),
            Self::Kind(ObjectKind::Die) => "die".into(),
            Self::Kind(ObjectKind::Core) => "core".into(),
            Self::Kind(ObjectKind::Pu) => "pu".into(),
            Self::Kind(ObjectKind::Cache) | Self::LastCache => "cache".into(),
            Self::Cache(level) => format!("l{level}"),
            Self::MemoryNode => "numanode".into(),
        }
    }
}

/// hwloc's names of the levels, in any case.
fn level(name: &str) -> Option<Level> {
    let name = name.to_ascii_lowercase();
    Some(match name.as_str() {
        "machine" => Level::Kind(ObjectKind::Machine),
        "group" => Level::Kind(ObjectKind::Group),
        "package" | "socket" => Level::Kind(ObjectKind::Package),
        "die" => Level::Kind(ObjectKind::Die),
        "core" => Level::Kind(ObjectKind::Core),
        "pu" => Level::Kind(ObjectKind::Pu),
        "numanode" | "numa" | "node" => Level::MemoryNode,
        _ => {
            let level = name.strip_prefix('l')?;
            let level = level.strip_suffix("cache").unwrap_or(level);
            Level::Cache(level.strip_suffix('d').unwrap_or(level).parse().ok().filter(|level| (1..=5).contains(level))?)
        }
    })
}

/// likwid's letters: the node (the whole machine), sockets, dies, last-level caches and memory domains.
fn domain_level(name: &str) -> Option<Level> {
    let (letter, digits) = name.split_at_checked(1)?;
    let has_index = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    match (letter, has_index) {
        ("N", _) if digits.is_empty() => Some(Level::Kind(ObjectKind::Machine)),
        ("S", true) => Some(Level::Kind(ObjectKind::Package)),
        ("D", true) => Some(Level::Kind(ObjectKind::Die)),
        ("C", true) => Some(Level::LastCache),
        ("M", true) => Some(Level::MemoryNode),
        _ => None,
    }
}

fn is_domain(word: &str) -> bool {
    word.split_once(':').is_some_and(|(name, _)| domain_level(name).is_some())
}

/// Returns the CPUs of the objects of a level, in logical order.
fn objects(topology: &Topology, level: Level) -> Vec<CpuSet> {
    let cpus = |object: &crate::values::topology::Object| object.cpus.clone();
    match level {
        Level::Kind(kind) => topology.of_kind(kind).map(cpus).collect(),
        Level::Cache(level) => topology.caches(level).map(cpus).collect(),
        Level::LastCache => topology.caches(topology.last_cache_level().unwrap_or(0)).map(cpus).collect(),
        Level::MemoryNode => topology.nodes.iter().map(|node| node.cpus.clone()).collect(),
    }
}

/// Returns the CPUs of a domain in the order of likwid: the first CPU of each core, then the second of each.
fn cores_first(topology: &Topology, domain: &CpuSet) -> Vec<CpuId> {
    let order = topology.cpus_in_logical_order();
    let cores: Vec<Vec<CpuId>> = topology
        .cores()
        .iter()
        .map(|core| order.iter().copied().filter(|cpu| core.contains(*cpu) && domain.contains(*cpu)).collect())
        .collect();
    let threads_max = cores.iter().map(Vec::len).max().unwrap_or(0);
    (0..threads_max).flat_map(|thread| cores.iter().filter_map(move |core| core.get(thread).copied())).collect()
}

fn not_a_location(text: &str) -> String {
    format!("'{text}' is not a list of CPUs; valid forms: {FORMS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of 10 cores. CPU 20 is the second thread of core 0.
    fn xeon() -> Topology {
        serde_json::from_str(include_str!("../../../tests/captures/xeon-e5-2640-x2.json")).unwrap()
    }

    fn located(topology: &Topology, text: &str) -> String {
        let cpus = CpuLocation::parse(text).and_then(|location| location.resolve(topology));
        cpus.map_or_else(|error| format!("error: {error}"), |cpus| cpus.to_string())
    }

    #[test]
    fn every_notation_selects_the_same_cpus() {
        let topology = xeon();
        for cpus in topology.of_kind(ObjectKind::Package).map(|package| &package.cpus) {
            let index = usize::from(!cpus.contains(CpuId(0)));
            let last = cpus.len() - 1;
            for text in [
                cpus.to_string(),
                format!("0x{}", cpus.to_mask()),
                format!("package:{index}"),
                format!("Socket:{index}.core:all"),
                format!("numanode:{index}"),
                format!("l3:{index}.pu:0-{last}"),
                format!("core:{}:{}", index * cpus.len() / 2, cpus.len() / 2),
                format!("S{index}:0-{last}"),
                format!("M{index}:0-{last}"),
                format!("C{index}:0-{last}"),
            ] {
                assert_eq!(located(&topology, &text), cpus.to_string(), "{text}");
            }
        }
    }

    #[test]
    fn domains_count_the_first_threads_of_all_cores_first() {
        let topology = xeon();
        let package = topology.of_kind(ObjectKind::Package).next().unwrap().cpus.clone();
        let cores: Vec<CpuSet> = topology.cores().into_iter().filter(|core| core.is_subset(&package)).collect();
        let first: CpuSet = cores.iter().filter_map(CpuSet::first).collect();
        assert_eq!(located(&topology, &format!("S0:0-{}", cores.len() - 1)), first.to_string());
        assert_eq!(located(&topology, "S0:0@S1:0"), located(&topology, "core:0.pu:0,package:1.core:0.pu:0"));
    }

    #[test]
    fn invalid_locations_return_errors() {
        let topology = xeon();
        for (text, expected) in [
            ("package:2", "'package:2': this machine has only package 0-1"),
            ("core:0.die:0", "'core:0.die:0': the core has no die"),
            ("package:0.core:99", "'package:0.core:99': the package has only core 0-"),
            ("packagex:0", "'packagex' in 'packagex:0' is not a kind of object; valid kinds: package"),
            ("core:x", "'x' in 'core:x' is not an index; valid indices: 1, 0-3"),
            ("core:3-1", "'3-1' in 'core:3-1' is not an index"),
            ("core:0:0", "'0:0' in 'core:0:0' is not an index"),
            ("core:0,3", "'3' is not a list of CPUs; valid forms: 0-3,8; a mask"),
            ("S2:0", "'S2:0': the last such domain of this machine is 1"),
            ("S0:99", "'S0:99': position 99 does not exist; the domain has "),
            ("S0:x", "'x' in 'S0:x' is not a list of positions"),
            ("0xay", "'y' in the mask '0xay' is not hexadecimal"),
            ("1-x", "'1-x' in '1-x' is not a CPU or a range; valid forms: 0-3,8; a mask"),
            ("core", "'core' is not a list of CPUs"),
        ] {
            let error = located(&topology, text);
            assert!(error.starts_with(&format!("error: {expected}")), "{text}: {error}");
        }
    }

    #[test]
    fn policies_are_not_locations() {
        for name in ["node:1", "kernel", "irq:0", "files:node:1", "expand:2GiB", "-C", "smt-one-l3", "Spread"] {
            assert!(!CpuLocation::is_location(name), "{name}");
        }
        for word in ["0-3", "0x3", "S0:0", "node:1.core:0", "core:0", "N:0-1"] {
            assert!(CpuLocation::is_location(word), "{word}");
        }
    }
}
