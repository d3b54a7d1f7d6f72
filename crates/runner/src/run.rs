//! A run's life: its Source is created once, one process at a time drives it, and an early end is recorded.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use assay_envelope::{ExpectedManifest, Trust, TrustPolicy, verify};
use assay_failure::{ErrorCode, Exit, Failure};
use assay_manifest::{
    Body as _, Digest, Document, EndState, InputRef, Instant, Intent, Kind, MAX_MANIFEST_BYTES, MAX_NAME, Name, OriginKind,
    Reason, Role, RunEnd, RunId, Shard, Source,
};
use assay_process::{Cancel, Spawner};
use assay_spec::{Closure, HotMetrics, PublishSettings};
use assay_stage::parameters::PlanParameters;
use assay_stage::{AcceptedResult, Clock, Layout, Seal, StageName, binary_digest, load_trust, seal};
use assay_store::{Store, check_links};
use serde_json::{Value, json};

use crate::config::find_user_folder;
use crate::driver::{create_or_read, drive};
use crate::kubernetes::{ClusterParameters, KubernetesRunner, PodSettings};
use crate::source::{ImportedOriginal, SourceSpec, read_source, read_stored_closure};
use crate::{
    Branch, BranchOptions, CancelledWork, Config, Error, FileRole, FinishedRun, KeyRing, LocalKeys, LocalRunner, Observer,
    Resource, Result, RunLock, Runner, StagePolicies, StagePolicy, UnusedName, UserFolder,
};

/// The folder of a repository for its store and for files that are no evidence.
const HOME: &str = ".assay";

/// The limit on early ends of one run.
const MAX_ENDS: u32 = 10_000;

/// The parameters for starting a run.
pub struct RunSpec {
    /// The source to start it from.
    pub source: SourceSpec,
    /// The store; without it, `.assay` in the repository, or the user's data folder outside of one.
    pub store: Option<String>,
    /// The run's name; without it, a new one.
    pub run_id: Option<RunId>,
    /// Parameters of the plan stage.
    pub plan: PlanParameters,
    /// The folder that holds the stages' binaries.
    pub binaries: PathBuf,
    /// The trust policy that its stages verify under; without it, the configured root.
    pub trust: Option<Vec<u8>>,
}

/// The parameters for starting a driver in a cluster.
pub struct DriverSpec {
    /// The run.
    pub run_id: RunId,
    /// The source to start the run from; without it, the Source that is already signed and stored.
    pub source: Option<SourceSpec>,
    /// The store.
    pub store: String,
    /// The trust policy that stages verify under.
    pub trust: Vec<u8>,
    /// Parameters of the plan stage.
    pub plan: PlanParameters,
    /// A folder for scratch files.
    pub home: PathBuf,
}

/// A run that is ready to be driven.
pub struct Run {
    /// Its name.
    pub run_id: RunId,
    /// The store's URI.
    pub store_uri: String,
    /// The store.
    pub store: Store,
    /// The folder of its logs and its published folder.
    pub home: PathBuf,
    /// The Source that it was started from.
    pub source: Source,
    /// The name of its pipeline.
    pub pipeline: Name,
    /// The import that made its definitions in this process, if the file is of another tool.
    pub import: Option<ImportedOriginal>,
    /// The folder of the repository that it was started from, if it has one on this machine.
    pub checkout: Option<PathBuf>,
    publish: PublishSettings,
    keys: KeyRing,
    policies: StagePolicies,
    pods: BTreeMap<Role, PodSettings>,
    intent: Intent,
    plan: PlanParameters,
    binaries: PathBuf,
    cancel: Cancel,
    /// Held by the process that drives a run on this machine; in a cluster it is a Lease.
    _lock: Option<RunLock>,
}

/// The decision whether a run's published folder is committed to a branch.
#[derive(Clone, Debug)]
pub enum BranchPush {
    /// Its pipeline names no branch.
    NotConfigured,
    /// Its pipeline names this branch, but the Source is no commit: the user may push it by hand.
    Manual(String),
    /// It is committed to this branch.
    Automatic(Branch),
}

