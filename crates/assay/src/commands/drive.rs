//! `assay drive`: the program of a driver's pod. It creates the stages' Jobs in their order, and ends them when the run is cancelled.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use assay_cluster::{
    CANCEL, Cluster, FAILURE_FILE, Installation, KEY_FOLDER, Lease, ObjectPath, PodEnvironment, RUN, RunRoot, SCRATCH, run_root,
};
use assay_gating::judge_own_gates;
use assay_manifest::{Digest, Instant, Role, RunId};
use assay_process::Cancel;
use assay_runner::{BranchPush, ClusterParameters, DriverSpec, KeyRing, MetricsPush, Run as Driven, SourceSpec};
use assay_runs::{RunStore, VerifiedRun, read_regular_file};
use assay_stage::parameters::PlanParameters;
use assay_stage::{Clock, ErrorCode, Exit, Failure, key_password, write_failure};
use serde_json::json;

use crate::commands::cluster::{
    TemporaryNamespace, exec_command, find_root, installation, remove, require_root, restart_command,
};
use crate::commands::gate::{exit_for, worse_exit};
use crate::commands::hot_metrics::{self, PushedMetrics};
use crate::commands::on_kubernetes::EXPIRES_NS;
use crate::commands::run::no_valid_trial;
use crate::commands::{push, tidy};
use crate::output;
use crate::run_event::{RunEvent, RunEventWriter, write_event};

/// The interval at which the driver checks whether the run is to be stopped.
const LOOK: Duration = Duration::from_secs(1);
/// The time limit in seconds for a pod that cannot start.
const START_LIMIT_SECONDS: u64 = 300;
/// The digits of the unique id of a hook's Job that tell its runs apart.
const HOOK_DIGITS: usize = 8;

/// Drive a run as Jobs of the cluster that this pod runs in.
#[derive(clap::Args)]
pub(crate) struct Drive {
    /// The run's name
    #[arg(long, value_name = "ID", required_unless_present = "hook_job")]
    run_id: Option<RunId>,
    /// The Job of a hook, which names the run; after the run, the gates of its pipeline decide the exit code
    #[arg(long, value_name = "NAME/UID", conflicts_with = "run_id", requires = "own_source")]
    hook_job: Option<HookJob>,
    /// The pipeline's file [default: the Source that is stored for the run]
    #[arg(long, value_name = "PATH", requires = "repo", group = "own_source")]
    pipeline: Option<String>,
    /// The definition of another tool, in a file of the pod
    #[arg(long, value_name = "PATH", requires_all = ["hook_job", "definition_digest"], conflicts_with = "repo", group = "own_source")]
    definition: Option<String>,
    /// The digest of that file
    #[arg(long, value_name = "DIGEST", requires = "definition")]
    definition_digest: Option<Digest>,
    /// The repository's address
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// The branch or revision
    #[arg(long, value_name = "REV")]
    commit: Option<String>,
    /// Fetch nothing: inputs that only a network can pin stay unpinned
    #[arg(long)]
    no_fetch: bool,
    /// The queue in which targets and load wait
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// The timeout for a pod that cannot start
    #[arg(long, value_name = "SECONDS", default_value_t = START_LIMIT_SECONDS)]
    start_limit: u64,
    /// A namespace that was created for this run and is removed after it; its own comes last
    #[arg(long, value_name = "NAME=UID")]
    remove: Vec<TemporaryNamespace>,
}

/// The Job of a hook. Its name is the same in each synchronization, and its unique id is not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HookJob {
    name: String,
    run_id: RunId,
}

impl FromStr for HookJob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, uid) = text.split_once('/').ok_or("a name and a unique id, with `/` between them")?;
        let digits: String = uid.chars().filter(char::is_ascii_hexdigit).take(HOOK_DIGITS).collect();
        if digits.len() < HOOK_DIGITS {
            return Err("the unique id is too short".to_owned());
        }
        let run_id = format!("{name}-{}", digits.to_ascii_lowercase()).parse().map_err(|error| format!("{error}"))?;
        Ok(Self { name: name.to_owned(), run_id })
    }
}

/// The driver of one run.
struct Driver {
    options: Drive,
    run_id: RunId,
    /// The Job of this pod, if it makes the Source of its run itself.
    job: Option<String>,
}

