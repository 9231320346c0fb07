//! Secrets from the kernel, for whoever lets somebody in. Nothing that is measured takes its randomness from here: that has the
//! run's seed.

use std::fmt::Write as _;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// 160 random bits as 40 hexadecimal digits.
pub fn token() -> io::Result<String> {
    let mut bytes = [0_u8; 20];
    // Up to 256 bytes come whole, once the kernel has its entropy; before that it waits.
    while getrandom(&mut bytes[..], GetRandomFlags::empty())? < bytes.len() {}
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // text can always be written to
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_tokens_are_alike() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert_eq!((one.len(), other.len()), (40, 40));
        assert!(one.bytes().all(|digit| digit.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
        // Of 80 fair digits hardly any is missing; a generator stuck at zeros would have one.
        let kinds: std::collections::BTreeSet<char> = one.chars().chain(other.chars()).collect();
        assert!(kinds.len() > 8, "{one} {other}");
    }
}
