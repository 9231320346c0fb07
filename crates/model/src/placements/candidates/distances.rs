//! Which parts of equal shape can be exchanged without changing a distance between memory nodes. If the tree does not
//! explain the distances, parts are grouped by distance; if that does not suffice either, the symmetries are listed. A
//! wrong symmetry would lose a placement, so in doubt there is none.

use std::collections::{BTreeMap, BTreeSet};

use super::interner::Interner;
use super::quantise::speed_levels;
use super::tree::{DistanceUnit, Nodes, Symmetry, Tree, TreeLevel, TreeNodeDraft, memory_in_order};
use crate::values::id_set::NodeId;
use crate::values::topology::{Distances, Topology};

/// Maximum number of listed symmetries; with more, nothing is merged, because each costs time per canonical form.
const ORDERS_MAX: usize = 4096;
/// Maximum number of steps of the search for symmetries.
const STEPS_MAX: usize = 400_000;

/// Returns a number for everything known about each ordered pair of nodes. Equal numbers mean equal properties.
pub(super) fn relation(topology: &Topology, nodes: &[NodeId], interner: &mut Interner) -> Vec<Vec<u32>> {
    let mut keys = vec![vec![Vec::new(); nodes.len()]; nodes.len()];
    for matrix in &topology.distances {
        let position = |node: &NodeId| matrix.nodes.iter().position(|other| other == node);
        let positions: Vec<Option<usize>> = nodes.iter().map(position).collect();
        let value = |row: usize, column: usize| matrix.values.get(row * matrix.nodes.len() + column).copied();
        for (from, row) in keys.iter_mut().enumerate() {
            for (to, key) in row.iter_mut().enumerate() {
                let value = positions[from].zip(positions[to]).and_then(|(row, column)| value(row, column));
                let value = value.unwrap_or(u64::MAX);
                key.extend([(value >> 32) as u32, value as u32]);
            }
        }
    }
    let levels = speed_levels(topology);
    for stated in &topology.memory_attributes {
        let Some(to) = nodes.iter().position(|node| *node == stated.node) else { continue };
        let Some((attribute, level)) = levels.get(&(stated.attr.as_str(), stated.value)) else { continue };
        for (from, row) in keys.iter_mut().enumerate() {
            let near = topology.node(nodes[from]).is_some_and(|node| {
                stated.initiator.as_ref().is_some_and(|initiator| initiator.intersects(&node.cpus))
            });
            if near {
                row[to].extend([*attribute, *level]);
            }
        }
    }
    keys.iter().map(|row| row.iter().map(|key| interner.intern(key)).collect()).collect()
}

/// Splits classes of nodes whose distances to the classes of all other nodes differ, until nothing changes: exchanging
/// such nodes cannot keep the distances.
pub(super) fn refine(classes: &mut Vec<u32>, relation: &[Vec<u32>], interner: &mut Interner) {
    let different = |classes: &[u32]| classes.iter().collect::<BTreeSet<_>>().len();
    // Each round except the last increases the number of classes.
    for _ in 0..classes.len() {
        let finer: Vec<u32> = (0..classes.len())
            .map(|node| {
                let seen_from = |other: usize| [relation[node][other], relation[other][node], classes[other]];
                let mut others: Vec<[u32; 3]> =
                    (0..classes.len()).filter(|other| *other != node).map(seen_from).collect();
                others.sort_unstable();
                let key: Vec<u32> =
                    [classes[node], relation[node][node]].into_iter().chain(others.into_iter().flatten()).collect();
                interner.intern(&key)
            })
            .collect();
        if different(&finer) == different(classes) {
            return;
        }
        *classes = finer;
    }
}

/// Groups parts that are nearer to each other than to the rest, level by level. Returns whether there are such groups.
pub(super) fn group_by_distance(part: &mut TreeNodeDraft, nodes: &Nodes, topology: &Topology) -> bool {
    let Some(distances) = topology.node_distances() else { return false };
    let mut grouped = false;
    for child in &mut part.children {
        grouped |= group_by_distance(child, nodes, topology);
    }
    // Each round reduces the number of children.
    while let Some(groups) = nearest_groups(part, nodes, distances) {
        let mut children: Vec<Option<TreeNodeDraft>> =
            std::mem::take(&mut part.children).into_iter().map(Some).collect();
        for group in groups {
            let mut members: Vec<TreeNodeDraft> =
                group.into_iter().filter_map(|child| children[child].take()).collect();
            part.children.push(if members.len() == 1 { members.remove(0) } else { group_of(members) });
        }
        grouped = true;
    }
    grouped
}

