//! The encrypted key file of cosign: scrypt turns a password into a key, which opens an XSalsa20-Poly1305 box.
//!
//! The format is that of `go-securesystemslib`, so that keys made here work in cosign and the other way round.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Nonce, XSalsa20Poly1305};
use p256::elliptic_curve::zeroize::Zeroizing;
use serde::{Deserialize, Serialize};

use crate::key_error::KeyError;
use crate::text::{from_base64, quote, to_base64};

const KDF: &str = "scrypt";
const CIPHER: &str = "nacl/secretbox";
const SALT_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;
const BLOCK_SIZE: u32 = 8;
const PARALLELISM: u32 = 1;
/// Memory beside the table of scrypt.
const SPARE_BYTES: usize = 1 << 20;

/// The cost of one guess of a password. No other costs are read or written, because a file could ask for terabytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScryptCost {
    /// N = 32768, as older cosign wrote; for keys without a password, which no cost protects.
    Cheap,
    /// N = 65536, as cosign writes, and the default.
    #[default]
    Standard,
    /// N = 131072, as OWASP recommends; some other tools do not read it.
    Strong,
}

impl ScryptCost {
    /// All costs, cheapest first.
    pub const ALL: [Self; 3] = [Self::Cheap, Self::Standard, Self::Strong];

    /// Returns the default cost for a key with this password: the cheapest if it is empty, because there is nothing to guess.
    pub fn for_password(password: &[u8]) -> Self {
        if password.is_empty() { Self::Cheap } else { Self::default() }
    }

    /// The parameter N of scrypt (RFC 7914).
    pub fn n(self) -> u32 {
        1 << self.log_n()
    }

    fn log_n(self) -> u8 {
        match self {
            Self::Cheap => 15,
            Self::Standard => 16,
            Self::Strong => 17,
        }
    }

