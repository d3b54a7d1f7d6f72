//! The documents that the stages exchange: their fields, their serialisation, and their names by digest.
//!
//! Everything here is pure: no file, no clock, no key. A [`Manifest`] is a [`Header`] and a typed body, written as canonical JSON
//! (RFC 8785), so that equal documents have equal bytes and a digest names exactly one of them.

mod address;
mod agentx_rules;
mod artifact;
mod bodies;
mod canonical;
mod cpu_list;
mod digest;
mod document;
mod ids;
mod instant;
mod validity_rules;

pub use address::{Address, AddressError, MIN_ROW_DIGITS};
pub use agentx_rules::AgentxFacts;
pub use artifact::{Artifact, Count};
pub use assay_api::{CustomApi, ServingApi};
pub use assay_metric::SloMetric;
pub use bodies::{
    adapters::*, agentx::*, calibration::*, cancellation::*, collection::*, common::*, dataset::*, environment::*,
    error_limit::*, execution::*, foreign_evidence::*, foreign_verdict::*, images::*, over_saturation::*, plan::*,
    publication::*, python_stack::*, rate_profile::*, recording::*, run_end::*, search_result::*, serving::*, sessions::*,
    source::*, summary::*, telemetry_source::*, token_ids::*, tokenizer::*, tombstone::*, validity_limits::*, verdict::*,
};
pub use canonical::{CanonicalError, MAX_EXACT_INTEGER, canonical_json, canonical_value};
pub use cpu_list::{CpuList, CpuListError};
pub use digest::{Digest, DigestError, Hasher};
pub use document::{
    Body, Document, DocumentError, Header, InputRef, Kind, MAX_MANIFEST_BYTES, Manifest, Role, VERSION, is_plain_path, schema,
};
pub use ids::{CaseId, IdError, MAX_NAME, Name, PointId, RunId, TrialId};
pub use instant::{Instant, InstantError};
pub use validity_rules::{HostChange, RESPONSE_FLOOD};
