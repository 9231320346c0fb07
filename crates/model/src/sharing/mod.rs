//! What of a run may be given to others.

pub mod share;
