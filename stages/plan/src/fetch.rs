//! Fetching over HTTP, bounded in every respect: time, size, redirects, hosts.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use assay_stage::{ErrorCode, Failure};
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::RootCerts;
use ureq::{Agent, Body};

/// The timeout of one response, from connecting to its last byte; each redirect is a response of its own.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// The same for a dataset.
const DATASET_TIME_LIMIT: Duration = Duration::from_hours(1);

/// The largest response: a script or an image manifest is far smaller.
const MAX_BYTES: u64 = 64 << 20;

/// The largest dataset.
const MAX_DATASET_BYTES: u64 = 16 << 30;

/// The most redirects of one address: registries use one or two.
const MAX_REDIRECTS: usize = 5;

/// The reason why something could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("fetching is off")]
    Disabled,
    #[error("the host `{0}` is not among those that the pipeline allows")]
    HostNotAllowed(String),
    #[error("`{0}` is not an address that can be fetched: https, or http on this machine, without a password")]
    Address(String),
    #[error("`{from}` redirects to `{to}`, which is on this machine")]
    RedirectHere { from: String, to: String },
    #[error("`{url}` returned {status}")]
    Status { url: String, status: StatusCode },
    #[error("`{0}` redirects more than {MAX_REDIRECTS} times")]
    Redirects(String),
    #[error("`{0}` is larger than {MAX_BYTES} bytes")]
    TooLarge(String),
    #[error("`{0}` is larger than {MAX_DATASET_BYTES} bytes")]
    DatasetTooLarge(String),
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
    /// Returns true if a rule of the fetcher is the reason, and not the network or the server.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Disabled | Self::HostNotAllowed(_) | Self::RedirectHere { .. })
    }

    /// Returns true if the same request will fail again: the server says that the request is wrong, and not that it is busy.
    fn is_lasting(&self) -> bool {
        let is_wrong = |status: StatusCode| {
            status.is_client_error() && !matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        };
        self.is_refusal() || matches!(self, Self::Status { status, .. } if is_wrong(*status))
    }

    /// Returns a failure of the stage; `what` was to be fetched.
    pub(crate) fn into_failure(self, what: &str) -> Failure {
        let failure = Failure::new(ErrorCode::Fetch, format!("{what} could not be fetched")).because(&self);
        if self.is_lasting() { failure.lasting() } else { failure }
    }
}

/// Fetches from allowed hosts.
pub(crate) struct Fetcher {
    agent: Agent,
    allow: Vec<String>,
}

impl Fetcher {
    /// Fetches from the hosts in `allow`, or from any host if it is empty.
    pub(crate) fn new(allow: Vec<String>) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(TIME_LIMIT))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("assay/", env!("CARGO_PKG_VERSION")))
            .tls_config(assay_probe::tls_config(RootCerts::PlatformVerifier))
            .build();
        Self { agent: config.into(), allow }
    }

    /// Returns the bytes at an address.
    pub(crate) fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let response = self.request(url, &[])?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status { url: url.to_owned(), status: response.status() });
        }
        read(url, response)
    }

    /// Writes the bytes at an address to a file: a dataset, which may be large.
    pub(crate) fn save(&self, url: &str, path: &Path) -> Result<(), FetchError> {
        let response = self.request_within(url, &[], DATASET_TIME_LIMIT)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status { url: url.to_owned(), status: response.status() });
        }
        let broke_off = |source| FetchError::Read { url: url.to_owned(), source };
        let mut file = File::create(path).map_err(broke_off)?;
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let written = std::io::copy(&mut body.take(MAX_DATASET_BYTES + 1), &mut file).map_err(broke_off)?;
        if written > MAX_DATASET_BYTES { Err(FetchError::DatasetTooLarge(url.to_owned())) } else { Ok(()) }
    }

    /// Returns the response of an address, with any status; redirects are followed, each to an allowed host.
    pub(crate) fn request(&self, url: &str, headers: &[(&str, &str)]) -> Result<Response<Body>, FetchError> {
        self.request_within(url, headers, TIME_LIMIT)
    }

    fn request_within(&self, url: &str, headers: &[(&str, &str)], limit: Duration) -> Result<Response<Body>, FetchError> {
        let mut at = url.to_owned();
        for hop in 0..=MAX_REDIRECTS {
            let mut request = self.agent.get(self.check(&at)?).config().timeout_global(Some(limit)).build();
            // Credentials are for the host that requested them, and not for the target of its redirect.
            let kept = headers.iter().filter(|(name, _)| hop == 0 || !name.eq_ignore_ascii_case("authorization"));
            for (name, value) in kept {
                request = request.header(*name, *value);
            }
            let response = request.call().map_err(|source| FetchError::Http { url: at.clone(), source: Box::new(source) })?;
            match response.headers().get("location").filter(|_| response.status().is_redirection()) {
                None => return Ok(response),
                Some(location) => at = next_address(&at, &String::from_utf8_lossy(location.as_bytes()))?,
            }
        }
        Err(FetchError::Redirects(url.to_owned()))
    }

    fn check(&self, url: &str) -> Result<Uri, FetchError> {
        let uri = parse(url)?;
        let host = host_of(&uri);
        if self.allow.is_empty() || self.allow.contains(&host) { Ok(uri) } else { Err(FetchError::HostNotAllowed(host)) }
    }
}

