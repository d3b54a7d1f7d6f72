//! Asking a target whether it is ready, until it is or its time is over.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use assay_manifest::{Probe, Target};
use assay_process::Cancel;
use assay_stage::{Clock, Failure};

use crate::answered;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one question may take.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// The most that is read of an answer: its status line.
const MAX_ANSWER_BYTES: usize = 4096;

/// Waits until the target answers at its address, over HTTP where it has a path for that.
pub(crate) fn wait(clock: Clock, cancel: &Cancel, target: &Target) -> Result<Vec<Probe>, Failure> {
    let question = Question::of(target)?;
    let watch = clock.start();
    loop {
        if cancel.is_cancelled() {
            return Err(Failure::cancelled(cancel.reason().unwrap_or("stopped")));
        }
        let why = match question.ask() {
            Ok(answer) => return Ok(vec![answered(question.to_string(), answer, watch.elapsed_ns())]),
            Err(why) => why,
        };
        if watch.elapsed_ns() >= target.ready_timeout_ns.0 {
            return Err(not_ready(target, &why));
        }
        cancel.wait_timeout(PAUSE);
    }
}

fn not_ready(target: &Target, why: &str) -> Failure {
    let limit = Duration::from_nanos(target.ready_timeout_ns.0);
    Failure::environment("target_not_ready", format!("target `{}` was not ready after {limit:?}: {why}", target.name))
        .hint("look into its log beside the stage's, or give it more time with `ready.timeout`")
}

/// What a target is asked, and where.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    host: String,
    port: u16,
    /// The path to ask for over HTTP; without one the connection is all that is asked for. Over TLS it is never more: what the
    /// endpoint says is execute's business.
    path: Option<String>,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, path } = self;
        match path {
            Some(path) => write!(f, "GET http://{host}:{port}{path}"),
            None => write!(f, "connect to {host}:{port}"),
        }
    }
}

impl Question {
    fn of(target: &Target) -> Result<Self, Failure> {
        let bad = |what: String| Failure::definition("target_url", format!("target `{}` {what}", target.name));
        let url = target.url.as_ref().ok_or_else(|| bad("has no address at which it could be asked".to_owned()))?;
        let (host, port, is_tls) = place_of(url).ok_or_else(|| bad(format!("is at `{url}`, which is not an address")))?;
        let path = target.ready_http.clone().filter(|_| !is_tls);
        match path {
            Some(path) if !is_path(&path) => {
                Err(bad(format!("is to be asked for `{}`, which is not a path", path.escape_debug())))
            }
            path => Ok(Self { host, port, path }),
        }
    }

    /// Asks once, at each address that the host has: `localhost` has two on most machines, and a server often listens on one.
    fn ask(&self) -> Result<String, String> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| error.to_string())?;
        let mut last = format!("`{}` has no address", self.host);
        for address in addresses {
            match self.ask_at(address) {
                Ok(answer) => return Ok(answer),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    fn ask_at(&self, address: SocketAddr) -> Result<String, String> {
        let mut stream = TcpStream::connect_timeout(&address, ASK_LIMIT).map_err(|error| error.to_string())?;
        let Some(path) = &self.path else { return Ok("connected".to_owned()) };
        let status = self.status(&mut stream, path).map_err(|error| error.to_string())?;
        let is_ready = status.starts_with("HTTP/") && status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        if is_ready { Ok(status) } else { Err(format!("`{path}` answered `{status}`")) }
    }

    /// The first line of the answer. A server that keeps the connection open, or drips its answer, is not waited for.
    fn status(&self, stream: &mut TcpStream, path: &str) -> io::Result<String> {
        let deadline = Instant::now() + ASK_LIMIT;
        stream.set_write_timeout(Some(ASK_LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}:{}\r\nconnection: close\r\n\r\n", self.host, self.port)?;
        let mut answer = Vec::new();
        let mut buffer = [0; 512];
        while !answer.contains(&b'\n') && answer.len() < MAX_ANSWER_BYTES {
            let left = deadline.saturating_duration_since(Instant::now());
            // A timeout of zero would mean none.
            stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match stream.read(&mut buffer)? {
                0 => break,
                read => answer.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            }
        }
        Ok(first_line(&answer))
    }
}

fn first_line(answer: &[u8]) -> String {
    let line = answer.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line).into_owned()
}

/// A path that cannot break out of the request's first line.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Host, port and whether it is TLS.
fn place_of(url: &str) -> Option<(String, u16, bool)> {
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
    (!host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic())).then(|| (host.to_owned(), port, is_tls))
}

#[cfg(test)]
mod tests;
