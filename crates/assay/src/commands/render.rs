//! `assay render kubernetes`: prints the objects of an installation, of scheduled pipelines and of hooks, for agents that apply files from
//! Git.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_cluster::{
    CronSchedule, HookPhase, HookSource, InstallParameters, Installation, Object, ServedStore, SyncHook, cron_job, hook_objects,
    installation_objects, to_yaml,
};
use assay_manifest::{InferenceService, Isolation, Placement, Role};
use assay_process::{Cancel, Spawner};
use assay_runner::{ImportedOriginal, LoadedSource, SourceSpec, read_source};
use assay_runs::read_regular_file;
use assay_spec::{Stage, expand};
use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::import::show_original;
use crate::commands::plan::duration_of;
use crate::output;

/// The trust policy that is rendered by default: no signer is trusted until one is named.
const NO_SIGNERS: &str =
    "# `assay bootstrap` writes the policy of the keys that it makes; or name a TrustPolicy file with `--trust`.\n";

/// The size of a served store's claim.
const STORE_SIZE: &str = "100Gi";

// An object of the API server has at most 1 MiB, of which a definition of another tool leaves enough for the rest.
const _: () = assert!(assay_spec::MAX_OBJECT_BYTES <= 512 << 10);

/// Print the Kubernetes objects of an installation, and a CronJob for each pipeline that has a schedule; or those of a hook of Argo CD, which runs one
/// pipeline in each synchronization.
#[derive(clap::Args)]
pub(crate) struct Render {
    /// The platform
    #[arg(value_enum)]
    what: RenderTarget,
    /// Pipelines whose schedules become CronJobs; with `--hook` one pipeline, or one file that `assay import` recognises
    #[arg(value_name = "FILE")]
    pipelines: Vec<String>,
    /// Print only a Job that Argo CD runs in this phase: it runs the pipeline, and fails the synchronization if a gate does
    #[arg(long, value_name = "PHASE", value_parser = parse_phase, requires = "pipelines", conflicts_with = "only_schedules")]
    hook: Option<HookPhase>,
    /// The wave of the hook within its phase [default: that of all objects, 0]
    #[arg(long, value_name = "N", requires = "hook", allow_negative_numbers = true)]
    hook_wave: Option<i32>,
    #[command(flatten)]
    install: InstallOptions,
    /// The address that scheduled runs and hooks fetch the pipelines' repository from [default: the remote `origin`]
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// The branch of scheduled runs and hooks
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
        if let Some(phase) = self.hook {
            objects = self.hook(&installation, phase)?;
        } else {
            if self.only_schedules {
                objects.clear();
            }
            for pipeline in &self.pipelines {
                objects.push(self.schedule(&installation, pipeline)?);
            }
        }
        output::lines(to_yaml(&objects)?.trim_end());
        Ok(Exit::Done)
    }

    fn schedule(&self, installation: &Installation, pipeline: &str) -> Result<Object, Failure> {
        let read = read(pipeline)?;
        if read.import.is_some() {
            return Err(Failure::new(ErrorCode::NoSchedule, format!("`{pipeline}` is of another tool, and has no schedule"))
                .hint(format!(
                    "`assay import {pipeline}` writes a pipeline, which may have one; `--hook PHASE` runs the file as it is"
                )));
        }
        let defined = &read.closure.pipeline;
        let schedule = defined.spec.schedule.as_ref().ok_or_else(|| {
            Failure::new(ErrorCode::NoSchedule, format!("`{pipeline}` has no schedule"))
                .hint("write `schedule: {cron: \"0 2 * * *\"}` into its `spec`")
        })?;
        Ok(cron_job(&CronSchedule {
            installation,
            name: &defined.name,
            path: &read.pipeline,
            repository: &self.repository(pipeline, &read)?,
            branch: &self.branch,
            schedule: &schedule.cron,
            time_zone: &schedule.timezone,
            deadline: schedule.deadline,
        }))
    }

    /// Builds the objects of a hook.
    fn hook(&self, installation: &Installation, phase: HookPhase) -> Result<Vec<Object>, Failure> {
        let [file] = self.pipelines.as_slice() else {
            return Err(Failure::new(
                ErrorCode::Option,
                format!("a hook runs one pipeline, and {} are named", self.pipelines.len()),
            )
            .hint("render a hook for each: those of one phase and wave run at the same time"));
        };
        let read = read(file)?;
        let original = read.import.as_ref().map(|original| definition(file, &read, original)).transpose()?;
        show_original(file, read.import.as_ref());
        self.notes_on_rights(&read).into_iter().for_each(output::diagnostic);
        let repository = if original.is_some() { String::new() } else { self.repository(file, &read)? };
        let source = match &original {
            Some((name, text)) => HookSource::Definition { file: name, text },
            None => HookSource::Repository { path: &read.pipeline, repository: &repository, branch: &self.branch },
        };
        Ok(hook_objects(&SyncHook {
            installation,
            name: &read.closure.pipeline.name,
            source,
            phase,
            wave: self.hook_wave,
            deadline: deadline(&read)?,
        }))
    }

    /// Returns a note on each InferenceService that the installation, by the options given here, has no right to read.
    fn notes_on_rights(&self, read: &LoadedSource) -> Vec<String> {
        let services = read.closure.pipeline.spec.targets.iter().filter_map(|target| target.inference_service.as_ref());
        let unread = services.filter(|service| !self.install.serving_namespaces.contains(&service.namespace));
        let note = |InferenceService { name, namespace, .. }: &InferenceService| {
            format!(
                "note: the run reads the InferenceService `{name}` in `{namespace}`: install with `--serving-namespace {namespace}`, or it is `forbidden`"
            )
        };
        unread.map(note).collect()
    }

    /// Returns the address that a pod fetches the repository from.
    fn repository(&self, pipeline: &str, read: &LoadedSource) -> Result<String, Failure> {
        let origin = || read.origin().map(str::to_owned);
        let repository = self.repo.clone().or_else(origin).ok_or_else(|| {
            Failure::new(ErrorCode::NoRepository, format!("where runs of `{pipeline}` in the cluster fetch it from is not known"))
                .hint("name an address with `--repo`")
        })?;
        if assay_runner::redact_address(&repository) != repository && repository.contains('@') && repository.contains("://") {
            return Err(Failure::new(
                ErrorCode::RepositoryPassword,
                "the repository's address holds a user or a password, which everybody would read",
            )
            .hint("leave it out: the Secret `assay-git` says how git reaches it"));
        }
        Ok(repository)
    }
}

