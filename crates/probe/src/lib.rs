//! Asks an endpoint over HTTP what it is and what it has counted: provision before a block, execute before it resumes, the recorder
//! all the while.
//!
//! - [`Client`] asks with the headers of the target, and is bounded in every respect: time, size, no redirects, no proxy.
//! - [`Identity`] is what an endpoint says of itself: version and models, which must not change under a run.
//! - [`samples`] reads the text format of Prometheus, a line at a time.
//!
//! An endpoint is somebody else's program: whatever it answers, the result is an answer or a reason.

mod ask;
mod exposition;
mod headers;
mod identity;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use ask::{Answer, AskError, Client, Limits, at, tls};
pub use exposition::{Malformed, Sample, samples};
pub use headers::{HeaderError, Headers};
pub use identity::Identity;
