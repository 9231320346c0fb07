//! Sets of CPUs and of memory nodes, in the notations of taskset, numactl and the kernel.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Linux CPU number (hwloc: OS index of a PU). Numbers may have gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

/// Linux number of a memory node. Numbers may have gaps and need not begin at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// An id that an [`IdSet`] can contain.
pub trait Id: Copy {
    /// Noun for error messages: `cpu` or `memory node`.
    const NOUN: &'static str;
    fn from_number(number: u32) -> Self;
    fn number(self) -> u32;
}

impl Id for CpuId {
    const NOUN: &'static str = "CPU";
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

impl Id for NodeId {
    const NOUN: &'static str = "memory node";
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub type CpuSet = IdSet<CpuId>;
pub type NodeSet = IdSet<NodeId>;

impl CpuSet {
    /// `CPU 2`, `CPUs 0-3`.
    pub fn described(&self) -> String {
        if self.len() == 1 { format!("CPU {self}") } else { format!("CPUs {self}") }
    }
}

impl NodeSet {
    /// `node 0`, `nodes 0-1`.
    pub fn described(&self) -> String {
        if self.len() == 1 { format!("node {self}") } else { format!("nodes {self}") }
    }
}

/// Linux allows at most 8192 CPUs and 1024 nodes; a larger number is a typo, and this bound prevents `0-4294967295`
/// from filling memory.
const NUMBER_MAX: u32 = 65_535;

/// An ordered set of small numbers, one bit each.
pub struct IdSet<T> {
    /// Bit `n % 64` of word `n / 64` is set if the set contains `n`; no trailing zero words, so that equal sets are
    /// equal vectors.
    words: Vec<u64>,
    tag: PhantomData<T>,
}

impl<T: Id> IdSet<T> {
    pub fn new() -> Self {
        Self { words: Vec::new(), tag: PhantomData }
    }

    /// Parses a list in the notation of taskset, numactl and sysfs, such as `0-3,8,10-18:2`; empty text is the empty
    /// set.
    pub fn parse_list(text: &str) -> Result<Self, String> {
        let mut set = Self::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last, stride) = range(part).ok_or_else(|| {
                format!("'{part}' in '{}' is not a {} or a range; use the form 0-3,8,10-18:2", text.trim(), T::NOUN)
            })?;
            if last > NUMBER_MAX {
                return Err(format!("{} {last} in '{}' is beyond any machine", T::NOUN, text.trim()));
            }
            if first > last {
                return Err(format!("the range '{part}' in '{}' runs backwards", text.trim()));
            }
            (first..=last).step_by(stride as usize).for_each(|number| set.insert(T::from_number(number)));
        }
        Ok(set)
    }

    /// Parses a hexadecimal mask; `0x` and commas between groups of eight digits are allowed.
    pub fn parse_mask(text: &str) -> Result<Self, String> {
        let digits: String = text.trim().trim_start_matches("0x").chars().filter(|c| *c != ',').collect();
        if digits.is_empty() || digits.len() > NUMBER_MAX as usize / 4 {
            return Err(format!("'{text}' is not a hexadecimal mask"));
        }
        let mut set = Self::new();
        for (position, digit) in digits.chars().rev().enumerate() {
            let nibble =
                digit.to_digit(16).ok_or_else(|| format!("'{digit}' in the mask '{text}' is not hexadecimal"))?;
            for bit in (0..4).filter(|bit| nibble >> bit & 1 == 1) {
                set.insert(T::from_number(position as u32 * 4 + bit));
            }
        }
        Ok(set)
    }

    /// Formats the set as a hexadecimal mask in groups of eight digits, such as `ff,ffffffff`; the empty set is `0`.
    pub fn to_mask(&self) -> String {
        let mut groups: Vec<u32> = self.words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect();
        while groups.last() == Some(&0) {
            groups.pop();
        }
        let Some(top) = groups.pop() else { return "0".into() };
        let rest: String = groups.iter().rev().map(|group| format!(",{group:08x}")).collect();
        format!("{top:x}{rest}")
    }

    pub fn insert(&mut self, id: T) {
        let number = id.number() as usize;
        if self.words.len() <= number / 64 {
            self.words.resize(number / 64 + 1, 0);
        }
        self.words[number / 64] |= 1 << (number % 64);
    }

    pub fn remove(&mut self, id: T) {
        let number = id.number() as usize;
        if let Some(word) = self.words.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
        self.trim();
    }

