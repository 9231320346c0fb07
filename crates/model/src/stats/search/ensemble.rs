//! The prior of a search: several hundred simulated programs on this machine. Their log times are vectors over the
//! candidates. Similar programs form components, each with a mean and a covariance. Must not depend on measurements.

use super::features::{CandidateFeatures, Features, LEVELS, PagePolicy};
use super::linear::{LowRank, dot};
use super::programs::{log_times, weighted};
use super::random::Random;
use super::rules::Rules;
use crate::values::plan::{EarlierProgram, ProgramKind, SearchPlan};

/// Number of simulated programs. Half of them are generic, if there are other kinds.
const PROGRAMS: usize = 600;
/// Differences of log times above this are compressed: much slower candidates need no precise model.
const KNEE: f64 = 0.3;
/// Number of groups of similar programs, and the minimum size of a group.
const GROUPS: usize = 6;
const GROUP_MIN: usize = 15;
const GROUPING_ROUNDS: usize = 12;
/// Prior probabilities, relative to that of all groups together: the component of all programs, and each earlier program.
const SHARE_OF_ALL: f64 = 0.3;
const SHARE_OF_EARLIER: f64 = 0.1;
/// Ranks of the covariances.
const PROGRAM_RANK: usize = 40;
const NEIGHBOUR_RANK: usize = 48;
/// Length scale of the similarity of candidates, relative to the root of the number of properties.
const NEIGHBOUR_RANGE: f64 = 0.5;
/// Noise that breaks ties between the best candidates of a simulated program.
const TIE_NOISE: f64 = 0.005;

/// Assumptions about the candidates' log times, relative to the baseline, before any trial.
#[derive(Clone, Debug)]
pub struct Prior {
    pub(super) seed: u64,
    pub(super) rules: Rules,
    pub(super) candidates: usize,
    /// Groups of programs, all programs together, and earlier programs. Empty without assumptions.
    pub(super) components: Vec<Component>,
    /// Index of the component of all programs.
    pub(super) all: usize,
    /// Similarity of candidates.
    pub(super) near: LowRank,
    /// Best candidate of each simulated program.
    pub(super) favourites: Vec<usize>,
    /// Number of threads by candidate, if it is searched.
    pub(super) threads: Option<Vec<usize>>,
}

/// A group of programs.
#[derive(Clone, Debug)]
pub(super) struct Component {
    /// Logarithm of its prior probability, up to a constant.
    pub log_share: f64,
    pub mean: Vec<f64>,
    pub covariance: LowRank,
}

impl Prior {
    pub fn new(plan: &SearchPlan, features: &Features) -> Self {
        let candidates = features.len();
        let mut random = Random::new(plan.seed, "groups");
        let programs = simulate(plan, features);
        let mut components = groups(&programs, &mut random);
        let all = components.len();
        if !programs.is_empty() {
            components.push(Component::new(&programs.iter().collect::<Vec<_>>(), SHARE_OF_ALL));
            let earlier: Vec<Component> =
                plan.earlier.iter().map(|earlier| components[all].like(earlier, candidates)).collect();
            components.extend(earlier);
        }
        let threads = || features.tables[0].candidates.iter().map(|one| one.threads as usize).collect();
        Self {
            seed: plan.seed,
            rules: Rules::of_version(plan.version),
            candidates,
            all,
            near: neighbours(&features.tables[features.tables.len() / 2].candidates, &features.machine.distances),
            favourites: programs.iter().map(|program| favourite(program, &mut random)).collect(),
            threads: features.threads_searched.then(threads),
            components,
        }
    }
}

/// Compresses differences above the knee, so that candidates that are many times slower do not dominate the covariance.
pub(super) fn squash(difference: f64) -> f64 {
    if difference <= KNEE { difference } else { KNEE + KNEE * (1.0 - (-(difference - KNEE) / KNEE).exp()) }
}

/// Returns compressed log times relative to the baseline, which is the first.
pub(super) fn squashed(times: &[f64]) -> Vec<f64> {
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let baseline = squash(times[0] - best);
    times.iter().map(|time| squash(time - best) - baseline).collect()
}

/// Returns the number of programs of each kind: half of all are generic, if there are other kinds.
pub(super) fn program_counts(kinds: &[ProgramKind], all: usize) -> Vec<(ProgramKind, usize)> {
    let others = kinds.iter().filter(|kind| **kind != ProgramKind::Generic).count();
    let generic = if others == 0 {
        all
    } else if others == kinds.len() {
        0
    } else {
        all / 2
    };
    let count = |kind: ProgramKind| if kind == ProgramKind::Generic { generic } else { (all - generic) / others };
    kinds.iter().map(|kind| (*kind, count(*kind))).collect()
}

