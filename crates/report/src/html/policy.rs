//! The Content-Security-Policy of pages. Must not depend on their content.

use sha2::{Digest, Sha256};

/// Returns a policy that allows these scripts by their hashes, inline styles and inline pictures, and nothing else: a
/// page loads nothing. Inline styles, which the charts use, cannot leak data without a network.
pub fn security_policy(scripts: &[&str]) -> String {
    let hash = |script: &&str| format!(" 'sha256-{}'", base64(&Sha256::digest(script)));
    let hashes: String = scripts.iter().map(hash).collect();
    format!("default-src 'none'; script-src{hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let joined = three.iter().fold(0_u32, |joined, byte| joined << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letter = |at: usize| char::from(LETTERS[(joined >> (18 - 6 * at)) as usize & 63]);
        (0..4).map(|at| if at <= three.len() { letter(at) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_allows_a_script_by_its_hash() {
        // printf %s 'alert(1)' | openssl sha256 -binary | base64
        let expected = "default-src 'none'; script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='; \
                        style-src 'unsafe-inline'; img-src data:; base-uri 'none'";
        assert_eq!(security_policy(&["alert(1)"]), expected);
    }

    #[test]
    fn base64_matches_known_values() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{fb}\u{ff}", "w7vDvw=="),
        ];
        for (plain, expected) in cases {
            assert_eq!(base64(plain.as_bytes()), expected, "{plain:?}");
        }
    }
}
