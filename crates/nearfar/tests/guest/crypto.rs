//! The kernel's ciphers through `AF_ALG`, which the host's kernel may lack: each gives the published ciphertext and
//! that of the library, in both directions, and a missing cipher is reported. On the machine of `two_sockets`.

use crate::boot::JobOutput;
use crate::trials::{assert_verified, pages, reasons};
use crate::two_sockets::job_output;

/// Checks that the only trial of a step is valid and has all metrics.
fn assert_measured(job: &JobOutput, step: &str) {
    let trials = job.trials(step);
    assert_eq!(trials.len(), 1, "{step}");
    assert_verified(&trials[0]);
    let run = job.json(step, &[0]);
    let metrics = run["cells"][0]["metrics"].as_array().expect("metrics");
    assert_eq!(metrics.len(), 5, "{step}");
    assert!(metrics.iter().all(|metric| metric["median"].as_f64().is_some_and(|value| value > 0.0)), "{metrics:#?}");
}

#[test]
fn every_kernel_cipher_gives_the_published_ciphertext() {
    let name = "every_kernel_cipher_gives_the_published_ciphertext";
    let Some(job) = job_output(name) else { return };
    if job.step("library").status != 0 {
        println!("skipped: {name}: libcrypto is missing, compared only with published ciphertexts");
    }
    for mode in ["cbc", "ctr", "gcm"] {
        for bits in [128, 192, 256] {
            for direction in ["encrypt", "decrypt"] {
                assert_measured(job, &format!("aes-{bits}-{mode}-{direction}"));
            }
        }
    }
    for step in ["chacha20-poly1305-encrypt", "chacha20-poly1305-decrypt"] {
        assert_measured(job, step);
    }
}

#[test]
fn messages_continue_across_calls() {
    let Some(job) = job_output("messages_continue_across_calls") else { return };
    for cipher in ["aes-128-cbc", "aes-256-ctr"] {
        assert_measured(job, &format!("{cipher}-stream"));
        assert_measured(job, &format!("{cipher}-stream-back"));
    }
}

#[test]
fn software_selects_the_generic_drivers() {
    let Some(job) = job_output("software_selects_the_generic_drivers") else { return };
    for cipher in ["aes-256-cbc", "aes-128-gcm", "chacha20-poly1305"] {
        assert_measured(job, &format!("{cipher}-software"));
    }
    // The kernel creates such a combination on first use.
    for driver in ["cbc(aes-generic)", "gcm_base(ctr(aes-generic),ghash-generic)"] {
        assert!(job.text("drivers").lines().any(|line| line.ends_with(driver)), "{}", job.text("drivers"));
    }
}

#[test]
fn cipher_missing_in_the_kernel_is_reported() {
    let Some(job) = job_output("cipher_missing_in_the_kernel_is_reported") else { return };
    for (step, expected) in [
        ("no-sockets", "cannot use the kernel's ciphers (AF_ALG)"),
        ("no-aead", "the kernel does not support aead gcm(aes); hint: modprobe algif_aead"),
    ] {
        let reason = reasons(&job.trials(step)[0]);
        assert!(reason.contains("cannot be measured here") && reason.contains(expected), "{reason}");
        assert_eq!(job.step(step).status, 4, "{reason}");
    }
}

#[test]
fn threads_and_their_buffers_are_where_the_placement_puts_them() {
    let Some(job) = job_output("threads_and_their_buffers_are_where_the_placement_puts_them") else { return };
    assert_measured(job, "pinned");
    let trial = &job.trials("pinned")[0];
    assert_eq!(pages(trial), [(1, 2)], "{trial:#}");
}
