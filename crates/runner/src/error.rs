//! The errors of this crate, and their conversion into failures.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use assay_cluster::{JobFailure, Obstacle};
use assay_envelope::{KeyError, VerifyError};
use assay_failure::{ErrorCode, Exit, Failure, RESUME_HINT};
use assay_git::{BranchError, RemoteError};
use assay_manifest::{Digest, DocumentError, Intent, Kind, Role, RunId};
use assay_spec::Problem;
use assay_stage::{StageName, first_names};

use crate::unused_name::UnusedName;

/// An error of any reader of definitions.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure to start, drive or publish a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A failure that a stage, a caller or the stage contract has stated.
    #[error("{}", .0.message)]
    Stated(Failure),
    /// A stage of the run failed.
    #[error("{stage}: {}", failure.message)]
    Stage {
        /// The stage.
        stage: StageName,
        /// Its failure.
        failure: Failure,
    },
    /// The run was cancelled.
    #[error("{0}")]
    Cancelled(CancelledWork),
    /// A call of the cluster failed.
    #[error(transparent)]
    Cluster(#[from] assay_cluster::Error),
    /// A call of the store failed.
    #[error(transparent)]
    Store(#[from] assay_store::Error),
    /// A manifest that the driver relies on is refused.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// A manifest that a stage returned does not parse.
    #[error(transparent)]
    Manifest(DocumentError),
    /// The Source of an existing run does not parse.
    #[error(transparent)]
    SourceDamaged(DocumentError),
    /// Definitions are invalid.
    #[error("the definitions have {} problem(s)", .0.len())]
    Definitions(Vec<Problem>),
    /// The definition of another tool does not run as it is.
    #[error("`{path}` is {title}, and {fault}")]
    Import {
        /// Its path in the repository.
        path: String,
        /// Its format, with the article.
        title: &'static str,
        /// The reason.
        fault: ImportFault,
    },
    /// A repository on this machine cannot be read.
    #[error(transparent)]
    Repository(#[from] assay_git::Error),
    /// A commit cannot be fetched from a remote.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A folder cannot be committed to a branch.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// A child process cannot be started or waited for.
    #[error(transparent)]
    Process(#[from] assay_process::Error),
    /// A file or folder cannot be used.
    #[error("{}", role.message(path))]
    File {
        /// Its role.
        role: FileRole,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A definition cannot be read from its source.
    #[error("cannot read `{path}`")]
    Definition {
        /// The path in the repository.
        path: String,
        /// The reader's error.
        #[source]
        source: Cause,
    },
    /// The operating system has not given a resource.
    #[error("{resource}")]
    Resource {
        /// The resource.
        resource: Resource,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A key cannot be made or used.
    #[error("{}", work)]
    Key {
        /// The work that was done with the key.
        work: KeyWork,
        /// The error of the key.
        #[source]
        source: KeyError,
    },
    /// A file is too large for a key.
    #[error("`{}` has {size} bytes, too many for a key", path.display())]
    KeyTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// A role has no local key.
    #[error("there is no key for {0}")]
    NoKey(Role),
    /// The key of a role was not unlocked for this run.
    #[error("no key of `{0}` was unlocked")]
    KeyNotUnlocked(Role),
    /// A key that is to be replaced signs for other roles, too.
    #[error("the key of `{signer}` signs for other roles than {role} too")]
    SharedKey {
        /// The signer in the trust root.
        signer: String,
        /// The role whose key is to be replaced.
        role: Role,
    },
    /// The trust policy of a cluster does not let this machine's key start runs.
    #[error("the cluster's trust policy `{policy}` does not let your key {fingerprint} start runs")]
    KeyNotInPolicy {
        /// The policy.
        policy: String,
        /// The fingerprint of the key.
        fingerprint: Digest,
        /// The public key, as PEM.
        pem: String,
    },
    /// The environment names no folder for keys or for a store.
    #[error("{0}")]
    NoFolder(UserFolder),
    /// A variable of the environment names a folder of the user by a relative path: it would be another folder in every working
    /// folder, and keys or a trust root could be those of the folder that a command happens to run in.
    #[error("`{variable}` is `{}`, which is no absolute path", path.display())]
    RelativeFolder {
        /// The variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
        /// The folder that it leads to.
        folder: UserFolder,
    },
    /// Another process on this machine drives the run.
    #[error("another `assay` is driving the run `{0}`")]
    RunLocked(RunId),
    /// The Source does not hold its own pipeline.
    #[error("the source does not hold `{0}`")]
    PipelineAbsent(String),
    /// The pipeline lies outside its repository.
    #[error("`{}` is not a file of the repository `{}`", path.display(), root.display())]
    PipelinePath {
        /// The pipeline.
        path: PathBuf,
        /// The root of the repository.
        root: PathBuf,
    },
    /// The work tree differs from its commit, which only an exploratory run may.
    #[error(
        "a run of intent `{intent}` starts from a commit, but the work tree differs from it; {}",
        if changed.is_empty() { "nothing is committed yet".to_owned() } else { format!("changed: {}", changed.join(", ")) }
    )]
    DirtyWorktree {
        /// The intent of the run.
        intent: Intent,
        /// The files that differ; empty if there is no commit.
        changed: Vec<String>,
    },
    /// A secret that a target refers to stands in a file of the run, too.
    #[error("the value of `{name}` stands in `{path}` too, which is published with the run")]
    SecretInFile {
        /// The header or variable.
        name: String,
        /// The path of the file in the repository.
        path: String,
    },
    /// A secret that a target refers to is a part of the run's name.
    #[error("the value of `{name}` is a part of the run's name, which is published")]
    SecretInName {
        /// The header or variable.
        name: String,
    },
    /// The run was started from another Source.
    #[error("the run `{run_id}` was started from another source")]
    OtherSource {
        /// The run.
        run_id: RunId,
        /// The name that starts a new one.
        unused: UnusedName,
    },
    /// No Source of the run is signed.
    #[error("the run `{0}` has no signed Source")]
    NoSource(RunId),
    /// A pointer does not lead to the Source of its run.
    #[error("`{0}` does not name the Source of the run")]
    NotTheSource(String),
    /// A manifest is of another kind than its reference says.
    #[error("{manifest} is a {found}, not a {expected}")]
    OtherKind {
        /// The manifest.
        manifest: Digest,
        /// Its kind.
        found: Kind,
        /// The kind of the reference.
        expected: Kind,
    },
    /// A pointer that the store listed is absent.
    #[error("the pointer `{0}` no longer exists")]
    PointerMissing(String),
    /// The Environment asks for a number of shards that is not allowed.
    #[error("the Environment asks for {0} shards")]
    ShardCount(u32),
    /// The target of a block ended too often.
    #[error("block {block} lost its target {times} times")]
    TargetLostTooOften {
        /// The block.
        block: u32,
        /// The number of incarnations.
        times: u32,
    },
    /// A pod of a target that was provisioned is not up any more.
    #[error("the pod `{pod}` of target `{target}` that was provisioned is not up any more")]
    TargetPodLost {
        /// The target.
        target: String,
        /// The pod.
        pod: String,
    },
    /// Evidence of the run was removed, so no stage can continue from it.
    #[error("evidence of the run `{0}` was removed, so it cannot be resumed")]
    RunRemoved(RunId),
    /// The run has ended too often.
    #[error("the run has ended {0} times")]
    TooManyEnds(u32),
    /// The checkout that would resolve a remote's name is missing.
    #[error("the remote `{0}` cannot be resolved: this folder is not in a Git checkout")]
    NoCheckout(String),
    /// The remote `origin` of the checkout is another repository than the run's.
    #[error("the run is from the repository `{run}`, but `{remote}` of this checkout is `{checkout}`")]
    OtherRemote {
        /// The repository of the run.
        run: String,
        /// The remote's name.
        remote: &'static str,
        /// The address of the remote.
        checkout: String,
    },
    /// The program of a stage is missing.
    #[error("the stage's binary `{}` is missing", .0.display())]
    BinaryMissing(PathBuf),
    /// A target has an empty command.
    #[error("target `{0}` has an empty command")]
    EmptyCommand(String),
    /// The value of a target's variable cannot be read.
    #[error("`{variable}` of target `{target}` comes from {origin}")]
    SecretAbsent {
        /// The variable.
        variable: String,
        /// The target.
        target: String,
        /// The origin of the value.
        origin: SecretOrigin,
        /// The system's error, if a file cannot be read.
        #[source]
        source: Option<io::Error>,
    },
    /// The process of a stage ended without a result or a failure.
    #[error("{end}")]
    StageEnd {
        /// Its end.
        end: StageEnd,
        /// Its log, if it has one.
        log: Option<LogEnd>,
    },
    /// The Job of a stage succeeded, and the store has no result of it.
    #[error("the stage succeeded, but gave no result")]
    NoJobResult {
        /// The namespace of the Job.
        namespace: String,
        /// The Job.
        job: String,
    },
    /// The Job of a stage has failed.
    #[error("{0}")]
    Job(Box<JobFailure>),
    /// The pods of a Job did not start in time.
    #[error("{obstacle}")]
    NotStarted {
        /// The obstacle.
        obstacle: Box<Obstacle>,
        /// The time that was waited.
        waited: Duration,
    },
    /// The Job of an earlier try still exists.
    #[error("the Job `{0}` of an earlier try still exists")]
    JobStays(String),
    /// The pods of a Job do not terminate.
    #[error("the pods of the Job `{0}` do not terminate")]
    PodsStay(String),
    /// A Job was deleted while it ran.
    #[error("the Job `{0}` was deleted while it ran")]
    JobGone(String),
    /// The recorder did not start in time.
    #[error("the recorder did not start within {0:?}")]
    RecorderNotStarted(Duration),
    /// The recorder's pod ended without a recording.
    #[error("the recorder's pod ended without a recording")]
    NoRecording,
    /// A workload names another image than the stage that executes it.
    #[error("the workload `{workload}` runs in the image `{image}`, and the stage execute in `{stage_image}`")]
    WorkloadAndStageImage {
        /// The workload.
        workload: String,
        /// Its image.
        image: String,
        /// The image of the stage.
        stage_image: String,
    },
    /// Workloads of one block name several images.
    #[error(
        "the workloads `{}` and `{}` of one block run in two images: {} and {}",
        first.0, second.0, image_text(first.1.as_deref()), image_text(second.1.as_deref())
    )]
    BlockImages {
        /// A workload and its image, `None` for the installed one.
        first: (String, Option<String>),
        /// Another workload of the block and its image.
        second: (String, Option<String>),
    },
    /// A variant has Python packages, which a run in a cluster does not install.
    #[error("the variant `{0}` has a lock file of Python packages, and a run in a cluster installs none")]
    StackInCluster(String),
    /// A defect of this program.
    #[error("{0}")]
    Internal(Defect),
}

fn image_text(image: Option<&str>) -> String {
    image.map_or_else(|| "Assay's".to_owned(), |image| format!("`{image}`"))
}

/// The work that was cancelled, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelledWork {
    /// A stage.
    Stage(String),
    /// The run.
    Run(String),
    /// The push of a published folder.
    Push(String),
}

