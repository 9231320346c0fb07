//! Replaces private data in free text: paths, addresses, identifiers, serial numbers, and words that the caller
//! declares private. Recognises words only by their form; `record` and `table` decide which fields are shared.

use std::collections::BTreeMap;

/// Texts up to this length are replaced only as whole words: `sh` is also part of `share`.
const ALONE_BYTES_MAX: usize = 3;

/// Host and user names that do not identify anyone and occur in ordinary sentences.
const COMMON: [&str; 8] = ["localhost", "root", "user", "debian", "ubuntu", "kernel", "machine", "linux"];

/// Directories that are the same on every machine, so that paths in them are not private.
const SYSTEM_DIRECTORIES: [&str; 9] =
    ["/bin/", "/sbin/", "/lib/", "/lib64/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/proc/", "/sys/"];

/// Replaces private words consistently and counts the replacements by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Pseudonyms {
    /// Private texts, longest first, with their pseudonyms.
    known: Vec<(String, String)>,
    /// Host and user names, replaced as whole words, ignoring case.
    names: Vec<String>,
    /// Number of replacements by kind.
    pub(super) taken: BTreeMap<&'static str, usize>,
}

impl Pseudonyms {
    pub(super) fn new(names: &[String]) -> Self {
        let private = |name: &&String| name.len() > 1 && !COMMON.contains(&name.to_lowercase().as_str());
        Self { names: names.iter().filter(private).map(|name| name.to_lowercase()).collect(), ..Self::default() }
    }

    /// Registers a text to be replaced wherever it occurs.
    pub(super) fn replace(&mut self, text: &str, pseudonym: &str) {
        if text.trim().is_empty() || self.known.iter().any(|(known, _)| known == text) {
            return;
        }
        self.known.push((text.into(), pseudonym.into()));
        self.known.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
    }

    /// Returns the pseudonym of a whole text, if registered.
    pub(super) fn pseudonym(&self, text: &str) -> Option<String> {
        self.known.iter().find(|(known, _)| known == text).map(|(_, pseudonym)| pseudonym.clone())
    }

    /// Counts an item that was removed outside of texts.
    pub(super) fn count(&mut self, kind: &'static str) {
        *self.taken.entry(kind).or_default() += 1;
    }

    /// Returns a sentence without private words.
    pub(super) fn sentence(&mut self, text: &str) -> String {
        let text = self.without_known(text);
        self.rewrite(&text, true)
    }

    /// Returns a vendor's or program's text, such as a CPU model or a metric name, without addresses, paths and
    /// identifiers.
    /// Words that look like serial numbers or equal a host name are kept.
    pub(super) fn public(&mut self, text: &str) -> String {
        self.rewrite(text, false)
    }

    fn rewrite(&mut self, text: &str, sentence: bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_gap = ends_token(first);
            let end = rest.find(|c| ends_token(c) != is_gap).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(end);
            if is_gap {
                out.push_str(piece);
            } else {
                out.push_str(&self.token(piece, sentence));
            }
            rest = after;
        }
        out
    }

    fn without_known(&mut self, text: &str) -> String {
        let mut text = text.to_string();
        for (known, pseudonym) in &self.known {
            if known.len() > ALONE_BYTES_MAX {
                text = text.replace(known.as_str(), pseudonym);
            } else {
                text = replace_alone(&text, known, pseudonym);
            }
        }
        text
    }

    fn token(&mut self, token: &str, sentence: bool) -> String {
        let core = token.trim_end_matches([':', '.', '!', '?']);
        let tail = &token[core.len()..];
        let private = kind_of(core).or_else(|| (sentence && is_serial(core)).then_some(("serial numbers", "SERIAL")));
        if let Some((kind, word)) = private {
            self.count(kind);
            return format!("{word}{tail}");
        }
        if sentence { self.without_names(core) + tail } else { token.into() }
    }

    /// Replaces host and user names, which may be part of a word: `alice@box`, `box-eth0`.
    fn without_names(&mut self, token: &str) -> String {
        let mut text = token.to_string();
        for name in self.names.clone() {
            let replaced = replace_alone_in_any_case(&text, &name, "NAME");
            if replaced != text {
                self.count("host and user names");
                text = replaced;
            }
        }
        text
    }
}

