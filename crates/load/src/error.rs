//! Errors that keep a trial from running. The failure of a request is not an error: it is that request's outcome.

use std::io;

/// The caller's own description of a failure.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a trial could not be run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not one that requests can be sent to.
    #[error("`{url}` is no endpoint: {problem}")]
    Url {
        /// The URL as given, without parts that may be secret.
        url: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// A header cannot be sent. Its value is not shown, because it may be a secret.
    #[error("the header `{name}` cannot be sent: {problem}")]
    Header {
        /// The name of the header.
        name: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// The endpoint's name has no address.
    #[error("failed to find an address of `{host}`")]
    Resolve {
        /// The host name.
        host: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The endpoint has not been resolved.
    #[error("the endpoint `{host}` has no address yet: resolve it before the trial")]
    NoAddress {
        /// The host name.
        host: String,
    },
    /// TLS cannot be set up.
    #[error("failed to set up TLS: {reason}")]
    Tls {
        /// The reason.
        reason: String,
    },
    /// The trial is invalid.
    #[error("this trial cannot be run: {problem}")]
    Trial {
        /// The problem with it.
        problem: &'static str,
    },
    /// The process may not open as many files as the trial needs connections.
    #[error(
        "this trial needs {needed} open files and the limit is {limit}: raise it (`ulimit -n`), ask for less, or use more shards"
    )]
    TooFewFiles {
        /// The number of files that it needs.
        needed: u64,
        /// The number of files that it may open.
        limit: u64,
    },
    /// The machine has fewer ports for connections to the endpoint's addresses than the trial needs.
    #[error(
        "this trial needs {needed} connections and the machine has {ports} ports for them: widen `net.ipv4.ip_local_port_range`, ask for less, or use \
         shards on several machines"
    )]
    TooFewPorts {
        /// The number of connections that it needs.
        needed: u64,
        /// The number of ports that connections to all addresses may have.
        ports: u64,
    },
    /// A system call of the event loop failed.
    #[error("the load generator failed to {what}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The requests could not be prepared.
    #[error("failed to prepare a request")]
    Requests(#[source] Cause),
    /// The sink refused a record.
    #[error("failed to keep a record")]
    Sink(#[source] Cause),
    /// A thread of the load generator ended early.
    #[error("the load generator's {which} thread ended before its work was done")]
    Thread {
        /// The name of the thread.
        which: &'static str,
    },
}

impl Error {
    /// Wraps a system error: for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
