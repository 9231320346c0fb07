//! The ciphers that can be measured: their names in OpenSSL and in the Linux kernel, key lengths, and a published test
//! vector for each. Must not depend on any implementation.

/// Bytes of the tag that an authenticated cipher appends.
pub(super) const TAG: usize = 16;

/// The mode of operation: the processing of the blocks of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each block of 16 bytes depends on the previous one; only whole blocks are allowed.
    Cbc,
    /// A key stream; any number of bytes.
    Ctr,
    /// A key stream, additional authenticated data, and a tag.
    Aead,
}

#[derive(Debug)]
pub(super) struct Cipher {
    pub name: &'static str,
    pub mode: Mode,
    /// The Linux kernel's name; the kernel selects its best implementation.
    pub kernel: &'static str,
    /// The Linux kernel's names of implementations without cryptographic instructions; the first available one is used.
    pub kernel_generic: &'static [&'static str],
    pub vector: Vector,
}

/// A published plaintext and its ciphertext.
#[derive(Debug)]
pub(super) struct Vector {
    pub key: &'static str,
    /// The initialisation vector, first counter block or nonce.
    pub iv: &'static str,
    /// Additional authenticated data, or an empty text if the mode has none.
    pub aad: &'static str,
    pub plain: &'static str,
    pub encrypted: &'static str,
    /// Authentication tag, or an empty text if the mode has none.
    pub tag: &'static str,
}

// NIST SP 800-38A, appendix F: the same plaintext for all vectors.
const TEXT_38A: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                        30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
const KEYS_38A: [&str; 3] = [
    "2b7e151628aed2a6abf7158809cf4f3c",
    "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
];
const IV_CBC: &str = "000102030405060708090a0b0c0d0e0f";
const IV_CTR: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

// McGrew and Viega, "The Galois/Counter Mode of Operation (GCM)", appendix B, test cases 4, 10 and 16.
const TEXT_GCM: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const KEYS_GCM: [&str; 3] = [
    "feffe9928665731c6d6a8f9467308308",
    "feffe9928665731c6d6a8f9467308308feffe9928665731c",
    "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
];
const IV_GCM: &str = "cafebabefacedbaddecaf888";
const AAD_GCM: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";

const fn cbc(name: &'static str, key: &'static str, encrypted: &'static str) -> Cipher {
    let vector = Vector { key, iv: IV_CBC, aad: "", plain: TEXT_38A, encrypted, tag: "" };
    Cipher { name, mode: Mode::Cbc, kernel: "cbc(aes)", kernel_generic: &["cbc(aes-generic)", "cbc(aes-lib)"], vector }
}

const fn ctr(name: &'static str, key: &'static str, encrypted: &'static str) -> Cipher {
    let vector = Vector { key, iv: IV_CTR, aad: "", plain: TEXT_38A, encrypted, tag: "" };
    Cipher { name, mode: Mode::Ctr, kernel: "ctr(aes)", kernel_generic: &["ctr(aes-generic)", "ctr(aes-lib)"], vector }
}

const fn gcm(name: &'static str, key: &'static str, encrypted: &'static str, tag: &'static str) -> Cipher {
    let vector = Vector { key, iv: IV_GCM, aad: AAD_GCM, plain: TEXT_GCM, encrypted, tag };
    let kernel_generic = &[
        "gcm_base(ctr(aes-generic),ghash-generic)",
        "gcm_base(ctr(aes-lib),ghash-lib)",
        "gcm(ctr(aes-lib),ghash-lib)",
    ];
    Cipher { name, mode: Mode::Aead, kernel: "gcm(aes)", kernel_generic, vector }
}

/// All ciphers, in the order in which they are listed.
pub(super) static CIPHERS: [Cipher; 10] = [
    cbc(
        "aes-128-cbc",
        KEYS_38A[0],
        "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
         73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
    ),
    cbc(
        "aes-192-cbc",
        KEYS_38A[1],
        "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a\
         571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
    ),
    cbc(
        "aes-256-cbc",
        KEYS_38A[2],
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
         39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
    ),
    ctr(
        "aes-128-ctr",
        KEYS_38A[0],
        "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
         5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
    ),
    ctr(
        "aes-192-ctr",
        KEYS_38A[1],
        "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94\
         1e36b26bd1ebc670d1bd1d665620abf74f78a7f6d29809585a97daec58c6b050",
    ),
    ctr(
        "aes-256-ctr",
        KEYS_38A[2],
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
         2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
    ),
    gcm(
        "aes-128-gcm",
        KEYS_GCM[0],
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        "5bc94fbc3221a5db94fae95ae7121a47",
    ),
    gcm(
        "aes-192-gcm",
        KEYS_GCM[1],
        "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c\
         7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710",
        "2519498e80f1478f37ba55bd6d27618c",
    ),
    gcm(
        "aes-256-gcm",
        KEYS_GCM[2],
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ),
    // RFC 8439, section 2.8.2.
    Cipher {
        name: "chacha20-poly1305",
        mode: Mode::Aead,
        kernel: "rfc7539(chacha20,poly1305)",
        kernel_generic: &["rfc7539(chacha20-generic,poly1305-generic)", "rfc7539(chacha20-lib,poly1305-generic)"],
        vector: Vector {
            key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            iv: "070000004041424344454647",
            aad: "50515253c0c1c2c3c4c5c6c7",
            plain: "4c616469657320616e642047656e746c656d656e206f662074686520636c6173\
                    73206f66202739393a204966204920636f756c64206f6666657220796f75206f\
                    6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73\
                    637265656e20776f756c642062652069742e",
            encrypted: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
                        3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
                        92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                        3ff4def08e4b7a9de576d26586cec64b6116",
            tag: "1ae10b594f09e26a7e902ecbd0600691",
        },
    },
];

pub(crate) fn names() -> Vec<String> {
    CIPHERS.iter().map(|cipher| cipher.name.to_string()).collect()
}

/// Returns whether each message of this cipher has a tag.
pub(crate) fn is_aead(name: &str) -> bool {
    by_name(name).mode == Mode::Aead
}

/// Returns the cipher of a name that the description allows.
pub(super) fn by_name(name: &str) -> &'static Cipher {
    CIPHERS.iter().find(|cipher| cipher.name == name).expect("the description allows only these names")
}

/// Decodes hexadecimal text.
pub(super) fn bytes(hexadecimal: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16);
    (0..hexadecimal.len()).step_by(2).map(|at| pair(at).expect("test vectors are hexadecimal")).collect()
}
