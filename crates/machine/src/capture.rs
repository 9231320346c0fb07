//! This machine as a capture: topology, devices and settings, in one reading.

use std::path::Path;

use model::values::capture::Capture;

use crate::settings;
use crate::topology::{self, TopologyError, TopologySource};

/// Reads this machine in this process, as it may use it: its affinity mask and cgroup count.
pub fn read_live() -> Result<Capture, TopologyError> {
    Ok(Capture::new(topology::read(&TopologySource::Live)?, settings::read()))
}

/// Reads this machine with hwloc in a child process of our executable: `HWLOC_*` variables can not mislead it, its
/// complaints are not shown, and hwloc before 2.10 sees nodes that share their cpus.
pub fn read_live_isolated(exe: &Path) -> Result<Capture, TopologyError> {
    Ok(Capture::new(topology::read_isolated(&TopologySource::Live, exe)?, settings::read()))
}
