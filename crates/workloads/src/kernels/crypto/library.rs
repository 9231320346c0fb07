//! OpenSSL 3's libcrypto, loaded on demand: the build does not need it, and on a machine without it the error names the
//! package to install. Declares the few functions of its EVP interface that encryption needs, as in the manual page
//! `EVP_EncryptInit(3)`.
//!
//! No structure of OpenSSL is declared here: contexts and ciphers are opaque pointers.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

use super::cipher::{Cipher, Mode, TAG};
use super::instructions;
use crate::job::Failure;
use crate::kernels::library::{self, cause, open_first};

const HINT: &str = "apt-get install libssl3";
/// The `OPENSSL_info` type of the CPU settings.
const INFO_CPU_SETTINGS: c_int = 1008;
const CTRL_SET_IV_LENGTH: c_int = 0x9;
const CTRL_GET_TAG: c_int = 0x10;
const CTRL_SET_TAG: c_int = 0x11;
/// `EVP_CipherInit_ex` keeps the direction.
const SAME_DIRECTION: c_int = -1;

/// `EVP_EncryptUpdate` and `EVP_DecryptUpdate`.
type Update = unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int, *const u8, c_int) -> c_int;
type Init =
    unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, *const u8, *const u8, direction: c_int) -> c_int;

/// The functions of libcrypto, which stays loaded until the process ends because OpenSSL does not support unloading
/// reliably.
#[derive(Clone, Copy)]
pub(super) struct Library {
    fetch: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void,
    free_cipher: unsafe extern "C" fn(*mut c_void),
    new: unsafe extern "C" fn() -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    init: Init,
    encrypt: Update,
    decrypt: Update,
    finish: unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int) -> c_int,
    control: unsafe extern "C" fn(*mut c_void, c_int, c_int, *mut c_void) -> c_int,
    padding: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    info: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// One thread's cipher with its key, in one direction.
pub(super) struct Context<'l> {
    library: &'l Library,
    update: Update,
    context: *mut c_void,
    cipher: *mut c_void,
    key: Vec<u8>,
    iv: Vec<u8>,
    /// Ciphers with a tag have a vector of variable length.
    aead: bool,
    /// OpenSSL's contexts may move between threads, but two threads must not use one concurrently.
    _not_shared: PhantomData<*mut c_void>,
}

/// Returns why the library cannot be loaded; `None` if it is installed.
pub(super) fn missing(name: &str) -> Option<String> {
    library::missing(&[name], HINT)
}

impl Library {
    /// Loads the library by name or path, with or without the CPU's cryptographic instructions, and verifies which it
    /// uses. Must be called before other threads start, because it changes the environment of this process.
    pub(super) fn load(name: &str, software: bool) -> Result<Self, Failure> {
        set_environment(software)?;
        let library = Self::open(name)?;
        let reported = library.cpu_settings();
        instructions::verify(software, &reported).map_err(|reason| Failure::Failed(format!("{name}: {reason}")))?;
        Ok(library)
    }

    fn open(name: &str) -> Result<Self, Failure> {
        // Leaked, so that its symbols stay valid.
        let loaded = Box::leak(Box::new(open_first(&[name], HINT)?.library));
        let missing = |error| {
            let reason = cause(&error);
            Failure::Unavailable(format!("{name} is not the libcrypto of OpenSSL 3: {reason}; hint: {HINT}"))
        };
        macro_rules! symbol {
            ($symbol:literal) => {
                // SAFETY: the types above are those of OpenSSL 3's headers for these names.
                *unsafe { loaded.get($symbol) }.map_err(missing)?
            };
        }
        Ok(Self {
            fetch: symbol!(b"EVP_CIPHER_fetch\0"),
            free_cipher: symbol!(b"EVP_CIPHER_free\0"),
            new: symbol!(b"EVP_CIPHER_CTX_new\0"),
            free: symbol!(b"EVP_CIPHER_CTX_free\0"),
            init: symbol!(b"EVP_CipherInit_ex\0"),
            encrypt: symbol!(b"EVP_EncryptUpdate\0"),
            decrypt: symbol!(b"EVP_DecryptUpdate\0"),
            finish: symbol!(b"EVP_CipherFinal_ex\0"),
            control: symbol!(b"EVP_CIPHER_CTX_ctrl\0"),
            padding: symbol!(b"EVP_CIPHER_CTX_set_padding\0"),
            info: symbol!(b"OPENSSL_info\0"),
        })
    }

