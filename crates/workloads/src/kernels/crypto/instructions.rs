//! Use of the CPU's cryptographic instructions: the environment variable that controls OpenSSL, and the verification
//! that it took effect.
//!
//! When OpenSSL is loaded, it reads the CPU features and an environment variable that disables some of them; the same
//! build then uses its code without them. Only cryptographic instructions are disabled (AES, carry-less multiplication,
//! SHA, including their wide forms), not vectors. `ChaCha20` uses none of the former and is as fast without them.
//!
//! Source: the manual page `OPENSSL_ia32cap(3)` and, for ARM, OpenSSL's `arm_arch.h`.

/// The variable that OpenSSL reads on this architecture; `None` if no such variable is known.
pub(crate) const VARIABLE: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("OPENSSL_ia32cap")
} else if cfg!(target_arch = "aarch64") {
    Some("OPENSSL_armcap")
} else {
    None
};

/// Bits of the first word: PCLMULQDQ and AES-NI.
const X86_FIRST: u64 = 1 << 33 | 1 << 57;
/// Bits of the second word: SHA, VAES, VPCLMULQDQ.
const X86_SECOND: u64 = 1 << 29 | 1 << 41 | 1 << 42;
/// AES, SHA1, SHA256, PMULL and SHA512. NEON, which every 64-bit ARM has, remains.
const ARM: u64 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6;
const ARM_NEON: u64 = 1;

/// The value of the variable that disables the instructions.
pub(crate) fn software_value() -> String {
    if cfg!(target_arch = "aarch64") { format!("{ARM_NEON:#x}") } else { format!("~{X86_FIRST:#x}:~{X86_SECOND:#x}") }
}

/// Verifies that OpenSSL uses the requested instructions. `reported` is its description of the CPU, such as
/// `OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab`, followed by `env:...` if it applied the variable.
pub(crate) fn verify(software: bool, reported: &str) -> Result<(), String> {
    if !software {
        return match reported.split_once("env:") {
            Some((_, value)) => Err(format!(
                "the environment disables instructions ({}); hint: unset {}",
                value.trim(),
                VARIABLE.unwrap_or("the variable")
            )),
            None => Ok(()),
        };
    }
    let uses_crypto = uses_crypto(reported)
        .ok_or_else(|| format!("cannot determine which instructions it uses: it reports '{reported}'"))?;
    if uses_crypto { Err(format!("it still uses cryptographic instructions: {reported}")) } else { Ok(()) }
}

/// Returns whether OpenSSL reports any cryptographic instruction; `None` if the report has another format.
fn uses_crypto(reported: &str) -> Option<bool> {
    let (name, words) = reported.split_whitespace().next()?.split_once('=')?;
    let words: Option<Vec<u64>> = words.split(':').map(hexadecimal).collect();
    match (name, words?.as_slice()) {
        ("OPENSSL_ia32cap", [first, second, ..]) => Some(first & X86_FIRST != 0 || second & X86_SECOND != 0),
        ("OPENSSL_armcap", [word]) => Some(word & ARM != 0),
        _ => None,
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // OpenSSL 3.0.22 on a Zen 5, without and with the variable.
    const WHOLE: &str = "OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab";
    const WITHOUT: &str = "OPENSSL_ia32cap=0xfdfa3201078bffff:0x4059c6d1bf07ab env:~0x200000200000000:~0x60020000000";

    #[test]
    fn verify_accepts_only_recognised_reports() {
        assert_eq!(verify(false, WHOLE), Ok(()));
        assert_eq!(verify(true, WITHOUT), Ok(()));
        assert!(verify(true, WHOLE).unwrap_err().contains("still uses cryptographic"));
        assert!(verify(false, WITHOUT).unwrap_err().contains("~0x200000200000000"));
        // A single instruction is sufficient.
        for one in ["0x200000000:0x0", "0x0:0x20000000", "0x0:0x20000000000:0x0:0x0"] {
            assert!(verify(true, &format!("OPENSSL_ia32cap={one}")).is_err(), "{one}");
        }
        assert_eq!(verify(true, "OPENSSL_armcap=0x1 env:0x1"), Ok(()));
        assert!(verify(true, "OPENSSL_armcap=0x7d").is_err());
        for silence in ["", "N/A", "OPENSSL_ia32cap=many:0x0", "OPENSSL_ia32cap=0x0"] {
            assert!(verify(true, silence).unwrap_err().contains("cannot determine"), "{silence}");
        }
    }

    #[test]
    fn software_value_disables_the_verified_instructions() {
        if VARIABLE == Some("OPENSSL_ia32cap") {
            assert_eq!(software_value(), "~0x200000200000000:~0x60020000000");
        }
    }
}