fn simulate(plan: &SearchPlan, features: &Features) -> Vec<Vec<f64>> {
    let of_kind = |(kind, count): (ProgramKind, usize)| {
        let mut random = Random::new(plan.seed, &format!("programs {}", kind.key_text()));
        let programs = (0..count).map(|_| squashed(&disturbed(kind, features, &mut random)));
        programs.collect::<Vec<_>>()
    };
    program_counts(&plan.programs, PROGRAMS).into_iter().flat_map(of_kind).collect()
}

/// Returns the log times of a random program with the costs of migrations, which only the generic kind includes.
pub(super) fn disturbed(kind: ProgramKind, features: &Features, random: &mut Random) -> Vec<f64> {
    let weights: Vec<f64> = features.tables.iter().map(|table| table.weight).collect();
    let table = &features.tables[random.index(&weights)];
    let mut times = log_times(kind, features, table, random);
    if kind != ProgramKind::Generic {
        let (unbound, loose) = (random.uniform(0.0, 0.08), random.uniform(0.0, 0.03));
        for (time, one) in times.iter_mut().zip(&table.candidates) {
            *time += if one.unbound { unbound } else { 0.0 } + if one.loose > 0.0 { loose } else { 0.0 };
        }
        times[0] += 0.02 * random.normal().abs();
    }
    times
}

/// Returns the fastest candidate of a simulated program; ties are broken at random.
fn favourite(program: &[f64], random: &mut Random) -> usize {
    let noisy: Vec<f64> = program.iter().map(|time| time + TIE_NOISE * random.normal()).collect();
    (0..noisy.len()).min_by(|one, other| noisy[*one].total_cmp(&noisy[*other])).unwrap_or(0)
}

/// Groups similar programs (k-means) and returns a component for each group that is large enough.
fn groups(programs: &[Vec<f64>], random: &mut Random) -> Vec<Component> {
    if programs.len() < GROUPS * GROUP_MIN {
        return Vec::new();
    }
    let mut centers: Vec<Vec<f64>> = Vec::new();
    while centers.len() < GROUPS {
        centers.push(programs[random.below(programs.len())].clone());
    }
    let mut group_of = vec![0; programs.len()];
    for _ in 0..GROUPING_ROUNDS {
        let norms: Vec<f64> = centers.iter().map(|center| dot(center, center)).collect();
        for (group, program) in group_of.iter_mut().zip(programs) {
            let distance = |center: &usize| norms[*center] - 2.0 * dot(program, &centers[*center]);
            *group = (0..GROUPS).min_by(|one, other| distance(one).total_cmp(&distance(other))).unwrap_or(0);
        }
        for (group, center) in centers.iter_mut().enumerate() {
            let members = members(programs, &group_of, group);
            *center = if members.is_empty() { programs[random.below(programs.len())].clone() } else { mean(&members) };
        }
    }
    let component = |group: usize| {
        let members = members(programs, &group_of, group);
        let share = members.len() as f64 / programs.len() as f64;
        (members.len() >= GROUP_MIN).then(|| Component::new(&members, share))
    };
    (0..GROUPS).filter_map(component).collect()
}

fn members<'a>(programs: &'a [Vec<f64>], group_of: &[usize], group: usize) -> Vec<&'a Vec<f64>> {
    programs.iter().zip(group_of).filter(|(_, of)| **of == group).map(|(program, _)| program).collect()
}

fn mean(programs: &[&Vec<f64>]) -> Vec<f64> {
    let mut mean = vec![0.0; programs[0].len()];
    for program in programs {
        mean.iter_mut().zip(*program).for_each(|(sum, value)| *sum += value / programs.len() as f64);
    }
    mean
}

impl Component {
    fn new(programs: &[&Vec<f64>], share: f64) -> Self {
        let mean = mean(programs);
        let scale = 1.0 / (programs.len() as f64 - 1.0).max(1.0).sqrt();
        let centered: Vec<Vec<f64>> = programs
            .iter()
            .map(|program| program.iter().zip(&mean).map(|(value, mean)| (value - mean) * scale).collect())
            .collect();
        let sum_over = |of: &dyn Fn(&[f64], &mut [f64])| {
            let mut sums = vec![0.0; mean.len()];
            centered.iter().for_each(|program| of(program, &mut sums));
            sums
        };
        let diagonal =
            sum_over(&|program, sums| sums.iter_mut().zip(program).for_each(|(sum, value)| *sum += value * value));
        let column = |pivot: usize| {
            sum_over(&|program, sums| {
                let factor = program[pivot];
                sums.iter_mut().zip(program).for_each(|(sum, value)| *sum += factor * value);
            })
        };
        let covariance = LowRank::new(diagonal, PROGRAM_RANK, column);
        Self { log_share: share.ln(), mean, covariance }
    }

