//! The size of a benchmark, from its command line.

/// Number of repetitions of each row.
pub struct Size {
    /// Whether this is a test and not a benchmark: the figures mean nothing.
    pub is_smoke: bool,
    pub repeats: usize,
}

/// Returns the number after `option`, or `usual`; in tests, `smoke`.
pub fn size(option: &str, smoke: usize, usual: usize) -> Size {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Only `cargo bench` passes --bench.
    let is_smoke = !words.iter().any(|word| word == "--bench");
    let given = words.iter().position(|word| word == option).and_then(|at| words.get(at + 1)?.parse().ok());
    Size { is_smoke, repeats: if is_smoke { smoke } else { given.unwrap_or(usual) } }
}
