//! The reasons for which Jobs and pods fail, and the obstacles that keep pods from starting, as the cluster reports them.

use std::fmt;

use assay_failure::{ErrorCode, Exit, Failure};

/// The reason why a Job has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobFailure {
    /// One of its pods has failed.
    #[error(transparent)]
    Pod(PodFailure),
    /// It ran into its time limit; with the obstacle of a pod that had not started, if there is one.
    #[error("the stage ran into its time limit and was stopped")]
    TimeLimit(Option<Obstacle>),
    /// None of its pods has failed; with the reason or message of its condition.
    #[error("the stage's Job failed")]
    Unexplained(String),
}

/// The reason why a pod has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodFailure {
    /// The failure that a stage states in its termination message, with the exit code that the kernel reports.
    #[error("{}", .0.message)]
    Stage(Failure),
    /// The end of a pod, as the cluster reports it.
    #[error("the pod `{pod}` {end}")]
    Ended {
        /// The pod.
        pod: String,
        /// Its end.
        end: PodEnd,
        /// The cluster's message or reason; empty if there is none.
        detail: String,
        /// The last output of a stage's container; empty if there is none.
        output: String,
    },
    /// An init container of a target has failed.
    #[error("the init container `{container}` of the pod `{pod}` ended with exit code {exit_code}")]
    InitContainer {
        /// The init container.
        container: String,
        /// The pod.
        pod: String,
        /// The exit code of the container.
        exit_code: i32,
        /// The cluster's reason; empty if there is none.
        detail: String,
    },
}

/// The end of a pod that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEnd {
    /// Its node evicted it.
    Evicted,
    /// Its node is gone.
    NodeLost,
    /// A pod of higher priority took its place.
    Preempted,
    /// It ran into its time limit.
    TimeLimit,
    /// The cluster removed it.
    Disrupted,
    /// The cluster reports a failure of another kind.
    Failed,
    /// The cluster reports no reason.
    Unexplained,
    /// It was killed at its memory limit, which is a quantity of Kubernetes.
    OutOfMemory(Option<String>),
    /// The container of a stage was killed.
    Killed,
    /// The container of a stage was ended by another signal.
    Signal(i32),
    /// The container of a stage ended with this exit code and without a failure of its own.
    StageExit(i32),
    /// The container of a target ended with this exit code.
    TargetExit(i32),
    /// The init container with a stage's programs ended with this exit code.
    Programs(i32),
}

impl fmt::Display for PodEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicted => f.write_str("was evicted from its node"),
            Self::NodeLost => f.write_str("went away with its node"),
            Self::Preempted => f.write_str("gave way to a pod of higher priority"),
            Self::TimeLimit => f.write_str("ran into its time limit"),
            Self::Disrupted => f.write_str("was taken away by the cluster"),
            Self::Failed => f.write_str("failed"),
            Self::Unexplained => f.write_str("failed, and nothing says why"),
            Self::OutOfMemory(None) => f.write_str("was killed at its memory limit"),
            Self::OutOfMemory(Some(limit)) => write!(f, "was killed at its memory limit of {limit}"),
            Self::Killed => f.write_str("was killed"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::StageExit(code) => write!(f, "ended with exit code {code} and said no reason"),
            Self::TargetExit(code) => write!(f, "ended with exit code {code}"),
            Self::Programs(code) => write!(f, "could not be given the programs of its stage: exit code {code}"),
        }
    }
}

impl PodEnd {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Evicted => ErrorCode::Evicted,
            Self::NodeLost => ErrorCode::NodeLost,
            Self::Preempted => ErrorCode::Preempted,
            Self::TimeLimit => ErrorCode::StageTimeout,
            Self::Disrupted => ErrorCode::Disrupted,
            Self::Failed => ErrorCode::PodFailed,
            Self::Unexplained => ErrorCode::PodLost,
            Self::OutOfMemory(_) => ErrorCode::OutOfMemory,
            Self::Killed | Self::Signal(_) => ErrorCode::StageKilled,
            Self::StageExit(_) => ErrorCode::StageFailed,
            Self::TargetExit(_) => ErrorCode::PodEnded,
            Self::Programs(_) => ErrorCode::Programs,
        }
    }
}

impl PodFailure {
    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stage(failure) => failure.code,
            Self::Ended { end, .. } => end.code(),
            Self::InitContainer { .. } => ErrorCode::PodEnded,
        }
    }

    /// Returns the exit code of a command that ends with this failure: that of a stage's container is the stage's.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Stage(failure) => failure.exit,
            Self::Ended { end: PodEnd::StageExit(code), .. } => Exit::from_code(*code),
            Self::Ended { .. } | Self::InitContainer { .. } => self.code().exit(),
        }
    }

    /// Returns true if another pod of the same Job would fail, too.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Stage(failure) if failure.lasting)
    }
}

impl JobFailure {
    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Pod(failure) => failure.code(),
            Self::TimeLimit(_) => ErrorCode::StageTimeout,
            Self::Unexplained(_) => ErrorCode::JobFailed,
        }
    }
}