    /// Returns a component around an earlier program, which deviates from it like all programs from their mean.
    fn like(&self, earlier: &EarlierProgram, candidates: usize) -> Self {
        let known = |candidate: usize| earlier.log_times.get(candidate).copied().flatten();
        let baseline = known(0).unwrap_or(0.0);
        let times: Vec<f64> = (0..candidates)
            .map(|candidate| known(candidate).map_or(self.mean[candidate], |time| time - baseline))
            .collect();
        Self { log_share: SHARE_OF_EARLIER.ln(), mean: squashed(&times), covariance: self.covariance.clone() }
    }
}

/// Returns the covariance of candidates by the similarity of their properties. The baseline is the reference, so it has
/// none.
fn neighbours(candidates: &[CandidateFeatures], distances: &[f64]) -> LowRank {
    let described: Vec<Vec<f64>> = candidates.iter().map(|one| properties(one, distances)).collect();
    let points = standardised(&described);
    let range = NEIGHBOUR_RANGE * (points[0].len().max(1) as f64).sqrt();
    let column = |pivot: usize| {
        let similarity = |other: usize| {
            let squares: f64 = points[pivot].iter().zip(&points[other]).map(|(a, b)| (a - b).powi(2)).sum();
            (-squares / (2.0 * range * range)).exp()
        };
        (0..points.len()).map(|other| if other == 0 { 0.0 } else { similarity(other) }).collect()
    };
    let diagonal = (0..points.len()).map(|index| if index == 0 { 0.0 } else { 1.0 }).collect();
    LowRank::new(diagonal, NEIGHBOUR_RANK, column)
}

/// The properties by which candidates are similar.
pub(super) fn properties(one: &CandidateFeatures, distances: &[f64]) -> Vec<f64> {
    let is = |policy: PagePolicy| f64::from(u8::from(one.memory.policy == policy));
    vec![
        one.used.ln(),
        one.core_count().max(1.0).ln(),
        one.used / one.core_count().max(1.0),
        one.cache_count().max(1.0).ln(),
        one.nodes.max(1.0).ln(),
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
        weighted(if one.memory.nodes > 0.0 { &one.memory.bound } else { &one.memory.spread }, distances),
        one.second[0],
        one.second[LEVELS - 1],
    ]
}

/// Scales properties to variance 1 and drops those that do not vary.
fn standardised(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = rows.len() as f64;
    let moments = |column: usize| {
        let mean = rows.iter().map(|row| row[column]).sum::<f64>() / count;
        let variance = rows.iter().map(|row| (row[column] - mean).powi(2)).sum::<f64>() / count;
        (column, mean, variance.sqrt())
    };
    let varying: Vec<(usize, f64, f64)> =
        (0..rows[0].len()).map(moments).filter(|(_, _, deviation)| *deviation > 1e-9).collect();
    let scale = |row: &Vec<f64>| varying.iter().map(|(column, mean, sd)| (row[*column] - mean) / sd).collect();
    rows.iter().map(scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_times_are_compressed_in_order() {
        let values = [0.0, 0.1, 0.3, 0.31, 1.0, 4.0];
        let squashed: Vec<f64> = values.into_iter().map(squash).collect();
        assert!(squashed.windows(2).all(|pair| pair[0] < pair[1]), "{squashed:?}");
        assert!((squashed[2] - 0.3).abs() < 1e-12 && squashed[5] < 0.6, "{squashed:?}");
    }

    #[test]
    fn compressed_times_are_relative_to_the_baseline() {
        let times = squashed(&[2.0, 1.9, 6.0]);
        assert!(times[0].abs() < 1e-12 && (times[1] + 0.1).abs() < 1e-12, "{times:?}");
        assert!(times[2] > 0.3 && times[2] < 0.6, "{times:?}");
    }

    #[test]
    fn groups_separate_two_kinds_of_programs() {
        let mut random = Random::new(3, "test");
        let program = |sign: f64, random: &mut Random| (0..8).map(|_| sign + 0.01 * random.normal()).collect();
        let programs: Vec<Vec<f64>> =
            (0..200).map(|index| program(if index % 2 == 0 { 1.0 } else { -1.0 }, &mut random)).collect();
        let groups = groups(&programs, &mut random);
        assert!(groups.len() >= 2);
        assert!(groups.iter().all(|group| group.mean.iter().all(|mean| mean.abs() > 0.9)), "no group mixes both");
    }

    #[test]
    fn properties_that_do_not_vary_are_dropped() {
        let rows = standardised(&[vec![1.0, 5.0], vec![3.0, 5.0]]);
        assert_eq!(rows, [vec![-1.0], vec![1.0]]);
    }
}
