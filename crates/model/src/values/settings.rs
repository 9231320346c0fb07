//! The settings of a machine that matter for a measurement, as an ordered list of facts with stable keys.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Facts that differ from minute to minute or from boot to boot although nobody changed the machine. They are
/// recorded and shown, but they do not make it another machine state. The size of memory is among them because it
/// varies by some pages from boot to boot; the topology has the sizes of the nodes.
const VOLATILE_KEYS: [&str; 4] =
    ["kernel.boot-id", "memory.total-bytes", "memory.available-bytes", "memory.swap-used-bytes"];

/// Facts that a user gave begin so; a rack, a data centre. They do not make it another machine state.
pub const LABEL: &str = "label.";

/// One fact about a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// A stable dotted name, such as `kernel.release` or `memory.thp`; sizes end in `-bytes`.
    pub key: String,
    #[serde(flatten)]
    pub value: FactValue,
}

/// What is known of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FactValue {
    /// Its value, as the system writes it.
    #[serde(rename = "value")]
    Known(String),
    /// Why it cannot be read here.
    #[serde(rename = "unavailable")]
    Unavailable(String),
}

/// All recorded facts of a machine, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings {
    /// The facts; no key occurs twice.
    pub facts: Vec<Fact>,
}

impl Settings {
    /// Records a fact; a key that is already there keeps its place and takes the new value.
    pub fn record(&mut self, key: &str, value: FactValue) {
        match self.facts.iter_mut().find(|fact| fact.key == key) {
            Some(fact) => fact.value = value,
            None => self.facts.push(Fact { key: key.into(), value }),
        }
    }

    /// The fact with this key, whether its value is known or not.
    pub fn fact(&self, key: &str) -> Option<&FactValue> {
        self.facts.iter().find(|fact| fact.key == key).map(|fact| &fact.value)
    }

    /// The value of a fact, if it is recorded and known.
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.fact(key)? {
            FactValue::Known(value) => Some(value),
            FactValue::Unavailable(_) => None,
        }
    }

    /// The value of a fact by its key, or of a label by its name.
    pub fn named(&self, name: &str) -> Option<&str> {
        self.get(name).or_else(|| self.get(&format!("{LABEL}{name}")))
    }

    /// The facts that do not change by themselves.
    pub fn lasting(&self) -> impl Iterator<Item = &Fact> {
        self.facts.iter().filter(|fact| !VOLATILE_KEYS.contains(&fact.key.as_str()))
    }

    /// The value of a fact that is a whole number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// A short name of the machine state: equal for two recordings of the same state, different when a fact that
    /// matters differs. What is volatile, labels, and the words of a reason do not count.
    pub fn fingerprint(&self) -> String {
        let mut lasting: Vec<&Fact> = self.lasting().filter(|fact| !fact.key.starts_with(LABEL)).collect();
        lasting.sort_by(|a, b| a.key.cmp(&b.key));
        let mut hash = Sha256::new();
        for fact in lasting {
            // Lengths go in first so that no two lists of facts run together into the same bytes.
            let value = if let FactValue::Known(value) = &fact.value { value } else { "" };
            let known = u8::from(matches!(fact.value, FactValue::Known(_)));
            hash.update((fact.key.len() as u64).to_le_bytes());
            hash.update(&fact.key);
            hash.update([known]);
            hash.update((value.len() as u64).to_le_bytes());
            hash.update(value);
        }
        // 64 bits: a results file holds thousands of machine states at most, so chance does not make two equal.
        let digest = hash.finalize();
        format!("{:016x}", u64::from_be_bytes(std::array::from_fn(|at| digest[at])))
    }

    /// The keys whose values differ between two recordings, volatile ones left out, each with both values.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<(&'a str, Option<&'a FactValue>, Option<&'a FactValue>)> {
        let mine = self.facts.iter().map(|fact| fact.key.as_str());
        let only_theirs = other.facts.iter().map(|fact| fact.key.as_str()).filter(|key| self.fact(key).is_none());
        mine.chain(only_theirs)
            .filter(|key| !VOLATILE_KEYS.contains(key))
            .map(|key| (key, self.fact(key), other.fact(key)))
            .filter(|(_, mine, theirs)| mine != theirs)
            .collect()
    }
}

impl fmt::Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(value) => f.pad(value),
            Self::Unavailable(why) => write!(f, "unavailable: {why}"),
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
    fn a_fact_is_read_back_by_its_key() {
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
    fn the_fingerprint_follows_what_lasts() {
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
        let mut worded_anew = unknown.clone();
        worded_anew.record("memory.thp", FactValue::Unavailable("b".into()));
        assert_eq!(worded_anew.fingerprint(), unknown.fingerprint());
    }

    #[test]
    fn differences_name_the_keys_that_differ() {
        let a = settings(&[("kernel.release", "6.18"), ("memory.thp", "madvise"), ("kernel.boot-id", "1")]);
        let b = settings(&[("kernel.release", "6.19"), ("memory.thp", "madvise"), ("kernel.boot-id", "2"), ("x", "y")]);
        let keys: Vec<&str> = a.differences(&b).into_iter().map(|(key, _, _)| key).collect();
        assert_eq!(keys, ["kernel.release", "x"]);
    }

    #[test]
    fn settings_survive_json() {
        let mut settings = settings(&[("kernel.release", "6.18")]);
        settings.record("cpu.turbo", FactValue::Unavailable("no driver".into()));
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(json, r#"[{"key":"kernel.release","value":"6.18"},{"key":"cpu.turbo","unavailable":"no driver"}]"#);
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
    }
}