impl fmt::Display for CancelledWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(reason) => f.write_str(reason),
            Self::Run(reason) => write!(f, "the run was stopped ({reason})"),
            Self::Push(reason) => write!(f, "the push was stopped ({reason})"),
        }
    }
}

/// The role of a file or folder that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// A file of a published folder.
    Export,
    /// The folder for logs, locks and published folders.
    Home,
    /// A file of the configuration folder.
    Config,
    /// The trust root of the configuration folder.
    TrustRoot,
    /// A key file.
    Key,
    /// A lock.
    Lock,
    /// The folder of a run's logs.
    Logs,
    /// The folder of the stages' scratch files.
    Scratch,
    /// The pipeline or its repository.
    Source,
    /// The folder of a store.
    Store,
}

impl FileRole {
    fn message(self, path: &std::path::Path) -> String {
        let path = path.display();
        match self {
            Self::Export | Self::Home | Self::Config => format!("cannot write `{path}`"),
            Self::TrustRoot => format!("cannot read the trust root `{path}`"),
            Self::Key => format!("cannot read the key `{path}`"),
            Self::Lock => format!("cannot use the lock `{path}`"),
            Self::Logs | Self::Scratch => format!("cannot make `{path}`"),
            Self::Source => format!("cannot read `{path}`"),
            Self::Store => format!("`{path}` is not a folder"),
        }
    }

