//! The machines that the bench searches, with their candidates and the prior of a search. Must not know true times.

use model::placements::candidates::{SearchSpace, Threads, candidates, features, machine_features};
use model::stats::search::{Features, Hint, Prior};
use model::values::placement::Placement;
use model::values::plan::{SearchPlan, Stages, ThreadChoice};
use model::values::topology::Topology;

use super::truth::Kind;
use crate::Settings;

/// Name, topology file and number of threads. The search was tuned on seeds below 1000 of the first four.
const TESTBEDS: [(&str, &str, Threads); 12] = [
    ("EPYC own", "corpus/v02-epyc7401-2p-nps4.xml", Threads::Unspecified),
    ("EPYC 16", "corpus/v02-epyc7401-2p-nps4.xml", Threads::Fixed(16)),
    ("Xeon E5 searched", "models/xeon-e5-2640-x2.xml", Threads::Searched),
    ("EPYC searched", "corpus/v02-epyc7401-2p-nps4.xml", Threads::Searched),
    ("Ryzen 6", "models/ryzen5-2600.xml", Threads::Fixed(6)),
    ("Xeon E5 own", "models/xeon-e5-2640-x2.xml", Threads::Unspecified),
    ("Grace CXL own", "models/grace-cxl.xml", Threads::Unspecified),
    ("POWER9 own", "corpus/v09-power9-gpu-nodes.xml", Threads::Unspecified),
    ("Kunpeng own", "corpus/v05-kunpeng920-clusters.xml", Threads::Unspecified),
    ("Xeon 6230 own", "corpus/v01-xeon6230-snc2-memcache.xml", Threads::Unspecified),
    ("32 sockets own", "corpus/v13-model-32s-1152pu.xml", Threads::Unspecified),
    ("32 sockets searched", "corpus/v13-model-32s-1152pu.xml", Threads::Searched),
];
/// The testbed of the smoke size.
const SMALL: &str = "Ryzen 6";

pub struct Testbed {
    pub name: &'static str,
    pub topology: Topology,
    pub placements: Vec<Placement>,
    pub stages: Stages,
    pub plan: SearchPlan,
    /// Features before the warm-up trial.
    pub features: Features,
}

/// Returns the testbeds whose names contain the text of `--only`, and the number of those whose file is missing.
pub fn testbeds(settings: &Settings) -> (Vec<Testbed>, usize) {
    let is_chosen = |name: &str| name.contains(&settings.only) && (!settings.smoke || name == SMALL);
    let (mut testbeds, mut skipped) = (Vec::new(), 0);
    for (name, file, threads) in TESTBEDS.into_iter().filter(|(name, ..)| is_chosen(name)) {
        match settings.topology(name, file) {
            Some(topology) => testbeds.push(Testbed::new(name, topology, threads)),
            None => skipped += 1,
        }
    }
    (testbeds, skipped)
}

impl Testbed {
    fn new(name: &'static str, topology: Topology, threads: Threads) -> Self {
        let all =
            candidates(&topology, &SearchSpace { threads, ..SearchSpace::default() }).expect("the space is valid");
        let choice = match threads {
            Threads::Fixed(_) => ThreadChoice::Fixed,
            Threads::Searched => ThreadChoice::Searched,
            Threads::Unspecified => ThreadChoice::Command,
        };
        let plan = SearchPlan::new(choice, machine_features(&topology));
        let features = features(&plan, &all.placements, None);
        Self { name, topology, placements: all.placements, stages: all.stages, plan, features }
    }

    /// Whether the command chooses its number of threads.
    pub fn is_own(&self) -> bool {
        self.plan.threads == ThreadChoice::Command
    }

    /// Returns the prior without the tested kind of programs, after a warm-up trial that showed this number of threads.
    pub fn prior(&self, kind: Kind, threads: usize) -> Prior {
        Prior::new(&self.plan_without(kind), &self.features_of(threads))
    }

    /// Returns the plan without the tested kind of programs.
    pub fn plan_without(&self, kind: Kind) -> SearchPlan {
        let mut plan = self.plan.clone();
        plan.programs.retain(|program| !kind.is_like(*program));
        plan
    }

    /// Returns the features after a warm-up trial that showed this number of threads. Without one, any number is possible.
    pub fn features_of(&self, threads: usize) -> Features {
        let hint = (threads > 0).then_some(Hint { threads, busy: threads as f64 });
        features(&self.plan, &self.placements, hint)
    }
}
