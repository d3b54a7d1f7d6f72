//! The definitions that people write as YAML: pipelines, workloads, trust policies, acknowledgements and noise. Parses, checks
//! and expands them.
//!
//! A file passes through these steps: text becomes a tree in which every key and value has its place (`yaml`); a field table
//! checks the tree, fills in defaults and reports every problem in one go; checks between fields follow; a reader then takes
//! typed values out of the checked tree, which cannot be wrong any more. The same tables make the JSON Schema and the reference
//! page.
//!
//! This is the only crate that reads YAML. It does no I/O: callers pass in bytes, and [`read_closure`] requests further files from
//! them.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_methods, reason = "the platform's libm differs in the last bit: use the crate `libm`")
)]

mod acknowledgement;
mod agentx;
mod check;
mod checked_value;
mod closure;
mod custom_api;
mod dataset_format;
mod define;
mod definition;
mod expand;
mod field;
mod foreign_gate;
mod format;
mod freeze;
mod header_source;
mod hot_metrics;
mod images;
mod length_tables;
mod lengths;
mod lock;
mod noise;
mod normal_form;
mod objects;
mod pack;
mod pipeline;
mod pod;
mod problem;
mod reference;
mod schema;
mod secret;
mod session_play;
mod sizing;
mod tables;
mod token_ids;
mod tokenizer;
mod trust;
mod validate;
mod workload;
mod yaml;

#[cfg(test)]
mod tests;

pub use acknowledgement::{ACKNOWLEDGEMENTS, AcceptedChange, Acknowledgement};
pub use check::NO_CREDENTIALS;
pub use closure::{
    Closure, ClosureError, ClosureFile, MAX_CLOSURE_BYTES, MAX_CLOSURE_FILES, MAX_FILE_BYTES, ReadFile, read_closure,
};
pub use define::DefinitionKind;
pub use definition::Definition;
pub use expand::{MAX_CASES, MAX_POINTS, MAX_TRIALS, expand};
pub use foreign_gate::ForeignGate;
pub use format::{parse_duration, parse_latency, write_duration};
pub use freeze::{FreezeError, FrozenSpec, MutableParts, Pins, derive_seed};
pub use header_source::{HeaderSource, SecretRef};
pub use hot_metrics::{HotLabel, HotMetrics, Receiver, ReceiverProtocol};
pub use images::WorkloadImageFiles;
pub use lengths::{MAX_TOKENS, Scenario, ScenarioError};
pub use lock::{LockedPackage, MAX_LOCK_BYTES, MAX_LOCKED_PACKAGES, parse_lock};
pub use noise::{MetricNoise, NOISE, Noise, NoiseRun};
pub use objects::{MAX_OBJECT_BYTES, parse_documents, parse_objects};
pub use pack::{MAX_PACK_BYTES, Pack};
pub use pipeline::{
    ClientCertificate, ControlRequirement, Gate, MAX_SIZED, MIN_TRIALS, Pipeline, PipelineSpec, PrometheusSource,
    PublishSettings, PythonStack, ReadinessProbe, SIMULATOR_PROFILES, SIMULATOR_SETTINGS, Schedule, Shards, Stage, Target,
    TargetTls, TelemetrySource, Trials, Variant,
};
pub use pod::PodOverride;
pub use problem::{Excerpt, MAX_PROBLEMS, Problem, did_you_mean, render};
pub use reference::reference_page;
pub use schema::json_schema;
pub use secret::{SCHEMES, carries_key, carries_password, looks_secret, looks_secret_header};
pub use sizing::{GateSize, gate_sizes};
pub use tables::API_VERSION;
pub use tokenizer::{WorkloadTemplate, WorkloadTokenizer};
pub use trust::{Expectation, Signer, TimestampAuthority, TrustPolicy};
pub use validate::{absent_files, validate};
pub use workload::{
    ArrivalMode, ArrivalProcess, Dataset, Dimensions, Distribution, Executable, LengthPair, Lengths, Load, Metric, OfferedRate,
    Parameter, Pause, PinnableFile, PrepareCommand, Program, Prompts, ResponseLength, Script, Serving, Sessions, Slo, TraceTimes,
    Work, Workload, WorkloadSpec,
};
pub use workload::{STATED_MEMBER, is_stated_member};
pub use yaml::{MAX_BYTES, MAX_DEPTH, MAX_NODES};
