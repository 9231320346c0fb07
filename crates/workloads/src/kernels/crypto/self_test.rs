//! Verifies that a provider really encrypts: published test vectors in both directions, a round trip, a rejected wrong
//! tag, the Linux kernel's output against the library's, and the timed steps against one message processed at once.
//! None of it is timed.

use super::cipher::{Cipher, Mode, TAG, bytes};
use super::engine::{AAD, CipherBuffers, Message, OperationKind, Provider, Secret, Session, StopWhen};
use crate::job::Failure;

/// Number of steps that are compared; the kernel accepts this many blocks at once.
const STEPS: usize = 3;

fn wrong(cipher: &Cipher, problem: &str) -> Failure {
    Failure::Failed(format!("{}: {problem}", cipher.name))
}

fn run_message(
    engine: &Provider,
    secret: Secret<'_>,
    aad: &[u8],
    text: &[u8],
    tag: Option<[u8; TAG]>,
) -> Result<Message, Failure> {
    let message = engine.message(secret, aad, text, tag, tag.is_none())?;
    message.ok_or_else(|| wrong(secret.cipher, "a message was rejected"))
}

/// Encrypts a message. Ciphers without a tag return zeros as the tag.
pub(super) fn seal(engine: &Provider, secret: Secret<'_>, aad: &[u8], text: &[u8]) -> Result<Message, Failure> {
    run_message(engine, secret, aad, text, None)
}

fn open(engine: &Provider, secret: Secret<'_>, aad: &[u8], text: &[u8], tag: [u8; TAG]) -> Result<Vec<u8>, Failure> {
    run_message(engine, secret, aad, text, Some(tag)).map(|(text, _)| text)
}

/// Verifies that the published vector encrypts and decrypts correctly.
pub(super) fn known_answer(engine: &Provider, cipher: &'static Cipher) -> Result<(), Failure> {
    let vector = &cipher.vector;
    let (key, iv, aad, plain) = (bytes(vector.key), bytes(vector.iv), bytes(vector.aad), bytes(vector.plain));
    let secret = Secret { cipher, key: &key, iv: &iv };
    let (encrypted, tag) = seal(engine, secret, &aad, &plain)?;
    if encrypted != bytes(vector.encrypted) || (cipher.mode == Mode::Aead && tag[..] != bytes(vector.tag)) {
        return Err(wrong(cipher, "wrong ciphertext of the published test vector"));
    }
    if open(engine, secret, &aad, &encrypted, tag)? != plain {
        return Err(wrong(cipher, "wrong plaintext of the published test vector"));
    }
    if cipher.mode == Mode::Aead {
        let mut other = tag;
        other[TAG - 1] ^= 1;
        if engine.message(secret, &aad, &encrypted, Some(other), false)?.is_some() {
            return Err(wrong(cipher, "a message with a wrong tag was accepted"));
        }
    }
    Ok(())
}

/// Verifies that a block can be decrypted, and that `other` produces the same ciphertext if given.
pub(super) fn round_trip(
    engine: &Provider,
    other: Option<&Provider>,
    secret: Secret<'_>,
    text: &[u8],
) -> Result<(), Failure> {
    let aad: &[u8] = if secret.cipher.mode == Mode::Aead { &AAD } else { &[] };
    let (encrypted, tag) = seal(engine, secret, aad, text)?;
    if encrypted == text || open(engine, secret, aad, &encrypted, tag)? != text {
        return Err(wrong(secret.cipher, "the decrypted text differs from the original"));
    }
    match other.map(|other| seal(other, secret, aad, text)).transpose()? {
        Some(others) if others != (encrypted, tag) => {
            Err(wrong(secret.cipher, "the ciphertexts of the kernel and the library differ"))
        }
        _ => Ok(()),
    }
}

/// Repeats a few timed steps and compares each result with messages processed at once.
pub(super) fn steps(
    engine: &Provider,
    secret: Secret<'_>,
    session: &mut Session<'_>,
    buffers: &mut CipherBuffers<'_>,
    kind: OperationKind,
) -> Result<(), Failure> {
    let aead = secret.cipher.mode == Mode::Aead;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        before.push(buffers.target.to_vec());
        let ran = session.repeat(buffers, aead, kind, step == 0, StopWhen::Steps(1));
        if ran.rejected > 0 {
            return Err(wrong(secret.cipher, &session.error_message()));
        }
        after.push(buffers.target.to_vec());
    }
    let expected = match (kind.message_per_block, aead, kind.encrypt) {
        // One message of all blocks.
        (false, _, _) => vec![at_once(engine, secret, &[], &before.concat(), kind)?],
        (true, true, false) => vec![open(engine, secret, &AAD, buffers.source, buffers.tag)?.repeat(STEPS)],
        (true, aead, _) => {
            let aad: &[u8] = if aead { &AAD } else { &[] };
            before.iter().map(|block| at_once(engine, secret, aad, block, kind)).collect::<Result<_, _>>()?
        }
    };
    if after.concat() == expected.concat() {
        return Ok(());
    }
    Err(wrong(secret.cipher, "the timed steps and a message processed at once differ"))
}

fn at_once(
    engine: &Provider,
    secret: Secret<'_>,
    aad: &[u8],
    text: &[u8],
    kind: OperationKind,
) -> Result<Vec<u8>, Failure> {
    let message = engine.message(secret, aad, text, None, kind.encrypt)?;
    message.map(|(text, _)| text).ok_or_else(|| wrong(secret.cipher, "a message was rejected"))
}