    fn code(self) -> ErrorCode {
        match self {
            Self::Export => ErrorCode::Export,
            Self::Home => ErrorCode::Home,
            Self::Config | Self::TrustRoot => ErrorCode::Config,
            Self::Key => ErrorCode::Key,
            Self::Lock => ErrorCode::Lock,
            Self::Logs => ErrorCode::Logs,
            Self::Scratch => ErrorCode::Scratch,
            Self::Source => ErrorCode::Unreadable,
            Self::Store => ErrorCode::StoreUri,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Source => {
                "give the path of the pipeline's file as seen from the folder in which the command runs, such as `pipelines/nightly.yaml`"
            }
            Self::Store => "name a folder, which is made if it does not exist, or a bucket (`s3://bucket/prefix`)",
            Self::Config => "keys and trust root need a folder that you may write to: set ASSAY_CONFIG to one",
            Self::TrustRoot | Self::Key => "check that the file exists and that you may read it; ASSAY_CONFIG names its folder",
            Self::Export | Self::Home | Self::Lock | Self::Logs | Self::Scratch => {
                "check that you may write to the folder, and that its disk has free space"
            }
        }
    }

    /// Returns the conversion of an error of this file or folder.
    pub(crate) fn error(self, path: &std::path::Path) -> impl Fn(io::Error) -> Error {
        move |source| Error::File { role: self, path: path.to_owned(), source }
    }
}