/// The decision whether a run's hot metrics are pushed.
#[derive(Clone, Debug)]
pub enum MetricsPush {
    /// Its pipeline names no receiver.
    NotConfigured,
    /// Its pipeline names receivers, but the run is not pushed to them for this reason: the user may push it by hand.
    Manual(&'static str),
    /// They are pushed to these receivers.
    Automatic(HotMetrics),
}

/// The places that a finished run is pushed to.
#[derive(Clone, Debug)]
pub struct Pushes {
    /// The branch that gets its published folder.
    pub branch: BranchPush,
    /// The receivers of its headline numbers.
    pub metrics: MetricsPush,
}

impl Pushes {
    /// No places.
    pub const NONE: Self = Self { branch: BranchPush::NotConfigured, metrics: MetricsPush::NotConfigured };
}

impl Run {
    /// Reads the Source, opens the store, takes the run's lock and unlocks the keys.
    pub fn open(spec: &RunSpec, config: &Config, password: &[u8], cancel: &Cancel) -> Result<Self> {
        let scratch = tempfile::tempdir().map_err(|error| Resource::ScratchFolder.error(error))?;
        let spawner = Spawner::start().map_err(|error| Resource::Spawner.error(error))?;
        let read = read_source(&spec.source, scratch.path(), &spawner, cancel)?;
        read.check_no_secret(spec.run_id.as_ref())?;
        // A run that no repository defines keeps its report beside its store, if that is a folder.
        let is_beside = !spec.source.adhoc.is_empty() && spec.store.as_ref().is_some_and(|uri| !uri.contains("://"));
        let root = read.root.as_deref().filter(|_| !is_beside);
        let (store_uri, home) = find_store_and_home(spec.store.as_deref(), root)?;
        let store = Store::open(&store_uri)?;
        let pipeline = read.closure.pipeline.name.clone();
        let run_id = match &spec.run_id {
            Some(run_id) => run_id.clone(),
            None => new_run_id(&pipeline, Clock.now()),
        };
        let lock = RunLock::take(&home.join("locks"), &run_id)?;
        let source = read.store(&store)?;
        check_same_source(&store, &run_id, &source)?;
        check_not_removed(&store, &run_id)?;
        let keys = LocalKeys::new(config).unlock(&Role::RUN, password)?;
        let trust = match &spec.trust {
            None => load_trust(&store, &config.trust().display().to_string())?.1,
            Some(policy) => store_cluster_policy(&store, policy, &keys)?,
        };
        Ok(Self {
            policies: policies(&read.closure, trust),
            pods: pods(&read.closure),
            intent: read.closure.pipeline.spec.intent,
            publish: read.closure.pipeline.spec.publish.clone(),
            checkout: read.root.filter(|root| root.join(".git").exists()),
            run_id,
            store_uri,
            store,
            home,
            source,
            pipeline,
            import: read.import,
            keys,
            plan: spec.plan.clone(),
            binaries: spec.binaries.clone(),
            cancel: cancel.clone(),
            _lock: Some(lock),
        })
    }

