//! Assay in a Kubernetes cluster: its objects, built by pure functions, and a thin client that applies and watches them.
//!
//! Objects are plain JSON, as the API server takes them: the rendered files are exactly what is sent, and the server validates
//! every field strictly. Responses of the server are parsed into types.

mod affinity;
#[cfg(test)]
mod asked;
mod ceiling;
mod cron;
mod image;
mod inference;
mod install;
mod job;
mod names;
mod objects;
mod pod;
mod probe;
mod queue;
mod render;
mod rim;
mod root;
mod said;
mod site;
mod standing;
mod target;

pub use ceiling::{CeilingPod, LoadPod, ceiling_pod};
pub use cron::{Cron, cron_job};
pub use image::{by_digest, named_by_digest};
pub use inference::{Served, api_of, kind_of, served};
pub use install::{Install, Keys, ServedStore, TEMPORARY, go_with, identities, installation, removal_rights};
pub use job::{DriverJob, Resources, StageJob, driver_job, stage_job};
pub use names::{MANAGED_BY, QUEUE, RUN, STAGE, TARGET, TARGETS_OF, driver_name, job_name, root_name};
pub use objects::{ObjectsOf, Rollout, TARGET_KINDS, rollout, service_address, taken_by, target_objects};
pub use pod::{FAILURE_FILE, InPod, KEY_FOLDER, SCRATCH};
pub use probe::{ProbePod, Probing, probe_pod, probing};
pub use render::to_yaml;
pub use rim::{Cluster, Connect, Forward, Lease, LogLine, Place, Seen, Watched};
pub use root::{CANCEL, EXPIRES, Root, root};
pub use said::{facts_of_pod, without_secrets};
pub use site::{SITE, Site};
pub use standing::{Standing, Trouble, failure_of_pod, has_begun, has_ended, image_of, phase, standing, trouble_of};
pub use target::{TargetPod, target_pod};

pub use k8s_openapi::api::batch::v1::Job;
pub use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// An object in the form that the API server takes.
pub type Object = serde_json::Value;
