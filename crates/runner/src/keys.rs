//! The local keys: one per role, in cosign's encrypted format, made at first use and unlocked once a run.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use assay_envelope::{PublicKey, ScryptCost, SecretKey, Signer, TrustPolicy, TrustedSigner, Zeroizing};
use assay_manifest::Role;
use assay_stage::Failure;

use crate::Config;

/// The largest key file.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The unlocked keys of a run.
#[derive(Clone)]
pub struct KeyRing(Arc<BTreeMap<Role, Unlocked>>);

struct Unlocked {
    pkcs8: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

impl KeyRing {
    /// The unlocked key of a role, for handing it to its stage.
    pub(crate) fn unlocked(&self, role: Role) -> Result<&[u8], Failure> {
        Ok(&self.key(role)?.pkcs8)
    }

    /// The public key of a role.
    pub fn public(&self, role: Role) -> Result<&PublicKey, Failure> {
        Ok(&self.key(role)?.public)
    }

    /// What signs for a role.
    pub fn signer(&self, role: Role) -> Result<Signer, Failure> {
        let key = SecretKey::from_pkcs8_der(self.unlocked(role)?)
            .map_err(|error| Failure::unexpected("key", format!("the key of `{role}` cannot be used")).because(&error))?;
        Ok(Signer::new(key))
    }

    fn key(&self, role: Role) -> Result<&Unlocked, Failure> {
        self.0.get(&role).ok_or_else(|| Failure::unexpected("key", format!("no key of `{role}` was unlocked")))
    }
}

/// The local key files.
#[derive(Clone, Debug)]
pub struct LocalKeys {
    config: Config,
}

impl LocalKeys {
    /// The keys of a configuration folder.
    pub fn of(config: &Config) -> Self {
        Self { config: config.clone() }
    }

    /// The roles that have no key yet.
    pub fn missing(&self) -> Vec<Role> {
        Role::RUN.into_iter().filter(|role| !self.config.private_key(*role).exists()).collect()
    }

    /// Unlocks every key of a run, each once. Unlocking is meant to be slow, so the machine's CPUs share it.
    pub fn unlock(&self, password: &[u8]) -> Result<KeyRing, Failure> {
        let unlocked = std::thread::scope(|scope| {
            let threads: Vec<_> = Role::RUN.map(|role| scope.spawn(move || self.unlock_one(role, password))).into();
            threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(unlocked) => unlocked,
                    Err(_) => Err(Failure::unexpected("key", "a thread that unlocks a key panicked")),
                })
                .collect::<Result<Vec<_>, _>>()
        })?;
        Ok(KeyRing(Arc::new(unlocked.into_iter().collect())))
    }

    fn unlock_one(&self, role: Role, password: &[u8]) -> Result<(Role, Unlocked), Failure> {
        let path = self.config.private_key(role);
        let text = read_key(&path)?;
        let key = SecretKey::decrypt(&text, password).map_err(|error| {
            Failure::environment("key_locked", format!("cannot unlock the key `{}`", path.display()))
                .because(&error)
                .hint("the password is read from COSIGN_PASSWORD, empty if unset")
        })?;
        let unusable =
            |error: assay_envelope::KeyError| Failure::unexpected("key", "an unlocked key cannot be written").because(&error);
        Ok((role, Unlocked { pkcs8: key.to_pkcs8_der().map_err(unusable)?, public: key.public_key() }))
    }

    /// The public keys, by role.
    pub fn public_keys(&self) -> Result<Vec<(Role, PublicKey)>, Failure> {
        let public = |role| {
            let path = self.config.public_key(role);
            let key = PublicKey::from_pem(&read_key(&path)?)
                .map_err(|error| Failure::environment("key", format!("`{}` is no public key", path.display())).because(&error))?;
            Ok((role, key))
        };
        Role::RUN.into_iter().map(public).collect()
    }
}

/// Makes the keys that are missing and, if there is none, a trust root that names them. Gives the roles whose keys were made.
pub fn init_keys(config: &Config, password: &[u8], cost: ScryptCost) -> Result<Vec<Role>, Failure> {
    let keys = LocalKeys::of(config);
    let missing = keys.missing();
    make_private_folder(&config.folder().join("keys"))?;
    for role in &missing {
        make_key(config, *role, password, cost)?;
    }
    if !missing.is_empty() || !config.trust().exists() {
        let public = keys.public_keys()?;
        let signers = public.into_iter().map(|(role, key)| TrustedSigner::new(format!("local-{role}"), key, [role]));
        let policy = TrustPolicy { name: "local".to_owned(), digest: None, signers: signers.collect() };
        write_new_or_replace(&config.trust(), policy.to_yaml().as_bytes(), 0o644)?;
    }
    Ok(missing)
}

fn make_key(config: &Config, role: Role, password: &[u8], cost: ScryptCost) -> Result<(), Failure> {
    let unmade =
        |error: assay_envelope::KeyError| Failure::environment("key", format!("cannot make a key for `{role}`")).because(&error);
    let key = SecretKey::generate().map_err(unmade)?;
    // The public half first: a private key without one would pass for complete.
    write_new_or_replace(&config.public_key(role), key.public_key().to_pem().as_bytes(), 0o644)?;
    write_new_or_replace(&config.private_key(role), key.encrypt(password, cost).map_err(unmade)?.as_bytes(), 0o600)
}

fn make_private_folder(folder: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| unwritable(folder, &error))
}

/// Writes a file whole or not at all.
fn write_new_or_replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let staged = path.with_extension(format!("new-{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&staged)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&staged, path)
    };
    write().map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::environment("config", format!("cannot write `{}`", path.display())).because(error)
}

fn read_key(path: &Path) -> Result<String, Failure> {
    let unreadable =
        |error: &std::io::Error| Failure::environment("key", format!("cannot read the key `{}`", path.display())).because(error);
    let size = fs::metadata(path).map_err(|error| unreadable(&error))?.len();
    if size > MAX_KEY_BYTES {
        return Err(Failure::environment("key", format!("`{}` has {size} bytes, too many for a key", path.display())));
    }
    fs::read_to_string(path).map_err(|error| unreadable(&error))
}