fn ends_token(c: char) -> bool {
    c.is_whitespace() || "\"'`,;()[]{}<>|=\\".contains(c)
}

/// Returns the kind of a private word, recognised by its form, and its replacement.
fn kind_of(token: &str) -> Option<(&'static str, &'static str)> {
    if holds_uuid(token) || holds_long_hexadecimal(token) {
        return Some(("identifiers", "ID"));
    }
    if holds_mac(token) {
        return Some(("network addresses", "ADDRESS"));
    }
    if token.contains("://") {
        return Some(("network addresses", "URL"));
    }
    if is_private_path(token) {
        return Some(("paths", "PATH"));
    }
    if is_ip_address(token) || is_mail(token) {
        return Some(("network addresses", "ADDRESS"));
    }
    None
}

/// Matches `/home/alice/x`, `~/x`, `../x`, also after a colon or an option (`-o/home/x`); not `MB/s` or `/usr/bin/env`.
fn is_private_path(token: &str) -> bool {
    let starts = |prefix: &str| token.starts_with(prefix);
    if starts("~") || starts("./") || starts("../") {
        return true;
    }
    let Some(begin) = token.find('/') else { return false };
    let relative = begin > 0 && !token[..begin].ends_with([':', '@']) && !starts("-") && !starts("+");
    let path = &token[begin..];
    if relative {
        // A relative path needs two slashes: one is often a unit or a pair, such as `MB/s` or `read/write`.
        return path.matches('/').count() > 1;
    }
    path.len() > 1 && !is_public_path(path)
}

fn is_public_path(path: &str) -> bool {
    if path.contains("..") || path.starts_with("/sys/fs/cgroup") {
        return false;
    }
    let device = path.strip_prefix("/dev/").is_some_and(|name| !name.is_empty() && !name.contains('/'));
    device || SYSTEM_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
}

/// Matches six pairs of hexadecimal digits with colons or dashes, or twelve digits after `enx` or `wlx` (systemd's
/// names).
fn holds_mac(token: &str) -> bool {
    let bytes = token.as_bytes();
    let pairs = |window: &[u8]| {
        window.iter().enumerate().all(|(at, byte)| {
            if at % 3 == 2 { *byte == window[2] && b":-".contains(byte) } else { byte.is_ascii_hexdigit() }
        })
    };
    let named = ["enx", "wlx", "wwx"].iter().any(|prefix| {
        let digits = token.find(prefix).map(|at| &token[at + prefix.len()..]);
        digits.is_some_and(|digits| digits.bytes().take_while(u8::is_ascii_hexdigit).count() >= 12)
    });
    named || bytes.windows(17).any(pairs)
}