    /// Opens a run for a driver in a cluster. The driver reads the source itself, or takes the Source that is already signed and
    /// stored: then it is verified like every input.
    pub fn open_for_driver(spec: &DriverSpec, keys: KeyRing, cancel: &Cancel) -> Result<Self> {
        let store = Store::reopen(&spec.store)?;
        let trust = store.put(&spec.trust)?;
        let policy = assay_stage::read_trust("the cluster's trust policy", &spec.trust)?;
        check_not_removed(&store, &spec.run_id)?;
        // A driver that replaces another continues with the first one's Source: the branch may have moved since.
        let is_stored = store.read(&Layout::for_run(&spec.run_id).source(), AcceptedResult::MAX_BYTES)?.is_some();
        let (source, closure) = if let Some(asked) = spec.source.as_ref().filter(|_| !is_stored) {
            let scratch = tempfile::tempdir_in(&spec.home).map_err(|error| Resource::ScratchFolder.error(error))?;
            let spawner = Spawner::start().map_err(|error| Resource::Spawner.error(error))?;
            let read = read_source(asked, scratch.path(), &spawner, cancel)?;
            let source = read.store(&store)?;
            check_same_source(&store, &spec.run_id, &source)?;
            (source, read.closure)
        } else {
            let source = stored_source(&store, &spec.run_id, policy)?;
            let closure = read_stored_closure(&store, &source)?;
            (source, closure)
        };
        Ok(Self {
            policies: policies(&closure, trust),
            pods: pods(&closure),
            intent: closure.pipeline.spec.intent,
            publish: closure.pipeline.spec.publish.clone(),
            checkout: None,
            run_id: spec.run_id.clone(),
            store_uri: spec.store.clone(),
            store,
            home: spec.home.clone(),
            source,
            pipeline: closure.pipeline.name.clone(),
            import: None,
            keys,
            plan: spec.plan.clone(),
            binaries: PathBuf::new(),
            cancel: cancel.clone(),
            _lock: None,
        })
    }

    /// Returns the branch that the run's published folder is to be committed to. Makes no network request: a remote that the
    /// checkout does not know is an error before the measurement.
    fn find_branch_push(&self) -> Result<BranchPush> {
        let Some(name) = &self.publish.branch else { return Ok(BranchPush::NotConfigured) };
        if self.source.kind != OriginKind::Git {
            return Ok(BranchPush::Manual(name.clone()));
        }
        let found = Branch::find(&BranchOptions::default(), &self.publish, &self.source, self.checkout.as_deref())?;
        Ok(found.map_or(BranchPush::NotConfigured, BranchPush::Automatic))
    }

    /// Returns the places that the finished run is pushed to. Makes no network request.
    pub fn find_pushes(&self) -> Result<Pushes> {
        Ok(Pushes { branch: self.find_branch_push()?, metrics: self.find_metrics_push() })
    }

    /// Returns the receivers of the run's hot metrics. Runs of an exploratory pipeline are no series, unless the pipeline asks for it.
    fn find_metrics_push(&self) -> MetricsPush {
        match &self.publish.hot_metrics {
            None => MetricsPush::NotConfigured,
            Some(hot) if self.intent == Intent::Exploratory && !hot.exploratory => {
                MetricsPush::Manual("the pipeline is exploratory and does not state `exploratory: true`")
            }
            Some(_) if self.source.kind != OriginKind::Git => MetricsPush::Manual("what ran is no commit's"),
            Some(hot) => MetricsPush::Automatic(hot.clone()),
        }
    }

    /// Returns the run's Publication, if an earlier process has finished it.
    pub fn published(&self) -> Result<Option<InputRef>> {
        let published = AcceptedResult::list_stage(&self.store, &self.run_id, StageName::Publish)?.next().transpose()?;
        Ok(published.map(|accepted| accepted.as_input(Kind::Publication)))
    }

    /// Returns true if the run has a plan, so that its workloads are frozen.
    pub fn is_planned(&self) -> Result<bool> {
        Ok(AcceptedResult::list_stage(&self.store, &self.run_id, StageName::Plan)?.next().is_some())
    }

    /// Returns the folder of this run's logs.
    pub fn logs(&self) -> PathBuf {
        self.home.join("logs").join(self.run_id.as_str())
    }

    /// Drives the run to its end on this machine.
    pub fn drive(&self, observer: &mut dyn Observer) -> Result<FinishedRun> {
        // Processes that a killed supervisor leaves behind become children of this process, which ends them before it starts
        // others.
        assay_process::become_reaper()?;
        let scratch = self.fresh_scratch()?;
        let runner = LocalRunner::new(
            self.binaries.clone(),
            self.store_uri.clone(),
            self.policies.trust,
            self.keys.clone(),
            self.logs(),
            Some(scratch.clone()),
            self.cancel.clone(),
        )?;
        let driven = self.drive_on(&runner, observer);
        drop(runner);
        if let Err(error) = std::fs::remove_dir_all(&scratch) {
            tracing::warn!(%error, scratch = %scratch.display(), "scratch files stay behind");
        }
        driven
    }

