//! The stage contract: the trait of a stage, and the harness that every stage binary runs in.
//!
//! A stage is a function from verified inputs to one body. The harness verifies before it, signs after it, and turns its failure
//! into an exit code; a stage never touches a key, an argument parser or an exit code.

mod arguments;
mod broken_mark;
mod context;
mod event;
mod harness;
mod inputs;
mod layout;
mod may_begin;
pub mod pod;
mod seal;
mod secret;
mod trust;

pub use assay_chain::{ShardOutcome, StageName, chain_name, counted_attempt, parameters};
pub use assay_failure::{ErrorCode, Exit, Failure, RESUME_HINT, Retry, first_names, with_causes};
pub use broken_mark::BrokenMark;
pub use context::{Clock, Context, StartMark, Stopwatch};
pub use event::{Event, HoldRequest, LatencySoFar};
pub use harness::{Stage, init_tracing, main, write_failure};
pub use inputs::Inputs;
pub use layout::{AcceptedResult, CONTRACT, FoundPointers, Layout, input_digest};
pub use seal::{
    Seal, SignedManifest, begin_binary_digest, binary_digest, dependencies, file_digest, policy_uri, published_uri, seal,
    seal_with, source_dependencies, verified_levels,
};
pub use secret::{ENDPOINT_PREFIX, KEY_PASSWORD, MissingValue, Secrets, key_password, read_secret, read_value};
pub use trust::{load_trust, read_trust};
