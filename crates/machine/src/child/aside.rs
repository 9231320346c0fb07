//! Moves threads of this program off the CPUs of a trial while it runs, if there are other CPUs.

use model::values::id_set::CpuSet;

use crate::affinity;

/// Keeps this thread off a trial's CPUs until dropped.
pub(super) struct Aside {
    home: Option<CpuSet>,
}

impl Aside {
    /// Moves this thread off the first of these sets that leaves any of the original CPUs. Threads that it starts
    /// inherit the affinity.
    pub(super) fn from(original: &CpuSet, sets: &[&CpuSet]) -> Self {
        let spare = sets.iter().map(|cpus| original.difference(cpus)).find(|spare| !spare.is_empty());
        // A caller that avoids a larger set has moved this thread already.
        let home = affinity::mask_of(0).ok().zip(spare).filter(|(home, spare)| !home.is_subset(spare));
        // If refused, the thread stays, and its CPU time counts as foreign load.
        let home = home.filter(|(_, spare)| affinity::pin_to_any(spare).is_ok());
        Self { home: home.map(|(home, _)| home) }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // The mask was valid before; if its CPUs went offline in the meantime, the kernel chooses others.
            let _ = affinity::pin_to_any(home);
        }
    }
}
