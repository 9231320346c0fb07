//! With or without the cpu's cryptographic instructions: the word that tells OpenSSL, and the proof that it listened.
//!
//! OpenSSL looks once, when it is loaded, at what the cpu has and at a variable of the environment that takes some of
//! it away; the same build then runs its code without it. Only cryptographic instructions are taken away (AES,
//! carry-less multiplication, SHA, with their wide forms), not vectors: `ChaCha20` uses none of the former and is as
//! fast without.
//! Source: the manual page `OPENSSL_ia32cap(3)` and, for ARM, OpenSSL's `arm_arch.h`.

/// The variable that OpenSSL reads on this processor; none where it reads none that we know.
pub(crate) const VARIABLE: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("OPENSSL_ia32cap")
} else if cfg!(target_arch = "aarch64") {
    Some("OPENSSL_armcap")
} else {
    None
};

/// Of the first word: PCLMULQDQ and AES-NI.
const X86_FIRST: u64 = 1 << 33 | 1 << 57;
/// Of the second: SHA, VAES, VPCLMULQDQ.
const X86_SECOND: u64 = 1 << 29 | 1 << 41 | 1 << 42;
/// AES, SHA1, SHA256, PMULL and SHA512; what is left is NEON, which every 64-bit ARM has.
const ARM: u64 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6;
const ARM_NEON: u64 = 1;

/// The variable's value that takes the instructions away.
pub(crate) fn software_value() -> String {
    if cfg!(target_arch = "aarch64") { format!("{ARM_NEON:#x}") } else { format!("~{X86_FIRST:#x}:~{X86_SECOND:#x}") }
}

/// Whether OpenSSL works as it was told. `said` is what it says of the cpu, such as
/// `OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab`; a variable that it obeyed stands behind, as `env:...`.
pub(crate) fn prove(software: bool, said: &str) -> Result<(), String> {
    if !software {
        return match said.split_once("env:") {
            Some((_, value)) => Err(format!(
                "its environment takes instructions away ({}); hint: unset {}",
                value.trim(),
                VARIABLE.unwrap_or("what it names")
            )),
            None => Ok(()),
        };
    }
    let left = left(said).ok_or_else(|| format!("it does not say which instructions it uses, only '{said}'"))?;
    if left { Err(format!("it uses cryptographic instructions although told not to: {said}")) } else { Ok(()) }
}

/// Whether any cryptographic instruction is left in what OpenSSL says of the cpu; none when it says something else.
fn left(said: &str) -> Option<bool> {
    let (name, words) = said.split_whitespace().next()?.split_once('=')?;
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

    // OpenSSL 3.0.22 on a Zen 5, as it is and with the variable.
    const WHOLE: &str = "OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab";
    const WITHOUT: &str = "OPENSSL_ia32cap=0xfdfa3201078bffff:0x4059c6d1bf07ab env:~0x200000200000000:~0x60020000000";

    #[test]
    fn what_it_says_of_the_cpu_is_believed_and_nothing_else() {
        assert_eq!(prove(false, WHOLE), Ok(()));
        assert_eq!(prove(true, WITHOUT), Ok(()));
        assert!(prove(true, WHOLE).unwrap_err().contains("although told not to"));
        assert!(prove(false, WITHOUT).unwrap_err().contains("~0x200000200000000"));
        // One instruction of them all is enough.
        for one in ["0x200000000:0x0", "0x0:0x20000000", "0x0:0x20000000000:0x0:0x0"] {
            assert!(prove(true, &format!("OPENSSL_ia32cap={one}")).is_err(), "{one}");
        }
        assert_eq!(prove(true, "OPENSSL_armcap=0x1 env:0x1"), Ok(()));
        assert!(prove(true, "OPENSSL_armcap=0x7d").is_err());
        for silence in ["", "N/A", "OPENSSL_ia32cap=many:0x0", "OPENSSL_ia32cap=0x0"] {
            assert!(prove(true, silence).unwrap_err().contains("does not say"), "{silence}");
        }
    }

    #[test]
    fn the_value_takes_away_what_is_looked_for() {
        if VARIABLE == Some("OPENSSL_ia32cap") {
            assert_eq!(software_value(), "~0x200000200000000:~0x60020000000");
        }
    }
}
