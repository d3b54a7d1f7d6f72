//! `assay run --on kubernetes`: the run's Source goes into the store, a driver into the cluster, and what it tells comes back here.

use std::io::IsTerminal as _;

use assay_cluster::{Cluster, DriverJob, Forward, Job, Place, Site, driver_job, driver_name, has_ended, root, root_name};
use assay_manifest::{InputRef, Instant};
use assay_process::{Cancel, Signal};
use assay_runner::{Config, Run as Driven, RunSpec, ToBranch};
use assay_stage::{Clock, Exit, Failure};

use crate::commands::attach::{Interrupt, follow};
use crate::commands::cluster::{InCluster, root_of};
use crate::commands::fetch::fetch;
use crate::commands::opened::Where;
use crate::commands::run::{Asked, make_missing_keys};
use crate::output;
use crate::progress::Progress;

/// How long the objects of a run that nobody took down may stay.
pub(crate) const EXPIRES_NS: i64 = 24 * 3600 * 1_000_000_000;

/// What matters in a cluster only.
#[derive(clap::Args)]
#[command(next_help_heading = "In a cluster (--on kubernetes)")]
pub(crate) struct OnKubernetes {
    #[command(flatten)]
    at: InCluster,
    /// The queue that targets and load wait in, where the cluster has queues (Kueue)
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Start the run and leave it to itself
    #[arg(long)]
    detach: bool,
    /// Keep the run's objects once it is finished
    #[arg(long)]
    keep: bool,
    /// The store to copy the finished run to; where the cluster's store is reached only through its API server, the usual one
    #[arg(long, value_name = "URI")]
    fetch_to: Option<String>,
    /// Whom to believe: the cluster's TrustPolicy file, or a fingerprint; the configured root if left out
    #[arg(long, value_name = "POLICY|FINGERPRINT")]
    trust: Vec<String>,
    /// How long a pod that cannot start is waited for
    #[arg(long, value_name = "SECONDS")]
    start_limit: Option<u64>,
}

impl OnKubernetes {
    /// Runs a pipeline in the cluster, to its end unless it is to be left to itself.
    pub(crate) fn run(&self, asked: &Asked, pushes: bool, fetches: bool) -> Result<Exit, Failure> {
        let cancel = assay_process::cancel_on_signals(&[Signal::INT, Signal::TERM])
            .map_err(|error| Failure::environment("signals", "cannot handle signals").because(&error))?;
        let cluster = self.at.connect()?;
        let site = self.at.site(&cluster)?;
        let reached = Reached::of(&cluster, &site, asked.store.as_deref())?;
        let config = Config::find()?;
        let password = std::env::var_os("COSIGN_PASSWORD").unwrap_or_default();
        make_missing_keys(&config, password.as_encoded_bytes())?;
        let spec = RunSpec {
            source: asked.source.clone(),
            store: Some(reached.uri.clone()),
            run_id: asked.name.clone(),
            plan: asked.plan.clone(),
            binaries: std::path::PathBuf::new(),
            trust: Some(site.trust.clone().into_bytes()),
        };
        let run = Driven::open(&spec, &config, password.as_encoded_bytes(), &cancel)?;
        let to_branch = if pushes { run.to_branch()? } else { ToBranch::No };
        if run.published()?.is_none() {
            run.sign_source()?;
            let mut progress = Progress::new(asked.json, std::io::stderr().is_terminal());
            progress.begin(&run);
            self.start(&cluster, &site, &run, fetches)?;
            if self.detach {
                drop(progress);
                let (run, options) = (&run.run_id, self.at.options());
                output::line(format!("run       {run}"));
                output::line(format!("follow    assay attach {run}{options}"));
                output::line(format!("stop      assay cancel {run}{options}"));
                return Ok(Exit::Done);
            }
            follow(&cluster, &self.at, &run.run_id, &mut progress, &cancel, Interrupt::Stops)?;
        }
        let publication = run
            .published()?
            .ok_or_else(|| Failure::unexpected("publication", "the run is finished, but its store has no publication"))?;
        let presented = self.present(asked, &run, publication, &reached, &to_branch, &cancel);
        // What could not be shown may still be looked into.
        if presented.is_ok()
            && !self.keep
            && let Err(failure) = cluster.delete(&Place::named("ConfigMap", &site.namespace, &root_name(&run.run_id)), None)
        {
            output::talk(format!("the run's objects stay in the cluster: {}", failure.message));
        }
        presented
    }

