//! `assay bootstrap`: installs Assay in a cluster, with keys made for it.

use std::collections::BTreeMap;

use assay_cluster::{Cluster, ConfigMap, Keys, Place, SITE, Secret};
use assay_envelope::{PublicKey, ScryptCost, SecretKey, TrustPolicy};
use assay_manifest::{Digest, Role};
use assay_runner::{Config, LocalKeys, naming};
use assay_stage::{Exit, Failure};

use crate::commands::render::{InstallOptions, read_policy};
use crate::commands::run::make_missing_keys;
use crate::output;

/// Whom a served store knows besides the roles.
const PEOPLE: [&str; 2] = ["read", "run"];

/// Installs Assay in a cluster, or brings an installation up to date. Keys that are there stay; those that are missing are made for this
/// namespace, and never leave it.
#[derive(clap::Args)]
pub(crate) struct Bootstrap {
    /// The kubeconfig; KUBECONFIG or the usual one if left out
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig; its current one if left out
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    install: InstallOptions,
}

impl Bootstrap {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let connect = assay_cluster::Connect { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        let cluster = Cluster::of_person(&connect)?;
        let config = Config::find()?;
        let password = std::env::var_os("COSIGN_PASSWORD").unwrap_or_default();
        make_missing_keys(&config, password.as_encoded_bytes())?;
        let namespace = self.install.namespace.as_str();

        let (made, public) = signing_keys(&cluster, namespace)?;
        let store = self.store_secrets(&cluster)?;
        let trust = if let Some(path) = &self.install.trust {
            read_policy(path)?
        } else {
            let there = there_trust(&cluster, namespace)?;
            policy(there, namespace, &public, &LocalKeys::of(&config).public_keys()?).to_yaml()
        };
        let keys = Keys { signing: made.clone(), store };
        let (_, objects) = self.install.objects(trust.clone(), Some(&keys))?;
        for object in &objects {
            cluster.apply(object)?;
        }
        let roles: Vec<_> = made.keys().map(|role| role.as_str()).collect();
        output::talk(format!("installed  Assay in namespace {namespace}: {} objects", objects.len()));
        if !roles.is_empty() {
            output::talk(format!("keys       made for {}", roles.join(", ")));
        }
        output::talk("runs of this namespace verify for whoever trusts its keys; a reviewer merges this policy:\n");
        output::line(trust.trim_end());
        Ok(Exit::Done)
    }

    /// What a served store knows each identity by: as it is, or new.
    fn store_secrets(&self, cluster: &Cluster) -> Result<BTreeMap<String, String>, Failure> {
        let Some((namespace, _)) = self.install.served_store() else { return Ok(BTreeMap::new()) };
        let there: Option<Secret> = cluster.get(&Place::named("Secret", &namespace, "assay-store-credentials"))?;
        let names = Role::RUN.iter().map(|role| role.as_str()).chain(PEOPLE);
        names
            .map(|name| {
                let known = there.as_ref().and_then(|secret| member(secret, name));
                let secret = match known {
                    Some(known) => known,
                    None => random(
                        &SecretKey::generate()
                            .map_err(|error| Failure::environment("random", "no secret can be made").because(&error))?,
                    )?,
                };
                Ok((name.to_owned(), secret))
            })
            .collect()
    }
}

/// Keys that were made: encrypted, public, and the password, by role.
type Made = BTreeMap<Role, [String; 3]>;

/// The keys that are missing, and the public keys of all.
fn signing_keys(cluster: &Cluster, namespace: &str) -> Result<(Made, BTreeMap<Role, PublicKey>), Failure> {
    let (mut made, mut public) = (BTreeMap::new(), BTreeMap::new());
    for role in Role::RUN {
        let name = format!("assay-key-{role}");
        let there: Option<Secret> = cluster.get(&Place::named("Secret", namespace, &name))?;
        if let Some(pem) = there.and_then(|secret| member(&secret, "cosign.pub")) {
            let key = PublicKey::from_pem(&pem).map_err(|error| {
                Failure::environment("key", format!("`cosign.pub` of the Secret `{name}` is no public key")).because(&error)
            })?;
            public.insert(role, key);
            continue;
        }
        let unmade = |error: assay_envelope::KeyError| {
            Failure::environment("key", format!("cannot make a key for `{role}`")).because(&error)
        };
        let key = SecretKey::generate().map_err(unmade)?;
        // It lies beside the key that it unlocks: what protects both is who may read the Secret.
        let password = random(&SecretKey::generate().map_err(unmade)?)?;
        let encrypted = key.encrypt(password.as_bytes(), ScryptCost::default()).map_err(unmade)?;
        made.insert(role, [encrypted, key.public_key().to_pem(), password]);
        public.insert(role, key.public_key());
    }
    Ok((made, public))
}

/// A text that nobody guesses: the digest of a fresh private key, which is forgotten.
fn random(key: &SecretKey) -> Result<String, Failure> {
    let der = key.to_pkcs8_der().map_err(|error| Failure::unexpected("random", "no secret can be made").because(&error))?;
    Ok(Digest::of(&der).hex())
}

fn member(secret: &Secret, name: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(name)?;
    String::from_utf8(bytes.0.clone()).ok()
}

/// The policy that is there: what people have written into it stays. One that does not read is not replaced.
fn there_trust(cluster: &Cluster, namespace: &str) -> Result<Option<TrustPolicy>, Failure> {
    let map: Option<ConfigMap> = cluster.get(&Place::named("ConfigMap", namespace, SITE))?;
    let text = map.and_then(|map| map.data?.remove("trust.yaml")).filter(|text| text.lines().any(|line| !line.starts_with('#')));
    text.map(|text| assay_stage::read_trust("the cluster's trust policy", text.as_bytes())).transpose()
}

/// The policy with every key of the cluster, each for its role alone, and this machine's key for starting runs. Who was trusted stays so.
fn policy(
    there: Option<TrustPolicy>,
    namespace: &str,
    cluster: &BTreeMap<Role, PublicKey>,
    local: &[(Role, PublicKey)],
) -> TrustPolicy {
    let own = local
        .iter()
        .filter(|(role, _)| *role == Role::Source)
        .map(|(role, key)| (format!("person-{}", key.fingerprint().short()), *role, key));
    let of_cluster = cluster.iter().map(|(role, key)| (format!("{namespace}-{role}"), *role, key));
    naming(there, namespace, of_cluster.chain(own))
}
