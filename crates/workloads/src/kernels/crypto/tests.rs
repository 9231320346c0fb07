//! Tests of the workload: every cipher in both directions, invalid combinations, and errors that the self-tests detect.
//! Another test runs the whole program to verify `instructions=software`, because a process loads the library once.

use super::*;
use crate::kernels::{check_smoke, job_for_tests, set};

fn job(pairs: &[(&str, &str)]) -> TrialContext {
    let mut job = job_for_tests("crypto");
    for (name, text) in [&("time", "2ms")].into_iter().chain(pairs) {
        set(&mut job, name, text);
    }
    job
}

/// Runs a trial. Returns `None` and prints the reason if it is skipped.
fn run_or_skip(job: &TrialContext) -> Option<KernelOutput> {
    match run(job) {
        Ok(run_or_skip) => Some(run_or_skip),
        Err(Failure::Unavailable(reason)) => {
            println!("skipped: crypto: {reason}");
            None
        }
        Err(other) => panic!("{:?}: {other}", job.parameters),
    }
}

fn library() -> Option<Provider> {
    match library::Library::load("libcrypto.so.3", false) {
        Ok(library) => Some(Provider::Library(library)),
        Err(reason) => {
            println!("skipped: crypto: {reason}");
            None
        }
    }
}

#[test]
fn every_cipher_runs_in_both_directions_and_modes() {
    for cipher in &cipher::CIPHERS {
        for direction in ["encrypt", "decrypt"] {
            for (message, block) in
                [("stream", "16"), ("stream", "8KiB"), ("block", "1KiB"), ("block", "1MiB"), ("rekeyed", "64")]
            {
                let pairs = [("cipher", cipher.name), ("direction", direction), ("message", message), ("block", block)];
                let job = TrialContext { threads: 2, ..job(&pairs) };
                let Some(run_or_skip) = run_or_skip(&job) else { return };
                check_smoke("crypto", &run_or_skip);
                let metrics = if clock::cycles_per_ns().is_some() { 5 } else { 4 };
                assert_eq!(run_or_skip.samples.len(), metrics * ROUNDS as usize);
            }
        }
    }
}

#[test]
fn metrics_of_a_round_are_consistent() {
    let round = |done, took_ms, cpu_ms| Round {
        steps: StepTally { done, rejected: 0, took: Duration::from_millis(took_ms) },
        cpu: Duration::from_millis(cpu_ms),
    };
    let mut run_or_skip = KernelOutput::default();
    // 10 MB and 30 MB in 10 ms each: 4 GB/s together, for 10 ms of CPU time: a quarter of a nanosecond per byte.
    report([round(10_000, 10, 4), round(30_000, 10, 6)].iter(), 1000, &mut run_or_skip).unwrap();
    let values: Vec<f64> = run_or_skip.samples.iter().map(|sample| sample.value).collect();
    for (value, expected) in values.iter().zip([4e6, 32.0, 0.25, 0.25 / 8.0]) {
        assert!((value / expected - 1.0).abs() < 1e-9, "{values:?}");
    }
    // 4 ms at 2 GHz and 6 ms at 3 GHz are 26 million cycles for 40 MB.
    let (one, other) = (round(10_000, 10, 4), round(30_000, 10, 6));
    let cycles = cycles_per_byte([Some((&one, 2.0)), Some((&other, 3.0))].into_iter(), 1000).unwrap();
    assert!((cycles / 0.65 - 1.0).abs() < 1e-9, "{cycles}");
    assert_eq!(cycles_per_byte([Some((&one, 2.0)), None].into_iter(), 1000), None);
}

#[test]
fn kernel_ciphers_run_or_are_unavailable_with_a_reason() {
    let mut ran = 0;
    for cipher in &cipher::CIPHERS {
        for direction in ["encrypt", "decrypt"] {
            let job =
                job(&[("cipher", cipher.name), ("engine", "kernel"), ("message", "block"), ("direction", direction)]);
            match run(&job) {
                Ok(run_or_skip) => {
                    check_smoke("crypto", &run_or_skip);
                    ran += 1;
                }
                Err(Failure::Unavailable(reason)) => {
                    assert!(reason.contains("AF_ALG") || reason.contains("the kernel does not support"), "{reason}");
                    assert!(reason.contains("hint: "), "{reason}");
                }
                Err(other) => panic!("{}: {other}", cipher.name),
            }
        }
    }
    if ran == 0 {
        println!("skipped: crypto with engine=kernel: the kernel offers no ciphers to programs");
    }
}

