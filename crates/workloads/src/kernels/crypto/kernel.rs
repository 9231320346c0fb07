//! The Linux kernel's ciphers through sockets (`AF_ALG`): `sendmsg` passes a message in, and `readv` returns the
//! result.
//!
//! If the kernel was built without these sockets or has no module for a cipher, the trial is unavailable with the
//! reason. Definition: the kernel's Documentation/crypto/userspace-if.rst. Since Linux 4.9, additional authenticated
//! data precedes the result.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use libc::{c_int, c_void, iovec};

use super::cipher::{Cipher, Mode, TAG};
use crate::job::Failure;

/// The kernel accepts about 200 KiB at once (`net.core.wmem_default`); three blocks of this size fit.
pub(super) const BLOCK_MAX: usize = 64 << 10;

/// Upper limit of the additional data, longer than that of any test vector.
const AAD_MAX: usize = 64;

/// One thread's cipher with its key, in one direction.
pub(super) struct Operation {
    /// The socket that holds the key, which the operation socket depends on.
    _transform: OwnedFd,
    socket: OwnedFd,
    /// Control messages with direction, first vector and length of the additional data. Stored as u64 for their
    /// alignment.
    control: Vec<u64>,
    control_bytes: usize,
    aead: bool,
    encrypt: bool,
    aad: Vec<u8>,
    /// Buffer for the additional data that the kernel returns.
    aad_back: [u8; AAD_MAX],
}

impl Operation {
    /// Creates a cipher with its key. `software` selects the kernel's generic implementation instead of its best one.
    pub(super) fn new(
        cipher: &Cipher,
        key: &[u8],
        iv: &[u8],
        aad: &[u8],
        encrypt: bool,
        software: bool,
    ) -> Result<Self, Failure> {
        let aead = cipher.mode == Mode::Aead;
        let transform = bound(cipher, software)?;
        option(&transform, libc::ALG_SET_KEY, key).map_err(|error| failed("setting the key", &error))?;
        if aead {
            tag_bytes(&transform).map_err(|error| failed("setting the length of the tag", &error))?;
        }
        // SAFETY: accept without an address on a valid socket; the new descriptor has no other owner.
        let socket = unsafe { libc::accept4(transform.as_raw_fd(), null_mut(), null_mut(), libc::SOCK_CLOEXEC) };
        let socket = owned(socket).map_err(|error| failed("accept", &error))?;
        assert!(aad.len() <= AAD_MAX, "additional data exceeds AAD_MAX");
        let (control, control_bytes) = control(iv, aead.then_some(aad.len()), encrypt);
        let aad = aad.to_vec();
        Ok(Self { _transform: transform, socket, control, control_bytes, aead, encrypt, aad, aad_back: [0; AAD_MAX] })
    }

    /// Passes `length` bytes through the kernel. `new_message` starts a message; otherwise the last one continues,
    /// which ciphers with a tag do not support. The tag is written when encrypting and read when decrypting; a wrong
    /// tag is an error (EBADMSG).
    ///
    /// # Safety
    /// `from` is readable and `into` writable for `length` bytes.
    pub(super) unsafe fn pass(
        &mut self,
        from: *const u8,
        into: *mut u8,
        length: usize,
        tag: &mut [u8; TAG],
        new_message: bool,
    ) -> io::Result<()> {
        let tag_in = if self.aead && !self.encrypt { TAG } else { 0 };
        let tag_out = if self.aead && self.encrypt { TAG } else { 0 };
        let mut sent_parts = [
            part(self.aad.as_mut_ptr(), self.aad.len()),
            part(from.cast_mut(), length),
            part(tag.as_mut_ptr(), tag_in),
        ];
        // SAFETY: all zeros is a message without parts.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = sent_parts.as_mut_ptr();
        message.msg_iovlen = sent_parts.len() as _;
        if new_message {
            message.msg_control = self.control.as_mut_ptr().cast();
            message.msg_controllen = self.control_bytes as _;
        }
        // Blocking would deadlock, because this thread also reads the result.
        // SAFETY: the parts and the control messages live until the call returns, and are only read.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
        check_length(sent, self.aad.len() + length + tag_in)?;
        let received_parts =
            [part(self.aad_back.as_mut_ptr(), self.aad.len()), part(into, length), part(tag.as_mut_ptr(), tag_out)];
        // SAFETY: the parts are writable for their lengths: `into` as the caller guarantees, the others belong to
        // `self`.
        let got =
            unsafe { libc::readv(self.socket.as_raw_fd(), received_parts.as_ptr(), received_parts.len() as c_int) };
        check_length(got, self.aad.len() + length + tag_out)
    }
}

fn part(at: *mut u8, bytes: usize) -> iovec {
    iovec { iov_base: at.cast::<c_void>(), iov_len: bytes }
}

