//! Priorities: background threads must not disturb measurements, and a thread that changes the affinity of others must not
//! wait for a CPU that they fill.

/// Sets the lowest CPU priority for the calling thread and the threads that it starts afterwards. This needs no
/// privileges; an error is ignored, because the priority affects only other programs.
pub fn lower_priority() {
    let _ = rustix::process::nice(19);
}

/// Raises the CPU priority of the calling thread and of the threads that it starts afterwards. An error is ignored: without
/// the privilege the thread may have to wait, but does the same.
pub fn raise_priority() {
    let _ = rustix::process::nice(-15);
}
