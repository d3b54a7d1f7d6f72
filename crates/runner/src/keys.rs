//! The local keys: one per role, in cosign's encrypted format, made at first use and unlocked once a run.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use assay_envelope::{KeyError, Password, PublicKey, ScryptCost, SecretKey, Signer, TrustPolicy, TrustedSigner, Zeroizing};
use assay_manifest::{Instant, Role};

use crate::{Config, Error, FileRole, KeyWork, Result, lock};

/// The largest key file, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The unlocked keys of a run.
#[derive(Clone)]
pub struct KeyRing(Arc<BTreeMap<Role, UnlockedKey>>);

struct UnlockedKey {
    pkcs8: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

impl KeyRing {
    /// Returns a key ring with one key, for a process that has no other: a file in cosign's format.
    pub fn from_file(role: Role, path: &Path, password: &[u8]) -> Result<Self> {
        Ok(Self(Arc::new(BTreeMap::from([(role, unlock(path, &new_password(password)?)?)]))))
    }

    /// Returns the unlocked key of a role, to pass to its stage.
    pub(crate) fn unlocked(&self, role: Role) -> Result<&[u8]> {
        Ok(&self.key(role)?.pkcs8)
    }

    /// Returns the public key of a role.
    pub fn public(&self, role: Role) -> Result<&PublicKey> {
        Ok(&self.key(role)?.public)
    }

    /// Returns the signer of a role.
    pub fn signer(&self, role: Role) -> Result<Signer> {
        let key = SecretKey::from_pkcs8_der(self.unlocked(role)?).map_err(|error| key_error(KeyWork::Use(role), error))?;
        Ok(Signer::new(key))
    }

    fn key(&self, role: Role) -> Result<&UnlockedKey> {
        self.0.get(&role).ok_or(Error::KeyNotUnlocked(role))
    }
}

/// The local key files.
#[derive(Clone, Debug)]
pub struct LocalKeys {
    config: Config,
}

impl LocalKeys {
    /// Returns the keys of a configuration folder.
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }

    /// Returns the roles that have no key yet.
    pub fn missing(&self) -> Vec<Role> {
        Role::LOCAL.into_iter().filter(|role| !self.config.private_key(*role).exists()).collect()
    }

    /// Unlocks the keys of these roles, one after the other. Unlocking is slow by design; keys that were made together share its work.
    /// Each takes the memory that the cost of its encryption requires, 64 MiB by default, and returns it before the next.
    pub fn unlock(&self, roles: &[Role], password: &[u8]) -> Result<KeyRing> {
        let password = &new_password(password)?;
        let unlocked = roles.iter().map(|role| self.unlock_one(*role, password)).collect::<Result<_>>()?;
        Ok(KeyRing(Arc::new(unlocked)))
    }

    fn unlock_one(&self, role: Role, password: &Password) -> Result<(Role, UnlockedKey)> {
        Ok((role, unlock(&self.config.private_key(role), password)?))
    }

    /// Returns the public keys, by role.
    pub fn public_keys(&self) -> Result<Vec<(Role, PublicKey)>> {
        Role::LOCAL.into_iter().map(|role| Ok((role, self.public_key(role)?))).collect()
    }

    /// Returns the public key of a role.
    pub fn public_key(&self, role: Role) -> Result<PublicKey> {
        let path = self.config.public_key(role);
        PublicKey::from_pem(&read_key(&path)?).map_err(|error| key_error(KeyWork::ReadPublic(path), error))
    }
}

/// The keys and the trust root that [`init_keys`] made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeKeys {
    /// The roles whose keys were made.
    pub roles: Vec<Role>,
    /// True if there was no trust root.
    pub trust_root: bool,
}

