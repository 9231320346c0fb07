//! The true times of one seed of a world: programs of the product's five kinds (with the models of `world`, which the
//! search does not know), programs of other structure, and worlds in which the search's model is wrong. Must not know
//! noise.

use model::stats::search::{CandidateFeatures, LEVELS, PagePolicy, log_times};
use model::values::plan::ProgramKind;

use super::testbed::Testbed;
use crate::noise::Random;
use crate::world::{PROGRAMS, Program, World};

/// Costs of migrations, as in `world`.
const MIGRATIONS: f64 = 0.03;
const MIGRATIONS_SD: f64 = 0.02;
const LOOSE: f64 = 0.01;

/// Kinds of other structure than the five of the product.
const STRUCTURED: [ProgramKind; 5] = [
    ProgramKind::Lock,
    ProgramKind::Pipeline,
    ProgramKind::CacheCapacity,
    ProgramKind::Interrupts,
    ProgramKind::PageMigration,
];

/// A set of kinds with one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Product,
    Structured,
    /// No mechanism.
    Trees,
    /// The model is wrong.
    Wrong,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Product(Program),
    Structured(ProgramKind),
    Trees,
    /// A program whose times belong to other candidates.
    Permuted,
    /// A program that prefers what it should not.
    Adverse,
    /// A program with one candidate that is 5 to 15 % faster than all others.
    Resonance,
    Nothing,
}

impl Group {
    pub fn kinds(self, testbed: &Testbed) -> Vec<Kind> {
        let offers =
            |program: &Program| *program != Program::Few || testbed.features.threads_searched || testbed.is_own();
        match self {
            Self::Product => PROGRAMS.into_iter().filter(offers).map(Kind::Product).collect(),
            Self::Structured => STRUCTURED.into_iter().map(Kind::Structured).collect(),
            Self::Trees => vec![Kind::Trees],
            Self::Wrong => vec![Kind::Permuted, Kind::Adverse, Kind::Resonance],
            Self::Nothing => vec![Kind::Nothing],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Product => "product",
            Self::Structured => "structured",
            Self::Trees => "trees",
            Self::Wrong => "wrong",
            Self::Nothing => "nothing",
        }
    }
}

impl Kind {
    pub fn usual() -> Self {
        Self::Product(Program::Sharing)
    }

    pub fn group(self) -> Group {
        match self {
            Self::Product(_) => Group::Product,
            Self::Structured(_) => Group::Structured,
            Self::Trees => Group::Trees,
            Self::Permuted | Self::Adverse | Self::Resonance => Group::Wrong,
            Self::Nothing => Group::Nothing,
        }
    }

    /// Whether a kind of the prior has the same structure.
    pub fn is_like(self, kind: ProgramKind) -> bool {
        match self {
            Self::Product(Program::Compute) => kind == ProgramKind::Compute,
            Self::Product(Program::Sharing) => kind == ProgramKind::Sharing,
            Self::Product(Program::Bandwidth) => kind == ProgramKind::Bandwidth,
            Self::Product(Program::Remote) => kind == ProgramKind::FirstTouch,
            Self::Product(Program::Few) => kind == ProgramKind::Serial,
            Self::Structured(own) => kind == own,
            _ => false,
        }
    }
}

/// Returns the true times relative to the baseline, and the number of threads that the baseline runs.
pub fn draw(testbed: &Testbed, kind: Kind, unexplained: f64, random: &mut Random) -> (Vec<f64>, usize) {
    let table = random.below(testbed.features.tables.len());
    let threads = testbed.features.tables[table].candidates[0].threads as usize;
    (times(testbed, kind, table, unexplained, random), threads)
}

/// Returns the true times relative to the baseline, with the number of threads of this table.
pub fn times(testbed: &Testbed, kind: Kind, table: usize, unexplained: f64, random: &mut Random) -> Vec<f64> {
    let candidates = &testbed.features.tables[table].candidates;
    let mut times = match kind {
        Kind::Nothing => return vec![0.0; candidates.len()],
        Kind::Product(program) => product(testbed, program, table),
        Kind::Structured(kind) => structured(testbed, kind, table, random),
        Kind::Trees => trees(candidates, random),
        Kind::Permuted | Kind::Adverse | Kind::Resonance => {
            let base = random.below(PROGRAMS.len() + STRUCTURED.len());
            match PROGRAMS.get(base) {
                Some(program) => product(testbed, *program, table),
                None => structured(testbed, STRUCTURED[base - PROGRAMS.len()], table, random),
            }
        }
    };
    times.iter_mut().for_each(|time| *time += unexplained * random.normal());
    times[0] += (MIGRATIONS_SD * random.normal()).abs();
    spoil(kind, &mut times, random);
    let baseline = times[0];
    times.into_iter().map(|time| time - baseline).collect()
}

