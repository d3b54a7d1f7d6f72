//! Requests over a Unix socket.
//!
//! A request line and its headers need the URL of a host. The path of a socket is in its first label, in hexadecimal digits, below a domain that no
//! name server knows: so the connector finds it, whatever else the URL says.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use assay_load::split_unix_url;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

/// The domain of the hosts that stand for sockets: `invalid` is reserved for names that do not exist (RFC 6761).
const DOMAIN: &str = ".socket.invalid";

/// Returns the URL that stands for one of a Unix socket; `None` for another URL.
pub(crate) fn http_url(url: &str) -> Option<String> {
    let (socket, path) = split_unix_url(url)?;
    let mut digits = String::with_capacity(2 * socket.len());
    for byte in socket.bytes() {
        let _ = write!(digits, "{byte:02x}");
    }
    Some(format!("http://{digits}{DOMAIN}{path}"))
}

/// Returns the path of the socket that a URL stands for.
pub(crate) fn socket_of(uri: &Uri) -> Option<PathBuf> {
    let digits = uri.host()?.strip_suffix(DOMAIN).filter(|digits| digits.len().is_multiple_of(2))?;
    let bytes = digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let path = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// A resolver that makes no query for the address of a Unix socket.
#[derive(Debug, Default)]
pub(crate) struct UnixResolver(DefaultResolver);

impl Resolver for UnixResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        if socket_of(uri).is_none() {
            return self.0.resolve(uri, config, timeout);
        }
        let mut addresses = self.empty();
        // The connector does not look at it.
        addresses.push(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
        Ok(addresses)
    }
}

/// A connector to Unix sockets; other connections are left to the next one.
#[derive(Debug)]
pub(crate) struct UnixConnector;

impl Connector<()> for UnixConnector {
    type Out = UnixTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<UnixTransport>, ureq::Error> {
        let Some(path) = socket_of(details.uri) else { return Ok(None) };
        let stream = UnixStream::connect(path)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

/// A connection to a Unix socket.
#[derive(Debug)]
pub(crate) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(limit(timeout))?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output).map_err(|error| timed_out(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(limit(timeout))?;
        let amount = self.stream.read(self.buffers.input_append_buf()).map_err(|error| timed_out(error, timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // Each request has a connection of its own.
        false
    }
}

/// Returns the time that is left, at least a millisecond, because 0 is no limit for a socket.
fn limit(timeout: NextTimeout) -> Option<Duration> {
    (!timeout.after.is_not_happening()).then(|| (*timeout.after).max(Duration::from_millis(1)))
}

fn timed_out(error: io::Error, timeout: NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_found_in_the_url_that_stands_for_it() {
        let url = http_url("unix:/run/a b.sock:/v1/models?x=1").expect("a URL");
        assert_eq!(url, "http://2f72756e2f6120622e736f636b.socket.invalid/v1/models?x=1");
        let uri: Uri = url.parse().expect("a URI");
        assert_eq!(socket_of(&uri), Some("/run/a b.sock".into()));
        for other in ["http://a/", "http://zz.socket.invalid/", "http://61.socket.invalid/", "http://2f7.socket.invalid/x"] {
            assert_eq!(other.parse().ok().and_then(|uri: Uri| socket_of(&uri)), None, "{other}");
        }
        assert_eq!(http_url("http://a/"), None);
    }
}