/// A resource of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A temporary folder.
    ScratchFolder,
    /// The thread that starts child processes.
    Spawner,
    /// A file descriptor.
    Descriptor,
    /// The path of the running program.
    OwnProgram,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScratchFolder => "cannot make a scratch folder",
            Self::Spawner => "cannot start a thread",
            Self::Descriptor => "no file descriptor is left",
            Self::OwnProgram => "cannot find the running program",
        })
    }
}

impl Resource {
    fn code(self) -> ErrorCode {
        match self {
            Self::ScratchFolder => ErrorCode::Scratch,
            Self::Spawner => ErrorCode::Spawner,
            Self::Descriptor => ErrorCode::Descriptors,
            Self::OwnProgram => ErrorCode::Binaries,
        }
    }

    /// Converts the system's error.
    pub(crate) fn error(self, source: io::Error) -> Error {
        Error::Resource { resource: self, source }
    }
}

/// Work with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyWork {
    /// A key file is unlocked.
    Unlock(PathBuf),
    /// A public key is read.
    ReadPublic(PathBuf),
    /// The key of a role is made.
    Make(Role),
    /// The unlocked key of a role is used.
    Use(Role),
    /// An unlocked key is encoded for a stage.
    Encode,
}

impl fmt::Display for KeyWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlock(path) => write!(f, "cannot unlock the key `{}`", path.display()),
            Self::ReadPublic(path) => write!(f, "`{}` is not a public key", path.display()),
            Self::Make(role) => write!(f, "cannot make a key for `{role}`"),
            Self::Use(role) => write!(f, "the key of `{role}` cannot be used"),
            Self::Encode => f.write_str("an unlocked key cannot be written"),
        }
    }
}

