//! CPU affinity of threads: sets the mask, reads it back, and returns the current CPU and memory node.

use std::io;

use model::values::id_set::{CpuId, CpuSet, NodeId};

pub use crate::mempolicy::{memory_policy, set_memory_policy};
use crate::syscall::{self, CpuMask, SyscallError};

/// An affinity mask that could not be set or read.
pub type AffinityError = SyscallError;

/// Pins the calling thread to one CPU. Returns the mask that the kernel reports afterwards; the caller must compare it
/// with the request.
pub fn pin_to(cpu: CpuId) -> Result<CpuSet, AffinityError> {
    pin_to_any(&[cpu].into_iter().collect())
}

/// Restricts the calling thread to these CPUs. Returns the mask that the kernel reports afterwards, which is smaller if
/// some of the CPUs are offline or not allowed.
pub fn pin_to_any(cpus: &CpuSet) -> Result<CpuSet, AffinityError> {
    let mask = CpuMask::from_set(cpus).ok_or_else(|| refusal(cpus, &io::Error::from_raw_os_error(libc::EINVAL)))?;
    syscall::set_affinity(0, &mask).map_err(|error| refusal(cpus, &error))?;
    mask_of(0)
}

/// Returns the CPUs on which a thread may run; 0 is the calling thread.
pub fn mask_of(tid: u32) -> Result<CpuSet, AffinityError> {
    syscall::affinity(tid).map(CpuMask::to_set).map_err(|error| {
        let thread = if tid == 0 { "this thread".into() } else { format!("thread {tid}") };
        SyscallError::new(format!("read the affinity mask of {thread} (sched_getaffinity)"), &error)
    })
}

/// Returns the CPU on which the calling thread is running.
pub fn current_cpu() -> CpuId {
    CpuId(rustix::thread::sched_getcpu() as u32)
}

/// Returns the memory node of the current CPU, or `None` if the kernel does not report it.
pub fn current_node() -> Option<NodeId> {
    syscall::current_node().ok().map(NodeId)
}

/// Describes a failed request, with a hint.
pub(crate) fn refusal(cpus: &CpuSet, error: &io::Error) -> AffinityError {
    let hint = match error.raw_os_error() {
        Some(libc::EINVAL) => {
            Some("choose CPUs that are online and allowed: see Cpus_allowed_list in /proc/self/status")
        }
        Some(libc::EPERM | libc::ENOSYS) => Some("a container or a security policy forbids sched_setaffinity"),
        _ => None,
    };
    SyscallError::new(format!("set the affinity to {} (sched_setaffinity)", cpus.described()), error).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` on a separate thread, so that the test thread keeps its mask.
    fn on_new_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().expect("the thread does not panic")
    }

    #[test]
    fn pinned_thread_runs_on_its_cpu() {
        let allowed = mask_of(0).unwrap();
        for cpu in allowed.iter() {
            let (mask, at) = on_new_thread(move || (pin_to(cpu).unwrap(), current_cpu()));
            assert_eq!(mask.to_string(), cpu.to_string());
            assert_eq!(at, cpu);
        }
        assert_eq!(mask_of(0).unwrap(), allowed, "only the calling thread is pinned");
    }

    #[test]
    fn missing_cpus_are_dropped_or_return_errors() {
        let allowed = mask_of(0).unwrap();
        let wider = allowed.union(&CpuSet::parse_list("8191").unwrap());
        assert_eq!(on_new_thread(move || pin_to_any(&wider).unwrap()), allowed);
        let refusal = on_new_thread(|| pin_to(CpuId(8191))).unwrap_err();
        assert!(refusal.to_string().contains("CPU 8191 (sched_setaffinity)"), "{refusal}");
        assert!(refusal.hint.is_some());
        assert!(on_new_thread(|| pin_to(CpuId(60_000))).is_err());
        assert!(on_new_thread(|| pin_to_any(&CpuSet::new())).is_err());
    }

    #[test]
    fn mask_of_a_missing_thread_returns_an_error() {
        // Thread ids end at 2^22 on Linux.
        let refusal = mask_of(1 << 23).unwrap_err();
        assert!(refusal.to_string().contains("thread 8388608"), "{refusal}");
    }
}