/// Reads a pipeline, or the definition of another tool.
fn read(pipeline: &str) -> Result<LoadedSource, Failure> {
    let scratch =
        tempfile::tempdir().map_err(|error| Failure::new(ErrorCode::Scratch, "cannot make a scratch folder").because(&error))?;
    let spawner = Spawner::start().map_err(|error| Failure::new(ErrorCode::Spawner, "cannot start a thread").because(&error))?;
    let cancel =
        Cancel::new().map_err(|error| Failure::new(ErrorCode::Descriptors, "no file descriptor is left").because(&error))?;
    let spec = SourceSpec { pipeline: pipeline.to_owned(), ..SourceSpec::default() };
    Ok(read_source(&spec, scratch.path(), &spawner, &cancel)?)
}

/// Returns the longest time of a run: in each block the time limit of provision, and its trials at their limits, each repeated as often as may be, within
/// the time limit of execute; and the time limits of the other stages.
fn deadline(read: &LoadedSource) -> Result<Duration, Failure> {
    let spec = &read.closure.pipeline.spec;
    let blocks = most_blocks(read)?;
    // Twice even where nothing is repeated: pods start, and pull images.
    let attempts = spec.trials.retry_budget.saturating_add(1).max(2);
    let trials = duration_of(read)?.longest().saturating_mul(attempts).min(spec.time_limit.saturating_mul(blocks));
    let time_of = |stage: &Stage| match stage.role {
        Role::Execute => Duration::ZERO,
        Role::Provision => stage.timeout.saturating_mul(blocks),
        _ => stage.timeout,
    };
    Ok(spec.stages.iter().map(time_of).fold(trials, Duration::saturating_add))
}

/// Returns the most blocks that a run may have, each with a provision of its own: one for each trial whose target is restarted, one for each side in each
/// round if sides alternate.
fn most_blocks(read: &LoadedSource) -> Result<u32, Failure> {
    let pipeline = &read.closure.pipeline;
    let cases = expand(pipeline, &read.closure.workloads).map_err(|problems| Failure::invalid(&problems))?;
    let in_a_round = match (pipeline.spec.isolation, pipeline.spec.placement) {
        (Isolation::RestartTarget, _) => cases.iter().map(|case| case.points.len()).sum(),
        (_, Placement::Alternate) => cases.iter().map(|case| (&case.target, &case.variant)).collect::<BTreeSet<_>>().len(),
        (_, Placement::Coexist) => return Ok(1),
    };
    Ok(u32::try_from(in_a_round).unwrap_or(u32::MAX).saturating_mul(pipeline.spec.trials.count).max(1))
}

/// Returns a name for the file of another tool's definition in a ConfigMap, and its text.
fn definition(file: &str, read: &LoadedSource, original: &ImportedOriginal) -> Result<(String, String), Failure> {
    let bytes = read.files().find(|(path, _)| *path == original.file).map(|(_, bytes)| bytes).unwrap_or_default();
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Failure::new(ErrorCode::ForeignFormat, format!("`{file}` is not UTF-8, as a ConfigMap needs it")).because(&error)
    })?;
    Ok((map_key(&original.file), text.to_owned()))
}

/// Returns the name of a file as the member of a ConfigMap can have it.
fn map_key(path: &str) -> String {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_key = !name.is_empty()
        && name.len() <= 253
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !name.starts_with("..");
    if is_key { name.to_owned() } else { "definition.yaml".to_owned() }
}

fn parse_phase(text: &str) -> Result<HookPhase, String> {
    let known = HookPhase::ALL.map(HookPhase::as_str).join(", ");
    HookPhase::ALL.into_iter().find(|phase| phase.as_str() == text).ok_or_else(|| format!("the phases are {known}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_that_a_config_map_can_have() {
        assert_eq!(map_key("jobs/llama-8b_chat.yaml"), "llama-8b_chat.yaml");
        for path in ["a b.yaml", "", "..a.yaml", "jöb.yaml", &format!("{}.yaml", "a".repeat(250))] {
            assert_eq!(map_key(path), "definition.yaml", "{path}");
        }
    }

    #[test]
    fn phases_are_those_of_argo_cd() {
        assert_eq!(parse_phase("PostSync"), Ok(HookPhase::PostSync));
        let error = "the phases are PreSync, Sync, PostSync, SyncFail, PostDelete";
        assert_eq!(parse_phase("postsync"), Err(error.to_owned()));
    }
}