    /// Copies the finished run to where it is to be read, and shows it.
    fn present(
        &self,
        asked: &Asked,
        run: &Driven,
        publication: InputRef,
        reached: &Reached,
        to_branch: &ToBranch,
        cancel: &Cancel,
    ) -> Result<Exit, Failure> {
        // What is reached through the API server is out of reach once this command has ended.
        let near = || reached.forward.is_some().then(|| run.home.display().to_string());
        let whom = |store: &str| Where { store: Some(store.to_owned()), trust: self.trust.clone() };
        let uri = match self.fetch_to.clone().or_else(near) {
            None => reached.uri.clone(),
            Some(to) => {
                fetch(&run.run_id, whom(&reached.uri), &reached.called, &to)?;
                to
            }
        };
        let opened = whom(&uri).open_of_strangers(&run.run_id)?;
        let exit = asked.present(run, publication, &uri, &opened, to_branch, cancel)?;
        if exit == Exit::Unestablished {
            output::talk(format!(
                "consistent, but who signed is not established: your trust root does not list the keys of namespace `{}`; `--trust` takes its policy",
                self.at.namespace
            ));
        }
        Ok(exit)
    }

    /// Has a driver drive the run, unless one does. One that has ended is replaced.
    fn start(&self, cluster: &Cluster, site: &Site, run: &Driven, fetches: bool) -> Result<(), Failure> {
        let expires = Instant::from_unix_ns(Clock.now().unix_ns().saturating_add(EXPIRES_NS));
        let commit = run.source.commit.as_deref().unwrap_or("none");
        let facts =
            [("pipeline", run.source.pipeline.as_str()), ("commit", commit), ("image", &site.image), ("store", &site.store)];
        cluster.create(&root(site, &run.run_id, Some(expires), &facts))?;
        let (root, _) = root_of(cluster, &site.namespace, &run.run_id)?;
        let name = driver_name(&run.run_id);
        let place = Place::named("Job", &site.namespace, &name);
        let there: Option<Job> = cluster.get(&place)?;
        if let Some(job) = &there {
            if !has_ended(job) {
                output::talk("a driver drives the run already; following it");
                return Ok(());
            }
            remove(cluster, &place)?;
        }
        // Whoever runs it again wants it no longer stopped, and kept for as long as any other.
        let renewed =
            serde_json::json!({"metadata": {"annotations": {assay_cluster::CANCEL: null, assay_cluster::EXPIRES: expires}}});
        cluster.merge(&Place::named("ConfigMap", &site.namespace, &root_name(&run.run_id)), &renewed)?;
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
        cluster.create(&driver_job(&DriverJob { site, root: &root, run_id: &run.run_id, arguments: &arguments })).map(drop)
    }
}

/// Deletes a Job and waits until its name is free.
fn remove(cluster: &Cluster, place: &Place<'_>) -> Result<(), Failure> {
    cluster.delete(place, None)?;
    for _ in 0..120 {
        if cluster.get::<serde_json::Value>(place)?.is_none() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    Err(Failure::environment("driver_stays", "the run's last driver is not removed"))
}

/// How this machine reaches the cluster's store.
struct Reached {
    uri: String,
    /// As pods call it.
    called: String,
    forward: Option<Forward>,
}

impl Reached {
    /// By the address that a person names, or by a port that leads through the API server.
    fn of(cluster: &Cluster, site: &Site, named: Option<&str>) -> Result<Self, Failure> {
        let (uri, forward) = match (named, &site.forward) {
            (Some(uri), _) => (uri.to_owned(), None),
            (None, None) => (site.store.clone(), None),
            (None, Some(service)) => {
                let forward = cluster.patient().forward(service)?;
                let place = site.store.split('?').next().unwrap_or(&site.store);
                (format!("{place}?endpoint=http://{}", forward.address), Some(forward))
            }
        };
        tell_credentials(site, &uri);
        Ok(Self { uri, called: site.store.clone(), forward })
    }
}

/// A store of the cluster knows a person who starts runs as `source`.
fn tell_credentials(site: &Site, uri: &str) {
    let is_given = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if uri.starts_with("s3://") && !is_given("AWS_ACCESS_KEY_ID") && site.forward.is_some() {
        let secret = "secret assay-store-source --template '{{.data.AWS_SECRET_ACCESS_KEY | base64decode}}'";
        output::talk(format!(
            "the cluster's store asks who you are; an administrator gives you these:\n  export AWS_ACCESS_KEY_ID=source AWS_SECRET_ACCESS_KEY=\"$(kubectl --namespace {} get {secret})\"",
            site.namespace
        ));
    }
}
