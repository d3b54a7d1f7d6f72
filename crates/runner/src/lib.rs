//! Runs a pipeline's stages in order: one driver that knows the chain, and runners that know where stages run.
//!
//! Only this crate decides whether stages run on one machine or in a cluster; of the stages, provision, execute and
//! collect see the cluster too.

mod branch;
mod config;
mod driver;
mod error;
mod export;
mod keys;
mod kubernetes;
mod local;
mod lock;
mod log;
mod policy;
mod run;
mod source;
mod stage_call;
mod times;
mod tombstone;
mod unused_name;

pub use branch::{Branch, BranchOptions, CommittedFolder, PublishedRun, read_pipeline};
pub use config::Config;
pub use driver::{FinishedRun, Observer, Runner, drive};
pub use error::{
    CancelledWork, Defect, Error, FileRole, ImportFault, KeyWork, LogEnd, Resource, SecretOrigin, StageEnd, UserFolder,
};
pub use export::export;
pub use keys::{KeyRing, LocalKeys, MadeKeys, RotatedKey, add_signers, gate_signers, init_keys, rotate_keys};
pub use kubernetes::{ClusterParameters, KubernetesRunner, PodSettings};
pub use local::LocalRunner;
pub use lock::RunLock;
pub use log::{masked_tail, tail};
pub use policy::{StagePolicies, StagePolicy};
pub use run::{BranchPush, DriverSpec, MetricsPush, Pushes, Run, RunSpec, default_store, new_run_id, user_store};
pub use source::{ImportedOriginal, LoadedSource, SourceSpec, read_source, redact_address};
pub use stage_call::StageCall;
pub use times::{DriverTimes, StageTimes};
pub use tombstone::{is_run_locked, lock_run, sign_tombstone};
pub use unused_name::UnusedName;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