fn group_of(children: Vec<TreeNodeDraft>) -> TreeNodeDraft {
    TreeNodeDraft {
        level: TreeLevel::Region,
        labels: Vec::new(),
        children,
        memory: Vec::new(),
        cpu: None,
        kind: 0,
        shape: 0,
    }
}

/// Divides the children into groups of nearest neighbours; `None` if this results in a single group or only in singles.
fn nearest_groups(part: &TreeNodeDraft, nodes: &Nodes, distances: &Distances) -> Option<Vec<Vec<usize>>> {
    let memory: Vec<Vec<NodeId>> = part
        .children
        .iter()
        .map(|child| memory_in_order(child, &nodes.classes).iter().map(|node| nodes.ids[*node]).collect())
        .collect();
    if memory.len() < 3 || memory.iter().any(Vec::is_empty) {
        return None;
    }
    let between = |one: usize, other: usize| -> Option<u64> {
        let pairs = memory[one].iter().flat_map(|from| memory[other].iter().map(move |to| (*from, *to)));
        pairs.filter_map(|(from, to)| Some(distances.between(from, to)?.max(distances.between(to, from)?))).min()
    };
    let count = memory.len();
    let gap: Vec<Vec<u64>> = (0..count)
        .map(|one| (0..count).map(|other| between(one, other)).collect::<Option<Vec<u64>>>())
        .collect::<Option<_>>()?;
    let pairs = (0..count).flat_map(|one| (0..one).map(move |other| (one, other)));
    let nearest = pairs.map(|(one, other)| gap[one][other]).min()?;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (child, gaps) in gap.iter().enumerate() {
        let near = |group: &&mut Vec<usize>| group.iter().all(|member| gaps[*member] == nearest);
        match groups.iter_mut().find(near) {
            Some(group) => group.push(child),
            None => groups.push(vec![child]),
        }
    }
    let separated = |one: &Vec<usize>, other: &Vec<usize>| {
        one == other || one.iter().all(|a| other.iter().all(|b| gap[*a][*b] != nearest))
    };
    let divides = groups.iter().all(|one| groups.iter().all(|other| separated(one, other)));
    (divides && groups.len() > 1 && groups.len() < count).then_some(groups)
}

/// Determines which parts can be exchanged by testing each pair of neighbours: these swaps generate all symmetries.
pub(super) fn symmetry(tree: &mut Tree, relation: &[Vec<u32>]) -> Symmetry {
    let mut kept = vec![true; tree.parts.len()];
    for part in (0..tree.parts.len()).rev() {
        let below = tree.parts[part].children.iter().all(|child| kept[*child]);
        kept[part] = below && swaps_keep(tree, part, relation);
    }
    if kept[0] {
        return Symmetry::All;
    }
    let mut units = Vec::new();
    let mut split = vec![false; tree.parts.len()];
    collect_units(tree, 0, &kept, &mut units, &mut split);
    let orders = orders(tree, &units, relation);
    let too_many = orders.is_none();
    let orders = orders.unwrap_or_else(|| vec![(0..units.len()).collect()]);
    Symmetry::Listed { units, orders, split, too_many }
}

/// Whether exchanging neighbours directly below a part keeps all distances.
fn swaps_keep(tree: &Tree, part: usize, relation: &[Vec<u32>]) -> bool {
    let part = &tree.parts[part];
    let children = part.children.windows(2).filter(|pair| tree.parts[pair[0]].shape == tree.parts[pair[1]].shape);
    let nodes = part.memory.windows(2).filter(|pair| tree.memory[pair[0]].class == tree.memory[pair[1]].class);
    let mut swaps = children
        .map(|pair| (tree.memory_below(pair[0]), tree.memory_below(pair[1])))
        .chain(nodes.map(|pair| (vec![pair[0]], vec![pair[1]])));
    swaps.all(|(one, other)| {
        let mut moved: Vec<usize> = (0..relation.len()).collect();
        for (a, b) in one.iter().zip(&other) {
            (moved[*a], moved[*b]) = (*b, *a);
        }
        one.iter().chain(&other).all(|from| {
            (0..relation.len()).all(|to| {
                relation[moved[*from]][moved[to]] == relation[*from][to]
                    && relation[moved[to]][moved[*from]] == relation[to][*from]
            })
        })
    })
}

