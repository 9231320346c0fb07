//! Reads this machine as a capture: topology, devices and settings.

use std::path::Path;

use model::values::capture::Capture;

use crate::settings;
use crate::topology::{self, TopologyError, TopologySource};

/// Reads this machine in this process, within its affinity mask and cgroup.
pub fn read_live() -> Result<Capture, TopologyError> {
    Ok(Capture::new(topology::read(&TopologySource::Live)?, settings::read()))
}

/// Reads this machine with hwloc in a child process of `exe`: `HWLOC_*` variables have no effect, hwloc's warnings are
/// not shown, and hwloc before 2.10 reports nodes that share their CPUs.
pub fn read_live_isolated(exe: &Path) -> Result<Capture, TopologyError> {
    Ok(Capture::new(topology::read_isolated(&TopologySource::Live, exe)?, settings::read()))
}