    /// Returns OpenSSL's description of the CPU and of the variable that disables instructions.
    pub(super) fn cpu_settings(&self) -> String {
        // SAFETY: it returns null or a string that lives as long as the library, which is never unloaded.
        let text = unsafe { (self.info)(INFO_CPU_SETTINGS) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Creates a cipher with its key, ready for a message.
    pub(super) fn context(
        &self,
        cipher: &Cipher,
        key: &[u8],
        iv: &[u8],
        encrypt: bool,
    ) -> Result<Context<'_>, Failure> {
        let name = CString::new(cipher.name).expect("cipher names have no zero byte");
        // SAFETY: null is the default library context and no properties; the name is a C string.
        let found = unsafe { (self.fetch)(null_mut(), name.as_ptr(), null()) };
        if found.is_null() {
            let reason =
                format!("this libcrypto does not support {}; hint: openssl list -cipher-algorithms", cipher.name);
            return Err(Failure::Unavailable(reason));
        }
        let update = if encrypt { self.encrypt } else { self.decrypt };
        // SAFETY: takes no arguments and returns a context or null.
        let context = unsafe { (self.new)() };
        let made = Context {
            library: self,
            update,
            context,
            cipher: found,
            key: key.to_vec(),
            iv: iv.to_vec(),
            aead: cipher.mode == Mode::Aead,
            _not_shared: PhantomData,
        };
        let direction = c_int::from(encrypt);
        // SAFETY: key and iv have the cipher's lengths (its test vector has the same, and the known-answer test
        // passes); both pointers come from OpenSSL. A null context is rejected before it is used.
        let ready = !context.is_null()
            && unsafe {
                (self.init)(context, found, null_mut(), key.as_ptr(), iv.as_ptr(), direction) == 1
                    && (self.padding)(context, 0) == 1
            };
        if ready { Ok(made) } else { Err(Failure::Failed(format!("cannot set up {}", cipher.name))) }
    }
}

/// Sets or removes the variable that OpenSSL reads when it is loaded.
fn set_environment(software: bool) -> Result<(), Failure> {
    let Some(variable) = instructions::VARIABLE else {
        if !software {
            return Ok(());
        }
        let reason = "instructions=software is supported on x86-64 and 64-bit ARM only; hint: instructions=cpu";
        return Err(Failure::Unavailable(reason.into()));
    };
    if software {
        // SAFETY: no other thread runs yet in a worker process, so none reads the environment concurrently.
        unsafe { std::env::set_var(variable, instructions::software_value()) };
    } else if std::env::var_os(variable).is_some() {
        // SAFETY: as above.
        unsafe { std::env::remove_var(variable) };
    }
    Ok(())
}

impl Context<'_> {
    /// Restarts with a new message: the same key, the same first vector.
    #[inline]
    pub(super) fn restart(&mut self) -> bool {
        // SAFETY: the context is live; null keeps cipher and key; the iv has the cipher's length.
        unsafe { (self.library.init)(self.context, null(), null_mut(), null(), self.iv.as_ptr(), SAME_DIRECTION) == 1 }
    }

    /// Like [`Context::restart`], but also sets the key and the length of the vector again.
    #[inline]
    pub(super) fn rekey(&mut self) -> bool {
        // SAFETY: takes a number and reads nothing; then as in restart, with a key of the cipher's length.
        unsafe {
            let length = self.iv.len() as c_int;
            (!self.aead || (self.library.control)(self.context, CTRL_SET_IV_LENGTH, length, null_mut()) == 1)
                && (self.library.init)(
                    self.context,
                    null(),
                    null_mut(),
                    self.key.as_ptr(),
                    self.iv.as_ptr(),
                    SAME_DIRECTION,
                ) == 1
        }
    }

    /// Encrypts or decrypts the next `length` bytes of the message. Returns whether the output has the same length.
    ///
    /// # Safety
    /// `from` is readable and `into` writable for `length` bytes, which are whole blocks if the cipher requires them;
    /// they are equal or do not overlap.
    #[inline]
    pub(super) unsafe fn update(&mut self, from: *const u8, into: *mut u8, length: usize) -> bool {
        let mut out: c_int = 0;
        // SAFETY: guaranteed by the caller; without padding OpenSSL writes no more than it reads. Lengths are at most 1
        // MiB.
        let done = unsafe { (self.update)(self.context, into, &raw mut out, from, length as c_int) };
        done == 1 && out as usize == length
    }

    /// Adds additional authenticated data.
    #[inline]
    pub(super) fn authenticate(&mut self, aad: &[u8]) -> bool {
        let mut out: c_int = 0;
        // SAFETY: without an output buffer, the input is only authenticated.
        unsafe { (self.update)(self.context, null_mut(), &raw mut out, aad.as_ptr(), aad.len() as c_int) == 1 }
    }

    /// Sets the expected tag before the end of decryption.
    #[inline]
    pub(super) fn expect(&mut self, tag: &[u8; TAG]) -> bool {
        // SAFETY: it reads this many bytes of the tag and keeps a copy.
        unsafe { (self.library.control)(self.context, CTRL_SET_TAG, TAG as c_int, tag.as_ptr().cast_mut().cast()) == 1 }
    }

    /// Ends a message. Returns false if a decrypted message has a wrong tag.
    #[inline]
    pub(super) fn finish(&mut self) -> bool {
        // Without padding no output remains, and the buffer has space for a block in any case.
        let mut rest = [0_u8; 32];
        let mut out: c_int = 0;
        // SAFETY: the context is live and `rest` is as long as the longest block (EVP_MAX_BLOCK_LENGTH).
        unsafe { (self.library.finish)(self.context, rest.as_mut_ptr(), &raw mut out) == 1 && out == 0 }
    }

    /// The tag after the end of an encryption.
    pub(super) fn tag(&mut self) -> Option<[u8; TAG]> {
        let mut tag = [0_u8; TAG];
        // SAFETY: it writes this many bytes.
        let done = unsafe { (self.library.control)(self.context, CTRL_GET_TAG, TAG as c_int, tag.as_mut_ptr().cast()) };
        (done == 1).then_some(tag)
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: both pointers come from OpenSSL or are null, and are freed once.
        unsafe {
            (self.library.free)(self.context);
            (self.library.free_cipher)(self.cipher);
        }
    }
}
