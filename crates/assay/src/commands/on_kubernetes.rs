//! `assay run --on kubernetes`: puts the run's Source into the store and a driver into the cluster, and shows the driver's events
//! here.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use assay_cluster::{
    Cluster, DriverJob, Installation, Job, Namespace, ObjectPath, PortForward, Refusal, Secret, driver_job, driver_name,
    has_ended, root_name, run_root,
};
use assay_manifest::{InputRef, RunId};
use assay_process::{Cancel, Signal};
use assay_runner::{Config, Pushes, Run as Driven, RunSpec};
use assay_stage::{Clock, ErrorCode, Exit, Failure, key_password};
use assay_store::Store;

use crate::commands::attach::{Interrupt, follow};
use crate::commands::bootstrap::{InstallLifetime, install, serves_already};
use crate::commands::cluster::{
    ClusterOptions, TemporaryNamespace, exec_command, find_temporary, keep, remove, require_root, restart_command,
};
use crate::commands::fetch::fetch;
use crate::commands::hot_metrics;
use crate::commands::render::InstallOptions;
use crate::commands::run::{RunRequest, make_missing_keys};
use crate::commands::store_options::StoreOptions;
use crate::output;
use crate::progress::{Detail, Progress};

/// The time in nanoseconds after which the objects of an abandoned run are deleted.
pub(crate) const EXPIRES_NS: i64 = 24 * 3600 * 1_000_000_000;
/// The time limit for a new store: its volume has to be bound, and its image pulled.
const STORE_LIMIT: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(500);

/// Options that only apply in a cluster.
#[derive(clap::Args)]
#[command(next_help_heading = "In a cluster (--on kubernetes)")]
pub(crate) struct OnKubernetes {
    #[command(flatten)]
    at: ClusterOptions,
    /// The queue in which targets and load wait, if the cluster has queues (Kueue)
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Start the run and do not follow it
    #[arg(long)]
    detach: bool,
    /// Keep the run's objects after it is finished, and the namespaces that were created for it
    #[arg(long)]
    keep: bool,
    /// Install what is missing; namespaces that are created for it are removed after the run
    #[arg(long, requires = "image")]
    bootstrap: bool,
    /// The image of all stages, by digest, for --bootstrap
    #[arg(long, value_name = "IMAGE", requires = "bootstrap")]
    image: Option<String>,
    /// The artifact store, as pods reach it, for --bootstrap [default: a store served in the cluster]
    #[arg(long, value_name = "URI", requires = "bootstrap")]
    cluster_store: Option<String>,
    /// The namespace of a store served in the cluster, for --bootstrap [default: the namespace's name and `-store`]
    #[arg(long, value_name = "NAME", requires = "bootstrap", conflicts_with = "cluster_store")]
    store_namespace: Option<String>,
    /// The size of the volume claim of a created store, for --bootstrap [default: 100Gi]
    #[arg(long, value_name = "SIZE", requires = "bootstrap", conflicts_with = "cluster_store")]
    store_size: Option<String>,
    /// The store to copy the finished run to [default: the local store if the cluster's is reached only through its API server]
    #[arg(long, value_name = "URI")]
    fetch_to: Option<String>,
    /// The trust root: the cluster's TrustPolicy file, or a fingerprint [default: the configured root]
    #[arg(long, value_name = "POLICY|FINGERPRINT")]
    trust: Vec<String>,
    /// The timeout for a pod that cannot start
    #[arg(long, value_name = "SECONDS")]
    start_limit: Option<u64>,
}

