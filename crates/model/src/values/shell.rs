//! Quotes commands for a POSIX shell, for lines that users paste. Must not depend on the shell's extensions.

/// Words that a shell treats as syntax at the start of a command.
const RESERVED: [&str; 18] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while", "repeat",
];

/// Joins arguments into a shell command, with quotes where the shell would split or expand them. Names in braces are not
/// quoted: the shell does not expand them, and `{threads}` stays readable.
pub fn quote_argv<S: AsRef<str>>(words: &[S]) -> String {
    let first = words.first().map(|word| quote_first(word.as_ref()));
    let rest = words.iter().skip(1).map(|word| quote_arg(word.as_ref()));
    first.into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

/// Quotes the first word, which could also be an assignment or a keyword.
fn quote_first(word: &str) -> String {
    let is_syntax = word.contains('=') || RESERVED.contains(&word);
    let quoted = quote_arg(word);
    if is_syntax && quoted == word { format!("'{word}'") } else { quoted }
}

/// Quotes one argument if necessary. Control characters are written as escapes of printf(1), because they would change
/// the terminal or the line.
pub fn quote_arg(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-{}".contains(c);
    if word.chars().any(char::is_control) {
        return printed(word);
    }
    // zsh replaces `=name` by the path of a program.
    let is_plain = !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) && has_only_names(word);
    if is_plain { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Whether each brace belongs to a name in braces. The shell expands `{a,b}` and `{1..3}`.
fn has_only_names(word: &str) -> bool {
    let mut pieces = word.split('{');
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let is_closed =
        |piece: &str| piece.split_once('}').is_some_and(|(name, rest)| is_name(name) && !rest.contains('}'));
    pieces.next().is_some_and(|before| !before.contains('}')) && pieces.all(is_closed)
}

/// A word as the output of printf(1), which every shell has. `$` is not escaped, so that lines for programs which expand
/// `$` can double each one. The shell removes line feeds at the end of the output, so they follow in quotes.
fn printed(word: &str) -> String {
    let text = word.trim_end_matches('\n');
    let escape = |c: char| match c {
        '%' => "%%".into(),
        c if c.is_control() || (c.is_ascii_punctuation() && !"_@+=:,./$".contains(c)) => {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\{byte:03o}")).collect()
        }
        c => String::from(c),
    };
    let end = &word[text.len()..];
    let text: String = text.chars().map(escape).collect();
    let end = if end.is_empty() { String::new() } else { format!("'{end}'") };
    if text.is_empty() { end } else { format!("\"`printf '{text}'`\"{end}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_parses_the_original_arguments() {
        let words = ["./app", "", "two words", "it's", "$HOME", "a*b", "-t{threads}", "\"", "é"];
        assert_eq!(quote_argv(&words), r#"./app '' 'two words' 'it'\''s' '$HOME' 'a*b' -t{threads} '"' 'é'"#);
    }

    #[test]
    fn only_names_in_braces_stay_unquoted() {
        let cases = [
            ("-t{threads}", "-t{threads}"),
            ("{a,b}", "'{a,b}'"),
            ("{1..3}", "'{1..3}'"),
            ("{", "'{'"),
            ("a}", "'a}'"),
            ("{}", "'{}'"),
            ("{a}}", "'{a}}'"),
            ("{{a}", "'{{a}'"),
            ("a\tb", "\"`printf 'a\\011b'`\""),
            ("-%'\u{1b}\n", "\"`printf '\\055%%\\047\\033'`\"'\n'"),
            ("$HOME\t", "\"`printf '$HOME\\011'`\""),
        ];
        for (word, expected) in cases {
            assert_eq!(quote_arg(word), expected, "{word:?}");
        }
        assert_eq!(quote_argv(&["A=b", "A=b"]), "'A=b' A=b");
        assert_eq!(quote_argv(&["if", "if"]), "'if' if");
    }
}
