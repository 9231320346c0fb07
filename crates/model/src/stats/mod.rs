//! Statistics and sequential elimination. Must not depend on topologies, plans or stores.

pub mod racing;
pub mod search;
pub mod statistics;
pub mod switchback;
