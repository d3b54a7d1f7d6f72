//! `assay bootstrap`: installs Assay in a cluster, with keys made for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use assay_cluster::{
    Cluster, ConfigMap, INSTALLATION, Installation, Keys, Namespace, Object, ObjectPath, Secret, TARGETS_OWNER, TEMPORARY,
    removal_rights, set_namespace_owner,
};
use assay_envelope::{PublicKey, ScryptCost, SecretKey, TrustPolicy};
use assay_manifest::{Digest, Role};
use assay_runner::{Config, LocalKeys, add_signers};
use assay_stage::{ErrorCode, Exit, Failure, key_password};

use crate::commands::cluster::{find_temporary, keep};
use crate::commands::render::{InstallOptions, StoreChoice, read_policy};
use crate::commands::run::make_missing_keys;
use crate::output;

/// The time limit for a namespace that is being removed.
const GONE_LIMIT: Duration = Duration::from_mins(2);
/// The identities of a served store besides the roles.
const PEOPLE: [&str; 2] = ["read", "run"];

/// Install Assay in a cluster, or update an installation. Existing keys stay; missing keys are created for this namespace, and
/// never leave it.
#[derive(clap::Args)]
pub(crate) struct Bootstrap {
    /// The kubeconfig [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    install: InstallOptions,
}

impl Bootstrap {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let connect = assay_cluster::ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        let trust = install(&Cluster::from_kubeconfig(&connect)?, &self.install, InstallLifetime::Permanent)?;
        output::diagnostic("runs of this namespace verify under this trust policy; merge it by a reviewed pull request:\n");
        output::lines(trust.trim_end());
        Ok(Exit::Done)
    }
}

/// The lifetime of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstallLifetime {
    /// Until an administrator removes it.
    Permanent,
    /// Until the run is over, for namespaces that did not exist; an existing store is used.
    OneRun,
}

/// Installs Assay with a person's credentials, and returns the trust policy of its runs.
pub(crate) fn install(cluster: &Cluster, options: &InstallOptions, lifetime: InstallLifetime) -> Result<String, Failure> {
    let config = Config::find()?;
    let password = key_password();
    make_missing_keys(&config, password.as_encoded_bytes())?;
    let namespace = options.namespace.as_str();
    check_targets_alone(cluster, options)?;
    // A namespace that is being removed loses its keys.
    wait_until_gone(cluster, namespace)?;

    let makes = if lifetime == InstallLifetime::OneRun && serves_already(cluster, options)? {
        StoreChoice::UseExisting
    } else {
        StoreChoice::Install
    };
    let (made, public) = signing_keys(cluster, namespace)?;
    let store = store_secrets(cluster, options, makes)?;
    let trust = if let Some(path) = &options.trust {
        read_policy(path)?
    } else {
        let there = read_cluster_trust(cluster, namespace)?;
        policy(there, namespace, &public, &LocalKeys::new(&config).public_keys()?).to_yaml()
    };
    let keys = Keys { signing: made.clone(), store };
    let (installation, mut objects) = options.objects(trust.clone(), Some(&keys), makes)?;
    match lifetime {
        InstallLifetime::OneRun => make_namespaces(cluster, options, &installation, &mut objects)?,
        // Namespaces that were made for one run are permanent from now on.
        InstallLifetime::Permanent => {
            let namespaces = objects.iter().filter(|object| object["kind"] == "Namespace");
            let names = namespaces.filter_map(|namespace| namespace["metadata"]["name"].as_str());
            keep(cluster, &find_temporary(cluster, &installation.namespace, names)?)?;
        }
    }
    for object in &objects {
        cluster.apply(object)?;
    }
    let roles: Vec<_> = made.keys().map(|role| role.as_str()).collect();
    output::diagnostic(format!("installed  Assay in namespace {namespace}: {} objects", objects.len()));
    if !roles.is_empty() {
        output::diagnostic(format!("keys       made for {}", roles.join(", ")));
    }
    Ok(trust)
}

/// Refuses a targets namespace of another installation: drivers remove targets whose run they do not know.
fn check_targets_alone(cluster: &Cluster, options: &InstallOptions) -> Result<(), Failure> {
    let name = options.installation(String::new()).targets_namespace;
    let there: Option<Namespace> = cluster.get(&ObjectPath::in_cluster("Namespace", &name))?;
    let owner = there.and_then(|there| there.metadata.labels?.remove(TARGETS_OWNER));
    match owner {
        Some(other) if other != options.namespace => Err(Failure::new(
            ErrorCode::TargetsShared,
            format!("the namespace `{name}` is for the targets of the installation in `{other}`"),
        )
        .hint("name another one with `--targets-namespace`")),
        _ => Ok(()),
    }
}

/// Returns true if the store that an installation would serve already exists.
pub(crate) fn serves_already(cluster: &Cluster, options: &InstallOptions) -> Result<bool, Failure> {
    let Some((namespace, _)) = options.served_store() else { return Ok(false) };
    Ok(cluster.get::<serde_json::Value>(&ObjectPath::named("Deployment", &namespace, "assay-store"))?.is_some())
}