/// Parses an address that may be fetched: encrypted or not leaving this machine, and without a password, which would be visible
/// in the plan and in logs.
fn parse(url: &str) -> Result<Uri, FetchError> {
    let uri: Uri = url.parse().map_err(|_| unusable(url))?;
    let is_guarded = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_this_machine(&host_of(&uri)),
        _ => false,
    };
    let has_user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
    if is_guarded && !has_user { Ok(uri) } else { Err(unusable(url)) }
}

fn unusable(url: &str) -> FetchError {
    FetchError::Address(quoted(url))
}

/// Returns the part of an untrusted address that is repeated.
fn quoted(url: &str) -> String {
    url.chars().take(200).collect()
}

fn host_of(uri: &Uri) -> String {
    uri.host().unwrap_or_default().to_ascii_lowercase()
}

/// Returns true if a host is this machine, on which a plain connection cannot be intercepted.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the target of a redirect. No remote server may redirect this stage to a service of the machine that it runs on.
fn next_address(at: &str, location: &str) -> Result<String, FetchError> {
    let from = parse(at)?;
    let next = match (location.contains("://"), location.starts_with('/') && !location.starts_with("//")) {
        (true, _) => location.to_owned(),
        (false, true) => format!("{}://{}{location}", from.scheme_str().unwrap_or("https"), host_and_port(&from)),
        (false, false) => return Err(unusable(location)),
    };
    let to = parse(&next)?;
    if is_this_machine(&host_of(&to)) && !is_this_machine(&host_of(&from)) {
        return Err(FetchError::RedirectHere { from: quoted(at), to: quoted(&next) });
    }
    Ok(next)
}

fn host_and_port(uri: &Uri) -> &str {
    uri.authority().map_or("", |authority| authority.as_str())
}

