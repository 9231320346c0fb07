//! Limits of DRAM in names of placements: the parts `expand:SIZE` and `swap:SIZE`, and `compressed` next to one of them.
//! Must not enforce limits.

use super::parts;
use crate::values::placement::{BUDGET_PREFIXES, COMPRESSED, DramBudget};
use crate::values::units::Bytes;

/// Splits the name of a placement into the rest and its limit of DRAM.
pub(super) fn split(text: &str) -> Result<(String, Option<DramBudget>), String> {
    let is_budget = |part: &str| BUDGET_PREFIXES.iter().any(|(prefix, _)| part.starts_with(prefix));
    let (part, rest) = parts::split_one(text, "limit DRAM", is_budget)?;
    let (words, rest) = parts::split(&rest, |part| part == COMPRESSED);
    let compressed = !words.is_empty();
    match part {
        Some(part) => Ok((or_kernel(rest), Some(DramBudget { compressed, ..parse(part)? }))),
        None if compressed => Err(format!("{COMPRESSED} requires a limit of DRAM: expand:SIZE or swap:SIZE")),
        None => Ok((rest, None)),
    }
}

/// Returns the placement whose CPUs the kernel chooses if nothing else is named.
fn or_kernel(rest: String) -> String {
    if rest.is_empty() { "kernel".into() } else { rest }
}

fn parse(part: &str) -> Result<DramBudget, String> {
    let limit = BUDGET_PREFIXES.iter().find_map(|(prefix, steered)| Some((part.strip_prefix(prefix)?, *steered)));
    let (size, steered) = limit.expect("`split` passes parts with a prefix");
    let dram = Bytes::parse(size).map_err(|error| format!("{part}: {error}"))?;
    if dram.0 == 0 {
        return Err(format!("{part}: the limit must be greater than zero"));
    }
    Ok(DramBudget { dram, steered, compressed: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dram_limits_are_split_from_names() {
        let gib = |steered| Some(DramBudget { dram: Bytes(1 << 30), steered, compressed: false });
        let compressed = |steered| gib(steered).map(|budget| DramBudget { compressed: true, ..budget });
        let cases = [
            ("one-core+expand:1GiB", "one-core", gib(true)),
            ("compact+memory-local+swap:1g", "compact+memory-local", gib(false)),
            ("swap:1GiB", "kernel", gib(false)),
            ("-C 0-3 expand:1GiB -m 0", "-C 0-3 -m 0", gib(true)),
            ("one-core+expand:1GiB+compressed", "one-core", compressed(true)),
            ("swap:1GiB+compressed", "kernel", compressed(false)),
            ("-C 0-3 compressed expand:1GiB", "-C 0-3", compressed(true)),
            ("compact+interleave", "compact+interleave", None),
        ];
        for (text, rest, budget) in cases {
            assert_eq!(split(text).unwrap(), (rest.to_string(), budget), "{text}");
        }
        for invalid in ["expand:", "expand:lots", "swap:0", "expand:1g+swap:1g", "compact+compressed"] {
            assert!(split(invalid).is_err(), "{invalid}");
        }
        let budget = DramBudget { dram: Bytes(3 << 19), steered: false, compressed: false };
        assert_eq!(budget.name(), "swap:1.5MiB");
        assert_eq!(DramBudget { compressed: true, ..budget }.name(), "swap:1.5MiB+compressed");
    }
}