    /// Drives the run to its end as Jobs of a cluster.
    pub fn drive_in(&self, cluster: ClusterParameters, observer: &mut dyn Observer) -> Result<FinishedRun> {
        let (trust, pods) = (self.policies.trust, self.pods.clone());
        let runner = KubernetesRunner::new(cluster, &self.run_id, &self.store, trust, self.intent, pods, &self.cancel);
        self.drive_on(&runner, observer)
    }

    /// Drives the run to its end, wherever its stages run. If it ends early, the end is recorded, signed.
    fn drive_on(&self, runner: &dyn Runner, observer: &mut dyn Observer) -> Result<FinishedRun> {
        let source = self.sign_source()?;
        let mut watching = StageTracker { observer, at: StageName::Plan };
        let driven = drive(&self.run_id, source, &self.store, &self.policies, self.plan.clone(), runner, &mut watching);
        driven.map_err(|error| {
            let failure = match self.cancel.reason() {
                Some(reason) => cancelled(reason, &error.into()),
                // A store that is gone takes logs and results with it, and whatever failed did so because of that.
                None => self.store.check_there().err().map_or(error, Error::from).into(),
            };
            let failure = name_lost_file(failure);
            match self.sign_end(&failure, watching.at, source).map_err(Failure::from) {
                Ok(()) => failure.into(),
                Err(unsigned) => failure.hint(format!("the end of the run could not be recorded: {unsigned}")).into(),
            }
        })
    }

    /// Makes the folder for the stages' scratch files, without the remains of killed processes. The run's lock makes it this
    /// process's.
    fn fresh_scratch(&self) -> Result<PathBuf> {
        fresh_folder(&self.home.join("scratch"), &self.run_id)
    }

    fn seal(&self, parameters: Value) -> Result<Seal> {
        Ok(Seal {
            signer: self.keys.signer(Role::Source)?,
            binary: binary_digest()?,
            invocation_id: format!("{}-{}", self.run_id, std::process::id()),
            started: Clock.now(),
            parameters,
            stage: None,
            shard: Shard::ONLY,
            trust_policy: Some(self.policies.trust),
            dependencies: assay_stage::source_dependencies(&self.source),
        })
    }

    /// Signs and creates the run's Source once; a resumed run takes the existing one.
    pub fn sign_source(&self) -> Result<InputRef> {
        let path = Layout::for_run(&self.run_id).source();
        if let Some(existing) = self.store.read(&path, AcceptedResult::MAX_BYTES)? {
            return pointer(&path, &existing);
        }
        let seal_with = self.seal(json!({"pipeline": self.source.pipeline, "commit": self.source.commit}))?;
        let sealed = seal(&seal_with, &self.store, &self.run_id, Vec::new(), self.source.clone())?.reference;
        let accepted = AcceptedResult { manifest: sealed.manifest, bundle: sealed.bundle };
        match create_or_read(&self.store, &path, &accepted.to_bytes()?)? {
            None => Ok(sealed),
            Some(existing) => pointer(&path, &existing),
        }
    }

