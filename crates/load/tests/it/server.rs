//! A server of plain threads: one for each connection, each responding as its script says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

/// A received request.
pub(crate) struct Request {
    /// The index of the request at this server, from 0.
    pub(crate) number: usize,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The server's action after its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterResponse {
    KeepAlive,
    Close,
}

/// Responds to one request. Its writes are sent at once.
pub(crate) trait Script: Fn(&Request, &mut dyn Write) -> AfterResponse + Send + Sync + 'static {}
impl<F: Fn(&Request, &mut dyn Write) -> AfterResponse + Send + Sync + 'static> Script for F {}

/// A server that listens until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(script: impl Script) -> Self {
        Self::with(script, Some)
    }

    /// Starts a server. `wrap` turns each connection into the stream that requests are read from.
    pub(crate) fn with<S: Read + Write + 'static>(
        script: impl Script,
        wrap: impl Fn(TcpStream) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (connections, stopping) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let shared = Arc::new((script, wrap, AtomicUsize::new(0)));
        let (counted, stop) = (connections.clone(), stopping.clone());
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let shared = shared.clone();
                let stream = stream.expect("a connection");
                stream.set_nodelay(true).expect("no delay");
                thread::spawn(move || {
                    let (script, wrap, numbers) = &*shared;
                    if let Some(stream) = wrap(stream) {
                        serve(stream, numbers, script);
                    }
                });
            }
        });
        Self { address, connections, stopping, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

pub(crate) fn serve(mut stream: impl Read + Write, numbers: &AtomicUsize, script: &impl Script) {
    let mut unread = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut unread) {
        let number = numbers.fetch_add(1, Ordering::SeqCst);
        let then = script(&Request { number, head, body }, &mut stream);
        let _ = stream.flush();
        if then == AfterResponse::Close {
            return;
        }
    }
}

/// Reads one request; none if the connection is over.
fn request(stream: &mut impl Read, unread: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(unread[..end + 4].to_vec()).expect("a head in UTF-8");
            let length = header(&head, "content-length").expect("a length").parse::<usize>().expect("a number");
            while unread.len() < end + 4 + length {
                more(stream, unread)?;
            }
            let body = unread[end + 4..end + 4 + length].to_vec();
            unread.drain(..end + 4 + length);
            return Some((head, body));
        }
        more(stream, unread)?;
    }
}

fn more(stream: &mut impl Read, unread: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
    unread.extend_from_slice(&buffer[..count]);
    Some(())
}

/// Returns a header's value.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// A gate that opens once, for all waiting threads.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().expect("a lock") = true;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let guard = self.0.0.lock().expect("a lock");
        drop(self.0.1.wait_while(guard, |open| !*open).expect("a lock"));
    }
}

/// Returns a stream with these events, with chunked framing.
pub(crate) fn event_stream(events: &[&str]) -> Vec<u8> {
    let mut wire = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        wire.extend_from_slice(format!("{:x}\r\ndata: {event}\n\n\r\n", event.len() + 8).as_bytes());
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

/// Returns a valid stream of two token events.
pub(crate) fn good_stream() -> Vec<u8> {
    event_stream(&[
        r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ])
}

/// Sends a valid stream and keeps the connection.
pub(crate) fn good(_: &Request, stream: &mut dyn Write) -> AfterResponse {
    let _ = stream.write_all(&good_stream());
    AfterResponse::KeepAlive
}
