//! Why a trial could not be run at all. What goes wrong with a request is not an error: it is that request's outcome.

use std::io;

/// The caller's own account of a failure.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a trial could not be run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none that requests can be sent to.
    #[error("`{url}` is no endpoint: {problem}")]
    Url {
        /// As it was given, without what may be secret in it.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A header cannot be sent. Its value is not shown, because it may be a secret.
    #[error("the header `{name}` cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The endpoint's name has no address.
    #[error("failed to find an address of `{host}`")]
    Resolve {
        /// The name.
        host: String,
        /// The system's account.
        #[source]
        source: io::Error,
    },
    /// The endpoint has not been resolved.
    #[error("the endpoint `{host}` has no address yet: resolve it before the trial")]
    NoAddress {
        /// Its name.
        host: String,
    },
    /// TLS cannot be set up.
    #[error("failed to set up TLS: {reason}")]
    Tls {
        /// Why not.
        reason: String,
    },
    /// The trial asks for what makes no sense.
    #[error("this trial cannot be run: {problem}")]
    Trial {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The process may not open as many files as the trial needs connections.
    #[error(
        "this trial needs {needed} open files and the limit is {limit}: raise it (`ulimit -n`), ask for less, or use more shards"
    )]
    TooFewFiles {
        /// How many it needs.
        needed: u64,
        /// How many it may have.
        limit: u64,
    },
    /// The machinery of the loop failed.
    #[error("the load generator failed to {what}")]
    System {
        /// What it was doing.
        what: &'static str,
        /// The system's account.
        #[source]
        source: io::Error,
    },
    /// The requests could not be prepared.
    #[error("failed to prepare a request")]
    Requests(#[source] Cause),
    /// The sink refused a record.
    #[error("failed to keep a record")]
    Sink(#[source] Cause),
    /// A thread of the load generator ended before its work.
    #[error("the load generator's {which} thread ended before its work was done")]
    Thread {
        /// Which one.
        which: &'static str,
    },
}

impl Error {
    /// Wraps a failure of the system: for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