    fn sign_end(&self, failure: &Failure, at: StageName, source: InputRef) -> Result<()> {
        let state = if failure.exit == Exit::Cancelled { EndState::Cancelled } else { EndState::Failed };
        let layout = Layout::for_run(&self.run_id);
        for sequence in 0..MAX_ENDS {
            if self.store.read(&layout.end(sequence), AcceptedResult::MAX_BYTES)?.is_some() {
                continue;
            }
            let end = RunEnd {
                state,
                stage: at.role(),
                reason: Reason::new(failure.code.as_str(), &failure.message),
                exit_code: i32::from(failure.exit.code()),
                sequence,
                input_digest: None,
            };
            let sealed = seal(&self.seal(json!({}))?, &self.store, &self.run_id, vec![source], end)?.reference;
            let accepted = AcceptedResult { manifest: sealed.manifest, bundle: sealed.bundle };
            let own = accepted.to_bytes()?;
            match create_or_read(&self.store, &layout.end(sequence), &own)? {
                None => return Ok(()),
                Some(existing) if existing == own => return Ok(()),
                Some(_) => {}
            }
        }
        Err(Error::TooManyEnds(MAX_ENDS))
    }
}

/// Makes an empty folder of a run inside of `parent`. Neither may be a link: what it leads to is not of the run, and stays.
fn fresh_folder(parent: &Path, run_id: &RunId) -> Result<PathBuf> {
    let folder = parent.join(run_id.as_str());
    for path in [parent, &folder] {
        if path.is_symlink() {
            return Err(assay_store::Error::Link { path: path.to_owned() }.into());
        }
    }
    let removed = match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    removed.and_then(|()| std::fs::create_dir_all(&folder)).map(|()| folder.clone()).map_err(FileRole::Scratch.error(&folder))
}

fn pointer(path: &str, bytes: &[u8]) -> Result<InputRef> {
    let AcceptedResult { manifest, bundle } = AcceptedResult::parse(path, bytes)?;
    Ok(InputRef { kind: Kind::Source, manifest, bundle })
}

/// An observer that passes everything on and remembers which stage was running.
struct StageTracker<'a> {
    observer: &'a mut dyn Observer,
    at: StageName,
}

impl Observer for StageTracker<'_> {
    fn driver_ended(&mut self, times: &crate::DriverTimes) {
        self.observer.driver_ended(times);
    }

    fn stage_started(&mut self, call: &crate::StageCall) {
        self.at = call.stage;
        self.observer.stage_started(call);
    }

    fn event(&mut self, call: &crate::StageCall, event: &assay_stage::Event) {
        self.observer.event(call, event);
    }

    fn stage_finished(&mut self, call: &crate::StageCall, result: Result<InputRef, &Failure>) {
        self.observer.stage_finished(call, result);
    }
}

/// Returns the store, and the folder for files that are no evidence: logs, locks and published folders. That is `.assay` of the
/// repository; without a repository the store's own folder, or the user's data folder if the store is none.
fn find_store_and_home(store: Option<&str>, root: Option<&Path>) -> Result<(String, PathBuf)> {
    let folder = store.filter(|uri| !uri.contains("://")).map(Path::new);
    let home = match (root.filter(|root| root.join(".git").exists()), folder) {
        (Some(root), _) => home_of_repository(root)?,
        (None, Some(file)) if file.is_file() => {
            return Err(FileRole::Store.error(file)(std::io::ErrorKind::NotADirectory.into()));
        }
        (None, Some(folder)) => std::path::absolute(folder).map_err(FileRole::Store.error(folder))?,
        (None, None) => data_folder()?,
    };
    // The folder hides itself from Git, so that a first run leaves the work tree clean.
    let made = std::fs::create_dir_all(&home).and_then(|()| write_if_absent(&home.join(".gitignore"), b"*\n"));
    made.map_err(FileRole::Home.error(&home))?;
    // A repository may bring the folder along, with links in it.
    check_links(&home)?;
    let uri = match store {
        Some(uri) if uri.contains("://") || uri.starts_with('/') => uri.to_owned(),
        Some(path) => std::path::absolute(path).map_err(FileRole::Store.error(Path::new(path)))?.display().to_string(),
        None => home.display().to_string(),
    };
    Ok((uri, home))
}

