//! The machine to measure, real or simulated.

use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use farmem::array::FarLocation;
use lab::executor::Executor;
use lab::real::{FarConfig, RealExecutor};
use lab::sim::{EPOCH_UNIX_MS, Faults, SimExecutor};
use machine::interrupt::Routes;
use machine::topology::TopologySource;
use model::values::capture::Capture;
use model::values::plan::Plan;
use model::values::record::{RunId, RunRecord};
use model::values::settings::{FactValue, LABEL, Settings};
use model::values::topology::Topology;
use model::values::trial::short_hash;
use model::values::workload::Parameters;
use store::Store;

use crate::app::results_file::ResultsFile;
use crate::app::run_guard::site;
use crate::error::CliError;
use crate::message;

/// Selects and names the machine to measure.
pub struct MachineRequest {
    /// `MACHINE[:SEED]` of a simulated machine.
    pub sim: Option<String>,
    /// Faults of the simulated machine.
    pub sim_faults: Option<String>,
    /// Seed of all random decisions; random if not set.
    pub seed: Option<u64>,
    /// Name in comparisons.
    pub host_label: Option<String>,
    /// Additional facts.
    pub labels: Vec<(String, String)>,
}

pub struct TargetMachine {
    pub machine: Capture,
    /// `NAME:SEED` of a simulated machine.
    pub simulated: Option<String>,
    pub seed: u64,
    host: Option<String>,
    faults: Faults,
}

impl TargetMachine {
    pub fn read(request: &MachineRequest) -> Result<Self, CliError> {
        let faults = Faults::parse(request.sim_faults.as_deref().unwrap_or_default()).map_err(CliError::usage)?;
        let host = request.host_label.clone();
        let Some(sim) = &request.sim else {
            let mut machine =
                machine::capture::read_live_isolated(&current_exe()?).map_err(|error| CliError::topology(&error))?;
            label(&mut machine, &request.labels);
            let seed = request.seed.unwrap_or_else(fresh_seed);
            return Ok(Self { machine, simulated: None, seed, host, faults });
        };
        let (capture, sim_seed) = split_seed(sim);
        // The file name without its directory, so that reports do not depend on where the file is.
        let name = capture.rsplit('/').next().unwrap_or(capture);
        let mut machine = simulated_machine(capture, name)?;
        label(&mut machine, &request.labels);
        Ok(Self {
            machine,
            simulated: Some(format!("{name}:{sim_seed}")),
            seed: request.seed.unwrap_or(sim_seed),
            host,
            faults,
        })
    }

    /// Returns the check for programs and interfaces of the Linux kernel that this machine lacks; a simulated machine has
    /// all.
    pub fn missing(&self) -> Option<fn(&str, &Parameters) -> Option<String>> {
        self.simulated.is_none().then_some(workloads::missing)
    }

    /// Opens or creates the results file; a simulated full disk limits its size.
    pub fn open_store(&self, results: &ResultsFile) -> Result<Store, CliError> {
        let store = results.open()?;
        if let Some(limit) = self.faults.disk {
            store.limit_size(limit.0).map_err(CliError::failure)?;
        }
        Ok(store)
    }

    /// Returns the executor of trials; `routes` are the interrupt affinities of the placements, if any.
    pub fn executor(
        &self,
        plan: &Plan,
        stop: Arc<AtomicBool>,
        routes: Option<Routes>,
        quiet: bool,
    ) -> Result<Box<dyn Executor>, CliError> {
        if self.simulated.is_some() {
            let topology = self.machine.topology.clone();
            return Ok(Box::new(SimExecutor::new(topology, plan.workloads.clone(), self.seed, self.faults.clone())));
        }
        let executor = RealExecutor::new(current_exe()?, stop, plan.repeat.time_limit, routes, far_site());
        Ok(Box::new(executor.reporting(message::waiting(quiet))))
    }

