//! The errors of this crate, and their conversion into failures.

use std::fmt;
use std::io;

use assay_failure::{ErrorCode, Failure};
use assay_manifest::RunId;

use crate::INSTALLATION;

/// An error of another library, boxed because some of them are large.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure of a cluster, of an installation in it, or of the objects of a target.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No kubeconfig can be read, or it lacks the selected context.
    #[error("no kubeconfig can be read, or it lacks the context")]
    Kubeconfig(#[source] Cause),
    /// The process runs in no pod, or its pod has no service account token.
    #[error("this process does not run in a pod, or its pod has no service account token")]
    NoCluster(#[source] Cause),
    /// The client cannot be created from its configuration.
    #[error("no client of the cluster can be made")]
    Client(#[source] Cause),
    /// The threads of the client cannot be started.
    #[error("no threads can be started")]
    Threads(#[source] io::Error),
    /// A request has no valid form.
    #[error("a request cannot be made")]
    Request(#[source] http::Error),
    /// A response cannot be parsed.
    #[error("the API server's response cannot be parsed")]
    Response(#[source] serde_json::Error),
    /// The API server, or a webhook that it calls, does not respond.
    #[error("the cluster's API server {outage}")]
    Away {
        /// The part that does not respond.
        outage: Outage,
        /// The cause, as the API server or the client describes it.
        detail: String,
    },
    /// The API server refused a request.
    #[error("{refusal}{message}")]
    Refused {
        /// The kind of refusal.
        refusal: Refusal,
        /// The API server's message.
        message: String,
    },
    /// The name of a Service to forward to is malformed.
    #[error("`{0}` is not a Service: expected `namespace/name:port`")]
    ServiceName(String),
    /// There is no Service of that name.
    #[error("there is no Service `{name}` in namespace `{namespace}`")]
    NoService {
        /// The namespace.
        namespace: String,
        /// The Service.
        name: String,
    },
    /// No pod of a Service runs.
    #[error("no pod runs behind the Service `{0}`")]
    NoServicePod(String),
    /// No local port can be opened.
    #[error("no port can be opened")]
    LocalPort(#[source] io::Error),
    /// Another driver holds the Lease of a run.
    #[error("another driver is driving the run `{0}`")]
    RunLocked(RunId),
    /// The caller was cancelled, with the reason.
    #[error("{0}")]
    Cancelled(String),
    /// The ConfigMap of an installation lacks a value.
    #[error("the ConfigMap `{INSTALLATION}` of namespace `{namespace}` has no value for `{key}`")]
    InstallationValue {
        /// The namespace of the installation.
        namespace: String,
        /// The key that has no value.
        key: &'static str,
    },
    /// The targets of an installation would be in the namespace of the keys.
    #[error("the namespace of targets is `{namespace}`, which holds Assay's keys")]
    TargetsBesideKeys {
        /// The namespace of the installation.
        namespace: String,
    },
    /// An image that would get a stage's key is not listed by the installation.
    #[error(
        "the image `{image}` of a stage or workload is not listed in namespace `{namespace}` as an image that gets a signing key"
    )]
    StageImage {
        /// The image.
        image: String,
        /// The namespace of the installation.
        namespace: String,
    },
    /// An image is not named by its digest.
    #[error("the image `{0}` is not named by its digest")]
    ImageNotPinned(String),
    /// Objects of a target break rules.
    #[error("the objects of target `{target}` cannot be provisioned:\n  {}", problems.join("\n  "))]
    TargetObjects {
        /// The target.
        target: String,
        /// All rules that the objects break.
        problems: Vec<String>,
    },
    /// An object of a target exists and belongs to another.
    #[error(transparent)]
    ObjectTaken(Box<ObjectConflict>),
    /// The address of a target is none of its Services.
    #[error(transparent)]
    TargetUrl(Box<TargetUrlError>),
    /// An object has no form as YAML.
    #[error("an object cannot be written as YAML")]
    Yaml(#[source] Cause),
}

/// An existing object that a target cannot have, because it belongs to another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} `{name}` of target `{target}` is in namespace `{namespace}` already, and {owner}")]
pub struct ObjectConflict {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The target that was to have it.
    pub target: String,
    /// The namespace of targets.
    pub namespace: String,
    /// The owner of the existing object.
    pub owner: ObjectOwner,
}

/// The owner of an object that exists already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectOwner {
    /// Another target of the same run.
    Target(String),
    /// Another run.
    Run(String),
    /// None of Assay's runs.
    Foreign,
}

impl fmt::Display for ObjectOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(target) => write!(f, "target `{target}` of this run uses it"),
            Self::Run(run) => write!(f, "another run uses it: `{run}`"),
            Self::Foreign => f.write_str("it is not Assay's"),
        }
    }
}

/// The error of an address that leads to no Service of its target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target `{target}` is at `{url}`, but {fault}")]
pub struct TargetUrlError {
    /// The target.
    pub target: String,
    /// The address in its definition.
    pub url: String,
    /// The fault of the address.
    pub fault: TargetUrlFault,
    /// The names of the Services among the target's objects.
    pub services: Vec<String>,
}

/// The fault of a target's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetUrlFault {
    /// The text has no scheme.
    NotAnAddress,
    /// The text after the host is no port.
    NotAPort(String),
    /// The objects have no Service of that name.
    NoService(String),
    /// The Service has no such port.
    NoServicePort {
        /// The Service.
        service: String,
        /// The port of the address.
        port: u64,
    },
}

impl fmt::Display for TargetUrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAddress => f.write_str("that is not an address"),
            Self::NotAPort(port) => write!(f, "`{port}` is not a port"),
            Self::NoService(service) => write!(f, "no Service `{service}` is among its objects"),
            Self::NoServicePort { service, port } => write!(f, "the Service `{service}` has no port {port}"),
        }
    }
}