/// Makes the missing keys and ensures that the trust root names every key. Returns what it made: nothing, if another process was first.
///
/// A person's own entries of the trust root stay in it.
pub fn init_keys(config: &Config, password: &[u8], cost: ScryptCost) -> Result<MadeKeys> {
    make_private_folder(&config.folder().join("keys"))?;
    // Two first runs at once would otherwise mix the halves of their keys.
    let _one_at_a_time = lock::wait(&config.folder().join("keys.lock"))?;
    let keys = LocalKeys::new(config);
    let missing = keys.missing();
    let password = new_password(password)?;
    for role in &missing {
        make_key(config, *role, &password, cost)?;
    }
    let existing = read_trust_root(&config.trust())?;
    let policy = add_local_signers(existing.clone(), &keys.public_keys()?);
    if existing.as_ref() != Some(&policy) {
        write_new_or_replace(&config.trust(), policy.to_yaml().as_bytes(), 0o644)?;
    }
    Ok(MadeKeys { roles: missing, trust_root: existing.is_none() })
}

/// A key that was replaced by a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotatedKey {
    /// The role that it signs for.
    pub role: Role,
    /// The key that signed until now.
    pub old: PublicKey,
    /// The key that signs from now on.
    pub new: PublicKey,
}

/// Makes new keys for these roles. In the local trust root the validity of the old ones ends at `now`, and that of the new ones
/// begins.
///
/// The old public keys stay beside the new ones and in the trust root, so that manifests signed until `now` still verify. Their
/// private halves are removed. The password must be that of the old keys, so that all keys of a run have the same password.
pub fn rotate_keys(config: &Config, roles: &[Role], password: &[u8], cost: ScryptCost, now: Instant) -> Result<Vec<RotatedKey>> {
    let _one_at_a_time = lock::wait(&config.folder().join("keys.lock"))?;
    let keys = LocalKeys::new(config);
    if let Some(role) = roles.iter().find(|role| keys.missing().contains(role)) {
        return Err(Error::NoKey(*role));
    }
    let unlocked = keys.unlock(roles, password)?;
    let mut policy = add_local_signers(read_trust_root(&config.trust())?, &keys.public_keys()?);
    let (new_ones, mut made) = (new_password(password)?, Vec::new());
    for role in roles {
        let old = unlocked.public(*role)?.clone();
        let (private, new) = new_key(*role, &new_ones, cost)?;
        end_validity(&mut policy, *role, &old, now)?;
        policy = add_signers(Some(policy), "local", [(format!("local-{role}"), *role, &new)]);
        if let Some(signer) = policy.signers.iter_mut().find(|signer| signer.key == new) {
            signer.not_before = Some(now);
        }
        made.push((private, RotatedKey { role: *role, old, new }));
    }
    for (_, RotatedKey { role, old, .. }) in &made {
        write_new_or_replace(&config.old_public_key(*role, old.fingerprint()), old.to_pem().as_bytes(), 0o644)?;
    }
    // The trust root before the keys: a process that stops here has closed the old keys and can rotate again.
    write_new_or_replace(&config.trust(), policy.to_yaml().as_bytes(), 0o644)?;
    for (private, RotatedKey { role, new, .. }) in &made {
        write_new_or_replace(&config.public_key(*role), new.to_pem().as_bytes(), 0o644)?;
        write_new_or_replace(&config.private_key(*role), private.as_bytes(), 0o600)?;
    }
    Ok(made.into_iter().map(|(_, rotated)| rotated).collect())
}

/// Ends the validity of a role's key. A key that a person has also assigned to other roles is refused: its owner has to replace
/// it.
fn end_validity(policy: &mut TrustPolicy, role: Role, key: &PublicKey, now: Instant) -> Result<()> {
    for signer in policy.signers.iter_mut().filter(|signer| signer.key == *key && signer.signs.contains(&role)) {
        if signer.signs.len() > 1 {
            return Err(Error::SharedKey { signer: signer.name.clone(), role });
        }
        signer.not_after = Some(signer.not_after.map_or(now, |end| end.min(now)));
    }
    Ok(())
}

