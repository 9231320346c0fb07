//! Staying out of the way of others who measure on this machine. Says nothing of who they are.

/// Gives every other program of usual priority the processor first, for the rest of this thread and of those
/// that it starts from now on. That much needs no rights; where it is refused all the same, only manners are lost.
pub fn lower_priority() {
    let _ = rustix::process::nice(19);
}
