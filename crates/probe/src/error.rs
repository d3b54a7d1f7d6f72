//! The reasons why a request has no response.

use std::io;
use std::time::Duration;

use assay_load::client_certificate_problem;

use crate::connect::Http2Only;

/// The time for a connection to be established, from its first packet to the end of the TLS handshake. A first packet that is lost is
/// sent again after one and after three seconds. The time is shorter than that of any request here, so that a server that accepts
/// connections and never ends a handshake is distinguished from one that does not respond.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(4);

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The URL is not usable.
    #[error("`{0}` is no address that can be asked: http or https, a host, and no password")]
    Address(String),
    /// No complete response arrived in time.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The connection was not established in time.
    #[error("no connection within {0:?}, TLS handshake included")]
    ConnectTimeout(Duration),
    /// The body is larger than the limit.
    #[error("the response is larger than the limit of {0} bytes")]
    TooLarge(u64),
    /// An event of the response is larger than the load generator's limit.
    #[error("an event of the response is larger than the limit of {0} bytes")]
    EventTooLarge(u64),
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(io::Error),
    /// TLS failed: the certificate is not trusted, or the server does not speak TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server ended the connection for the client certificate that it got, or did not get.
    #[error("TLS: {0}")]
    ClientCertificate(&'static str),
    /// The server speaks HTTP/2 and not HTTP/1.1.
    #[error("the server speaks HTTP/2 and not HTTP/1.1: {0}")]
    Http2(&'static str),
    /// The response is not HTTP.
    #[error("{0}")]
    Protocol(String),
}

impl RequestError {
    /// Returns true if no server seems to be there: one that speaks another protocol, sends too much or stops in the middle is
    /// there.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::ConnectTimeout(_) | Self::Connection(_))
    }
}

/// Converts an error of the HTTP library, for a request with this timeout.
pub(crate) fn to_request_error(error: ureq::Error, time: Duration) -> RequestError {
    match error {
        ureq::Error::Timeout(ureq::Timeout::Connect) => RequestError::ConnectTimeout(CONNECT_TIME),
        ureq::Error::Timeout(_) => RequestError::Timeout(time),
        ureq::Error::Io(error) => from_io(error),
        ureq::Error::Rustls(cause) => from_io(io::Error::other(cause)),
        ureq::Error::HostNotFound => RequestError::Connection(io::Error::new(io::ErrorKind::NotFound, "the host has no address")),
        ureq::Error::ConnectionFailed => RequestError::Connection(io::Error::other("the connection failed")),
        error => RequestError::Protocol(error.to_string().chars().take(300).collect()),
    }
}

/// Converts an error of a connection by its cause, if it has one of its own.
fn from_io(error: io::Error) -> RequestError {
    let Some(cause) = error.get_ref() else { return RequestError::Connection(error) };
    if let Some(cause) = cause.downcast_ref::<Http2Only>() {
        return RequestError::Http2(cause.reason());
    }
    if let Some(problem) = cause.downcast_ref().and_then(client_certificate_problem) {
        return RequestError::ClientCertificate(problem);
    }
    if cause.is::<rustls::Error>() || cause.is::<assay_load::Error>() {
        return RequestError::Tls(cause.to_string().chars().take(300).collect());
    }
    RequestError::Connection(error)
}
