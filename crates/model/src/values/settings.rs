//! Machine settings that affect measurements, as an ordered list of facts with stable keys.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Facts that change over time or between boots without a change of the machine. They are recorded and reported, but
/// are not part of the fingerprint. Total memory is among them because it varies by some pages between boots; the
/// topology contains the sizes of the nodes. `perf_event_paranoid` decides what can be counted, not how fast it is.
const VOLATILE_KEYS: [&str; 5] = [
    "kernel.boot-id",
    "kernel.perf-event-paranoid",
    "memory.total-bytes",
    "memory.available-bytes",
    "memory.swap-used-bytes",
];

/// Facts that earlier versions did not record, with the value that their recordings imply: the default of the kernel.
const USUAL_VALUES: [(&str, &str); 3] =
    [(MEMORY_POLICY, "default"), ("kernel.sched-autogroup", "1"), ("kernel.sched-ext", "disabled")];

/// Memory policy that processes inherit: `default`, or a policy such as `interleave:0-7` that a kernel parameter or
/// numactl has set.
pub const MEMORY_POLICY: &str = "memory.policy";

/// Facts that a program changes while it runs: `nearfar expand` adds swap, and an administrator may. A run is resumed
/// across such a change.
const CHANGED_BY_PROGRAMS: [&str; 1] = ["memory.swap-total-bytes"];

/// Prefix of the keys of user-defined facts, such as a rack or a data centre. They are not part of the fingerprint.
pub const LABEL: &str = "label.";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Stable dotted name, such as `kernel.release` or `memory.thp`; keys of sizes end in `-bytes`.
    pub key: String,
    #[serde(flatten)]
    pub value: FactValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FactValue {
    /// Value as formatted by the system.
    #[serde(rename = "value")]
    Known(String),
    /// Reason why the fact cannot be read.
    #[serde(rename = "unavailable")]
    Unavailable(String),
}

/// A key with its values in two recordings.
pub type FactChange<'a> = (&'a str, Option<&'a FactValue>, Option<&'a FactValue>);

/// Recorded facts of a machine, in display order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings {
    /// Facts with unique keys.
    pub facts: Vec<Fact>,
}

impl Fact {
    /// Whether the fact has a value that recordings of earlier versions imply by omission.
    fn is_usual(&self) -> bool {
        USUAL_VALUES
            .iter()
            .any(|(key, usual)| self.key == *key && !matches!(&self.value, FactValue::Known(value) if value != usual))
    }
}

impl Settings {
    /// Adds a fact, or replaces the value of an existing key in place.
    pub fn record(&mut self, key: &str, value: FactValue) {
        match self.facts.iter_mut().find(|fact| fact.key == key) {
            Some(fact) => fact.value = value,
            None => self.facts.push(Fact { key: key.into(), value }),
        }
    }

    /// Returns the fact with a key, known or unavailable.
    pub fn fact(&self, key: &str) -> Option<&FactValue> {
        self.facts.iter().find(|fact| fact.key == key).map(|fact| &fact.value)
    }

