//! Quotes commands for a POSIX shell, for lines that users paste.

/// Joins arguments into a shell command, with quotes where the shell would split or expand them. Braces are not quoted:
/// without a comma, the shell does not expand them, and `{threads}` stays readable.
pub fn quote_argv<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_arg(word.as_ref())).collect();
    words.join(" ")
}

/// Quotes one argument if necessary.
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
    fn shell_parses_the_original_arguments() {
        let words = ["./app", "", "two words", "it's", "$HOME", "a*b", "-t{threads}", "\"", "é"];
        assert_eq!(quote_argv(&words), r#"./app '' 'two words' 'it'\''s' '$HOME' 'a*b' -t{threads} '"' 'é'"#);
    }
}