impl OnKubernetes {
    /// Runs a pipeline in the cluster, to its end unless it is detached.
    pub(crate) fn run(&self, asked: &RunRequest, pushes: bool, fetches: bool) -> Result<Exit, Failure> {
        let cancel = assay_process::cancel_on_signals(&[Signal::INT, Signal::TERM])
            .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))?;
        let cluster = self.at.connect()?;
        let options = self.install_options();
        let run = OnceCell::new();
        let ran = self.prepare(&cluster, options.as_ref(), asked, &cancel).and_then(|installation| {
            let made = options
                .as_ref()
                .map_or_else(|| Ok(TemporaryNamespaces::default()), |options| TemporaryNamespaces::find(&cluster, options))?;
            if self.keep {
                // From now on they are permanent: no later run removes them.
                keep(&cluster, &made.store)?;
                keep(&cluster, &made.with_driver)?;
            }
            let there = RunInstallation { cluster: cluster.clone(), installation, made };
            self.run_at(&there, asked, pushes, fetches, &cancel, &run)
        });
        let is_left = self.keep || (self.detach && ran.is_ok());
        if let Some(options) = options.filter(|_| !is_left) {
            remove_made(&cluster, &options, run.get(), ran.as_ref().err());
        }
        ran
    }

    /// Returns the options for installing what is missing.
    fn install_options(&self) -> Option<InstallOptions> {
        let image = self.image.as_deref().filter(|_| self.bootstrap)?;
        let mut options = InstallOptions::with_defaults(image, &self.at.namespace);
        options.cluster_store.clone_from(&self.cluster_store);
        options.store_namespace.clone_from(&self.store_namespace);
        if let Some(size) = &self.store_size {
            options.store_size.clone_from(size);
        }
        Some(options)
    }

    /// Installs what is missing, if requested, and returns the installation.
    fn prepare(
        &self,
        cluster: &Cluster,
        options: Option<&InstallOptions>,
        asked: &RunRequest,
        cancel: &Cancel,
    ) -> Result<Installation, Failure> {
        if let Some(options) = options.filter(|options| !is_installed(cluster, options)) {
            let store = options.served_store().map(|(namespace, _)| namespace);
            self.check_store_outlasts(cluster, options, store.as_deref())?;
            let trust = install(cluster, options, InstallLifetime::OneRun)?;
            store.as_deref().map_or(Ok(()), |store| wait_for_store(cluster, store, cancel))?;
            output::diagnostic(format!(
                "runs of this namespace verify under this trust policy; merge it by a reviewed pull request:\n\n{}\n",
                trust.trim_end()
            ));
        }
        if cancel.is_cancelled() {
            return Err(Failure::cancelled(cancel.reason().unwrap_or("stopped")));
        }
        let installation = self.at.installation(cluster)?;
        if asked.store.is_none() {
            restart_as_source(cluster, &installation)?;
        }
        Ok(installation)
    }

    /// Refuses a store whose namespace is removed with the run, unless the results are fetched before.
    fn check_store_outlasts(&self, cluster: &Cluster, options: &InstallOptions, store: Option<&str>) -> Result<(), Failure> {
        let Some(namespace) = store else { return Ok(()) };
        let is_there = serves_already(cluster, options)?
            || cluster.get::<serde_json::Value>(&ObjectPath::in_cluster("Namespace", namespace))?.is_some();
        if is_there || self.keep || (self.fetch_to.is_some() && !self.detach) {
            return Ok(());
        }
        let message = format!("the store would be served in the namespace `{namespace}`, which is removed after the run");
        Err(Failure::new(ErrorCode::TemporaryStore, message).hint(
            "name one that stays with `--store-namespace` or `--cluster-store`, or fetch the run before: `--fetch-to` without `--detach`",
        ))
    }

    fn run_at(
        &self,
        there: &RunInstallation,
        asked: &RunRequest,
        pushes: bool,
        fetches: bool,
        cancel: &Cancel,
        run_id: &OnceCell<RunId>,
    ) -> Result<Exit, Failure> {
        let RunInstallation { cluster, installation, .. } = there;
        let reached = StoreAddress::connect(cluster, installation, asked.store.as_deref())?;
        let config = Config::find()?;
        let password = key_password();
        make_missing_keys(&config, password.as_encoded_bytes())?;
        let spec = RunSpec {
            source: asked.source.clone(),
            store: Some(reached.uri.clone()),
            run_id: asked.name.clone(),
            plan: asked.plan.clone(),
            binaries: std::path::PathBuf::new(),
            trust: Some(installation.trust.clone().into_bytes()),
        };
        let run = Driven::open(&spec, &config, password.as_encoded_bytes(), cancel)?;
        let _ = run_id.set(run.run_id.clone());
        let pushes = if pushes { run.find_pushes()? } else { Pushes::NONE };
        hot_metrics::check_secrets(&pushes)?;
        if run.published()?.is_none() {
            run.sign_source()?;
            let mut progress = Progress::new(asked.json, std::io::stderr().is_terminal(), Detail::Stages);
            asked.show_import(&run);
            progress.begin(&run);
            self.start(there, &run, fetches)?;
            if self.detach {
                drop(progress);
                let (run, options) = (&run.run_id, self.at.options());
                output::line(format!("run       {run}"));
                output::line(format!("follow    assay attach {run}{options}"));
                output::line(format!("stop      assay cancel {run}{options}"));
                return Ok(Exit::Done);
            }
            follow(cluster, &self.at, &run.run_id, &mut progress, cancel, Interrupt::Stops)
                .map_err(|failure| asked.with_new_name(&run, failure))?;
        }
        let publication = run
            .published()?
            .ok_or_else(|| Failure::new(ErrorCode::Internal, "the run is finished, but its store has no publication"))?;
        let presented = self.present(asked, &run, publication, &reached, &pushes, cancel);
        // If the result could not be shown, the objects stay for inspection.
        if presented.is_ok()
            && !self.keep
            && let Err(error) =
                cluster.delete(&ObjectPath::named("ConfigMap", &installation.namespace, &root_name(&run.run_id)), None)
        {
            output::diagnostic(format!("the run's objects stay in the cluster: {error}"));
        }
        presented
    }

    /// Copies the finished run to its destination, and shows it.
    fn present(
        &self,
        asked: &RunRequest,
        run: &Driven,
        publication: InputRef,
        reached: &StoreAddress,
        pushes: &Pushes,
        cancel: &Cancel,
    ) -> Result<Exit, Failure> {
        // A store that is reached through the API server is out of reach once this command has ended.
        let near = || reached.forward.is_some().then(|| run.home.display().to_string());
        let whom = |store: &str| StoreOptions { store: Some(store.to_owned()), trust: self.trust.clone() };
        let uri = match self.fetch_to.clone().or_else(near) {
            None => reached.uri.clone(),
            Some(to) => {
                fetch(&run.run_id, whom(&reached.uri), &reached.pod_uri, &to)?;
                to
            }
        };
        let opened = whom(&uri).runs().open_or_unestablished(&run.run_id)?;
        let exit = asked.present(run, publication, &Store::open_existing(&uri)?, &opened, pushes, cancel)?;
        if exit == Exit::Unestablished {
            output::diagnostic(format!(
                "consistent, but who signed is not established: your trust root does not list the keys of namespace `{}`; `--trust` takes its policy",
                self.at.namespace
            ));
        }
        Ok(exit)
    }

    /// Starts a driver for the run, unless one is running. One that has ended is replaced.
    fn start(&self, there: &RunInstallation, run: &Driven, fetches: bool) -> Result<(), Failure> {
        let RunInstallation { cluster, installation, made } = there;
        let expires = assay_manifest::Instant::from_unix_ns(Clock.now().unix_ns().saturating_add(EXPIRES_NS));
        let commit = run.source.commit.as_deref().unwrap_or("none");
        let facts = [
            ("pipeline", run.source.pipeline.as_str()),
            ("commit", commit),
            ("image", &installation.image),
            ("store", &installation.store),
        ];
        cluster.create(&run_root(installation, &run.run_id, Some(expires), &facts))?;
        let (root, _) = require_root(cluster, &installation.namespace, &run.run_id)?;
        let name = driver_name(&run.run_id);
        let place = ObjectPath::named("Job", &installation.namespace, &name);
        let there: Option<Job> = cluster.get(&place)?;
        if let Some(job) = &there {
            if !has_ended(job) {
                output::diagnostic("a driver drives the run already; following it");
                return Ok(());
            }
            delete_job(cluster, &place)?;
        }
        // A restart withdraws an earlier request to stop the run, and renews its expiry.
        let renewed =
            serde_json::json!({"metadata": {"annotations": {assay_cluster::CANCEL: null, assay_cluster::EXPIRES: expires}}});
        cluster.merge(&ObjectPath::named("ConfigMap", &installation.namespace, &root_name(&run.run_id)), &renewed)?;
        let mut arguments = Vec::new();
        if !fetches {
            arguments.push("--no-fetch".to_owned());
        }
        if let Some(queue) = &self.queue {
            arguments.extend(["--queue".to_owned(), queue.clone()]);
        }
        if let Some(limit) = self.start_limit {
            arguments.extend(["--start-limit".to_owned(), limit.to_string()]);
        }
        // If the store is removed as well, only this command knows when it may be.
        if !self.keep && made.store.is_empty() {
            arguments.extend(made.with_driver.iter().flat_map(|made| ["--remove".to_owned(), made.to_string()]));
        }
        cluster.create(&driver_job(&DriverJob { installation, root: &root, run_id: &run.run_id, arguments: &arguments }))?;
        Ok(())
    }
}