    /// Returns the value of a fact if it is recorded and known.
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.fact(key)? {
            FactValue::Known(value) => Some(value),
            FactValue::Unavailable(_) => None,
        }
    }

    /// Returns the value of a fact by key, or of a label by name.
    pub fn named(&self, name: &str) -> Option<&str> {
        self.get(name).or_else(|| self.get(&format!("{LABEL}{name}")))
    }

    /// Iterates over the facts that change only if the machine is changed.
    pub fn lasting(&self) -> impl Iterator<Item = &Fact> {
        self.facts.iter().filter(|fact| !VOLATILE_KEYS.contains(&fact.key.as_str()) && !fact.is_usual())
    }

    /// Returns the value of a fact as an integer.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// Returns a hash of the settings. Volatile facts, labels and the texts of reasons are excluded, so that two
    /// recordings of the same state have equal fingerprints.
    pub fn fingerprint(&self) -> String {
        let mut lasting: Vec<&Fact> = self.lasting().filter(|fact| !fact.key.starts_with(LABEL)).collect();
        lasting.sort_by(|a, b| a.key.cmp(&b.key));
        let mut hash = Sha256::new();
        for fact in lasting {
            // The length prefixes prevent two different lists of facts from producing the same bytes.
            let value = if let FactValue::Known(value) = &fact.value { value } else { "" };
            let known = u8::from(matches!(fact.value, FactValue::Known(_)));
            hash.update((fact.key.len() as u64).to_le_bytes());
            hash.update(&fact.key);
            hash.update([known]);
            hash.update((value.len() as u64).to_le_bytes());
            hash.update(value);
        }
        // 64 bits suffice: a results file has at most thousands of machine states, so collisions are negligible.
        let digest = hash.finalize();
        format!("{:016x}", u64::from_be_bytes(std::array::from_fn(|at| digest[at])))
    }

    /// Returns the differences because of which a run on the one machine cannot be resumed on the other: those of lasting
    /// facts that are not labels, not changed by programs, and known in at least one recording.
    pub fn identity_changes<'a>(&'a self, other: &'a Self) -> Vec<FactChange<'a>> {
        let is_known = |value: Option<&FactValue>| matches!(value, Some(FactValue::Known(_)));
        let mut changes = self.differences(other);
        changes.retain(|(key, mine, theirs)| {
            let is_identity = !key.starts_with(LABEL) && !CHANGED_BY_PROGRAMS.contains(key);
            is_identity && (is_known(*mine) || is_known(*theirs))
        });
        changes
    }

    /// Returns the keys whose values differ between two recordings, without volatile ones, each with both values.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<FactChange<'a>> {
        let mine = self.facts.iter().map(|fact| fact.key.as_str());
        let only_theirs = other.facts.iter().map(|fact| fact.key.as_str()).filter(|key| self.fact(key).is_none());
        let is_usual =
            |settings: &Self, key: &str| settings.facts.iter().all(|fact| fact.key != key || fact.is_usual());
        mine.chain(only_theirs)
            .filter(|key| !VOLATILE_KEYS.contains(key))
            .filter(|key| !is_usual(self, key) || !is_usual(other, key))
            .map(|key| (key, self.fact(key), other.fact(key)))
            .filter(|(_, mine, theirs)| mine != theirs)
            .collect()
    }
}