impl Drive {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let driven = self.driver().and_then(|driver| driver.drive());
        if let Err(failure) = &driven {
            let file = Path::new(FAILURE_FILE);
            if file.exists() {
                write_failure(file, failure);
            }
        }
        driven
    }

    /// Finds the names of the run and of the pod's Job: the Job of a schedule has the name of its run.
    fn driver(self) -> Result<Driver, Failure> {
        let named = || Failure::new(ErrorCode::Internal, "neither a run nor a Job is named");
        let (run_id, job) = match (&self.hook_job, &self.run_id) {
            (Some(job), _) => (job.run_id.clone(), Some(job.name.clone())),
            (None, Some(run_id)) => (run_id.clone(), self.pipeline.as_ref().map(|_| run_id.to_string())),
            (None, None) => return Err(named()),
        };
        Ok(Driver { options: self, run_id, job })
    }

    /// Returns the source that this pod reads itself.
    fn source(&self) -> Result<Option<SourceSpec>, Failure> {
        if let Some((path, digest)) = self.definition.as_ref().zip(self.definition_digest) {
            check_definition(Path::new(path), digest)?;
        }
        let pipeline = self.pipeline.clone().or_else(|| self.definition.clone());
        Ok(pipeline.map(|pipeline| SourceSpec {
            pipeline,
            repo: self.repo.clone(),
            commit: self.commit.clone(),
            ..SourceSpec::default()
        }))
    }
}

/// Checks that a definition has the bytes that its hook was rendered with.
fn check_definition(path: &Path, digest: Digest) -> Result<(), Failure> {
    let unreadable =
        |error: std::io::Error| Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", path.display())).because(&error);
    // A ConfigMap is mounted by links.
    let path = path.canonicalize().map_err(unreadable)?;
    let bytes = read_regular_file(&path, assay_spec::MAX_OBJECT_BYTES as u64).map_err(unreadable)?;
    let found = Digest::compute(&bytes);
    if found == digest {
        return Ok(());
    }
    let message = format!("the definition has the digest {found}, and the hook was rendered for {digest}");
    Err(Failure::new(ErrorCode::DefinitionReplaced, message))
}

impl Driver {
    fn drive(&self) -> Result<Exit, Failure> {
        reach_remotes()?;
        assay_stage::init_tracing();
        let told_to_end = assay_process::cancel_on_signals(&assay_process::END_SIGNALS)
            .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))?;
        let here = PodEnvironment::from_env(|name| std::env::var(name).ok()).ok_or_else(|| {
            Failure::new(ErrorCode::NoPod, "`assay drive` runs in a driver's pod only")
                .hint("start one with `assay run --on kubernetes`")
        })?;
        let cluster = Cluster::from_pod()?;
        let installation = installation(&cluster, &here.namespace)?;
        let root = self.root(&cluster, &installation, &here)?;
        if let Err(failure) = tidy::tidy(&cluster, &installation) {
            tracing::warn!(%failure, "what earlier runs have left was not tidied up");
        }
        let stopped =
            Cancel::new().map_err(|error| Failure::new(ErrorCode::Descriptors, "no file descriptor is left").because(&error))?;
        let lost =
            Cancel::new().map_err(|error| Failure::new(ErrorCode::Descriptors, "no file descriptor is left").because(&error))?;
        let lease = Lease::take(&cluster, &installation.namespace, &self.run_id, &here.place.pod_uid, &root, &lost)?;
        watch_for_end(&cluster, &installation.namespace, &self.run_id, &root, &stopped, [told_to_end, lost])
            .map_err(|error| Failure::new(ErrorCode::Threads, "cannot start a thread").because(&error))?;

        let at = ClusterParameters {
            cluster: cluster.clone(),
            installation,
            root,
            queue: self.options.queue.clone(),
            start_limit: Duration::from_secs(self.options.start_limit),
        };
        let driven = self.drive_in(at, &stopped);
        write_event(&RunEvent::Ended { failure: driven.as_ref().err().cloned(), removes: !self.options.remove.is_empty() });
        output::diagnostic(format!("asked the API server {} times", cluster.request_count()));
        // The last step, because this pod is removed with its namespace.
        let removed = if self.options.remove.is_empty() {
            Ok(())
        } else {
            remove(&cluster, &here.namespace, Some(&self.run_id), &self.options.remove)
        };
        if let (Ok(_), Err(failure)) = (&driven, &removed) {
            write_event(&RunEvent::Ended { failure: Some(failure.clone()), removes: false });
        }
        drop(lease);
        let exit = driven?;
        removed?;
        Ok(exit)
    }

    /// Drives the run to its end, as the only driver.
    fn drive_in(&self, at: ClusterParameters, stopped: &Cancel) -> Result<Exit, Failure> {
        let installation = at.installation.clone();
        let password = key_password();
        let key = Path::new(KEY_FOLDER).join("cosign.key");
        let keys = KeyRing::from_file(Role::Source, &key, password.as_encoded_bytes())?;
        let source = self.options.source()?;
        let spec = DriverSpec {
            run_id: self.run_id.clone(),
            source,
            store: installation.store.clone(),
            trust: installation.trust.clone().into_bytes(),
            plan: PlanParameters { fetch: !self.options.no_fetch, ..PlanParameters::default() },
            home: PathBuf::from(SCRATCH),
        };
        let run = Driven::open_for_driver(&spec, keys, stopped)?;
        if run.published()?.is_none() {
            run.drive_in(at, &mut RunEventWriter::default())?;
        }
        if self.job.is_none() {
            return Ok(Exit::Done);
        }
        let opened = finish(&run, &installation, stopped)?;
        if self.options.hook_job.is_some() { judge(&opened) } else { Ok(Exit::Done) }
    }

    /// Returns the run's root. The client has made it, unless this pod makes the Source of its run itself: then it is made here, and the Job and its
    /// pod get the run's label.
    fn root(&self, cluster: &Cluster, installation: &Installation, here: &PodEnvironment) -> Result<RunRoot, Failure> {
        if let Some(job) = &self.job {
            let options = &self.options;
            let repository = options.repo.as_deref().map(assay_runner::redact_address).unwrap_or_default();
            let definition = options.pipeline.as_ref().or(options.definition.as_ref());
            let facts = [
                ("pipeline", definition.map(String::as_str).unwrap_or_default()),
                ("repository", repository.as_str()),
                ("image", &installation.image),
            ];
            let expires = Instant::from_unix_ns(Clock.now().unix_ns().saturating_add(EXPIRES_NS));
            cluster.create(&run_root(installation, &self.run_id, Some(expires), &facts))?;
            let of_run = json!({"metadata": {"labels": {RUN: self.run_id}}});
            cluster.merge(&ObjectPath::named("Job", &installation.namespace, job), &of_run)?;
            cluster.merge(&ObjectPath::named("Pod", &installation.namespace, &here.place.pod), &of_run)?;
        }
        require_root(cluster, &installation.namespace, &self.run_id).map(|(root, _)| root)
    }
}

