//! OpenSSL 3's libcrypto, loaded when it is used: the build needs none, and a machine without it is told what to
//! install. Knows the few functions of its interface EVP that encrypting needs, as the manual page `EVP_EncryptInit(3)`
//! has them.
//!
//! No structure of OpenSSL is laid out here: contexts and ciphers are pointers that it gives and takes back.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

use super::cipher::{Cipher, Mode, TAG};
use super::instructions;
use crate::job::Failure;
use crate::kernels::library::{cause, open_first};

const HINT: &str = "apt-get install libssl3";
/// What `OPENSSL_info` is asked for: the cpu's settings.
const INFO_CPU_SETTINGS: c_int = 1008;
const CTRL_SET_IV_LENGTH: c_int = 0x9;
const CTRL_GET_TAG: c_int = 0x10;
const CTRL_SET_TAG: c_int = 0x11;
/// `EVP_CipherInit_ex` leaves the direction as it is.
const SAME_DIRECTION: c_int = -1;

/// `EVP_EncryptUpdate` and `EVP_DecryptUpdate`.
type Update = unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int, *const u8, c_int) -> c_int;
type Init =
    unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, *const u8, *const u8, direction: c_int) -> c_int;

/// The library's functions. It stays loaded until the process ends: OpenSSL does not like to be unloaded.
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
    /// Which ciphers have a vector of a length that could be another.
    aead: bool,
    /// OpenSSL's contexts may move between threads, and may not be used by two at once.
    _not_shared: PhantomData<*mut c_void>,
}

impl Library {
    /// Loads it under this name or path, with or without the cpu's cryptographic instructions, and has it say which it
    /// uses. To be called before other threads run: it changes the environment of this process.
    pub(super) fn load(name: &str, software: bool) -> Result<Self, Failure> {
        tell(software)?;
        let library = Self::open(name)?;
        let said = library.cpu_settings();
        instructions::prove(software, &said).map_err(|why| Failure::Failed(format!("{name}: {why}")))?;
        Ok(library)
    }

    fn open(name: &str) -> Result<Self, Failure> {
        // Leaked: what was looked up in it stays good.
        let loaded = Box::leak(Box::new(open_first(&[name], HINT)?.library));
        let missing = |error| {
            let why = cause(&error);
            Failure::Unavailable(format!("{name} is not the libcrypto of OpenSSL 3: {why}; hint: {HINT}"))
        };
        macro_rules! look_up {
            ($symbol:literal) => {
                // SAFETY: the types above are those of OpenSSL 3's headers for these names.
                *unsafe { loaded.get($symbol) }.map_err(missing)?
            };
        }
        Ok(Self {
            fetch: look_up!(b"EVP_CIPHER_fetch\0"),
            free_cipher: look_up!(b"EVP_CIPHER_free\0"),
            new: look_up!(b"EVP_CIPHER_CTX_new\0"),
            free: look_up!(b"EVP_CIPHER_CTX_free\0"),
            init: look_up!(b"EVP_CipherInit_ex\0"),
            encrypt: look_up!(b"EVP_EncryptUpdate\0"),
            decrypt: look_up!(b"EVP_DecryptUpdate\0"),
            finish: look_up!(b"EVP_CipherFinal_ex\0"),
            control: look_up!(b"EVP_CIPHER_CTX_ctrl\0"),
            padding: look_up!(b"EVP_CIPHER_CTX_set_padding\0"),
            info: look_up!(b"OPENSSL_info\0"),
        })
    }