/// Makes the namespaces that do not exist, marked as made for one run, and makes them own the objects outside of them, so that
/// both are removed together.
fn make_namespaces(
    cluster: &Cluster,
    options: &InstallOptions,
    installation: &Installation,
    objects: &mut Vec<Object>,
) -> Result<(), Failure> {
    let mut names = Vec::new();
    for namespace in objects.iter().filter(|object| object["kind"] == "Namespace") {
        let mut namespace = namespace.clone();
        namespace["metadata"]["labels"][TEMPORARY] = installation.namespace.clone().into();
        let name = namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        wait_until_gone(cluster, &name)?;
        if cluster.create(&namespace)? {
            output::diagnostic(format!("namespace  {name} was not there: made for this run, and removed after it"));
        }
        names.push(name);
    }
    let store = options.served_store().map(|(namespace, _)| namespace);
    let temporary = find_temporary(cluster, &installation.namespace, names.iter().map(String::as_str))?;
    if let Some(own) = temporary.iter().find(|made| made.name == installation.namespace) {
        set_namespace_owner(installation, (&own.name, &own.uid), store.as_deref(), objects);
    }
    if let Some(made) = temporary.iter().find(|made| made.name == installation.namespace).or(temporary.first()) {
        let named: Vec<&str> = temporary.iter().map(|made| made.name.as_str()).collect();
        let mut rights = removal_rights(installation, &named);
        set_namespace_owner(installation, (&made.name, &made.uid), None, &mut rights);
        objects.extend(rights);
    }
    Ok(())
}

/// Waits until a namespace of the last run has been removed.
fn wait_until_gone(cluster: &Cluster, name: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let there: Option<Namespace> = cluster.get(&ObjectPath::in_cluster("Namespace", name))?;
        if there.is_none_or(|there| there.metadata.deletion_timestamp.is_none()) {
            return Ok(());
        }
        if begun.elapsed() > GONE_LIMIT {
            return Err(Failure::new(ErrorCode::NamespaceStays, format!("the namespace `{name}` is being removed, and stays"))
                .hint(format!("kubectl describe namespace {name}")));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Returns the credentials of each identity of a served store: the existing ones, or new ones.
fn store_secrets(cluster: &Cluster, options: &InstallOptions, makes: StoreChoice) -> Result<BTreeMap<String, String>, Failure> {
    let Some((namespace, _)) = options.served_store() else { return Ok(BTreeMap::new()) };
    let there: Option<Secret> = cluster.get(&ObjectPath::named("Secret", &namespace, "assay-store-credentials"))?;
    let unmade = |error: assay_envelope::KeyError| Failure::new(ErrorCode::Random, "no secret can be made").because(&error);
    let names = Role::RUN.iter().map(|role| role.as_str()).chain(PEOPLE);
    let secret_of = |name: &str| match there.as_ref().and_then(|secret| member(secret, name)) {
        Some(known) => Ok((name.to_owned(), known)),
        None if makes == StoreChoice::UseExisting => Err(Failure::new(
            ErrorCode::CredentialsMissing,
            format!("the store of namespace `{namespace}` does not know `{name}`: its Secret `assay-store-credentials` lacks it"),
        )),
        None => Ok((name.to_owned(), random(&SecretKey::generate().map_err(unmade)?)?)),
    };
    names.map(secret_of).collect()
}

/// New keys by role: encrypted, public, and the password.
type NewKeys = BTreeMap<Role, [String; 3]>;

/// Makes the missing keys, and returns them and the public keys of all roles.
fn signing_keys(cluster: &Cluster, namespace: &str) -> Result<(NewKeys, BTreeMap<Role, PublicKey>), Failure> {
    let (mut made, mut public) = (BTreeMap::new(), BTreeMap::new());
    for role in Role::RUN {
        let name = format!("assay-key-{role}");
        let there: Option<Secret> = cluster.get(&ObjectPath::named("Secret", namespace, &name))?;
        if let Some(pem) = there.and_then(|secret| member(&secret, "cosign.pub")) {
            let key = PublicKey::from_pem(&pem).map_err(|error| {
                Failure::new(ErrorCode::Key, format!("`cosign.pub` of the Secret `{name}` is not a public key")).because(&error)
            })?;
            public.insert(role, key);
            continue;
        }
        let unmade = |error: assay_envelope::KeyError| {
            Failure::new(ErrorCode::Key, format!("cannot make a key for `{role}`")).because(&error)
        };
        let key = SecretKey::generate().map_err(unmade)?;
        // The password lies beside the key that it unlocks: the right to read the Secret protects both.
        let password = random(&SecretKey::generate().map_err(unmade)?)?;
        let encrypted = key.encrypt(password.as_bytes(), ScryptCost::default()).map_err(unmade)?;
        made.insert(role, [encrypted, key.public_key().to_pem(), password]);
        public.insert(role, key.public_key());
    }
    Ok((made, public))
}

/// Makes a text that cannot be guessed: the digest of a fresh private key, which is forgotten.
fn random(key: &SecretKey) -> Result<String, Failure> {
    let der = key.to_pkcs8_der().map_err(|error| Failure::new(ErrorCode::Internal, "no secret can be made").because(&error))?;
    Ok(Digest::compute(&der).hex())
}

fn member(secret: &Secret, name: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(name)?;
    String::from_utf8(bytes.0.clone()).ok()
}

/// Returns the existing policy: entries that people have written stay. A policy that cannot be parsed is not replaced.
fn read_cluster_trust(cluster: &Cluster, namespace: &str) -> Result<Option<TrustPolicy>, Failure> {
    let map: Option<ConfigMap> = cluster.get(&ObjectPath::named("ConfigMap", namespace, INSTALLATION))?;
    let text = map.and_then(|map| map.data?.remove("trust.yaml")).filter(|text| text.lines().any(|line| !line.starts_with('#')));
    text.map(|text| assay_stage::read_trust("the cluster's trust policy", text.as_bytes())).transpose()
}

/// Returns the policy with every key of the cluster, each for its role alone, and this machine's key for starting runs. Existing
/// entries stay.
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
    add_signers(there, namespace, of_cluster.chain(own))
}
