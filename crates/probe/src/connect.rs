//! The connections of requests: over TLS as the load generator makes them, and watched for HTTP/2.
//!
//! The connectors of ureq are outside its promise of stable interfaces: a new minor version may need changes here.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, OnceLock};

use assay_load::{TlsSettings, is_http2};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection, StreamOwned};
use ureq::unversioned::transport::time::Instant;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// The first byte of a frame of HTTP/2 from a server, which begins no response of HTTP/1.1.
const FRAME_BYTE: u8 = 0;
/// The bytes by which the first frame is recognized.
const FRAME_HEADER_BYTES: usize = 9;

/// The error of a server that speaks HTTP/2 and not HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Http2Only(&'static str);

impl Http2Only {
    /// It sent frames.
    pub(crate) const FRAMES: Self = Self("it responded to a request of HTTP/1.1 with HTTP/2");
    /// It offers HTTP/2 in the TLS handshake, and refuses HTTP/1.1.
    pub(crate) const ALPN: Self = Self("it refused HTTP/1.1 in the TLS handshake (ALPN)");

    /// Returns what the server did.
    pub(crate) fn reason(self) -> &'static str {
        self.0
    }
}

impl From<Http2Only> for ureq::Error {
    fn from(error: Http2Only) -> Self {
        Self::Io(io::Error::other(error))
    }
}

/// A connector that only forgets the type of a connection.
#[derive(Debug)]
pub(crate) struct Boxed;

impl<In: Transport> Connector<In> for Boxed {
    type Out = Box<dyn Transport>;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(|inner| Box::new(inner) as Box<dyn Transport>))
    }
}

/// A connector that adds TLS for `https`, with the configuration of the load generator, which offers HTTP/1.1.
pub(crate) struct HttpsConnector {
    settings: TlsSettings,
    config: OnceLock<Arc<ClientConfig>>,
}

impl HttpsConnector {
    pub(crate) fn new(settings: TlsSettings) -> Self {
        Self { settings, config: OnceLock::new() }
    }

    fn config(&self) -> Result<Arc<ClientConfig>, ureq::Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let config = self.settings.client_config().map_err(|error| ureq::Error::Io(io::Error::other(error)))?;
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }

    /// Shakes hands over a connection, within the time that connecting may take.
    fn shake_hands(&self, inner: Box<dyn Transport>, details: &ConnectionDetails<'_>) -> Result<TlsTransport, ureq::Error> {
        let host = details.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|error| ureq::Error::Io(io::Error::other(error)))?;
        let mut connection = ClientConnection::new(self.config()?, name)?;
        let mut socket = TransportAdapter::new(inner, details.current_time.clone());
        socket.set_timeout(rest_of(details));
        connection.complete_io(&mut socket).map_err(handshake_error)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(TlsTransport { buffers, stream: StreamOwned::new(connection, socket) })
    }
}

/// Returns the rest of the time that connecting may take: it began before the connection was made.
fn rest_of(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut timeout = details.timeout;
    let spent = match ((details.current_time)(), details.now) {
        (Instant::Exact(now), Instant::Exact(began)) => now.saturating_duration_since(began),
        _ => std::time::Duration::ZERO,
    };
    if !timeout.after.is_not_happening() {
        timeout.after = timeout.after.saturating_sub(spent).into();
    }
    timeout
}

fn handshake_error(error: io::Error) -> ureq::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => Http2Only::ALPN.into(),
        _ => error.into(),
    }
}

impl Connector<Box<dyn Transport>> for HttpsConnector {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<Box<dyn Transport>>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(inner) = chained else { return Ok(None) };
        if !details.needs_tls() || inner.is_tls() {
            return Ok(Some(inner));
        }
        Ok(Some(Box::new(self.shake_hands(inner, details)?)))
    }
}

impl fmt::Debug for HttpsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsConnector").finish_non_exhaustive()
    }
}

/// A connection with TLS.
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl TlsTransport {
    /// Returns the alert with which the server ended the connection, in place of an error of a write: it fails as soon as the connection is
    /// closed, with the alert still unread. What is left of a write that failed is written again before anything is read, so that reading
    /// fails like writing.
    fn received_alert(&mut self, error: io::Error) -> io::Error {
        while let Ok(1..) = self.stream.conn.read_tls(&mut self.stream.sock) {
            if let Err(alert) = self.stream.conn.process_new_packets() {
                return io::Error::other(alert);
            }
        }
        error
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output).map_err(|error| self.received_alert(error).into())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let is_closed = |error: &io::Error| matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        let amount = match self.stream.read(self.buffers.input_append_buf()) {
            Err(error) if is_closed(&error) => return Err(handshake_error(self.received_alert(error))),
            read => read.map_err(handshake_error)?,
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

/// A connector that recognizes HTTP/2 in the first bytes of a response.
#[derive(Debug)]
pub(crate) struct Http1Connector;

impl Connector<Box<dyn Transport>> for Http1Connector {
    type Out = Box<dyn Transport>;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<Box<dyn Transport>>) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(|inner| Box::new(Http1Transport { inner, is_begun: false }) as Box<dyn Transport>))
    }
}

/// A connection whose first bytes are looked at.
#[derive(Debug)]
struct Http1Transport {
    inner: Box<dyn Transport>,
    /// True once the first bytes have come.
    is_begun: bool,
}

impl Transport for Http1Transport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let is_progress = self.inner.await_input(timeout)?;
        if !std::mem::replace(&mut self.is_begun, true) {
            let is_short = |input: &[u8]| input.first() == Some(&FRAME_BYTE) && input.len() < FRAME_HEADER_BYTES;
            while is_short(self.inner.buffers().input()) && self.inner.await_input(timeout)? {}
            if is_http2(self.inner.buffers().input()) {
                return Err(Http2Only::FRAMES.into());
            }
        }
        Ok(is_progress)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
