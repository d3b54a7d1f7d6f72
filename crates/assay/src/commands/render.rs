//! `assay render kubernetes`: prints the objects of an installation and of scheduled pipelines, for agents that apply files from
//! Git.

use std::path::PathBuf;

use assay_cluster::{
    CronSchedule, InstallParameters, Installation, Object, ServedStore, cron_job, installation_objects, to_yaml,
};
use assay_process::{Cancel, Spawner};
use assay_runner::{SourceSpec, read_source};
use assay_runs::read_regular_file;
use assay_stage::{ErrorCode, Exit, Failure};

use crate::output;

/// The trust policy that is rendered by default: no signer is trusted until one is named.
const NO_SIGNERS: &str =
    "# `assay bootstrap` writes the policy of the keys that it makes; or name a TrustPolicy file with `--trust`.\n";

/// The size of a served store's claim.
const STORE_SIZE: &str = "100Gi";

/// Print the Kubernetes objects of an installation, and a CronJob for each pipeline that has a schedule.
#[derive(clap::Args)]
pub(crate) struct Render {
    /// The platform
    #[arg(value_enum)]
    what: RenderTarget,
    /// Pipelines whose schedules become CronJobs
    #[arg(value_name = "PIPELINE")]
    pipelines: Vec<String>,
    #[command(flatten)]
    install: InstallOptions,
    /// The address that scheduled runs fetch the pipelines' repository from [default: the remote `origin`]
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// The branch of scheduled runs
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,
    /// Print only the CronJobs, without the installation
    #[arg(long, requires = "pipelines")]
    only_schedules: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RenderTarget {
    /// Kubernetes objects
    Kubernetes,
}

/// The options of an installation, rendered or applied.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct InstallOptions {
    /// The image of all stages, by digest
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: String,
    /// The namespace of drivers, stages and their keys
    #[arg(long, value_name = "NAME", default_value = "assay")]
    pub(crate) namespace: String,
    /// The namespace of targets [default: the namespace's name and `-targets`]
    #[arg(long, value_name = "NAME")]
    targets_namespace: Option<String>,
    /// The artifact store, as pods reach it [default: a store served in the cluster]
    #[arg(long, value_name = "URI")]
    pub(crate) cluster_store: Option<String>,
    /// The namespace of a store served in the cluster [default: the namespace's name and `-store`]
    #[arg(long, value_name = "NAME", conflicts_with = "cluster_store")]
    pub(crate) store_namespace: Option<String>,
    /// The size of the volume claim of a store served in the cluster
    #[arg(long, value_name = "SIZE", default_value = STORE_SIZE, conflicts_with = "cluster_store")]
    pub(crate) store_size: String,
    /// Do not let stages read nodes: the facts of nodes are then unknown
    #[arg(long)]
    without_nodes: bool,
    /// A namespace whose InferenceServices targets may name; repeatable
    #[arg(long = "serving-namespace", value_name = "NAME")]
    serving_namespaces: Vec<String>,
    /// The TrustPolicy file of the cluster's runs
    #[arg(long, value_name = "FILE")]
    pub(crate) trust: Option<PathBuf>,
}

/// Renders the default installation, with an image of zeros: the base that agents apply.
pub(crate) fn base() -> Result<String, Failure> {
    let options = InstallOptions::with_defaults(&format!("assay.test/assay@sha256:{}", "0".repeat(64)), "assay");
    Ok(to_yaml(&options.objects(NO_SIGNERS.to_owned(), None, StoreChoice::Install)?.1)?)
}

/// The source of a served store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    /// The installation makes one.
    Install,
    /// Another installation's store is used as it is.
    UseExisting,
}

impl InstallOptions {
    /// Returns the default options of an installation in a namespace.
    pub(crate) fn with_defaults(image: &str, namespace: &str) -> Self {
        Self {
            image: image.to_owned(),
            namespace: namespace.to_owned(),
            targets_namespace: None,
            cluster_store: None,
            store_namespace: None,
            store_size: STORE_SIZE.to_owned(),
            without_nodes: false,
            serving_namespaces: Vec::new(),
            trust: None,
        }
    }

    /// Returns the configuration of the pods.
    pub(crate) fn installation(&self, trust: String) -> Installation {
        let store = self.served_store().map(|(namespace, _)| namespace);
        Installation {
            namespace: self.namespace.clone(),
            targets_namespace: self.targets_namespace.clone().unwrap_or_else(|| format!("{}-targets", self.namespace)),
            store: match (&self.cluster_store, &store) {
                (Some(uri), _) => uri.clone(),
                (None, store) => {
                    format!("s3://assay?endpoint=http://assay-store.{}:8420", store.as_deref().unwrap_or(&self.namespace))
                }
            },
            image: self.image.clone(),
            trust,
            images: Vec::new(),
            forward: store.map(|namespace| format!("{namespace}/assay-store:8420")),
        }
    }

