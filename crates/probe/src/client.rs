//! Single HTTP requests to an endpoint, with limits on time and size.

use std::fmt;
use std::io::{self, Read as _};
use std::time::Duration;

use assay_load::EndpointPaths;
use assay_manifest::Target;
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, RequestBuilder};

use crate::{HeaderError, Headers};

/// The limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The timeout, from looking up the host to the last byte of the response.
    pub time: Duration,
    /// The largest body, in bytes.
    pub bytes: u64,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointResponse {
    /// The status code.
    pub status: u16,
    /// The `Server` header, if it is text.
    pub server: Option<String>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl EndpointResponse {
    /// Returns true if the status is one of success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the status for people, such as `404 Not Found`.
    pub fn status_text(&self) -> String {
        status_text(self.status)
    }
}

/// A request with a JSON document, as the load generator sends them.
#[derive(Clone, Copy, Debug)]
pub struct JsonRequest<'a> {
    /// The requested content type of the response.
    pub accept: &'a str,
    /// Sent as `x-request-id` and as the trace id of `traceparent`; not 0.
    pub request_id: u128,
    /// The document.
    pub body: &'a [u8],
}

/// The head of a response, and the beginning of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialResponse {
    /// The status code.
    pub status: u16,
    /// The content type without its parameters, in lower case; absent if the head has none.
    pub content_type: Option<String>,
    /// The target of a redirect.
    pub location: Option<String>,
    /// The seconds after which the endpoint invites another try.
    pub retry_after_s: Option<u64>,
    /// The bytes of the body that were read.
    pub body: Vec<u8>,
}

fn status_text(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The URL is not usable.
    #[error("`{0}` is no address that can be asked: http or https, a host, and no password")]
    Address(String),
    /// No complete response arrived in time.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The body is larger than the limit.
    #[error("the response is larger than the limit of {0} bytes")]
    TooLarge(u64),
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(io::Error),
    /// TLS failed: the certificate is not trusted, or the server does not speak TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// The response is not HTTP.
    #[error("{0}")]
    Protocol(String),
}

impl RequestError {
    /// Returns true if no server seems to be there: one that speaks another protocol, sends too much or stops in the middle is
    /// there.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Connection(_))
    }
}

/// An HTTP client for one endpoint.
///
/// If a response repeats a secret of the headers, the secret is masked.
///
/// Redirects are returned and not followed: the headers are secrets, and the load goes to the given address. Proxies of the
/// environment are not used, because the load uses none. Each request has a connection of its own, so the client notices at once
/// if an endpoint restarts.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    headers: Headers,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client that sends these headers with each request. Over TLS it trusts the certificates that the machine trusts
    /// (`SSL_CERT_FILE` is respected).
    pub fn new(headers: Headers) -> Self {
        Self::with_roots(headers, RootCerts::PlatformVerifier)
    }

    /// Creates a client for a target of a plan, with its headers. It accepts any certificate if the target says so.
    pub fn for_target(target: &Target) -> Result<Self, HeaderError> {
        let headers = Headers::read(&target.headers)?;
        if !target.insecure_skip_tls_verify {
            return Ok(Self::new(headers));
        }
        Ok(Self::accepting_any_certificate(headers))
    }

    /// Creates a client that sends these headers with each request, and accepts any certificate over TLS.
    pub fn accepting_any_certificate(headers: Headers) -> Self {
        Self::with_tls(headers, TlsConfig::builder().disable_verification(true).build())
    }

    fn with_roots(headers: Headers, roots: RootCerts) -> Self {
        Self::with_tls(headers, tls(roots))
    }

    fn with_tls(headers: Headers, tls: TlsConfig) -> Self {
        install_provider();
        let config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .user_agent(concat!("assay/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Self { agent: config.into(), headers }
    }

    /// Sends a GET request and returns the whole response.
    pub fn get(&self, url: &str, limits: Limits) -> Result<EndpointResponse, RequestError> {
        self.read_response(self.call(url, limits.time)?, limits)
    }

    fn read_response(&self, response: Response<Body>, limits: Limits) -> Result<EndpointResponse, RequestError> {
        let status = response.status().as_u16();
        let secrets = self.headers.secrets();
        let server = response.headers().get("server").and_then(|value| value.to_str().ok());
        let server = server.map(|text| secrets.mask_truncated(text).unwrap_or_else(|| text.to_owned()));
        let body = read(response, limits)?;
        Ok(EndpointResponse { status, server, body: secrets.mask(&body).unwrap_or(body) })
    }

    /// Sends a GET request and returns the status as soon as the head of the response has arrived: the body, which may not end,
    /// is not waited for.
    pub fn get_status(&self, url: &str, time: Duration) -> Result<u16, RequestError> {
        Ok(self.call(url, time)?.status().as_u16())
    }

    /// Sends a POST request without a body and returns the response. It is for commands, such as flushing a cache.
    pub fn post(&self, url: &str, limits: Limits) -> Result<EndpointResponse, RequestError> {
        let request = self.with_defaults(self.agent.post(check_url(url)?), limits.time);
        self.read_response(request.send_empty().map_err(|error| to_request_error(error, limits.time))?, limits)
    }

    /// Sends a POST request with a JSON document, and reads its response until `is_enough` is true of the bytes so far, or until the
    /// body ends, breaks or reaches a limit: a stream may be long.
    pub fn post_json(
        &self,
        url: &str,
        request: &JsonRequest<'_>,
        limits: Limits,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<PartialResponse, RequestError> {
        let id = request.request_id;
        let span = ((id >> 64) as u64 ^ id as u64).max(1);
        let sent = self
            .with_defaults(self.agent.post(check_url(url)?), limits.time)
            .header("accept", request.accept)
            .header("accept-encoding", "identity")
            .header("content-type", "application/json")
            .header("x-request-id", format!("{id:032x}"))
            .header("traceparent", format!("00-{id:032x}-{span:016x}-01"))
            .send(request.body);
        let response = sent.map_err(|error| to_request_error(error, limits.time))?;
        let secrets = self.headers.secrets();
        let text = |name: &str| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok())?;
            Some(secrets.mask_truncated(value).unwrap_or_else(|| value.to_owned()))
        };
        let content_type =
            text("content-type").map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let (status, location) = (response.status().as_u16(), text("location"));
        let retry_after_s = text("retry-after").and_then(|value| value.parse().ok());
        let body = read_beginning(response, limits.bytes, is_enough);
        Ok(PartialResponse { status, content_type, location, retry_after_s, body: secrets.mask(&body).unwrap_or(body) })
    }

    /// Returns a status for people, such as `404 Not Found`.
    pub fn status_text(status: u16) -> String {
        status_text(status)
    }

    fn call(&self, url: &str, time: Duration) -> Result<Response<Body>, RequestError> {
        let request = self.with_defaults(self.agent.get(check_url(url)?), time);
        request.call().map_err(|error| to_request_error(error, time))
    }

    /// Adds to a request what all have in common: a timeout, a connection of its own, the headers.
    fn with_defaults<B>(&self, question: RequestBuilder<B>, time: Duration) -> RequestBuilder<B> {
        let question = question.config().timeout_global(Some(time)).build().header("connection", "close");
        self.headers.iter().fold(question, |question, (name, value)| question.header(name, value))
    }
}

