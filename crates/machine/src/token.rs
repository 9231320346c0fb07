//! Random access tokens from the kernel. Measurements must not use this randomness, but the seed of the run.

use std::fmt::Write as _;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 160 random bits as 40 hexadecimal digits.
pub fn token() -> io::Result<String> {
    let mut bytes = [0_u8; 20];
    // The kernel returns up to 256 bytes at once; it blocks until its entropy pool is initialised.
    while getrandom(&mut bytes[..], GetRandomFlags::empty())? < bytes.len() {}
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_distinct() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert_eq!((one.len(), other.len()), (40, 40));
        assert!(one.bytes().all(|digit| digit.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
        // Among 80 random digits nearly all 16 values occur; a generator stuck at zero would produce one.
        let digits: std::collections::BTreeSet<char> = one.chars().chain(other.chars()).collect();
        assert!(digits.len() > 8, "{one} {other}");
    }
}
