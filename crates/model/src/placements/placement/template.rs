//! What `{threads}`, `{cpus}` and `{node}` in a command stand for under a placement: the same when it is run as when it is
//! printed.

use super::MemoryPolicy;
use crate::values::id_set::CpuSet;

/// The words that stand for a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementVars {
    threads: String,
    cpus: String,
    node: String,
}

impl PlacementVars {
    /// `cpus` are those of the command that has the words, empty where the kernel chooses: then `allowed_cpus` stand for
    /// them. So do `allowed_nodes` where the policy names no node.
    pub fn new(
        threads: usize,
        cpus: &CpuSet,
        memory: &MemoryPolicy,
        allowed_cpus: impl Into<String>,
        allowed_nodes: impl Into<String>,
    ) -> Self {
        let node = match memory {
            MemoryPolicy::Preferred(node) => node.to_string(),
            policy => policy.promised_nodes().map_or_else(|| allowed_nodes.into(), ToString::to_string),
        };
        let cpus = if cpus.is_empty() { allowed_cpus.into() } else { cpus.to_string() };
        Self { threads: threads.to_string(), cpus, node }
    }

    /// A word of a command with what it stands for.
    pub fn substitute(&self, word: &str) -> String {
        word.replace("{threads}", &self.threads).replace("{cpus}", &self.cpus).replace("{node}", &self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::{NodeId, NodeSet};

    #[test]
    fn words_stand_for_the_placement_and_what_it_leaves_open_for_all_there_is() {
        let filled = |cpus: &str, memory: MemoryPolicy| {
            let cpus = CpuSet::parse_list(cpus).unwrap();
            PlacementVars::new(3, &cpus, &memory, "0-7", "0-1").substitute("-t{threads} {cpus} {node} {threads}")
        };
        assert_eq!(filled("2,4-5", MemoryPolicy::Bind(NodeSet::from_iter([NodeId(1)]))), "-t3 2,4-5 1 3");
        assert_eq!(filled("2", MemoryPolicy::Preferred(NodeId(0))), "-t3 2 0 3");
        assert_eq!(filled("", MemoryPolicy::Kernel), "-t3 0-7 0-1 3");
    }
}
