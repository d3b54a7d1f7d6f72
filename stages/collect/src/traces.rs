//! Receives spans of the servers under test while the recorder runs: OTLP over HTTP/1.1, on a loopback address.
//!
//! A port that is taken, and requests that are none, fail no run: the former is a gap with its reason, and the latter are refused and noted.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use assay_stage::{Failure, Stopwatch, with_causes};
use assay_telemetry::traces::{Encoding, PATH, ReceivedSpans, parse_spans, refusal_line};
use assay_telemetry::{ScrapeLine, Source};

use crate::reading_file::{Reading, ReadingFile};
use crate::record::RecordedSource;
use crate::source_threads::{Messages, SourceThreads};

/// The requests of a receiver. There is none while no request is served, so none is late.
const READING: Reading = Reading { nouns: ("request", "requests"), late: None };

/// The most connections at one time: an exporter has one.
const MAX_CONNECTIONS: usize = 32;

/// The largest head and body of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_BODY_BYTES: usize = 8 << 20;

/// The most fields of a head.
const MAX_FIELDS: usize = 64;

/// The time in which the bytes of a request have to follow each other, and the next request of a connection the one before.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time in which a response has to be read.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// The requests that wait to be written.
const MAX_WAITING: usize = 64;

/// The most refused requests that are kept one by one.
const MAX_REFUSED: u64 = 100;

/// Starts a thread that receives spans until the recorder ends.
pub(crate) fn start(
    threads: &mut SourceThreads,
    source: &Source,
    address: &str,
    path: &Path,
    watch: Stopwatch,
) -> Result<(), Failure> {
    let file = ReadingFile::create(source, READING, path, watch)?;
    let (sender, received) = sync_channel(MAX_WAITING);
    let (open, unopened) = match listen(address, sender.clone()) {
        Ok(open) => (Some(open), None),
        Err(why) => (None, Some(why)),
    };
    // The writer ends when nothing can send to it any more.
    let stop = move || drop((open, sender));
    threads.start(source.to_string(), stop, move |messages| write(file, &received, unopened, messages))
}

/// A receiver that is open until it is dropped.
struct OpenReceiver {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    connections: Connections,
}

impl Drop for OpenReceiver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect_timeout(&self.address, Duration::from_millis(500)));
        // What was received is written; a server that keeps its connection open is not waited for.
        for (_, stream) in self.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// The open connections, to be closed when the recorder ends.
type Connections = Arc<Mutex<Vec<(usize, TcpStream)>>>;

/// The spans of a request, or the reason why it was refused.
type Received = Result<ReceivedSpans, String>;

/// Listens at an address and serves its connections, each in a thread; returns the reason if it cannot.
fn listen(address: &str, sender: SyncSender<Received>) -> Result<OpenReceiver, String> {
    let unopened = |error: std::io::Error| format!("cannot listen at `{address}`: {error}");
    let listener = TcpListener::bind(address).map_err(unopened)?;
    let bound = listener.local_addr().map_err(unopened)?;
    let (is_over, connections) = (Arc::new(AtomicBool::new(false)), Connections::default());
    let accepting = Accepting { is_over: is_over.clone(), connections: connections.clone(), sender };
    std::thread::Builder::new().name("otlp".to_owned()).spawn(move || accepting.run(&listener)).map_err(unopened)?;
    Ok(OpenReceiver { address: bound, is_over, connections })
}

struct Accepting {
    is_over: Arc<AtomicBool>,
    connections: Connections,
    sender: SyncSender<Received>,
}

impl Accepting {
    fn run(self, listener: &TcpListener) {
        let (count, mut number) = (Arc::new(AtomicUsize::new(0)), 0);
        for stream in listener.incoming() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let Ok(stream) = stream else { continue };
            if count.load(Ordering::SeqCst) >= MAX_CONNECTIONS {
                drop(respond(&stream, "503 Service Unavailable", Encoding::Json, false));
                continue;
            }
            number += 1;
            self.serve(stream, number, &count);
        }
    }

    fn serve(&self, stream: TcpStream, number: usize, count: &Arc<AtomicUsize>) {
        let Ok(kept) = stream.try_clone() else { return };
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push((number, kept));
        if self.is_over.load(Ordering::SeqCst) {
            return;
        }
        count.fetch_add(1, Ordering::SeqCst);
        let (sender, open, connections) = (self.sender.clone(), count.clone(), self.connections.clone());
        let serve = move || {
            serve(&stream, &sender);
            connections.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != number);
            open.fetch_sub(1, Ordering::SeqCst);
        };
        // Without a thread, the connection is closed.
        if std::thread::Builder::new().name("otlp".to_owned()).spawn(serve).is_err() {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Serves the requests of a connection, one after the other, until one is none.
fn serve(stream: &TcpStream, sender: &SyncSender<Received>) {
    if stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(WRITE_LIMIT))).is_err() {
        return;
    }
    let mut bytes = Vec::new();
    loop {
        let request = match read_request(stream, &mut bytes) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(Refusal { status, why }) => {
                drop(sender.send(Err(why)));
                drop(respond(stream, status, Encoding::Json, false));
                return;
            }
        };
        let parsed = parse_spans(request.encoding, &request.body).map_err(|error| with_causes(&error));
        let status = if parsed.is_ok() { "200 OK" } else { "400 Bad Request" };
        let is_received = sender.send(parsed).is_ok();
        if !is_received || respond(stream, status, request.encoding, request.keeps_alive).is_err() || !request.keeps_alive {
            return;
        }
    }
}

