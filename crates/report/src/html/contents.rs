//! The table of contents of a page: its headings of the second and third level. They are read from the rendered page, so
//! that the contents cannot lack one. Must not depend on the content of sections.

use std::collections::BTreeSet;

/// A heading with the headings below it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContentsEntry {
    pub(crate) anchor: String,
    /// Escaped text.
    pub(crate) title: String,
    pub(crate) parts: Vec<ContentsEntry>,
}

/// Adds an id to each `<h3>` below an `<h2>`, and returns the page with its contents. The id of a section is that of its
/// element, which begins before its `<h2>`. Texts are escaped, so `<h3>` in the page is always a heading.
pub(crate) fn with_anchors(html: &str) -> (String, Vec<ContentsEntry>) {
    let mut page = String::with_capacity(html.len());
    let mut contents: Vec<ContentsEntry> = Vec::new();
    let mut used = BTreeSet::new();
    let mut rest = html;
    while let Some((before, tag, after)) = next_heading(rest) {
        page += before;
        let title = after.split_once("</h").map_or(after, |(title, _)| title);
        if let ("<h3>", Some(section)) = (tag, contents.last_mut()) {
            let anchor = unused(&mut used, &format!("{}-{}", section.anchor, slug(title)));
            page += &format!("<h3 id=\"{anchor}\">");
            section.parts.push(ContentsEntry { anchor, title: title.into(), parts: Vec::new() });
        } else {
            page += tag;
            let anchor = section_id(&page).unwrap_or_default().to_string();
            contents.push(ContentsEntry { anchor, title: title.into(), parts: Vec::new() });
        }
        rest = after;
    }
    (page + rest, contents)
}

/// The text before the next heading, its tag, and the text after it.
fn next_heading(html: &str) -> Option<(&str, &str, &str)> {
    let is_heading = |at: &usize| ["<h2>", "<h3>"].iter().any(|tag| html[*at..].starts_with(tag));
    let at = html.match_indices("<h").map(|(at, _)| at).find(is_heading)?;
    let (before, rest) = html.split_at(at);
    let (tag, after) = rest.split_at("<h2>".len());
    Some((before, tag, after))
}

/// The id of the section that begins last.
fn section_id(html: &str) -> Option<&str> {
    let (_, section) = html.rsplit_once("<section")?;
    let (_, id) = section.split_once(" id=\"")?;
    id.split_once('"').map(|(id, _)| id)
}

/// Lower-case letters and digits of a title, with hyphens between words.
fn slug(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// The anchor, with a number if an earlier heading has it.
fn unused(used: &mut BTreeSet<String>, anchor: &str) -> String {
    let numbered = (2..).map(|number| format!("{anchor}-{number}"));
    let free = std::iter::once(anchor.to_string()).chain(numbered).find(|anchor| !used.contains(anchor));
    let free = free.expect("there are more numbers than headings");
    used.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(anchor: &str, title: &str, parts: Vec<ContentsEntry>) -> ContentsEntry {
        ContentsEntry { anchor: anchor.into(), title: title.into(), parts }
    }

    #[test]
    fn headings_become_targets_of_the_contents() {
        let html = "<section class=\"run\" id=\"run-1\">\n<h2>a &#38; b</h2>\n<h3>To apply it</h3>x\n</section>\n\
                    <section id=\"tables\"><h2>Tables</h2><h3>a/b</h3><h3>a b</h3></section>";
        let (page, contents) = with_anchors(html);
        let expected = [
            entry("run-1", "a &#38; b", vec![entry("run-1-to-apply-it", "To apply it", vec![])]),
            entry("tables", "Tables", vec![entry("tables-a-b", "a/b", vec![]), entry("tables-a-b-2", "a b", vec![])]),
        ];
        assert_eq!(contents, expected);
        let with_ids = html
            .replace("<h3>To", "<h3 id=\"run-1-to-apply-it\">To")
            .replace("<h3>a/b", "<h3 id=\"tables-a-b\">a/b")
            .replace("<h3>a b", "<h3 id=\"tables-a-b-2\">a b");
        assert_eq!(page, with_ids);
    }

    #[test]
    fn page_without_headings_has_no_contents() {
        assert_eq!(with_anchors("<form></form>"), ("<form></form>".into(), Vec::new()));
    }
}