fn product(testbed: &Testbed, program: Program, table: usize) -> Vec<f64> {
    let counts = testbed.features.tables[table].candidates.iter().map(|one| one.threads as usize);
    World::base(&testbed.topology, &testbed.placements, program, counts, testbed.features.threads_searched)
}

fn structured(testbed: &Testbed, kind: ProgramKind, table: usize, random: &mut Random) -> Vec<f64> {
    let mut source = model::stats::search::Random::new(random.below(1 << 30) as u64, "world");
    let table = &testbed.features.tables[table];
    let times = log_times(kind, &testbed.features, table, &mut source);
    let cost = |one: &CandidateFeatures| {
        (if one.unbound { MIGRATIONS } else { 0.0 }) + if one.loose > 0.0 { LOOSE } else { 0.0 }
    };
    times.iter().zip(&table.candidates).map(|(time, one)| time + cost(one)).collect()
}

/// Makes the search's model wrong.
fn spoil(kind: Kind, times: &mut [f64], random: &mut Random) {
    let lowest = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    match kind {
        Kind::Permuted => random.shuffle(&mut times[1..]),
        Kind::Adverse => {
            let best = lowest(&times[1..]);
            let mut distances: Vec<f64> = times[1..].iter().map(|time| time - best).collect();
            let mut sorted = distances.clone();
            sorted.sort_by(f64::total_cmp);
            let most = sorted[sorted.len() * 9 / 10] + 0.05;
            distances.iter_mut().for_each(|distance| *distance = most - distance.min(most));
            times[1..].iter_mut().zip(&distances).for_each(|(time, distance)| *time = best + distance);
            distances.sort_by(f64::total_cmp);
            times[0] = best + distances[distances.len() * 2 / 5];
        }
        Kind::Resonance => {
            let chosen = 1 + random.below(times.len() - 1);
            times[chosen] = lowest(times) - 0.05 - 0.1 * random.uniform();
        }
        _ => {}
    }
}

/// A sum of random trees over numbers of the placement.
fn trees(candidates: &[CandidateFeatures], random: &mut Random) -> Vec<f64> {
    let numbers: Vec<Vec<f64>> = candidates.iter().map(describe).collect();
    let mut times = vec![0.0; candidates.len()];
    for _ in 0..3 + random.below(4) {
        let all: Vec<usize> = (0..candidates.len()).collect();
        grow(&numbers, &all, 4, &mut times, random);
    }
    times
}

fn grow(numbers: &[Vec<f64>], at: &[usize], depth: usize, times: &mut [f64], random: &mut Random) {
    if depth == 0 || at.len() < 2 {
        let value = 0.06 * random.normal();
        at.iter().for_each(|one| times[*one] += value);
        return;
    }
    let column = random.below(numbers[0].len());
    let value = |one: &usize| numbers[*one][column];
    let low = at.iter().map(value).fold(f64::INFINITY, f64::min);
    let high = at.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
    let cut = low + (high - low) * random.uniform();
    if high <= low {
        return grow(numbers, at, depth - 1, times, random);
    }
    let (below, above): (Vec<usize>, Vec<usize>) = at.iter().partition(|one| value(one) <= cut);
    grow(numbers, &below, depth - 1, times, random);
    grow(numbers, &above, depth - 1, times, random);
}

fn describe(one: &CandidateFeatures) -> Vec<f64> {
    let is = |policy: PagePolicy| f64::from(u8::from(one.memory.policy == policy));
    vec![
        one.used.ln(),
        one.core_count().ln(),
        one.used / one.core_count(),
        one.cache_count(),
        one.nodes,
        one.packages,
        is(PagePolicy::Interleaved),
        is(PagePolicy::Bound),
        one.memory.local,
        one.memory.nodes,
        one.pairs[2],
        one.pairs[LEVELS - 1],
        one.next[LEVELS - 1],
        one.interrupts[0],
        one.interrupts[LEVELS - 1],
        one.loose,
        one.fast_share(),
        one.threads.ln(),
    ]
}