    /// Returns the namespace and the size of the store that is served in the cluster.
    pub(crate) fn served_store(&self) -> Option<(String, String)> {
        let namespace = || self.store_namespace.clone().unwrap_or_else(|| format!("{}-store", self.namespace));
        self.cluster_store.is_none().then(|| (namespace(), self.store_size.clone()))
    }

    /// Returns all objects, with keys if there are any.
    pub(crate) fn objects(
        &self,
        trust: String,
        keys: Option<&assay_cluster::Keys>,
        makes: StoreChoice,
    ) -> Result<(Installation, Vec<Object>), Failure> {
        let installation = self.installation(trust);
        // A later refusal has to come before anything is applied.
        let data = serde_json::from_value(installation.config_map()["data"].clone()).unwrap_or_default();
        Installation::read(&installation.namespace, &data)?;
        let served = self.served_store();
        let install = InstallParameters {
            installation: &installation,
            served_store: served
                .as_ref()
                .map(|(namespace, size)| ServedStore { namespace, size: (makes == StoreChoice::Install).then_some(size) }),
            reads_nodes: !self.without_nodes,
            serving_namespaces: &self.serving_namespaces,
        };
        let objects = installation_objects(&install, keys);
        Ok((installation, objects))
    }
}

impl Render {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let RenderTarget::Kubernetes = self.what;
        let trust = match &self.install.trust {
            None => NO_SIGNERS.to_owned(),
            Some(path) => read_policy(path)?,
        };
        let (installation, mut objects) = self.install.objects(trust, None, StoreChoice::Install)?;
        if self.only_schedules {
            objects.clear();
        }
        for pipeline in &self.pipelines {
            objects.push(self.schedule(&installation, pipeline)?);
        }
        output::lines(to_yaml(&objects)?.trim_end());
        Ok(Exit::Done)
    }

    fn schedule(&self, installation: &Installation, pipeline: &str) -> Result<Object, Failure> {
        let scratch = tempfile::tempdir()
            .map_err(|error| Failure::new(ErrorCode::Scratch, "cannot make a scratch folder").because(&error))?;
        let spawner =
            Spawner::start().map_err(|error| Failure::new(ErrorCode::Spawner, "cannot start a thread").because(&error))?;
        let cancel =
            Cancel::new().map_err(|error| Failure::new(ErrorCode::Descriptors, "no file descriptor is left").because(&error))?;
        let spec = SourceSpec { pipeline: pipeline.to_owned(), ..SourceSpec::default() };
        let read = read_source(&spec, scratch.path(), &spawner, &cancel)?;
        let defined = &read.closure.pipeline;
        let schedule = defined.spec.schedule.as_ref().ok_or_else(|| {
            Failure::new(ErrorCode::NoSchedule, format!("`{pipeline}` has no schedule"))
                .hint("write `schedule: {cron: \"0 2 * * *\"}` into its `spec`")
        })?;
        let origin = || read.origin().map(str::to_owned);
        let repository = self.repo.clone().or_else(origin).ok_or_else(|| {
            Failure::new(ErrorCode::NoRepository, format!("where scheduled runs of `{pipeline}` fetch it from is not known"))
                .hint("name an address with `--repo`")
        })?;
        if assay_runner::redact_address(&repository) != repository && repository.contains('@') && repository.contains("://") {
            return Err(Failure::new(
                ErrorCode::RepositoryPassword,
                "the repository's address holds a user or a password, which everybody would read",
            )
            .hint("leave it out: the Secret `assay-git` says how git reaches it"));
        }
        Ok(cron_job(&CronSchedule {
            installation,
            name: &defined.name,
            path: &read.pipeline,
            repository: &repository,
            branch: &self.branch,
            schedule: &schedule.cron,
            time_zone: &schedule.timezone,
            deadline: schedule.deadline,
        }))
    }
}

/// Reads a trust policy, and checks that it parses.
pub(crate) fn read_policy(path: &std::path::Path) -> Result<String, Failure> {
    let bytes = read_regular_file(path, assay_spec::MAX_BYTES as u64).map_err(|error| {
        Failure::new(ErrorCode::TrustPolicy, format!("cannot read the trust policy `{}`", path.display())).because(&error)
    })?;
    assay_stage::read_trust(&path.display().to_string(), &bytes)?;
    String::from_utf8(bytes)
        .map_err(|error| Failure::new(ErrorCode::TrustPolicy, format!("`{}` is not UTF-8", path.display())).because(&error))
}