    fn from_params(params: &ScryptParams) -> Result<Self, KeyError> {
        let &ScryptParams { n, r, p } = params;
        let fixed = (r, p) == (BLOCK_SIZE, PARALLELISM);
        let cost = Self::ALL.into_iter().find(|cost| fixed && u64::from(cost.n()) == n);
        cost.ok_or(KeyError::UnsupportedScrypt { n, r, p })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBox {
    kdf: Kdf,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kdf {
    name: String,
    params: ScryptParams,
    salt: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScryptParams {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cipher {
    name: String,
    nonce: String,
}

/// Returns random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> Result<Zeroizing<[u8; N]>, KeyError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(KeyError::Random)?;
    Ok(bytes)
}

/// A key that scrypt derived, once it is there; `None` if scrypt refused.
type DerivedKey = Arc<OnceLock<Option<Zeroizing<[u8; KEY_BYTES]>>>>;

/// A password, and the keys that scrypt has derived from it: key files with one salt cost its work once.
///
/// Files that are written with one value share a salt. A guess of their password then costs as much as for one of them, which is
/// all that an attacker needs to try.
pub struct Password {
    bytes: Zeroizing<Vec<u8>>,
    /// The salt of new files.
    salt: Zeroizing<[u8; SALT_BYTES]>,
    derived: Mutex<BTreeMap<(u8, [u8; SALT_BYTES]), DerivedKey>>,
}

impl Password {
    /// Takes a password; an empty one is legal and protects nothing. It fails only if the system has no random bytes.
    pub fn new(password: &[u8]) -> Result<Self, KeyError> {
        let derived = Mutex::new(BTreeMap::new());
        Ok(Self { bytes: Zeroizing::new(password.to_vec()), salt: random_bytes()?, derived })
    }

    /// Returns the cipher for a salt. Threads that need the same key wait for the first one to derive it.
    fn cipher(&self, salt: &[u8; SALT_BYTES], cost: ScryptCost) -> Result<XSalsa20Poly1305, KeyError> {
        let slot = {
            let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(derived.entry((cost.log_n(), *salt)).or_default())
        };
        if slot.get().is_none() {
            check_memory(cost)?;
        }
        let key = slot.get_or_init(|| derive(&self.bytes, salt, cost)).as_ref().ok_or(KeyError::Encode)?;
        Ok(XSalsa20Poly1305::new(key.as_slice().into()))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Fails if there is not enough memory for scrypt: the library's own allocation would end the process.
fn check_memory(cost: ScryptCost) -> Result<(), KeyError> {
    let bytes = 128 * BLOCK_SIZE as usize * cost.n() as usize;
    Vec::<u8>::new().try_reserve_exact(bytes + SPARE_BYTES).map_err(|_| KeyError::Memory(bytes >> 20))
}

fn derive(password: &[u8], salt: &[u8], cost: ScryptCost) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let params = scrypt::Params::new(cost.log_n(), BLOCK_SIZE, PARALLELISM, KEY_BYTES).ok()?;
    scrypt::scrypt(password, salt, &params, key.as_mut_slice()).ok()?;
    Some(key)
}

/// Encrypts `secret` with a password, under its salt and a fresh nonce. Returns the JSON body of a key file.
pub(crate) fn lock(secret: &[u8], password: &Password, cost: ScryptCost) -> Result<Vec<u8>, KeyError> {
    let salt = &password.salt;
    let nonce = random_bytes::<NONCE_BYTES>()?;
    let cipher = password.cipher(salt, cost)?;
    let ciphertext = cipher.encrypt(Nonce::from_slice(nonce.as_slice()), secret).map_err(|_| KeyError::Encode)?;
    let params = ScryptParams { n: cost.n().into(), r: BLOCK_SIZE, p: PARALLELISM };
    let key_box = KeyBox {
        kdf: Kdf { name: KDF.to_owned(), params, salt: to_base64(salt.as_slice()) },
        cipher: Cipher { name: CIPHER.to_owned(), nonce: to_base64(nonce.as_slice()) },
        ciphertext: to_base64(&ciphertext),
    };
    serde_json::to_vec(&key_box).map_err(|_| KeyError::Encode)
}

/// Decrypts the body of a key file that [`lock`] or cosign wrote.
pub(crate) fn unlock(json: &[u8], password: &Password) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let key_box: KeyBox = serde_json::from_slice(json).map_err(KeyError::BoxMalformed)?;
    check_algorithm("key derivation", &key_box.kdf.name, KDF)?;
    check_algorithm("cipher", &key_box.cipher.name, CIPHER)?;
    let cost = ScryptCost::from_params(&key_box.kdf.params)?;
    let salt: [u8; SALT_BYTES] = field("kdf.salt", &key_box.kdf.salt)?;
    let nonce: [u8; NONCE_BYTES] = field("cipher.nonce", &key_box.cipher.nonce)?;
    let ciphertext = from_base64(&key_box.ciphertext).ok_or(KeyError::BoxField("ciphertext"))?;
    let opened = password.cipher(&salt, cost)?.decrypt(Nonce::from_slice(&nonce), ciphertext.as_slice());
    opened.map(Zeroizing::new).map_err(|_| KeyError::WrongPassword)
}

fn check_algorithm(what: &'static str, found: &str, known: &'static str) -> Result<(), KeyError> {
    if found == known { Ok(()) } else { Err(KeyError::UnknownAlgorithm { what, found: quote(found), known }) }
}

fn field<const N: usize>(name: &'static str, text: &str) -> Result<[u8; N], KeyError> {
    from_base64(text).and_then(|bytes| bytes.try_into().ok()).ok_or(KeyError::BoxField(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The test vectors of go-securesystemslib's package `encrypted`: the plaintext is a JSON string.
    const VECTORS: [&str; 3] = [
        r#"{"kdf":{"name":"scrypt","params":{"N":32768,"r":8,"p":1},"salt":"WO3mVvyTwJ9vwT5/Tk5OW5WPIBUofMjcpEfrLnfY4uA="},"cipher":{"name":"nacl/secretbox","nonce":"tCy7HcTFr4uxv4Nrg/DWmncuZ148U1MX"},"ciphertext":"08n43p5G5yviPEZpO7tPPF4aZQkWiWjkv4taFdhDBA0tamKH4nw="}"#,
        r#"{"kdf":{"name":"scrypt","params":{"N":65536,"r":8,"p":1},"salt":"FhzPOt9/bJG4PTq6lQ6ecG6GzaOuOy/ynG5+yRiFlNs="},"cipher":{"name":"nacl/secretbox","nonce":"aw1ng1jHaDz/tQ7V2gR9O2+IGQ8xJEuE"},"ciphertext":"HycvuLZL4sYH0BrYTh4E/H20VtAW6u5zL5Pr+IBjYLYnCPzDkq8="}"#,
        r#"{"kdf":{"name":"scrypt","params":{"N":131072,"r":8,"p":1},"salt":"m38E3kouJTtiheLQN22NQ8DTito5hrjpUIskqcd375k="},"cipher":{"name":"nacl/secretbox","nonce":"Y6PM13yA+o44pE/W1ZBwczeGnTV/m9Zc"},"ciphertext":"6H8sqj1K6B6yDjtH5AQ6lbFigg/C2yDDJc4rYJ79w9aVPImFIPI="}"#,
    ];

    fn refusal(json: &str, password: &str) -> String {
        unlock(json.as_bytes(), &Password::new(password.as_bytes()).expect("a password")).expect_err("a refusal").to_string()
    }

    #[test]
    fn the_boxes_of_go_securesystemslib_open() {
        for vector in VECTORS {
            let secret =
                unlock(vector.as_bytes(), &Password::new(b"supersecret").expect("a password")).expect("the vector opens");
            assert_eq!(secret.as_slice(), br#""cmVhbGx5aW1wb3J0YW50""#);
        }
    }

    #[test]
    fn files_of_one_password_share_the_work_and_open_one_by_one() {
        let password = Password::new(b"open").expect("a password");
        let files = [b"one", b"two"].map(|secret| lock(secret, &password, ScryptCost::Cheap).expect("locked"));
        assert_eq!(password.derived.lock().expect("no panic").len(), 1, "one salt, one derivation");
        for (file, secret) in files.iter().zip([b"one", b"two"]) {
            let again = Password::new(b"open").expect("a password");
            assert_eq!(unlock(file, &again).expect("it opens").as_slice(), secret);
            assert!(unlock(file, &Password::new(b"closed").expect("a password")).is_err());
        }
        let bodies = files.map(|file| serde_json::from_slice::<KeyBox>(&file).expect("a box"));
        assert_eq!(bodies[0].kdf.salt, bodies[1].kdf.salt);
        assert_ne!(bodies[0].cipher.nonce, bodies[1].cipher.nonce, "never two texts under one nonce");
        assert_eq!(format!("{password:?}"), "Password");
    }

    #[test]
    fn a_wrong_password_and_a_changed_box_are_refused_alike() {
        let wrong = refusal(VECTORS[0], "Supersecret");
        assert_eq!(wrong, "the key does not unlock with this password");
        assert_eq!(refusal(&VECTORS[0].replace("08n43p", "18n43p"), "supersecret"), wrong);
        assert_eq!(refusal(&VECTORS[0].replace("tCy7Hc", "uCy7Hc"), "supersecret"), wrong);
        assert_eq!(refusal(&VECTORS[0].replace("WO3mVv", "XO3mVv"), "supersecret"), wrong);
    }

    #[test]
    fn only_three_costs_are_worked_for() {
        for (from, to) in [
            ("\"N\":32768", "\"N\":16384"),
            ("\"N\":32768", "\"N\":262144"),
            ("\"N\":32768", "\"N\":99"),
            ("\"N\":32768", "\"N\":0"),
            ("\"r\":8", "\"r\":9"),
            ("\"p\":1", "\"p\":2"),
        ] {
            let text = refusal(&VECTORS[0].replace(from, to), "supersecret");
            assert!(text.starts_with("the key file asks for scrypt"), "{to}: {text}");
        }
    }

    #[test]
    fn another_shape_is_refused() {
        for (from, to, expected) in [
            ("scrypt", "pbkdf2", "the key derivation `pbkdf2` is not known: expected `scrypt`"),
            ("nacl/secretbox", "aes-gcm", "the cipher `aes-gcm` is not known: expected `nacl/secretbox`"),
            ("WO3mVvyT", "", "the key file's `kdf.salt` is not base64 of the right length"),
            ("tCy7HcTF", "", "the key file's `cipher.nonce` is not base64 of the right length"),
            ("08n43p5G", "!", "the key file's `ciphertext` is not base64 of the right length"),
            ("\"kdf\"", "\"more\":1,\"kdf\"", "the key file's body does not parse"),
            ("\"N\":32768", "\"N\":-1", "the key file's body does not parse"),
        ] {
            assert_eq!(refusal(&VECTORS[0].replace(from, to), "supersecret"), expected, "{from} -> {to}");
        }
    }
}
