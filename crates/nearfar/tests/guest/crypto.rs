//! The kernel's ciphers through `AF_ALG`, which this machine's kernel may be built without: each makes the published
//! text and the library's, both ways, and what a kernel lacks is said. How fast they are shows only on real machines.

use std::sync::LazyLock;

use crate::boot::{Boot, Ran, boot};
use crate::trials::{assert_proven, pages, reasons};

static RAN: LazyLock<Result<Ran, String>> =
    LazyLock::new(|| boot(&Boot { flags: &[], job: include_str!("crypto.sh"), store: None }));

fn ran(test: &str) -> Option<&'static Ran> {
    RAN.as_ref().inspect_err(|why| println!("skipped: {test}: {why}")).ok()
}

/// The step's one trial is valid, and its numbers are there.
fn assert_measured(ran: &Ran, step: &str) {
    let trials = ran.trials(step);
    assert_eq!(trials.len(), 1, "{step}");
    assert_proven(&trials[0]);
    let run = ran.json(step, &[0]);
    let metrics = run["cells"][0]["metrics"].as_array().expect("metrics");
    assert_eq!(metrics.len(), 5, "{step}");
    assert!(metrics.iter().all(|metric| metric["median"].as_f64().is_some_and(|value| value > 0.0)), "{metrics:#?}");
}

#[test]
fn every_cipher_of_the_kernel_makes_the_right_text() {
    let name = "every_cipher_of_the_kernel_makes_the_right_text";
    let Some(ran) = ran(name) else { return };
    if ran.step("library").status != 0 {
        println!("skipped in part: {name}: no libcrypto here, so that only published texts were compared");
    }
    for mode in ["cbc", "ctr", "gcm"] {
        for bits in [128, 192, 256] {
            for direction in ["encrypt", "decrypt"] {
                assert_measured(ran, &format!("aes-{bits}-{mode}-{direction}"));
            }
        }
    }
    for step in ["chacha20-poly1305-encrypt", "chacha20-poly1305-decrypt"] {
        assert_measured(ran, step);
    }
}

#[test]
fn a_message_goes_on_from_call_to_call() {
    let Some(ran) = ran("a_message_goes_on_from_call_to_call") else { return };
    for cipher in ["aes-128-cbc", "aes-256-ctr"] {
        assert_measured(ran, &format!("{cipher}-stream"));
        assert_measured(ran, &format!("{cipher}-stream-back"));
    }
}

#[test]
fn software_takes_the_kernels_plain_code() {
    let Some(ran) = ran("software_takes_the_kernels_plain_code") else { return };
    for cipher in ["aes-256-cbc", "aes-128-gcm", "chacha20-poly1305"] {
        assert_measured(ran, &format!("{cipher}-software"));
    }
    // The kernel makes such a combination when it is first asked for.
    for driver in ["cbc(aes-generic)", "gcm_base(ctr(aes-generic),ghash-generic)"] {
        assert!(ran.text("drivers").lines().any(|line| line.ends_with(driver)), "{}", ran.text("drivers"));
    }
}

#[test]
fn a_cipher_that_the_kernel_lacks_is_said() {
    let Some(ran) = ran("a_cipher_that_the_kernel_lacks_is_said") else { return };
    for (step, expected) in [
        ("no-sockets", "the kernel's ciphers cannot be used (AF_ALG)"),
        ("no-aead", "this kernel has no aead gcm(aes); hint: modprobe algif_aead"),
    ] {
        let why = reasons(&ran.trials(step)[0]);
        assert!(why.contains("cannot be measured here") && why.contains(expected), "{why}");
        assert_eq!(ran.step(step).status, 4, "{why}");
    }
}

#[test]
fn two_threads_sit_and_have_their_buffers_where_they_should() {
    let Some(ran) = ran("two_threads_sit_and_have_their_buffers_where_they_should") else { return };
    assert_measured(ran, "seated");
    let trial = &ran.trials("seated")[0];
    assert_eq!(pages(trial), [(1, 2)], "{trial:#}");
}
