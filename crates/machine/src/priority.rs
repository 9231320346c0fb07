//! Lowers the priority of background threads so that they do not disturb measurements.

/// Sets the lowest CPU priority for the calling thread and the threads that it starts afterwards. This needs no
/// privileges; an error is ignored, because the priority affects only other programs.
pub fn lower_priority() {
    let _ = rustix::process::nice(19);
}
