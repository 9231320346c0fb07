//! Where our own threads are while a trial runs: off its cpus, as far as there are others.

use model::values::id_set::CpuSet;

use crate::affinity;

/// This thread, moved off a trial's cpus until dropped.
pub(super) struct Aside {
    home: Option<CpuSet>,
}

impl Aside {
    /// Off the first of these sets that leaves any of the original cpus. Threads that this one starts are there too.
    pub(super) fn from(original: &CpuSet, sets: &[&CpuSet]) -> Self {
        let spare = sets.iter().map(|cpus| original.difference(cpus)).find(|spare| !spare.is_empty());
        // Somebody who keeps off more than this has moved us already.
        let home = affinity::mask_of(0).ok().zip(spare).filter(|(home, spare)| !home.is_subset(spare));
        // Where it is refused we stay, and what we use there shows as foreign work.
        let home = home.filter(|(_, spare)| affinity::pin_to_any(spare).is_ok());
        Self { home: home.map(|(home, _)| home) }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // The mask was ours a moment ago; if its cpus have gone offline meanwhile, the kernel keeps us running.
            let _ = affinity::pin_to_any(home);
        }
    }
}