/// The part of a cluster that does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The API server.
    ApiServer,
    /// A webhook that the API server calls.
    Webhook,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiServer => "does not respond",
            Self::Webhook => "gets no response from a webhook",
        })
    }
}

/// The kind of an API server's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The credentials are unknown.
    Unauthenticated,
    /// The account lacks a right.
    Forbidden,
    /// A quota of the namespace is used up.
    Quota,
    /// Pod Security or an admission webhook rejects the object.
    Admission,
    /// There is no such object.
    NotFound,
    /// An object of that name exists.
    AlreadyExists,
    /// The object has changed since it was read.
    Conflict,
    /// The object is not valid.
    Invalid,
    /// Another status code.
    Other(u16),
}

impl fmt::Display for Refusal {
    /// Writes what precedes the API server's message, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unauthenticated => f.write_str("the API server rejects the credentials: "),
            Self::Forbidden => f.write_str("the API server denies the request: "),
            Self::Quota => f.write_str("the cluster's quota is used up: "),
            Self::Admission => f.write_str("admission was denied: "),
            Self::NotFound | Self::AlreadyExists | Self::Conflict => Ok(()),
            Self::Invalid => f.write_str("the cluster refuses the object: "),
            Self::Other(code) => write!(f, "the API server responded with {code}: "),
        }
    }
}

impl Refusal {
    fn code(self) -> ErrorCode {
        match self {
            Self::Unauthenticated => ErrorCode::Unauthenticated,
            Self::Forbidden => ErrorCode::Forbidden,
            Self::Quota => ErrorCode::Quota,
            Self::Admission => ErrorCode::Admission,
            Self::NotFound => ErrorCode::NotFound,
            Self::AlreadyExists => ErrorCode::AlreadyExists,
            Self::Conflict => ErrorCode::Conflict,
            Self::Invalid => ErrorCode::Refused,
            Self::Other(_) => ErrorCode::Cluster,
        }
    }
}

impl Error {
    /// Returns the kind of the API server's refusal; `None` if it refused nothing.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            _ => None,
        }
    }

    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Kubeconfig(_) => ErrorCode::Kubeconfig,
            Self::NoCluster(_) => ErrorCode::NoCluster,
            Self::Client(_) | Self::Response(_) => ErrorCode::Cluster,
            Self::Threads(_) => ErrorCode::Threads,
            Self::Request(_) | Self::Yaml(_) => ErrorCode::Internal,
            Self::Away { .. } => ErrorCode::ClusterAway,
            Self::Refused { refusal, .. } => refusal.code(),
            Self::ServiceName(_) | Self::NoService { .. } | Self::NoServicePod(_) | Self::LocalPort(_) => ErrorCode::Forward,
            Self::RunLocked(_) => ErrorCode::RunLocked,
            Self::Cancelled(_) => ErrorCode::Cancelled,
            Self::InstallationValue { .. } | Self::TargetsBesideKeys { .. } => ErrorCode::Installation,
            Self::StageImage { .. } => ErrorCode::StageImage,
            Self::ImageNotPinned(_) => ErrorCode::ImageNotPinned,
            Self::TargetObjects { .. } => ErrorCode::TargetObjects,
            Self::ObjectTaken(_) => ErrorCode::TargetTaken,
            Self::TargetUrl(_) => ErrorCode::TargetUrl,
        }
    }

    /// Returns a suggestion for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Kubeconfig(_) => "name a kubeconfig with `--kubeconfig` or KUBECONFIG, and a context of it with `--context`",
            Self::Refused { refusal: Refusal::Unauthenticated, .. } => "renew the kubeconfig's credentials",
            Self::Refused { refusal: Refusal::Forbidden, .. } => "docs/kubernetes.md lists the rights that each role needs",
            Self::RunLocked(_) => "wait for it to end, or stop it with `assay cancel`; a run has one driver at a time",
            Self::InstallationValue { .. } => "`assay render kubernetes` shows what an installation consists of",
            Self::TargetsBesideKeys { .. } => {
                "whoever may create a pod in a namespace can mount any Secret of it: give targets a namespace of their own"
            }
            Self::StageImage { .. } => {
                return Some(format!("an administrator adds it to `images` of the ConfigMap `{INSTALLATION}`"));
            }
            Self::ImageNotPinned(_) => {
                "write it as `registry/name@sha256:...`; `ci/image` prints the name of the image that it makes"
            }
            Self::TargetObjects { .. } => {
                "docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`"
            }
            Self::ObjectTaken(_) => {
                "Assay does not rename objects: wait until the other has ended, or give the objects other names"
            }
            Self::TargetUrl(error) => return Some(error.hint()),
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// Returns true if the same request fails again, although its code allows a retry: an object that is created by a controller
    /// may be admitted later, but a request of this process fails until the cluster is changed.
    fn is_lasting(&self) -> bool {
        matches!(self, Self::RunLocked(_) | Self::Refused { refusal: Refusal::Forbidden | Refusal::Admission, .. })
    }
}

impl TargetUrlError {
    fn hint(&self) -> String {
        let known: Vec<String> = self.services.iter().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "no Service".to_owned() } else { known.join(", ") };
        format!("its host is a Service among the objects, and its port one of that Service's; they have {known}")
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut failure = Self::from_error(error.code(), &error).hint_if(error.hint());
        if error.is_lasting() {
            failure = failure.lasting();
        }
        if let Error::Away { detail, .. } = error {
            failure.causes.push(detail);
        }
        failure
    }
}
