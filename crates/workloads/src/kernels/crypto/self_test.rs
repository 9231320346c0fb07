//! Whether an engine really encrypts: published vectors both ways, a text that comes back, a wrong tag that is refused,
//! the kernel's text against the library's, and the timed steps themselves repeated with each result kept and compared
//! with one message made at once. None of it is timed.

use super::cipher::{Cipher, Mode, TAG, bytes};
use super::engine::{AAD, CipherBuffers, Message, OperationKind, Provider, Secret, Session, StopWhen};
use crate::job::Failure;

/// Steps that are compared; as many blocks fit into the kernel at once.
const STEPS: usize = 3;

fn wrong(cipher: &Cipher, what: &str) -> Failure {
    Failure::Failed(format!("{}: {what}", cipher.name))
}

fn whole(
    engine: &Provider,
    secret: Secret<'_>,
    aad: &[u8],
    text: &[u8],
    tag: Option<[u8; TAG]>,
) -> Result<Message, Failure> {
    let message = engine.message(secret, aad, text, tag, tag.is_none())?;
    message.ok_or_else(|| wrong(secret.cipher, "a message was refused"))
}

/// Encrypts; ciphers without a tag give zeroes for one.
pub(super) fn seal(engine: &Provider, secret: Secret<'_>, aad: &[u8], text: &[u8]) -> Result<Message, Failure> {
    whole(engine, secret, aad, text, None)
}

fn open(engine: &Provider, secret: Secret<'_>, aad: &[u8], text: &[u8], tag: [u8; TAG]) -> Result<Vec<u8>, Failure> {
    whole(engine, secret, aad, text, Some(tag)).map(|(text, _)| text)
}

/// The published vector comes out, and goes back.
pub(super) fn known_answer(engine: &Provider, cipher: &'static Cipher) -> Result<(), Failure> {
    let vector = &cipher.vector;
    let (key, iv, aad, plain) = (bytes(vector.key), bytes(vector.iv), bytes(vector.aad), bytes(vector.plain));
    let secret = Secret { cipher, key: &key, iv: &iv };
    let (encrypted, tag) = seal(engine, secret, &aad, &plain)?;
    if encrypted != bytes(vector.encrypted) || (cipher.mode == Mode::Aead && tag[..] != bytes(vector.tag)) {
        return Err(wrong(cipher, "the published test vector does not come out"));
    }
    if open(engine, secret, &aad, &encrypted, tag)? != plain {
        return Err(wrong(cipher, "the published test vector does not decrypt"));
    }
    if cipher.mode == Mode::Aead {
        let mut other = tag;
        other[TAG - 1] ^= 1;
        if engine.message(secret, &aad, &encrypted, Some(other), false)?.is_some() {
            return Err(wrong(cipher, "a message with a wrong tag was taken"));
        }
    }
    Ok(())
}

/// A block comes back, and is what `other` makes of it, where there is another engine.
pub(super) fn round_trip(
    engine: &Provider,
    other: Option<&Provider>,
    secret: Secret<'_>,
    text: &[u8],
) -> Result<(), Failure> {
    let aad: &[u8] = if secret.cipher.mode == Mode::Aead { &AAD } else { &[] };
    let (encrypted, tag) = seal(engine, secret, aad, text)?;
    if encrypted == text || open(engine, secret, aad, &encrypted, tag)? != text {
        return Err(wrong(secret.cipher, "what was encrypted does not come back"));
    }
    match other.map(|other| seal(other, secret, aad, text)).transpose()? {
        Some(others) if others != (encrypted, tag) => {
            Err(wrong(secret.cipher, "the kernel's text is not the library's"))
        }
        _ => Ok(()),
    }
}

/// The timed steps once more, a few, each result kept: they are those of messages made at once.
pub(super) fn steps(
    engine: &Provider,
    secret: Secret<'_>,
    session: &mut Session<'_>,
    desk: &mut CipherBuffers<'_>,
    way: OperationKind,
) -> Result<(), Failure> {
    let aead = secret.cipher.mode == Mode::Aead;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        before.push(desk.target.to_vec());
        let ran = session.repeat(desk, aead, way, step == 0, StopWhen::Steps(1));
        if ran.refused > 0 {
            return Err(wrong(secret.cipher, &session.last_words()));
        }
        after.push(desk.target.to_vec());
    }
    let expected = match (way.message_per_block, aead, way.encrypt) {
        // One message of all blocks.
        (false, _, _) => vec![at_once(engine, secret, &[], &before.concat(), way)?],
        (true, true, false) => vec![open(engine, secret, &AAD, desk.source, desk.tag)?.repeat(STEPS)],
        (true, aead, _) => {
            let aad: &[u8] = if aead { &AAD } else { &[] };
            before.iter().map(|block| at_once(engine, secret, aad, block, way)).collect::<Result<_, _>>()?
        }
    };
    if after.concat() == expected.concat() {
        return Ok(());
    }
    Err(wrong(secret.cipher, "the timed steps made another text than one message made at once"))
}

fn at_once(
    engine: &Provider,
    secret: Secret<'_>,
    aad: &[u8],
    text: &[u8],
    way: OperationKind,
) -> Result<Vec<u8>, Failure> {
    let message = engine.message(secret, aad, text, None, way.encrypt)?;
    message.map(|(text, _)| text).ok_or_else(|| wrong(secret.cipher, "a message was refused"))
}
