//! The bodies of the manifests, one kind a file.

pub(crate) mod adapters;
pub(crate) mod agentx;
pub(crate) mod calibration;
pub(crate) mod cancellation;
pub(crate) mod collection;
pub(crate) mod common;
pub(crate) mod dataset;
pub(crate) mod environment;
pub(crate) mod execution;
pub(crate) mod foreign_evidence;
pub(crate) mod images;
pub(crate) mod over_saturation;
pub(crate) mod plan;
pub(crate) mod publication;
pub(crate) mod rate_profile;
pub(crate) mod recording;
pub(crate) mod run_end;
pub(crate) mod serving;
pub(crate) mod sessions;
pub(crate) mod source;
pub(crate) mod summary;
pub(crate) mod token_ids;
pub(crate) mod tokenizer;
pub(crate) mod tombstone;
pub(crate) mod validity_limits;
pub(crate) mod verdict;
