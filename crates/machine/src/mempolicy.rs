//! Memory policies in the kernel's numbers and in its words (`bind:0`), and why it may refuse them.

use std::io;

use libc::c_int;
use model::values::id_set::NodeSet;
use model::values::placement::MemoryPolicy;

use crate::syscall::{self, NodeMask, SyscallError};

// include/uapi/linux/mempolicy.h.
const DEFAULT: c_int = 0;
const PREFERRED: c_int = 1;
const BIND: c_int = 2;
const INTERLEAVE: c_int = 3;
const LOCAL: c_int = 4;
const PREFERRED_MANY: c_int = 5;
/// Linux 6.9; older kernels answer EINVAL.
const WEIGHTED_INTERLEAVE: c_int = 6;
/// Static nodes, relative nodes, numa balancing: modifiers above the mode.
const MODE_FLAGS: c_int = 1 << 15 | 1 << 14 | 1 << 13;

/// A policy as `set_mempolicy(2)` and mbind(2) take it.
#[derive(Clone, Copy)]
pub(crate) struct PolicyCode {
    pub mode: c_int,
    pub nodes: NodeMask,
}

impl PolicyCode {
    /// None for the kernel's own choice, which is not set; an error for nodes that no Linux can have.
    pub(crate) fn of(policy: &MemoryPolicy) -> Result<Option<Self>, SyscallError> {
        let (mode, nodes) = match policy {
            // A far file is for who maps it; no policy makes one.
            MemoryPolicy::Kernel | MemoryPolicy::Far => return Ok(None),
            MemoryPolicy::Local => (LOCAL, NodeSet::new()),
            MemoryPolicy::Bind(nodes) => (BIND, nodes.clone()),
            MemoryPolicy::Interleave(nodes) => (INTERLEAVE, nodes.clone()),
            MemoryPolicy::WeightedInterleave(nodes) => (WEIGHTED_INTERLEAVE, nodes.clone()),
            MemoryPolicy::Preferred(node) => (PREFERRED, [*node].into_iter().collect()),
        };
        let nodes = NodeMask::from_set(&nodes)
            .ok_or_else(|| refusal("set", policy, &io::Error::from_raw_os_error(libc::EINVAL)))?;
        Ok(Some(Self { mode, nodes }))
    }
}

/// A policy that was read back, in the words of /`proc/PID/numa_maps`; `prefer` without nodes is how kernels before 5.14
/// report `local`.
pub(crate) fn words(mode: c_int, nodes: NodeMask) -> String {
    let nodes = nodes.to_set();
    let name = match mode & !MODE_FLAGS {
        DEFAULT => return "default".into(),
        LOCAL => return "local".into(),
        PREFERRED if nodes.is_empty() => return "local".into(),
        PREFERRED => "prefer",
        BIND => "bind",
        INTERLEAVE => "interleave",
        PREFERRED_MANY => "prefer (many)",
        WEIGHTED_INTERLEAVE => "weighted interleave",
        other => return format!("policy {other}:{nodes}"),
    };
    format!("{name}:{nodes}")
}

/// Gives the calling thread, and what it forks from now on, a memory policy, and reads it back in the kernel's words.
/// [`MemoryPolicy::Kernel`] sets nothing and reads back what is there.
pub fn set_memory_policy(policy: &MemoryPolicy) -> Result<String, SyscallError> {
    if let Some(code) = PolicyCode::of(policy)? {
        syscall::set_mempolicy(code.mode, &code.nodes).map_err(|error| refusal("set", policy, &error))?;
    }
    memory_policy()
}

/// The calling thread's memory policy in the kernel's words.
pub fn memory_policy() -> Result<String, SyscallError> {
    syscall::mempolicy().map(|(mode, nodes)| words(mode, nodes)).map_err(|error| {
        SyscallError::new("read the memory policy back (get_mempolicy)", &error).with_hint(hint(&error))
    })
}

/// Names the policy and the next step.
pub(crate) fn refusal(verb: &str, policy: &MemoryPolicy, error: &io::Error) -> SyscallError {
    let weighted = matches!(policy, MemoryPolicy::WeightedInterleave(_));
    let hint = match error.raw_os_error() {
        Some(libc::EINVAL) if weighted => Some("weighted interleave needs Linux 6.9 and nodes that are online"),
        Some(libc::EINVAL) => Some("name nodes that are online, have memory and are allowed: numactl --hardware"),
        _ => hint(error),
    };
    SyscallError::new(format!("{verb} the memory policy '{policy}'"), error).with_hint(hint)
}

/// What to do about errors that all calls of this family share.
pub(crate) fn hint(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EPERM => Some("a container forbids it: docker run --cap-add SYS_NICE"),
        libc::ENOSYS => Some("this kernel is built without NUMA (CONFIG_NUMA), or a container hides the call"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_read_in_the_kernels_words() {
        let nodes = NodeMask::from_set(&NodeSet::parse_list("0-1").unwrap()).unwrap();
        let none = NodeMask::EMPTY;
        let cases = [
            (DEFAULT, none, "default"),
            (BIND, nodes, "bind:0-1"),
            (BIND | 1 << 15, nodes, "bind:0-1"),
            (PREFERRED, none, "local"),
            (PREFERRED, nodes, "prefer:0-1"),
            (LOCAL, none, "local"),
            (INTERLEAVE, nodes, "interleave:0-1"),
            (WEIGHTED_INTERLEAVE, nodes, "weighted interleave:0-1"),
            (9, nodes, "policy 9:0-1"),
        ];
        for (mode, nodes, expected) in cases {
            assert_eq!(words(mode, nodes), expected);
        }
    }

    #[test]
    fn refusals_have_a_next_step() {
        let weighted = MemoryPolicy::WeightedInterleave(NodeSet::parse_list("0").unwrap());
        let text = |policy: &MemoryPolicy, errno| {
            let refusal = refusal("set", policy, &io::Error::from_raw_os_error(errno));
            format!("{refusal}; {:?}", refusal.hint)
        };
        assert!(text(&weighted, libc::EINVAL).contains("Linux 6.9"), "{}", text(&weighted, libc::EINVAL));
        assert!(text(&MemoryPolicy::Local, libc::EPERM).contains("SYS_NICE"));
        assert!(text(&MemoryPolicy::Local, libc::ENOSYS).contains("without NUMA"));
        assert!(text(&MemoryPolicy::Local, libc::EPERM).contains("'local'"));
    }

    #[test]
    fn a_policy_is_read_back() {
        // On a thread of its own: the policy belongs to the thread and must not leak into other tests.
        let read = std::thread::spawn(|| {
            let bind = MemoryPolicy::Bind(NodeSet::parse_list("0").unwrap());
            [MemoryPolicy::Kernel, bind, MemoryPolicy::Local].map(|policy| set_memory_policy(&policy))
        });
        let read = read.join().expect("the thread does not panic");
        if let [Err(refusal), ..] = &read {
            println!("skipped: {refusal}");
            return;
        }
        assert_eq!(read.map(Result::unwrap), ["default", "bind:0", "local"]);
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let policy = MemoryPolicy::Bind(NodeSet::parse_list("1023").unwrap());
        let refusal = std::thread::spawn(move || set_memory_policy(&policy)).join().unwrap().unwrap_err();
        assert!(refusal.to_string().contains("'bind 1023'"), "{refusal}");
        assert!(refusal.hint.is_some());
        assert!(set_memory_policy(&MemoryPolicy::Bind(NodeSet::parse_list("5000").unwrap())).is_err());
    }
}
