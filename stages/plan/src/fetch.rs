//! Fetching over HTTP, bounded in every respect: time, size, redirects, hosts.

use std::io::Read as _;
use std::time::Duration;

use assay_stage::Failure;
use ureq::http::{Response, StatusCode, Uri};
use ureq::{Agent, Body};

/// One whole answer, from connecting to its last byte.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The largest answer: a script or an image manifest is far smaller.
const MAX_BYTES: u64 = 64 << 20;

/// Redirects of one address: registries use one or two.
const MAX_REDIRECTS: usize = 5;

/// Why something could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("fetching is off")]
    Off,
    #[error("the host `{0}` is not among those that the pipeline allows")]
    HostNotAllowed(String),
    #[error("`{0}` is not an address that can be fetched: https, or http on this machine")]
    Address(String),
    #[error("`{url}` answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("`{0}` redirects more than {MAX_REDIRECTS} times")]
    Redirects(String),
    #[error("`{0}` is larger than {MAX_BYTES} bytes")]
    TooLarge(String),
    #[error("`{url}` could not be fetched")]
    Http {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("`{url}` broke off")]
    Read {
        url: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the registry gave an image whose digest is {found}, but said {said}")]
    OtherImage { said: String, found: String },
    #[error("the registry asks for a login that this build does not have: {0}")]
    Login(String),
}

impl FetchError {
    /// Whether the rules, and not the world, stood in the way.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Off | Self::HostNotAllowed(_))
    }

    /// As a failure of the stage; `what` was to be fetched.
    pub(crate) fn into_failure(self, what: &str) -> Failure {
        Failure::environment("fetch", format!("{what} could not be fetched")).because(&self)
    }
}

/// Fetches from allowed hosts.
pub(crate) struct Fetcher {
    agent: Agent,
    allow: Vec<String>,
}

impl Fetcher {
    /// Fetches from the hosts in `allow`, or from any where it is empty.
    pub(crate) fn new(allow: Vec<String>) -> Self {
        // With two TLS providers linked, rustls needs to be told which one; a second call finds it told.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = Agent::config_builder()
            .timeout_global(Some(TIME_LIMIT))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("assay/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.into(), allow }
    }

    /// The bytes behind an address.
    pub(crate) fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let response = self.request(url, &[])?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status { url: url.to_owned(), status: response.status() });
        }
        read(url, response)
    }

    /// The answer behind an address, whatever its status; redirects are followed, each to an allowed host.
    pub(crate) fn request(&self, url: &str, headers: &[(&str, &str)]) -> Result<Response<Body>, FetchError> {
        let mut at = url.to_owned();
        for hop in 0..=MAX_REDIRECTS {
            let uri = self.check(&at)?;
            let mut request = self.agent.get(uri);
            // Credentials are for the host that asked for them, not for where it points to.
            let kept = headers.iter().filter(|(name, _)| hop == 0 || !name.eq_ignore_ascii_case("authorization"));
            for (name, value) in kept {
                request = request.header(*name, *value);
            }
            let response = request.call().map_err(|source| FetchError::Http { url: at.clone(), source: Box::new(source) })?;
            match response.headers().get("location").filter(|_| response.status().is_redirection()) {
                None => return Ok(response),
                Some(location) => at = next_address(&at, location.to_str().unwrap_or_default())?,
            }
        }
        Err(FetchError::Redirects(url.to_owned()))
    }

    fn check(&self, url: &str) -> Result<Uri, FetchError> {
        let refuse = || FetchError::Address(url.chars().take(200).collect());
        let uri: Uri = url.parse().map_err(|_| refuse())?;
        let host = uri.host().ok_or_else(refuse)?.to_ascii_lowercase();
        let allowed_scheme = uri.scheme_str() == Some("https") || (uri.scheme_str() == Some("http") && is_this_machine(&host));
        if !allowed_scheme {
            return Err(refuse());
        }
        if self.allow.is_empty() || self.allow.contains(&host) { Ok(uri) } else { Err(FetchError::HostNotAllowed(host)) }
    }
}

/// Whether a host is this machine, where a plain connection cannot be listened to.
pub(crate) fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host == "[::1]" || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

fn next_address(at: &str, location: &str) -> Result<String, FetchError> {
    if location.contains("://") {
        return Ok(location.to_owned());
    }
    let refuse = || FetchError::Address(location.chars().take(200).collect());
    let uri: Uri = at.parse().map_err(|_| refuse())?;
    match (uri.scheme_str(), uri.authority(), location.starts_with('/')) {
        (Some(scheme), Some(authority), true) => Ok(format!("{scheme}://{authority}{location}")),
        _ => Err(refuse()),
    }
}

/// The whole body of an answer, within the limit.
pub(crate) fn read(url: &str, response: Response<Body>) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    let reader = response.into_body().into_reader();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|source| FetchError::Read { url: url.to_owned(), source })?;
    if bytes.len() as u64 > MAX_BYTES { Err(FetchError::TooLarge(url.to_owned())) } else { Ok(bytes) }
}
