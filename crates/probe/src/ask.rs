//! One question over HTTP and its answer.

use std::fmt;
use std::io::{self, Read as _};
use std::time::Duration;

use assay_load::Base;
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, RequestBuilder};

use crate::Headers;

/// What bounds one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From looking up the host to the last byte of the answer.
    pub time: Duration,
    /// The largest body.
    pub bytes: u64,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The `Server` header, where it is text.
    pub server: Option<String>,
    /// The body, whole.
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether the status is one of success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The status for people, such as `404 Not Found`.
    pub fn status_text(&self) -> String {
        status_text(self.status)
    }
}

fn status_text(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// What was to be asked is no address.
    #[error("`{0}` is no address that can be asked: http or https, a host, and no password")]
    Address(String),
    /// No whole answer came in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The body is larger than the limit.
    #[error("the answer is larger than the limit of {0} bytes")]
    TooLarge(u64),
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(io::Error),
    /// What came is not an answer over HTTP, or TLS failed.
    #[error("{0}")]
    Protocol(String),
}

impl AskError {
    /// Whether somebody is there at all, as far as that is known: who answers in another language, too much or in the middle of
    /// something is there.
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Connection(_))
    }
}

/// Asks one endpoint.
///
/// A secret of the headers that comes back in an answer is masked in what is given of it.
///
/// Redirects are answers, and not followed: the headers are secrets, and the load goes to the address that was given. Proxies of
/// the environment are not used, as the load uses none. Each question has a connection of its own, so that an endpoint that
/// restarts is met anew.
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
    /// Sends these headers with each question. Over TLS it trusts whom the machine trusts (`SSL_CERT_FILE` is heeded).
    pub fn new(headers: Headers) -> Self {
        Self::trusting(headers, RootCerts::PlatformVerifier)
    }

    fn trusting(headers: Headers, roots: RootCerts) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .user_agent(concat!("assay/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls(roots))
            .build();
        Self { agent: config.into(), headers }
    }

    /// The answer at an address, whole.
    pub fn get(&self, url: &str, limits: Limits) -> Result<Answer, AskError> {
        self.answer(self.call(url, limits.time)?, limits)
    }

    fn answer(&self, response: Response<Body>, limits: Limits) -> Result<Answer, AskError> {
        let status = response.status().as_u16();
        let secrets = self.headers.secrets();
        let server = response.headers().get("server").and_then(|value| value.to_str().ok());
        let server = server.map(|text| secrets.mask_cut(text).unwrap_or_else(|| text.to_owned()));
        let body = read(response, limits)?;
        Ok(Answer { status, server, body: secrets.mask(&body).unwrap_or(body) })
    }

    /// The status at an address, once the head of the answer is there: its body, which may not end, is not waited for.
    pub fn status(&self, url: &str, time: Duration) -> Result<u16, AskError> {
        Ok(self.call(url, time)?.status().as_u16())
    }

    /// The answer to an empty POST to an address: an order, such as to forget a cache.
    pub fn post(&self, url: &str, limits: Limits) -> Result<Answer, AskError> {
        let request = self.dressed(self.agent.post(checked(url)?), limits.time);
        self.answer(request.send_empty().map_err(|error| why(error, limits.time))?, limits)
    }

    /// A status for people, such as `404 Not Found`.
    pub fn status_text(status: u16) -> String {
        status_text(status)
    }

    fn call(&self, url: &str, time: Duration) -> Result<Response<Body>, AskError> {
        let request = self.dressed(self.agent.get(checked(url)?), time);
        request.call().map_err(|error| why(error, time))
    }

    /// A question with what all of them have: a deadline, a connection of its own, the headers.
    fn dressed<B>(&self, question: RequestBuilder<B>, time: Duration) -> RequestBuilder<B> {
        let question = question.config().timeout_global(Some(time)).build().header("connection", "close");
        self.headers.iter().fold(question, |question, (name, value)| question.header(name, value))
    }
}

/// TLS that trusts `roots`, by the one provider that Assay uses.
pub fn tls(roots: RootCerts) -> TlsConfig {
    // With two TLS providers linked, rustls needs to be told which one; a second call finds it told.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    TlsConfig::builder().root_certs(roots).build()
}

/// The address of `path` on the endpoint at `url`, which may end in a version (`/v1`): the load finds its interfaces by the same
/// rule, [`Base`]. The query of `url` stays.
pub fn at(url: &str, path: &str) -> String {
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (url, String::new()),
    };
    let host_at = place.find("://").map_or(0, |scheme| scheme + "://".len());
    let path_at = place.get(host_at..).and_then(|rest| rest.find('/')).map_or(place.len(), |slash| host_at + slash);
    let (host, own) = place.split_at(path_at);
    format!("{host}{}{query}", Base::of(own).place(path))
}

fn checked(url: &str) -> Result<Uri, AskError> {
    let unusable = || AskError::Address(url.chars().take(200).collect());
    let uri: Uri = url.parse().map_err(|_| unusable())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if is_http && is_plain && uri.host().is_some_and(|host| !host.is_empty()) { Ok(uri) } else { Err(unusable()) }
}

fn read(response: Response<Body>, limits: Limits) -> Result<Vec<u8>, AskError> {
    let mut bytes = Vec::new();
    let reader = response.into_body().into_reader();
    let most = limits.bytes.saturating_add(1);
    reader.take(most).read_to_end(&mut bytes).map_err(|error| why(error.into(), limits.time))?;
    if bytes.len() as u64 > limits.bytes { Err(AskError::TooLarge(limits.bytes)) } else { Ok(bytes) }
}

fn why(error: ureq::Error, time: Duration) -> AskError {
    match error {
        ureq::Error::Timeout(_) => AskError::Timeout(time),
        ureq::Error::Io(error) => AskError::Connection(error),
        ureq::Error::HostNotFound => AskError::Connection(io::Error::new(io::ErrorKind::NotFound, "the host has no address")),
        ureq::Error::ConnectionFailed => AskError::Connection(io::Error::other("the connection failed")),
        error => AskError::Protocol(error.to_string().chars().take(300).collect()),
    }
}

#[cfg(test)]
mod tests;