impl From<PodFailure> for Failure {
    fn from(error: PodFailure) -> Self {
        let (code, exit, message) = (error.code(), error.exit(), error.to_string());
        let failure = Self::new(code, message).with_exit(exit);
        match error {
            PodFailure::Stage(failure) => failure,
            PodFailure::Ended { end: PodEnd::OutOfMemory(_), .. } => {
                failure.hint("give the stage more with `resources: {memory: ...}` in the pipeline's `stages`")
            }
            PodFailure::Ended { output, .. } if !output.is_empty() => failure.hint(format!("the last that it said:\n{output}")),
            PodFailure::Ended { detail, .. } | PodFailure::InitContainer { detail, .. } => add_cause(failure, detail),
        }
    }
}

impl From<JobFailure> for Failure {
    fn from(error: JobFailure) -> Self {
        let failure = Self::new(error.code(), error.to_string());
        match error {
            JobFailure::Pod(failure) => failure.into(),
            JobFailure::TimeLimit(obstacle) => {
                add_cause(failure, obstacle.map(|obstacle| obstacle.to_string()).unwrap_or_default())
            }
            JobFailure::Unexplained(detail) => add_cause(failure, detail),
        }
    }
}

fn add_cause(mut failure: Failure, cause: String) -> Failure {
    failure.causes.extend((!cause.is_empty()).then_some(cause));
    failure
}

/// The obstacle that keeps a pod from starting or running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its description.
    pub obstacle: Obstacle,
    /// True if waiting cannot help.
    pub lasts: bool,
}

/// The reason why a pod does not start or run, with the cluster's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A Job or pod waits in a queue.
    Queue {
        /// The pod; absent if its Job waits.
        pod: Option<String>,
        /// The queue's message about what it lacks.
        message: Option<String>,
    },
    /// No node takes the pod.
    Unschedulable {
        /// The pod.
        pod: String,
        /// The scheduler's message.
        detail: String,
    },
    /// An image of the pod is not there.
    Image {
        /// The image.
        image: String,
        /// The pod.
        pod: String,
        /// True if the node tries again to pull it.
        is_retried: bool,
        /// The node's message.
        detail: String,
    },
    /// A pod cannot be set up, for example because a Secret is missing.
    Setup {
        /// The pod; absent if an event names none.
        pod: Option<String>,
        /// The node's message.
        detail: String,
    },
    /// The container of a pod cannot be started.
    Container {
        /// The pod.
        pod: String,
        /// The node's message.
        detail: String,
    },
    /// A container of a pod ends again and again.
    CrashLoop {
        /// The container.
        container: String,
        /// The pod.
        pod: String,
        /// The node's message.
        detail: String,
    },
    /// The cluster creates no pod.
    NoPod {
        /// The kind of refusal.
        refusal: PodRefusal,
        /// The cluster's message.
        message: String,
    },
    /// The pod has failed.
    Failed(PodFailure),
    /// The pod has ended without a failure, although it should run.
    Ended,
}

/// The kind of a cluster's refusal to create pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodRefusal {
    /// A quota is used up, or needs limits that the pod lacks.
    Quota,
    /// Pod Security or an admission webhook rejects the pod.
    Admission,
    /// The controller lacks a right.
    Forbidden,
    /// Another refusal.
    Other,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue { pod, message } => {
                match pod {
                    Some(pod) => write!(f, "the pod `{pod}` waits in its queue to be admitted")?,
                    None => f.write_str("it waits in its queue to be admitted")?,
                }
                message.iter().try_for_each(|message| write!(f, ": {message}"))
            }
            Self::Unschedulable { pod, detail } => write!(f, "no node takes the pod `{pod}`: {detail}"),
            Self::Image { image, pod, is_retried, detail } => {
                let verb = if *is_retried { "pulled" } else { "had" };
                write!(f, "the image `{image}` of the pod `{pod}` cannot be {verb}: {detail}")
            }
            Self::Setup { pod: Some(pod), detail } => write!(f, "the pod `{pod}` cannot be set up: {detail}"),
            Self::Setup { pod: None, detail } => write!(f, "a pod cannot be set up: {detail}"),
            Self::Container { pod, detail } => write!(f, "the container of the pod `{pod}` cannot be started: {detail}"),
            Self::CrashLoop { container, pod, detail } => {
                write!(f, "the container `{container}` of the pod `{pod}` ends again and again: {detail}")
            }
            Self::NoPod { message, .. } => write!(f, "the cluster makes no pod: {message}"),
            Self::Failed(failure) => failure.fmt(f),
            Self::Ended => f.write_str("it ended by itself"),
        }
    }
}

impl Obstacle {
    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Queue { .. } => ErrorCode::Queue,
            Self::Unschedulable { .. } => ErrorCode::Unschedulable,
            Self::Image { .. } => ErrorCode::ImagePull,
            Self::Setup { .. } => ErrorCode::PodConfig,
            Self::Container { .. } => ErrorCode::Container,
            Self::CrashLoop { .. } => ErrorCode::CrashLoop,
            Self::NoPod { refusal, .. } => match refusal {
                PodRefusal::Quota => ErrorCode::Quota,
                PodRefusal::Admission => ErrorCode::Admission,
                PodRefusal::Forbidden => ErrorCode::Forbidden,
                PodRefusal::Other => ErrorCode::PodsNotCreated,
            },
            Self::Failed(failure) => failure.code(),
            Self::Ended => ErrorCode::PodEnded,
        }
    }
}

impl From<Obstacle> for Failure {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Failed(failure) => failure.into(),
            other => Self::new(other.code(), other.to_string()),
        }
    }
}
