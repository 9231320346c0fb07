//! The part `loose` of a placement's name: every thread may run on all CPUs of the placement, as under `taskset -c`.

use super::parts;

/// The part of the name.
pub(super) const LOOSE: &str = "loose";

/// Splits the name of a placement into the rest and whether it is loose.
pub(super) fn split(text: &str) -> Result<(String, bool), String> {
    let (loose, rest) = parts::split(text, |part| part == LOOSE);
    match (loose.len(), rest.is_empty()) {
        (0, _) => Ok((rest, false)),
        (1, false) => Ok((rest, true)),
        (1, true) => Err(no_cpus()),
        _ => Err("loose is given more than once".into()),
    }
}

/// Returns the error of a loose placement without CPUs.
pub(super) fn no_cpus() -> String {
    "loose requires CPUs between which the threads may move; add a CPU policy, as in compact+loose".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_is_split_from_names() {
        let cases = [
            ("smt-one-l3+loose", "smt-one-l3", true),
            ("compact+loose+interleave", "compact+interleave", true),
            ("-C 0-5 loose -m 0", "-C 0-5 -m 0", true),
            ("compact+interleave", "compact+interleave", false),
        ];
        for (text, rest, loose) in cases {
            assert_eq!(split(text).unwrap(), (rest.to_string(), loose), "{text}");
        }
        for invalid in ["loose", "compact+loose+loose"] {
            assert!(split(invalid).is_err(), "{invalid}");
        }
    }
}
