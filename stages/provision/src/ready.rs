//! Asking a target whether it is ready, until it is or its time is over.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use assay_manifest::{Probe, Target};
use assay_stage::{Context, Failure};

use crate::answered;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one question may take.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// The most that is read of an answer: its status line.
const MAX_ANSWER_BYTES: u64 = 4096;

/// Waits until the target answers at its address, over HTTP where it has a path for that.
pub(crate) fn wait(ctx: &Context, target: &Target) -> Result<Vec<Probe>, Failure> {
    let Some(url) = &target.url else {
        return Err(Failure::definition(
            "target_url",
            format!("target `{}` has no address at which it could be asked", target.name),
        ));
    };
    let place = Place::of(url)
        .ok_or_else(|| Failure::definition("target_url", format!("target `{}`: `{url}` is not an address", target.name)))?;
    let limit = Duration::from_nanos(target.ready_timeout_ns.0);
    let watch = ctx.clock().start();
    let mut last = "nothing was asked yet".to_owned();
    while watch.elapsed_ns() <= target.ready_timeout_ns.0 {
        ctx.check_cancelled()?;
        match place.ask(target.ready_http.as_deref()) {
            Ok(answer) => return Ok(vec![answered(place.question(target.ready_http.as_deref()), answer, watch.elapsed_ns())]),
            Err(why) => last = why,
        }
        ctx.cancel().wait_timeout(PAUSE);
    }
    Err(Failure::environment("target_not_ready", format!("target `{}` was not ready after {limit:?}: {last}", target.name))
        .hint("look into its log beside the stage's, or give it more time with `ready.timeout`"))
}

/// Host, port and scheme of an address.
struct Place {
    host: String,
    port: u16,
    is_tls: bool,
}

impl Place {
    fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = rest.split('/').next()?.rsplit('@').next()?;
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())) {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, if is_tls { 443 } else { 80 }),
        };
        Some(Self { host: host.trim_matches(['[', ']']).to_owned(), port, is_tls })
    }

    fn question(&self, path: Option<&str>) -> String {
        match path {
            Some(path) if !self.is_tls => format!("GET http://{}:{}{path}", self.host, self.port),
            _ => format!("connect to {}:{}", self.host, self.port),
        }
    }

    /// One question. Over TLS only the connection is asked for: what the endpoint says is execute's business.
    fn ask(&self, path: Option<&str>) -> Result<String, String> {
        let address = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| error.to_string())?.next();
        let address = address.ok_or_else(|| format!("`{}` has no address", self.host))?;
        let mut stream = TcpStream::connect_timeout(&address, ASK_LIMIT).map_err(|error| error.to_string())?;
        let Some(path) = path.filter(|_| !self.is_tls) else { return Ok("connected".to_owned()) };
        let status = self.status(&mut stream, path).map_err(|error| error.to_string())?;
        let is_ready = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        if is_ready { Ok(status) } else { Err(format!("`{path}` answered `{status}`")) }
    }

    fn status(&self, stream: &mut TcpStream, path: &str) -> std::io::Result<String> {
        stream.set_read_timeout(Some(ASK_LIMIT))?;
        stream.set_write_timeout(Some(ASK_LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}:{}\r\nconnection: close\r\n\r\n", self.host, self.port)?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
        let line = answer.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    }
}