/// Returns the keys with which this machine's gate has signed verdicts, each with its window of validity for the gate.
pub fn gate_signers(config: &Config) -> Result<Vec<TrustedSigner>> {
    let current = LocalKeys::new(config).public_key(Role::Gate)?;
    let policy = read_trust_root(&config.trust())?;
    let named = policy.into_iter().flat_map(|policy| policy.signers);
    let is_own =
        |signer: &TrustedSigner| signer.key == current || config.old_public_key(Role::Gate, signer.key.fingerprint()).exists();
    let mut own: Vec<_> = named.filter(|signer| signer.signs.contains(&Role::Gate) && is_own(signer)).collect();
    for signer in &mut own {
        (signer.name, signer.signs) = ("this gate".to_owned(), [Role::Gate].into());
    }
    if own.iter().all(|signer| signer.key != current) {
        own.push(TrustedSigner::new("this gate", current, [Role::Gate]));
    }
    Ok(own)
}

/// Takes a password for several keys.
fn new_password(password: &[u8]) -> Result<Password> {
    Password::new(password).map_err(|error| key_error(KeyWork::Encode, error))
}

fn unlock(path: &Path, password: &Password) -> Result<UnlockedKey> {
    let text = read_key(path)?;
    let key = SecretKey::decrypt_with(&text, password).map_err(|error| key_error(KeyWork::Unlock(path.to_owned()), error))?;
    let pkcs8 = key.to_pkcs8_der().map_err(|error| key_error(KeyWork::Encode, error))?;
    Ok(UnlockedKey { pkcs8, public: key.public_key() })
}

fn key_error(work: KeyWork, source: KeyError) -> Error {
    Error::Key { work, source }
}

fn read_trust_root(path: &Path) -> Result<Option<TrustPolicy>> {
    // To open a pipe would wait for its other end.
    let read = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(std::io::Error::other("it is not a plain file")),
        _ => fs::read(path),
    };
    match read {
        Ok(bytes) => Ok(Some(assay_stage::read_trust(&path.display().to_string(), &bytes)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileRole::TrustRoot.error(path)(error)),
    }
}

/// Returns the policy with each key that it does not name yet. A key that was replaced stays: it signed the runs of its time.
fn add_local_signers(policy: Option<TrustPolicy>, keys: &[(Role, PublicKey)]) -> TrustPolicy {
    add_signers(policy, "local", keys.iter().map(|(role, key)| (format!("local-{role}"), *role, key)))
}

/// Returns the policy with every signer that it does not name yet, each for its role alone; a new one of this name if there is
/// none. Existing entries stay.
pub fn add_signers<'a>(
    policy: Option<TrustPolicy>,
    name: &str,
    signers: impl IntoIterator<Item = (String, Role, &'a PublicKey)>,
) -> TrustPolicy {
    let mut policy = policy.unwrap_or_else(|| TrustPolicy::from_signers(name, Vec::new()));
    for (plain, role, key) in signers {
        if policy.signers.iter().any(|signer| signer.key == *key && signer.signs.contains(&role)) {
            continue;
        }
        let is_taken = policy.signers.iter().any(|signer| signer.name == plain);
        let name = if is_taken { format!("{plain}-{}", key.fingerprint().short()) } else { plain };
        policy.signers.push(TrustedSigner::new(name, key.clone(), [role]));
    }
    policy
}

fn make_key(config: &Config, role: Role, password: &Password, cost: ScryptCost) -> Result<()> {
    let (private, public) = new_key(role, password, cost)?;
    // The public half first: a private key without one would be taken for complete.
    write_new_or_replace(&config.public_key(role), public.to_pem().as_bytes(), 0o644)?;
    write_new_or_replace(&config.private_key(role), private.as_bytes(), 0o600)
}

/// Makes a key: its encrypted file and its public half.
fn new_key(role: Role, password: &Password, cost: ScryptCost) -> Result<(String, PublicKey)> {
    let unmade = |error: KeyError| key_error(KeyWork::Make(role), error);
    let key = SecretKey::generate().map_err(unmade)?;
    Ok((key.encrypt_with(password, cost).map_err(unmade)?, key.public_key()))
}

fn make_private_folder(folder: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(FileRole::Config.error(folder))
}

/// Writes a file atomically.
fn write_new_or_replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let staged = path.with_extension(format!("new-{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&staged)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&staged, path)
    };
    write().map_err(FileRole::Config.error(path))
}

