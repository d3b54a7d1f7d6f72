//! A scripted inference endpoint of plain threads: for responses that no real endpoint gives on purpose.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// An inference request as it was received.
pub(crate) struct Request {
    /// The index of the inference request on this server, from 0.
    pub(crate) number: usize,
    /// The first line and the headers.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// The server's action after it has sent the scripted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterResponse {
    /// It reads the next request of the connection.
    KeepAlive,
    /// It closes the connection.
    HangUp,
    /// It closes the connection, and accepts no further one.
    Leave,
}

/// A function that returns the response bytes to an inference request.
type Script = dyn Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync;

/// A server that listens until it is dropped, or leaves. It is healthy and lists one model, whatever it does to inference
/// requests.
pub(crate) struct Server {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    models: String,
    /// Returns the version after this many inference requests; `None` for a server that reports none.
    version: Option<fn(usize) -> usize>,
    script: Box<Script>,
    /// True if test requests are part of the script.
    scripts_test_requests: bool,
    tls: Option<Arc<ServerConfig>>,
    request_count: AtomicUsize,
    stopping: AtomicBool,
}

impl Server {
    /// Starts a server of `model` on a free port. It responds to test requests by itself, so the script gets only the load.
    pub(crate) fn start(model: &str, script: impl Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static) -> Self {
        Self::start_with(model, None, false, None, script)
    }

    /// Starts a server whose script gets test requests too.
    pub(crate) fn start_with_test_requests(
        model: &str,
        script: impl Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(model, None, true, None, script)
    }

    /// Starts a server over TLS, with a certificate that no machine trusts.
    pub(crate) fn start_over_tls(
        model: &str,
        script: impl Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
    ) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Self::start_with_tls(model, ServerConfig::builder().with_no_client_auth(), script).0
    }

    /// Starts a server over TLS that demands this client certificate; returns its own certificate in PEM, too.
    pub(crate) fn start_demanding(
        model: &str,
        client: CertificateDer<'static>,
        script: impl Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
    ) -> (Self, String) {
        let mut roots = RootCertStore::empty();
        roots.add(client).expect("an authority");
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().expect("a verifier");
        Self::start_with_tls(model, ServerConfig::builder().with_client_cert_verifier(verifier), script)
    }

    fn start_with_tls(
        model: &str,
        builder: ConfigBuilder<ServerConfig, WantsServerCert>,
        script: impl Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
    ) -> (Self, String) {
        let pair = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).expect("a key");
        let tls = builder.with_single_cert(vec![pair.cert.der().clone()], key);
        let server = Self::start_with(model, None, false, Some(Arc::new(tls.expect("a pair"))), script);
        (server, pair.cert.pem())
    }

    /// Starts a server whose version depends on the number of inference requests that it has received.
    pub(crate) fn start_with_version(
        model: &str,
        version: fn(usize) -> usize,
        script: impl Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(model, Some(version), false, None, script)
    }

    fn start_with(
        model: &str,
        version: Option<fn(usize) -> usize>,
        scripts_test_requests: bool,
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Request) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let models = format!(r#"{{"object": "list", "data": [{{"id": "{model}", "object": "model"}}]}}"#);
        let (script, scheme) = (Box::new(script), if tls.is_some() { "https" } else { "http" });
        let (request_count, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { models, version, script, scripts_test_requests, tls, request_count, stopping });
        let serving = Arc::clone(&shared);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&serving);
                thread::spawn(move || match &shared.tls {
                    None => shared.serve(stream, address),
                    Some(tls) => {
                        let connection = ServerConnection::new(Arc::clone(tls)).expect("a session");
                        shared.serve(StreamOwned::new(connection, stream), address);
                    }
                });
            }
        });
        Self { address, scheme, shared, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns the number of inference requests received.
    pub(crate) fn request_count(&self) -> usize {
        self.shared.request_count.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    /// Wakes the accepting thread, which waits for a connection, with a last one.
    fn stop(&self, address: SocketAddr) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(address);
    }

    fn serve(&self, stream: impl Read + Write, address: SocketAddr) {
        let mut reader = BufReader::new(stream);
        while let Some((head, body)) = read_request(&mut reader) {
            let (bytes, then) = self.respond(head, body);
            if then == AfterResponse::Leave {
                self.stop(address);
            }
            let stream = reader.get_mut();
            if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() || then != AfterResponse::KeepAlive {
                return;
            }
        }
    }

    fn respond(&self, head: String, body: Vec<u8>) -> (Vec<u8>, AfterResponse) {
        let mut words = head.split(' ');
        match (words.next(), words.next()) {
            (Some("POST"), _) if !self.scripts_test_requests && is_test_request(&head) => {
                (complete_stream(), AfterResponse::KeepAlive)
            }
            (Some("POST"), _) => {
                let number = self.request_count.fetch_add(1, Ordering::SeqCst);
                (self.script)(&Request { number, head, body })
            }
            (_, Some("/health")) => (json_response("200 OK", "{}"), AfterResponse::KeepAlive),
            (_, Some("/v1/models")) => (json_response("200 OK", &self.models), AfterResponse::KeepAlive),
            (_, Some("/version")) if self.version.is_some() => {
                let version = self.version.map(|version| version(self.request_count.load(Ordering::SeqCst))).unwrap_or_default();
                (json_response("200 OK", &format!(r#"{{"version": "{version}"}}"#)), AfterResponse::KeepAlive)
            }
            _ => (json_response("404 Not Found", "{}"), AfterResponse::KeepAlive),
        }
    }
}

/// Reads one request and returns its head and its body, or `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    let length = header(&head, "content-length").map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Returns true if the head is of the request that provision sends before anything is measured.
fn is_test_request(head: &str) -> bool {
    let digits = header(head, "x-request-id").map(str::as_bytes).unwrap_or_default();
    let bytes = digits.chunks(2).map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
    bytes.eq("assay test req. ".bytes().map(Some))
}

/// Returns a header's value.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Returns a complete response with a JSON body.
pub(crate) fn json_response(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Returns a stream of these events that is not complete.
pub(crate) fn open_stream(events: &[&str]) -> Vec<u8> {
    let mut wire = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        wire.extend_from_slice(format!("{:x}\r\ndata: {event}\n\n\r\n", event.len() + 8).as_bytes());
    }
    wire
}

/// A token event of a chat.
pub(crate) const TOKEN: &str = r#"{"choices":[{"index":0,"delta":{"content":"word"}}]}"#;

/// Returns a complete stream of a chat: two token events, and the endpoint's token counts.
pub(crate) fn complete_stream() -> Vec<u8> {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2,"total_tokens":22}}"#;
    let last = r#"{"choices":[{"index":0,"delta":{"content":" more"},"finish_reason":"stop"}]}"#;
    let mut wire = open_stream(&[TOKEN, last, usage, "[DONE]"]);
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}
