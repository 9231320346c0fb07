//! Who encrypts: the library or the kernel, behind one face, and the steps that are timed. Must not know parameters of
//! trials, nor what is reported.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use super::cipher::{Cipher, Mode, TAG};
use super::kernel::Operation;
use super::library::{Context, Library};
use crate::job::Failure;

/// As many additional data as TLS has; the number and the bytes are those of `openssl speed -aead`.
pub(super) const AAD: [u8; 13] = [0xcc, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A counter mode must not go on for ever under one vector (GCM: 64 GiB); then a message begins anew.
const MESSAGE_MAX: u64 = 32 << 30;

/// A text and its tag.
pub(super) type Message = (Vec<u8>, [u8; TAG]);

#[derive(Clone, Copy)]
pub(super) enum Provider {
    Library(Library),
    /// The kernel's; with its plain code where `software`.
    Kernel {
        software: bool,
    },
}

#[derive(Clone, Copy)]
pub(super) struct Secret<'a> {
    pub cipher: &'static Cipher,
    pub key: &'a [u8],
    pub iv: &'a [u8],
}

/// A direction and what a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationKind {
    pub encrypt: bool,
    /// Each block is a message of its own; else all are one.
    pub message_per_block: bool,
    /// Each message also sets the key anew; the library's alone.
    pub rekey: bool,
}

/// How long steps are repeated.
#[derive(Clone, Copy)]
pub(super) enum StopWhen {
    /// So long, with a look at the clock after each `batch`.
    Elapsed {
        time: Duration,
        batch: u64,
    },
    Steps(u64),
}

/// What a thread works on. `target` is encrypted in place again and again; messages with a tag are decrypted from
/// `source` instead, or no tag would be right after the first.
pub(super) struct CipherBuffers<'a> {
    pub target: &'a mut [u8],
    pub source: &'a [u8],
    pub tag: [u8; TAG],
}

/// What came of repeated steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StepTally {
    pub done: u64,
    /// How many of them the engine refused.
    pub refused: u64,
    pub took: Duration,
}

pub(super) enum Session<'e> {
    Library(Context<'e>),
    /// The kernel's socket, and what it last said when it refused.
    Kernel(Operation, Option<std::io::Error>),
}

impl Provider {
    /// A cipher with its key in one direction. `aad` are the additional data of each message.
    pub(super) fn session(&self, secret: Secret<'_>, aad: &[u8], encrypt: bool) -> Result<Session<'_>, Failure> {
        let Secret { cipher, key, iv } = secret;
        match self {
            Self::Library(library) => library.context(cipher, key, iv, encrypt).map(Session::Library),
            Self::Kernel { software } => Operation::new(cipher, key, iv, aad, encrypt, *software)
                .map(|operation| Session::Kernel(operation, None)),
        }
    }

    /// One whole message, from one place to another. Ciphers with a tag give it when encrypting, and refuse (with
    /// `Ok(None)`) a text whose tag is another when decrypting.
    pub(super) fn message(
        &self,
        secret: Secret<'_>,
        aad: &[u8],
        text: &[u8],
        tag: Option<[u8; TAG]>,
        encrypt: bool,
    ) -> Result<Option<Message>, Failure> {
        let mut into = vec![0; text.len()];
        let mut tag_place = tag.unwrap_or_default();
        let aead = secret.cipher.mode == Mode::Aead;
        let done = match &mut self.session(secret, aad, encrypt)? {
            Session::Library(context) => {
                let expected = !aead || encrypt || tag.is_none_or(|tag| context.expect(&tag));
                let authenticated = aad.is_empty() || context.authenticate(aad);
                // SAFETY: both are as long as the text.
                let updated = unsafe { context.update(text.as_ptr(), into.as_mut_ptr(), text.len()) };
                // Without a tag to expect, as in the middle of a message, there is no end either.
                let ended = (aead && !encrypt && tag.is_none()) || context.finish();
                if aead && encrypt {
                    tag_place = context.tag().unwrap_or_default();
                }
                expected && authenticated && updated && ended
            }
            Session::Kernel(operation, _) => {
                // SAFETY: both are as long as the text.
                match unsafe { operation.pass(text.as_ptr(), into.as_mut_ptr(), text.len(), &mut tag_place, true) } {
                    Ok(()) => true,
                    Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => false,
                    Err(error) => return Err(Failure::Failed(format!("AF_ALG: {error}"))),
                }
            }
        };
        Ok(done.then_some((into, tag_place)))
    }
}

impl Session<'_> {
    /// Steps on the desk; the first begins a message anew where `anew` says so. This is the timed region: which loop
    /// runs is decided before it.
    pub(super) fn repeat(
        &mut self,
        desk: &mut CipherBuffers<'_>,
        aead: bool,
        way: OperationKind,
        anew: bool,
        until: StopWhen,
    ) -> StepTally {
        let length = desk.target.len();
        let (target, source) = (desk.target.as_mut_ptr(), desk.source.as_ptr());
        let from_source = aead && way.message_per_block && !way.encrypt;
        assert!(!from_source || desk.source.len() == length, "there is an encrypted text to decrypt");
        let from = if from_source { source } else { target.cast_const() };
        let tag = &mut desk.tag;
        // SAFETY: target and source are whole slices of `length` bytes, borrowed by the desk, and apart; CBC gets whole
        // blocks, which `check` has seen to.
        let next = |context: &mut Context<'_>| unsafe { context.update(from, target, length) };
        let begin = if way.rekey { Context::rekey } else { Context::restart };
        match self {
            Self::Library(context) => match (way.message_per_block, aead, way.encrypt) {
                (false, _, _) => repeat(until, length, anew, |anew| (!anew || context.restart()) && next(context)),
                (true, false, _) => repeat(until, length, anew, |_| begin(context) && next(context)),
                (true, true, true) => repeat(until, length, anew, |_| {
                    begin(context) && context.authenticate(&AAD) && next(context) && context.finish()
                }),
                (true, true, false) => repeat(until, length, anew, |_| {
                    begin(context)
                        && context.expect(tag)
                        && context.authenticate(&AAD)
                        && next(context)
                        && context.finish()
                }),
            },
            Self::Kernel(operation, said) => {
                let per_block = way.message_per_block;
                repeat(until, length, anew, |anew| {
                    // SAFETY: as above.
                    let passed = unsafe { operation.pass(from, target, length, tag, anew || per_block) };
                    passed.map_err(|error| *said = Some(error)).is_ok()
                })
            }
        }
    }

    /// Why the last step was refused, as far as anybody said.
    pub(super) fn last_words(&self) -> String {
        match self {
            Self::Library(_) => "OpenSSL refused it".into(),
            Self::Kernel(_, said) => format!("AF_ALG: {}", said.as_ref().map_or("-".into(), ToString::to_string)),
        }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "a call between the loop and the step would be measured")]
fn repeat(until: StopWhen, length: usize, anew: bool, mut step: impl FnMut(bool) -> bool) -> StepTally {
    let mut steps = StepTally::default();
    let (time, batch) = match until {
        StopWhen::Elapsed { time, batch } => (time, batch),
        StopWhen::Steps(count) => (Duration::ZERO, count),
    };
    let (mut anew, mut in_message) = (anew, 0);
    let began = Instant::now();
    loop {
        for _ in 0..batch {
            steps.refused += u64::from(!step(anew));
            anew = false;
        }
        steps.done += batch;
        steps.took = began.elapsed();
        if steps.took >= time {
            return steps;
        }
        in_message += batch * length as u64;
        if in_message > MESSAGE_MAX {
            (anew, in_message) = (true, 0);
        }
    }
}