    pub fn contains(&self, id: T) -> bool {
        let number = id.number() as usize;
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// Iterates over the ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| T::from_number(index as u32 * 64 + bit))
        })
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.by_word(other, |a, b| a & b)
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.by_word(other, |a, b| a | b)
    }

    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.by_word(other, |a, b| a & !b)
    }

    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    pub fn intersects(&self, other: &Self) -> bool {
        !self.intersection(other).is_empty()
    }

    fn by_word(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let length = self.words.len().max(other.words.len());
        let word = |set: &Self, index: usize| set.words.get(index).copied().unwrap_or(0);
        let words = (0..length).map(|index| combine(word(self, index), word(other, index))).collect();
        let mut set = Self { words, tag: PhantomData };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

/// Parses `5`, `0-3` or `0-8:2` into first, last and stride.
fn range(part: &str) -> Option<(u32, u32, u32)> {
    let (span, stride) = part.split_once(':').unwrap_or((part, "1"));
    let (first, last) = span.split_once('-').unwrap_or((span, span));
    let number = |text: &str| text.chars().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?;
    let stride = number(stride)?;
    (stride > 0).then_some((number(first)?, number(last)?, stride))
}

impl<T: Id> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        let mut set = Self::new();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

/// The list notation: `0-3,8`; the empty set is the empty text.
impl<T: Id> fmt::Display for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in self.iter().map(T::number) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => runs.push((number, number)),
            }
        }
        let text: Vec<String> = runs
            .iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        f.pad(&text.join(","))
    }
}

impl<T: Id> fmt::Debug for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

// Written by hand because a derive would require the same trait of the id type, which is only a tag here.
impl<T> Clone for IdSet<T> {
    fn clone(&self) -> Self {
        Self { words: self.words.clone(), tag: PhantomData }
    }
}
impl<T: Id> Default for IdSet<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T> PartialEq for IdSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}
impl<T> Eq for IdSet<T> {}
impl<T> PartialOrd for IdSet<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for IdSet<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.words.cmp(&other.words)
    }
}
impl<T> std::hash::Hash for IdSet<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl<T: Id> Serialize for IdSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: Id> Deserialize<'de> for IdSet<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_list(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_parse_as_in_taskset() {
        let cases = [
            ("", ""),
            ("0", "0"),
            ("0-3,8", "0-3,8"),
            ("10-18:2", "10,12,14,16,18"),
            ("3,1,2", "1-3"),
            (" 1 , 2 ", "1-2"),
            ("63,64", "63-64"),
        ];
        for (text, expected) in cases {
            assert_eq!(CpuSet::parse_list(text).unwrap().to_string(), expected, "{text}");
        }
        for text in ["a", "1-", "-1", "3-1", "0-4294967295", "1:0", "0-4:0", "99999999999", "+1"] {
            assert!(CpuSet::parse_list(text).is_err(), "{text}");
        }
        let error = NodeSet::parse_list("0,x").unwrap_err();
        assert!(error.contains("'x'") && error.contains("memory node"), "{error}");
    }

    #[test]
    fn masks_parse_as_in_the_kernel() {
        for (mask, list) in [("f", "0-3"), ("0x5", "0,2"), ("ff,ffffffff", "0-39"), ("1,00000000", "32"), ("0", "")] {
            assert_eq!(CpuSet::parse_mask(mask).unwrap().to_string(), list, "{mask}");
        }
        assert_eq!(CpuSet::parse_list("0-39").unwrap().to_mask(), "ff,ffffffff");
        assert_eq!(CpuSet::parse_list("64").unwrap().to_mask(), "1,00000000,00000000");
        assert_eq!(CpuSet::new().to_mask(), "0");
        assert!(CpuSet::parse_mask("xyz").is_err());
    }

    proptest! {
        #[test]
        fn set_operations_agree_with_btree_set(a in proptest::collection::btree_set(0u32..300, 0..40), b in proptest::collection::btree_set(0u32..300, 0..40)) {
            let set = |numbers: &std::collections::BTreeSet<u32>| numbers.iter().map(|n| CpuId(*n)).collect::<CpuSet>();
            let numbers = |set: CpuSet| set.iter().map(|id| id.0).collect::<Vec<_>>();
            prop_assert_eq!(numbers(set(&a).union(&set(&b))), a.union(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(numbers(set(&a).intersection(&set(&b))), a.intersection(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(numbers(set(&a).difference(&set(&b))), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(CpuSet::parse_list(&set(&a).to_string()).unwrap(), set(&a));
            prop_assert_eq!(CpuSet::parse_mask(&set(&a).to_mask()).unwrap(), set(&a));
            prop_assert_eq!(set(&a).len(), a.len());
        }
    }
}