fn read_key(path: &Path) -> Result<String> {
    let found = fs::metadata(path).map_err(FileRole::Key.error(path))?;
    // To open a pipe would wait for a writer, and nothing ends that wait.
    if !found.is_file() {
        return Err(FileRole::Key.error(path)(std::io::Error::other("it is not a regular file")));
    }
    let size = found.len();
    if size > MAX_KEY_BYTES {
        return Err(Error::KeyTooLarge { path: path.to_owned(), size });
    }
    fs::read_to_string(path).map_err(FileRole::Key.error(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::OnceLock;

    use super::*;

    #[test]
    fn a_key_is_read_from_a_regular_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("plan.key");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        let failure = assay_failure::Failure::from(read_key(&pipe).expect_err("a pipe"));
        assert_eq!((failure.code.as_str(), failure.causes.last().map(String::as_str)), ("key", Some("it is not a regular file")));
        assert_eq!(read_key(folder.path()).expect_err("a folder").code().as_str(), "key");
    }

    /// A configuration folder with keys under the password `open`: a copy of one, because making keys is slow by design.
    fn initialised() -> (tempfile::TempDir, Config) {
        static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
        let made = MADE.get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            assert_eq!(init_keys(&Config::new(folder.path()), b"open", ScryptCost::Cheap).expect("keys").roles, Role::LOCAL);
            folder
        });
        let (from, folder) = (Config::new(made.path()), tempfile::tempdir().expect("a folder"));
        let to = Config::new(folder.path().join("assay"));
        make_private_folder(&to.folder().join("keys")).expect("a folder");
        let pairs = Role::LOCAL.map(|role| [from.private_key(role), from.public_key(role)]).concat();
        for path in pairs.iter().chain([&from.trust()]) {
            let inside = path.strip_prefix(from.folder()).expect("inside");
            fs::copy(path, to.folder().join(inside)).expect("copied");
        }
        (folder, to)
    }

    fn signers(config: &Config) -> Vec<String> {
        let policy = read_trust_root(&config.trust()).expect("it reads").expect("it is there");
        policy.signers.into_iter().map(|signer| signer.name).collect()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn keys_are_made_once() {
        let (_folder, config) = initialised();
        let before = (fs::read(config.private_key(Role::Plan)).expect("a key"), fs::read(config.trust()).expect("a trust root"));
        assert_eq!(
            init_keys(&config, b"open", ScryptCost::Cheap).expect("keys"),
            MadeKeys { roles: Vec::new(), trust_root: false }
        );
        let after = (fs::read(config.private_key(Role::Plan)).expect("a key"), fs::read(config.trust()).expect("a trust root"));
        assert_eq!(before, after);
        assert_eq!(mode(&config.private_key(Role::Plan)), 0o600);
        assert_eq!(mode(&config.folder().join("keys")), 0o700);
        assert_eq!(mode(&config.public_key(Role::Plan)), 0o644);
    }

    #[test]
    fn the_trust_root_names_every_key_for_its_role_alone() {
        let (_folder, config) = initialised();
        let policy = read_trust_root(&config.trust()).expect("it reads").expect("it is there");
        for (role, key) in LocalKeys::new(&config).public_keys().expect("public keys") {
            let signer = policy.signers.iter().find(|signer| signer.key == key).expect("it is named");
            assert_eq!(
                (signer.name.clone(), signer.signs.iter().copied().collect::<Vec<_>>()),
                (format!("local-{role}"), vec![role])
            );
        }
        assert_eq!(policy.signers.len(), Role::LOCAL.len());
    }

    #[test]
    fn unlocked_keys_are_those_of_the_trust_root() {
        let (_folder, config) = initialised();
        let keys = LocalKeys::new(&config);
        let ring = keys.unlock(&Role::LOCAL, b"open").expect("the right password");
        for (role, public) in keys.public_keys().expect("public keys") {
            assert_eq!(ring.public(role).expect("a key"), &public);
            assert_eq!(ring.signer(role).expect("a signer").public_key(), &public);
        }
        let of_a_run = keys.unlock(&Role::RUN, b"open").expect("the right password");
        assert_eq!(of_a_run.public(Role::Gate).expect_err("no stage of a run").to_string(), "no key of `gate` was unlocked");
    }

    #[test]
    fn a_wrong_password_is_named_with_its_key() {
        let (_folder, config) = initialised();
        let failure = assay_failure::Failure::from(LocalKeys::new(&config).unlock(&Role::RUN, b"wrong").err().expect("locked"));
        assert_eq!(failure.code.as_str(), "key_locked");
        assert_eq!(failure.message, format!("cannot unlock the key `{}`", config.private_key(Role::Source).display()));
        insta::assert_snapshot!(failure.hint.unwrap_or_default(), @"set COSIGN_PASSWORD to the key's password");
    }

    #[test]
    fn what_a_person_wrote_into_the_trust_root_stays() {
        let (_folder, config) = initialised();
        let mut policy = read_trust_root(&config.trust()).expect("it reads").expect("it is there");
        let colleague = SecretKey::generate().expect("a key").public_key();
        policy.signers.push(TrustedSigner::new("colleague", colleague, [Role::Source]));
        fs::write(config.trust(), policy.to_yaml()).expect("written");
        fs::remove_file(config.private_key(Role::Plan)).expect("a lost key");

        assert_eq!(init_keys(&config, b"open", ScryptCost::Cheap).expect("keys").roles, [Role::Plan]);
        let names = signers(&config);
        assert_eq!(names.len(), Role::LOCAL.len() + 2);
        assert!(names.contains(&"colleague".to_owned()) && names.contains(&"local-plan".to_owned()));
        assert!(names.last().expect("the new key").starts_with("local-plan-"), "{names:?}");
        LocalKeys::new(&config).unlock(&Role::LOCAL, b"open").expect("all of them");
    }

    #[test]
    fn a_trust_root_that_does_not_read_is_not_replaced() {
        let (_folder, config) = initialised();
        fs::write(config.trust(), "signers: mine").expect("written");
        let failure = init_keys(&config, b"open", ScryptCost::Cheap).expect_err("not a policy");
        assert_eq!(failure.code().as_str(), "trust_policy");
        assert_eq!(fs::read_to_string(config.trust()).expect("as it was"), "signers: mine");
    }

    #[test]
    fn first_runs_at_once_share_one_set_of_keys() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config::new(folder.path());
        let made = std::thread::scope(|scope| {
            let runs = [(); 3].map(|()| scope.spawn(|| init_keys(&config, b"", ScryptCost::Cheap).expect("keys")));
            runs.map(|run| run.join().expect("no panic"))
        });
        // One of them says that it made all, and the others that they made nothing.
        let made_all = made.iter().filter(|made| made.roles == Role::LOCAL && made.trust_root).count();
        let made_nothing = made.iter().filter(|made| made.roles.is_empty() && !made.trust_root).count();
        assert_eq!((made_all, made_nothing), (1, 2), "{made:?}");
        let keys = LocalKeys::new(&config);
        let ring = keys.unlock(&Role::LOCAL, b"").expect("unlocked");
        assert!(
            keys.public_keys()
                .expect("public keys")
                .iter()
                .all(|(role, key)| ring.public(*role).is_ok_and(|public| public == key))
        );
    }

    #[test]
    fn what_is_too_large_for_a_key_is_not_read() {
        let (_folder, config) = initialised();
        fs::write(config.public_key(Role::Source), vec![b' '; 70_000]).expect("written");
        let failure = LocalKeys::new(&config).public_keys().expect_err("too large");
        assert!(failure.to_string().ends_with("keys/source.pub` has 70000 bytes, too many for a key"), "{failure}");
    }

    fn second(second: i64) -> Instant {
        Instant::from_unix_ns(second * 1_000_000_000)
    }

    fn named(config: &Config, key: &PublicKey) -> TrustedSigner {
        let policy = read_trust_root(&config.trust()).expect("it reads").expect("it is there");
        policy.signers.into_iter().find(|signer| signer.key == *key).expect("the trust root names it")
    }

    #[test]
    fn a_rotated_key_keeps_what_it_signed_and_signs_no_more() {
        let (_folder, config) = initialised();
        let rotated = rotate_keys(&config, &[Role::Plan], b"open", ScryptCost::Cheap, second(100)).expect("rotated");
        let [RotatedKey { role: Role::Plan, old, new }] = rotated.as_slice() else { panic!("one key: {rotated:?}") };
        assert_ne!(old, new);
        assert_eq!((named(&config, old).not_before, named(&config, old).not_after), (None, Some(second(100))));
        assert_eq!((named(&config, new).not_before, named(&config, new).not_after), (Some(second(100)), None));
        let keys = LocalKeys::new(&config);
        assert_eq!(keys.public_key(Role::Plan).expect("a key"), *new);
        assert_eq!(keys.unlock(&Role::LOCAL, b"open").expect("one password").public(Role::Plan).expect("a key"), new);
        let kept = fs::read_to_string(config.old_public_key(Role::Plan, old.fingerprint())).expect("the old public key is kept");
        assert_eq!(PublicKey::from_pem(&kept).expect("a key"), *old);

        // Again: the first window stays as it was.
        rotate_keys(&config, &[Role::Plan], b"open", ScryptCost::Cheap, second(200)).expect("rotated");
        assert_eq!(named(&config, old).not_after, Some(second(100)));
        assert_eq!((named(&config, new).not_before, named(&config, new).not_after), (Some(second(100)), Some(second(200))));
        assert_eq!(init_keys(&config, b"open", ScryptCost::Cheap).expect("keys").roles, [], "nothing is opened again");
        assert_eq!(named(&config, old).not_after, Some(second(100)));
    }

    #[test]
    fn a_rotation_that_cannot_be_whole_changes_nothing() {
        let (_folder, config) = initialised();
        let before = (fs::read(config.trust()).expect("a trust root"), fs::read(config.private_key(Role::Plan)).expect("a key"));
        let failure = rotate_keys(&config, &[Role::Plan], b"wrong", ScryptCost::Cheap, second(1)).expect_err("locked");
        assert_eq!(failure.code().as_str(), "key_locked");
        let text = fs::read_to_string(config.trust()).expect("a trust root");
        let shared = text.replace("signs: [plan]", "signs: [plan, reduce]");
        fs::write(config.trust(), &shared).expect("written");
        let failure = rotate_keys(&config, &[Role::Plan], b"open", ScryptCost::Cheap, second(1)).expect_err("shared");
        assert_eq!(failure.code().as_str(), "shared_key");
        fs::write(config.trust(), text).expect("written");
        fs::remove_file(config.private_key(Role::Gate)).expect("a lost key");
        let failure =
            rotate_keys(&config, &[Role::Plan, Role::Gate], b"open", ScryptCost::Cheap, second(1)).expect_err("missing");
        assert_eq!(failure.code().as_str(), "no_keys");
        let after = (fs::read(config.trust()).expect("a trust root"), fs::read(config.private_key(Role::Plan)).expect("a key"));
        assert_eq!(before, after);
    }

    #[test]
    fn a_gate_s_older_keys_are_its_own() {
        let (_folder, config) = initialised();
        let rotated = rotate_keys(&config, &[Role::Gate], b"open", ScryptCost::Cheap, second(100)).expect("rotated");
        let own = gate_signers(&config).expect("signers");
        let keys: Vec<_> = own.iter().map(|signer| (&signer.key, signer.not_before, signer.not_after)).collect();
        let expected = [(&rotated[0].old, None, Some(second(100))), (&rotated[0].new, Some(second(100)), None)];
        assert_eq!(keys, expected);
        let mut policy = read_trust_root(&config.trust()).expect("it reads").expect("it is there");
        policy.signers.push(TrustedSigner::new("colleague", SecretKey::generate().expect("a key").public_key(), [Role::Gate]));
        fs::write(config.trust(), policy.to_yaml()).expect("written");
        assert_eq!(gate_signers(&config).expect("signers").len(), 2, "a colleague's gate is not this one");
        fs::remove_file(config.trust()).expect("there is a trust root");
        assert_eq!(gate_signers(&config).expect("signers").len(), 1);
    }
}
