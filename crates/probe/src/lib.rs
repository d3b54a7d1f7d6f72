//! Queries of an endpoint over HTTP: its version, models and counters. Used by provision before a block, by execute before it
//! resumes, and by the recorder throughout.
//!
//! - [`Client`] sends requests with the headers of the target, and is bounded in every respect: time, size, no redirects, no
//!   proxy.
//! - [`Identity`] holds the version and models that an endpoint reports, and its pods if it is an object of a cluster. It must not
//!   change during a run.
//!
//! An endpoint is not trusted: for any response, the result is a value or a reason.

mod client;
mod connect;
mod error;
mod headers;
mod identity;
mod partial;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod unix;

pub use client::{Client, EndpointResponse, JsonRequest, Limits, WriteRequest, WriteResponse, endpoint_url, tls_config};
pub use error::RequestError;
pub use headers::{HeaderError, Headers};
pub use identity::{Identity, MissingFacts, Presence, describe_pod_change};
pub use partial::{FirstEvent, PartialBody, PartialResponse};
pub use tls::{CredentialError, read_tls, target_tls};
