//! Parts of a placement's name besides CPUs and memory: words after `+` in policies, separate words among numactl's
//! options. Does not know what the parts mean.

/// Splits the parts that `is_part` accepts from the name of a placement. The rest is empty if there are no others.
pub(super) fn split(text: &str, is_part: impl Fn(&str) -> bool) -> (Vec<&str>, String) {
    let (words, separator): (Vec<&str>, &str) = if super::is_explicit(text) {
        (text.split_whitespace().collect(), " ")
    } else {
        (text.split('+').map(str::trim).collect(), "+")
    };
    let (parts, rest): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| is_part(word));
    (parts, rest.join(separator))
}

/// Like [`split`], for a part that may be given once. If there are no others, the rest is `kernel`. `purpose` completes the
/// message "irq:1 and irq:2 both ...".
pub(super) fn split_one<'a>(
    text: &'a str,
    purpose: &str,
    is_part: impl Fn(&str) -> bool,
) -> Result<(Option<&'a str>, String), String> {
    let (parts, rest) = split(text, is_part);
    match parts[..] {
        [first, second, ..] => Err(format!("{first} and {second} both {purpose}; use one of them")),
        [part] if rest.is_empty() => Ok((Some(part), "kernel".into())),
        _ => Ok((parts.first().copied(), rest)),
    }
}

/// Adds a part to the name of a placement, before what distinguishes candidates of a search: `compact+PART, 3 threads`.
pub(super) fn added(name: &str, part: &str) -> String {
    let end = [", ", " | "].iter().filter_map(|suffix| name.find(suffix)).min().unwrap_or(name.len());
    let separator = if super::is_explicit(name) { ' ' } else { '+' };
    format!("{}{separator}{part}{}", &name[..end], &name[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_before_the_number_of_threads() {
        for (name, with) in [
            ("compact", "compact+files:local"),
            ("compact, 3 threads", "compact+files:local, 3 threads"),
            ("one-core, 1 thread | server on 1", "one-core+files:local, 1 thread | server on 1"),
            ("one-core | server on any CPU", "one-core+files:local | server on any CPU"),
            ("-C 0,1 -m 0", "-C 0,1 -m 0 files:local"),
        ] {
            assert_eq!(added(name, "files:local"), with);
        }
    }
}
