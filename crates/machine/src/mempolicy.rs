//! Sets memory policies; converts them to the kernel's numbers and to its notation (`bind:0`).

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
/// Since Linux 6.9; older kernels return EINVAL.
const WEIGHTED_INTERLEAVE: c_int = 6;
/// Mode flags: static nodes, relative nodes, NUMA balancing.
const MODE_FLAGS: c_int = 1 << 15 | 1 << 14 | 1 << 13;

/// Arguments for `set_mempolicy(2)` and mbind(2).
#[derive(Clone, Copy)]
pub(crate) struct PolicyCode {
    pub mode: c_int,
    pub nodes: NodeMask,
}

impl PolicyCode {
    /// Returns `None` for the kernel's default policy, which is not set. Fails if a node exceeds the maximum of Linux.
    pub(crate) fn of(policy: &MemoryPolicy) -> Result<Option<Self>, SyscallError> {
        let (mode, nodes) = match policy {
            // Far memory is mapped from a file; no policy creates it.
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

/// Formats a policy like `/proc/PID/numa_maps`. Kernels before 5.14 report `local` as `prefer` without nodes.
pub(crate) fn describe(mode: c_int, nodes: NodeMask) -> String {
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

/// Sets the memory policy of the calling thread and its future children, and returns the policy that the kernel
/// reports. [`MemoryPolicy::Kernel`] only reads the current policy.
pub fn set_memory_policy(policy: &MemoryPolicy) -> Result<String, SyscallError> {
    if let Some(code) = PolicyCode::of(policy)? {
        syscall::set_mempolicy(code.mode, &code.nodes).map_err(|error| refusal("set", policy, &error))?;
    }
    memory_policy()
}

/// Returns the calling thread's memory policy in the kernel's notation.
pub fn memory_policy() -> Result<String, SyscallError> {
    syscall::mempolicy()
        .map(|(mode, nodes)| describe(mode, nodes))
        .map_err(|error| SyscallError::new("read the memory policy (get_mempolicy)", &error).with_hint(hint(&error)))
}

/// Describes a failed request, with a hint.
pub(crate) fn refusal(verb: &str, policy: &MemoryPolicy, error: &io::Error) -> SyscallError {
    let weighted = matches!(policy, MemoryPolicy::WeightedInterleave(_));
    let hint = match error.raw_os_error() {
        Some(libc::EINVAL) if weighted => Some("use Linux 6.9 or later and nodes that are online"),
        Some(libc::EINVAL) => Some("choose nodes that are online, have memory and are allowed: see numactl --hardware"),
        _ => hint(error),
    };
    SyscallError::new(format!("{verb} the memory policy '{policy}'"), error).with_hint(hint)
}

/// Returns a hint for the errors that all NUMA system calls share.
pub(crate) fn hint(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EPERM => Some("grant the container the capability: docker run --cap-add SYS_NICE"),
        libc::ENOSYS => Some("use a kernel with CONFIG_NUMA, and a container that permits the system call"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_formatted_like_numa_maps() {
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
            assert_eq!(describe(mode, nodes), expected);
        }
    }

    #[test]
    fn policy_errors_have_hints() {
        let weighted = MemoryPolicy::WeightedInterleave(NodeSet::parse_list("0").unwrap());
        let text = |policy: &MemoryPolicy, errno| {
            let refusal = refusal("set", policy, &io::Error::from_raw_os_error(errno));
            format!("{refusal}; {:?}", refusal.hint)
        };
        assert!(text(&weighted, libc::EINVAL).contains("Linux 6.9"), "{}", text(&weighted, libc::EINVAL));
        assert!(text(&MemoryPolicy::Local, libc::EPERM).contains("SYS_NICE"));
        assert!(text(&MemoryPolicy::Local, libc::ENOSYS).contains("CONFIG_NUMA"));
        assert!(text(&MemoryPolicy::Local, libc::EPERM).contains("'local'"));
    }

    #[test]
    fn set_policy_is_read_back() {
        // Runs on a separate thread: the policy is per thread and must not affect other tests.
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
    fn missing_node_returns_an_error() {
        let policy = MemoryPolicy::Bind(NodeSet::parse_list("1023").unwrap());
        let refusal = std::thread::spawn(move || set_memory_policy(&policy)).join().unwrap().unwrap_err();
        assert!(refusal.to_string().contains("'bind 1023'"), "{refusal}");
        assert!(refusal.hint.is_some());
        assert!(set_memory_policy(&MemoryPolicy::Bind(NodeSet::parse_list("5000").unwrap())).is_err());
    }
}