fn holds_uuid(token: &str) -> bool {
    token.as_bytes().windows(36).any(|window| {
        window
            .iter()
            .enumerate()
            .all(|(at, byte)| if [8, 13, 18, 23].contains(&at) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
    })
}

/// Matches world-wide names, machine ids and keys: at least sixteen hexadecimal digits, both digits and letters. Trial
/// ids have this form too, but never occur in texts.
fn holds_long_hexadecimal(token: &str) -> bool {
    token.split(|c: char| !c.is_ascii_hexdigit()).any(|run| {
        run.len() >= 16
            && run.bytes().any(|byte| byte.is_ascii_digit())
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

fn is_ip_address(token: &str) -> bool {
    let (host, _) = token.rsplit_once(':').filter(|(host, _)| host.contains('.')).unwrap_or((token, ""));
    let host = host.split('/').next().unwrap_or(host);
    let numbers: Vec<&str> = host.split('.').collect();
    let version_4 = numbers.len() == 4 && numbers.iter().all(|number| number.parse::<u8>().is_ok());
    let groups = token.split(':').count();
    let hexadecimal = token.chars().all(|c| c.is_ascii_hexdigit() || c == ':');
    version_4 || hexadecimal && (groups == 8 || token.contains("::") && token.len() > 3)
}

/// Matches `alice@box`, also without a domain.
fn is_mail(token: &str) -> bool {
    token.split_once('@').is_some_and(|(user, host)| {
        user.starts_with(|c: char| c.is_ascii_alphabetic()) && host.starts_with(|c: char| c.is_ascii_alphanumeric())
    })
}

/// Matches serial numbers of disks: at least ten capitals and digits, several of each, such as `S4EWNX0R512345`.
fn is_serial(token: &str) -> bool {
    let count = |wanted: fn(&u8) -> bool| token.bytes().filter(wanted).count();
    token.len() >= 10
        && token.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
        && count(u8::is_ascii_digit) >= 4
        && count(u8::is_ascii_uppercase) >= 2
}

fn replace_alone(text: &str, word: &str, by: &str) -> String {
    replace_where(text, word, by, text)
}

fn replace_alone_in_any_case(text: &str, word: &str, by: &str) -> String {
    // Only ASCII letters change case, so byte offsets stay the same.
    replace_where(text, word, by, &text.to_ascii_lowercase())
}

/// Replaces `word` in `text` at its whole-word positions in `searched`, which equals `text` except for case.
fn replace_where(text: &str, word: &str, by: &str, searched: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in searched.match_indices(word) {
        let beside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let end = at + word.len();
        if at < done || beside(searched[..at].chars().next_back()) || beside(searched[end..].chars().next()) {
            continue;
        }
        out.push_str(&text[done..at]);
        out.push_str(by);
        done = end;
    }
    out + &text[done..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut words = Pseudonyms::new(&["Basalt".into(), "alice".into(), "root".into()]);
        words.replace("eth", "net-1");
        words.replace("my-secret-app", "command-1");
        assert_eq!(words.sentence(text), expected, "{text}");
    }

    #[test]
    fn private_words_are_replaced() {
        check("cannot read /home/alice/x.bin: no such file", "cannot read PATH: no such file");
        check("'~/notes' and ../up and ./here.", "'PATH' and PATH and PATH.");
        check("--data=/srv/db -o/srv/x file:/srv/y", "--data=PATH PATH PATH");
        check("link 00:1a:2B:3c:4d:5e up, 00-1a-2b-3c-4d-5e", "link ADDRESS up, ADDRESS");
        check("enx001a2b3c4d5e is down", "ADDRESS is down");
        check("root=UUID=0d6e6ef3-5e1c-4c0e-9a0e-1f2e3d4c5b6a", "root=UUID=ID");
        check("wwn-0x5000c500a1b2c3d4 eui.0025385a91b0c3d4e", "ID ID");
        check("bound to 192.168.1.7:8080, fe80::1, 10.0.0.0/8", "bound to ADDRESS, ADDRESS, ADDRESS");
        check("alice@example.org, bob@box, https://x.org/a?b", "ADDRESS, ADDRESS, URL");
        check("disk S4EWNX0R512345 failed", "disk SERIAL failed");
        check("BASALT answered, basalt-eth0; root too", "NAME answered, NAME-eth0; root too");
        check("my-secret-app --x: eth is up, method", "command-1 --x: net-1 is up, method");
        check("/sys/fs/cgroup/user.slice/user-1000.slice", "PATH");
        check("/dev/disk/by-id/ata-X /usr/bin/../../home/x", "PATH PATH");
    }

    #[test]
    fn ordinary_words_are_kept() {
        for text in [
            "12 % of its pages were on nodes 0-3, requested 1",
            "1.5 MB/s read/write @ 2 threads, cpu 0x10, 6.1.0-18-amd64",
            "/proc/self/numa_maps: Permission denied; /sys/devices/system/node; /dev/sda",
            "0000:01:00.0 virtio0-input.0 -C 0-3,8 -m 0",
            "stream @ kernel threads=2 cpus= memory=bind:0",
            "Intel(R) Xeon(R) CPU E5-2697A v4 @ 2.60GHz",
            "",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn vendor_texts_may_look_like_serial_numbers() {
        let mut words = Pseudonyms::new(&[]);
        assert_eq!(words.public("GIGABYTE MZ32-AR0-00"), "GIGABYTE MZ32-AR0-00");
        assert_eq!(words.public("box 00:1a:2b:3c:4d:5e"), "box ADDRESS");
        assert_eq!(words.taken["network addresses"], 1);
    }

    #[test]
    fn names_are_replaced_next_to_non_ascii_text() {
        let mut words = Pseudonyms::new(&["zoë".into()]);
        assert_eq!(words.sentence("é Zoë zoë, zoës"), "é NAME NAME, zoës");
        assert_eq!(words.sentence("ünïcödé/päth/ß"), "PATH");
    }
}