impl KeyWork {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Unlock(_) => ErrorCode::KeyLocked,
            Self::ReadPublic(_) | Self::Make(_) => ErrorCode::Key,
            Self::Use(_) | Self::Encode => ErrorCode::Internal,
        }
    }
}

/// A folder of the user that no environment variable names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFolder {
    /// The folder of keys and trust root.
    Config,
    /// The folder of the default store.
    Data,
}

impl fmt::Display for UserFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "there is no place for keys: neither ASSAY_CONFIG nor HOME is set",
            Self::Data => "there is no place for the store: HOME is not set",
        })
    }
}

/// The origin of a variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretOrigin {
    /// A variable of this process.
    Variable(String),
    /// A file.
    File(String),
}

impl fmt::Display for SecretOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "the environment variable `{name}`, which is not set"),
            Self::File(path) => write!(f, "the file `{path}`, which cannot be read"),
        }
    }
}

/// The end of a stage's process that stated no failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageEnd {
    /// It ran into its time limit.
    TimeLimit,
    /// It was cancelled, with the reason.
    Cancelled(String),
    /// It succeeded, without a result.
    NoResult,
    /// It was ended by this signal.
    Signal(i32),
    /// Its supervisor was ended by this signal.
    SupervisorSignal(i32),
    /// It ended with this exit code.
    ExitCode(i32),
}

impl fmt::Display for StageEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeLimit => f.write_str("the stage ran into its time limit and was stopped"),
            Self::Cancelled(reason) => f.write_str(reason),
            Self::NoResult => f.write_str("the stage succeeded, but gave no result"),
            Self::Signal(signal) => write!(f, "the stage was ended by signal {signal}"),
            Self::SupervisorSignal(signal) => write!(f, "the stage's supervisor was ended by signal {signal}"),
            Self::ExitCode(code) => write!(f, "the stage ended with exit code {code} and no result"),
        }
    }
}

impl StageEnd {
    fn code(&self) -> ErrorCode {
        match self {
            Self::TimeLimit => ErrorCode::StageTimeout,
            Self::Cancelled(_) => ErrorCode::Cancelled,
            Self::NoResult | Self::ExitCode(_) => ErrorCode::StageFailed,
            Self::Signal(_) | Self::SupervisorSignal(_) => ErrorCode::StageKilled,
        }
    }
}

/// The reason why the definition of another tool does not run as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportFault {
    /// It cannot be imported at all, for this reason.
    Unreadable(String),
    /// Fields are refused.
    Refused {
        /// Each with its remedy.
        fields: Vec<String>,
        /// True if there are definitions without them.
        has_rest: bool,
    },
    /// Its documents make no pipeline, or several: the number of each document, and the path of its pipeline.
    SeveralPipelines(Vec<(usize, String)>),
    /// It may have a credential in this place, and a run publishes the file.
    Credential(String),
    /// A definition that is imported from it has its own path.
    PathTaken(String),
    /// Its path has characters that a manifest's paths do not have.
    PathNotPlain,
}

impl fmt::Display for ImportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(reason) => write!(f, "{reason}"),
            Self::Refused { fields, .. } => match fields.len() {
                1 => f.write_str("1 field of it is refused, so it cannot be run"),
                count => write!(f, "{count} fields of it are refused, so it cannot be run"),
            },
            Self::SeveralPipelines(pipelines) => {
                write!(f, "its documents make {} pipelines, where a run has one: ", pipelines.len())?;
                let named: Vec<String> =
                    pipelines.iter().map(|(document, path)| format!("document {document} makes `{path}`")).collect();
                f.write_str(&first_names(&named, MAX_NAMED))
            }
            Self::Credential(place) => write!(f, "`{place}` may be a credential: a run pins the file as it is, and publishes it"),
            Self::PathNotPlain => {
                f.write_str("its path has other characters than letters, digits and `._-/=@+`, so no manifest can name it")
            }
            Self::PathTaken(path) => write!(f, "`{path}` is also the path of a definition that is imported from it"),
        }
    }
}

