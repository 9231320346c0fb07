//! Collects the private free texts of a run in advance: names of devices, values of text parameters, names of commands.
//! Each gets a consistent, unique pseudonym.

use std::collections::BTreeMap;

use super::pseudonyms::Pseudonyms;
use crate::values::command_number::COMMAND;
use crate::values::record::{RunRecord, TrialRecord};
use crate::values::trial::Evidence;
use crate::values::workload::{ParameterKind, Parameters, Value, WorkloadSpec};

/// Parameters whose free text describes the measurement: a library, tests, a block width. Paths are not included.
const PUBLIC: [&str; 9] = ["blas", "cipher", "library", "nb", "options", "program", "rounds", "source", "tests"];

/// Device name prefixes of the kernel and systemd, which are not private.
const DEVICES: [&str; 24] = [
    "sd", "vd", "xvd", "hd", "nvme", "mmcblk", "sr", "loop", "zram", "ram", "dm-", "md", "pmem", "nullb", "eth", "eno",
    "ens", "enp", "wlan", "wlp", "wlo", "ib", "lo", "usb",
];

/// Pseudonyms of the texts of one run.
pub(super) struct TextScrubber {
    specs: Vec<WorkloadSpec>,
    /// Pseudonyms by parameter name and value.
    values: BTreeMap<(String, String), String>,
    /// Pseudonyms of tests.
    tests: BTreeMap<String, String>,
}

impl TextScrubber {
    /// Collects the texts of all cells and trials, in order.
    pub(super) fn learn(
        record: &RunRecord,
        trials: &[TrialRecord],
        keep_commands: bool,
        words: &mut Pseudonyms,
    ) -> Self {
        let specs = record.plan.workloads.clone();
        let mut texts = Self { specs, values: BTreeMap::new(), tests: BTreeMap::new() };
        let cells = record.plan.cells.iter().map(|cell| (&cell.workload, &cell.parameters));
        for (workload, parameters) in
            cells.chain(trials.iter().map(|trial| (&trial.trial.workload, &trial.trial.parameters)))
        {
            for (name, value) in &parameters.0 {
                if let Value::Text(text) = value {
                    texts.learn_value(workload, name, text, keep_commands, words);
                }
            }
        }
        for cell in
            record.plan.cells.iter().filter(|cell| cell.workload == COMMAND && cell.test != COMMAND && !keep_commands)
        {
            let Some(Value::Text(argv)) = cell.parameters.0.get("argv") else { continue };
            let name = texts.values.get(&("argv".to_string(), argv.clone())).cloned();
            texts.learn_test(&cell.test, name.as_deref().unwrap_or(COMMAND), words);
        }
        texts
    }

    fn learn_value(&mut self, workload: &str, name: &str, text: &str, keep_commands: bool, words: &mut Pseudonyms) {
        let at = (name.to_string(), text.to_string());
        if self.values.contains_key(&at) || self.is_public(workload, name, text, words) {
            return;
        }
        let kept = workload == COMMAND && keep_commands;
        let stem = if name == "argv" { COMMAND } else { name };
        let taken = |texts: &Self, preferred: &String| texts.values.iter().any(|((_, _), value)| value == preferred);
        let mut number = 1;
        // Counted only if this text is shared.
        let cleaned = if kept { words.sentence(text) } else { String::new() };
        let mut shared = if kept { cleaned.clone() } else { format!("{stem}-{number}") };
        while taken(self, &shared) {
            number += 1;
            shared = if kept { format!("{cleaned} #{number}") } else { format!("{stem}-{number}") };
        }
        if !kept {
            words.count(if workload == COMMAND { "command lines" } else { "files and directories" });
            words.replace(text, &shared);
            hide_parts(text, &shared, words);
        }
        self.values.insert(at, shared);
    }

    fn learn_test(&mut self, test: &str, preferred: &str, words: &mut Pseudonyms) {
        if self.tests.contains_key(test) {
            return;
        }
        let mut name = preferred.to_string();
        let mut number = 1;
        while self.tests.values().any(|other| *other == name) {
            number += 1;
            name = format!("{preferred} #{number}");
        }
        words.replace(test, &name);
        self.tests.insert(test.into(), name);
    }

