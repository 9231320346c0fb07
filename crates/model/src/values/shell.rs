//! How a command is typed into a POSIX shell, for lines that people paste.

/// The words with quotes where a shell would take them apart or replace something in them. Braces stay bare: what
/// they hold here is no list, and `{threads}` should be readable.
pub fn quote_argv<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_arg(word.as_ref())).collect();
    words.join(" ")
}

/// One word as a shell takes it.
pub fn quote_arg(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-{}".contains(c);
    match word {
        "" => "''".into(),
        word if word.chars().all(plain) => word.into(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_words() {
        let words = ["./app", "", "two words", "it's", "$HOME", "a*b", "-t{threads}", "\"", "é"];
        assert_eq!(quote_argv(&words), r#"./app '' 'two words' 'it'\''s' '$HOME' 'a*b' -t{threads} '"' 'é'"#);
    }
}
