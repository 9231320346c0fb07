//! The kernel's ciphers through `AF_ALG`, which the host's kernel may lack: each gives the published ciphertext and
//! that of the library, in both directions, and a missing cipher is reported. On the machine of `two_sockets`.

use crate::boot::JobOutput;
use crate::trials::{assert_verified, pages};
use crate::two_sockets::job_output;

/// Checks that a step has this number of trials, and that each is valid and has all metrics.
fn assert_measured(job: &JobOutput, step: &str, count: usize) {
    let trials = job.trials(step);
    assert_eq!(trials.len(), count, "{step}");
    trials.iter().for_each(assert_verified);
    let run = job.json(step, &[0]);
    let cells = run["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), count, "{step}");
    for cell in cells {
        let metrics = cell["metrics"].as_array().expect("metrics");
        assert_eq!(metrics.len(), 5, "{cell:#}");
        assert!(metrics.iter().all(|metric| metric["median"].as_f64().is_some_and(|value| value > 0.0)), "{cell:#}");
    }
}

#[test]
fn every_kernel_cipher_gives_the_published_ciphertext() {
    let name = "every_kernel_cipher_gives_the_published_ciphertext";
    let Some(job) = job_output(name) else { return };
    if job.step("library").status != 0 {
        println!("skipped: {name}: libcrypto is missing, compared only with published ciphertexts");
    }
    // AES in three modes with keys of three lengths, and ChaCha20-Poly1305, in both directions.
    assert_measured(job, "ciphers", 20);
}

#[test]
fn messages_continue_across_calls() {
    let Some(job) = job_output("messages_continue_across_calls") else { return };
    assert_measured(job, "streams", 4);
}

#[test]
fn software_selects_the_generic_drivers() {
    let Some(job) = job_output("software_selects_the_generic_drivers") else { return };
    assert_measured(job, "software", 3);
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
        let stderr = job.text(&format!("{step}.stderr"));
        assert!(stderr.contains("this machine can run no cell") && stderr.contains(expected), "{stderr}");
        assert_eq!(job.step(step).status, 77, "{stderr}");
    }
}

#[test]
fn threads_and_their_buffers_are_where_the_placement_puts_them() {
    let Some(job) = job_output("threads_and_their_buffers_are_where_the_placement_puts_them") else { return };
    assert_measured(job, "pinned", 1);
    let trial = &job.trials("pinned")[0];
    assert_eq!(pages(trial), [(1, 2)], "{trial:#}");
}
