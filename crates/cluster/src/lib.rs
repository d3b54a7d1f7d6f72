//! Assay in a Kubernetes cluster: its objects, built by pure functions, and a thin client that applies and watches them.
//!
//! Objects are plain JSON, as the API server takes them: the rendered files are exactly what is sent, and the server validates
//! every field strictly. Responses of the server are parsed into types.

mod affinity;
mod ceiling;
mod client;
mod cron;
mod error;
#[cfg(test)]
mod fixture;
mod hook;
mod image;
mod inference;
mod install;
mod installation;
mod job;
mod job_state;
mod load_pod;
mod names;
mod node_labels;
mod objects;
mod own_source;
mod pod;
mod pod_failure;
#[cfg(test)]
mod pod_override;
mod pod_servers;
mod pod_times;
mod probe;
mod queue;
mod redaction;
mod render;
mod resources;
mod root;
mod serving_role;
mod target;
mod target_pods;

pub use ceiling::{CeilingPod, ceiling_pod};
pub use client::{Cluster, ConnectOptions, Lease, LogLine, ObjectPath, PortForward, RunObjects, RunWatch, Waker};
pub use cron::{CronSchedule, cron_job};
pub use error::{Error, ObjectConflict, ObjectOwner, Outage, Refusal, TargetUrlError, TargetUrlFault};
pub use hook::{HookPhase, HookSource, SyncHook, hook_objects};
pub use image::{by_digest, named_by_digest};
pub use inference::{ReadyService, inference_api, inference_kind, inference_pods, read_service};
pub use install::{
    InstallParameters, Keys, ServedStore, TEMPORARY, identities, installation_objects, removal_rights, set_namespace_owner,
};
pub use installation::Installation;
pub use job::{DriverJob, StageJob, driver_job, stage_job};
pub use job_state::{JobState, failure_of_pod, has_begun, has_ended, job_state, phase, pod_image, trouble_of};
pub use load_pod::LoadPod;
pub use names::{INSTALLATION, MANAGED_BY, QUEUE, RUN, STAGE, TARGET, TARGETS_OWNER, driver_name, job_name, root_name};
pub use node_labels::node_label_facts;
pub use objects::{ObjectsOwner, Rollout, TARGET_KINDS, owner_conflict, rollout, service_address, target_objects};
pub use pod::{FAILURE_FILE, KEY_FOLDER, PodEnvironment, SCRATCH};
pub use pod_failure::{JobFailure, Obstacle, PodEnd, PodFailure, PodRefusal, Trouble};
pub use pod_servers::{MAX_SERVERS, PodServer, ServiceUrl, inference_servers, service_servers};
pub use pod_times::{PULLED, are_scheduled, longest_pull};
pub use probe::{ProbePod, ProbeState, probe_pod, probe_state};
pub use redaction::{pod_facts, redact_secrets};
pub use render::to_yaml;
pub use resources::Resources;
pub use root::{CANCEL, EXPIRES, RunRoot, run_root};
pub use target::{TargetPod, target_pod};
pub use target_pods::running_pods;

pub use k8s_openapi::api::batch::v1::Job;
pub use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An object in the form that the API server takes.
pub type Object = serde_json::Value;