impl fmt::Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(value) => f.pad(value),
            Self::Unavailable(reason) => write!(f, "unavailable: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(facts: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in facts {
            settings.record(key, FactValue::Known((*value).into()));
        }
        settings
    }

    #[test]
    fn facts_are_found_by_key() {
        let mut settings = settings(&[("kernel.release", "6.18"), ("memory.total-bytes", "1024")]);
        settings.record("cpu.governor", FactValue::Unavailable("no cpufreq driver".into()));
        assert_eq!(settings.get("kernel.release"), Some("6.18"));
        assert_eq!(settings.number("memory.total-bytes"), Some(1024));
        assert_eq!(settings.number("kernel.release"), None);
        assert_eq!(settings.get("cpu.governor"), None);
        assert_eq!(settings.fact("cpu.governor").unwrap().to_string(), "unavailable: no cpufreq driver");
        assert_eq!(settings.fact("no.such"), None);
        settings.record("kernel.release", FactValue::Known("6.19".into()));
        assert_eq!(settings.facts.len(), 3);
        assert_eq!(settings.get("kernel.release"), Some("6.19"));
    }

    #[test]
    fn programs_change_facts_but_not_the_identity() {
        let before = settings(&[("cpu.model", "a"), ("memory.swap-total-bytes", "0"), ("memory.thp", "never")]);
        let mut after = before.clone();
        for (key, value) in [("memory.swap-total-bytes", "64"), ("memory.available-bytes", "7"), ("label.rack", "4")] {
            after.record(key, FactValue::Known(value.into()));
        }
        after.record("cpu.turbo", FactValue::Unavailable("no file".into()));
        assert_eq!(before.identity_changes(&after), []);
        after.record("memory.thp", FactValue::Known("always".into()));
        let keys: Vec<&str> = before.identity_changes(&after).iter().map(|(key, ..)| *key).collect();
        assert_eq!(keys, ["memory.thp"]);
    }

    #[test]
    fn fingerprint_depends_only_on_lasting_facts() {
        let base = settings(&[("kernel.release", "6.18"), ("memory.thp", "madvise")]);
        assert_eq!(base.fingerprint().len(), 16);
        let same = [
            settings(&[("memory.thp", "madvise"), ("kernel.release", "6.18")]),
            settings(&[("kernel.release", "6.18"), ("memory.thp", "madvise"), ("memory.available-bytes", "7")]),
            settings(&[("kernel.boot-id", "x"), ("kernel.release", "6.18"), ("memory.thp", "madvise")]),
        ];
        for other in same {
            assert_eq!(other.fingerprint(), base.fingerprint(), "{other:?}");
        }
        let mut unknown = base.clone();
        unknown.record("memory.thp", FactValue::Unavailable("a".into()));
        let different = [
            settings(&[("kernel.release", "6.19"), ("memory.thp", "madvise")]),
            settings(&[("kernel.release", "6.18"), ("memory.thp", "never")]),
            settings(&[("kernel.release", "6.18")]),
            settings(&[("kernel.release", "6.18"), ("memory.thp", "")]),
            unknown.clone(),
        ];
        for other in different {
            assert_ne!(other.fingerprint(), base.fingerprint(), "{other:?}");
        }
        let empty = settings(&[("kernel.release", "6.18"), ("memory.thp", "")]);
        assert_ne!(unknown.fingerprint(), empty.fingerprint());
        let mut labelled = base.clone();
        labelled.record("label.rack", FactValue::Known("7".into()));
        assert_eq!(labelled.fingerprint(), base.fingerprint());
        assert_eq!((labelled.named("rack"), labelled.named("memory.thp")), (Some("7"), Some("madvise")));
        let mut reworded = unknown.clone();
        reworded.record("memory.thp", FactValue::Unavailable("b".into()));
        assert_eq!(reworded.fingerprint(), unknown.fingerprint());
    }

    #[test]
    fn usual_values_equal_recordings_without_them() {
        let earlier = settings(&[("memory.thp", "madvise")]);
        let default = settings(&[("memory.thp", "madvise"), (MEMORY_POLICY, "default")]);
        let interleaved = settings(&[("memory.thp", "madvise"), (MEMORY_POLICY, "interleave:0-7")]);
        assert_eq!(default.fingerprint(), earlier.fingerprint());
        assert_ne!(interleaved.fingerprint(), default.fingerprint());
        assert_eq!(default.differences(&earlier), []);
        assert_eq!(earlier.differences(&interleaved).len(), 1);
        let usual =
            settings(&[("memory.thp", "madvise"), ("kernel.sched-ext", "disabled"), ("kernel.sched-autogroup", "1")]);
        let scheduled = settings(&[("memory.thp", "madvise"), ("kernel.sched-ext", "enabled: rusty_1.0.4")]);
        assert_eq!(usual.fingerprint(), earlier.fingerprint());
        assert_ne!(scheduled.fingerprint(), earlier.fingerprint());
        assert_eq!(earlier.identity_changes(&usual), []);
        assert_eq!(earlier.identity_changes(&scheduled).len(), 1);
    }

    #[test]
    fn differences_name_the_keys_that_differ() {
        let a = settings(&[("kernel.release", "6.18"), ("memory.thp", "madvise"), ("kernel.boot-id", "1")]);
        let b = settings(&[("kernel.release", "6.19"), ("memory.thp", "madvise"), ("kernel.boot-id", "2"), ("x", "y")]);
        let keys: Vec<&str> = a.differences(&b).into_iter().map(|(key, _, _)| key).collect();
        assert_eq!(keys, ["kernel.release", "x"]);
    }

    #[test]
    fn settings_round_trip_through_json() {
        let mut settings = settings(&[("kernel.release", "6.18")]);
        settings.record("cpu.turbo", FactValue::Unavailable("no driver".into()));
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(json, r#"[{"key":"kernel.release","value":"6.18"},{"key":"cpu.turbo","unavailable":"no driver"}]"#);
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
    }
}