fn collect_units(tree: &Tree, part: usize, kept: &[bool], units: &mut Vec<DistanceUnit>, split: &mut [bool]) {
    if kept[part] {
        units.push(DistanceUnit::Part(part));
        return;
    }
    split[part] = true;
    let here = &tree.parts[part];
    units.extend(here.memory.iter().map(|node| DistanceUnit::Memory(*node)));
    units.extend(here.cpu.map(|_| DistanceUnit::Cpu(part)));
    here.children.iter().for_each(|child| collect_units(tree, *child, kept, units, split));
}

/// Properties that must be equal for two units to be exchanged.
struct UnitKey {
    /// Shapes of all parts around the unit, and its own.
    shapes: Vec<u32>,
    /// Indices of the parts around the unit, beginning with the machine.
    path: Vec<usize>,
    memory: Vec<usize>,
}

fn unit_key(tree: &Tree, unit: DistanceUnit) -> UnitKey {
    let (own, around, memory) = match unit {
        DistanceUnit::Part(part) => (tree.parts[part].shape, tree.parts[part].parent, tree.memory_below(part)),
        DistanceUnit::Memory(node) => (tree.memory[node].class, Some(tree.memory[node].holder), vec![node]),
        DistanceUnit::Cpu(part) => (tree.parts[part].shape, Some(part), Vec::new()),
    };
    let mut path: Vec<usize> = std::iter::successors(around, |part| tree.parts[*part].parent).collect();
    path.reverse();
    let kind = match unit {
        DistanceUnit::Part(_) => 0,
        DistanceUnit::Memory(_) => 1,
        DistanceUnit::Cpu(_) => 2,
    };
    let shapes = path.iter().map(|part| tree.parts[*part].shape).chain([kind, own]).collect();
    UnitKey { shapes, path, memory }
}

/// Returns all permutations of the units that keep shapes, common parents and distances; `None` if there are too many.
fn orders(tree: &mut Tree, units: &[DistanceUnit], relation: &[Vec<u32>]) -> Option<Vec<Vec<usize>>> {
    let keys: Vec<UnitKey> = units.iter().map(|unit| unit_key(tree, *unit)).collect();
    let mut pair = |one: &UnitKey, other: &UnitKey| {
        let shared = one.path.iter().zip(&other.path).take_while(|(a, b)| a == b).count();
        let between = one.memory.iter().flat_map(|from| other.memory.iter().map(|to| relation[*from][*to]));
        let key: Vec<u32> = [shared as u32].into_iter().chain(between).collect();
        tree.interner.intern(&key)
    };
    let pairs: Vec<Vec<u32>> = keys.iter().map(|one| keys.iter().map(|other| pair(one, other)).collect()).collect();
    let signatures: Vec<(&Vec<u32>, Vec<u32>)> = keys
        .iter()
        .zip(&pairs)
        .map(|(key, row)| {
            let mut row = row.clone();
            row.sort_unstable();
            (&key.shapes, row)
        })
        .collect();
    let fits = |order: &[usize], unit: usize| {
        let position = order.len();
        signatures[unit] == signatures[position]
            && pairs[unit][unit] == pairs[position][position]
            && order.iter().enumerate().all(|(earlier, other)| {
                *other != unit
                    && pairs[*other][unit] == pairs[earlier][position]
                    && pairs[unit][*other] == pairs[position][earlier]
            })
    };
    let mut found = Vec::new();
    let mut stack: Vec<Vec<usize>> = vec![Vec::new()];
    let mut steps = 0;
    while let Some(order) = stack.pop() {
        steps += 1;
        if steps > STEPS_MAX || found.len() > ORDERS_MAX {
            return None;
        }
        if order.len() == units.len() {
            found.push(order);
            continue;
        }
        // Pushed in reverse, so that the identity is found first.
        for unit in (0..units.len()).rev().filter(|unit| fits(&order, *unit)) {
            let mut longer = order.clone();
            longer.push(unit);
            stack.push(longer);
        }
    }
    (found.len() <= ORDERS_MAX).then_some(found)
}

/// Counts permutations by their cycles, as (class of units, length). `classes` is the class of each unit.
pub(super) fn cycles(orders: &[Vec<usize>], classes: &[u32]) -> BTreeMap<Vec<(u32, usize)>, usize> {
    let mut kinds = BTreeMap::new();
    for order in orders {
        let mut seen = vec![false; order.len()];
        let mut cycles = Vec::new();
        for (start, class) in classes.iter().enumerate() {
            let mut length = 0;
            let mut unit = start;
            while !seen[unit] {
                seen[unit] = true;
                unit = order[unit];
                length += 1;
            }
            if length > 0 {
                cycles.push((*class, length));
            }
        }
        cycles.sort_unstable();
        *kinds.entry(cycles).or_insert(0) += 1;
    }
    kinds
}
