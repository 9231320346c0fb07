//! Text on a terminal: width, characters, colours. Colours only repeat what the text states.

use anstyle::{AnsiColor, Style};

/// The format of text for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Number of columns.
    pub width: usize,
    /// ASCII only, for terminals and logs without Unicode.
    pub ascii: bool,
    /// Whether to write colours; the caller checks the terminal and `NO_COLOR`.
    pub colour: bool,
}

/// The meaning of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    /// Less important: units, reasons.
    Quiet,
    /// Better than the baseline, or verified.
    Good,
    /// Worse than the baseline, or not verified.
    Bad,
    /// Must be read before the values.
    Warning,
}

/// Begin marks of tones inside text before its layout. They have width zero, so tables are the same with and without
/// colours; [`clean`] removes them from user-provided text.
const MARKS: [(Tone, char); 5] = [
    (Tone::Strong, '\u{2061}'),
    (Tone::Quiet, '\u{2062}'),
    (Tone::Good, '\u{2063}'),
    (Tone::Bad, '\u{2064}'),
    (Tone::Warning, '\u{206a}'),
];
const END: char = '\u{206b}';
/// Joins words in a table cell; printed as a space.
pub(crate) const HARD_SPACE: char = '\u{a0}';

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "strong",
            Self::Quiet => "quiet",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warning => "warning",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Quiet => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
        }
    }
}

/// Marks each word of a text, so that a table may wrap it between words.
pub(crate) fn with_symbol(text: &str, tone: Tone) -> String {
    let Some((_, begin)) = MARKS.iter().find(|(marked, _)| *marked == tone) else { return text.into() };
    let words: Vec<String> = text
        .split(' ')
        .map(|word| if word.is_empty() { String::new() } else { format!("{begin}{word}{END}") })
        .collect();
    words.join(" ")
}

/// Converts marks to colours, or removes them, and converts to ASCII if requested.
pub(crate) fn finished(text: &str, style: &TextStyle) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if let Some((tone, _)) = MARKS.iter().find(|(_, mark)| *mark == c) {
            if style.colour {
                out.push_str(&tone.style().render().to_string());
            }
        } else if c == END {
            if style.colour {
                out.push_str(&Style::new().bold().render_reset().to_string());
            }
        } else if c == HARD_SPACE {
            out.push(' ');
        } else if style.ascii && !c.is_ascii() {
            out.push(ascii_for(c));
        } else {
            out.push(c);
        }
    }
    out
}

fn ascii_for(c: char) -> char {
    match c {
        '│' | '├' => '|',
        '└' => '`',
        '─' => '-',
        '×' => 'x',
        '·' => ',',
        'µ' => 'u',
        '…' => '.',
        _ => '?',
    }
}

/// Makes user-provided text safe to print: without escape sequences, bidirectional controls and marks.
pub(crate) fn clean(text: &str) -> String {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars()
        .map(|c| match c {
            '\n' | '\t' | HARD_SPACE => ' ',
            c if harmful(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Truncates a text to `most` characters, the last of which is then `…`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Wraps a text between words. The first line has at most `first` characters, the others at most `rest`; a longer word
/// gets a separate line.
pub(crate) fn wrapped(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let (mut used, mut space) = (0, first);
    for word in text.split(' ') {
        let length = word.chars().filter(|c| *c != END && !MARKS.iter().any(|(_, mark)| mark == c)).count();
        if used > 0 && used + 1 + length > space {
            lines.push(String::new());
            (used, space) = (0, rest);
        }
        let line = lines.last_mut().expect("it begins with one line and only grows");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines
}

/// Returns a text wrapped to the width, as finished lines.
pub(crate) fn paragraph(text: &str, style: &TextStyle) -> String {
    wrapped(text, style.width, style.width).iter().map(|line| format!("{}\n", finished(line, style))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_appear_only_on_request() {
        let text = with_symbol("all valid", Tone::Good);
        let style = TextStyle { width: 80, ascii: false, colour: false };
        assert_eq!(finished(&text, &style), "all valid");
        let coloured = finished(&text, &TextStyle { colour: true, ..style });
        assert_eq!(coloured, "\u{1b}[32mall\u{1b}[0m \u{1b}[32mvalid\u{1b}[0m");
    }

    #[test]
    fn user_text_cannot_control_the_terminal() {
        let cases = [
            ("a\u{1b}[31mb", "a\u{fffd}[31mb"),
            ("two\nlines", "two lines"),
            ("\u{202e}abc", "\u{fffd}abc"),
            ("\u{2063}x\u{206b}", "\u{fffd}x\u{fffd}"),
            ("größe 5µs", "größe 5µs"),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_wrap_between_words() {
        assert_eq!(wrapped("aa bb cc", 5, 5), ["aa bb", "cc"]);
        assert_eq!(wrapped("aaaaaaaa b", 5, 5), ["aaaaaaaa", "b"]);
        assert_eq!(wrapped(&with_symbol("aa bb", Tone::Bad), 5, 5).len(), 1);
        assert_eq!(wrapped("aa bb cc dd", 5, 2), ["aa bb", "cc", "dd"]);
    }
}