/// Writes a file if nothing is in its place, not even a link.
fn write_if_absent(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match std::fs::File::create_new(path) {
        Ok(mut file) => file.write_all(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns `.assay` of a repository. It may be a link, so that stores lie on another disk, but none that the commit of the work tree
/// holds: such a link may lead to any folder of a user who has only cloned the repository.
fn home_of_repository(root: &Path) -> Result<PathBuf> {
    let home = root.canonicalize().unwrap_or_else(|_| root.to_owned()).join(HOME);
    if home.is_symlink() && is_committed(root, HOME) {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is a link that the repository holds; remove it");
        return Err(FileRole::Home.error(&home)(error));
    }
    Ok(home)
}

/// Returns true if the commit of a work tree holds something at a path, or if that cannot be read.
fn is_committed(root: &Path, path: &str) -> bool {
    let Ok(repository) = assay_git::Repository::discover(root) else { return true };
    // A repository without a commit holds nothing.
    repository.resolve("HEAD").is_ok_and(|commit| !matches!(repository.read_at(&commit, path), Ok(None)))
}

/// Returns the default store: `.assay` of the repository around the working folder, or the user's data folder.
pub fn default_store() -> Result<String> {
    let repository = assay_git::Repository::discover(Path::new("."));
    let root = repository.ok().and_then(|repository| repository.worktree().map(Path::to_path_buf));
    let home = match root {
        Some(root) => home_of_repository(&root)?,
        None => data_folder()?,
    };
    Ok(home.display().to_string())
}

/// Returns the store of runs that were begun outside of a repository, without `--store`: the user's data folder.
pub fn user_store() -> Result<String> {
    Ok(data_folder()?.display().to_string())
}

fn data_folder() -> Result<PathBuf> {
    let places = [("XDG_DATA_HOME", "assay"), ("HOME", ".local/share/assay")];
    find_user_folder(|name| std::env::var_os(name), UserFolder::Data, places)
}

/// Refuses to resume a run from another Source, because it would be another run. The name by which a commit was found makes no
/// difference: the Source that began the run records it.
fn check_same_source(store: &Store, run_id: &RunId, source: &Source) -> Result<()> {
    let path = Layout::for_run(run_id).source();
    let Some(bytes) = store.read(&path, AcceptedResult::MAX_BYTES)? else { return Ok(()) };
    let existing = store.get(&AcceptedResult::parse(&path, &bytes)?.manifest, MAX_MANIFEST_BYTES)?;
    let existing = Document::parse(&existing).map_err(Error::SourceDamaged)?;
    let unnamed = |source: &Source| Source { reference: None, ..source.clone() };
    match &existing {
        Document::Source(manifest) if unnamed(&manifest.body) == unnamed(source) => Ok(()),
        _ => Err(Error::OtherSource { run_id: run_id.clone(), unused: UnusedName::after(run_id, store) }),
    }
}

/// Refuses to resume a run of which evidence was removed. Here the pointer is enough: a writer of the store that could fake one
/// could remove the evidence as well.
fn check_not_removed(store: &Store, run_id: &RunId) -> Result<()> {
    if store.list(&Layout::for_run(run_id).tombstones())?.is_empty() { Ok(()) } else { Err(Error::RunRemoved(run_id.clone())) }
}

/// Puts the policy of a cluster into the store. It has to allow this machine's key to start runs, or the first stage would refuse
/// this one.
fn store_cluster_policy(store: &Store, policy: &[u8], keys: &KeyRing) -> Result<Digest> {
    let read = assay_stage::read_trust("the cluster's trust policy", policy)?;
    let own = keys.public(Role::Source)?;
    let is_listed = read.signers.iter().any(|signer| signer.key == *own && signer.signs.contains(&Role::Source));
    if !is_listed {
        return Err(Error::KeyNotInPolicy { policy: read.name, fingerprint: own.fingerprint(), pem: own.to_pem() });
    }
    Ok(store.put(policy)?)
}

/// Returns the Source that is already signed for a run.
fn stored_source(store: &Store, run_id: &RunId, policy: TrustPolicy) -> Result<Source> {
    let path = Layout::for_run(run_id).source();
    let Some(AcceptedResult { manifest, bundle }) = AcceptedResult::read(store, &path)? else {
        return Err(Error::NoSource(run_id.clone()));
    };
    let manifest = store.get(&manifest, MAX_MANIFEST_BYTES)?;
    let bundle = store.get(&bundle, assay_envelope::MAX_BUNDLE_BYTES as u64)?;
    let verified = verify(&manifest, &bundle, &Trust::Policy(policy), &ExpectedManifest::default())?;
    let document: &Document = verified.value();
    match Source::from_document(document).filter(|source| source.header.run_id == *run_id) {
        Some(source) => Ok(source.body.clone()),
        None => Err(Error::NotTheSource(path)),
    }
}

/// Returns the pipeline's settings for its stages' pods.
fn pods(closure: &Closure) -> BTreeMap<Role, PodSettings> {
    let asked = closure.pipeline.spec.stages.iter().map(|stage| {
        let resources = assay_cluster::Resources { cpu: stage.cpu.clone(), memory: stage.memory.clone() };
        let (node_selector, image, pod) = (stage.node_selector.clone(), stage.image.clone(), stage.pod.clone());
        (stage.role, PodSettings { resources, node_selector, image, pod })
    });
    asked.collect()
}

fn policies(closure: &Closure, trust: Digest) -> StagePolicies {
    let stage_of = |role: Role| StageName::ALL.into_iter().find(|stage| stage.role() == role && *stage != StageName::Record);
    let spec = &closure.pipeline.spec;
    let stages = spec.stages.iter().filter_map(|stage| {
        let name = stage_of(stage.role)?;
        // Execute's trials have limits of their own; the limit of the stage as a whole is the run's.
        let timeout = if name == StageName::Execute { spec.time_limit } else { stage.timeout };
        Some((name, StagePolicy { timeout: Some(timeout), retries: stage.retries }))
    });
    StagePolicies { trust, stages: stages.collect(), shards: spec.shards }
}

/// Returns the failure of a cancelled run. A failure that its end brought with it is part of the cancellation; one that a stage stated by itself,
/// such as a wrong result in the time that it is given to end, is not lost: it is the cause.
fn cancelled(reason: &str, own: &Failure) -> Failure {
    let failure = Failure::from(Error::Cancelled(CancelledWork::Run(reason.to_owned())));
    let of_the_end = own.exit == Exit::Cancelled || matches!(own.code, ErrorCode::ToldToEnd | ErrorCode::StageKilled);
    if of_the_end { failure } else { failure.because(own) }
}

/// Names the store as what failed if a file of the run is not in it any more. A reader who verifies a run doubts it because of a missing file;
/// the driver itself had the file, so its store lost it.
fn name_lost_file(failure: Failure) -> Failure {
    if failure.code != ErrorCode::ArtifactAbsent {
        return failure;
    }
    let message = "the store lost a file while the run was made: was it removed, or its file system unmounted?";
    Failure::new(ErrorCode::StoreVanished, message).because(&failure).hint(ErrorCode::StoreVanished.remedy())
}

/// Makes a run id, `<pipeline>-<date>-<time>-<4 digits>`: sorted by time, and unique enough for two runs to be started at once.
pub fn new_run_id(pipeline: &Name, now: Instant) -> RunId {
    let stamp: String = now.to_seconds().chars().filter(char::is_ascii_digit).collect();
    let (date, time) = stamp.split_at_checked(8).unwrap_or((&stamp, ""));
    let entropy = Digest::compute(format!("{now}{}", std::process::id()).as_bytes());
    let suffix: String = entropy.hex().chars().take(4).collect();
    let room = MAX_NAME.saturating_sub("-yyyymmdd-hhmmss-xxxx".len());
    let name: String = pipeline.as_str().chars().take(room).collect();
    let id = format!("{}-{date}-{time}-{suffix}", name.trim_end_matches('-'));
    // A shortened name and digits are a valid name; if the rule of names ever changed, a digest would still be one.
    RunId::new(id).unwrap_or_else(|_| RunId::from_digest(&entropy))
}

#[cfg(test)]
mod tests;