    /// What it says of the cpu and of the variable that takes instructions away.
    pub(super) fn cpu_settings(&self) -> String {
        // SAFETY: it returns null or a text that lives as long as the library, which is never unloaded.
        let text = unsafe { (self.info)(INFO_CPU_SETTINGS) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// A cipher with its key at the beginning of a message.
    pub(super) fn context(
        &self,
        cipher: &Cipher,
        key: &[u8],
        iv: &[u8],
        encrypt: bool,
    ) -> Result<Context<'_>, Failure> {
        let name = CString::new(cipher.name).expect("names of ciphers have no zero byte");
        // SAFETY: null is the default library context and no properties; the name is a C string.
        let found = unsafe { (self.fetch)(null_mut(), name.as_ptr(), null()) };
        if found.is_null() {
            let why = format!("this libcrypto offers no {}; hint: openssl list -cipher-algorithms", cipher.name);
            return Err(Failure::Unavailable(why));
        }
        let update = if encrypt { self.encrypt } else { self.decrypt };
        // SAFETY: it takes nothing and returns a context or null.
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
        // SAFETY: key and iv are of the cipher's lengths (its vector has them, and the known answer comes out); both
        // pointers are what OpenSSL gave. A null context is refused before it is used.
        let ready = !context.is_null()
            && unsafe {
                (self.init)(context, found, null_mut(), key.as_ptr(), iv.as_ptr(), direction) == 1
                    && (self.padding)(context, 0) == 1
            };
        if ready { Ok(made) } else { Err(Failure::Failed(format!("{} could not be set up", cipher.name))) }
    }
}

/// Sets or removes the variable that OpenSSL reads when it is loaded.
fn tell(software: bool) -> Result<(), Failure> {
    let Some(variable) = instructions::VARIABLE else {
        if !software {
            return Ok(());
        }
        let why = "instructions=software is known for x86-64 and 64-bit ARM; hint: instructions=cpu";
        return Err(Failure::Unavailable(why.into()));
    };
    if software {
        // SAFETY: in a worker process no other thread runs yet, so that none reads the environment meanwhile.
        unsafe { std::env::set_var(variable, instructions::software_value()) };
    } else if std::env::var_os(variable).is_some() {
        // SAFETY: as above.
        unsafe { std::env::remove_var(variable) };
    }
    Ok(())
}

impl Context<'_> {
    /// Begins a message anew: the same key, the same first vector.
    #[inline]
    pub(super) fn restart(&mut self) -> bool {
        // SAFETY: the context is live; null leaves cipher and key as they are; the iv has the cipher's length.
        unsafe { (self.library.init)(self.context, null(), null_mut(), null(), self.iv.as_ptr(), SAME_DIRECTION) == 1 }
    }

    /// As [`Context::restart`], and the key and the vector's length are set as if they were new.
    #[inline]
    pub(super) fn rekey(&mut self) -> bool {
        // SAFETY: it takes a number and reads nothing; then as in restart, with a key of the cipher's length.
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

    /// Encrypts or decrypts the next `length` bytes of the message; whether as many came out.
    ///
    /// # Safety
    /// `from` is readable and `into` writable for `length` bytes, which are whole blocks where the cipher needs them;
    /// they are one place or do not overlap.
    #[inline]
    pub(super) unsafe fn update(&mut self, from: *const u8, into: *mut u8, length: usize) -> bool {
        let mut out: c_int = 0;
        // SAFETY: the caller's promise; without padding OpenSSL writes no more than it reads. Lengths are at most 1
        // MiB.
        let done = unsafe { (self.update)(self.context, into, &raw mut out, from, length as c_int) };
        done == 1 && out as usize == length
    }

    /// Adds data that are authenticated and not encrypted.
    #[inline]
    pub(super) fn authenticate(&mut self, aad: &[u8]) -> bool {
        let mut out: c_int = 0;
        // SAFETY: with no place to write to, the input is only authenticated.
        unsafe { (self.update)(self.context, null_mut(), &raw mut out, aad.as_ptr(), aad.len() as c_int) == 1 }
    }

    /// Says before the end of decryption which tag the message should have.
    #[inline]
    pub(super) fn expect(&mut self, tag: &[u8; TAG]) -> bool {
        // SAFETY: it reads so many bytes of the tag, and keeps a copy.
        unsafe { (self.library.control)(self.context, CTRL_SET_TAG, TAG as c_int, tag.as_ptr().cast_mut().cast()) == 1 }
    }

    /// Ends a message; false where a decrypted one has another tag than expected.
    #[inline]
    pub(super) fn finish(&mut self) -> bool {
        // Without padding nothing is left to be written, and a block fits whatever comes.
        let mut rest = [0_u8; 32];
        let mut out: c_int = 0;
        // SAFETY: the context is live and `rest` has room for the longest block (EVP_MAX_BLOCK_LENGTH).
        unsafe { (self.library.finish)(self.context, rest.as_mut_ptr(), &raw mut out) == 1 && out == 0 }
    }

    /// The tag of an ended encryption.
    pub(super) fn tag(&mut self) -> Option<[u8; TAG]> {
        let mut tag = [0_u8; TAG];
        // SAFETY: it writes so many bytes.
        let done = unsafe { (self.library.control)(self.context, CTRL_GET_TAG, TAG as c_int, tag.as_mut_ptr().cast()) };
        (done == 1).then_some(tag)
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: both are what OpenSSL gave, or null, and are given back once.
        unsafe {
            (self.library.free)(self.context);
            (self.library.free_cipher)(self.cipher);
        }
    }
}
