//! The class of a machine: one word for all machines that are alike, by which results of many are put together. It names
//! the processor and how many of what there are, and nothing that belongs to one machine alone.

use crate::values::capture::Capture;
use crate::values::settings::Settings;
use crate::values::topology::Topology;
use crate::values::trial::short_hash;

/// Longer models are cut: a folder's name has at most 255 bytes in every file system that matters, and this is a part of one.
const MODEL_BYTES_MAX: usize = 120;

const SIMULATED: &str = "simulated-";

/// The class of a machine, such as `amd-ryzen-5-2600-six-core-processor-1p6c12t1n`: the model of its cpus in small letters,
/// then packages (p), cores (c), cpus (t) and memory nodes (n). Small letters, digits and `-` alone. Memory sizes, kernels
/// and settings are not part of it. A simulated machine's begins with `simulated-`.
pub fn machine_class(machine: &Capture, simulated: bool) -> String {
    let Topology { nodes, .. } = &machine.topology;
    let counts = machine.topology.counts();
    let (packages, cores, cpus) = (counts.packages, machine.topology.cores().len(), counts.pus);
    let model = model(&machine.settings);
    // Some say so themselves.
    let prefix = if simulated && !model.starts_with(SIMULATED) { SIMULATED } else { "" };
    format!("{prefix}{model}-{packages}p{cores}c{cpus}t{}n", nodes.len())
}

fn model(settings: &Settings) -> String {
    let stated = settings.get("cpu.model").map(plain).filter(|model| !model.is_empty());
    let model = stated.unwrap_or_else(|| {
        let architecture = settings.get("machine.architecture").map(plain).unwrap_or_default();
        format!("unknown-{}", if architecture.is_empty() { "cpu" } else { &architecture })
    });
    if model.len() <= MODEL_BYTES_MAX {
        return model;
    }
    // What is cut away may be what tells two models apart.
    format!("{}-{}", model[..MODEL_BYTES_MAX].trim_end_matches('-'), short_hash(&model))
}

/// Small letters and digits, with one `-` for whatever stands between them. Marks of trade say nothing.
fn plain(text: &str) -> String {
    let mut text = text.to_ascii_lowercase();
    for mark in ["(r)", "(tm)", "(c)"] {
        text = text.replace(mark, " ");
    }
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::settings::FactValue;

    fn machine(model: Option<&str>) -> Capture {
        let mut settings = Settings::default();
        if let Some(model) = model {
            settings.record("cpu.model", FactValue::Known(model.into()));
        }
        settings.record("machine.architecture", FactValue::Known("x86_64".into()));
        Capture::new(Topology::default(), settings)
    }

    #[test]
    fn a_class_is_plain_and_tells_models_apart() {
        let cases = [
            (Some("AMD Ryzen 5 2600 Six-Core Processor"), "amd-ryzen-5-2600-six-core-processor-0p0c0t0n"),
            (Some("Intel(R) Xeon(R) CPU E5-2699 v4 @ 2.20GHz"), "intel-xeon-cpu-e5-2699-v4-2-20ghz-0p0c0t0n"),
            (Some("../../etc/passwd=%2F"), "etc-passwd-2f-0p0c0t0n"),
            (Some("  "), "unknown-x86-64-0p0c0t0n"),
            (Some("Größe"), "gr-e-0p0c0t0n"),
            (None, "unknown-x86-64-0p0c0t0n"),
        ];
        for (model, expected) in cases {
            assert_eq!(machine_class(&machine(model), false), expected, "{model:?}");
        }
        for model in ["A", "simulated A"] {
            assert_eq!(machine_class(&machine(Some(model)), true), "simulated-a-0p0c0t0n");
        }
    }

    #[test]
    fn long_models_are_cut_and_stay_apart() {
        let long = |end: &str| machine_class(&machine(Some(&format!("{}{end}", "Core ".repeat(60)))), false);
        assert!(long("a").len() < 160, "{}", long("a"));
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a"));
    }

    /// Facts of one machine alone, and those that change, do not make another class.
    #[test]
    fn settings_do_not_matter() {
        let mut other = machine(Some("A"));
        for key in ["kernel.release", "kernel.boot-id", "machine.model", "memory.total-bytes"] {
            other.settings.record(key, FactValue::Known("secret-7".into()));
        }
        assert_eq!(machine_class(&other, false), machine_class(&machine(Some("A")), false));
    }
}
