//! Limits of DRAM in names of placements, the parts `expand:SIZE` and `swap:SIZE`. Must not enforce limits.

use super::parts;
use crate::values::placement::{BUDGET_PREFIXES, DramBudget};
use crate::values::units::Bytes;

/// Splits the name of a placement into the rest and its limit of DRAM.
pub(super) fn split(text: &str) -> Result<(String, Option<DramBudget>), String> {
    let is_budget = |part: &str| BUDGET_PREFIXES.iter().any(|(prefix, _)| part.starts_with(prefix));
    let (part, rest) = parts::split_one(text, "limit DRAM", is_budget)?;
    Ok((rest, part.map(parse).transpose()?))
}

fn parse(part: &str) -> Result<DramBudget, String> {
    let limit = BUDGET_PREFIXES.iter().find_map(|(prefix, steered)| Some((part.strip_prefix(prefix)?, *steered)));
    let (size, steered) = limit.expect("`split` passes parts with a prefix");
    let dram = Bytes::parse(size).map_err(|error| format!("{part}: {error}"))?;
    if dram.0 == 0 {
        return Err(format!("{part}: the limit must be greater than zero"));
    }
    Ok(DramBudget { dram, steered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dram_limits_are_split_from_names() {
        let gib = |steered| Some(DramBudget { dram: Bytes(1 << 30), steered });
        let cases = [
            ("one-core+expand:1GiB", "one-core", gib(true)),
            ("compact+memory-local+swap:1g", "compact+memory-local", gib(false)),
            ("swap:1GiB", "kernel", gib(false)),
            ("-C 0-3 expand:1GiB -m 0", "-C 0-3 -m 0", gib(true)),
            ("compact+interleave", "compact+interleave", None),
        ];
        for (text, rest, budget) in cases {
            assert_eq!(split(text).unwrap(), (rest.to_string(), budget), "{text}");
        }
        for invalid in ["expand:", "expand:lots", "swap:0", "expand:1g+swap:1g"] {
            assert!(split(invalid).is_err(), "{invalid}");
        }
        assert_eq!(DramBudget { dram: Bytes(3 << 19), steered: false }.name(), "swap:1.5MiB");
    }
}