/// A request for the path of spans.
struct SpanRequest {
    encoding: Encoding,
    keeps_alive: bool,
    body: Vec<u8>,
}

/// The reason why a request is refused, and the status of the response.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: &'static str,
    why: String,
}

fn refuse<T>(status: &'static str, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { status, why: why.into() })
}

/// Reads the next request. `bytes` holds what was read beyond the one before. `None` at the end of the connection.
fn read_request(mut stream: impl Read, bytes: &mut Vec<u8>) -> Result<Option<SpanRequest>, Refusal> {
    let (head, length) = loop {
        if let Some(found) = parse_head(bytes)? {
            break found;
        }
        if bytes.len() >= MAX_HEAD_BYTES {
            return refuse("431 Request Header Fields Too Large", format!("a head has more than {MAX_HEAD_BYTES} bytes"));
        }
        if read_more(&mut stream, bytes) == 0 {
            return if bytes.is_empty() { Ok(None) } else { refuse("408 Request Timeout", "a head was cut") };
        }
    };
    while bytes.len() < length + head.body_bytes {
        if read_more(&mut stream, bytes) == 0 {
            return refuse("408 Request Timeout", "a body was cut");
        }
    }
    let rest = bytes.split_off(length + head.body_bytes);
    let body = std::mem::replace(bytes, rest).split_off(length);
    Ok(Some(SpanRequest { encoding: head.encoding, keeps_alive: head.keeps_alive, body }))
}

/// Reads more bytes; 0 at the end of the connection, and if none come in time.
fn read_more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> usize {
    let mut part = [0; 16 << 10];
    loop {
        match stream.read(&mut part) {
            Ok(read) => {
                bytes.extend_from_slice(part.get(..read).unwrap_or_default());
                return read;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return 0,
        }
    }
}

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    encoding: Encoding,
    keeps_alive: bool,
    body_bytes: usize,
}

/// Parses the head at the beginning of some bytes, and returns it with its length; `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return refuse("400 Bad Request", format!("a request is not HTTP/1.1: {error}")),
    };
    let field = |name: &str| {
        let found = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.and_then(|field| std::str::from_utf8(field.value).ok()).map(str::trim)
    };
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    if path != PATH {
        return refuse("404 Not Found", format!("a request is for another path than `{PATH}`"));
    }
    if request.method != Some("POST") {
        return refuse("405 Method Not Allowed", "a request is no POST");
    }
    let Some(encoding) = Encoding::of(field("content-type").unwrap_or_default()) else {
        return refuse("415 Unsupported Media Type", "a request is neither `application/x-protobuf` nor `application/json`");
    };
    if field("content-encoding").is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return refuse("415 Unsupported Media Type", "a request is compressed; set `OTEL_EXPORTER_OTLP_COMPRESSION=none`");
    }
    let Some(body_bytes) = field("content-length").and_then(|length| length.parse().ok()) else {
        return refuse("411 Length Required", "a request has no `content-length`");
    };
    if body_bytes > MAX_BODY_BYTES {
        return refuse("413 Content Too Large", format!("a body has more than {MAX_BODY_BYTES} bytes"));
    }
    let keeps_alive = request.version == Some(1) && !field("connection").is_some_and(|field| field.eq_ignore_ascii_case("close"));
    Ok(Some((Head { encoding, keeps_alive, body_bytes }, length)))
}

fn respond(mut stream: &TcpStream, status: &str, encoding: Encoding, keeps_alive: bool) -> std::io::Result<()> {
    // An empty message in protobuf has no bytes.
    let (content_type, body) = match encoding {
        Encoding::Protobuf => ("application/x-protobuf", ""),
        Encoding::Json => ("application/json", "{}"),
    };
    let connection = if keeps_alive { "keep-alive" } else { "close" };
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: {connection}\r\n\r\n{body}"
    );
    stream.write_all(response.as_bytes())
}

/// Writes what is received until the receiver is closed and all of its connections have ended.
fn write(
    mut file: ReadingFile,
    received: &Receiver<Received>,
    unopened: Option<String>,
    messages: &Messages,
) -> Result<RecordedSource, Failure> {
    messages.first();
    let (mut refused, mut is_full) = (0, false);
    if let Some(why) = unopened {
        messages.note(format!("{} records no spans: {why}", file.source().description()));
        let now = file.now();
        file.write(now, &ScrapeLine { at: now.at, took_ns: 0, status: None, body: None, error: Some(why) })?;
    }
    while let Ok(next) = received.recv() {
        match next {
            // What is received beyond the limit is not kept.
            _ if is_full => {}
            Ok(spans) => {
                let note = (spans.refused > 0).then(|| refusal_line(&format!("{} spans have no usable ids", spans.refused)));
                let lines: Vec<String> = spans.spans.iter().map(ToString::to_string).chain(note).collect();
                keep(&mut file, lines.join("\n"))?;
                if let Some(full) = file.reason_if_full() {
                    messages.note(full);
                    is_full = true;
                }
            }
            Err(why) => {
                refused += 1;
                if refused == 1 {
                    messages.note(format!("{} refuses a request: {why}", file.source().description()));
                }
                if refused <= MAX_REFUSED {
                    keep(&mut file, refusal_line(&why))?;
                }
            }
        }
    }
    file.finish()
}

fn keep(file: &mut ReadingFile, lines: String) -> Result<(), Failure> {
    let now = file.now();
    file.write(now, &ScrapeLine { at: now.at, took_ns: 0, status: None, body: Some(lines), error: None })
}

#[cfg(test)]
mod tests;
