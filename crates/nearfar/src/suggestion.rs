//! Hints for mistyped names: the most similar name, and how to list all names.

use model::placements::placement::policy_infos;
use model::values::suggest::closest;

/// Returns a hint with the choice most similar to `name`, if any is similar, followed by how to list all choices.
pub fn hint(name: &str, choices: &[&str], list: &str) -> String {
    match closest(name, choices.iter().copied()) {
        Some(choice) => format!("{} {list}", did_you_mean(choice)),
        None => list.to_string(),
    }
}

/// Returns a hint for the first unknown policy in these placements. Numactl options, CPU lists and parts with a value,
/// such as `node:1`, are skipped.
pub fn policy_hint<'a>(placements: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let names: Vec<&str> = policy_infos().into_iter().map(|policy| policy.name).collect();
    let parts = placements.into_iter().filter(|text| !text.starts_with('-')).flat_map(|text| text.split('+'));
    let choice = parts
        .filter(|part| !part.contains(':') && !names.contains(part))
        .find_map(|part| closest(part, names.iter().copied()))?;
    Some(format!("{} list policies with nearfar list policies", did_you_mean(choice)))
}

/// Returns the question that all suggestions begin with.
pub fn did_you_mean(choice: &str) -> String {
    format!("did you mean '{choice}'?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_policies_suggest_the_most_similar_one() {
        let cases = [
            ("compactt", Some("compact")),
            ("compact+interleav", Some("interleave")),
            ("onecore+irq:1", Some("one-core")),
            ("compact", None),
            ("0-3", None),
            ("-C 0", None),
            ("xyzzy", None),
        ];
        for (text, expected) in cases {
            let hint = policy_hint([&text.to_string()]);
            let expected =
                expected.map(|name| format!("did you mean '{name}'? list policies with nearfar list policies"));
            assert_eq!(hint, expected, "{text}");
        }
    }
}