/// Deletes a Job and waits until its name is free.
fn delete_job(cluster: &Cluster, place: &ObjectPath<'_>) -> Result<(), Failure> {
    cluster.delete(place, None)?;
    for _ in 0..120 {
        if cluster.get::<serde_json::Value>(place)?.is_none() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Err(Failure::new(ErrorCode::DriverStays, "the run's last driver is not removed"))
}

/// The cluster, the installation, and the namespaces of a run.
struct RunInstallation {
    cluster: Cluster,
    installation: Installation,
    made: TemporaryNamespaces,
}

/// Returns true if an installation is complete: the last run may have removed a part of it.
fn is_installed(cluster: &Cluster, options: &InstallOptions) -> bool {
    let is_there = |name: &str| {
        let there: Result<Option<Namespace>, _> = cluster.get(&ObjectPath::in_cluster("Namespace", name));
        there.is_ok_and(|there| there.is_some_and(|there| there.metadata.deletion_timestamp.is_none()))
    };
    let found = crate::commands::cluster::installation(cluster, &options.namespace);
    found.is_ok_and(|installation| is_there(&installation.namespace) && is_there(&installation.targets_namespace))
}

/// Removes the namespaces that the driver has not. A store is removed only after everything wanted from it has been copied, and
/// nothing is removed while the run goes on.
fn remove_made(cluster: &Cluster, options: &InstallOptions, run: Option<&RunId>, failure: Option<&Failure>) {
    let Ok(made) = TemporaryNamespaces::find(cluster, options) else { return };
    if made.is_empty() {
        return;
    }
    let all: Vec<TemporaryNamespace> = made.store.iter().chain(&made.with_driver).cloned().collect();
    let names = all.iter().map(|made| made.name.as_str()).collect::<Vec<_>>().join(" ");
    let by_hand = |why: &str| {
        output::diagnostic(format!(
            "the namespaces that were made stay, because {why}; then:\n  kubectl delete namespace {names}"
        ));
    };
    let drives = |run: &RunId| {
        let driver = driver_name(run);
        let job: Result<Option<Job>, _> = cluster.get(&ObjectPath::named("Job", &options.namespace, &driver));
        job.map_or(true, |job| job.is_some_and(|job| !has_ended(&job)))
    };
    if failure.is_some_and(|failure| failure.code == ErrorCode::ConnectionLost) || (failure.is_some() && run.is_some_and(drives))
    {
        return by_hand("the run goes on");
    }
    if failure.is_some() && run.is_some() && !made.store.is_empty() {
        return by_hand("their store has what is known of the run");
    }
    match remove(cluster, &options.namespace, run, &all) {
        Ok(()) => output::diagnostic(format!("removed    {names}, which were made for this run")),
        Err(failure) => by_hand(&failure.message),
    }
}

/// The namespaces that were made for the run and are removed with it.
#[derive(Debug, Default)]
struct TemporaryNamespaces {
    /// Namespaces that the driver removes as its last step, its own last.
    with_driver: Vec<TemporaryNamespace>,
    /// The namespace of the store, if it is removed too.
    store: Vec<TemporaryNamespace>,
}

impl TemporaryNamespaces {
    /// Returns the namespaces of an installation that were made for one run.
    fn find(cluster: &Cluster, options: &InstallOptions) -> Result<Self, Failure> {
        let (installation, store) = (options.installation(String::new()), options.served_store().map(|(namespace, _)| namespace));
        let own = [installation.targets_namespace.as_str(), installation.namespace.as_str()];
        Ok(Self {
            with_driver: find_temporary(cluster, &installation.namespace, own.into_iter())?,
            store: find_temporary(cluster, &installation.namespace, store.as_deref().into_iter())?,
        })
    }

    fn is_empty(&self) -> bool {
        self.with_driver.is_empty() && self.store.is_empty()
    }
}

/// The address of the cluster's store for this machine.
struct StoreAddress {
    uri: String,
    /// Its address for pods.
    pod_uri: String,
    forward: Option<PortForward>,
}

impl StoreAddress {
    /// Uses the address that the user names, or a port that is forwarded through the API server.
    fn connect(cluster: &Cluster, installation: &Installation, named: Option<&str>) -> Result<Self, Failure> {
        let (uri, forward) = match (named, &installation.forward) {
            (Some(uri), _) => (uri.to_owned(), None),
            (None, None) => (installation.store.clone(), None),
            (None, Some(service)) => {
                let forward = cluster.with_retries().forward(service)?;
                let place = installation.store.split('?').next().unwrap_or(&installation.store);
                (format!("{place}?endpoint=http://{}", forward.address), Some(forward))
            }
        };
        Ok(Self { uri, pod_uri: installation.store.clone(), forward })
    }
}

/// Waits until a new store serves.
fn wait_for_store(cluster: &Cluster, namespace: &str, cancel: &Cancel) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < STORE_LIMIT {
        let store: Option<serde_json::Value> = cluster.get(&ObjectPath::named("Deployment", namespace, "assay-store"))?;
        if store.is_some_and(|store| store["status"]["readyReplicas"].as_u64() > Some(0)) {
            return Ok(());
        }
        if cancel.wait_timeout(LOOK) {
            return Err(Failure::cancelled(cancel.reason().unwrap_or("stopped")));
        }
    }
    Err(Failure::new(ErrorCode::Store, format!("the store of namespace `{namespace}` does not serve after {STORE_LIMIT:?}"))
        .hint(format!("kubectl --namespace {namespace} get pods,persistentvolumeclaims,events")))
}

