//! The error of generating, reading or using a key.

use std::path::Path;

use assay_failure::{ErrorCode, Failure};
use p256::pkcs8::der::pem;

/// The largest key file that is read. Ours have some 650 bytes.
pub const MAX_KEY_BYTES: usize = 16 << 10;

/// The error of generating, reading or using a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes")]
    Random(#[source] getrandom::Error),
    /// The file is larger than [`MAX_KEY_BYTES`].
    #[error("the key file has {0} bytes, more than the limit of {MAX_KEY_BYTES}")]
    TooLarge(usize),
    /// The text is not PEM.
    #[error("the key is not PEM text: {0}")]
    NotPem(pem::Error),
    /// The PEM text has another label.
    #[error("the PEM text holds `{found}`; expected `{expected}`")]
    WrongLabel {
        /// The label that was found.
        found: String,
        /// The expected label.
        expected: &'static str,
    },
    /// The body of the key file is not the known JSON.
    #[error("the key file's body does not parse")]
    BoxMalformed(#[source] serde_json::Error),
    /// A field of the key file is malformed.
    #[error("the key file's `{0}` is not base64 of the right length")]
    BoxField(&'static str),
    /// Cosign's key files do not use this algorithm.
    #[error("the {what} `{found}` is not known: expected `{known}`")]
    UnknownAlgorithm {
        /// Key derivation or cipher.
        what: &'static str,
        /// The value in the file.
        found: String,
        /// The supported value.
        known: &'static str,
    },
    /// The scrypt parameters are not one of the three supported sets.
    #[error("the key file asks for scrypt with N={n}, r={r}, p={p}; known are N=32768, 65536 and 131072 with r=8, p=1")]
    UnsupportedScrypt {
        /// The parameter N.
        n: u64,
        /// The parameter r.
        r: u32,
        /// The parameter p.
        p: u32,
    },
    /// The system has not enough memory for scrypt.
    #[error("unlocking or making the key takes {0} MiB of memory, and the system gives no more")]
    Memory(usize),
    /// The box did not open: the password is wrong, or the bytes were changed.
    #[error("the key does not unlock with this password")]
    WrongPassword,
    /// The private key is not ECDSA P-256 in PKCS#8 form.
    #[error("the private key is not an ECDSA P-256 key in PKCS#8 form")]
    NotP256Private,
    /// The public key is not ECDSA P-256 in SubjectPublicKeyInfo form.
    #[error("the public key is not an ECDSA P-256 key in SubjectPublicKeyInfo form")]
    NotP256Public,
    /// The key could not be encoded.
    #[error("the key has no encoded form")]
    Encode,
}

impl KeyError {
    /// Returns the remedy, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::WrongPassword => Some("set COSIGN_PASSWORD to the key's password"),
            Self::NotP256Private | Self::NotP256Public => Some(
                "make a key with `assay keys init` or `cosign generate-key-pair`; only ECDSA P-256 is read by every verifier",
            ),
            Self::Memory(_) => {
                Some("raise the limit on memory (`ulimit -v`, or that of the container) by what the message names")
            }
            Self::UnsupportedScrypt { .. } => Some("import the key again with cosign, which writes known parameters"),
            _ => None,
        }
    }

    /// Converts the error of unlocking the key file at `path`.
    pub fn into_failure(self, path: &Path) -> Failure {
        Failure::new(ErrorCode::KeyLocked, format!("cannot unlock the key `{}`", path.display()))
            .because(&self)
            .hint_if(self.hint())
    }
}