/// Judges the comparison of a run by the gates of its own pipeline, if it has any, and returns the exit code of the worst outcome. The verdicts are
/// not signed, because this pod has no key of the gate: `assay gate` signs one.
fn judge(opened: &VerifiedRun) -> Result<Exit, Failure> {
    let verdicts = judge_own_gates(opened)?;
    for verdict in &verdicts {
        let reason = verdict.reasons.first().map(|reason| format!(": {}", reason.detail)).unwrap_or_default();
        output::diagnostic(format!("gate `{}`: {}{reason}", verdict.gate, verdict.outcome_label()));
    }
    Ok(verdicts.iter().map(|verdict| exit_for(verdict.outcome)).fold(Exit::Done, worse_exit))
}

/// Pushes a run that no client watches: its hot metrics, and its published folder to a branch, if its pipeline names any. It fails if none of its
/// trials counts.
fn finish(run: &Driven, installation: &Installation, cancel: &Cancel) -> Result<VerifiedRun, Failure> {
    let policy = Path::new(SCRATCH).join("trust.yaml");
    std::fs::write(&policy, &installation.trust)
        .map_err(|error| Failure::new(ErrorCode::Scratch, "the trust policy cannot be written").because(&error))?;
    let place = RunStore { store: Some(run.store_uri.clone()), trust: vec![policy.display().to_string()] };
    let opened = place.open(run.run_id.as_str())?;
    let pushes = run.find_pushes()?;
    let mut failure = None;
    // A branch that cannot be reached does not keep the receivers from their series.
    if let MetricsPush::Automatic(to) = &pushes.metrics {
        let pushed = hot_metrics::push(&opened, to, Some(&run.store), false, cancel).unwrap_or_else(PushedMetrics::from_failure);
        pushed.lines().for_each(output::diagnostic);
        pushed.failure.iter().for_each(|failure| output::diagnostic(&failure.message));
        failure = pushed.failure.map(|failure| hot_metrics::push_failure(&run.run_id, "", failure));
    }
    if let BranchPush::Automatic(branch) = &pushes.branch {
        output::diagnostic(push::line(&push::commit(&opened, branch, cancel)?));
    }
    failure.map_or(Ok(()), Err)?;
    no_valid_trial(&opened, Path::new("report.html"), false).map_or(Ok(opened), Err)
}

