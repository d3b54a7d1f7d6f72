//! The HTTP client of the forge, the only one: bounded in every respect, and careful with the token.

use std::fmt;
use std::io::Read as _;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{HeaderMap, Request, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::author::Author;
use crate::dialect::{Dialect, Parsed, Permission, RepositoryPath};
use crate::{Api, ForgeError, Kind, Repository, Token, text};

/// The timeout of one request, from looking up the host to the last byte of the response.
pub const REQUEST_TIME: Duration = Duration::from_secs(30);

/// The largest response, in bytes: a page of a hundred comments of maximum length is 26 MiB of text before it is escaped.
pub const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// The maximum number of retries of a request, and of checks after a write whose response was lost.
pub const MAX_REPEATS: u32 = 3;

/// The longest time to wait if the forge asks for it; a longer one is an error. GitHub's guide asks for a minute if the response
/// does not state the time.
pub const MAX_WAIT: Duration = Duration::from_mins(1);

/// The maximum number of waits of one request at the forge's demand.
pub const MAX_WAITS: u32 = 2;

/// The pause before the first retry; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The maximum number of details of a forge's error that are kept beside its message.
const MAX_DETAILS: usize = 5;

type Pause = Box<dyn Fn(Duration) + Send + Sync>;

/// A forge, and the account of the token there.
pub struct Forge {
    agent: Agent,
    kind: Kind,
    api: Api,
    token: Token,
    author: OnceLock<Author>,
    pause: Pause,
}

impl fmt::Debug for Forge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forge")
            .field("kind", &self.kind)
            .field("api", &self.api)
            .field("author", &self.author)
            .finish_non_exhaustive()
    }
}

impl Forge {
    /// Returns a client of the forge of this kind at `api`, with this token. It trusts the certificates that the machine trusts
    /// (`SSL_CERT_FILE` is respected), and uses the environment's proxies, unless the connection stays on this machine.
    pub fn new(kind: Kind, api: Api, token: Token) -> Self {
        let agent = agent(&api);
        Self { agent, kind, api, token, author: OnceLock::new(), pause: Box::new(std::thread::sleep) }
    }

    /// Uses `login` as the token's account, such as `my-app[bot]`, without a request to the forge.
    #[must_use]
    pub fn with_login(self, login: &str) -> Self {
        Self { author: OnceLock::from(Author::from_login(login)), ..self }
    }

    /// Waits with `pause` instead of sleeping, for example to allow cancellation.
    #[must_use]
    pub fn with_pause(self, pause: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self { pause: Box::new(pause), ..self }
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    pub(crate) fn dialect(&self) -> &'static dyn Dialect {
        self.kind.dialect()
    }

    /// Returns a repository of this forge; refuses a name that this kind of forge does not allow.
    pub(crate) fn repository_path<'a>(&'a self, repository: &'a Repository) -> Result<RepositoryPath<'a>, ForgeError> {
        Ok(RepositoryPath { api: &self.api, repository, path: self.dialect().repository(repository)? })
    }

    /// Describes a request for its errors, with the permission that the token needs for it.
    pub(crate) fn request_context(&self, what: String, right: Permission) -> RequestContext {
        RequestContext { what, permission: self.dialect().permission(right) }
    }

    pub(crate) fn pause(&self, time: Duration) {
        (self.pause)(time);
    }

    /// Returns the account of the token, requested once.
    pub(crate) fn author(&self) -> Result<&Author, ForgeError> {
        if let Some(author) = self.author.get() {
            return Ok(author);
        }
        let asked = self.dialect().author(self)?;
        Ok(self.author.get_or_init(|| asked))
    }

    /// Gets an address of the forge.
    pub(crate) fn get(&self, url: &str, about: &RequestContext) -> Result<ForgeResponse, ForgeError> {
        self.call(Call::Get, url.to_owned(), about)
    }

