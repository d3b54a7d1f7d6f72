//! Single HTTP requests to an endpoint, with limits on time and size.

use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use assay_load::{EndpointPaths, TlsSettings, split_unix_url};
use assay_manifest::Target;
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector as _, TcpConnector};
use ureq::{Agent, Body, RequestBuilder};

use crate::connect::{Boxed, Http1Connector, HttpsConnector};
use crate::error::{CONNECT_TIME, RequestError, to_request_error};
use crate::partial::{NeededPart, PartialBody, PartialResponse};
use crate::unix::{UnixConnector, UnixResolver, http_url, socket_of};
use crate::{CredentialError, Headers, target_tls};

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

/// A request that writes bytes to a server.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    /// True for PUT, which replaces what is there, else POST.
    pub replaces: bool,
    /// Headers of the protocol, `content-type` among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// The bytes.
    pub body: &'a [u8],
}

/// The response to a request that writes bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResponse {
    /// The status code.
    pub status: u16,
    /// The address of a redirect, if it is text. Redirects are not followed.
    pub location: Option<String>,
    /// The seconds that the server asks to wait for before the next request.
    pub retry_after_s: Option<u64>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// A request with a JSON document, as the load generator sends them.
#[derive(Clone, Copy, Debug)]
pub struct JsonRequest<'a> {
    /// True if an event stream is requested, else a JSON document.
    pub is_streamed: bool,
    /// Sent as `x-request-id` and as the trace id of `traceparent`; not 0.
    pub request_id: u128,
    /// Headers of the API, each sent unless the target's headers have another of its name.
    pub headers: &'a [(&'a str, &'a str)],
    /// The document.
    pub body: &'a [u8],
}