impl ImportFault {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Unreadable(_) => ErrorCode::ForeignFormat,
            Self::Refused { .. } => ErrorCode::ImportRefused,
            Self::SeveralPipelines(_) => ErrorCode::SeveralPipelines,
            Self::Credential(_) => ErrorCode::ForeignCredential,
            Self::PathTaken(_) | Self::PathNotPlain => ErrorCode::ImportPath,
        }
    }

    /// Returns the remedy, for the file at a path.
    fn hint(&self, path: &str) -> Option<String> {
        Some(match self {
            Self::Unreadable(_) => return None,
            Self::Refused { has_rest: true, .. } => format!(
                "`assay import {path} --dry-run` shows all fields; `assay import {path} --partial` writes definitions without those that are refused"
            ),
            Self::Refused { has_rest: false, .. } => format!("`assay import {path} --dry-run` shows all fields"),
            Self::SeveralPipelines(_) => {
                format!("write each document into a file of its own, or write the pipelines with `assay import {path}`")
            }
            Self::Credential(_) => format!(
                "write `REDACTED` in its place: Assay takes credentials from variables and Secrets. `assay import {path}` writes definitions without it"
            ),
            Self::PathNotPlain => "rename the file".to_owned(),
            Self::PathTaken(_) => format!("rename the file, or write the definitions with `assay import {path} --to FOLDER`"),
        })
    }
}

/// The most pipelines of a file that a message names.
const MAX_NAMED: usize = 5;

/// The end of a stage's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The log.
    pub path: PathBuf,
    /// Its last lines; empty if it is empty.
    pub tail: String,
}

/// A defect of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A runner returned no result for a call of this stage.
    NoResult(StageName),
    /// A file of the definitions was not read.
    FileNotRead(String),
    /// The parameters of a stage have no JSON form, for this reason.
    ParametersNotJson(String),
    /// The thread that waits for a child panicked.
    WaitPanicked,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResult(stage) => write!(f, "{stage} gave no result"),
            Self::FileNotRead(path) => write!(f, "`{path}` was not read"),
            Self::ParametersNotJson(why) => write!(f, "parameters have no JSON form: {why}"),
            Self::WaitPanicked => f.write_str("the thread that waits for a child panicked"),
        }
    }
}

