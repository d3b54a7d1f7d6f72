//! The target of requests: an address, a path and headers.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use assay_api::ServingApi;

use crate::address::{EndpointAddress, split_unix_url, unix_problem};
use crate::{Error, TlsSettings};

/// The maximum addresses that are tried for one name.
const MAX_ADDRESSES: usize = 16;
/// Headers that the load generator sets itself, or that would change the meaning of a request or a response.
const RESERVED: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "accept",
    "accept-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "keep-alive",
    "user-agent",
    "x-request-id",
    "traceparent",
];

/// The paths of an endpoint, from the path of its URL.
///
/// A URL may end in a version (`/v1`), in an API's complete path, or before both. Most APIs are below the version; other paths of
/// a server (`/health`, `/metrics`) are beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPaths {
    /// The part before the version: empty, or a path without a trailing slash.
    pub root: String,
    /// The same with the version: `/v1`.
    pub versioned: String,
}

impl EndpointPaths {
    /// Parses the path of a URL. If it has no version, `/v1` is added.
    pub fn parse(path: &str) -> Self {
        let path = path.trim_end_matches('/');
        let without = |api: &ServingApi| path.strip_suffix(below_version(api.path()));
        // The longest match: the path of one API may end like that of another.
        let before = ServingApi::ALL.iter().filter_map(without).min_by_key(|before| before.len());
        let base = before.unwrap_or(path);
        let (above, last) = base.rsplit_once('/').unwrap_or(("", base));
        let is_version = last.strip_prefix('v').is_some_and(|digits| digits.starts_with(|first: char| first.is_ascii_digit()));
        match (is_version, before) {
            (true, _) => Self { root: above.to_owned(), versioned: base.to_owned() },
            (false, Some(_)) => Self { root: base.to_owned(), versioned: base.to_owned() },
            (false, None) => Self { root: base.to_owned(), versioned: format!("{base}/v1") },
        }
    }

    /// Returns the path of an API or of a resource such as `/health` or `/v1/models`: one that begins with `/v1` is below the
    /// URL's own version, any other is beside it.
    pub fn resource_path(&self, path: &str) -> String {
        let below = below_version(path);
        if below.len() < path.len() { format!("{}{below}", self.versioned) } else { format!("{}{path}", self.root) }
    }
}

fn check_header_name(name: &str) -> Result<(), Error> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(header_error(name, "its name has characters that no header name has"));
    }
    if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(header_error(name, "the load generator writes it itself"));
    }
    Ok(())
}

fn header_error(name: &str, problem: &'static str) -> Error {
    Error::Header { name: name.chars().take(80).collect(), problem }
}

/// Returns a path without the version `/v1`, if it begins with it.
fn below_version(path: &str) -> &str {
    path.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(path)
}

/// The target of requests. `Debug` omits the values of its headers, which may be secrets.
#[derive(Clone)]
pub struct Endpoint {
    tls: bool,
    host: String,
    port: u16,
    path: String,
    query: Option<String>,
    /// The path of its socket, if it is a Unix socket.
    socket: Option<PathBuf>,
    addresses: Vec<EndpointAddress>,
    source: Option<IpAddr>,
    headers: Vec<(String, String)>,
    session_header: Option<String>,
    tls_settings: TlsSettings,
}

