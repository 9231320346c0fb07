//! Substitutes the variables `{threads}`, `{cpus}` and `{node}` in commands, both for running and for printing them.

use crate::values::id_set::CpuSet;
use crate::values::placement::MemoryPolicy;

/// Values of the variables under one placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementVars {
    threads: String,
    cpus: String,
    node: String,
}

impl PlacementVars {
    /// `cpus` are the CPUs of the command that contains the variables. If they are empty, because the kernel chooses,
    /// `allowed_cpus` is used; if the policy does not name a node, `allowed_nodes` is used.
    pub fn new(
        threads: usize,
        cpus: &CpuSet,
        memory: &MemoryPolicy,
        allowed_cpus: impl Into<String>,
        allowed_nodes: impl Into<String>,
    ) -> Self {
        let node = memory.named_nodes().map_or_else(|| allowed_nodes.into(), |nodes| nodes.to_string());
        let cpus = if cpus.is_empty() { allowed_cpus.into() } else { cpus.to_string() };
        Self { threads: threads.to_string(), cpus, node }
    }

    /// Returns a word of a command with its variables replaced.
    pub fn substitute(&self, word: &str) -> String {
        word.replace("{threads}", &self.threads).replace("{cpus}", &self.cpus).replace("{node}", &self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::{NodeId, NodeSet};

    #[test]
    fn variables_without_binding_get_all_allowed_cpus_and_nodes() {
        let substituted = |cpus: &str, memory: MemoryPolicy| {
            let cpus = CpuSet::parse_list(cpus).unwrap();
            PlacementVars::new(3, &cpus, &memory, "0-7", "0-1").substitute("-t{threads} {cpus} {node} {threads}")
        };
        assert_eq!(substituted("2,4-5", MemoryPolicy::Bind(NodeSet::from_iter([NodeId(1)]))), "-t3 2,4-5 1 3");
        assert_eq!(substituted("2", MemoryPolicy::Preferred(NodeId(0))), "-t3 2 0 3");
        assert_eq!(substituted("", MemoryPolicy::Kernel), "-t3 0-7 0-1 3");
    }
}
