//! How much DRAM a trial's program gets, and who decides what of it is far: what the `expand:` or `swap:` part of a
//! placement's name says. Must not know how a budget is kept.

use serde::{Deserialize, Serialize};

use crate::values::units::Bytes;

/// What such parts begin with, and whether the pilot steers.
const PREFIXES: [(&str, bool); 2] = [("expand:", true), ("swap:", false)];

/// At most so much memory near, the rest far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DramBudget {
    /// Bytes of DRAM.
    pub dram: Bytes,
    /// Whether swap is steered, as by `nearfar expand`; else it is the kernel's own.
    pub steered: bool,
}

impl DramBudget {
    /// The part of a placement's name that says this: `expand:1GiB`.
    pub fn name(self) -> String {
        let (prefix, _) = PREFIXES[usize::from(!self.steered)];
        format!("{prefix}{}", self.dram)
    }

    /// The same with every byte, where [`DramBudget::name`] rounds.
    pub fn exact_name(self) -> String {
        if Bytes::parse(&self.dram.to_string()) == Ok(self.dram) {
            return self.name();
        }
        let (prefix, _) = PREFIXES[usize::from(!self.steered)];
        format!("{prefix}{}", self.dram.0)
    }

    pub(super) fn reason(self) -> String {
        let how = if self.steered { "steered" } else { "by the kernel's own swap" };
        format!("at most {} of DRAM, the rest far, {how}", self.dram)
    }
}

/// Takes a placement's name apart: all else that it says, and its budget.
pub(super) fn split(text: &str) -> Result<(String, Option<DramBudget>), String> {
    let joint = if text.trim_start().starts_with('-') { " " } else { "+" };
    let parts = text.split(joint).map(str::trim).filter(|part| !part.is_empty());
    let (budgets, rest): (Vec<&str>, Vec<&str>) =
        parts.partition(|part| PREFIXES.iter().any(|(prefix, _)| part.starts_with(prefix)));
    if let [first, second, ..] = budgets[..] {
        return Err(format!("{first} and {second} both say how much DRAM there is; give one of them"));
    }
    let budget = budgets.first().map(|part| parse(part)).transpose()?;
    let rest = if rest.is_empty() && budget.is_some() { "kernel".into() } else { rest.join(joint) };
    Ok((if budget.is_some() { rest } else { text.into() }, budget))
}

fn parse(part: &str) -> Result<DramBudget, String> {
    let found = PREFIXES.iter().find_map(|(prefix, steered)| Some((part.strip_prefix(prefix)?, *steered)));
    let (size, steered) = found.expect("the caller has seen a prefix");
    let dram = Bytes::parse(size).map_err(|why| format!("{part}: {why}"))?;
    if dram.0 == 0 {
        return Err(format!("{part}: without DRAM nothing runs"));
    }
    Ok(DramBudget { dram, steered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_part_of_a_name() {
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
        for wrong in ["expand:", "expand:lots", "swap:0", "expand:1g+swap:1g"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
        assert_eq!(DramBudget { dram: Bytes(3 << 19), steered: false }.name(), "swap:1.5MiB");
    }
}