impl Error {
    /// Returns true if the target of a block was lost, so that the block has to be provisioned again.
    pub(crate) fn is_target_lost(&self) -> bool {
        match self {
            Self::Stated(failure) | Self::Stage { failure, .. } => failure.code == ErrorCode::Drift,
            Self::TargetPodLost { .. } => true,
            _ => false,
        }
    }

    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stated(failure) | Self::Stage { failure, .. } => failure.code,
            Self::Cancelled(_) => ErrorCode::Cancelled,
            Self::Cluster(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Signature(error) => error.code(),
            Self::Manifest(_) => ErrorCode::Manifest,
            Self::SourceDamaged(_) => ErrorCode::SourceDamaged,
            Self::Definitions(_) => ErrorCode::DefinitionInvalid,
            Self::Import { fault, .. } => fault.code(),
            Self::Repository(_) => ErrorCode::Git,
            Self::Remote(error) => error.code(),
            Self::Branch(error) => error.code(),
            Self::Process(_) => ErrorCode::Process,
            Self::File { role, .. } => role.code(),
            Self::Definition { source, .. } => match source.downcast_ref::<assay_git::Error>() {
                Some(error) if error.is_about_contents() => ErrorCode::DefinitionInvalid,
                _ => ErrorCode::Unreadable,
            },
            Self::Resource { resource, .. } => resource.code(),
            Self::Key { work, .. } => work.code(),
            Self::KeyTooLarge { .. } => ErrorCode::Key,
            Self::NoKey(_) => ErrorCode::NoKeys,
            Self::KeyNotUnlocked(_) | Self::Internal(_) => ErrorCode::Internal,
            Self::SharedKey { .. } => ErrorCode::SharedKey,
            Self::KeyNotInPolicy { .. } => ErrorCode::WrongSigner,
            Self::NoFolder(UserFolder::Config) | Self::RelativeFolder { folder: UserFolder::Config, .. } => {
                ErrorCode::NoConfigFolder
            }
            Self::NoFolder(UserFolder::Data) | Self::RelativeFolder { folder: UserFolder::Data, .. } => ErrorCode::NoDataFolder,
            Self::RunLocked(_) => ErrorCode::RunLocked,
            Self::RunRemoved(_) => ErrorCode::RunRemoved,
            Self::PipelineAbsent(_) => ErrorCode::PipelineAbsent,
            Self::PipelinePath { .. } => ErrorCode::PipelinePath,
            Self::DirtyWorktree { .. } => ErrorCode::DirtyWorktree,
            Self::SecretInFile { .. } | Self::SecretInName { .. } => ErrorCode::SecretInFile,
            Self::OtherSource { .. } => ErrorCode::OtherSource,
            Self::NoSource(_) => ErrorCode::NoSource,
            Self::NotTheSource(_) | Self::OtherKind { .. } => ErrorCode::OtherKind,
            Self::PointerMissing(_) => ErrorCode::PointerMissing,
            Self::ShardCount(_) => ErrorCode::ShardCount,
            Self::TargetLostTooOften { .. } => ErrorCode::TargetDied,
            Self::TargetPodLost { .. } => ErrorCode::Drift,
            Self::TooManyEnds(_) => ErrorCode::TooManyEnds,
            Self::NoCheckout(_) => ErrorCode::NoSuchRemote,
            Self::OtherRemote { .. } => ErrorCode::OtherRemote,
            Self::BinaryMissing(_) => ErrorCode::BinaryMissing,
            Self::EmptyCommand(_) => ErrorCode::TargetCommand,
            Self::SecretAbsent { .. } => ErrorCode::SecretAbsent,
            Self::StageEnd { end, .. } => end.code(),
            Self::NoJobResult { .. } => ErrorCode::StageFailed,
            Self::Job(failure) => failure.code(),
            Self::NotStarted { obstacle, .. } => obstacle.code(),
            Self::JobStays(_) => ErrorCode::JobStays,
            Self::PodsStay(_) => ErrorCode::PodsStay,
            Self::JobGone(_) => ErrorCode::JobGone,
            Self::RecorderNotStarted(_) | Self::NoRecording => ErrorCode::Recorder,
            Self::WorkloadAndStageImage { .. } | Self::BlockImages { .. } => ErrorCode::WorkloadImage,
            Self::StackInCluster(_) => ErrorCode::StackInCluster,
        }
    }

    /// Returns a suggestion for the user, if there is one.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Import { path, fault, .. } => return fault.hint(path),
            Self::Repository(error) => error.hint()?,
            Self::Remote(error) => error.hint()?,
            Self::Branch(error) => error.hint()?,
            Self::Definition { source, .. } => source.downcast_ref::<assay_git::Error>().and_then(assay_git::Error::hint)?,
            Self::File { role, .. } => role.hint(),
            Self::Key { work: KeyWork::Unlock(_) | KeyWork::Make(_), source } => source.hint()?,
            Self::NoKey(_) => "`assay keys init` makes it",
            Self::SharedKey { .. } => "edit the trust root: give each role a key of its own",
            Self::KeyNotInPolicy { pem, .. } => {
                let key = pem.trim_end().replace('\n', "\n      ");
                return Some(format!(
                    "an administrator of the cluster must add this signer to `trust.yaml` of its ConfigMap `assay`:\n    - name: your-name\n      signs: [source]\n      key: |\n        {key}"
                ));
            }
            Self::RelativeFolder { variable, folder: UserFolder::Config, .. } => {
                return Some(format!("set {variable} to an absolute path, or ASSAY_CONFIG to a folder that only you can read"));
            }
            Self::RelativeFolder { variable, folder: UserFolder::Data, .. } => {
                return Some(format!("set {variable} to an absolute path, or name a store with `--store`"));
            }
            Self::NoFolder(UserFolder::Config) => "set ASSAY_CONFIG to a folder that only you can read",
            Self::NoFolder(UserFolder::Data) => "name one with `--store`",
            Self::RunLocked(_) => "wait for it to end; a run has one driver at a time",
            Self::RunRemoved(_) => "leave out `--run-id` to start a new run; `assay verify` prints what was removed",
            Self::DirtyWorktree { .. } => "commit first, name a commit with `--commit`, or set `intent: exploratory`",
            Self::OtherSource { unused, .. } => {
                return Some(format!(
                    "a run is resumed from the same commit and files, and `assay bench` with the same options; to start a new run, {unused}"
                ));
            }
            Self::NoSource(_) => "`assay run --on kubernetes` signs it before it starts the driver",
            Self::TargetLostTooOften { .. } => "find out what ends the target, then run again with the same `--run-id`",
            Self::TargetPodLost { .. } => return Some(format!("the block has to be provisioned anew; {RESUME_HINT}")),
            Self::Cancelled(CancelledWork::Stage(_) | CancelledWork::Run(_)) => RESUME_HINT,
            Self::NoCheckout(_) => "name the remote by its address",
            Self::OtherRemote { .. } => "name the remote that is meant with `--remote`",
            Self::BinaryMissing(_) => "the six stage binaries lie beside `assay`; build them all with `cargo build`",
            Self::StageEnd { log: Some(LogEnd { path, tail }), .. } if tail.is_empty() => {
                return Some(format!("its log, `{}`, is empty", path.display()));
            }
            Self::StageEnd { log: Some(LogEnd { path, tail }), .. } => {
                return Some(format!("the end of its log, `{}`:\n{tail}", path.display()));
            }
            Self::NoJobResult { namespace, job } => return Some(format!("kubectl --namespace {namespace} logs job/{job}")),
            Self::PodsStay(_) => "a node that has gone away keeps its pods until it is removed from the cluster",
            Self::JobGone(_) => "run it again with the same `--run-id`: what was accepted stays",
            Self::WorkloadAndStageImage { .. } => "keep one of them: execute is what runs the workload",
            Self::BlockImages { .. } => "the trials of a block run in one Job: give the workloads one image, or a pipeline each",
            Self::StackInCluster(_) => {
                "run it on one machine; or build an image with the packages of each lock file, and name it as `image` of a workload of its own"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Stated(failure)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Stated(failure) => failure,
            Error::Stage { ref failure, .. } => Self { message: error.to_string(), ..failure.clone() },
            Error::Cluster(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Signature(error) => error.into(),
            Error::Definitions(problems) => Self::invalid(&problems),
            Error::Job(failure) => (*failure).into(),
            Error::NotStarted { obstacle, waited } => Self::from(*obstacle).hint(format!("waited {waited:.0?}")),
            error => {
                let failure = Self::from_error(error.code(), &error).hint_if(error.hint());
                match error {
                    // The exit code of a stage that stated no failure is its own.
                    Error::StageEnd { end: StageEnd::ExitCode(code), .. } => failure.with_exit(Exit::from_code(code)),
                    // A block whose target is lost has to be provisioned again, so the same call is of no use.
                    Error::TargetPodLost { .. } => failure.lasting(),
                    Error::Import { fault: ImportFault::Refused { fields, .. }, .. } => Self { causes: fields, ..failure },
                    _ => failure,
                }
            }
        }
    }
}