    /// Creates or changes something at a path. The request is sent once.
    pub(crate) fn write(&self, call: Call, path: &str, about: &RequestContext) -> Result<ForgeResponse, ForgeError> {
        self.call(call, self.api.url_for(path), about)
    }

    /// Sends a request to an address of the forge.
    pub(crate) fn call(&self, call: Call, url: String, about: &RequestContext) -> Result<ForgeResponse, ForgeError> {
        self.send_with_retries(&ForgeRequest { call, url, about })
    }

    /// Returns the successful response to a request. If the forge limits the rate, the request is retried after the time that the
    /// forge states; if the response was lost, it is retried only if it changes nothing.
    fn send_with_retries(&self, question: &ForgeRequest<'_>) -> Result<ForgeResponse, ForgeError> {
        let (mut waits, mut repeats) = (0, 0);
        loop {
            match self.send(question).and_then(|response| self.check_status(response, question.about)) {
                Err(ForgeError::RateLimited { wait: Some(wait) }) if wait <= MAX_WAIT && waits < MAX_WAITS => {
                    waits += 1;
                    self.pause(wait);
                }
                Err(error) if error.is_lost() && question.call.changes_nothing() && repeats < MAX_REPEATS => {
                    self.pause(pause_before(repeats));
                    repeats += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn send(&self, question: &ForgeRequest<'_>) -> Result<ForgeResponse, ForgeError> {
        let request = Request::builder()
            .method(question.call.method())
            .uri(&question.url)
            // A new connection for each request: the server may close a kept one just as the next request is written to it.
            .header("connection", "close");
        let headers = self.dialect().headers(&self.token)?.into_iter();
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let sent = match question.call.body() {
            None => request.body(()).map(|request| self.agent.run(request)),
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string().into_bytes())
                .map(|request| self.agent.run(request)),
        };
        let sent = sent.map_err(|error| self.bad_response(question.about, &error.to_string()))?;
        self.read(sent.map_err(|error| self.unreachable_error(error))?)
    }

    fn read(&self, response: Response<Body>) -> Result<ForgeResponse, ForgeError> {
        let (head, body) = response.into_parts();
        let mut bytes = Vec::new();
        let mut reader = body.into_reader().take(MAX_RESPONSE_BYTES + 1);
        reader.read_to_end(&mut bytes).map_err(|error| self.unreachable_error(error.into()))?;
        if bytes.len() as u64 > MAX_RESPONSE_BYTES {
            return Err(ForgeError::TooLarge);
        }
        let header = |name: &str| header(&head.headers, name);
        Ok(ForgeResponse {
            status: head.status.as_u16(),
            link: header("link"),
            location: header("location"),
            wait: retry_after(&head.headers, now()),
            body: bytes,
        })
    }

    /// Returns a successful response, or the error that another status means.
    fn check_status(&self, response: ForgeResponse, about: &RequestContext) -> Result<ForgeResponse, ForgeError> {
        let said = || self.sanitise(&error_message(&response.body));
        match response.status {
            200..=299 => Ok(response),
            300..=399 => Err(ForgeError::Redirected {
                to: self.token.mask(&text::without_user(response.location.as_deref().unwrap_or_default())),
            }),
            401 => Err(ForgeError::BadToken),
            429 => Err(ForgeError::RateLimited { wait: response.wait }),
            403 if response.wait.is_some() || said().contains("rate limit") => {
                Err(ForgeError::RateLimited { wait: response.wait })
            }
            403 => Err(ForgeError::Forbidden { permission: about.permission, kind: self.kind, said: said() }),
            404 => Err(ForgeError::NotFound { what: about.what.clone() }),
            400 | 422 => Err(ForgeError::Invalid { said: said() }),
            status @ 500.. => Err(ForgeError::Failed { status }),
            status => Err(ForgeError::Refused { status, said: said() }),
        }
    }

    /// Parses a response as JSON. A parse error may repeat parts of it, so the error is masked as well.
    pub(crate) fn parse_json<T: DeserializeOwned>(
        &self,
        response: &ForgeResponse,
        about: &RequestContext,
    ) -> Result<T, ForgeError> {
        self.parse_with(response, about, |body| serde_json::from_slice(body))
    }

    /// Parses a response with `parse`.
    pub(crate) fn parse_with<T>(
        &self,
        response: &ForgeResponse,
        about: &RequestContext,
        parse: impl Fn(&[u8]) -> Parsed<T>,
    ) -> Result<T, ForgeError> {
        parse(&response.body).map_err(|error| self.bad_response(about, &error.to_string()))
    }

    pub(crate) fn bad_response(&self, about: &RequestContext, why: &str) -> ForgeError {
        ForgeError::BadResponse { what: about.what.clone(), why: self.sanitise(why) }
    }

    fn unreachable_error(&self, source: ureq::Error) -> ForgeError {
        ForgeError::Unreachable { api: self.api.to_string(), source: Box::new(source) }
    }

    /// Returns a text of the forge fit to be shown: masked before it is cut, so that no part of a token remains.
    pub(crate) fn sanitise(&self, text: &str) -> String {
        text::sanitise(&self.token.mask(text))
    }
}

/// The description of a request, for its errors.
pub(crate) struct RequestContext {
    /// The requested thing, as the beginning of a sentence.
    pub(crate) what: String,
    /// The permission that the token needs.
    pub(crate) permission: &'static str,
}

struct ForgeRequest<'a> {
    call: Call,
    url: String,
    about: &'a RequestContext,
}

/// A method, with the body.
pub(crate) enum Call {
    Get,
    /// A query with a body, which changes nothing.
    Query(Value),
    Post(Value),
    Patch(Value),
    Put(Value),
}

impl Call {
    fn method(&self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Query(_) | Self::Post(_) => "POST",
            Self::Patch(_) => "PATCH",
            Self::Put(_) => "PUT",
        }
    }

    fn body(&self) -> Option<&Value> {
        match self {
            Self::Get => None,
            Self::Query(body) | Self::Post(body) | Self::Patch(body) | Self::Put(body) => Some(body),
        }
    }

    fn changes_nothing(&self) -> bool {
        matches!(self, Self::Get | Self::Query(_))
    }
}

/// The parts of a response that are kept.
pub(crate) struct ForgeResponse {
    status: u16,
    pub(crate) link: Option<String>,
    location: Option<String>,
    wait: Option<Duration>,
    body: Vec<u8>,
}

impl ForgeResponse {
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// Returns the pause before a retry, by the number of earlier ones.
pub(crate) fn pause_before(repeats: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << repeats.min(MAX_REPEATS))
}

fn agent(api: &Api) -> Agent {
    // With two TLS providers linked, rustls needs a default; a second call finds it set.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = Agent::config_builder()
        .timeout_global(Some(REQUEST_TIME))
        // A redirect is returned as a response: the token goes to the given address and to no other.
        .max_redirects(0)
        .http_status_as_error(false)
        .max_idle_connections(0)
        .user_agent(concat!("assay/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build());
    // A proxy would carry a plain connection, and the token with it, off this machine.
    let config = if api.is_plain() { config.proxy(None) } else { config };
    config.build().into()
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Returns how long the forge asks to wait: `retry-after` in seconds, or until `x-ratelimit-reset` (`ratelimit-reset` on GitLab),
/// in seconds since 1970, if no requests remain. Its clock may differ, so its last second is waited for completely.
fn retry_after(headers: &HeaderMap, now_s: u64) -> Option<Duration> {
    let number = |name: &str| header(headers, name)?.trim().parse::<u64>().ok();
    let after = number("retry-after");
    let either = |name| number(name).or_else(|| number(&format!("x-{name}")));
    let reset = either("ratelimit-reset").filter(|_| either("ratelimit-remaining") == Some(0));
    after.or(reset.map(|at| at.saturating_sub(now_s).saturating_add(1))).map(Duration::from_secs)
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the forge's message of a refusal, or a note that it cannot be read. GitHub and Gitea give a `message` and a list of
/// `errors`; GitLab a `message` that may hold fields, or an `error` and its `error_description`.
fn error_message(body: &[u8]) -> String {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let main = ["message", "error", "error_description"].iter().filter_map(|name| message_text(said.get(name)?));
    let details = said.get("errors").and_then(Value::as_array).into_iter().flatten().filter_map(detail).take(MAX_DETAILS);
    let parts: Vec<String> = main.chain(details).collect();
    if parts.is_empty() { "no reason that can be read".to_owned() } else { parts.join("; ") }
}

/// Returns the text of a message: one text, several, or those of fields.
fn message_text(said: &Value) -> Option<String> {
    let join = |parts: Vec<String>| (!parts.is_empty()).then(|| parts.join(", "));
    match said {
        Value::String(text) => Some(text.clone()),
        Value::Array(several) => join(several.iter().filter_map(message_text).take(MAX_DETAILS).collect()),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| Some(format!("{name}: {}", message_text(value)?));
            join(fields.iter().filter_map(field).take(MAX_DETAILS).collect())
        }
        _ => None,
    }
}

/// Returns one of the errors: a text, or a resource's field and its problem.
fn detail(error: &Value) -> Option<String> {
    let part = |name: &str| error.get(name).and_then(Value::as_str);
    let text = error.as_str().or_else(|| part("message")).map(str::to_owned);
    text.or_else(|| Some(format!("{}: {}", part("field")?, part("code")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(lines: &[(&'static str, &str)]) -> Option<u64> {
        let headers = lines.iter().map(|(name, value)| {
            (ureq::http::HeaderName::from_static(name), ureq::http::HeaderValue::from_str(value).expect("a value"))
        });
        retry_after(&headers.collect(), 1000).map(|wait| wait.as_secs())
    }

    #[test]
    fn the_forge_says_how_long_to_wait() {
        assert_eq!(waited(&[("retry-after", "7")]), Some(7));
        assert_eq!(waited(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1030")]), Some(31));
        assert_eq!(waited(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")]), Some(1), "its clock is behind");
        assert_eq!(waited(&[("x-ratelimit-remaining", "12"), ("x-ratelimit-reset", "1030")]), None, "some questions remain");
        assert_eq!(waited(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &u64::MAX.to_string())]), Some(u64::MAX - 999));
        assert_eq!(waited(&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")]), None);
        assert_eq!(waited(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "1030")]), Some(31), "GitLab's names");
        assert_eq!(waited(&[("retry-after", "-1")]), None);
        assert_eq!(waited(&[]), None);
    }

    #[test]
    fn what_the_forge_said_is_in_one_line() {
        let invalid = br#"{"message": "Validation Failed", "errors": [{"field": "body", "code": "missing"}, {"message": "is long"}, "x", {}, 1]}"#;
        assert_eq!(error_message(invalid), "Validation Failed; body: missing; is long; x");
        assert_eq!(error_message(br#"{"message": "Not Found"}"#), "Not Found");
        assert_eq!(
            error_message(br#"{"message": {"body": ["is too long", "is blank"], "title": "is missing"}}"#),
            "body: is too long, is blank, title: is missing"
        );
        assert_eq!(
            error_message(br#"{"error": "insufficient_scope", "error_description": "needs more"}"#),
            "insufficient_scope; needs more"
        );
        for unread in ["<html>", "[]", "1", r#"{"message": null}"#, r#"{"message": {"x": []}}"#] {
            assert_eq!(error_message(unread.as_bytes()), "no reason that can be read");
        }
    }

    #[test]
    fn pauses_grow_and_end() {
        assert_eq!([0, 1, 2].map(|repeats| pause_before(repeats).as_millis()), [500, 1000, 2000]);
        assert_eq!(pause_before(u32::MAX), pause_before(MAX_REPEATS));
    }
}