impl Endpoint {
    /// Parses `http://host:port/base` or `https://..`. A base path that ends in a version (`/v1`) is used as it is, any other
    /// gets `/v1` appended; a complete path of an API is left unchanged. Makes no DNS query.
    ///
    /// `unix:/path/to.sock` and `unix:/path/to.sock:/base` are endpoints at a Unix socket, without TLS. Their `host` header is `localhost`, as
    /// of `curl --unix-socket PATH http://localhost`.
    pub fn parse(url: &str) -> Result<Self, Error> {
        if let Some((socket, base)) = split_unix_url(url) {
            return Self::at_socket(url, socket, base);
        }
        let parsed = url::Url::parse(url).map_err(|_| refuse(url, "it is not a URL such as `http://127.0.0.1:8000`"))?;
        let tls = match parsed.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(refuse(url, "only http and https are spoken")),
        };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(refuse(url, "a user or password has no place in it; give a header"));
        }
        if parsed.fragment().is_some() {
            return Err(refuse(url, "a fragment (`#`) means nothing to an endpoint"));
        }
        Ok(Self {
            tls,
            host: parsed.host_str().unwrap_or_default().to_owned(),
            port: parsed.port_or_known_default().unwrap_or(if tls { 443 } else { 80 }),
            path: parsed.path().trim_end_matches('/').to_owned(),
            query: parsed.query().map(str::to_owned),
            socket: None,
            addresses: Vec::new(),
            source: None,
            headers: Vec::new(),
            session_header: None,
            tls_settings: TlsSettings::default(),
        })
    }

    fn at_socket(url: &str, socket: &str, base: &str) -> Result<Self, Error> {
        if let Some(problem) = unix_problem(socket, base) {
            return Err(refuse(url, problem));
        }
        let (path, query) = base.split_once('?').map_or((base, None), |(path, query)| (path, Some(query)));
        Ok(Self {
            tls: false,
            host: "localhost".to_owned(),
            port: 80,
            path: path.trim_end_matches('/').to_owned(),
            query: query.map(str::to_owned),
            socket: Some(PathBuf::from(socket)),
            addresses: Vec::new(),
            source: None,
            headers: Vec::new(),
            session_header: None,
            tls_settings: TlsSettings::default(),
        })
    }

    /// Resolves the host's addresses, once, so that no trial waits for DNS. They are tried in this order. A Unix socket has one address.
    pub fn resolve(mut self) -> Result<Self, Error> {
        if let Some(socket) = &self.socket {
            self.addresses = vec![EndpointAddress::Unix(socket.clone())];
            return Ok(self);
        }
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let found = (name, self.port).to_socket_addrs();
        let found = found.map_err(|source| Error::Resolve { host: self.host.clone(), source })?;
        self.addresses = found.take(MAX_ADDRESSES).map(EndpointAddress::Tcp).collect();
        if self.addresses.is_empty() { Err(Error::NoAddress { host: self.host }) } else { Ok(self) }
    }

    /// Adds a header to every request. Its value may be a secret: it is never shown.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        check_header_name(name)?;
        if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
            return Err(header_error(name, "its value has characters other than printable ASCII"));
        }
        self.headers.push((name.to_owned(), value.trim().to_owned()));
        Ok(self)
    }

    /// Adds a header to every request of a session, with 32 hexadecimal digits that name the session: routers send requests with equal
    /// values to the same server.
    pub fn with_session_header(mut self, name: &str) -> Result<Self, Error> {
        check_header_name(name)?;
        if self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err(header_error(name, "it is already set for every request"));
        }
        self.session_header = Some(name.to_owned());
        Ok(self)
    }

    /// Returns the name of the header that names the session of a request.
    pub(crate) fn session_header(&self) -> Option<&str> {
        self.session_header.as_deref()
    }

    /// Sets which certificates are accepted over TLS, and which one is shown.
    #[must_use]
    pub fn with_tls(mut self, settings: TlsSettings) -> Self {
        self.tls_settings = settings;
        self
    }

    /// Connects from this address of the host: each source address has some 28,000 ports.
    #[must_use]
    pub fn with_source(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Returns true if the scheme is `https`.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Returns the host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the addresses that [`Endpoint::resolve`] found.
    pub fn addresses(&self) -> &[EndpointAddress] {
        &self.addresses
    }

    /// Returns the path and query of the requests of an API with this path.
    pub fn target(&self, api_path: &str) -> String {
        let mut target = EndpointPaths::parse(&self.path).resource_path(api_path);
        if let Some(query) = &self.query {
            target.push('?');
            target.push_str(query);
        }
        target
    }

    /// Returns the `host` header: with the port unless it is the scheme's default.
    pub(crate) fn host_header(&self) -> String {
        if self.port == if self.tls { 443 } else { 80 } { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub(crate) fn tls_settings(&self) -> &TlsSettings {
        &self.tls_settings
    }

    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.source
    }
}

/// Returns the error for a URL. One with an `@` or a `?` may hold a secret and is shown only up to its scheme, which is enough to
/// find it.
fn refuse(url: &str, problem: &'static str) -> Error {
    let secret = url.find(['@', '?']).is_some();
    let shown =
        if secret { url.split("://").next().map_or_else(String::new, |scheme| format!("{scheme}://..")) } else { url.to_owned() };
    Error::Url { url: shown.chars().take(200).collect(), problem }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("tls", &self.tls)
            .field("host", &self.host)
            .field("port", &self.port)
            .field("path", &self.path)
            .field("addresses", &self.addresses)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = &self.socket {
            let colon = if self.path.is_empty() { "" } else { ":" };
            return write!(f, "unix:{}{colon}{}", socket.display(), self.path);
        }
        write!(f, "{}://{}:{}{}", if self.tls { "https" } else { "http" }, self.host, self.port, self.path)
    }
}

