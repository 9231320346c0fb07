//! A common interface to the two providers, OpenSSL and the Linux kernel, and the timed steps. Must not depend on trial
//! parameters or reported metrics.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use super::cipher::{Cipher, Mode, TAG};
use super::kernel::Operation;
use super::library::{Context, Library};
use crate::job::Failure;

/// Additional authenticated data, as long as in TLS; length and bytes are those of `openssl speed -aead`.
pub(super) const AAD: [u8; 13] = [0xcc, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Maximum bytes under one initialisation vector. A counter mode has a limit (GCM: 64 GiB); beyond it, a new message
/// starts.
const MESSAGE_MAX: u64 = 32 << 30;

/// A text and its tag.
pub(super) type Message = (Vec<u8>, [u8; TAG]);

#[derive(Clone, Copy)]
pub(super) enum Provider {
    Library(Library),
    /// The Linux kernel's ciphers; with `software`, their generic implementation.
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

/// The direction and the extent of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationKind {
    pub encrypt: bool,
    /// Each block is a separate message; otherwise all blocks form one.
    pub message_per_block: bool,
    /// Each message also sets the key again; supported by the library only.
    pub rekey: bool,
}

/// When to stop repeating steps.
#[derive(Clone, Copy)]
pub(super) enum StopWhen {
    /// After this time; reads the clock after every `batch` steps.
    Elapsed {
        time: Duration,
        batch: u64,
    },
    Steps(u64),
}

/// The working set of a thread. `target` is repeatedly encrypted in place. Messages with a tag are decrypted from
/// `source` instead, because otherwise only the first tag would match.
pub(super) struct CipherBuffers<'a> {
    pub target: &'a mut [u8],
    pub source: &'a [u8],
    pub tag: [u8; TAG],
}

/// The result of repeated steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StepTally {
    pub done: u64,
    /// Steps that the provider rejected.
    pub rejected: u64,
    pub took: Duration,
}

pub(super) enum Session<'e> {
    Library(Context<'e>),
    /// The kernel's socket and the error of its last rejection.
    Kernel(Operation, Option<std::io::Error>),
}

impl Provider {
    /// Opens a session with a key in one direction. `aad` is the additional data of each message.
    pub(super) fn session(&self, secret: Secret<'_>, aad: &[u8], encrypt: bool) -> Result<Session<'_>, Failure> {
        let Secret { cipher, key, iv } = secret;
        match self {
            Self::Library(library) => library.context(cipher, key, iv, encrypt).map(Session::Library),
            Self::Kernel { software } => Operation::new(cipher, key, iv, aad, encrypt, *software)
                .map(|operation| Session::Kernel(operation, None)),
        }
    }

    /// Processes one whole message. Ciphers with a tag return it when encrypting. When decrypting, a wrong tag returns
    /// `Ok(None)`.
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
                // SAFETY: both buffers are as long as the text.
                let updated = unsafe { context.update(text.as_ptr(), into.as_mut_ptr(), text.len()) };
                // Without an expected tag, as in the middle of a message, the message is not finished.
                let ended = (aead && !encrypt && tag.is_none()) || context.finish();
                if aead && encrypt {
                    tag_place = context.tag().unwrap_or_default();
                }
                expected && authenticated && updated && ended
            }
            Session::Kernel(operation, _) => {
                // SAFETY: both buffers are as long as the text.
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
    /// Repeats steps on the buffers; `new_message` makes the first step start a message. This is the timed region: the
    /// choice of the loop precedes it.
    pub(super) fn repeat(
        &mut self,
        buffers: &mut CipherBuffers<'_>,
        aead: bool,
        kind: OperationKind,
        new_message: bool,
        stop: StopWhen,
    ) -> StepTally {
        let length = buffers.target.len();
        let (target, source) = (buffers.target.as_mut_ptr(), buffers.source.as_ptr());
        let from_source = aead && kind.message_per_block && !kind.encrypt;
        assert!(!from_source || buffers.source.len() == length, "decryption needs an encrypted source");
        let from = if from_source { source } else { target.cast_const() };
        let tag = &mut buffers.tag;
        // SAFETY: target and source are whole, disjoint slices of `length` bytes, borrowed by `buffers`. `check` has
        // verified that CBC gets whole blocks.
        let next = |context: &mut Context<'_>| unsafe { context.update(from, target, length) };
        let begin = if kind.rekey { Context::rekey } else { Context::restart };
        match self {
            Self::Library(context) => match (kind.message_per_block, aead, kind.encrypt) {
                (false, _, _) => repeat(stop, length, new_message, |new_message| {
                    (!new_message || context.restart()) && next(context)
                }),
                (true, false, _) => repeat(stop, length, new_message, |_| begin(context) && next(context)),
                (true, true, true) => repeat(stop, length, new_message, |_| {
                    begin(context) && context.authenticate(&AAD) && next(context) && context.finish()
                }),
                (true, true, false) => repeat(stop, length, new_message, |_| {
                    begin(context)
                        && context.expect(tag)
                        && context.authenticate(&AAD)
                        && next(context)
                        && context.finish()
                }),
            },
            Self::Kernel(operation, last_error) => {
                let per_block = kind.message_per_block;
                repeat(stop, length, new_message, |new_message| {
                    // SAFETY: as above.
                    let passed = unsafe { operation.pass(from, target, length, tag, new_message || per_block) };
                    passed.map_err(|error| *last_error = Some(error)).is_ok()
                })
            }
        }
    }

    /// Describes why the last step was rejected, if known.
    pub(super) fn error_message(&self) -> String {
        match self {
            Self::Library(_) => "OpenSSL rejected the operation".into(),
            Self::Kernel(_, last_error) => {
                format!("AF_ALG: {}", last_error.as_ref().map_or("-".into(), ToString::to_string))
            }
        }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "a call between the loop and the step would be part of the measurement")]
fn repeat(stop: StopWhen, length: usize, new_message: bool, mut step: impl FnMut(bool) -> bool) -> StepTally {
    let mut steps = StepTally::default();
    let (time, batch) = match stop {
        StopWhen::Elapsed { time, batch } => (time, batch),
        StopWhen::Steps(count) => (Duration::ZERO, count),
    };
    let (mut new_message, mut in_message) = (new_message, 0);
    let began = Instant::now();
    loop {
        for _ in 0..batch {
            steps.rejected += u64::from(!step(new_message));
            new_message = false;
        }
        steps.done += batch;
        steps.took = began.elapsed();
        if steps.took >= time {
            return steps;
        }
        in_message += batch * length as u64;
        if in_message > MESSAGE_MAX {
            (new_message, in_message) = (true, 0);
        }
    }
}
