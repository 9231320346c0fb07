//! Seats: where a thread may run, always read back, and where it runs now.

use std::io;

use model::values::id_set::{CpuId, CpuSet, NodeId};

pub use crate::mempolicy::{memory_policy, set_memory_policy};
use crate::syscall::{self, CpuMask, SyscallError};

/// Why a thread could not be seated, or its seat not be read.
pub type AffinityError = SyscallError;

/// Seats the calling thread on one cpu. Gives the mask that the kernel reports afterwards: it is the proof, the
/// caller compares.
pub fn pin_to(cpu: CpuId) -> Result<CpuSet, AffinityError> {
    pin_to_any(&[cpu].into_iter().collect())
}

/// Lets the calling thread run on these cpus and no others. Gives the mask that the kernel reports afterwards, which
/// is smaller when some of the cpus are offline or not allowed.
pub fn pin_to_any(cpus: &CpuSet) -> Result<CpuSet, AffinityError> {
    let mask = CpuMask::from_set(cpus).ok_or_else(|| refusal(cpus, &io::Error::from_raw_os_error(libc::EINVAL)))?;
    syscall::set_affinity(0, &mask).map_err(|error| refusal(cpus, &error))?;
    mask_of(0)
}

/// The cpus on which a thread may run; 0 is the calling thread.
pub fn mask_of(tid: u32) -> Result<CpuSet, AffinityError> {
    syscall::affinity(tid).map(CpuMask::to_set).map_err(|error| {
        let whom = if tid == 0 { "this thread".into() } else { format!("thread {tid}") };
        SyscallError::new(format!("read the affinity mask of {whom} (sched_getaffinity)"), &error)
    })
}

/// The cpu on which the calling thread runs at this moment.
pub fn current_cpu() -> CpuId {
    CpuId(rustix::thread::sched_getcpu() as u32)
}

/// The node of that cpu; none where the kernel does not say.
pub fn current_node() -> Option<NodeId> {
    syscall::current_node().ok().map(NodeId)
}

/// Names the cpus and the next step.
pub(crate) fn refusal(cpus: &CpuSet, error: &io::Error) -> AffinityError {
    let hint = match error.raw_os_error() {
        Some(libc::EINVAL) => {
            Some("none of these cpus is online and allowed: see Cpus_allowed_list in /proc/self/status")
        }
        Some(libc::EPERM | libc::ENOSYS) => Some("a container or a security policy forbids sched_setaffinity"),
        _ => None,
    };
    let noun = if cpus.len() == 1 { "cpu" } else { "cpus" };
    SyscallError::new(format!("sit on {noun} {cpus} (sched_setaffinity)"), error).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, so that the test thread keeps its mask.
    fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().expect("the thread does not panic")
    }

    #[test]
    fn a_seat_is_read_back_and_sat_on() {
        let allowed = mask_of(0).unwrap();
        for cpu in allowed.iter() {
            let (mask, at) = apart(move || (pin_to(cpu).unwrap(), current_cpu()));
            assert_eq!(mask.to_string(), cpu.to_string());
            assert_eq!(at, cpu);
        }
        assert_eq!(mask_of(0).unwrap(), allowed, "only the calling thread moves");
    }

    #[test]
    fn seats_that_are_not_there_are_left_out_or_refused() {
        let allowed = mask_of(0).unwrap();
        let wider = allowed.union(&CpuSet::parse_list("8191").unwrap());
        assert_eq!(apart(move || pin_to_any(&wider).unwrap()), allowed);
        let refusal = apart(|| pin_to(CpuId(8191))).unwrap_err();
        assert!(refusal.to_string().contains("cpu 8191 (sched_setaffinity)"), "{refusal}");
        assert!(refusal.hint.is_some());
        assert!(apart(|| pin_to(CpuId(60_000))).is_err());
        assert!(apart(|| pin_to_any(&CpuSet::new())).is_err());
    }

    #[test]
    fn a_thread_that_is_gone_has_no_mask() {
        // Thread ids end at 2^22 on Linux.
        let refusal = mask_of(1 << 23).unwrap_err();
        assert!(refusal.to_string().contains("thread 8388608"), "{refusal}");
    }
}