/// Selects the TLS provider: if two are linked, rustls has to be told which one to use. A second call has no effect.
fn install_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Builds a TLS configuration that trusts `roots`, with the one provider that Assay uses.
pub fn tls(roots: RootCerts) -> TlsConfig {
    install_provider();
    TlsConfig::builder().root_certs(roots).build()
}

/// Returns the URL of `path` on the endpoint at `url`, which may end in a version (`/v1`): the load generator builds its URLs by
/// the same rule, [`EndpointPaths`]. The query of `url` stays.
pub fn endpoint_url(url: &str, path: &str) -> String {
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (url, String::new()),
    };
    let host_at = place.find("://").map_or(0, |scheme| scheme + "://".len());
    let path_at = place.get(host_at..).and_then(|rest| rest.find('/')).map_or(place.len(), |slash| host_at + slash);
    let (host, own) = place.split_at(path_at);
    format!("{host}{}{query}", EndpointPaths::parse(own).resource_path(path))
}

fn check_url(url: &str) -> Result<Uri, RequestError> {
    let unusable = || RequestError::Address(url.chars().take(200).collect());
    let uri: Uri = url.parse().map_err(|_| unusable())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if is_http && is_plain && uri.host().is_some_and(|host| !host.is_empty()) { Ok(uri) } else { Err(unusable()) }
}

fn read(response: Response<Body>, limits: Limits) -> Result<Vec<u8>, RequestError> {
    let mut bytes = Vec::new();
    let reader = response.into_body().into_reader();
    let most = limits.bytes.saturating_add(1);
    reader.take(most).read_to_end(&mut bytes).map_err(|error| to_request_error(error.into(), limits.time))?;
    if bytes.len() as u64 > limits.bytes { Err(RequestError::TooLarge(limits.bytes)) } else { Ok(bytes) }
}

/// Reads a body until it is enough, ends, breaks or reaches the limit.
fn read_beginning(response: Response<Body>, most: u64, is_enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut reader = response.into_body().into_reader().take(most);
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4 << 10]);
    while !is_enough(&bytes) {
        match reader.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
    bytes
}

fn to_request_error(error: ureq::Error, time: Duration) -> RequestError {
    match error {
        ureq::Error::Timeout(_) => RequestError::Timeout(time),
        ureq::Error::Io(error) => match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
            Some(cause) => RequestError::Tls(cause.to_string().chars().take(300).collect()),
            None => RequestError::Connection(error),
        },
        ureq::Error::Rustls(cause) => RequestError::Tls(cause.to_string().chars().take(300).collect()),
        ureq::Error::HostNotFound => RequestError::Connection(io::Error::new(io::ErrorKind::NotFound, "the host has no address")),
        ureq::Error::ConnectionFailed => RequestError::Connection(io::Error::other("the connection failed")),
        error => RequestError::Protocol(error.to_string().chars().take(300).collect()),
    }
}

#[cfg(test)]
mod tests;