fn status_text(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

/// An HTTP client for one endpoint.
///
/// If a response or an error repeats a secret of the headers, the secret is masked, however it is escaped.
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
        Self::with_tls(headers, TlsSettings::default())
    }

    /// Creates a client for a target of a plan, with its headers and its certificates.
    pub fn for_target(target: &Target) -> Result<Self, CredentialError> {
        Ok(Self::with_tls(Headers::read(&target.headers)?, target_tls(target)?))
    }

    /// Creates a client that sends these headers with each request, and accepts and shows these certificates over TLS.
    pub fn with_tls(headers: Headers, tls: TlsSettings) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .timeout_connect(Some(CONNECT_TIME))
            .proxy(None)
            .user_agent(concat!("assay/", env!("CARGO_PKG_VERSION")))
            .build();
        let connector =
            ().chain(UnixConnector)
                .chain(TcpConnector::default())
                .chain(Boxed)
                .chain(HttpsConnector::new(tls))
                .chain(Http1Connector);
        Self { agent: Agent::with_parts(config, connector, UnixResolver::default()), headers }
    }

    /// Sends a GET request and returns the whole response.
    pub fn get(&self, url: &str, limits: Limits) -> Result<EndpointResponse, RequestError> {
        self.read_response(self.call(url, limits.time)?, limits)
    }

    fn read_response(&self, response: Response<Body>, limits: Limits) -> Result<EndpointResponse, RequestError> {
        let status = response.status().as_u16();
        let server = response.headers().get("server").and_then(|value| value.to_str().ok());
        let server = server.map(|text| self.mask(text.to_owned()));
        let body = read(response, limits).map_err(|error| self.mask_error(error))?;
        Ok(EndpointResponse { status, server, body: self.headers.secrets().mask(&body).unwrap_or(body) })
    }

    /// Masks the secrets of the headers in a text of the endpoint, which may have been cut.
    pub(crate) fn mask(&self, text: String) -> String {
        self.headers.secrets().mask_truncated(&text).unwrap_or(text)
    }

    /// Masks the secrets of the headers in the words of an error, which may quote the endpoint's.
    fn mask_error(&self, error: RequestError) -> RequestError {
        match error {
            RequestError::Address(text) => RequestError::Address(self.mask(text)),
            RequestError::Tls(text) => RequestError::Tls(self.mask(text)),
            RequestError::Protocol(text) => RequestError::Protocol(self.mask(text)),
            error => error,
        }
    }

    /// Sends a GET request and returns the status as soon as the head of the response has arrived: the body, which may not end,
    /// is not waited for.
    pub fn get_status(&self, url: &str, time: Duration) -> Result<u16, RequestError> {
        Ok(self.call(url, time)?.status().as_u16())
    }

    /// Sends a POST request without a body and returns the response. It is for commands, such as flushing a cache.
    pub fn post(&self, url: &str, limits: Limits) -> Result<EndpointResponse, RequestError> {
        let uri = check_url(url)?;
        let request = self.with_defaults(self.agent.post(uri.clone()), &uri, limits.time);
        self.read_response(request.send_empty().map_err(|error| self.error(error, limits.time))?, limits)
    }

    /// Sends a PUT or POST request with bytes and returns the whole response.
    pub fn write(&self, url: &str, request: &WriteRequest<'_>, limits: Limits) -> Result<WriteResponse, RequestError> {
        let uri = check_url(url)?;
        let method = if request.replaces { self.agent.put(uri.clone()) } else { self.agent.post(uri.clone()) };
        let method = self.with_defaults(method, &uri, limits.time);
        let sent = request.headers.iter().fold(method, |method, (name, value)| method.header(*name, *value)).send(request.body);
        let response = sent.map_err(|error| self.error(error, limits.time))?;
        let text = |name: &str| Some(self.mask(response.headers().get(name)?.to_str().ok()?.to_owned()));
        let (location, retry_after_s) = (text("location"), text("retry-after").and_then(|value| value.trim().parse().ok()));
        let EndpointResponse { status, body, .. } = self.read_response(response, limits)?;
        Ok(WriteResponse { status, location, retry_after_s, body })
    }

    /// Sends a POST request with a JSON document, and reads as much of its response as its kind needs, within `time`.
    pub fn post_json(&self, url: &str, request: &JsonRequest<'_>, time: Duration) -> Result<PartialResponse, RequestError> {
        let id = request.request_id;
        let span = ((id >> 64) as u64 ^ id as u64).max(1);
        let is_set = |name: &str| self.headers.iter().any(|(set, _)| set.as_str().eq_ignore_ascii_case(name));
        let uri = check_url(url)?;
        let post = self.with_defaults(self.agent.post(uri.clone()), &uri, time);
        let of_api = request.headers.iter().filter(|(name, _)| !is_set(name));
        let sent = of_api
            .fold(post, |post, (name, value)| post.header(*name, *value))
            .header("accept", if request.is_streamed { "text/event-stream" } else { "application/json" })
            .header("accept-encoding", "identity")
            .header("content-type", "application/json")
            .header("x-request-id", format!("{id:032x}"))
            .header("traceparent", format!("00-{id:032x}-{span:016x}-01"))
            .send(request.body);
        let response = sent.map_err(|error| self.error(error, time))?;
        let text = |name: &str| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok())?;
            Some(self.mask(value.to_owned()))
        };
        let content_type =
            text("content-type").map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let is_encoding = |value: &String| !value.is_empty() && !value.eq_ignore_ascii_case("identity");
        let content_encoding = text("content-encoding").map(|value| value.trim().to_owned()).filter(is_encoding);
        let (status, location) = (response.status().as_u16(), text("location"));
        let retry_after_s = text("retry-after").and_then(|value| value.parse().ok());
        let needed = NeededPart::of(status, content_type.as_deref(), content_encoding.is_some(), request.is_streamed);
        let body = PartialBody::read(response.into_body().into_reader(), needed, time).masked(self.headers.secrets());
        Ok(PartialResponse { status, content_type, content_encoding, location, retry_after_s, body })
    }

    /// Returns a status for people, such as `404 Not Found`.
    pub fn status_text(status: u16) -> String {
        status_text(status)
    }

    fn call(&self, url: &str, time: Duration) -> Result<Response<Body>, RequestError> {
        let uri = check_url(url)?;
        let request = self.with_defaults(self.agent.get(uri.clone()), &uri, time);
        request.call().map_err(|error| self.error(error, time))
    }

    /// Converts an error of the HTTP library for a request with this timeout.
    fn error(&self, error: ureq::Error, time: Duration) -> RequestError {
        self.mask_error(to_request_error(error, time))
    }

    /// Adds to a request what all have in common: a timeout, a connection of its own, the headers. The host of a Unix socket is this one.
    fn with_defaults<B>(&self, question: RequestBuilder<B>, uri: &Uri, time: Duration) -> RequestBuilder<B> {
        let question = question.config().timeout_global(Some(time)).build().header("connection", "close");
        let question = if socket_of(uri).is_some() { question.header("host", "localhost") } else { question };
        self.headers.iter().fold(question, |question, (name, value)| question.header(name, value))
    }
}

/// Selects the TLS provider: if two are linked, rustls has to be told which one to use. A second call has no effect.
fn install_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Builds a TLS configuration that trusts `roots`, with the one provider that Assay uses.
pub fn tls_config(roots: RootCerts) -> TlsConfig {
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
    if let Some((socket, base)) = split_unix_url(place) {
        return format!("unix:{socket}:{}{query}", EndpointPaths::parse(base).resource_path(path));
    }
    let host_at = place.find("://").map_or(0, |scheme| scheme + "://".len());
    let path_at = place.get(host_at..).and_then(|rest| rest.find('/')).map_or(place.len(), |slash| host_at + slash);
    let (host, own) = place.split_at(path_at);
    format!("{host}{}{query}", EndpointPaths::parse(own).resource_path(path))
}

fn check_url(url: &str) -> Result<Uri, RequestError> {
    let unusable = || RequestError::Address(url.chars().take(200).collect());
    let of_socket = http_url(url);
    let uri: Uri = of_socket.as_deref().unwrap_or(url).parse().map_err(|_| unusable())?;
    if of_socket.is_some() && socket_of(&uri).is_none() {
        return Err(unusable());
    }
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

#[cfg(test)]
mod tests;