/// Returns the address at which the server of a URL listens: `HOST:PORT`, or the path of a Unix socket; `None` if the URL has none.
pub fn listen_address(url: &str) -> Option<String> {
    if let Some((socket, _)) = split_unix_url(url) {
        return socket.starts_with('/').then(|| socket.to_owned());
    }
    let endpoint = Endpoint::parse(url).ok()?;
    let host = endpoint.host().trim_matches(['[', ']']);
    Some(if host.contains(':') { format!("[{host}]:{}", endpoint.port()) } else { format!("{host}:{}", endpoint.port()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, api: ServingApi) -> String {
        Endpoint::parse(url).expect("an endpoint").target(api.path())
    }

    #[test]
    fn a_server_listens_at_the_address_of_its_url() {
        let address = |url: &str| listen_address(url);
        assert_eq!(address("http://127.0.0.1:8000/v1").as_deref(), Some("127.0.0.1:8000"));
        assert_eq!(address("https://[::1]/v1").as_deref(), Some("[::1]:443"));
        assert_eq!(address("unix:/run/a.sock:/v1").as_deref(), Some("/run/a.sock"));
        assert_eq!(address("127.0.0.1:8000"), None);
    }

    #[test]
    fn an_interface_is_found_from_the_path_of_another() {
        assert_eq!(target("http://h/v1/chat/completions", ServingApi::Embeddings), "/v1/embeddings");
        assert_eq!(target("http://h/v1/chat/completions", ServingApi::Completions), "/v1/completions");
        assert_eq!(target("http://h/v1/completions", ServingApi::Completions), "/v1/completions");
        assert_eq!(target("http://h/v2/rerank", ServingApi::Rerank), "/v2/rerank");
        assert_eq!(target("http://h/v3", ServingApi::Rerank), "/v3/rerank");
        assert_eq!(target("http://h/v1", ServingApi::RerankTei), "/rerank");
        assert_eq!(target("http://h/tei/rerank", ServingApi::RerankTei), "/tei/rerank");
    }

    #[test]
    fn a_base_path_gets_its_version_unless_it_has_one() {
        assert_eq!(target("http://h:8000", ServingApi::Chat), "/v1/chat/completions");
        assert_eq!(target("http://h:8000/", ServingApi::Completions), "/v1/completions");
        assert_eq!(target("http://h/openai/v1/", ServingApi::Embeddings), "/openai/v1/embeddings");
        assert_eq!(target("http://h/v2beta", ServingApi::Chat), "/v2beta/chat/completions");
        assert_eq!(target("http://h/vllm", ServingApi::Chat), "/vllm/v1/chat/completions");
        assert_eq!(
            target("https://h/d/x/chat/completions?api-version=1", ServingApi::Chat),
            "/d/x/chat/completions?api-version=1"
        );
    }

    #[test]
    fn what_stands_beside_the_interfaces_stands_beside_their_version() {
        let places =
            |path: &str| ["/health", "/v1/models", "/v1x"].map(|asked| EndpointPaths::parse(path).resource_path(asked)).join(" ");
        assert_eq!(places(""), "/health /v1/models /v1x");
        assert_eq!(places("/v1"), "/health /v1/models /v1x");
        assert_eq!(places("/v1/"), "/health /v1/models /v1x");
        assert_eq!(places("/openai/v2beta"), "/openai/health /openai/v2beta/models /openai/v1x");
        assert_eq!(places("/vllm"), "/vllm/health /vllm/v1/models /vllm/v1x");
        assert_eq!(places("/v1/chat/completions"), "/health /v1/models /v1x");
        assert_eq!(places("/d/x/embeddings"), "/d/x/health /d/x/models /d/x/v1x", "an address with a version of its own kind");
        assert_eq!(places("/video"), "/video/health /video/v1/models /video/v1x", "no version, for all its v");
    }

    #[test]
    fn the_host_header_names_a_port_that_is_not_the_schemes() {
        let header = |url: &str| Endpoint::parse(url).expect("an endpoint").host_header();
        assert_eq!(header("http://h"), "h");
        assert_eq!(header("https://h:443"), "h");
        assert_eq!(header("http://h:443"), "h:443");
        assert_eq!(header("http://[::1]:8000/v1"), "[::1]:8000");
    }

    #[test]
    fn addresses_are_found_and_kept() {
        let endpoint = Endpoint::parse("http://[::1]:8000").and_then(Endpoint::resolve).expect("resolved");
        assert_eq!(endpoint.addresses(), [EndpointAddress::Tcp("[::1]:8000".parse().expect("an address"))]);
        assert_eq!(endpoint.host(), "::1");
    }

    #[test]
    fn a_unix_socket_is_an_endpoint_whose_host_is_this_one() {
        assert_eq!(target("unix:/run/a.sock", ServingApi::Chat), "/v1/chat/completions");
        assert_eq!(target("unix:/run/a.sock:/openai/v1?x=1", ServingApi::Embeddings), "/openai/v1/embeddings?x=1");
        let endpoint = Endpoint::parse("unix:/run/a.sock:/v1").and_then(Endpoint::resolve).expect("an endpoint");
        assert_eq!(
            (endpoint.host_header(), endpoint.is_tls(), endpoint.to_string()),
            ("localhost".to_owned(), false, "unix:/run/a.sock:/v1".to_owned())
        );
        assert_eq!(endpoint.addresses(), [EndpointAddress::Unix("/run/a.sock".into())]);
    }

    #[test]
    fn what_is_no_endpoint_is_refused_and_secrets_are_not_shown() {
        for url in ["", "h:8000", "ftp://h", "http://", "http://h/#x", "unix:", "unix:a.sock", "unix://a.sock/", "unix:/a:v1"] {
            assert!(matches!(Endpoint::parse(url), Err(Error::Url { .. })), "{url}");
        }
        let error = Endpoint::parse("http://user:hunter2@h").expect_err("a password");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn a_header_that_would_change_the_request_is_refused() {
        let endpoint = Endpoint::parse("http://h").expect("an endpoint");
        for (name, value) in
            [("a b", "x"), ("", "x"), ("a", "x\r\nhost: y"), ("a", "\u{e9}"), ("Host", "y"), ("Content-Length", "1")]
        {
            assert!(matches!(endpoint.clone().with_header(name, value), Err(Error::Header { .. })), "{name}");
        }
        let endpoint = endpoint.with_header("Authorization", "Bearer hunter2").expect("a header");
        assert!(!format!("{endpoint:?} {endpoint}").contains("hunter2"));
        assert!(format!("{endpoint:?}").contains("Authorization"));
    }
}