    /// Creates the record of a new run; `ordinal` distinguishes runs of the same plan with the same seed.
    pub fn begin(&self, plan: Plan, ordinal: usize) -> RunRecord {
        let started_unix_ms = if self.simulated.is_some() { EPOCH_UNIX_MS } else { now_unix_ms() };
        // The host is hashed too: machines of a fleet may begin in the same millisecond with the same seed.
        let host = self.host.as_ref().map_or(String::new(), |host| format!("\n{host}"));
        let identity =
            format!("{}\n{}\n{:?}\n{started_unix_ms}\n{ordinal}{host}", plan.key(), self.seed, self.simulated);
        RunRecord {
            id: RunId(short_hash(&identity)),
            plan,
            seed: self.seed,
            machine: self.machine.clone(),
            host: self.host.clone(),
            simulated: self.simulated.clone(),
            started_unix_ms,
            ended: None,
            program: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// Returns the configuration of far memory: `NEARFAR_FAR`, else a directory on a disk. Without a disk, each trial that
/// needs far memory fails.
pub fn far_site() -> FarConfig {
    let directory = FarLocation::found().map_or_else(|_| "/var/tmp".into(), |place| place.directory().to_path_buf());
    FarConfig { directory, site: site(None) }
}

/// Reads the topology of `--from` (a file or a synthetic string), or of this machine. A child process reads it, because
/// hwloc may crash on an invalid file, and `HWLOC_*` variables change the topology that it reports.
pub fn read_topology(from: Option<&str>) -> Result<Topology, CliError> {
    machine::topology::read_isolated(&source(from)?, &current_exe()?).map_err(|error| CliError::topology(&error))
}

/// Parses the value of `--from`.
pub fn source(from: Option<&str>) -> Result<TopologySource, CliError> {
    from.map_or(Ok(TopologySource::Live), |text| {
        TopologySource::parse(text).map_err(|error| CliError::topology(&error))
    })
}

/// Returns the path of this program, which workers run.
pub fn current_exe() -> Result<PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::failure(format!("cannot find the executable of nearfar: {error}")))
}

/// Returns the file or synthetic string of `--sim` without the seed.
pub fn simulated_file(sim: &str) -> &str {
    split_seed(sim).0
}

/// Splits `MACHINE:SEED`. Synthetic strings contain colons too, so the seed is optional and defaults to 1.
fn split_seed(text: &str) -> (&str, u64) {
    let (head, tail) = text.rsplit_once(':').unwrap_or((text, ""));
    // `pu:2` at the end of a synthetic string is not a seed.
    let is_synthetic = head.contains(char::is_whitespace) || !head.contains(['/', '.']);
    match tail.parse() {
        Ok(seed) if !is_synthetic || head.contains(':') && !ends_in_object(head) => (head, seed),
        _ => (text, 1),
    }
}

/// Whether a synthetic description lacks the number after its last object: `pack:2 core` of `pack:2 core:4`.
fn ends_in_object(head: &str) -> bool {
    let last = head.split_whitespace().next_back().unwrap_or("");
    !last.contains(':')
}

/// Adds the labels to the facts.
fn label(machine: &mut Capture, labels: &[(String, String)]) {
    for (key, value) in labels {
        machine.settings.record(&format!("{LABEL}{key}"), FactValue::Known(value.clone()));
    }
}

/// Reads a simulated machine: a capture contains settings, other files do not.
fn simulated_machine(from: &str, name: &str) -> Result<Capture, CliError> {
    if let TopologySource::CaptureFile(path) = source(Some(from))? {
        return machine::topology::read_capture(&path).map_err(|error| CliError::topology(&error));
    }
    Ok(Capture::new(read_topology(Some(from))?, simulated_settings(name)))
}

fn simulated_settings(name: &str) -> Settings {
    let mut settings = Settings::default();
    settings.record("cpu.model", FactValue::Known(format!("simulated {name}")));
    settings.record("kernel.release", FactValue::Known("simulated".into()));
    settings.record("kernel.command-line", FactValue::Known(String::new()));
    settings
}

/// Returns a random seed, from the keys of hash maps of the standard library.
fn fresh_seed() -> u64 {
    // Short, because users type seeds to repeat a run.
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000_000
}

/// Returns the time of this machine's clock in milliseconds since 1970.
pub fn now_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_distinguished_from_synthetic_strings() {
        let cases = [
            ("models/rk3399.xml:7", ("models/rk3399.xml", 7)),
            ("models/rk3399.xml", ("models/rk3399.xml", 1)),
            ("pack:2 core:4 pu:2", ("pack:2 core:4 pu:2", 1)),
            ("pack:2 core:4 pu:2:9", ("pack:2 core:4 pu:2", 9)),
            ("pu:4", ("pu:4", 1)),
            ("pu:4:3", ("pu:4", 3)),
        ];
        for (text, expected) in cases {
            assert_eq!(split_seed(text), expected, "{text}");
        }
    }
}
