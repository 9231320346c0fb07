//! Machine classes: a short name shared by all machines of the same model, used to group results of many machines. The
//! name contains the CPU model and object counts, but nothing specific to an individual machine.

use crate::values::capture::Capture;
use crate::values::settings::Settings;
use crate::values::topology::Topology;
use crate::values::trial::short_hash;

/// Maximum length of the model name. The class is part of a directory name, and common file systems limit names to 255
/// bytes.
const MODEL_BYTES_MAX: usize = 120;

const SIMULATED: &str = "simulated-";

/// Returns the class of a machine, such as `amd-ryzen-5-2600-six-core-processor-1p6c12t1n`: the CPU model in lower
/// case, then the numbers of packages (p), cores (c), CPUs (t) and memory nodes (n). Contains only lower-case letters,
/// digits and `-`. Memory sizes, kernels and settings are not part of it. The class of a simulated machine begins with
/// `simulated-`.
pub fn machine_class(machine: &Capture, simulated: bool) -> String {
    let Topology { nodes, .. } = &machine.topology;
    let counts = machine.topology.counts();
    let (packages, cores, cpus) = (counts.packages, machine.topology.cores().len(), counts.pus);
    let model = model(&machine.settings);
    // The model of some captures already begins with the prefix.
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
    // Two models may differ only in the truncated part.
    format!("{}-{}", model[..MODEL_BYTES_MAX].trim_end_matches('-'), short_hash(&model))
}

/// Converts text to lower-case letters and digits, with `-` for each run of other characters. Drops trademark symbols.
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
    fn machine_class_is_plain_text_and_distinguishes_models() {
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
    fn long_models_are_truncated_and_stay_distinct() {
        let long = |end: &str| machine_class(&machine(Some(&format!("{}{end}", "Core ".repeat(60)))), false);
        assert!(long("a").len() < 160, "{}", long("a"));
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a"));
    }

    /// Facts specific to one machine, and facts that change, do not affect the class.
    #[test]
    fn settings_do_not_affect_the_class() {
        let mut other = machine(Some("A"));
        for key in ["kernel.release", "kernel.boot-id", "machine.model", "memory.total-bytes"] {
            other.settings.record(key, FactValue::Known("secret-7".into()));
        }
        assert_eq!(machine_class(&other, false), machine_class(&machine(Some("A")), false));
    }
}
