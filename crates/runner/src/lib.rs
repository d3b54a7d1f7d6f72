//! Runs a pipeline's stages in order: one driver that knows the chain, and runners that know where stages run.
//!
//! Only this crate knows whether stages run on one machine or in a cluster.

mod branch;
mod config;
mod driver;
mod export;
mod keys;
mod kubernetes;
mod local;
mod lock;
mod log;
mod policy;
mod run;
mod source;

pub use branch::{Branch, BranchAsked, Committed, Record, pipeline_of};
pub use config::Config;
pub use driver::{Finished, Observer, Runner, StageCall, drive};
pub use export::export;
pub use keys::{KeyRing, LocalKeys, RotatedKey, gate_signers, init_keys, naming, rotate_keys};
pub use kubernetes::{InCluster, KubernetesRunner, PodAsked};
pub use local::LocalRunner;
pub use lock::RunLock;
pub use log::tail;
pub use policy::{StagePolicies, StagePolicy};
pub use run::{DriverSpec, Run, RunSpec, ToBranch, default_store, new_run_id};
pub use source::{SourceSpec, read_source, without_password};
