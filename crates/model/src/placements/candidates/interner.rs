//! Numbers for keys, so that comparing two structures compares two numbers.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

/// Assigns equal numbers to equal keys. The hasher is not seeded, so numbers are deterministic.
#[derive(Default)]
pub(super) struct Interner {
    numbers: HashMap<Vec<u32>, u32, BuildHasherDefault<DefaultHasher>>,
}

impl Interner {
    pub fn intern(&mut self, key: &[u32]) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(key.to_vec(), number);
        number
    }
}
