//! Readiness of a target: polls it until it is ready or its time limit has passed.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use assay_load::{Endpoint, split_unix_url};
use assay_manifest::{Count, Probe, Target, TargetKind};
use assay_probe::{Client, RequestError, endpoint_url};
use assay_process::Cancel;
use assay_stage::{Clock, ErrorCode, Failure};

use crate::client_certificate::client_certificate_failure;
use crate::target_end::TargetEnd;

/// The polling interval.
const PAUSE: Duration = Duration::from_millis(100);

/// The timeout of one check.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// Waits until the target is ready at `address`: by an HTTP request if a path is given, else by a connection. After each check it
/// fails if a held target has ended: the response then came from another process. A server that does not accept the client certificate is
/// not waited for.
pub(crate) fn wait(
    clock: Clock,
    cancel: &Cancel,
    client: &Client,
    target: &Target,
    address: &str,
    path: Option<&str>,
    end: Option<&TargetEnd>,
) -> Result<Probe, Failure> {
    let check = ReadyCheck::new(target, address, path)?;
    let watch = clock.start();
    loop {
        if cancel.is_cancelled() {
            return Err(Failure::cancelled(cancel.reason().unwrap_or("stopped")));
        }
        let response = check.run(client);
        end.map_or(Ok(()), TargetEnd::check)?;
        let why = match response {
            Ok(response) => {
                let waited_ns = Count(watch.elapsed_ns());
                return Ok(Probe { request: check.to_string(), ready: true, response, waited_ns });
            }
            Err(Unready::Certificate(problem)) => return Err(client_certificate_failure(target, problem)),
            Err(Unready::Yet(why)) => why,
        };
        if watch.elapsed_ns() >= target.ready_timeout_ns.0 {
            return Err(not_ready(target, address, &check, &why));
        }
        cancel.wait_timeout(PAUSE);
    }
}

/// Returns the failure of a target that did not become ready. An endpoint has no log here: if it was started at all, another
/// party started it.
fn not_ready(target: &Target, address: &str, check: &ReadyCheck, why: &str) -> Failure {
    let limit = Duration::from_nanos(target.ready_timeout_ns.0);
    let hint = match target.kind {
        TargetKind::Endpoint | TargetKind::InferenceService => {
            format!("is a server up at `{address}`? Assay tried `{check}` until then; `ready.timeout` gives the server more time")
        }
        _ => "look into its log beside the stage's, or give it more time with `ready.timeout`".to_owned(),
    };
    Failure::new(ErrorCode::TargetNotReady, format!("target `{}` was not ready after {limit:?}: {why}", target.name)).hint(hint)
}

/// The reason why a check failed.
#[derive(Debug)]
enum Unready {
    /// The target may be ready later.
    Yet(String),
    /// Its server does not accept the client certificate, or misses it.
    Certificate(&'static str),
}

/// A readiness check.
#[derive(Debug, PartialEq, Eq)]
enum ReadyCheck {
    /// Ready if this URL responds with a status of success; the body is not waited for.
    Http { url: String, path: String },
    /// Ready if the address accepts a connection.
    Connect { host: String, port: u16 },
    /// Ready if the Unix socket accepts a connection.
    ConnectUnix { socket: PathBuf },
}

impl fmt::Display for ReadyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { url, .. } => write!(f, "GET {url}"),
            Self::Connect { host, port } => write!(f, "connect to {host}:{port}"),
            Self::ConnectUnix { socket } => write!(f, "connect to unix:{}", socket.display()),
        }
    }
}

impl ReadyCheck {
    fn new(target: &Target, address: &str, path: Option<&str>) -> Result<Self, Failure> {
        let bad = |what: String| Failure::new(ErrorCode::TargetUrl, format!("target `{}` {what}", target.name));
        let no_address = || bad(format!("is at `{address}`, which is not an address"));
        let connect = if let Some((socket, _)) = split_unix_url(address) {
            Endpoint::parse(address).map_err(|error| no_address().because(&error))?;
            Self::ConnectUnix { socket: PathBuf::from(socket) }
        } else {
            let HostPort { host, port, .. } = parse_address(address).ok_or_else(no_address)?;
            Self::Connect { host, port }
        };
        match path {
            None => Ok(connect),
            Some(path) if is_path(path) => Ok(Self::Http { url: endpoint_url(address, path), path: path.to_owned() }),
            Some(path) => Err(bad(format!("is to be asked for `{}`, which is not a path", path.escape_debug()))),
        }
    }

    fn run(&self, client: &Client) -> Result<String, Unready> {
        match self {
            Self::Http { url, path } => {
                let status = client.get_status(url, ASK_LIMIT).map_err(|error| match error {
                    RequestError::ClientCertificate(problem) => Unready::Certificate(problem),
                    error => Unready::Yet(error.to_string()),
                })?;
                let text = Client::status_text(status);
                if (200..300).contains(&status) { Ok(text) } else { Err(Unready::Yet(format!("`{path}` returned `{text}`"))) }
            }
            Self::Connect { host, port } => connect(host, *port).map_err(Unready::Yet),
            Self::ConnectUnix { socket } => match UnixStream::connect(socket) {
                Ok(_) => Ok("connected".to_owned()),
                Err(error) => Err(Unready::Yet(error.to_string())),
            },
        }
    }
}

/// Connects once to each address of the host: `localhost` has two on most machines, and a server often listens on one.
fn connect(host: &str, port: u16) -> Result<String, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut last = format!("`{host}` has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, ASK_LIMIT) {
            Ok(_) => return Ok("connected".to_owned()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// Returns true if the path cannot break out of the request line.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The host and port of an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
}

pub(crate) fn parse_address(url: &str) -> Option<HostPort> {
    let (scheme, rest) = url.split_once("://")?;
    let (is_tls, usual_port) = match scheme {
        "http" => (false, 80),
        "https" => (true, 443),
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())) {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, usual_port),
    };
    let host = host.trim_matches(['[', ']']);
    (!host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic())).then(|| HostPort {
        host: host.to_owned(),
        port,
        is_tls,
    })
}

#[cfg(test)]
mod tests;
