//! Which of the valid words a mistyped one was probably meant to be.

/// The choices, the most similar to `word` first; equally similar ones keep their order.
pub fn suggestions<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let mut choices: Vec<(usize, &str)> = choices
        .into_iter()
        // A beginning is what someone types who does not remember the rest.
        .map(|choice| {
            if !word.is_empty() && choice.starts_with(&word) { (0, choice) } else { (1 + edits(&word, choice), choice) }
        })
        .collect();
    choices.sort_by_key(|(distance, _)| *distance);
    choices.into_iter().map(|(_, choice)| choice).collect()
}

/// How many insertions, deletions and replacements make one word the other (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (from, to, expected) in
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("compat", "compact", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(edits(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn what_was_meant_comes_first() {
        let choices = ["kernel", "one-core", "compact", "cores-one-l3", "interleave"];
        for (word, expected) in
            [("compat", "compact"), ("KERNAL", "kernel"), ("onecore", "one-core"), ("inter", "interleave")]
        {
            assert_eq!(suggestions(word, choices)[0], expected, "{word}");
        }
    }
}