/// Reads the whole body of a response, within the limit.
pub(crate) fn read(url: &str, response: Response<Body>) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    let reader = response.into_body().into_reader();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|source| FetchError::Read { url: url.to_owned(), source })?;
    if bytes.len() as u64 > MAX_BYTES { Err(FetchError::TooLarge(url.to_owned())) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use assay_probe::testing::{Reply, Request, Server};

    fn refusal<T>(result: Result<T, FetchError>) -> String {
        result.err().expect("refused").to_string()
    }

    fn redirect(to: &str) -> Reply {
        Reply::with_body("307 Temporary Redirect", &[&format!("location: {to}")], "")
    }

    /// Returns the requested port, from the request's head.
    fn port(request: &Request) -> &str {
        request.header("host").and_then(|host| host.rsplit(':').next()).expect("a host with a port")
    }

    fn anywhere() -> Fetcher {
        Fetcher::new(Vec::new())
    }

    #[test]
    fn only_a_server_that_may_recover_is_asked_again() {
        let retried = |status: u16| {
            let status = StatusCode::from_u16(status).expect("a status");
            FetchError::Status { url: "https://host/file".to_owned(), status }.into_failure("the dataset").is_worth_a_retry()
        };
        assert_eq!([404, 403, 410, 408, 429, 500, 503].map(retried), [false, false, false, true, true, true, true]);
    }

    #[test]
    fn what_is_there_is_fetched() {
        let server = Server::start(|request| match request.path.as_str() {
            "/script" => Reply::ok("#!/bin/sh\n"),
            _ => Reply::status("404 Not Found"),
        });
        assert_eq!(anywhere().get(&server.at("/script")).expect("there"), b"#!/bin/sh\n");
        let failure = refusal(anywhere().get(&server.at("/other")));
        assert_eq!(failure, format!("`{}` returned 404 Not Found", server.at("/other")));
    }

    #[test]
    fn redirects_are_followed_within_the_allowed_hosts() {
        let server = Server::start(|request| match request.path.as_str() {
            "/moved" => redirect("/here"),
            "/far" => redirect("/moved"),
            "/named" => redirect(&format!("http://localhost:{}/here", port(request))),
            "/here" => Reply::ok("bytes"),
            _ => redirect(&request.path),
        });
        let this = || Fetcher::new(vec!["127.0.0.1".to_owned()]);
        assert_eq!(this().get(&server.at("/far")).expect("two steps"), b"bytes");
        assert_eq!(anywhere().get(&server.at("/named")).expect("anywhere is allowed"), b"bytes");
        insta::assert_snapshot!(refusal(this().get(&server.at("/named"))), @"the host `localhost` is not among those that the pipeline allows");
        assert_eq!(refusal(this().get(&server.at("/loop"))), format!("`{}` redirects more than 5 times", server.at("/loop")));
    }

    #[test]
    fn a_host_that_is_not_allowed_is_not_even_asked() {
        let server = Server::start(|_| Reply::ok("secret"));
        let fetcher = Fetcher::new(vec!["example.org".to_owned()]);
        insta::assert_snapshot!(refusal(fetcher.get(&server.at("/"))), @"the host `127.0.0.1` is not among those that the pipeline allows");
        assert_eq!(server.requests().len(), 0);
    }

    #[test]
    fn credentials_stay_with_the_host_that_asked_for_them() {
        let server = Server::start(|request| match request.path.as_str() {
            "/moved" => redirect("/here"),
            _ => Reply::ok(request.header("authorization").unwrap_or("none")),
        });
        let headers = [("authorization", "Bearer t"), ("accept", "x")];
        let text = |path: &str| {
            let url = server.at(path);
            String::from_utf8(read(&url, anywhere().request(&url, &headers).expect("a response")).expect("read")).expect("UTF-8")
        };
        assert_eq!(text("/here"), "Bearer t");
        assert_eq!(text("/moved"), "none");
    }

    #[test]
    fn a_response_without_end_is_cut_off() {
        let server = Server::start(|_| Reply::endless());
        let url = server.at("/");
        assert_eq!(refusal(anywhere().get(&url)), format!("`{url}` is larger than 67108864 bytes"));
    }

    #[test]
    fn a_response_that_breaks_off_is_an_error() {
        let server = Server::start(|_| Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf"));
        let url = server.at("/");
        assert_eq!(refusal(anywhere().get(&url)), format!("`{url}` broke off"));
    }

    #[test]
    fn nobody_there_is_said() {
        let url = Server::start(|_| Reply::ok("")).at("/");
        assert_eq!(refusal(anywhere().get(&url)), format!("`{url}` could not be fetched"));
    }

    #[test]
    fn only_what_cannot_be_listened_to_goes_unencrypted() {
        for good in
            ["https://example.org/a", "http://localhost/a", "http://127.0.0.1:80/a", "http://127.9.9.9/", "http://[::1]:1/"]
        {
            assert!(parse(good).is_ok(), "{good}");
        }
        let bad = [
            "http://example.org/a",
            "http://10.0.0.1/",
            "http://127.0.0.1.example.org/",
            "http://[::2]/",
            "ftp://localhost/",
            "file:///etc/passwd",
            "/etc/passwd",
            "",
            "https://user:password@example.org/",
            "http://user@localhost/",
        ];
        for bad in bad {
            assert!(matches!(parse(bad), Err(FetchError::Address(_))), "{bad}");
        }
    }

    #[test]
    fn a_redirect_leads_where_it_may() {
        let from = "https://example.org:444/a/b";
        let next = |location| next_address(from, location).map_err(|error| error.to_string());
        assert_eq!(next("/c?d"), Ok("https://example.org:444/c?d".to_owned()));
        assert_eq!(next("https://cdn.example.org/c"), Ok("https://cdn.example.org/c".to_owned()));
        for bad in ["", "c", "//evil.example.org/", "http://example.org/", "file:///etc/passwd"] {
            assert!(next(bad).is_err(), "{bad}");
        }
        insta::assert_snapshot!(next("http://127.0.0.1:6443/api").expect_err("inwards"), @"`https://example.org:444/a/b` redirects to `http://127.0.0.1:6443/api`, which is on this machine");
        assert!(next("https://localhost/").is_err(), "encrypted or not");
    }

    proptest! {
        #[test]
        fn whatever_an_address_is_it_is_read_or_refused(url in "\\PC{0,60}", location in "\\PC{0,60}") {
            let _ = parse(&url);
            let _ = next_address("https://example.org/", &location);
        }
    }
}