/// Restarts this program with the environment that git needs to reach a remote, if a Secret contains it: git reads it from its
/// environment, which no list of processes shows.
fn reach_remotes() -> Result<(), Failure> {
    const DONE: &str = "ASSAY_REACHES_REMOTES";
    let folder = Path::new("/git");
    if std::env::var_os(DONE).is_some() || !folder.exists() {
        return Ok(());
    }
    let is_there = |name: &str| folder.join(name).exists();
    let mut command = restart_command();
    command.env(DONE, "1");
    if is_there("ca.crt") {
        command.env("GIT_SSL_CAINFO", folder.join("ca.crt"));
    }
    if is_there("ssh-privatekey") {
        let hosts = if is_there("known_hosts") { "-oUserKnownHostsFile=/git/known_hosts " } else { "" };
        command.env("GIT_SSH_COMMAND", format!("ssh -oBatchMode=yes -oIdentitiesOnly=yes {hosts}-i /git/ssh-privatekey"));
    }
    if is_there("config") {
        command.env("GIT_CONFIG_GLOBAL", folder.join("config"));
    }
    Err(exec_command(&mut command))
}

/// Stops the run if its root is marked or deleted. A driver that is told to end for any other reason (its node is drained, for
/// example) only exits: the Jobs go on, and the next driver finds them.
fn watch_for_end(
    cluster: &Cluster,
    namespace: &str,
    run_id: &RunId,
    root: &RunRoot,
    stopped: &Cancel,
    leaves: [Cancel; 2],
) -> std::io::Result<()> {
    let (cluster, namespace, run_id, root, stopped) =
        (cluster.clone(), namespace.to_owned(), run_id.clone(), root.clone(), stopped.clone());
    let watch = move || {
        loop {
            let [told_to_end, lost] = &leaves;
            let is_told = told_to_end.wait_timeout(LOOK);
            if let Some(why) = lost.reason() {
                output::diagnostic(format!("this driver lets go of the run: {why}"));
                leave();
            }
            match find_root(&cluster, &namespace, &run_id) {
                Ok(Some((there, _))) if there.uid != root.uid => {
                    output::diagnostic("this driver lets go of the run: its root is another one by now");
                    leave();
                }
                Ok(Some((_, annotations))) => {
                    if let Some(reason) = annotations.get(CANCEL) {
                        return stopped.cancel(reason.clone());
                    }
                }
                Ok(None) => return stopped.cancel("its root was deleted"),
                Err(failure) => tracing::warn!(%failure, "whether the run is to be stopped is not known"),
            }
            if is_told {
                output::diagnostic("this driver was told to end; the run goes on, and the next one takes it up");
                leave();
            }
        }
    };
    std::thread::Builder::new().name("end".to_owned()).spawn(watch).map(|_| ())
}

/// Exits as if the signal had not been handled: the Job counts it, and starts another driver.
#[expect(clippy::exit, reason = "the run is not to be ended, so nothing of it is unwound")]
fn leave() -> ! {
    std::process::exit(143)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_of_a_hook_has_a_run_of_its_own() {
        let read = |text: &str| text.parse::<HookJob>();
        let job = read("after-deployment/1F9c3f7e-6a4b-4c1d-9e2f-000000000000").expect("a Job");
        assert_eq!((job.name.as_str(), job.run_id.as_str()), ("after-deployment", "after-deployment-1f9c3f7e"));
        assert!(read("after-deployment").is_err() && read("a/1f9c").is_err() && read("A_B/1f9c3f7e6a4b").is_err());
    }

    #[test]
    fn a_definition_of_other_bytes_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "kind: BenchmarkJob\n").expect("written");
        check_definition(file.path(), Digest::compute(b"kind: BenchmarkJob\n")).expect("the same bytes");
        let failure = check_definition(file.path(), Digest::compute(b"other")).expect_err("refused");
        assert_eq!((failure.code, failure.exit), (ErrorCode::DefinitionReplaced, Exit::Verification));
        assert_eq!(
            check_definition(Path::new("/nowhere"), Digest::compute(b"")).expect_err("absent").code,
            ErrorCode::Unreadable
        );
    }
}
