//! The Content-Security-Policy of pages. Must not depend on their content.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Returns a policy that allows these scripts by their hashes, inline styles and inline pictures, and nothing else: a
/// page loads nothing. Inline styles, which the charts use, cannot leak data without a network.
pub fn security_policy(scripts: &[&str]) -> String {
    let hash = |script: &&str| format!(" 'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
    let hashes: String = if scripts.is_empty() { " 'none'".into() } else { scripts.iter().map(hash).collect() };
    format!("default-src 'none'; script-src{hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'")
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
}