fn check_length(result: isize, expected: usize) -> io::Result<()> {
    match usize::try_from(result) {
        Ok(bytes) if bytes == expected => Ok(()),
        Ok(bytes) => Err(io::Error::other(format!("transferred {bytes} of {expected} bytes"))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn failed(operation: &str, error: &io::Error) -> Failure {
    Failure::Failed(format!("AF_ALG: {operation}: {error}"))
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Checks that the Linux kernel offers a cipher.
pub(super) fn check(cipher: &Cipher, software: bool) -> Result<(), Failure> {
    bound(cipher, software).map(drop)
}

/// Creates a socket that is bound to the cipher.
fn bound(cipher: &Cipher, software: bool) -> Result<OwnedFd, Failure> {
    let kind = if cipher.mode == Mode::Aead { "aead" } else { "skcipher" };
    let names = if software { cipher.kernel_generic } else { std::slice::from_ref(&cipher.kernel) };
    for name in names {
        // SAFETY: takes only numbers; the result is checked.
        let socket = unsafe { libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        let socket = owned(socket).map_err(|error| no_sockets(&error))?;
        match bind(&socket, kind, name) {
            Ok(()) => return Ok(socket),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(failed(&format!("bind to {kind} {name}"), &error)),
        }
    }
    let hint = format!("hint: modprobe algif_{kind}; /proc/crypto lists the kernel's ciphers");
    Err(Failure::Unavailable(format!("the kernel does not support {kind} {}; {hint}", names.join(" or "))))
}

/// Converts an error of creating a socket. Missing kernel features and container restrictions are permanent.
fn no_sockets(error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => "the kernel needs CONFIG_CRYPTO_USER_API; try modprobe af_alg",
        Some(libc::EPERM | libc::EACCES) => "the seccomp rules of a container may block these sockets",
        _ => return failed("socket", error),
    };
    Failure::Unavailable(format!("cannot use the kernel's ciphers (AF_ALG): {error}; hint: {hint}"))
}

fn bind(socket: &OwnedFd, kind: &str, name: &str) -> io::Result<()> {
    // SAFETY: all zeros is a valid address without type and name.
    let mut address: libc::sockaddr_alg = unsafe { zeroed() };
    address.salg_family = libc::AF_ALG as u16;
    // The last byte remains zero.
    let longest = address.salg_name.len() - 1;
    assert!(kind.len() < address.salg_type.len() && name.len() <= longest, "the name of the cipher is too long");
    address.salg_type[..kind.len()].copy_from_slice(kind.as_bytes());
    address.salg_name[..name.len()].copy_from_slice(name.as_bytes());
    let bytes = size_of::<libc::sockaddr_alg>() as libc::socklen_t;
    // SAFETY: the address is complete and lives until the call returns.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn option(socket: &OwnedFd, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads this many bytes of the value.
    let result = unsafe {
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_ALG, name, value.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the length of the tag, which is the length of the (absent) option value.
fn tag_bytes(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: the kernel uses only the length of this value.
    let result = unsafe {
        let name = libc::ALG_SET_AEAD_AUTHSIZE;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_ALG, name, std::ptr::null(), TAG as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Builds the control messages of an operation. Returns them with their length in bytes.
fn control(iv: &[u8], authenticated: Option<usize>, encrypt: bool) -> (Vec<u64>, usize) {
    let direction = if encrypt { libc::ALG_OP_ENCRYPT } else { libc::ALG_OP_DECRYPT } as u32;
    // struct af_alg_iv: the length, then the bytes.
    let mut vector = (iv.len() as u32).to_ne_bytes().to_vec();
    vector.extend(iv);
    let mut messages = vec![(libc::ALG_SET_OP, direction.to_ne_bytes().to_vec()), (libc::ALG_SET_IV, vector)];
    if let Some(bytes) = authenticated {
        messages.push((libc::ALG_SET_AEAD_ASSOCLEN, (bytes as u32).to_ne_bytes().to_vec()));
    }
    // A header and its data are each rounded up to a word (CMSG_SPACE).
    let header = size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>());
    let mut packed: Vec<u8> = Vec::new();
    for (kind, data) in messages {
        let head = libc::cmsghdr { cmsg_len: (header + data.len()) as _, cmsg_level: libc::SOL_ALG, cmsg_type: kind };
        let start = packed.len();
        packed.extend(head.cmsg_len.to_ne_bytes());
        packed.extend(head.cmsg_level.to_ne_bytes());
        packed.extend(head.cmsg_type.to_ne_bytes());
        packed.resize(start + header, 0);
        packed.extend(data);
        packed.resize(packed.len().next_multiple_of(size_of::<usize>()), 0);
    }
    let bytes = packed.len();
    packed.resize(bytes.next_multiple_of(8), 0);
    let word = |chunk: &[u8]| u64::from_ne_bytes(chunk.try_into().expect("whole words"));
    (packed.chunks_exact(8).map(word).collect(), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the C library's iteration over control messages.
    #[test]
    fn control_messages_match_the_c_library() {
        let (mut words, bytes) = control(&[7; 12], Some(13), true);
        // SAFETY: all zeros is an empty message; the iteration stays within `bytes`.
        let found = unsafe {
            let mut message: libc::msghdr = zeroed();
            message.msg_control = words.as_mut_ptr().cast();
            message.msg_controllen = bytes as _;
            let mut found = Vec::new();
            let mut at = libc::CMSG_FIRSTHDR(&raw const message);
            while !at.is_null() {
                let data = std::slice::from_raw_parts(
                    libc::CMSG_DATA(at),
                    (*at).cmsg_len as usize - (libc::CMSG_DATA(at) as usize - at as usize),
                );
                found.push(((*at).cmsg_level, (*at).cmsg_type, data.to_vec()));
                at = libc::CMSG_NXTHDR(&raw const message, at);
            }
            found
        };
        let number = |number: u32| number.to_ne_bytes().to_vec();
        let expected = [
            (libc::SOL_ALG, libc::ALG_SET_OP, number(libc::ALG_OP_ENCRYPT as u32)),
            (libc::SOL_ALG, libc::ALG_SET_IV, [number(12), vec![7; 12]].concat()),
            (libc::SOL_ALG, libc::ALG_SET_AEAD_ASSOCLEN, number(13)),
        ];
        assert_eq!(found, expected);
    }
}
