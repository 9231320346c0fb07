//! Suggestions for mistyped names.

use strsim::levenshtein;

/// Returns the choices sorted by similarity to `word`, most similar first; equally similar ones keep their order.
pub fn suggestions<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let mut choices: Vec<(usize, &str)> = choices
        .into_iter()
        // A prefix ranks first: users often remember only the beginning of a name.
        .map(|choice| {
            if !word.is_empty() && choice.starts_with(&word) {
                (0, choice)
            } else {
                (1 + levenshtein(&word, choice), choice)
            }
        })
        .collect();
    choices.sort_by_key(|(distance, _)| *distance);
    choices.into_iter().map(|(_, choice)| choice).collect()
}

/// Returns the choice that `word` was probably meant to be: one that begins with it, or else the one with the fewest
/// edits, if those are at most a third of its letters. `None` if no choice is similar.
pub fn closest<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let choice = suggestions(word, choices).into_iter().next()?;
    let word = word.to_lowercase();
    let edits_max = word.chars().count().div_ceil(3);
    (word.len() > 1 && choice.starts_with(&word) || levenshtein(&word, choice) <= edits_max).then_some(choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_similar_choice_comes_first() {
        let choices = ["kernel", "one-core", "compact", "cores-one-l3", "interleave"];
        for (word, expected) in
            [("compat", "compact"), ("KERNAL", "kernel"), ("onecore", "one-core"), ("inter", "interleave")]
        {
            assert_eq!(suggestions(word, choices)[0], expected, "{word}");
        }
    }

    #[test]
    fn closest_choice_is_similar_or_none() {
        let choices = ["stream", "gemm", "io", "memory"];
        let cases =
            [("strem", Some("stream")), ("GEMM", Some("gemm")), ("mem", Some("memory")), ("xyzzy", None), ("", None)];
        for (word, expected) in cases {
            assert_eq!(closest(word, choices), expected, "{word}");
        }
    }
}