/// Restarts this program with the store credentials of the identity `source`, which starts runs, if this user may read that
/// Secret. A store takes its credentials from the environment, which no list of processes shows.
fn restart_as_source(cluster: &Cluster, installation: &Installation) -> Result<(), Failure> {
    let is_given = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if installation.forward.is_none() || is_given("AWS_ACCESS_KEY_ID") {
        return Ok(());
    }
    let name = "assay-store-source";
    let secret: Option<Secret> = cluster
        .get(&ObjectPath::named("Secret", &installation.namespace, name))
        .or_else(|error| if error.refusal() == Some(Refusal::Forbidden) { Ok(None) } else { Err(error) })?;
    let Some([id, key]) = secret.and_then(|secret| {
        let given = |name: &str| secret.data.as_ref()?.get(name).filter(|bytes| !bytes.0.is_empty());
        let member = |name: &str| given(name).map(|bytes| OsString::from_vec(bytes.0.clone()));
        Some([member("AWS_ACCESS_KEY_ID")?, member("AWS_SECRET_ACCESS_KEY")?])
    }) else {
        let template = "--template '{{.data.AWS_SECRET_ACCESS_KEY | base64decode}}'";
        output::diagnostic(format!(
            "the cluster's store asks who you are; an administrator gives you these:\n  export AWS_ACCESS_KEY_ID=source AWS_SECRET_ACCESS_KEY=\"$(kubectl --namespace {} get secret {name} {template})\"",
            installation.namespace
        ));
        return Ok(());
    };
    Err(exec_command(restart_command().env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", key)))
}
