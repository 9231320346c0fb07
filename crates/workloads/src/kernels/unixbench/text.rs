//! The text that the shell scripts sort: the number of lines, words, bytes and matching lines is that of UnixBench's
//! text. It is the same on every machine.

use crate::random::Random;

/// The word that the scripts search for.
pub(super) const WORD: &str = "the";

const LINES: usize = 362;
const WORDS: usize = 1200;
const BYTES: usize = 8546;
const LINES_WITH_WORD: usize = 35;
/// Without an h, so that the word occurs only where it is inserted.
const LETTERS: &[u8] = b"abcdefgijklmnopqrstuvwxyz";

pub(super) fn lines() -> String {
    let mut random = Random::of_thread(0, 0);
    let letters = BYTES - WORDS - LINES_WITH_WORD * WORD.len();
    let mut remaining = Remaining { words: WORDS - LINES_WITH_WORD, letters };
    let mut text = String::with_capacity(BYTES);
    for line in 0..LINES {
        let has_word = line % (LINES / LINES_WITH_WORD) == 0 && line / (LINES / LINES_WITH_WORD) < LINES_WITH_WORD;
        let words = WORDS / LINES + usize::from(line < WORDS % LINES);
        let mut words: Vec<String> = (usize::from(has_word)..words).map(|_| remaining.word(&mut random)).collect();
        words.extend(has_word.then(|| WORD.to_string()));
        text += &words.join(" ");
        text.push('\n');
    }
    text
}

/// The remaining words and letters to generate.
struct Remaining {
    words: usize,
    letters: usize,
}

impl Remaining {
    /// Returns a word of the mean length of the remaining ones.
    fn word(&mut self, random: &mut Random) -> String {
        let length = self.letters / self.words;
        self.letters -= length;
        self.words -= 1;
        (0..length).map(|_| char::from(LETTERS[random.below(LETTERS.len())])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_the_size_of_the_original() {
        let text = lines();
        let with_word = text.lines().filter(|line| line.contains(WORD)).count();
        let sizes = (text.lines().count(), text.split_whitespace().count(), text.len(), with_word);
        assert_eq!(sizes, (LINES, WORDS, BYTES, LINES_WITH_WORD));
    }
}