#[test]
fn invalid_combinations_return_errors() {
    let wrong = |pairs: &[(&str, &str)]| check(&job(pairs).parameters).unwrap_err();
    assert!(wrong(&[("block", "100")]).contains("but aes-128-cbc needs a multiple of 16"));
    assert!(wrong(&[("engine", "kernel"), ("block", "1MiB")]).contains("at most 64KiB"));
    let aead = [("engine", "kernel"), ("cipher", "chacha20-poly1305")];
    assert!(wrong(&aead).contains("hint: message=block"));
    assert!(wrong(&[("engine", "kernel"), ("message", "rekeyed")]).contains("does not support message=rekeyed"));
    for fine in [&[("block", "100"), ("cipher", "aes-256-ctr")][..], &[("block", "1000"), ("cipher", "aes-192-gcm")]] {
        assert_eq!(check(&job(fine).parameters), Ok(()));
    }
}

#[test]
fn missing_library_hints_at_the_package() {
    for (name, expected) in
        [("libcrypto.so.nowhere", "cannot open"), ("libc.so.6", "is not the libcrypto of OpenSSL 3")]
    {
        let failure = run(&job(&[("library", name)])).unwrap_err();
        let Failure::Unavailable(reason) = &failure else { panic!("{failure:?}") };
        assert!(reason.contains(expected) && reason.contains("hint: apt-get install libssl3"), "{reason}");
    }
}

const KEY: [u8; 16] = [1; 16];

fn secret(name: &str, iv: &'static [u8]) -> Secret<'static> {
    Secret { cipher: cipher::by_name(name), key: &KEY, iv }
}

#[test]
fn steps_with_a_wrong_key_or_vector_return_errors() {
    let Some(engine) = library() else { return };
    for (name, iv, other) in [
        ("aes-128-cbc", &[0; 16][..], &[1; 16][..]),
        ("aes-128-ctr", &[0; 16], &[1; 16]),
        ("aes-128-gcm", &[0; 12], &[1; 12]),
    ] {
        for message_per_block in [false, true] {
            let kind = OperationKind { encrypt: true, message_per_block, rekey: false };
            let self_test_steps = |expected: Secret<'_>| {
                let mut target = [3; 64];
                let mut buffers = CipherBuffers { target: &mut target, source: &[], tag: [0; TAG] };
                let mut session = engine.session(secret(name, iv), &[], true).unwrap();
                self_test::steps(&engine, expected, &mut session, &mut buffers, kind)
            };
            assert_eq!(self_test_steps(secret(name, iv)), Ok(()));
            assert!(self_test_steps(secret(name, other)).unwrap_err().to_string().contains("differ"));
            assert!(self_test_steps(Secret { key: &[2; 16], ..secret(name, iv) }).is_err());
        }
    }
}

#[test]
fn wrong_test_vector_returns_an_error() {
    static BROKEN: Cipher = Cipher {
        name: "aes-128-ctr",
        mode: Mode::Ctr,
        kernel: "ctr(aes)",
        kernel_generic: &[],
        vector: cipher::Vector {
            key: "2b7e151628aed2a6abf7158809cf4f3c",
            iv: "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
            aad: "",
            plain: "6bc1bee22e409f96e93d7e117393172a",
            encrypted: "874d6191b620e3261bef6864990db6cf",
            tag: "",
        },
    };
    let Some(engine) = library() else { return };
    let failure = self_test::known_answer(&engine, &BROKEN).unwrap_err();
    assert!(failure.to_string().contains("wrong ciphertext of the published test vector"), "{failure}");
}

#[test]
fn wrong_tag_is_rejected_in_timed_steps() {
    let Some(engine) = library() else { return };
    let secret = secret("aes-128-gcm", &[0; 12]);
    let (source, tag) = self_test::seal(&engine, secret, &engine::AAD, &[5; 64]).unwrap();
    let kind = OperationKind { encrypt: false, message_per_block: true, rekey: false };
    for (tag, rejected) in [(tag, 0), ([0; TAG], 7)] {
        let mut target = [0; 64];
        let mut buffers = CipherBuffers { target: &mut target, source: &source, tag };
        let mut session = engine.session(secret, &engine::AAD, false).unwrap();
        let steps = session.repeat(&mut buffers, true, kind, true, StopWhen::Steps(7));
        assert_eq!((steps.done, steps.rejected), (7, rejected));
    }
}

#[test]
fn vectors_have_valid_lengths() {
    for cipher in &cipher::CIPHERS {
        let vector = &cipher.vector;
        let key_bits: usize = cipher.name.split('-').nth(1).and_then(|bits| bits.parse().ok()).unwrap_or(256);
        assert_eq!(vector.key.len() * 4, key_bits, "{}", cipher.name);
        assert_eq!(vector.plain.len(), vector.encrypted.len(), "{}", cipher.name);
        assert_eq!(vector.tag.len() / 2, if cipher.mode == Mode::Aead { TAG } else { 0 }, "{}", cipher.name);
    }
}