    /// Whether a text is one of the program's own values, or the name of a library, a cipher or a disk.
    fn is_public(&self, workload: &str, name: &str, text: &str, words: &Pseudonyms) -> bool {
        let spec = self.specs.iter().find(|spec| spec.name == workload).and_then(|spec| spec.parameter(name));
        let Some(spec) = spec else { return false };
        let offered = [&spec.default, &spec.smoke].into_iter().flatten().any(|offered| offered == text);
        if let ParameterKind::Choice(choices) = &spec.kind {
            return choices.iter().any(|choice| choice == text);
        }
        let clean = || words.clone().sentence(text) == text;
        let disk = text.strip_prefix("/dev/").is_some_and(is_plain_device);
        offered || workload != COMMAND && (disk || PUBLIC.contains(&name) && !text.contains('/') && clean())
    }

    /// Returns the pseudonym of a test, if its name is private.
    pub(super) fn test(&self, test: &str) -> Option<String> {
        self.tests.get(test).cloned()
    }

    /// Replaces private texts in parameters.
    pub(super) fn parameters(&self, workload: &str, parameters: &Parameters, words: &mut Pseudonyms) -> Parameters {
        let share = |name: &String, value: &Value, words: &mut Pseudonyms| {
            let shared = match value {
                Value::Text(text) => Value::Text(match self.values.get(&(name.clone(), text.clone())) {
                    Some(shared) => shared.clone(),
                    // The program's own values are public.
                    None if self.is_public(workload, name, text, words) => text.clone(),
                    None => words.sentence(text),
                }),
                other => other.clone(),
            };
            (words.public(name), shared)
        };
        Parameters(parameters.0.iter().map(|(name, value)| share(name, value, words)).collect())
    }
}

/// Replaces the words of a command too: error messages contain only the program, or one argument.
fn hide_parts(text: &str, shared: &str, words: &mut Pseudonyms) {
    let listed: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    let parts = if listed.is_empty() { text.split_whitespace().map(String::from).collect() } else { listed };
    // Shorter words are numbers and single letters, which also occur in unrelated sentences.
    parts.iter().filter(|part| part.len() > 3 && *part != text).for_each(|part| words.replace(part, shared));
    let program = parts.first().and_then(|program| program.rsplit('/').next());
    if let Some(program) = program.filter(|program| program.len() > 2) {
        words.replace(program, shared);
    }
}

/// Replaces user-defined names of devices.
pub(super) fn learn_devices(record: &RunRecord, trials: &[TrialRecord], words: &mut Pseudonyms) {
    let mut names: Vec<&String> = record.machine.topology.devices.iter().map(|device| &device.name).collect();
    let placements = record.plan.cells.iter().map(|cell| &cell.placement);
    for placement in placements.chain(trials.iter().map(|trial| &trial.trial.placement)) {
        names.extend(placement.interrupts.iter().map(|route| &route.device));
    }
    trials.iter().for_each(|trial| names_in(&trial.outcome.evidence, &mut names));
    let mut number = 0;
    for name in names {
        if !is_plain_device(name) && words.pseudonym(name).is_none() {
            number += 1;
            words.replace(name, &format!("device-{number}"));
            words.count("names of devices");
        }
    }
}

fn names_in<'a>(evidence: &'a Evidence, names: &mut Vec<&'a String>) {
    names.extend(evidence.device_interrupts.iter().map(|interrupt| &interrupt.device));
    if let Some(second) = &evidence.second {
        names_in(second, names);
    }
}

/// Whether a device has a default name of the kernel or systemd: `sda`, `nvme0n1`, `enp3s0f1np1`.
pub(super) fn is_plain_device(name: &str) -> bool {
    DEVICES.iter().any(|prefix| {
        let Some(rest) = name.strip_prefix(prefix) else { return false };
        let lettered = matches!(*prefix, "sd" | "vd" | "xvd" | "hd");
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        if lettered {
            return (1..=2).contains(&letters)
                && rest.len() <= 4
                && rest[letters..].bytes().all(|b| b.is_ascii_digit());
        }
        // `p3s0f1np1` is a bus location; a name with a MAC address is longer.
        rest.len() <= 10 && rest.bytes().all(|byte| byte.is_ascii_digit() || b"npsfdcu".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_device_names_are_plain() {
        for name in
            ["sda", "sdab", "vda1", "nvme0n1", "nvme0c0n1", "eth0", "enp3s0f1np1", "eno1", "lo", "dm-3", "mmcblk0p1"]
        {
            assert!(is_plain_device(name), "{name}");
        }
        for name in ["enx001a2b3c4d5e", "lan-alice", "sdalice", "ethalice", "br0", "", "wlx1", "nvme-of-basalt"] {
            assert!(!is_plain_device(name), "{name}");
        }
    }
}
